/* train/move.h - units on their way from worker to worker, before a session trains.
 *
 * The revision says which worker trains a unit and where the unit's state comes from. Where the two
 * differ, parameters and moments travel in pieces over a link of its own, which is closed before
 * the pipeline's is opened: its slots take no memory while the job trains. The leader's records
 * travel with the first unit. A unit that comes from a checkpoint in another worker's store travels
 * likewise; the giver reads it into memory that is used for nothing else.
 *
 * Every worker does its moves in unit order, so there is always one that both ends have reached:
 * no deadlock. A unit counts once all of it has arrived; the giver keeps its copy.
 * Layer: train (may use files wire api base). Threads: one.
 */
#ifndef TRAIN_MOVE_H
#define TRAIN_MOVE_H

#include "api/revision.h"
#include "files/store.h"
#include "train/exchange.h"
#include "train/history.h"
#include "train/state.h"

#define MOVE_PIECE_BYTES ((size_t)4 << 20)

/* One unit from a worker to another, both by number (revision_worker()). */
struct move {
    int unit;
    int from, to;
};

/* The moves of worker `self`, in unit order; returns how many: out[MODEL_UNITS_MAX]. */
int move_list(const struct revision *r, int self, struct move *out);

/* Do units move between any two workers? */
bool move_any(const struct revision *r);

struct move_params {
    const struct revision *revision;
    const struct peers *peers; /* by number of the worker */
    int self;
    struct link_params link; /* without edges */
    const atomic_bool *stops;
    int connect_ms;
    struct state *state; /* has the units to be given, and memory for those to be fetched */
    const struct store_reader *reader; /* has those to be given from a checkpoint; NULL: none */
    struct progress *progress;         /* both travel with the first unit */
    struct history *history;
};

/* Do all moves. Returns ERR_OK: what this worker fetches is whole, what it gives has arrived;
 * ERR_IO, ERR_PROTOCOL, ERR_TIMEOUT, ERR_GONE as an exchange, ERR_NO_MEMORY; ERR_INVALID when a
 * checkpoint is damaged. Units that have not arrived stay STATE_PARTIAL. */
MUST_CHECK enum err_code move_run(const struct move_params *p, struct err *err);

#endif
