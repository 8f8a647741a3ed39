#include "api/schedule.h"

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

int schedule_microbatches(const struct plan *plan, int n_seqs)
{
    return min_int(plan->micro_batches, n_seqs);
}

uint32_t schedule_computing(const struct plan *plan, int n_seqs)
{
    int n = schedule_microbatches(plan, n_seqs);
    uint32_t found = 0;

    for (int k = 0; k < plan_n_replicas(plan); k++)
        found |= (uint32_t)(plan_microbatches(plan, k, n) > 0) << k;
    return found;
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

struct schedule schedule_of_ticket(const struct plan *plan, int replica, int part, int n_seqs)
{
    int n_parts = plan_n_replicas(plan);
    int n = schedule_microbatches(plan, n_seqs);
    int first = part * n / n_parts;

    return (struct schedule){.n_stages = plan_replica(plan, replica).n_stages,
                             .n_microbatches = (part + 1) * n / n_parts - first,
                             .is_serial = plan->is_serial,
                             .first_microbatch = first};
}

double schedule_ticket_share(const struct plan *plan, int part, int n_seqs)
{
    return (double)schedule_of_ticket(plan, 0, part, n_seqs).n_microbatches /
           schedule_microbatches(plan, n_seqs);
}

int schedule_in_flight(const struct schedule *s, int stage)
{
    return s->is_serial ? 1 : min_int(s->n_microbatches, s->n_stages - stage);
}

int schedule_slots(const struct plan *plan, int worker)
{
    int replica = plan->workers[worker].replica;
    int stage = worker - plan_replica(plan, replica).first_worker;
    int batch = plan->spec.training.batch_size;
    const struct schedule step = schedule_of(plan, replica, batch);
    /* The last one is the largest. */
    const struct schedule ticket =
        schedule_of_ticket(plan, replica, plan_n_replicas(plan) - 1, batch);
    int in_step = schedule_in_flight(&step, stage);
    int in_ticket = spec_is_asynchronous(&plan->spec) ? schedule_in_flight(&ticket, stage) : 0;

    return in_step > in_ticket ? in_step : in_ticket;
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
