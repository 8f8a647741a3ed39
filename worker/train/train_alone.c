#include "train/train_parts.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "nn/optimizers.h"
#include "train/outer.h"
#include "train/weights.h"

/* A replica from one meeting to the next. */
struct alone {
    int64_t first_step, n_steps; /* of all replicas together */
    int64_t begin, end;          /* its tickets ... */
    int64_t next;                /* ... and where it is in them */
    bool joins;                  /* it ends where all replicas take the same weights */
    int n_offered; /* units of the stage in mid-round; the last one may be under way */
    bool is_under_way;
    double ticket_ms;         /* what one took, once all are done */
    struct message_loss loss; /* of them, the last stage's ... */
    int64_t n_tokens;         /* ... likewise */
    int64_t n_not_shown;      /* tokens, about, since the leader showed a step */
};

/* The steps that are done if all replicas are as far as this one. */
static int64_t alone_step(const struct alone *a)
{
    return a->end > a->begin
               ? a->first_step + (a->next - a->begin) * a->n_steps / (a->end - a->begin)
               : a->first_step;
}

/* By the speeds in the steps before, or those of the plan. */
static struct alone deal_tickets(const struct train *t, int64_t until)
{
    int n = plan_n_replicas(t->plan);
    struct alone a = {.first_step = t->state->step, .n_steps = until - t->state->step};
    double ticket_ms[PLAN_REPLICAS_MAX];
    int64_t begins[PLAN_REPLICAS_MAX + 1];
    bool is_measured = true;

    for (int r = 0; r < n; r++)
        is_measured = is_measured && t->ticket_ms[r] > 0;
    for (int r = 0; r < n; r++)
        ticket_ms[r] = is_measured ? t->ticket_ms[r]
                                   : 1.0 / plan_microbatches(t->plan, r, t->plan->micro_batches);
    outer_deal(a.n_steps * n, n, ticket_ms, begins);
    a.begin = a.next = a.first_step * n + begins[train_replica(t)];
    a.end = a.first_step * n + begins[train_replica(t) + 1];
    return a;
}

/* What the last stage of the replica makes of a ticket: a step of the full rate, with fewer
 * samples. */
static struct message_end decide_alone(const struct train *t, const struct alone *a,
                                       const struct message_sum *sum)
{
    int n = plan_n_replicas(t->plan);
    int64_t step = tickets_step(a->next, n);
    struct message_end out = {.n_tokens = sum->n_tokens};

    out.ticket.share =
        schedule_ticket_share(t->plan, tickets_part(a->next, n), train_step_seqs(t, step));
    out.end = desk_decide(t->plan, &t->facts, step, t->state->updates, out.ticket.share, sum);
    out.end.rate = optimizer_rate(&t->plan->spec, alone_step(a), t->facts.total_steps);
    return out;
}

/* The replica updates its own weights. */
static enum err_code update_alone(struct train *t, const struct alone *a,
                                  const struct message_end *end, struct err *err)
{
    const struct weights_step how = {.spec = &t->plan->spec,
                                     .rate = end->end.rate,
                                     .scale = end->end.scale,
                                     .share = 1,
                                     .updates = t->state->updates + a->next - a->begin};

    if (end->end.outcome == STEP_FAIL)
        return state_apply(t->state, &t->plan->spec, &end->end, err);
    train_watch(t, &t->update, TALLY_UPDATE);
    if (end->end.outcome == STEP_APPLY)
        weights_update(&t->stage->weights, &how);
    else
        weights_skip(&t->stage->weights);
    train_unwatch(t, &t->update, train_between(t));
    return ERR_OK;
}

/* The leader shows how far its own replica is; the last step is shown at the meeting. */
static void show_alone(struct train *t, struct alone *a, struct message_end *end)
{
    const struct progress *p = &t->progress;
    int64_t last = a->first_step + a->n_steps - 1;
    int64_t n_tickets = a->n_steps * plan_n_replicas(t->plan);

    train_count_steps(t, alone_step(a));
    if (!train_is_leader(t))
        return;
    a->n_not_shown += end->n_tokens * n_tickets / (a->end - a->begin);
    end->ticket.steps_done = alone_step(a) < last ? alone_step(a) : last;
    end->n_tokens = a->n_not_shown;
    end->n_stages = p->n_stage_ms;
    memcpy(end->stage_ms, p->stage_ms, sizeof end->stage_ms);
    if (end->ticket.steps_done > p->step)
        a->n_not_shown = 0;
    train_show_ticket(t, end);
}

/* The unit that is under way, if one is: wait for it, and take what has become of it. */
static enum err_code take_unit(struct train *t, struct alone *a, struct err *err)
{
    enum err_code rc = a->is_under_way ? homes_wait(&t->homes, &t->exchange, err) : ERR_OK;

    if (rc == ERR_OK && a->is_under_way)
        stage_take_unit(t->stage, a->n_offered - 1);
    a->is_under_way = false;
    return rc;
}

static void offer_unit(struct train *t, struct alone *a)
{
    struct stage *s = t->stage;
    int i = a->n_offered++;
    bool is_home = stage_is_home(s, i);
    const struct homes_meeting m = {
        .i = i,
        .offered = s->offered,
        .params = is_home ? t->state->units[s->weights.first_unit + i].params : NULL,
        .velocity = is_home && s->velocity ? s->velocity[i] : NULL,
        .how = stage_outer_step(s),
    };

    stage_offer_unit(s, i);
    homes_meet(&t->homes, a->first_step, &m);
    a->is_under_way = true;
}

static bool is_unit_due(const struct train *t, const struct alone *a)
{
    const struct weights *w = &t->stage->weights;

    return !a->joins && a->n_offered < w->n_units &&
           outer_due(&t->plan->spec.model, w->first_unit + a->n_offered, a->end - a->begin) <=
               a->next - a->begin;
}

/* Between two tickets. All replicas have to offer a unit before one of them has it back, and they
 * are not at the same place in their tickets: only behind the last one they wait for each other. */
static enum err_code meet_about_units(struct train *t, struct alone *a, struct err *err)
{
    bool waits = a->next == a->end;
    enum err_code rc = ERR_OK;

    do {
        if (a->is_under_way && !waits && !homes_is_done(&t->homes))
            return ERR_OK;
        rc = take_unit(t, a, err);
        if (rc == ERR_OK && is_unit_due(t, a))
            offer_unit(t, a);
    } while (rc == ERR_OK && a->is_under_way);
    return rc;
}

static enum err_code run_ticket_alone(struct train *t, struct alone *a, struct err *err)
{
    int64_t step = tickets_step(a->next, plan_n_replicas(t->plan));
    struct message_end end = {.n_stages = 0};
    struct message_sum sum;
    enum err_code rc = train_compute_ticket(t, a->next, err);

    if (rc == ERR_OK)
        rc = train_add_up_replica(t, step, &sum, err);
    if (rc == ERR_OK && t->stage->is_last) {
        end = decide_alone(t, a, &sum);
        message_loss_add(&a->loss, &sum.loss);
        a->n_tokens += sum.n_tokens;
    }
    if (rc == ERR_OK)
        rc = exchange_spread(&t->exchange, ROUTE_ALONE, MESSAGE_STEP_END, step, &end, sizeof end,
                             err);
    if (rc == ERR_OK)
        rc = message_end_check(&end, err);
    if (rc == ERR_OK)
        rc = update_alone(t, a, &end, err);
    if (rc != ERR_OK)
        return rc;
    if (++a->next < a->end)
        rc = meet_about_units(t, a, err);
    if (rc == ERR_OK && a->next < a->end)
        rc = tie_spread(&t->stage->tie, &t->exchange, step, err);
    show_alone(t, a, &end);
    return rc;
}

/* What all have summed up, to the decider. */
static enum err_code add_up_alone(struct train *t, const struct alone *a, int64_t step,
                                  struct message_sum *sum, struct err *err)
{
    enum err_code rc;

    t->is_ticket = false;
    t->schedule.n_microbatches = 0; /* its pace is known */
    t->loss = a->loss;
    t->tokens = a->n_tokens;
    rc = train_add_up_replica(t, step, sum, err);
    sum->ticket_ms = a->ticket_ms;
    return rc == ERR_OK ? train_add_up_all(t, step, sum, err) : rc;
}

/* What the decider makes of it. Weights that are not finite cannot be left out. All take the same
 * ones where something else needs them. */
static struct message_end decide_meeting(const struct train *t, const struct alone *a,
                                         const struct message_sum *sum)
{
    struct message_end out = train_decide(t, a->first_step + a->n_steps - 1, sum);

    out.end.outcome = out.end.outcome == STEP_APPLY ? STEP_APPLY : STEP_FAIL;
    out.end.updates = t->state->updates + a->n_steps - 1;
    out.ticket.steps_done = out.end.step;
    out.next = train_decide_next(t, out.end.step);
    out.joins = a->joins || out.saves || out.next.protocol != SPEC_PROTOCOL_LOCAL;
    memcpy(out.ticket_ms, t->ticket_ms, sizeof out.ticket_ms);
    return out;
}

static enum err_code meet(struct train *t, const struct alone *a, struct message_end *end,
                          struct err *err)
{
    int64_t step = a->first_step + a->n_steps - 1;
    struct message_sum sum;
    enum err_code rc = add_up_alone(t, a, step, &sum, err);

    if (rc == ERR_OK && train_is_decider(t))
        *end = decide_meeting(t, a, &sum);
    if (rc == ERR_OK)
        rc = exchange_spread(&t->exchange, ROUTE_FROM_DECIDER, MESSAGE_STEP_END, step, end,
                             sizeof *end, err);
    if (rc == ERR_OK)
        rc = message_end_check(end, err);
    if (rc == ERR_OK && end->end.step != step + 1)
        rc = err_set(err, ERR_PROTOCOL, "a meeting behind step %lld, not %lld",
                     (long long)end->end.step, (long long)step + 1);
    if (rc == ERR_OK)
        rc = train_take_next(t, &end->next, err);
    if (rc == ERR_OK && end->end.outcome == STEP_FAIL)
        rc = state_apply(t->state, &t->plan->spec, &end->end, err);
    return rc;
}

/* The weights of all replicas go to the homes, and come back as those of the state. */
static enum err_code join(struct train *t, const struct alone *a, struct message_end *end,
                          struct err *err)
{
    enum err_code rc;

    stage_offer_weights(t->stage);
    homes_collect_weights(&t->homes, a->first_step + a->n_steps - 1);
    rc = homes_wait(&t->homes, &t->exchange, err);
    if (rc == ERR_OK)
        rc = meet(t, a, end, err);
    if (rc != ERR_OK)
        return rc;
    stage_meet(t->stage, t->state);
    state_reach(t->state, &end->end);
    return train_join(t, end, err);
}

/* The replicas train on with weights of their own. */
static enum err_code stay_apart(struct train *t, const struct message_end *end, struct err *err)
{
    state_reach(t->state, &end->end);
    t->state->is_between = true;
    t->is_ticket = true;
    train_show_ticket(t, end);
    return tie_spread(&t->stage->tie, &t->exchange, t->state->step - 1, err);
}

static enum err_code part(struct train *t, struct err *err)
{
    enum err_code rc;

    if (!t->has_moments && t->state->updates > 0) /* before, all are zero */
        homes_spread_moments(&t->homes, t->state->step);
    t->has_moments = true;
    rc = train_part(t, err);
    t->is_apart = rc == ERR_OK;
    return rc;
}

enum err_code train_run_alone(struct train *t, int64_t until, bool joins, struct err *err)
{
    struct message_end end = {.n_stages = 0};
    struct alone a = deal_tickets(t, until);
    int64_t from_ns, alone_ns;
    enum err_code rc = t->is_apart ? ERR_OK : part(t, err);

    a.joins = joins;
    from_ns = clock_now_ns();
    while (rc == ERR_OK && a.next < a.end)
        rc = run_ticket_alone(t, &a, err);
    alone_ns = clock_now_ns();
    tally_turn(&t->mailbox->tally, TALLY_EXCHANGE, alone_ns);
    a.ticket_ms = a.end > a.begin ? (double)(alone_ns - from_ns) / 1e6 / (double)(a.end - a.begin)
                                  : t->ticket_ms[train_replica(t)];
    if (rc == ERR_OK)
        rc = meet_about_units(t, &a, err);
    if (rc == ERR_OK && !a.joins) {
        rc = meet(t, &a, &end, err);
        a.joins = end.joins;
    }
    if (rc == ERR_OK)
        rc = a.joins ? join(t, &a, &end, err) : stay_apart(t, &end, err);
    if (rc != ERR_OK)
        return rc;
    memcpy(t->ticket_ms, end.ticket_ms, sizeof t->ticket_ms);
    if (train_is_leader(t))
        LOG(LOG_INFO, "replicas have met", LOG_I("from", a.first_step), LOG_I("to", until),
            LOG_I("tickets", a.end - a.begin), LOG_I("of", a.n_steps * plan_n_replicas(t->plan)),
            LOG_F("aloneMs", (double)(alone_ns - from_ns) / 1e6),
            LOG_F("meetingMs", train_ms_since(alone_ns)));
    return ERR_OK;
}
