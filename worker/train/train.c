#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/cpu.h"
#include "train/schedule.h"
#include "train/weights.h"

#define CLAIM_WAIT_S 60  /* network file systems cache that a file was missing */
#define SMOOTHING    0.1 /* share of the newest step in the averages that are shown */

/* --- one micro-batch --- */

/* The leader makes a micro-batch ... */
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

/* ... and the other stages receive it. The message is released before the forward pass, so that the
 * neighbour can send the next one meanwhile. */
static enum err_code receive_batch(struct train *t, struct exchange_key key, int slot,
                                   struct err *err)
{
    struct message_batch batch;
    struct link_message msg;
    const struct stage_slot *in = &t->stage->slots[slot];
    const float *from;
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
        rc = exchange_view(&t->exchange, &msg, in->in_floats, in->input, &from, err);
    if (rc == ERR_OK && from != in->input)
        memcpy(in->input, from, msg.tensor_bytes);
    stopwatch_stop(&t->compute);
    exchange_release(&t->exchange, key, &msg);
    return rc;
}

static enum err_code add_result(struct train *t, const struct message_batch *batch,
                                const struct stage_result *result, struct err *err)
{
    t->loss.sum += result->loss.sum;
    t->loss.n += result->loss.n;
    t->loss.next_sum += result->loss.next_sum;
    t->loss.n_seqs += result->loss.n_seqs;
    if (t->split == TRAIN_STEP)
        return ERR_OK;
    return score_add(&t->score, t->facts.splits[t->split].is_test, batch, result, err);
}

/* Micro-batch `index` of the step, or of the split that is evaluated: through this stage, and on to
 * the next one or into the sums. */
static enum err_code forward(struct train *t, int64_t step, int64_t index, struct err *err)
{
    struct exchange_key key = exchange_key(LINK_FORWARD_IN, FRAME_FORWARD, step, (int)index);
    bool is_eval = t->split != TRAIN_STEP;
    int slot = is_eval ? 0 : key.microbatch % t->stage->n_slots;
    const struct message_batch *batch = &t->stage->slots[slot].batch;
    struct stage_result result;
    enum err_code rc;

    key.flags = is_eval ? FRAME_EVAL : 0;
    rc = t->stage->is_first ? make_batch(t, key, slot, err) : receive_batch(t, key, slot, err);
    if (rc != ERR_OK)
        return rc;
    stopwatch_start(&t->compute);
    stage_forward(t->stage, slot, &result);
    stopwatch_stop(&t->compute);
    t->tokens += batch->n_tokens;
    if (t->stage->is_last)
        return add_result(t, batch, &result, err);
    key.edge = LINK_FORWARD_OUT;
    return exchange_send(&t->exchange, key, t->meta, message_batch_write(batch, t->meta),
                         result.tensor, result.floats, err);
}

/* Back through the stage, and the gradient of the input to the stage before. */
static enum err_code push_back(struct train *t, int64_t step, int microbatch, const float *dout,
                               struct err *err)
{
    int slot = microbatch % t->stage->n_slots;
    const float *din;

    stopwatch_start(&t->compute);
    din = stage_backward(t->stage, slot, dout);
    stopwatch_stop(&t->compute);
    if (!din)
        return ERR_OK;
    return exchange_send(&t->exchange,
                         exchange_key(LINK_BACKWARD_OUT, FRAME_BACKWARD, step, microbatch), NULL, 0,
                         din, t->stage->slots[slot].in_floats, err);
}

/* Of micro-batch `index`, whose forward is done. */
static enum err_code backward(struct train *t, int64_t step, int index, struct err *err)
{
    struct exchange_key key = exchange_key(LINK_BACKWARD_IN, FRAME_BACKWARD, step, index);
    int slot = index % t->stage->n_slots;
    struct link_message msg;
    const float *dout;
    enum err_code rc;

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

/* The mean of the first steps, then an exponential average. Step 0 is slower, as it touches all
 * memory for the first time: it counts only until there is another. */
static void smooth(double *average, double value, int64_t step)
{
    double share = step > 1 ? 1.0 / (double)step : 1;

    *average += (share > SMOOTHING ? share : SMOOTHING) * (value - *average);
}

/* Sequences of `step`: the last one of an epoch may have fewer. */
static int step_seqs(const struct train *t, int64_t step)
{
    int batch = t->plan->spec.training.batch_size;

    if ((step + 1) % t->facts.steps_per_epoch == 0 && t->facts.last_seqs < batch)
        return (int)t->facts.last_seqs;
    return batch;
}

/* A smaller step is not averaged with the others, unless there are no others. */
static bool is_typical(const struct train *t, int64_t step)
{
    return t->facts.steps_per_epoch == 1 || step_seqs(t, step) == t->plan->spec.training.batch_size;
}

/* Milliseconds per micro-batch, of the steps so far. */
static double stage_ms(struct train *t, int64_t step)
{
    int n = schedule_of(t->plan, step_seqs(t, step)).n_microbatches;

    if (!is_typical(t, step))
        return stopwatch_ms(t->wall_ms, t->cpu_ms, t->cpu_milli);
    smooth(&t->wall_ms, (double)t->compute.wall_ns / 1e6 / n,
           step - 1); /* with the update before */
    smooth(&t->cpu_ms, (double)t->compute.cpu_ns / 1e6 / n, step - 1);
    return stopwatch_ms(t->wall_ms, t->cpu_ms, t->cpu_milli);
}

/* Receive the sum of the stages before, add this stage's, pass it on. */
static enum err_code add_up(struct train *t, int64_t step, struct message_sum *sum, struct err *err)
{
    enum err_code rc = ERR_OK;

    *sum = (struct message_sum){0};
    if (!t->stage->is_first)
        rc =
            exchange_recv_meta(&t->exchange, exchange_key(LINK_FORWARD_IN, FRAME_STEP_SUM, step, 0),
                               sum, sizeof *sum, err);
    if (rc == ERR_OK)
        rc = message_sum_check(sum, err);
    if (rc != ERR_OK)
        return rc;
    stopwatch_start(&t->compute);
    sum->square_sum = weights_square_sum(&t->stage->weights, sum->square_sum);
    stopwatch_stop(&t->compute);
    sum->stage_ms[sum->n_stages++] = stage_ms(t, step);
    if (t->stage->is_last)
        return ERR_OK;
    return exchange_send(&t->exchange, exchange_key(LINK_FORWARD_OUT, FRAME_STEP_SUM, step, 0), sum,
                         sizeof *sum, NULL, 0, err);
}

/* Pass `end` from the last stage, which has filled it, back to the first. */
static enum err_code spread(struct train *t, int64_t step, uint32_t flags, struct message_end *end,
                            struct err *err)
{
    struct exchange_key in = exchange_key(LINK_BACKWARD_IN, FRAME_STEP_END, step, 0);
    struct exchange_key out = exchange_key(LINK_BACKWARD_OUT, FRAME_STEP_END, step, 0);
    enum err_code rc = ERR_OK;

    in.flags = flags;
    out.flags = flags;
    if (!t->stage->is_last)
        rc = exchange_recv_meta(&t->exchange, in, end, sizeof *end, err);
    if (rc == ERR_OK && !t->stage->is_last)
        rc = message_end_check(end, err);
    if (rc != ERR_OK || t->stage->is_first)
        return rc;
    return exchange_send(&t->exchange, out, end, sizeof *end, NULL, 0, err);
}

/* All stages see the same sums, so all skip the same steps. */
static enum err_code skip(struct train *t, int64_t step, struct err *err)
{
    if (t->plan->spec.training.non_finite == SPEC_NON_FINITE_FAIL)
        return err_set(
            err, ERR_INVALID,
            "step %lld: the loss or a gradient is not finite; lower "
            "spec.training.optimizer.learningRate, or set spec.training.nonFinitePolicy to "
            "Skip to leave such steps out",
            (long long)step + 1);
    weights_skip(&t->stage->weights);
    t->progress.skipped_steps++;
    if (t->stage->is_first)
        LOG(LOG_WARN, "step skipped: the loss or a gradient is not finite",
            LOG_I("step", step + 1));
    return ERR_OK;
}

static enum err_code update(struct train *t, int64_t step, const struct message_end *end,
                            struct err *err)
{
    const struct spec *spec = &t->plan->spec;
    double loss = message_loss_mean(&end->loss);
    struct weights_step how = {
        .spec = spec,
        .rate = optimizer_rate(spec, step, t->facts.total_steps),
        .scale = optimizer_scale(end->sum.square_sum, spec->training.max_grad_norm),
        .updates = t->updates,
    };

    if (!isfinite(loss) || !isfinite(end->sum.square_sum))
        return skip(t, step, err);
    stopwatch_start(&t->update);
    weights_update(&t->stage->weights, &how);
    t->updates++;
    stopwatch_stop(&t->update);
    return tie_spread(&t->stage->tie, &t->exchange, step, err);
}

/* --- progress --- */

static void show_step(struct train *t, int64_t step, const struct message_end *end, double seconds)
{
    struct progress *p = &t->progress;

    if (is_typical(t, step)) {
        smooth(&t->seconds_per_step, seconds, step);
        if (step > 0) /* see smooth() */
            stretch_add(&t->steps, seconds * 1000);
        smooth(&t->tokens_per_step, (double)t->tokens, step);
    }
    p->state = PROGRESS_TRAINING;
    p->step = step + 1;
    p->epoch = (int)((step + 1) / t->facts.steps_per_epoch);
    p->loss = message_loss_mean(&end->loss);
    p->step_ms = t->seconds_per_step * 1000;
    p->best_step_ms = t->steps.best_ms;
    p->tokens_per_second = t->tokens_per_step / t->seconds_per_step;
    p->eta_seconds = (double)(t->facts.total_steps - step - 1) * t->seconds_per_step;
    p->n_stage_ms = end->sum.n_stages;
    memcpy(p->stage_ms, end->sum.stage_ms, sizeof p->stage_ms);
    mailbox_set_progress(t->mailbox, p);
    history_step(&t->history, p, clock_now_ms());
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

static void show_evaluation(struct train *t, const struct message_end *end)
{
    const struct layout *layout = &t->loader->layout;
    enum metric_kind kinds[METRIC_KINDS];
    int n = metric_list(layout->task, kinds);

    for (int i = 0; i < n && i < end->n_metrics; i++) {
        char name[METRIC_NAME_BYTES];

        metric_name(kinds[i], layout->dev[t->facts.splits[t->split].place].suffix, name);
        show_metric(&t->progress, name, end->metrics[i]);
        LOG(LOG_INFO, "evaluated", LOG_I("step", t->progress.step), LOG_S("metric", name),
            LOG_F("value", end->metrics[i]));
    }
    mailbox_set_progress(t->mailbox, &t->progress);
}

/* --- the loop --- */

static void start_counting(struct train *t, int split)
{
    t->split = split;
    t->compute = t->update; /* it was not over when that step was summed up */
    t->update = (struct stopwatch){0};
    t->tokens = 0;
    t->loss = (struct message_loss){0};
}

static enum err_code run_step(struct train *t, int64_t step, struct err *err)
{
    const struct schedule schedule = schedule_of(t->plan, step_seqs(t, step));
    int64_t start_ns = clock_now_ns();
    struct message_end end = {.n_metrics = 0};
    enum err_code rc = ERR_OK;

    start_counting(t, TRAIN_STEP);
    for (int i = 0; rc == ERR_OK && i < schedule_length(&schedule); i++) {
        struct schedule_op op = schedule_op(&schedule, t->stage->index, i);

        rc = op.is_backward ? backward(t, step, op.microbatch, err)
                            : forward(t, step, op.microbatch, err);
    }
    if (rc == ERR_OK)
        rc = tie_collect(&t->stage->tie, &t->exchange, step, err);
    if (rc == ERR_OK)
        rc = add_up(t, step, &end.sum, err);
    end.loss = t->loss;
    if (rc == ERR_OK)
        rc = spread(t, step, 0, &end, err);
    if (rc == ERR_OK)
        rc = update(t, step, &end, err);
    if (rc == ERR_OK)
        show_step(t, step, &end, (double)(clock_now_ns() - start_ns) / 1e9);
    return rc;
}

static enum err_code evaluate_split(struct train *t, int64_t step, int split, struct err *err)
{
    const struct message_split *s = &t->facts.splits[split];
    struct message_end end = {.n_metrics = 0};
    enum err_code rc = ERR_OK;

    start_counting(t, split);
    if (t->stage->is_last)
        score_reset(&t->score, s);
    for (int64_t i = 0; rc == ERR_OK && i < s->n_batches; i++)
        rc = forward(t, step, i, err);
    end.loss = t->loss;
    if (rc == ERR_OK && t->stage->is_last)
        score_finish(&t->score, s, &end);
    if (rc == ERR_OK)
        rc = spread(t, step, FRAME_EVAL, &end, err);
    if (rc == ERR_OK && t->stage->is_first && !s->is_test)
        show_evaluation(t, &end);
    return rc;
}

static enum err_code evaluate(struct train *t, int64_t steps_done, struct err *err)
{
    int64_t step = steps_done > 0 ? steps_done - 1 : 0;
    bool is_end = steps_done == t->facts.total_steps;
    enum err_code rc = ERR_OK;

    if (t->stage->is_first) {
        t->progress.state = PROGRESS_EVALUATING;
        mailbox_set_progress(t->mailbox, &t->progress);
    }
    for (int i = 0; rc == ERR_OK && i < t->facts.n_splits; i++)
        if (is_end || !t->facts.splits[i].is_test)
            rc = evaluate_split(t, step, i, err);
    if (rc == ERR_OK)
        history_evaluation(&t->history, &t->progress, clock_now_ms());
    return rc;
}

/* The leader sends all stages the facts of the run. */
static enum err_code agree(struct train *t, struct err *err)
{
    enum err_code rc = ERR_OK;

    if (t->stage->is_first)
        t->facts = t->loader->facts;
    else
        rc = exchange_recv_meta(&t->exchange, exchange_key(LINK_FORWARD_IN, FRAME_COMMAND, 0, 0),
                                &t->facts, sizeof t->facts, err);
    if (rc == ERR_OK && !t->stage->is_first)
        rc = message_facts_check(&t->facts, err);
    if (rc != ERR_OK)
        return rc;
    t->progress.total_steps = t->facts.total_steps;
    t->progress.state = PROGRESS_TRAINING;
    mailbox_set_progress(t->mailbox, &t->progress);
    if (t->stage->is_last)
        return ERR_OK;
    return exchange_send(&t->exchange, exchange_key(LINK_FORWARD_OUT, FRAME_COMMAND, 0, 0),
                         &t->facts, sizeof t->facts, NULL, 0, err);
}

/* The leader wrote its claim before it sent the facts of the run: a stage that does not find it has
 * another volume, and its files could never be published. */
static enum err_code check_output(const struct train *t, struct err *err)
{
    enum err_code rc = ERR_OK;

    if (!t->output || t->stage->is_first)
        return ERR_OK;
    for (int i = 0; i < CLAIM_WAIT_S; i++) {
        rc = output_find_claim(t->output, err);
        if (rc != ERR_AGAIN)
            return rc;
        (void)sleep(1);
    }
    return rc;
}

static bool is_evaluation_due(const struct train *t, int64_t steps_done)
{
    int every = t->plan->spec.training.evaluate_every;

    return steps_done == t->facts.total_steps || (every > 0 && steps_done % every == 0);
}

enum err_code train_run(struct train *t, struct err *err)
{
    enum err_code rc = agree(t, err);

    t->cpu_milli = cpu_allowed_milli();
    t->meta = malloc(message_max_bytes(&t->stage->limits));
    if (!t->meta && rc == ERR_OK)
        rc = err_set(err, ERR_NO_MEMORY, "no memory for messages");
    if (rc == ERR_OK)
        rc = check_output(t, err);
    if (rc == ERR_OK && t->stage->is_last)
        rc = score_init(&t->score, &t->plan->spec, &t->facts, err);
    for (int64_t step = 0; rc == ERR_OK && step < t->facts.total_steps; step++) {
        rc = run_step(t, step, err);
        if (rc == ERR_OK && step + 1 == t->facts.total_steps && t->updates == 0)
            rc = err_set(err, ERR_LIMIT,
                         "nothing was learned: all %lld steps were skipped, as their loss or a "
                         "gradient was not finite; lower spec.training.optimizer.learningRate or "
                         "check the data and the model to start from",
                         (long long)t->facts.total_steps);
        if (rc == ERR_OK && is_evaluation_due(t, step + 1))
            rc = evaluate(t, step + 1, err);
    }
    if (rc == ERR_OK && t->facts.total_steps == 0)
        rc = evaluate(t, 0, err);
    free(t->meta);
    t->meta = NULL;
    return rc;
}
