/* fleet/follow.h - drives the workers of one job through its revisions: posts, watches, halts.
 *
 * The owner adds workers and sets a revision; the calls follow api/recover.h. Every worker is asked
 * for its report and the leader for its status. For programs that live as long as the job, such as
 * `kubectl skyjob run`; the operator keeps nothing in memory and makes the same decisions from what
 * it observes. Layer: fleet (may use http api base). Threads: one, that of the http loop.
 * All memory is taken by follow_new().
 */
#ifndef FLEET_FOLLOW_H
#define FLEET_FOLLOW_H

#include "api/recover.h"
#include "fleet/fleet.h"

#define FOLLOW_ASK_MS 250 /* for programs that people watch */

struct follow_worker {
    struct revision_worker id;
    struct fleet_address control;
    char host[PEERS_HOST_BYTES]; /* of tensors, for the other workers */
    int port;
};

struct follow;

/* `fleet` is borrowed. A running worker is polled every `ask_ms`, a halting one more often; a
 * call without an answer is repeated after `ask_ms` at the latest. ERR_NO_MEMORY. */
MUST_CHECK enum err_code follow_new(struct fleet *fleet, int64_t ask_ms, struct follow **out,
                                    struct err *err);
/* Only after fleet_free(), which cancels the calls that refer to it. NULL is allowed. */
void follow_free(struct follow *f);

/* Add a worker that has been started; it replaces an older incarnation. ERR_LIMIT. */
MUST_CHECK enum err_code follow_add(struct follow *f, const struct follow_worker *worker,
                                    struct err *err);
/* Remove one that is gone. An unknown slot is ignored. */
void follow_remove(struct follow *f, int slot);

/* Post this revision from now on; its workers have all been added. `spec` is as in
 * revision_write(). ERR_INVALID for a worker that is missing. */
MUST_CHECK enum err_code follow_revise(struct follow *f, const struct revision *r,
                                       const struct json *spec, struct err *err);
/* Halt all sessions. */
void follow_halt(struct follow *f);
/* Have the leader write a checkpoint; its status then has what became of it (api/progress.h). */
void follow_order_checkpoint(struct follow *f, int64_t order);
/* In RECOVER_END: let the leader go. */
void follow_release(struct follow *f);

/* Start the calls that are due; returns the milliseconds until the next one is. */
int64_t follow_step(struct follow *f, int64_t now_ms);

/* RECOVER_TELL before the first revision. In RECOVER_REVISE the owner sets the next one. */
enum recover_phase follow_phase(const struct follow *f);
/* The leader's last status in this revision; NULL before the first. Borrowed, like what follows,
 * until the next http_poll() or change. */
const struct progress *follow_progress(const struct follow *f);
/* What the workers hold, in RECOVER_REVISE; returns how many have reported. */
int follow_reports(const struct follow *f, const struct report *out[static PEERS_MAX]);
/* In RECOVER_HALT: the slot of a worker that counts as lost, see recover_is_overdue(). The owner
 * ends its process and removes it. -1: none. */
int follow_overdue(const struct follow *f, struct recover_patience patience, int64_t now_ms);
/* Why a worker refuses the revision; NULL when none does. */
const char *follow_refusal(const struct follow *f);

#endif
