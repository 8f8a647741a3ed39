#include "balance/choose.h"

#include <math.h>
#include <stdlib.h>

#define PER_STAGE 4 /* micro-batches: the pipeline is then idle for a fifth of the time at most */
#define SHORTER   (1 - 1e-9)

static int most_stages(const struct partition_request *r)
{
    int n = model_units(&r->spec->model);

    n = r->n_nodes < n ? r->n_nodes : n;
    return r->spec->placement.max_stages < n ? r->spec->placement.max_stages : n;
}

/* How many times larger or smaller. */
static double distance(int m, double typical)
{
    return fabs(log(m / typical));
}

/* Divisors of the batch size, in rising order: all, or those nearest to what is typical, and the
 * largest, which needs the least memory. Returns how many. */
static int list_tries(const struct partition_request *r, int n_max, int out[static CHOOSE_TRIES])
{
    int batch = r->spec->training.batch_size;
    double typical = PER_STAGE * most_stages(r);
    int n = 0;

    for (int m = 1; m <= batch && m <= CHOOSE_MICRO_MAX; m++) {
        if (batch % m != 0)
            continue;
        if (n == n_max) { /* the smallest goes if it is the farthest, else the one before this */
            bool drops_first = distance(out[0], typical) >= distance(m, typical);

            for (int i = drops_first ? 0 : n - 1; i < n - 1; i++)
                out[i] = out[i + 1];
            n--;
        }
        out[n++] = m;
    }
    return n;
}

/* The best of all tries. ERR_NOT_FOUND in the words of the last one, which needs least memory. */
static enum err_code solve_all(struct partition_request *request, struct spec *spec,
                               struct placement *best, struct err *err)
{
    struct placement *p = calloc(1, sizeof *p);
    int tries[CHOOSE_TRIES];
    int n = list_tries(
        request, request->n_nodes > CHOOSE_FEW_NODES ? CHOOSE_FEW_TRIES : CHOOSE_TRIES, tries);
    enum err_code rc = ERR_OK;

    if (!p)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", request->n_nodes);
    best->micro_batches = 0;
    for (int i = 0; i < n && (rc == ERR_OK || rc == ERR_NOT_FOUND); i++) {
        spec->training.micro_batches = tries[i];
        rc = partition_solve(request, p, err);
        if (rc == ERR_OK &&
            (best->micro_batches == 0 || p->predicted_step_ms < SHORTER * best->predicted_step_ms))
            *best = *p;
    }
    free(p);
    return rc == ERR_NOT_FOUND && best->micro_batches > 0 ? ERR_OK : rc;
}

enum err_code choose_solve(struct partition_request *request, struct spec *spec,
                           struct placement *out, struct err *err)
{
    struct placement *best;
    enum err_code rc;

    request->spec = spec;
    if (spec->training.micro_batches > 0)
        return partition_solve(request, out, err);
    best = calloc(1, sizeof *best);
    rc = best ? solve_all(request, spec, best, err)
              : err_set(err, ERR_NO_MEMORY, "planning on %d nodes", request->n_nodes);
    spec->training.micro_batches = rc == ERR_OK ? best->micro_batches : 0;
    if (rc == ERR_OK)
        *out = *best;
    free(best);
    return rc;
}
