/* The links of a pipeline on loopback, all in one process. */
#ifndef TESTS_TRAIN_LINKS_H
#define TESTS_TRAIN_LINKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "train/exchange.h"

#define LINKS_TIMEOUT_MS 5000

static inline bool links_join(const struct exchange *x, const struct plan_worker *peer)
{
    for (int i = 0; i < x->edges.n; i++)
        if (x->edges.list[i].peer == (uint32_t)peer->slot)
            return true;
    return false;
}

/* Open and connect the links of all workers; `exchanges` has one entry for each. The workers get
 * slots of their own. */
static inline void links_connect(struct plan *plan, struct exchange *const *exchanges)
{
    int n = plan->n_workers;

    for (int s = 0; s < n; s++) {
        plan->workers[s].slot = 20 - s;
        plan->workers[s].incarnation = 1 + s;
    }
    for (int s = 0; s < n; s++) {
        struct exchange *x = exchanges[s];
        struct link_params p = {.listen_address = "127.0.0.1",
                                .worker = (uint32_t)plan->workers[s].slot,
                                .incarnation = (uint32_t)plan->workers[s].incarnation,
                                .edges = x->edges.list,
                                .dial_timeout_ms = LINKS_TIMEOUT_MS};

        x->edges = edges_of(plan, s);
        p.n_edges = x->edges.n;
        assert_int_equal(link_open(&p, &x->link, NULL), ERR_OK);
    }
    for (int s = 0; s < n; s++)
        for (int peer = 0; peer < n; peer++)
            if (links_join(exchanges[s], &plan->workers[peer]))
                assert_int_equal(link_set_peer(exchanges[s]->link,
                                               (uint32_t)plan->workers[peer].slot, "127.0.0.1",
                                               link_port(exchanges[peer]->link), NULL),
                                 ERR_OK);
    for (int s = 0; s < n; s++)
        assert_int_equal(link_wait_ready(exchanges[s]->link, LINKS_TIMEOUT_MS, NULL), ERR_OK);
}

#endif
