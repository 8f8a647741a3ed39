#include "train/desk.h"

#include <math.h>
#include <string.h>

#include "api/schedule.h"
#include "base/clock.h"
#include "base/thread.h"
#include "train/weights.h"

/* --- what is decided about a ticket --- */

struct step_end desk_decide(const struct plan *plan, const struct message_facts *facts,
                            int64_t step, int64_t updates, double share,
                            const struct message_sum *sum)
{
    const struct spec *spec = &plan->spec;
    double rate = optimizer_rate(spec, step, facts->total_steps);
    struct step_end out = {.revision = plan->revision,
                           .step = step + 1,
                           .rate = optimizer_share(spec, share) * rate,
                           .updates = updates,
                           .loss = message_loss_mean(&sum->loss)};
    double square_sum = 0;

    for (int u = 0; u < sum->n_units; u++)
        square_sum += sum->square_sums[u];
    if (share <= 0)
        out.outcome = STEP_SKIP;
    else if (isfinite(out.loss) && isfinite(square_sum))
        out.scale =
            optimizer_scale(square_sum / (share * share), spec->training.max_grad_norm) / share;
    else
        out.outcome = spec->training.non_finite == SPEC_NON_FINITE_FAIL ? STEP_FAIL : STEP_SKIP;
    return out;
}

/* --- the desk --- */

static bool is_any_writing(const struct desk *d)
{
    bool is_writing = false;

    for (int r = 0; r < d->n_replicas; r++)
        is_writing = is_writing || d->last[r].is_writing;
    return is_writing;
}

static bool has_any_failed(const struct desk *d)
{
    bool has_failed = false;

    for (int r = 0; r < d->n_replicas; r++)
        has_failed = has_failed || d->last[r].has_failed;
    return has_failed;
}

/* What the leader shows: all that is known of all replicas. */
static void tell(struct desk *d, struct message_end *out)
{
    int at = 0;

    out->ticket.steps_done = tickets_steps_done(&d->tickets);
    out->ticket.staleness = tickets_mean_staleness(&d->tickets);
    out->ticket.staleness_max = d->tickets.staleness_max;
    out->is_saved = !is_any_writing(d) && !has_any_failed(d);
    out->has_failed = !is_any_writing(d) && has_any_failed(d);
    out->end.loss = d->loss.n > 0 ? message_loss_mean(&d->loss) : d->told_loss;
    out->n_tokens = d->n_tokens;
    for (int r = 0; r < d->n_replicas; r++) {
        int n = plan_replica(d->p.plan, r).n_stages;

        if (d->last[r].n_stages == n) {
            memcpy(&out->stage_ms[at], d->last[r].stage_ms, (size_t)n * sizeof(double));
            memcpy(&out->stage_mad_ms[at], d->last[r].stage_mad_ms, (size_t)n * sizeof(double));
        }
        at += n;
    }
    out->n_stages = at;
}

/* A loss is of whole steps: it is summed up until another one is done. */
static void tell_leader(struct desk *d, struct message_end *out)
{
    tell(d, out);
    if (out->ticket.steps_done == d->told_steps)
        return;
    d->told_steps = out->ticket.steps_done;
    d->told_loss = out->end.loss;
    d->loss = (struct message_loss){0};
    d->n_tokens = 0;
}

static void take_back(struct desk *d, int replica, const struct message_sum *sum,
                      struct message_end *out)
{
    int64_t ticket = d->tickets.held[replica].ticket;
    int64_t step = tickets_step(ticket, d->n_replicas);
    int n_seqs = message_step_seqs(d->p.facts, d->p.plan->spec.training.batch_size, step);

    out->ticket.share =
        schedule_ticket_share(d->p.plan, tickets_part(ticket, d->n_replicas), n_seqs);
    out->end = desk_decide(d->p.plan, d->p.facts, step, d->p.updates + step - d->p.first_step,
                           out->ticket.share, sum);
    if (out->end.outcome == STEP_APPLY) {
        message_loss_add(&d->loss, &sum->loss);
        d->n_tokens += sum->n_tokens;
    }
    tickets_return(&d->tickets, replica, clock_now_ms(),
                   out->end.outcome != STEP_APPLY && out->ticket.share > 0);
    d->last[replica] = *sum;
    d->batches_ms[replica] += sum->batch_ms;
    d->n_batches[replica] += sum->batch_ms > 0;
    d->wants_checkpoint = d->wants_checkpoint || sum->wants_checkpoint;
    if (d->wants_checkpoint && !is_any_writing(d))
        tickets_close(&d->tickets);
    (void)pthread_cond_broadcast(&d->changed);
}

/* Also until the session ends: then it does not matter what the replica gets. */
static void await_turn(struct desk *d, int replica)
{
    int most = d->p.plan->spec.sync.max_staleness;
    enum err_code rc = ERR_OK;

    while (rc == ERR_OK && most > 0 && tickets_must_wait(&d->tickets, replica, most))
        rc = exchange_await(&d->exchange, &d->changed, &d->lock, NULL);
}

static void serve(struct desk *d, int replica, const struct message_sum *sum,
                  struct message_end *out)
{
    *out = (struct message_end){
        .end = {.revision = d->p.plan->revision, .step = d->p.first_step + 1, .outcome = STEP_SKIP},
        .ticket = {.next = -1}};
    (void)pthread_mutex_lock(&d->lock);
    if (sum)
        take_back(d, replica, sum, out);
    await_turn(d, replica);
    (void)tickets_take(&d->tickets, replica, clock_now_ms(), &out->ticket.next);
    if (replica == 0)
        tell_leader(d, out);
    (void)pthread_mutex_unlock(&d->lock);
}

void desk_serve(struct desk *d, const struct message_sum *sum, struct message_end *out)
{
    serve(d, 0, sum, out);
}

double desk_batch_ms(struct desk *d, int replica)
{
    double ms;

    (void)pthread_mutex_lock(&d->lock);
    ms = d->n_batches[replica] > 0 ? d->batches_ms[replica] / d->n_batches[replica] : 0;
    (void)pthread_mutex_unlock(&d->lock);
    return ms;
}

/* --- the threads --- */

static enum err_code serve_replica(struct desk *d, struct exchange *x, int replica, struct err *err)
{
    int64_t step = d->p.first_step;
    struct message_end end;
    enum err_code rc = ERR_OK;

    serve(d, replica, NULL, &end);
    while (rc == ERR_OK) {
        struct message_sum sum;

        rc = exchange_send(x, exchange_key(EDGE_ENDS_OUT + replica, MESSAGE_STEP_END, step, 0),
                           &end, sizeof end, NULL, 0, err);
        if (rc != ERR_OK || end.ticket.next < 0)
            break;
        step = tickets_step(end.ticket.next, d->n_replicas);
        rc = exchange_recv_sum(x, EDGE_SUMS_IN + replica, step, d->n_units, &sum, err);
        if (rc == ERR_OK && sum.n_stages != plan_replica(d->p.plan, replica).n_stages)
            rc = err_set(err, ERR_PROTOCOL, "end of a ticket: sums of %d stages", sum.n_stages);
        if (rc == ERR_OK)
            serve(d, replica, &sum, &end);
    }
    (void)pthread_mutex_lock(&d->lock);
    d->n_served += rc == ERR_OK;
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
    return rc;
}

static void *run_clerk(void *arg)
{
    struct desk_clerk *clerk = arg;
    struct exchange x = clerk->desk->exchange;
    struct err why = {.text = ""};
    enum err_code rc = serve_replica(clerk->desk, &x, clerk->replica, &why);

    if (rc != ERR_OK && rc != ERR_GONE)
        exchange_fail(&x, &why);
    return NULL;
}

enum err_code desk_open(struct desk *d, const struct desk_params *p, const struct exchange *x,
                        struct err *err)
{
    enum err_code rc = ERR_OK;

    *d = (struct desk){.p = *p,
                       .n_units = model_units(&p->plan->spec.model),
                       .n_replicas = plan_n_replicas(p->plan),
                       .told_steps = p->first_step};
    d->exchange = exchange_beside(x, &d->stops);
    (void)pthread_mutex_init(&d->lock, NULL);
    thread_cond_init(&d->changed);
    tickets_begin(&d->tickets, d->n_replicas, p->first_step, p->end_step);
    for (int r = 0; r < d->n_replicas; r++)
        d->last[r].is_writing = 1; /* until it has said otherwise */
    for (int r = 1; rc == ERR_OK && r < d->n_replicas; r++) {
        struct desk_clerk *clerk = &d->clerks[d->n_clerks];

        *clerk = (struct desk_clerk){.desk = d, .replica = r};
        rc = thread_start(&clerk->thread, run_clerk, clerk, err);
        d->n_clerks += rc == ERR_OK;
    }
    return rc;
}

void desk_close(struct desk *d)
{
    if (!d->p.plan)
        return;
    atomic_store(&d->stops, true);
    for (int i = 0; i < d->n_clerks; i++)
        (void)pthread_join(d->clerks[i].thread, NULL);
    (void)pthread_cond_destroy(&d->changed);
    (void)pthread_mutex_destroy(&d->lock);
    d->p.plan = NULL;
}

/* Steps all of whose tickets were left out count as skipped, as far as their number says. */
static void end_round(struct desk *d, struct message_end *out)
{
    const struct tickets *t = &d->tickets;
    int64_t end_step = t->end / d->n_replicas;
    int64_t n_steps = end_step - d->p.first_step - t->n_skipped / d->n_replicas;
    int64_t updates = d->p.updates + n_steps;

    *out = (struct message_end){.end = {.revision = d->p.plan->revision,
                                        .step = end_step,
                                        .outcome = updates > 0 ? STEP_APPLY : STEP_SKIP,
                                        .updates = updates > 0 ? updates - 1 : 0}};
    tell(d, out);
    out->ticket.next = -1;
    /* The last one is waited for. */
    out->saves = d->wants_checkpoint && (!is_any_writing(d) || end_step == d->p.facts->total_steps);
}

enum err_code desk_finish(struct desk *d, const struct exchange *x, struct message_end *out,
                          struct err *err)
{
    enum err_code rc = ERR_OK;

    (void)pthread_mutex_lock(&d->lock);
    while (rc == ERR_OK && !(tickets_are_over(&d->tickets) && d->n_served == d->n_clerks))
        rc = exchange_await(x, &d->changed, &d->lock, err);
    if (rc == ERR_OK)
        end_round(d, out);
    (void)pthread_mutex_unlock(&d->lock);
    return rc;
}
