/* fleet/contact.h - one running worker as its caller sees it, and when it may be called.
 *
 * The same for operator and CLI: send the peer table until the worker has accepted or refused it,
 * and ask for status. The owner starts the calls, sets `is_busy` for the time of a call, and hands
 * every answer to contact_answered(). A worker that does not answer is called again after a pause
 * that doubles each time; one that refuses, after CONTACT_REFUSED_MS.
 * Layer: fleet (may use http api base). Threads: any; pure. Times are monotonic, in ms.
 */
#ifndef FLEET_CONTACT_H
#define FLEET_CONTACT_H

#include <stdint.h>

#include "base/err.h"

#define CONTACT_RETRY_MS   250  /* a worker that does not listen yet soon will; then doubled */
#define CONTACT_REFUSED_MS 5000 /* one that refuses will not soon change its mind */

struct contact {
    bool is_busy;            /* a call is under way */
    bool has_table;          /* has accepted the peer table */
    bool is_refused;         /* has refused it: it has another one, or another key */
    int n_unanswered;        /* calls in a row */
    int64_t silent_since_ms; /* of the first unanswered call in a row; 0: it answers */
    int64_t call_after_ms;
    char refusal[ERR_TEXT_BYTES]; /* its reason */
};

/* How long until the worker may be called; 0: now. */
int64_t contact_wait_ms(const struct contact *c, int64_t now_ms);

/* An answer has come (see struct fleet_handler), of a call that sent the peer table or of another.
 * Pauses are at most `max_ms` long. */
void contact_answered(struct contact *c, const struct err *err, bool was_table, int64_t now_ms,
                      int64_t max_ms);

#endif
