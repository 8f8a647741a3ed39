#include "train/train.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "nn/optimizers.h"
#include "train/cpu.h"
#include "train/outer.h"
#include "train/schedule.h"
#include "train/weights.h"

#define CLAIM_WAIT_S       60     /* network file systems cache that a file was missing */
#define CHECKPOINT_WAIT_MS 100    /* of one call; repeated until the session is stopped */
#define BEST_WAIT_MS       300000 /* for other stages to write the best checkpoint ... */
#define BEST_FIND_MS       10000  /* ... which a session before this one has written */
#define BEST_POLL_MS       50
#define SMOOTHING          0.1 /* share of the newest step in the averages that are shown */

/* --- one micro-batch --- */

/* The first stage makes a micro-batch ... */
static enum err_code make_batch(struct train *t, struct exchange_key key, int slot, struct err *err)
{
    struct message_batch batch;
    enum err_code rc;

    stopwatch_start(&t->compute);
    rc = t->split == TRAIN_STEP ? loader_train(t->loader, key.step, key.microbatch, &batch, err)
                                : loader_eval(t->loader, t->split, key.microbatch, &batch, err);
    if (rc == ERR_OK)
        rc = stage_load(t->stage, slot, &batch, err);
    stopwatch_stop(&t->compute);
    return rc;
}

/* ... and the other stages receive it. The input stays where it was received until release_input(),
 * unless it was packed. */
static enum err_code receive_batch(struct train *t, struct exchange_key key, int slot,
                                   struct err *err)
{
    struct message_batch batch;
    struct link_message msg;
    struct stage_slot *in = &t->stage->slots[slot];
    enum err_code rc = exchange_recv(&t->exchange, key, &msg, err);

    if (rc != ERR_OK)
        return rc;
    stopwatch_start(&t->compute);
    rc = message_batch_read(msg.meta, msg.meta_bytes, &t->stage->limits, &batch, err);
    if (rc == ERR_OK) {
        batch.step = key.step;
        batch.is_eval = t->split != TRAIN_STEP;
        rc = stage_load(t->stage, slot, &batch, err);
    }
    if (rc == ERR_OK)
        rc = exchange_view(&t->exchange, &msg, in->in_floats, in->unpacked, &in->input, err);
    stopwatch_stop(&t->compute);
    if (rc == ERR_OK && in->input == msg.tensor)
        t->inputs[slot] = msg;
    else
        exchange_release(&t->exchange, key, &msg);
    return rc;
}

/* The input of `slot` is no longer needed. */
static void release_input(struct train *t, int slot)
{
    struct link_message *input = &t->inputs[slot];

    if (input->tensor)
        exchange_release(&t->exchange, exchange_key(EDGE_FORWARD_IN, MESSAGE_FORWARD, 0, 0), input);
    *input = (struct link_message){.tensor = NULL};
}

static enum err_code add_result(struct train *t, const struct message_batch *batch,
                                const struct stage_result *result, struct err *err)
{
    message_loss_add(t->split == TRAIN_STEP ? &t->share : &t->loss, &result->loss);
    if (t->split == TRAIN_STEP)
        return ERR_OK;
    return score_add(&t->score, t->facts.splits[t->split].is_test, batch, result, err);
}

/* The pass of a unit waits for its weights; that is no computing. */
static bool needs_weights(void *ctx, int i)
{
    struct train *t = ctx;
    enum err_code rc;

    stopwatch_stop(&t->compute);
    rc = homes_wait_weights(&t->homes, i, &t->exchange, &t->hook_failure);
    stopwatch_start(&t->compute);
    return rc == ERR_OK;
}

/* To the embeddings' gradient, that of a decoder is added first. */
static void has_added(void *ctx, int i)
{
    struct train *t = ctx;

    if (t->is_last_backward && !(i == 0 && t->stage->tie.is_tied && t->stage->is_first))
        homes_put(&t->homes, i);
}

/* Micro-batch `index` of the step, or of the split that is evaluated: through this stage, and on to
 * the next one or into the sums. */
static enum err_code forward(struct train *t, int64_t step, int64_t index, struct err *err)
{
    struct exchange_key key = exchange_key(EDGE_FORWARD_IN, MESSAGE_FORWARD, step, (int)index);
    bool is_eval = t->split != TRAIN_STEP;
    int slot = is_eval ? 0 : key.microbatch % t->stage->n_slots;
    const struct message_batch *batch = &t->stage->slots[slot].batch;
    struct stage_result result;
    enum err_code rc = exchange_check(&t->exchange, err);

    key.flags = is_eval ? MESSAGE_EVAL : 0;
    if (rc == ERR_OK)
        rc = t->stage->is_first ? make_batch(t, key, slot, err) : receive_batch(t, key, slot, err);
    if (rc != ERR_OK)
        return rc;
    stopwatch_start(&t->compute);
    if (!stage_forward(t->stage, slot, &result))
        rc = err_set(err, t->hook_failure.code, "%s", t->hook_failure.text);
    stopwatch_stop(&t->compute);
    if (rc != ERR_OK)
        return rc;
    if (is_eval)
        release_input(t, slot);
    t->tokens += batch->n_tokens;
    if (t->stage->is_last)
        return add_result(t, batch, &result, err);
    key.edge = EDGE_FORWARD_OUT;
    return exchange_send(&t->exchange, key, t->meta, message_batch_write(batch, t->meta),
                         result.tensor, result.floats, err);
}

/* Back through the stage; the gradient of the input goes to the previous stage. */
static enum err_code push_back(struct train *t, int64_t step, int microbatch, const float *dout,
                               struct err *err)
{
    int slot = microbatch % t->stage->n_slots;
    const float *din;

    stopwatch_start(&t->compute);
    din = stage_backward(t->stage, slot, dout);
    stopwatch_stop(&t->compute);
    release_input(t, slot);
    if (!din)
        return ERR_OK;
    return exchange_send(&t->exchange,
                         exchange_key(EDGE_BACKWARD_OUT, MESSAGE_BACKWARD, step, microbatch), NULL,
                         0, din, t->stage->slots[slot].in_floats, err);
}

/* Of micro-batch `index`, whose forward is done. */
static enum err_code backward(struct train *t, int64_t step, int index, struct err *err)
{
    struct exchange_key key = exchange_key(EDGE_BACKWARD_IN, MESSAGE_BACKWARD, step, index);
    int slot = index % t->stage->n_slots;
    struct link_message msg;
    const float *dout;
    enum err_code rc = exchange_check(&t->exchange, err);

    if (rc != ERR_OK)
        return rc;
    if (t->stage->is_last)
        return push_back(t, step, index, NULL, err);
    rc = exchange_recv(&t->exchange, key, &msg, err);
    if (rc != ERR_OK)
        return rc;
    /* The output area is free: what was in it has been sent. */
    rc = exchange_view(&t->exchange, &msg, t->stage->slots[slot].out_floats, t->stage->out, &dout,
                       err);
    if (rc == ERR_OK)
        rc = push_back(t, step, index, dout, err);
    exchange_release(&t->exchange, key, &msg);
    return rc;
}

/* --- the end of a step --- */

/* The mean of a session's first steps, then an exponential average; `i` counts them. The first one
 * is slower, as it touches all memory for the first time: it counts only until there is another. */
static void smooth(double *average, double value, int64_t i)
{
    double share = i > 1 ? 1.0 / (double)i : 1;

    *average += (share > SMOOTHING ? share : SMOOTHING) * (value - *average);
}

static int step_seqs(const struct train *t, int64_t step)
{
    return message_step_seqs(&t->facts, t->plan->spec.training.batch_size, step);
}

/* A smaller step is not averaged with the others, unless there are no others. */
static bool is_typical(const struct train *t, int64_t step)
{
    return t->facts.steps_per_epoch == 1 || step_seqs(t, step) == t->plan->spec.training.batch_size;
}

static double ms_since(int64_t from_ns)
{
    return (double)(clock_now_ns() - from_ns) / 1e6;
}

/* What this stage computes per micro-batch, in the last steps: see stopwatch_ms(). */
static struct pace_figures stage_pace(struct train *t, int64_t step)
{
    int n = t->schedule.n_microbatches;
    int64_t n_samples = t->computing.n_samples;
    double per_batch = 1.0 / 1e6 / n;
    struct pace_figures wall, cpu;

    if (n > 0 && is_typical(t, step)) /* with the update before */
        pace_add(&t->computing, ms_since(t->step_from_ns),
                 (double[]){(double)t->compute.wall_ns * per_batch,
                            (double)t->compute.cpu_ns * per_batch});
    if (t->computing.n_samples != n_samples)
        t->cpu_milli = cpu_allowed_milli(); /* a quota may be changed while the worker runs */
    wall = pace_of(&t->computing, 0);
    cpu = pace_of(&t->computing, 1);
    if (stopwatch_ms(wall.median_ms, cpu.median_ms, t->cpu_milli) <= wall.median_ms)
        return wall;
    return (struct pace_figures){.median_ms = cpu.median_ms * 1000 / t->cpu_milli,
                                 .mad_ms = cpu.mad_ms * 1000 / t->cpu_milli};
}

/* Is a checkpoint due once `steps_done` are? One that had to wait is due until it is begun. */
static bool is_checkpoint_due(const struct train *t, int64_t steps_done)
{
    const struct spec *spec = &t->plan->spec;
    int every = spec->checkpoint.every_steps;

    if (!t->checkpoint)
        return false;
    if (steps_done == t->facts.total_steps && checkpoint_is_lasting(t->checkpoint))
        return true;
    if (every > 0)
        return steps_done / every > t->saved_step / every;
    return clock_now_ms() - t->saved_ms >= (int64_t)spec->checkpoint.every_seconds * 1000;
}

/* The order for a checkpoint that has not been begun yet; 0: there is none. */
static int64_t find_order(const struct train *t)
{
    int64_t order = t->checkpoint && train_is_leader(t) ? mailbox_ordered(t->mailbox) : 0;

    return order > t->progress.ordered.order && order != t->ordered.order ? order : 0;
}

/* The micro-batches of a share have gone back. */
static enum err_code end_share(struct train *t, int64_t step, int share, bool is_last,
                               struct err *err)
{
    enum err_code rc = tie_collect(&t->stage->tie, &t->exchange, step, err);

    if (rc != ERR_OK)
        return rc;
    stopwatch_start(&t->compute);
    stage_end_share(t->stage, share == t->stage->replica.first_share, is_last);
    stopwatch_stop(&t->compute);
    message_loss_add(&t->loss, &t->share);
    t->share = (struct message_loss){0};
    if (is_last && t->stage->tie.is_tied && t->stage->is_first)
        homes_put(&t->homes, 0);
    return ERR_OK;
}

/* The share of the batch that ends with this micro-batch; -1: none does. */
static int find_share_end(const struct plan *plan, const struct plan_replica *r, int microbatch,
                          int n_microbatches)
{
    for (int k = r->first_share; k < r->first_share + r->n_shares; k++)
        if (plan_share_begin(plan, k, n_microbatches) <= microbatch &&
            plan_share_begin(plan, k + 1, n_microbatches) == microbatch + 1)
            return k;
    return -1;
}

/* All micro-batches of the replica, forward and back. */
static enum err_code run_microbatches(struct train *t, int64_t step, struct err *err)
{
    const struct schedule *schedule = &t->schedule;
    int n = schedule_microbatches(t->plan, step_seqs(t, step));
    int last = schedule->first_microbatch + schedule->n_microbatches - 1;
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK && i < schedule_length(schedule); i++) {
        struct schedule_op op = schedule_op(schedule, t->stage->index, i);
        int share = -1;

        t->is_last_backward = op.is_backward && op.microbatch == last;
        rc = op.is_backward ? backward(t, step, op.microbatch, err)
                            : forward(t, step, op.microbatch, err);
        if (op.is_backward && t->is_ticket)
            share = t->is_last_backward ? t->stage->replica.first_share : -1;
        else if (op.is_backward)
            share = find_share_end(&t->dealt, &t->stage->replica, op.microbatch, n);
        if (rc == ERR_OK && share >= 0)
            rc = end_share(t, step, share, t->is_last_backward, err);
    }
    return rc;
}

/* What a micro-batch took here, without the update of the step before. */
static double batch_ms(const struct train *t)
{
    int n = t->schedule.n_microbatches;

    return n > 0 ? (double)(t->compute.wall_ns - t->updated_ns) / 1e6 / n : 0;
}

/* This stage's part. From here on all its gradients are complete: the update of a synchronous step
 * needs no more than the STEP_END. */
static void add_own(struct train *t, int64_t step, struct message_sum *sum)
{
    const struct weights *w = &t->stage->weights;
    struct pace_figures pace;

    stopwatch_start(&t->compute);
    for (int i = 0; i < w->n_units; i++)
        sum->square_sums[sum->n_units++] = t->is_ticket || stage_is_home(t->stage, i)
                                               ? squares_sum(w->units[i].grads, w->units[i].count)
                                               : 0;
    stopwatch_stop(&t->compute);
    pace = stage_pace(t, step);
    if (is_typical(t, step))
        sum->batch_ms = fmax(sum->batch_ms, batch_ms(t));
    sum->stage_mad_ms[sum->n_stages] = pace.mad_ms;
    sum->stage_ms[sum->n_stages++] = pace.median_ms;
    t->wanted = find_order(t);
    if ((train_is_leader(t) && is_checkpoint_due(t, step + 1)) || t->wanted > 0 ||
        (t->checkpoint && t->is_leaving && !t->is_kept))
        sum->wants_checkpoint = 1;
    if (t->checkpoint && !checkpoint_wait(t->checkpoint, 0))
        sum->is_writing = 1;
    if (t->checkpoint && checkpoint_has_failed(t->checkpoint))
        sum->has_failed = 1;
    if (t->stage->is_last) {
        sum->loss = t->loss;
        sum->n_tokens = t->tokens;
    }
    t->state->is_finished = !t->state->is_between;
}

/* Add what another replica has summed up, behind those before it. */
static enum err_code add_replica(struct message_sum *sum, const struct message_sum *other,
                                 struct err *err)
{
    if (other->n_stages > SPEC_STAGES_MAX - sum->n_stages)
        return err_set(err, ERR_PROTOCOL, "end of a step: %d and %d stages", sum->n_stages,
                       other->n_stages);
    for (int i = 0; i < other->n_stages; i++, sum->n_stages++) {
        sum->stage_ms[sum->n_stages] = other->stage_ms[i];
        sum->stage_mad_ms[sum->n_stages] = other->stage_mad_ms[i];
    }
    for (int u = 0; u < sum->n_units; u++)
        sum->square_sums[u] += other->square_sums[u];
    sum->wants_checkpoint |= other->wants_checkpoint;
    sum->is_writing |= other->is_writing;
    sum->has_failed |= other->has_failed;
    sum->n_tokens += other->n_tokens;
    message_loss_add(&sum->loss, &other->loss);
    return ERR_OK;
}

static enum err_code send_sum(struct train *t, enum edge_role edge, int64_t step,
                              const struct message_sum *sum, struct err *err)
{
    return exchange_send(&t->exchange, exchange_key((int)edge, MESSAGE_STEP_SUM, step, 0), sum,
                         message_sum_bytes(sum->n_units), NULL, 0, err);
}

/* Receive the sums of the stages before, add this stage's, and pass them on. The last stage has
 * those of its replica then. */
static enum err_code add_up_replica(struct train *t, int64_t step, struct message_sum *sum,
                                    struct err *err)
{
    enum err_code rc = ERR_OK;

    *sum = (struct message_sum){.n_units = 0};
    if (!t->stage->is_first)
        rc = exchange_recv_sum(&t->exchange, EDGE_FORWARD_IN, step, t->stage->weights.first_unit,
                               sum, err);
    if (rc != ERR_OK)
        return rc;
    add_own(t, step, sum);
    return t->stage->is_last ? ERR_OK : send_sum(t, EDGE_FORWARD_OUT, step, sum, err);
}

/* The decider notes what a micro-batch took in a replica. */
static void note_pace(struct train *t, int replica, double ms, double elapsed_ms)
{
    double usual_ms = stragglers_usual_ms(&t->stragglers, replica);

    if (stragglers_add(&t->stragglers, replica, ms, elapsed_ms))
        LOG(LOG_INFO,
            stragglers_found(&t->stragglers) >> replica & 1 ? "straggler" : "no straggler any more",
            LOG_I("step", t->state->step), LOG_I("replica", replica),
            LOG_F("ms", t->stragglers.replicas[replica].last_ms), LOG_F("usualMs", usual_ms));
}

/* From the last stage to the decider, which has those of all replicas then; those of a ticket are
 * for its desk. */
static enum err_code add_up_all(struct train *t, int64_t step, struct message_sum *sum,
                                struct err *err)
{
    int n_replicas = t->is_ticket ? 1 : plan_n_replicas(t->plan);
    enum err_code rc = ERR_OK;

    if (!t->stage->is_last)
        return ERR_OK;
    if (!train_is_decider(t))
        return send_sum(t, EDGE_SUMS_OUT, step, sum, err);
    t->ticket_ms[0] = sum->ticket_ms;
    if (n_replicas > 1)
        note_pace(t, 0, sum->batch_ms, ms_since(t->step_from_ns));
    for (int r = 1; rc == ERR_OK && r < n_replicas; r++) {
        struct message_sum other;

        rc = exchange_recv_sum(&t->exchange, EDGE_SUMS_IN + r, step, sum->n_units, &other, err);
        if (rc == ERR_OK)
            rc = add_replica(sum, &other, err);
        t->ticket_ms[r] = rc == ERR_OK ? other.ticket_ms : 0;
        if (rc == ERR_OK)
            note_pace(t, r, other.batch_ms, ms_since(t->step_from_ns));
    }
    return rc;
}

static enum err_code add_up(struct train *t, int64_t step, struct message_sum *sum, struct err *err)
{
    enum err_code rc = add_up_replica(t, step, sum, err);

    return rc == ERR_OK ? add_up_all(t, step, sum, err) : rc;
}

/* --- how the next steps are done --- */

/* Once so many steps are done. Those out of step because of stragglers are no part of what comes
 * before a Switch. */
static enum spec_protocol protocol_at(const struct train *t, int64_t steps_done)
{
    const struct spec *spec = &t->plan->spec;

    if (plan_n_replicas(t->plan) == 1 ||
        steps_done - t->n_free < spec_switch_step(spec, t->facts.total_steps))
        return SPEC_PROTOCOL_BSP;
    return spec_later_protocol(spec);
}

/* Without stragglers. */
static struct message_next usual_next(const struct train *t, int64_t steps_done)
{
    struct message_next next = {.protocol = (int32_t)protocol_at(t, steps_done)};

    for (int k = 0; plan_n_replicas(t->plan) > 1 && k < t->plan->n_shares; k++)
        next.shares[k] = t->plan->shares[k];
    return next;
}

static struct message_next decide_next(const struct train *t, int64_t steps_done)
{
    struct message_next next = usual_next(t, steps_done);
    const struct stragglers *s = &t->stragglers;

    if (next.protocol != SPEC_PROTOCOL_BSP || plan_n_replicas(t->plan) == 1)
        return next;
    next.lagging = stragglers_found(s);
    if (next.lagging == 0)
        return next;
    next.lag_ms = s->replicas[__builtin_ctz(next.lagging)].last_ms;
    next.usual_ms = stragglers_usual_ms(s, __builtin_ctz(next.lagging));
    switch (t->plan->spec.sync.stragglers) {
    case SPEC_STRAGGLERS_WAIT:
        break;
    case SPEC_STRAGGLERS_GREEDY:
        next.protocol = SPEC_PROTOCOL_ASP;
        next.n_steps = STRAGGLERS_ROUND;
        break;
    case SPEC_STRAGGLERS_ELASTIC:
        stragglers_share(s, t->plan, steps_done, next.shares);
        break;
    }
    return next;
}

/* As the decider has it. */
static enum err_code take_next(struct train *t, const struct message_next *next, struct err *err)
{
    int n = plan_n_replicas(t->plan);
    int sum = 0;

    for (int k = 0; k < n; k++)
        sum += next->shares[k];
    if ((n > 1 && sum != t->plan->micro_batches) ||
        (next->protocol != SPEC_PROTOCOL_BSP && !spec_is_asynchronous(&t->plan->spec)))
        return err_set(err, ERR_PROTOCOL, "the next step: shares of %d of %d micro-batches with %s",
                       sum, t->plan->micro_batches, spec_protocol_names[next->protocol]);
    t->next = *next;
    if (n > 1)
        memcpy(t->dealt.shares, next->shares, sizeof t->dealt.shares);
    return ERR_OK;
}

/* --- */

/* What the decider makes of a step, from the loss and all sums. */
static struct message_end decide(const struct train *t, int64_t step, const struct message_sum *sum)
{
    struct message_end out = {.end =
                                  desk_decide(t->plan, &t->facts, step, t->state->updates, 1, sum),
                              .n_tokens = sum->n_tokens,
                              .n_stages = sum->n_stages};

    memcpy(out.stage_ms, sum->stage_ms, sizeof out.stage_ms);
    memcpy(out.stage_mad_ms, sum->stage_mad_ms, sizeof out.stage_mad_ms);
    /* The last one is waited for. */
    out.saves = sum->wants_checkpoint && (!sum->is_writing || step + 1 == t->facts.total_steps);
    out.is_saved = !sum->is_writing && !sum->has_failed;
    out.has_failed = !sum->is_writing && sum->has_failed;
    return out;
}

/* Until the checkpoint that is being written does not need the state as it is any more. If this is
 * stopped, the gradients are complete: the next revision does the update. */
static enum err_code release_state(struct train *t, struct err *err)
{
    enum err_code rc = ERR_OK;

    while (rc == ERR_OK && t->checkpoint &&
           !checkpoint_before_update(t->checkpoint, CHECKPOINT_WAIT_MS))
        rc = exchange_check(&t->exchange, err);
    return rc;
}

/* Behind an update: the weights of units that are at home here, and the words to the decoder. */
static enum err_code spread_weights(struct train *t, int64_t step, struct err *err)
{
    const struct tie *tie = &t->stage->tie;
    enum err_code rc = ERR_OK;

    homes_spread(&t->homes, step);
    if (tie->is_tied && t->stage->is_first)
        rc = homes_wait_weights(&t->homes, 0, &t->exchange, err);
    return rc == ERR_OK ? tie_spread(&t->stage->tie, &t->exchange, step, err) : rc;
}

/* Once a stage has the end of the step, it does the update, even if it cannot pass it on: the
 * next revision repeats it to the others. */
static enum err_code end_step(struct train *t, int64_t step, struct message_end *end,
                              struct err *err)
{
    struct state *state = t->state;
    struct err why = {.text = ""};
    enum err_code rc, rc_sent;

    rc_sent = exchange_spread(&t->exchange, ROUTE_FROM_DECIDER, MESSAGE_STEP_END, step, end,
                              sizeof *end, &why);
    if (rc_sent != ERR_OK && end->end.step == 0)
        return err_set(err, rc_sent, "%s", why.text);
    rc = message_end_check(end, err);
    if (rc == ERR_OK && (end->end.step != step + 1 || end->end.updates != state->updates))
        rc = err_set(err, ERR_PROTOCOL, "end of step %lld after %lld updates, not %lld after %lld",
                     (long long)end->end.step, (long long)end->end.updates, (long long)step + 1,
                     (long long)state->updates);
    if (rc == ERR_OK)
        rc = take_next(t, &end->next, err);
    if (rc == ERR_OK)
        rc = release_state(t, err);
    if (rc != ERR_OK)
        return rc;
    stopwatch_start(&t->update);
    rc = state_apply(state, &t->plan->spec, &end->end, err);
    stopwatch_stop(&t->update);
    if (rc == ERR_OK && rc_sent != ERR_OK)
        rc = err_set(err, rc_sent, "%s", why.text);
    if (rc != ERR_OK)
        return rc;
    if (end->end.outcome == STEP_SKIP && train_is_leader(t))
        LOG(LOG_WARN, "step skipped: the loss or a gradient is not finite",
            LOG_I("step", step + 1));
    return spread_weights(t, step, err);
}

/* --- progress --- */

void train_show_end(struct progress *p, struct history *history, const struct state *state)
{
    p->step = state->step;
    p->skipped_steps = state->step - state->updates;
    p->loss = state->end.loss;
    history_step(history, p, clock_now_ms());
}

/* The medians of the last steps, beside the means that people are shown. */
static void show_pace(struct train *t, const struct message_end *end)
{
    struct progress *p = &t->progress;
    int64_t n = t->stepping.n_samples;
    int slowest = 0;

    p->window = (struct progress_window){.n_samples = n < INT_MAX ? (int)n : INT_MAX,
                                         .step_ms = pace_of(&t->stepping, 0).median_ms};
    for (int i = 0; i < end->n_stages; i++)
        slowest = end->stage_ms[i] > end->stage_ms[slowest] ? i : slowest;
    p->window.mad_ms = end->stage_mad_ms[slowest];
    p->n_stage_ms = end->n_stages;
    memcpy(p->stage_ms, end->stage_ms, sizeof p->stage_ms);
}

static void show_sync(struct train *t, const struct message_ticket *ticket)
{
    struct progress_sync *sync = &t->progress.sync;

    *sync = (struct progress_sync){.staleness = ticket->staleness,
                                   .staleness_max = ticket->staleness_max};
    if (plan_n_replicas(t->plan) > 1)
        (void)snprintf(sync->protocol, sizeof sync->protocol, "%s",
                       spec_protocol_names[t->protocol]);
    if (t->next.lagging)
        (void)snprintf(sync->lagging, sizeof sync->lagging,
                       "replica %d takes %.1f ms per micro-batch instead of the usual %.1f",
                       __builtin_ctz(t->next.lagging), t->next.lag_ms, t->next.usual_ms);
}

/* `n` steps up to `steps_done` took so long together, from the last one that was shown. */
static void show_steps(struct train *t, int64_t steps_done, int64_t n, double seconds,
                       const struct message_end *end)
{
    struct progress *p = &t->progress;
    double each = seconds / (double)n;

    if (is_typical(t, steps_done - 1)) {
        int64_t i = steps_done - n - t->first_step;

        pace_add(&t->stepping, each * 1000, (double[PACE_TIMES]){each * 1000});
        smooth(&t->seconds_per_step, each, i);
        if (i > 0) /* see smooth() */
            stretch_add(&t->steps, each * 1000);
        smooth(&t->tokens_per_step, (double)end->n_tokens / (double)n, i);
    }
    p->state = PROGRESS_TRAINING;
    p->step = steps_done;
    p->skipped_steps = t->state->step - t->state->updates;
    p->epoch = (int)(steps_done / t->facts.steps_per_epoch);
    p->loss = end->end.loss;
    p->step_ms = t->seconds_per_step * 1000;
    p->best_step_ms = t->steps.best_ms;
    p->tokens_per_second = t->tokens_per_step / t->seconds_per_step;
    p->eta_seconds = (double)(t->facts.total_steps - steps_done) * t->seconds_per_step;
    show_pace(t, end);
    show_sync(t, &end->ticket);
    mailbox_set_progress(t->mailbox, p);
    if (t->history)
        history_step(t->history, p, clock_now_ms());
}

static void show_step(struct train *t, int64_t step, const struct message_end *end)
{
    show_steps(t, step + 1, 1, ms_since(t->step_from_ns) / 1000, end);
}

static void show_metric(struct progress *p, const char *name, double value)
{
    int i = 0;

    while (i < p->n_metrics && strcmp(p->metrics[i].name, name) != 0)
        i++;
    if (i == PROGRESS_METRICS_MAX)
        return;
    (void)snprintf(p->metrics[i].name, sizeof p->metrics[i].name, "%s", name);
    p->metrics[i].value = value;
    p->n_metrics = i == p->n_metrics ? i + 1 : p->n_metrics;
}

static void show_evaluation(struct train *t, const struct message_eval *end)
{
    const struct layout *layout = &t->loader->layout;
    enum task_metric kinds[TASK_METRICS];
    int n = task_metric_list(layout->task, kinds);

    for (int i = 0; i < n && i < end->n_metrics; i++) {
        char name[METRIC_NAME_BYTES];

        metric_name(kinds[i], layout->dev[t->facts.splits[t->split].place].suffix, name);
        show_metric(&t->progress, name, end->metrics[i]);
        LOG(LOG_INFO, "evaluated", LOG_I("step", t->progress.step), LOG_S("metric", name),
            LOG_F("value", end->metrics[i]));
    }
    mailbox_set_progress(t->mailbox, &t->progress);
}

/* --- checkpoints, and the best evaluation --- */

/* Until the checkpoint that is being written, if any, is complete. */
static enum err_code wait_for_checkpoint(struct train *t, struct err *err)
{
    enum err_code rc = ERR_OK;

    while (rc == ERR_OK && t->checkpoint && !checkpoint_wait(t->checkpoint, CHECKPOINT_WAIT_MS))
        rc = exchange_check(&t->exchange, err);
    return rc;
}

/* Of the state as it is, once the one before is complete; `is_saved` is as in checkpoint_begin().
 */
static enum err_code begin_checkpoint(struct train *t, bool is_saved, struct err *err)
{
    enum err_code rc = wait_for_checkpoint(t, err);

    if (rc != ERR_OK || !t->checkpoint)
        return rc;
    t->saved_ms = clock_now_ms();
    t->saved_step = t->begun = t->state->step;
    t->is_kept = t->is_leaving;
    checkpoint_begin(t->checkpoint, t->evaluated, &t->progress, t->history, is_saved);
    return ERR_OK;
}

/* What became of the last checkpoint; of one on command, report it once. */
static void settle_checkpoint(struct train *t, bool is_saved, bool has_failed)
{
    if (t->begun > 0 && has_failed)
        t->progress.saved.has_failed = true;
    else if (t->begun > 0 && is_saved)
        t->progress.saved = (struct progress_saved){.step = t->begun};
    if (is_saved && t->begun > 0 && t->is_kept)
        atomic_store(&t->mailbox->has_saved, true);
    if (t->ordered.order == 0 || !(is_saved || has_failed))
        return;
    t->progress.ordered =
        (struct progress_ordered){t->ordered.order, is_saved ? t->ordered.step : 0};
    if (is_saved)
        LOG(LOG_INFO, "the checkpoint on command is written", LOG_I("step", t->ordered.step));
    else
        LOG(LOG_WARN, "the checkpoint on command could not be written",
            LOG_I("step", t->ordered.step));
    t->ordered = (struct progress_ordered){.order = 0};
}

/* Is it the last dev set? They come before the test sets. */
static bool is_last_dev(const struct train *t, int split)
{
    const struct message_split *s = &t->facts.splits[split];

    return !s->is_test && (split + 1 == t->facts.n_splits || s[1].is_test);
}

/* What the last stage decides when a dev set has been evaluated: the first one is compared, the
 * last one ends the evaluation. One that is repeated has been counted. */
static void judge(struct train *t, int64_t steps_done, int split, struct message_eval *end)
{
    const struct spec *spec = &t->plan->spec;
    enum task_metric list[TASK_METRICS];
    int n = task_metric_list(t->score.layout.task, list);
    bool is_best;

    for (int i = 0; split == 0 && i < n; i++)
        if (list[i] == spec->training.best_by)
            t->judged = end->metrics[i];
    if (!best_is_wanted(spec) || !is_last_dev(t, split) || steps_done <= t->evaluated)
        return;
    is_best = best_take(&end->best, spec, t->judged, t->state->lineage, steps_done);
    end->ends = steps_done < t->facts.total_steps && best_ends(&end->best, spec);
    end->saves = t->begun != steps_done && ((is_best && spec->training.keeps_best) || end->ends);
}

/* An evaluation is over: do what the last stage has decided. If the checkpoint cannot be begun, the
 * evaluation does not count: the next session repeats it. */
static enum err_code conclude(struct train *t, int64_t steps_done, const struct message_eval *end,
                              struct err *err)
{
    struct progress *p = &t->progress;
    enum err_code rc = end->saves ? wait_for_checkpoint(t, err) : ERR_OK;

    if (rc != ERR_OK)
        return rc;
    p->best = end->best;
    if (end->ends) {
        t->facts.total_steps = p->total_steps = steps_done;
        p->has_ended_early = true;
        p->eta_seconds = 0;
    }
    if (end->ends && train_is_leader(t))
        LOG(LOG_INFO, "ended early: no better evaluation", LOG_I("step", steps_done),
            LOG_I("evaluations", p->best.n_since), LOG_S("metric", p->best_metric),
            LOG_F("best", p->best.value), LOG_I("bestStep", p->best.step));
    if (t->history && (steps_done == 0 || t->evaluated < steps_done))
        history_evaluation(t->history, p, clock_now_ms());
    t->evaluated = steps_done; /* all shards of a checkpoint name the same */
    if (train_is_leader(t))
        mailbox_set_progress(t->mailbox, p);
    return end->saves ? begin_checkpoint(t, false, err) : ERR_OK;
}

/* Is there a best evaluation, whose weights are kept? */
static bool has_best(const struct train *t)
{
    return t->plan->spec.training.keeps_best && t->checkpoint && t->progress.best.step > 0;
}

/* Other stages may still be writing it, and network file systems are late. */
static enum err_code read_best(struct train *t, int wait_ms, struct weights_unit **out,
                               struct err *err)
{
    const struct resume_origin best = {t->progress.best.lineage, t->progress.best.step};
    int64_t end_ms = clock_now_ms() + wait_ms;
    enum err_code rc = wait_for_checkpoint(t, err);

    while (rc == ERR_OK &&
           (rc = checkpoint_read(t->checkpoint, &best, out, err)) == ERR_NOT_FOUND &&
           clock_now_ms() < end_ms) {
        (void)usleep(BEST_POLL_MS * 1000);
        rc = exchange_check(&t->exchange, err);
    }
    return rc;
}

/* Put the weights of the best evaluation into the stage. The state keeps those of the last step, so
 * that the job can go on from it whatever happens. */
static enum err_code take_best(struct train *t, struct err *err)
{
    struct weights_unit *units = NULL;
    enum err_code rc = ERR_OK;

    if (!t->plan->spec.training.keeps_best || t->progress.best.step == 0 ||
        t->progress.best.step == t->state->step)
        return ERR_OK;
    if (t->stage->home.n_units > 0)
        rc = read_best(t, BEST_WAIT_MS, &units, err);
    t->has_lost_best = rc != ERR_OK && rc != ERR_GONE;
    if (t->has_lost_best)
        return err_wrap(err, rc,
                        "the training is complete, but the weights of its best evaluation, after "
                        "step %lld, cannot be read",
                        (long long)t->progress.best.step);
    if (rc == ERR_OK)
        rc = homes_wait(&t->homes, &t->exchange, err);
    if (rc != ERR_OK)
        return rc;
    /* Of a language model, which predicts nothing, the decoder keeps its copy of the words. */
    stage_use(t->stage, units);
    if (train_is_leader(t))
        LOG(LOG_INFO, "the best evaluation's weights are kept",
            LOG_I("step", t->progress.best.step), LOG_S("metric", t->progress.best_metric),
            LOG_F("value", t->progress.best.value));
    homes_spread(&t->homes, t->state->step);
    return homes_wait(&t->homes, &t->exchange, err);
}

/* --- the loop --- */

static void start_counting(struct train *t, int split)
{
    t->split = split;
    t->compute = t->update; /* it was not over when that step was summed up */
    t->updated_ns = t->update.wall_ns;
    t->update = (struct stopwatch){0};
    t->tokens = 0;
    t->loss = t->share = (struct message_loss){0};
}

/* Behind the last step it may have to wait. */
static enum err_code save_step(struct train *t, const struct message_end *end, struct err *err)
{
    enum err_code rc = end->saves ? begin_checkpoint(t, end->is_saved, err) : ERR_OK;

    if (rc == ERR_OK && end->saves && t->wanted > 0)
        t->ordered = (struct progress_ordered){t->wanted, t->state->step};
    return rc;
}

static int replica_of(const struct train *t)
{
    return t->plan->workers[t->stage->worker].replica;
}

static void note_leaving(struct train *t, int64_t step)
{
    if (t->is_leaving || !mailbox_is_leaving(t->mailbox))
        return;
    t->is_leaving = true;
    LOG(LOG_INFO, "leaving: goes on until others have its units", LOG_I("step", step));
}

static enum err_code run_step(struct train *t, int64_t step, struct err *err)
{
    struct message_end end = {.n_stages = 0};
    struct message_sum sum;
    enum err_code rc = ERR_OK;

    note_leaving(t, step);
    t->schedule = schedule_of(&t->dealt, replica_of(t), step_seqs(t, step));
    t->step_from_ns = clock_now_ns();
    start_counting(t, TRAIN_STEP);
    homes_collect(&t->homes, step, schedule_computing(&t->dealt, step_seqs(t, step)));
    rc = run_microbatches(t, step, err);
    if (rc == ERR_OK)
        rc = homes_wait(&t->homes, &t->exchange, err);
    if (rc == ERR_OK)
        rc = add_up(t, step, &sum, err);
    if (rc == ERR_OK && train_is_decider(t)) {
        end = decide(t, step, &sum);
        end.next = decide_next(t, step + 1);
    }
    if (rc == ERR_OK)
        rc = end_step(t, step, &end, err);
    if (rc == ERR_OK)
        settle_checkpoint(t, end.is_saved, end.has_failed);
    if (t->state->step == step + 1) /* also when a message behind the update was lost */
        show_step(t, step, &end);
    return rc == ERR_OK ? save_step(t, &end, err) : rc;
}

/* --- asynchronous steps: a round --- */

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

static enum err_code compute_ticket(struct train *t, int64_t ticket, struct err *err)
{
    int n = plan_n_replicas(t->plan);
    int64_t step = tickets_step(ticket, n);

    note_leaving(t, step);
    t->schedule =
        schedule_of_ticket(t->plan, replica_of(t), tickets_part(ticket, n), step_seqs(t, step));
    t->step_from_ns = clock_now_ns();
    start_counting(t, TRAIN_STEP);
    return run_microbatches(t, step, err);
}

static enum err_code run_ticket(struct train *t, int64_t ticket, struct message_end *end,
                                struct err *err)
{
    int64_t step = tickets_step(ticket, plan_n_replicas(t->plan));
    struct message_sum sum;
    enum err_code rc;

    rc = compute_ticket(t, ticket, err);
    if (rc == ERR_OK)
        rc = add_up(t, step, &sum, err);
    return rc == ERR_OK ? return_ticket(t, step, &sum, end, err) : rc;
}

/* Apply the gradients, and get the weights for the next ticket. */
static enum err_code push(struct train *t, int64_t number, const struct message_end *end,
                          struct err *err)
{
    const struct message_push how = {.is_applied = end->end.outcome == STEP_APPLY,
                                     .is_last = end->ticket.next < 0,
                                     .rate = end->end.rate,
                                     .scale = end->end.scale,
                                     .share = end->ticket.share,
                                     .updates = end->end.updates};
    const struct tie *tie = &t->stage->tie;
    /* A ticket without sequences has not waited for its weights. */
    enum err_code rc = homes_wait(&t->homes, &t->exchange, err);

    if (rc != ERR_OK)
        return rc;
    homes_push(&t->homes, number, &how);
    if (how.is_last)
        return homes_wait(&t->homes, &t->exchange, err);
    if (tie->is_tied && t->stage->is_first)
        rc = homes_wait_weights(&t->homes, 0, &t->exchange, err);
    return rc == ERR_OK ? tie_spread(&t->stage->tie, &t->exchange,
                                     tickets_step(end->ticket.next, plan_n_replicas(t->plan)), err)
                        : rc;
}

/* The leader shows the steps that all replicas have done since it last did. */
static void show_ticket(struct train *t, const struct message_end *end)
{
    int64_t n = end->ticket.steps_done - t->progress.step;

    settle_checkpoint(t, end->is_saved, end->has_failed);
    if (n <= 0 || !train_is_leader(t))
        return;
    show_steps(t, end->ticket.steps_done, n, ms_since(t->shown_ns) / 1000, end);
    t->shown_ns = clock_now_ns();
}

/* A round in place of BSP's steps is one because of a straggler. */
static void decide_behind_round(struct train *t, struct message_end *end)
{
    if (protocol_at(t, t->state->step) == SPEC_PROTOCOL_BSP) {
        t->n_free += end->end.step - t->state->step;
        for (int r = 0; r < plan_n_replicas(t->plan); r++)
            note_pace(t, r, desk_batch_ms(t->desk, r), ms_since(t->round_from_ns));
    }
    end->next = decide_next(t, end->end.step);
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
        rc = take_next(t, &end->next, err);
    if (rc != ERR_OK)
        return rc;
    if (train_is_leader(t))
        LOG(LOG_INFO, "asynchronous steps", LOG_I("from", t->state->step),
            LOG_I("to", end->end.step), LOG_F("staleness", end->ticket.staleness),
            LOG_I("greatest", end->ticket.staleness_max));
    state_reach(t->state, &end->end);
    return ERR_OK;
}

/* Replicas leave the boundary: each goes on with weights of its own. */
static enum err_code part(struct train *t, struct err *err)
{
    enum err_code rc = release_state(t, err);

    if (rc == ERR_OK) /* the weights of the step before go to all that run them */
        rc = homes_wait(&t->homes, &t->exchange, err);
    if (rc != ERR_OK)
        return rc;
    stage_take_snapshot(t->stage);
    t->is_ticket = true;
    t->state->is_between = true;
    t->shown_ns = clock_now_ns();
    return ERR_OK;
}

/* They are at the next one, which *end describes: all get its weights. */
static enum err_code join(struct train *t, const struct message_end *end, struct err *err)
{
    enum err_code rc;

    stage_drop_snapshot(t->stage, t->state);
    rc = spread_weights(t, t->state->step - 1, err);
    if (rc == ERR_OK)
        show_ticket(t, end);
    return rc == ERR_OK ? save_step(t, end, err) : rc;
}

static enum err_code open_round(struct train *t, int64_t until, struct err *err)
{
    const struct desk_params params = {.plan = t->plan,
                                       .facts = &t->facts,
                                       .first_step = t->state->step,
                                       .end_step = until,
                                       .updates = t->state->updates};
    enum err_code rc = part(t, err);

    if (rc != ERR_OK)
        return rc;
    t->round_from_ns = clock_now_ns();
    rc = pushes_open(&t->pushes, t->plan, t->stage->worker, t->state, &t->exchange, err);
    if (rc == ERR_OK && train_is_decider(t)) {
        t->desk = calloc(1, sizeof *t->desk);
        rc = t->desk ? desk_open(t->desk, &params, &t->exchange, err)
                     : err_set(err, ERR_NO_MEMORY, "no memory for tickets");
    }
    return rc;
}

/* Only when the thread of the homes has nothing left to push. */
static void close_round(struct train *t)
{
    pushes_close(&t->pushes);
    if (t->desk)
        desk_close(t->desk);
    free(t->desk);
    t->desk = NULL;
    t->is_ticket = false;
}

/* From one boundary to the next one, at `until` or before. */
static enum err_code run_round(struct train *t, int64_t until, struct err *err)
{
    struct message_end end = {.n_stages = 0};
    int64_t step = t->state->step;
    enum err_code rc = open_round(t, until, err);

    if (rc == ERR_OK)
        rc = return_ticket(t, step, NULL, &end, err);
    if (rc == ERR_OK && end.ticket.next < 0) /* others were faster: its guests' homes wait for it */
        rc = push(t, 0, &end, err);
    for (int64_t number = 0; rc == ERR_OK && end.ticket.next >= 0; number++) {
        rc = run_ticket(t, end.ticket.next, &end, err);
        if (rc == ERR_OK)
            rc = push(t, number, &end, err);
        if (rc == ERR_OK)
            show_ticket(t, &end);
    }
    if (rc == ERR_OK)
        rc = meet(t, &end, err);
    if (rc != ERR_OK)
        return rc;
    close_round(t);
    return join(t, &end, err);
}

/* --- steps alone: Local --- */

/* A replica between two meetings. */
struct alone {
    int64_t first_step, n_steps; /* of all replicas together */
    int64_t begin, end;          /* its tickets ... */
    int64_t next;                /* ... and where it is in them */
    int64_t from_ns;
    struct message_loss loss; /* since then, the last stage's ... */
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
    a.begin = a.next = a.first_step * n + begins[replica_of(t)];
    a.end = a.first_step * n + begins[replica_of(t) + 1];
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

    out.ticket.share = schedule_ticket_share(t->plan, tickets_part(a->next, n), step_seqs(t, step));
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
    stopwatch_start(&t->update);
    if (end->end.outcome == STEP_APPLY)
        weights_update(&t->stage->weights, &how);
    else
        weights_skip(&t->stage->weights);
    stopwatch_stop(&t->update);
    return ERR_OK;
}

/* The leader shows how far its own replica is; the last step is shown at the meeting. */
static void show_alone(struct train *t, struct alone *a, struct message_end *end)
{
    const struct progress *p = &t->progress;
    int64_t last = a->first_step + a->n_steps - 1;
    int64_t n_tickets = a->n_steps * plan_n_replicas(t->plan);

    if (!train_is_leader(t))
        return;
    a->n_not_shown += end->n_tokens * n_tickets / (a->end - a->begin);
    end->ticket.steps_done = alone_step(a) < last ? alone_step(a) : last;
    end->n_tokens = a->n_not_shown;
    end->n_stages = p->n_stage_ms;
    memcpy(end->stage_ms, p->stage_ms, sizeof end->stage_ms);
    if (end->ticket.steps_done > p->step)
        a->n_not_shown = 0;
    show_ticket(t, end);
}

static enum err_code run_ticket_alone(struct train *t, struct alone *a, struct err *err)
{
    int64_t step = tickets_step(a->next, plan_n_replicas(t->plan));
    struct message_end end = {.n_stages = 0};
    struct message_sum sum;
    enum err_code rc;

    rc = compute_ticket(t, a->next, err);
    if (rc == ERR_OK)
        rc = add_up_replica(t, step, &sum, err);
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
        rc = tie_spread(&t->stage->tie, &t->exchange, step, err);
    show_alone(t, a, &end);
    return rc;
}

/* What the decider makes of a meeting. Weights that are not finite cannot be left out. */
static struct message_end decide_meeting(const struct train *t, const struct alone *a,
                                         const struct message_sum *sum)
{
    struct message_end out = decide(t, a->first_step + a->n_steps - 1, sum);

    out.end.outcome = out.end.outcome == STEP_APPLY ? STEP_APPLY : STEP_FAIL;
    out.end.updates = t->state->updates + a->n_steps - 1;
    out.ticket.steps_done = out.end.step;
    out.next = decide_next(t, out.end.step);
    memcpy(out.ticket_ms, t->ticket_ms, sizeof out.ticket_ms);
    return out;
}

/* The weights of all replicas go to the homes, and what all have summed up to the decider. */
static enum err_code meet_alone(struct train *t, const struct alone *a, struct message_end *end,
                                struct err *err)
{
    int64_t step = a->first_step + a->n_steps - 1;
    double ticket_ms = a->end > a->begin ? ms_since(a->from_ns) / (double)(a->end - a->begin)
                                         : t->ticket_ms[replica_of(t)];
    struct message_sum sum;
    enum err_code rc;

    stage_offer_weights(t->stage);
    homes_collect(&t->homes, step, (UINT32_C(1) << plan_n_replicas(t->plan)) - 1);
    for (int i = 0; i < t->stage->weights.n_units; i++)
        homes_put(&t->homes, i);
    rc = homes_wait(&t->homes, &t->exchange, err);
    t->is_ticket = false;
    t->schedule.n_microbatches = 0; /* its pace is known */
    t->loss = a->loss;
    t->tokens = a->n_tokens;
    if (rc == ERR_OK)
        rc = add_up_replica(t, step, &sum, err);
    sum.ticket_ms = ticket_ms;
    if (rc == ERR_OK)
        rc = add_up_all(t, step, &sum, err);
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
        rc = take_next(t, &end->next, err);
    if (rc == ERR_OK && end->end.outcome == STEP_FAIL)
        rc = state_apply(t->state, &t->plan->spec, &end->end, err);
    return rc;
}

/* From one meeting of the replicas to the next one, at `until`. */
static enum err_code run_alone(struct train *t, int64_t until, struct err *err)
{
    struct message_end end = {.n_stages = 0};
    struct alone a = deal_tickets(t, until);
    int64_t from_ns;
    enum err_code rc;

    if (!t->has_moments)
        homes_spread_moments(&t->homes, a.first_step);
    t->has_moments = true;
    rc = part(t, err);
    a.from_ns = clock_now_ns();
    while (rc == ERR_OK && a.next < a.end)
        rc = run_ticket_alone(t, &a, err);
    from_ns = clock_now_ns();
    if (rc == ERR_OK)
        rc = meet_alone(t, &a, &end, err);
    if (rc != ERR_OK)
        return rc;
    stage_meet(t->stage, t->state);
    memcpy(t->ticket_ms, end.ticket_ms, sizeof t->ticket_ms);
    state_reach(t->state, &end.end);
    rc = join(t, &end, err);
    if (rc == ERR_OK && train_is_leader(t))
        LOG(LOG_INFO, "replicas have met", LOG_I("from", a.first_step), LOG_I("to", until),
            LOG_I("tickets", a.end - a.begin), LOG_I("of", a.n_steps * plan_n_replicas(t->plan)),
            LOG_F("aloneMs", (double)(from_ns - a.from_ns) / 1e6),
            LOG_F("meetingMs", ms_since(from_ns)));
    return rc;
}

static enum err_code evaluate_split(struct train *t, int64_t step, int split,
                                    struct message_eval *end, struct err *err)
{
    const struct message_split *s = &t->facts.splits[split];
    bool is_lead = t->stage->replica.first_worker == 0; /* the others wait for its end */
    enum err_code rc = ERR_OK;

    *end = (struct message_eval){.best = t->progress.best};
    start_counting(t, split);
    if (train_is_decider(t))
        score_reset(&t->score, s);
    for (int64_t i = 0; rc == ERR_OK && is_lead && i < s->n_batches; i++)
        rc = forward(t, step, i, err);
    if (rc == ERR_OK && train_is_decider(t))
        score_finish(&t->score, s, &t->loss, end);
    if (rc == ERR_OK && train_is_decider(t) && !s->is_test)
        judge(t, step, split, end);
    if (rc == ERR_OK)
        rc = exchange_spread(&t->exchange, ROUTE_FROM_DECIDER, MESSAGE_EVAL_END, step, end,
                             sizeof *end, err);
    if (rc == ERR_OK)
        rc = message_eval_check(end, err);
    if (rc == ERR_OK && train_is_leader(t) && !s->is_test)
        show_evaluation(t, end);
    return rc;
}

static enum err_code evaluate(struct train *t, int64_t steps_done, struct err *err)
{
    struct message_eval end = {.best = t->progress.best};
    enum err_code rc = ERR_OK;

    if (train_is_leader(t)) {
        t->progress.state = PROGRESS_EVALUATING;
        mailbox_set_progress(t->mailbox, &t->progress);
    }
    for (int i = 0; rc == ERR_OK && i < t->facts.n_splits; i++)
        if (!t->facts.splits[i].is_test)
            rc = evaluate_split(t, steps_done, i, &end, err);
    if (rc == ERR_OK)
        rc = conclude(t, steps_done, &end, err);
    return rc;
}

/* After the last step and its evaluation. */
static enum err_code predict(struct train *t, struct err *err)
{
    struct message_eval end;
    enum err_code rc = take_best(t, err);

    for (int i = 0; rc == ERR_OK && i < t->facts.n_splits; i++)
        if (t->facts.splits[i].is_test)
            rc = evaluate_split(t, t->state->step, i, &end, err);
    return rc;
}

/* The session before may have ended while the best checkpoint was being written. Then it is written
 * now if the state is still that one, and else forgotten. */
static enum err_code find_best(struct train *t, struct err *err)
{
    struct progress_best *best = &t->progress.best;
    struct weights_unit *units;
    struct err why = {.text = ""};
    enum err_code rc;

    if (!has_best(t) || read_best(t, BEST_FIND_MS, &units, &why) == ERR_OK)
        return ERR_OK;
    rc = exchange_check(&t->exchange, err);
    if (rc != ERR_OK)
        return rc;
    t->facts.saves = best->step == t->state->step;
    LOG(LOG_WARN, "the checkpoint of the best evaluation cannot be read", LOG_I("step", best->step),
        LOG_S("error", why.text),
        LOG_S("remedy", t->facts.saves ? "it is written again" : "comparing begins anew"));
    *best = t->facts.saves ? (struct progress_best){best->value, t->state->lineage, best->step, 0}
                           : (struct progress_best){.step = 0};
    return ERR_OK;
}

/* The leader's part of agree(): what follows from its data, and from the evaluations so far. */
static enum err_code find_facts(struct train *t, struct err *err)
{
    const struct spec *spec = &t->plan->spec;
    const char *metric = best_is_wanted(spec) ? task_metric_names[spec->training.best_by] : "";
    struct progress *p = &t->progress;
    enum err_code rc;

    t->facts = t->loader->facts;
    if (strcmp(p->best_metric, metric) != 0) /* a run that is resumed may compare otherwise */
        p->best = (struct progress_best){.step = 0};
    (void)snprintf(p->best_metric, sizeof p->best_metric, "%s", metric);
    rc = find_best(t, err);
    if (rc != ERR_OK)
        return rc;
    t->facts.best = p->best;
    p->has_ended_early = best_ends(&p->best, spec) && t->state->step < t->facts.total_steps;
    if (p->has_ended_early) /* in an earlier session */
        t->facts.total_steps = t->state->step;
    return ERR_OK;
}

/* All first stages must read the same data. */
static enum err_code check_data(const struct train *t, struct err *err)
{
    const struct message_facts *own = &t->loader->facts, *facts = &t->facts;

    if (own->steps_per_epoch == facts->steps_per_epoch && own->last_seqs == facts->last_seqs)
        return ERR_OK;
    return err_set(err, ERR_INVALID,
                   "--data: an epoch has %lld steps, the last of %lld sequences, but %lld and %lld "
                   "where the leader is: all replicas must have the same files",
                   (long long)own->steps_per_epoch, (long long)own->last_seqs,
                   (long long)facts->steps_per_epoch, (long long)facts->last_seqs);
}

/* The leader sends all stages the facts of the run. */
static enum err_code agree(struct train *t, struct err *err)
{
    enum err_code rc = train_is_leader(t) ? find_facts(t, err) : ERR_OK;

    if (rc == ERR_OK)
        rc = exchange_spread(&t->exchange, ROUTE_FROM_LEADER, MESSAGE_COMMAND, 0, &t->facts,
                             sizeof t->facts, err);
    if (rc == ERR_OK && !train_is_leader(t))
        rc = message_facts_check(&t->facts, err);
    if (rc == ERR_OK && !train_is_leader(t) && t->stage->is_first)
        rc = check_data(t, err);
    if (rc != ERR_OK)
        return rc;
    t->progress.best = t->facts.best;
    t->progress.total_steps = t->facts.total_steps;
    t->progress.state = PROGRESS_TRAINING;
    t->progress.window = (struct progress_window){.n_samples = 0}; /* of another cut */
    if (t->progress.saved.step > t->state->step)                   /* it could not be read */
        t->progress.saved = (struct progress_saved){.step = 0};
    mailbox_set_progress(t->mailbox, &t->progress);
    return ERR_OK;
}

/* The leader wrote its claim before it sent the facts of the run: a stage that does not find it
 * uses a different volume, and its files could never be published. */
static enum err_code check_output(const struct train *t, struct err *err)
{
    enum err_code rc = ERR_OK;

    if (!t->output || train_is_leader(t))
        return ERR_OK;
    for (int i = 0; i < CLAIM_WAIT_S; i++) {
        rc = exchange_check(&t->exchange, err);
        if (rc == ERR_OK)
            rc = output_find_claim(t->output, err);
        if (rc != ERR_AGAIN)
            return rc;
        (void)sleep(1);
    }
    return err_wrap(err, ERR_TIMEOUT, "after %d s", CLAIM_WAIT_S);
}

static bool is_evaluation_due(const struct train *t, int64_t steps_done)
{
    int every = t->plan->spec.training.evaluate_every;

    return steps_done == t->facts.total_steps ||
           (every > 0 && steps_done > 0 && steps_done % every == 0);
}

/* The next boundary of replicas out of step behind `step`: where something has to be done. */
static int64_t next_boundary(const struct train *t, int64_t step)
{
    int every = t->plan->spec.training.evaluate_every;
    int64_t end = t->facts.total_steps;

    if (every > 0 && (step / every + 1) * every < end)
        end = (step / every + 1) * every;
    return t->until > step && t->until < end ? t->until : end;
}

/* One step, or a round of them. */
static enum err_code go_on(struct train *t, int64_t step, struct err *err)
{
    int64_t end = next_boundary(t, step);
    int64_t n_steps = t->next.n_steps;

    t->protocol = (enum spec_protocol)t->next.protocol;
    if (t->protocol == SPEC_PROTOCOL_BSP)
        return run_step(t, step, err);
    if (t->protocol == SPEC_PROTOCOL_LOCAL)
        n_steps = t->plan->spec.sync.local_steps;
    if (n_steps > 0 && step + n_steps < end)
        end = step + n_steps;
    return t->protocol == SPEC_PROTOCOL_LOCAL ? run_alone(t, end, err) : run_round(t, end, err);
}

/* The evaluation that was due when the session before ended comes first. */
static enum err_code run_steps(struct train *t, struct err *err)
{
    bool is_due = is_evaluation_due(t, t->state->step) &&
                  (t->evaluated < t->state->step || t->state->step == t->facts.total_steps);
    enum err_code rc = ERR_OK;

    while (rc == ERR_OK) {
        int64_t step = t->state->step;

        if (step == t->facts.total_steps && step > 0 && t->state->updates == 0)
            return err_set(err, ERR_LIMIT,
                           "nothing was learned: all %lld steps were skipped, as their loss or a "
                           "gradient was not finite; lower spec.training.optimizer.learningRate or "
                           "check the data and the model to start from",
                           (long long)step);
        if (is_due)
            rc = evaluate(t, step, err);
        if (rc == ERR_OK && step == t->facts.total_steps)
            return predict(t, err);
        if (rc == ERR_OK && t->until > 0 && step == t->until)
            rc = err_set(err, ERR_AGAIN, "halted at step %lld as planned", (long long)step);
        if (rc == ERR_OK)
            rc = go_on(t, step, err);
        is_due = is_evaluation_due(t, t->state->step);
    }
    return rc;
}

static enum err_code open_homes(struct train *t, struct err *err)
{
    if (t->exchange.edges.n_homes > 0) {
        t->hooks = (struct stage_hooks){t, needs_weights, has_added};
        t->stage->hooks = &t->hooks;
    }
    return homes_open(&t->homes, t->plan, t->stage->worker, &t->stage->weights, &t->pushes,
                      &t->exchange, err);
}

enum err_code train_run(struct train *t, struct err *err)
{
    enum err_code rc = agree(t, err);

    if (rc == ERR_OK)
        rc = open_homes(t, err);
    t->cpu_milli = cpu_allowed_milli();
    t->first_step = t->state->step;
    t->saved_step = t->first_step;
    t->dealt = *t->plan;
    t->next = usual_next(t, t->first_step);
    if (t->saved_ms == 0)
        t->saved_ms = clock_now_ms();
    t->meta = malloc(message_max_bytes(&t->stage->limits, 0));
    if (!t->meta && rc == ERR_OK)
        rc = err_set(err, ERR_NO_MEMORY, "no memory for messages");
    if (rc == ERR_OK)
        rc = check_output(t, err);
    if (rc == ERR_OK && train_is_decider(t))
        rc = score_init(&t->score, &t->plan->spec, &t->facts, err);
    if (rc == ERR_OK) /* the decoder's copy is not part of the state */
        rc = spread_weights(t, t->first_step, err);
    if (rc == ERR_OK && t->state->step > t->facts.total_steps)
        rc = err_set(err, ERR_INVALID, "the data are for %lld steps, but %lld are done",
                     (long long)t->facts.total_steps, (long long)t->state->step);
    if (rc == ERR_OK && t->facts.saves)
        rc = begin_checkpoint(t, false, err);
    if (rc == ERR_OK)
        rc = run_steps(t, err);
    if (rc == ERR_OK && t->checkpoint)
        checkpoint_hurry(t->checkpoint);
    if (rc == ERR_OK)
        rc = wait_for_checkpoint(t, err);
    if (rc == ERR_OK && t->checkpoint) /* no STEP_END follows with what the others have written */
        settle_checkpoint(t, !checkpoint_has_failed(t->checkpoint),
                          checkpoint_has_failed(t->checkpoint));
    if (rc == ERR_OK || rc == ERR_AGAIN) /* the others need all that was sent */
        (void)!homes_wait(&t->homes, &t->exchange, NULL);
    homes_close(&t->homes, &t->exchange);
    close_round(t);
    state_settle(t->state);
    free(t->meta);
    t->meta = NULL;
    return rc;
}
