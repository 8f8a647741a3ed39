#include "fleet/contact.h"

#include <stdio.h>

#include "base/clock.h"

int64_t contact_wait_ms(const struct contact *c, int64_t now_ms)
{
    return c->call_after_ms > now_ms ? c->call_after_ms - now_ms : 0;
}

void contact_answered(struct contact *c, const struct err *err, bool was_table, int64_t now_ms,
                      int64_t max_ms)
{
    bool is_ok = err->code == ERR_OK;
    bool is_refusal =
        err->code == ERR_CONFLICT || err->code == ERR_INVALID || err->code == ERR_DENIED;

    c->is_busy = false;
    if (was_table) {
        c->has_table = is_ok;
        c->is_refused = is_refusal;
        if (is_refusal)
            (void)snprintf(c->refusal, sizeof c->refusal, "%s", err->text);
    }
    if (is_ok || is_refusal) { /* a refusal is an answer; silence and an invalid one are not */
        c->n_unanswered = 0;
        c->silent_since_ms = 0;
        c->call_after_ms = is_ok ? 0 : now_ms + CONTACT_REFUSED_MS;
        return;
    }
    if (c->n_unanswered++ == 0 || c->silent_since_ms == 0)
        c->silent_since_ms = now_ms;
    c->call_after_ms = now_ms + backoff_ms(c->n_unanswered, CONTACT_RETRY_MS, max_ms);
}
