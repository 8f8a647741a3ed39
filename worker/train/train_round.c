#include "train/train_parts.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

/* How the gradients of a ticket are to be applied, and the replica's next one: the decider hears it
 * from its desk, the others from the decider. `step` is that of the ticket. */
static enum err_code return_ticket(struct train *t, int64_t step, const struct message_sum *sum,
                                   struct message_end *end, struct err *err)
{
    enum err_code rc;

    if (train_is_decider(t))
        desk_serve(t->desk, sum, end);
    rc = exchange_spread(&t->exchange, ROUTE_IN_REPLICA, MESSAGE_STEP_END, step, end, sizeof *end,
                         err);
    if (rc == ERR_OK)
        rc = message_end_check(end, err);
    if (rc == ERR_OK && end->end.outcome == STEP_FAIL)
        rc = state_apply(t->state, &t->plan->spec, &end->end, err);
    return rc;
}

enum err_code train_compute_ticket(struct train *t, int64_t ticket, struct err *err)
{
    int n = plan_n_replicas(t->plan);
    int64_t step = tickets_step(ticket, n);

    train_note_leaving(t, step);
    t->schedule = schedule_of_ticket(t->plan, train_replica(t), tickets_part(ticket, n),
                                     train_step_seqs(t, step));
    t->step_from_ns = clock_now_ns();
    train_start_counting(t, TRAIN_STEP);
    return train_microbatches(t, step, err);
}

static enum err_code run_ticket(struct train *t, int64_t ticket, struct message_end *end,
                                struct err *err)
{
    int64_t step = tickets_step(ticket, plan_n_replicas(t->plan));
    struct message_sum sum;
    enum err_code rc;

    rc = train_compute_ticket(t, ticket, err);
    if (rc == ERR_OK) /* one without sequences has not waited for the push before */
        rc = couriers_wait(&t->couriers, &t->exchange, err);
    if (rc == ERR_OK)
        rc = train_add_up(t, step, &sum, err);
    return rc == ERR_OK ? return_ticket(t, step, &sum, end, err) : rc;
}

/* Apply the gradients, and get the weights for the next ticket. */
static enum err_code push(struct train *t, const struct message_end *end, struct err *err)
{
    const struct message_push how = {.is_applied = end->end.outcome == STEP_APPLY,
                                     .is_last = end->ticket.next < 0,
                                     .rate = end->end.rate,
                                     .scale = end->end.scale,
                                     .share = end->ticket.share,
                                     .updates = end->end.updates};
    const struct tie *tie = &t->stage->tie;
    enum err_code rc;

    if (!how.is_applied)
        weights_skip(&t->stage->weights);
    rc = couriers_push(&t->couriers, &how, &t->exchange, err);
    if (rc != ERR_OK || how.is_last)
        return rc;
    if (tie->is_tied && t->stage->is_first)
        rc = couriers_wait_weights(&t->couriers, 0, &t->exchange, err);
    return rc == ERR_OK ? tie_spread(&t->stage->tie, &t->exchange,
                                     tickets_step(end->ticket.next, plan_n_replicas(t->plan)), err)
                        : rc;
}

void train_show_ticket(struct train *t, const struct message_end *end)
{
    int64_t n = end->ticket.steps_done - t->progress.step;

    train_settle_checkpoint(t, end->is_saved, end->has_failed);
    train_count_steps(t, end->ticket.steps_done);
    if (n <= 0 || !train_is_leader(t))
        return;
    train_show_steps(t, end->ticket.steps_done, n, train_ms_since(t->shown_ns) / 1000, end);
    t->shown_ns = clock_now_ns();
}

/* A round in place of BSP's steps is one because of a straggler. */
static void decide_behind_round(struct train *t, struct message_end *end)
{
    if (train_protocol_at(t, t->state->step) == SPEC_PROTOCOL_BSP) {
        t->n_free += end->end.step - t->state->step;
        for (int r = 0; r < plan_n_replicas(t->plan); r++)
            train_note_pace(t, r, desk_batch_ms(t->desk, r), train_ms_since(t->round_from_ns));
    }
    end->next = train_decide_next(t, end->end.step);
}

/* All replicas meet: everything that was pushed is in the weights. */
static enum err_code meet(struct train *t, struct message_end *end, struct err *err)
{
    enum err_code rc = pushes_wait(&t->pushes, &t->exchange, err);

    if (rc == ERR_OK && train_is_decider(t))
        rc = desk_finish(t->desk, &t->exchange, end, err);
    if (rc == ERR_OK && train_is_decider(t))
        decide_behind_round(t, end);
    if (rc == ERR_OK)
        rc = exchange_spread(&t->exchange, ROUTE_FROM_DECIDER, MESSAGE_STEP_END, t->state->step,
                             end, sizeof *end, err);
    if (rc == ERR_OK)
        rc = message_end_check(end, err);
    if (rc == ERR_OK && end->end.step <= t->state->step)
        rc = err_set(err, ERR_PROTOCOL, "end of asynchronous steps at %lld, not behind %lld",
                     (long long)end->end.step, (long long)t->state->step);
    if (rc == ERR_OK)
        rc = train_take_next(t, &end->next, err);
    if (rc != ERR_OK)
        return rc;
    if (train_is_leader(t))
        LOG(LOG_INFO, "asynchronous steps", LOG_I("from", t->state->step),
            LOG_I("to", end->end.step), LOG_F("staleness", end->ticket.staleness),
            LOG_I("greatest", end->ticket.staleness_max));
    state_reach(t->state, &end->end);
    return ERR_OK;
}

enum err_code train_part(struct train *t, struct err *err)
{
    enum err_code rc = train_release_state(t, err);

    if (rc == ERR_OK) /* the weights of the step before go to all that run them */
        rc = homes_wait(&t->homes, &t->exchange, err);
    if (rc != ERR_OK)
        return rc;
    stage_take_snapshot(t->stage);
    t->is_ticket = true;
    t->state->is_between = true;
    t->shown_ns = clock_now_ns();
    tally_turn(&t->mailbox->tally, TALLY_EXCHANGE, t->shown_ns);
    return ERR_OK;
}

enum err_code train_join(struct train *t, const struct message_end *end, struct err *err)
{
    enum err_code rc;

    stage_drop_snapshot(t->stage, t->state);
    t->is_apart = false;
    rc = train_spread_weights(t, t->state->step - 1, err);
    tally_turn(&t->mailbox->tally, TALLY_OTHER, clock_now_ns());
    if (rc == ERR_OK)
        train_show_ticket(t, end);
    return rc == ERR_OK ? train_save_step(t, end, err) : rc;
}

static enum err_code open_round(struct train *t, int64_t until, struct err *err)
{
    const struct desk_params params = {.plan = t->plan,
                                       .facts = &t->facts,
                                       .first_step = t->state->step,
                                       .end_step = until,
                                       .updates = t->state->updates};
    enum err_code rc = train_part(t, err);

    if (rc != ERR_OK)
        return rc;
    t->round_from_ns = clock_now_ns();
    rc = pushes_open(&t->pushes, t->plan, t->stage->worker, t->state, &t->exchange, err);
    if (rc == ERR_OK)
        rc = couriers_open(&t->couriers, t->plan, t->stage->worker, &t->stage->weights, &t->pushes,
                           &t->exchange, err);
    if (rc == ERR_OK && train_is_decider(t)) {
        t->desk = calloc(1, sizeof *t->desk);
        rc = t->desk ? desk_open(t->desk, &params, &t->exchange, err)
                     : err_set(err, ERR_NO_MEMORY, "no memory for tickets");
    }
    return rc;
}

void train_close_round(struct train *t)
{
    couriers_close(&t->couriers);
    pushes_close(&t->pushes);
    if (t->desk)
        desk_close(t->desk);
    free(t->desk);
    t->desk = NULL;
    t->is_ticket = false;
}

enum err_code train_run_round(struct train *t, int64_t until, struct err *err)
{
    struct message_end end = {.n_stages = 0};
    int64_t step = t->state->step;
    enum err_code rc = open_round(t, until, err);

    if (rc == ERR_OK)
        rc = return_ticket(t, step, NULL, &end, err);
    if (rc == ERR_OK && end.ticket.next < 0) /* others were faster: its guests' homes wait for it */
        rc = push(t, &end, err);
    while (rc == ERR_OK && end.ticket.next >= 0) {
        rc = run_ticket(t, end.ticket.next, &end, err);
        if (rc == ERR_OK)
            rc = push(t, &end, err);
        if (rc == ERR_OK)
            train_show_ticket(t, &end);
    }
    if (rc == ERR_OK)
        rc = meet(t, &end, err);
    if (rc != ERR_OK)
        return rc;
    train_close_round(t);
    return train_join(t, &end, err);
}
