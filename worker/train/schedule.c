#include "train/schedule.h"

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

int schedule_microbatches(const struct plan *plan, int n_seqs)
{
    return min_int(plan->micro_batches, n_seqs);
}

struct schedule schedule_of(const struct plan *plan, int replica, int n_seqs)
{
    const struct plan_replica r = plan_replica(plan, replica);
    int n = schedule_microbatches(plan, n_seqs);

    return (struct schedule){.n_stages = r.n_stages,
                             .n_microbatches = plan_microbatches(plan, replica, n),
                             .is_serial = plan->is_serial,
                             .first_microbatch = plan_share_begin(plan, r.first_share, n)};
}

int schedule_in_flight(const struct schedule *s, int stage)
{
    return s->is_serial ? 1 : min_int(s->n_microbatches, s->n_stages - stage);
}

int schedule_length(const struct schedule *s)
{
    return 2 * s->n_microbatches;
}

struct schedule_op schedule_op(const struct schedule *s, int stage, int i)
{
    int warm_up = schedule_in_flight(s, stage) - 1;
    int steady = s->n_microbatches - warm_up; /* pairs of one forward and one backward */
    int in_steady = i - warm_up;
    int first = s->first_microbatch;

    if (i < warm_up)
        return (struct schedule_op){false, first + i};
    if (in_steady < 2 * steady && in_steady % 2 == 0)
        return (struct schedule_op){false, first + warm_up + in_steady / 2};
    if (in_steady < 2 * steady)
        return (struct schedule_op){true, first + in_steady / 2};
    return (struct schedule_op){true, first + in_steady - steady};
}
