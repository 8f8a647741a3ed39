/* fleet/follow.h - one attempt of a job from its first worker that listens to its last word.
 *
 * Hands the peer table to every stage until each has taken it, and asks the head how far it is.
 * The owner calls follow_step() between polls of the http loop; all else happens inside
 * http_poll(). Layer: fleet (may use http api base). Threads: one, that of the http loop.
 */
#ifndef FLEET_FOLLOW_H
#define FLEET_FOLLOW_H

#include "fleet/fleet.h"

#define FOLLOW_RETRY_MS   250  /* a worker that does not listen yet will soon */
#define FOLLOW_REFUSED_MS 5000 /* one that says no will not soon say yes */
#define FOLLOW_ASK_MS     500

struct follow;

/* Copies everything; `fleet` is borrowed. `control` has an address for each of peers->n_stages. */
MUST_CHECK enum err_code follow_new(struct fleet *fleet, const struct peers *peers,
                                    const struct fleet_address *control, struct follow **out,
                                    struct err *err);
/* Free it after fleet_free(), which cancels the calls that would still answer to it. NULL is
 * allowed. */
void follow_free(struct follow *f);

/* Start the calls that are due; returns the milliseconds until the next one is. */
int64_t follow_step(struct follow *f, int64_t now_ms);

/* What the head said last, NULL before. Borrowed until the next http_poll(). */
const struct progress *follow_head(const struct follow *f);
/* How many stages have taken the table. */
int follow_n_told(const struct follow *f);
/* Why a worker refuses the table: it has a different one, or another key. NULL when none does. */
const char *follow_refusal(const struct follow *f);
/* Why the last call failed that was worth a word; "" when all is well. */
const char *follow_trouble(const struct follow *f);

#endif
