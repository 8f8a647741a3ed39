/* The circle method: one stays, the others move on by one place per round, opposites are paired. */
#include "control/pairing.h"

#include <string.h>

#include "control/context.h"

#define PAIRING_WAIT_MS                                                                            \
    6000 /* for probes that start late; a probe itself waits a little longer                       \
          */

int pairing_rounds(int n)
{
    return n < 2 ? 0 : n - 1 + n % 2;
}

int pairing_partner(int n, int round, int i)
{
    int m = n + n % 2; /* with a dummy, if there is one too many */
    int partner;

    if (n < 2)
        return -1;
    if (i == m - 1) { /* who stays meets the one that would meet itself */
        for (partner = 0; (2 * partner - round) % (m - 1) != 0; partner++)
            ;
        return partner;
    }
    partner = ((round - i) % (m - 1) + m - 1) % (m - 1);
    if (partner == i)
        partner = m - 1;
    return partner < n ? partner : -1;
}

/* A probe that is only wanted so far is one to wait for, too. */
static bool is_complete(const struct context *c)
{
    for (int i = 0; i < c->out->n_actions; i++)
        if (c->out->actions[i].kind == ACTION_CREATE_PROBE_POD)
            return false;
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (p->role == POD_PROBE && !p->is_deleting &&
            (p->phase == POD_PENDING || (p->phase == POD_RUNNING && p->ip[0] == '\0')))
            return false;
    }
    return true;
}

static bool waits_for_table(const struct seen_pod *p)
{
    return p->role == POD_PROBE && !p->is_deleting && p->phase == POD_RUNNING && p->ip[0] &&
           !p->has_peers;
}

void pairing_begin(struct context *c)
{
    int64_t first_ms = INT64_MAX;
    int64_t left_ms;

    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        int64_t start_ms = p->started_ms;

        if (start_ms < p->created_ms || start_ms > c->seen->now_ms)
            start_ms = p->created_ms; /* its node's clock is another */

        if (waits_for_table(p) && start_ms < first_ms)
            first_ms = start_ms;
    }
    if (first_ms == INT64_MAX)
        return;
    left_ms = first_ms + PAIRING_WAIT_MS - c->seen->now_ms;
    if (left_ms > 0 && !is_complete(c)) {
        context_requeue(c, left_ms);
        return;
    }
    for (int i = 0; i < c->seen->n_pods; i++)
        if (waits_for_table(&c->seen->pods[i]))
            memcpy(context_add(c, ACTION_POST_PROBE_PEERS)->name, c->seen->pods[i].name,
                   NAMES_BYTES);
}
