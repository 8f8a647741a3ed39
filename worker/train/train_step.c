#include "train/train_parts.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "nn/optimizers.h"
#include "train/cpu.h"

#define RETRY_MS 1000 /* between two tries to write a last checkpoint */

/* --- where the time goes --- */

/* Within steps; evaluations are counted as a whole. */
static void turn(struct train *t, enum tally_part part, int64_t now_ns)
{
    if (t->split == TRAIN_STEP)
        tally_turn(&t->mailbox->tally, part, now_ns);
}

void train_watch(struct train *t, struct stopwatch *w, enum tally_part part)
{
    stopwatch_start(w);
    turn(t, part, w->wall_from_ns);
}

void train_unwatch(struct train *t, struct stopwatch *w, enum tally_part next)
{
    stopwatch_stop(w);
    turn(t, next, w->wall_to_ns);
}

enum tally_part train_between(const struct train *t)
{
    return t->exchange.edges.n_homes > 0 ? TALLY_EXCHANGE : TALLY_WAITING;
}

/* --- one micro-batch --- */

/* The first stage makes a micro-batch ... */
static enum err_code make_batch(struct train *t, struct exchange_key key, int slot, struct err *err)
{
    struct message_batch batch;
    enum err_code rc;

    train_watch(t, &t->compute, TALLY_FORWARD);
    rc = t->split == TRAIN_STEP ? loader_train(t->loader, key.step, key.microbatch, &batch, err)
                                : loader_eval(t->loader, t->split, key.microbatch, &batch, err);
    if (rc == ERR_OK)
        rc = stage_load(t->stage, slot, &batch, err);
    train_unwatch(t, &t->compute, TALLY_WAITING);
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
    train_watch(t, &t->compute, TALLY_FORWARD);
    rc = message_batch_read(msg.meta, msg.meta_bytes, &t->stage->limits, &batch, err);
    if (rc == ERR_OK) {
        batch.step = key.step;
        batch.is_eval = t->split != TRAIN_STEP;
        rc = stage_load(t->stage, slot, &batch, err);
    }
    if (rc == ERR_OK)
        rc = exchange_view(&t->exchange, &msg, in->in_floats, in->unpacked, &in->input, err);
    train_unwatch(t, &t->compute, TALLY_WAITING);
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
    enum tally_part part = t->mailbox->tally.part;
    enum err_code rc;

    train_unwatch(t, &t->compute, TALLY_EXCHANGE);
    rc = homes_wait_weights(&t->homes, i, &t->exchange, &t->hook_failure);
    if (rc == ERR_OK)
        rc = couriers_wait_weights(&t->couriers, i, &t->exchange, &t->hook_failure);
    train_watch(t, &t->compute, part);
    return rc == ERR_OK;
}

/* To the embeddings' gradient, that of a decoder is added first. */
static void has_added(void *ctx, int i)
{
    struct train *t = ctx;

    if (t->is_last_backward && !(i == 0 && t->stage->tie.is_tied && t->stage->is_first))
        homes_put(&t->homes, i);
}

enum err_code train_forward(struct train *t, int64_t step, int64_t index, struct err *err)
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
    train_watch(t, &t->compute, TALLY_FORWARD);
    if (!stage_forward(t->stage, slot, &result))
        rc = err_set(err, t->hook_failure.code, "%s", t->hook_failure.text);
    train_unwatch(t, &t->compute, TALLY_WAITING);
    if (rc != ERR_OK)
        return rc;
    if (is_eval)
        release_input(t, slot);
    else
        tally_add(&t->mailbox->tally.n_tokens, batch->n_tokens);
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

    train_watch(t, &t->compute, TALLY_BACKWARD);
    din = stage_backward(t->stage, slot, dout);
    train_unwatch(t, &t->compute, TALLY_WAITING);
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

struct stage_hooks train_hooks(struct train *t)
{
    return (struct stage_hooks){t, needs_weights, has_added};
}

/* --- the sums --- */

int train_step_seqs(const struct train *t, int64_t step)
{
    return message_step_seqs(&t->facts, t->plan->spec.training.batch_size, step);
}

bool train_is_typical(const struct train *t, int64_t step)
{
    return t->facts.steps_per_epoch == 1 ||
           train_step_seqs(t, step) == t->plan->spec.training.batch_size;
}

double train_ms_since(int64_t from_ns)
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

    if (n > 0 && train_is_typical(t, step)) /* with the update before */
        pace_add(&t->computing, train_ms_since(t->step_from_ns),
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

/* One that is leaving wants a last checkpoint. If that fails, as when a bucket does not answer, it
 * is tried again. */
static bool is_last_checkpoint_due(const struct train *t)
{
    return t->checkpoint && t->is_leaving && !t->is_kept &&
           (!t->progress.saved.has_failed || clock_now_ms() - t->saved_ms >= RETRY_MS);
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
    train_watch(t, &t->compute, TALLY_BACKWARD);
    stage_end_share(t->stage, share == t->stage->replica.first_share, is_last);
    train_unwatch(t, &t->compute, is_last ? train_between(t) : TALLY_WAITING);
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

enum err_code train_microbatches(struct train *t, int64_t step, struct err *err)
{
    const struct schedule *schedule = &t->schedule;
    int n = schedule_microbatches(t->plan, train_step_seqs(t, step));
    int last = schedule->first_microbatch + schedule->n_microbatches - 1;
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK && i < schedule_length(schedule); i++) {
        struct schedule_op op = schedule_op(schedule, t->stage->index, i);
        int share = -1;

        t->is_last_backward = op.is_backward && op.microbatch == last;
        rc = op.is_backward ? backward(t, step, op.microbatch, err)
                            : train_forward(t, step, op.microbatch, err);
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

    train_watch(t, &t->compute, TALLY_UPDATE);
    for (int i = 0; i < w->n_units; i++)
        sum->square_sums[sum->n_units++] = t->is_ticket || stage_is_home(t->stage, i)
                                               ? squares_sum(w->units[i].grads, w->units[i].count)
                                               : 0;
    train_unwatch(t, &t->compute, TALLY_WAITING);
    pace = stage_pace(t, step);
    if (train_is_typical(t, step))
        sum->batch_ms = fmax(sum->batch_ms, batch_ms(t));
    sum->stage_mad_ms[sum->n_stages] = pace.mad_ms;
    sum->stage_ms[sum->n_stages++] = pace.median_ms;
    t->wanted = find_order(t);
    if ((train_is_leader(t) && is_checkpoint_due(t, step + 1)) || t->wanted > 0 ||
        is_last_checkpoint_due(t))
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

enum err_code train_add_up_replica(struct train *t, int64_t step, struct message_sum *sum,
                                   struct err *err)
{
    enum err_code rc = ERR_OK;

    *sum = (struct message_sum){.n_units = 0};
    if (t->exchange.edges.n_homes > 0)
        turn(t, TALLY_WAITING, clock_now_ns());
    if (!t->stage->is_first)
        rc = exchange_recv_sum(&t->exchange, EDGE_FORWARD_IN, step, t->stage->weights.first_unit,
                               sum, err);
    if (rc != ERR_OK)
        return rc;
    add_own(t, step, sum);
    return t->stage->is_last ? ERR_OK : send_sum(t, EDGE_FORWARD_OUT, step, sum, err);
}

void train_note_pace(struct train *t, int replica, double ms, double elapsed_ms)
{
    double usual_ms = stragglers_usual_ms(&t->stragglers, replica);

    if (stragglers_add(&t->stragglers, replica, ms, elapsed_ms))
        LOG(LOG_INFO,
            stragglers_found(&t->stragglers) >> replica & 1 ? "straggler" : "no straggler any more",
            LOG_I("step", t->state->step), LOG_I("replica", replica),
            LOG_F("ms", t->stragglers.replicas[replica].last_ms), LOG_F("usualMs", usual_ms));
}

enum err_code train_add_up_all(struct train *t, int64_t step, struct message_sum *sum,
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
        train_note_pace(t, 0, sum->batch_ms, train_ms_since(t->step_from_ns));
    for (int r = 1; rc == ERR_OK && r < n_replicas; r++) {
        struct message_sum other;

        rc = exchange_recv_sum(&t->exchange, EDGE_SUMS_IN + r, step, sum->n_units, &other, err);
        if (rc == ERR_OK)
            rc = add_replica(sum, &other, err);
        t->ticket_ms[r] = rc == ERR_OK ? other.ticket_ms : 0;
        if (rc == ERR_OK)
            train_note_pace(t, r, other.batch_ms, train_ms_since(t->step_from_ns));
    }
    return rc;
}

enum err_code train_add_up(struct train *t, int64_t step, struct message_sum *sum, struct err *err)
{
    enum err_code rc = train_add_up_replica(t, step, sum, err);

    return rc == ERR_OK ? train_add_up_all(t, step, sum, err) : rc;
}

/* --- how the next steps are done --- */

enum spec_protocol train_protocol_at(const struct train *t, int64_t steps_done)
{
    const struct spec *spec = &t->plan->spec;

    if (plan_n_replicas(t->plan) == 1 ||
        steps_done - t->n_free < spec_switch_step(spec, t->facts.total_steps))
        return SPEC_PROTOCOL_BSP;
    return spec_later_protocol(spec);
}

struct message_next train_usual_next(const struct train *t, int64_t steps_done)
{
    struct message_next next = {.protocol = (int32_t)train_protocol_at(t, steps_done)};

    for (int k = 0; plan_n_replicas(t->plan) > 1 && k < t->plan->n_shares; k++)
        next.shares[k] = t->plan->shares[k];
    return next;
}

struct message_next train_decide_next(const struct train *t, int64_t steps_done)
{
    struct message_next next = train_usual_next(t, steps_done);
    const struct stragglers *s = &t->stragglers;
    struct stragglers_answer answer;

    if (next.protocol != SPEC_PROTOCOL_BSP || plan_n_replicas(t->plan) == 1)
        return next;
    next.lagging = stragglers_found(s);
    if (next.lagging == 0)
        return next;
    next.lag_ms = s->replicas[__builtin_ctz(next.lagging)].last_ms;
    next.usual_ms = stragglers_usual_ms(s, __builtin_ctz(next.lagging));
    answer = stragglers_answer(s, t->plan, steps_done);
    next.answer = (int32_t)answer.how;
    next.answer_ms = answer.ms;
    next.wait_ms = answer.wait_ms;
    memcpy(next.shares, answer.shares, sizeof next.shares);
    if (answer.how == SPEC_STRAGGLERS_GREEDY) {
        next.protocol = SPEC_PROTOCOL_ASP;
        next.n_steps = STRAGGLERS_ROUND;
    }
    return next;
}

enum err_code train_take_next(struct train *t, const struct message_next *next, struct err *err)
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

/* --- the end of a step --- */

struct message_end train_decide(const struct train *t, int64_t step, const struct message_sum *sum)
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

enum err_code train_release_state(struct train *t, struct err *err)
{
    enum err_code rc = ERR_OK;

    while (rc == ERR_OK && t->checkpoint &&
           !checkpoint_before_update(t->checkpoint, CHECKPOINT_WAIT_MS))
        rc = exchange_check(&t->exchange, err);
    return rc;
}

enum err_code train_spread_weights(struct train *t, int64_t step, struct err *err)
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
        rc = train_take_next(t, &end->next, err);
    if (rc == ERR_OK)
        rc = train_release_state(t, err);
    if (rc != ERR_OK)
        return rc;
    train_watch(t, &t->update, TALLY_UPDATE);
    rc = state_apply(state, &t->plan->spec, &end->end, err);
    train_unwatch(t, &t->update, train_between(t));
    if (rc == ERR_OK && rc_sent != ERR_OK)
        rc = err_set(err, rc_sent, "%s", why.text);
    if (rc != ERR_OK)
        return rc;
    if (end->end.outcome == STEP_SKIP && train_is_leader(t))
        LOG(LOG_WARN, "step skipped: the loss or a gradient is not finite",
            LOG_I("step", step + 1));
    return train_spread_weights(t, step, err);
}

/* --- a step in step --- */

static void note_switch(struct train *t)
{
    if (t->switched_ns > 0 && train_is_leader(t))
        LOG(LOG_INFO, "the protocol has changed",
            LOG_S("protocol", spec_protocol_names[t->protocol]), LOG_I("step", t->state->step),
            LOG_F("ms", train_ms_since(t->switched_ns)));
    t->switched_ns = 0;
}

void train_start_counting(struct train *t, int split)
{
    if (split == TRAIN_STEP)
        note_switch(t);
    t->split = split;
    turn(t, TALLY_WAITING, t->step_from_ns);
    t->compute = t->update; /* it was not over when that step was summed up */
    t->updated_ns = t->update.wall_ns;
    t->update = (struct stopwatch){0};
    t->tokens = 0;
    t->loss = t->share = (struct message_loss){0};
}

int train_replica(const struct train *t)
{
    return t->plan->workers[t->stage->worker].replica;
}

void train_note_leaving(struct train *t, int64_t step)
{
    if (t->is_leaving || !mailbox_is_leaving(t->mailbox))
        return;
    t->is_leaving = true;
    LOG(LOG_INFO, "leaving: goes on until others have its units", LOG_I("step", step));
}

enum err_code train_run_step(struct train *t, int64_t step, struct err *err)
{
    struct message_end end = {.n_stages = 0};
    struct message_sum sum;
    enum err_code rc = ERR_OK;

    train_note_leaving(t, step);
    t->schedule = schedule_of(&t->dealt, train_replica(t), train_step_seqs(t, step));
    t->step_from_ns = clock_now_ns();
    train_start_counting(t, TRAIN_STEP);
    homes_collect(&t->homes, step, schedule_computing(&t->dealt, train_step_seqs(t, step)));
    rc = train_microbatches(t, step, err);
    if (rc == ERR_OK)
        rc = homes_wait(&t->homes, &t->exchange, err);
    if (rc == ERR_OK)
        rc = train_add_up(t, step, &sum, err);
    if (rc == ERR_OK && train_is_decider(t)) {
        end = train_decide(t, step, &sum);
        end.next = train_decide_next(t, step + 1);
    }
    if (rc == ERR_OK)
        rc = end_step(t, step, &end, err);
    if (rc == ERR_OK)
        train_settle_checkpoint(t, end.is_saved, end.has_failed);
    if (t->state->step == step + 1) /* also when a message behind the update was lost */
        train_show_step(t, step, &end);
    return rc == ERR_OK ? train_save_step(t, &end, err) : rc;
}
