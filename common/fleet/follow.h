/* fleet/follow.h - the calls to the workers of one attempt of a job, from start to end.
 *
 * Sends the peer table to every stage until each has it, and asks the leader for its status.
 * The owner calls follow_step() between polls of the http loop; all else happens inside
 * http_poll(). Layer: fleet (may use http api base). Threads: one, that of the http loop.
 */
#ifndef FLEET_FOLLOW_H
#define FLEET_FOLLOW_H

#include "fleet/fleet.h"

#define FOLLOW_ASK_MS 500 /* between two calls to the leader */

struct follow;

/* Copies everything; `fleet` is borrowed. `control` has an address for each of peers->n_stages. */
MUST_CHECK enum err_code follow_new(struct fleet *fleet, const struct peers *peers,
                                    const struct fleet_address *control, struct follow **out,
                                    struct err *err);
/* Only after fleet_free(), which cancels the calls that refer to it. NULL is allowed. */
void follow_free(struct follow *f);

/* Start the calls that are due; returns the milliseconds until the next one is. */
int64_t follow_step(struct follow *f, int64_t now_ms);

/* The leader's last report; NULL before the first. Borrowed until the next http_poll(). */
const struct progress *follow_head(const struct follow *f);
/* Why a worker refuses the table; NULL when none does. */
const char *follow_refusal(const struct follow *f);

#endif
