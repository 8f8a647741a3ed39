#include "train/train_parts.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define SMOOTHING 0.1 /* share of the newest step in the averages that are shown */

/* The mean of a session's first steps, then an exponential average; `i` counts them. The first one
 * is slower, as it touches all memory for the first time: it counts only until there is another. */
static void smooth(double *average, double value, int64_t i)
{
    double share = i > 1 ? 1.0 / (double)i : 1;

    *average += (share > SMOOTHING ? share : SMOOTHING) * (value - *average);
}

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

static void show_straggler(const struct message_next *next, char *text, size_t size)
{
    static const char *const answers[] = {
        [SPEC_STRAGGLERS_WAIT] = "the others wait for it",
        [SPEC_STRAGGLERS_GREEDY] = "replicas are asynchronous meanwhile",
        [SPEC_STRAGGLERS_ELASTIC] = "the others compute what it would hold up",
    };
    int n = snprintf(
        text, size, "replica %d takes %.1f ms per micro-batch instead of the usual %.1f; %s",
        __builtin_ctz(next->lagging), next->lag_ms, next->usual_ms, answers[next->answer]);

    if (next->answer != SPEC_STRAGGLERS_WAIT && next->answer_ms > 0 && n > 0 && (size_t)n < size)
        (void)snprintf(text + n, size - (size_t)n, ", in steps of %.0f ms instead of %.0f",
                       next->answer_ms, next->wait_ms);
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
        show_straggler(&t->next, sync->lagging, sizeof sync->lagging);
}

void train_count_steps(struct train *t, int64_t steps_done)
{
    if (steps_done <= t->n_counted)
        return;
    tally_add(&t->mailbox->tally.n_steps, steps_done - t->n_counted);
    t->n_counted = steps_done;
}

void train_show_steps(struct train *t, int64_t steps_done, int64_t n, double seconds,
                      const struct message_end *end)
{
    struct progress *p = &t->progress;
    double each = seconds / (double)n;

    if (train_is_typical(t, steps_done - 1)) {
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

void train_show_step(struct train *t, int64_t step, const struct message_end *end)
{
    int64_t now_ns = clock_now_ns();

    tally_turn(&t->mailbox->tally, TALLY_OTHER, now_ns);
    train_count_steps(t, step + 1);
    train_show_steps(t, step + 1, 1, (double)(now_ns - t->step_from_ns) / 1e9, end);
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

void train_show_evaluation(struct train *t, const struct message_eval *end)
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
