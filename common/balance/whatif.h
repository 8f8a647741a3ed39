/* balance/whatif.h - what one node more or one node fewer would change.
 *
 * Layer: balance (may use api base). Threads: any.
 */
#ifndef BALANCE_WHATIF_H
#define BALANCE_WHATIF_H

#include "balance/request.h"

#define WHATIF_FEWER_MAX 8

struct whatif {
    int like;       /* one more node like this one, the fastest of the chosen ... */
    double more_ms; /* ... and the step would take so long */
    int n_fewer;    /* the chosen nodes, the bottleneck's alone when there are more than these */
    struct {
        int node;
        double step_ms; /* without it; negative: nothing would fit */
    } fewer[WHATIF_FEWER_MAX];
};

/* Plan again with a node more and with each chosen one away. Where the spec's micro_batches is 0,
 * not what choose_solve() made of it, M is chosen anew each time as well. Only strategy Optimal has
 * a choice; for the others all is left zero. ERR_NO_MEMORY. */
MUST_CHECK enum err_code whatif_solve(const struct partition_request *request,
                                      const struct placement *placement, struct whatif *out,
                                      struct err *err);

#endif
