#include "train/train_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/cpu.h"
#include "train/weights.h"

#define CLAIM_WAIT_S 60     /* network file systems cache that a file was missing */
#define BEST_WAIT_MS 300000 /* for other stages to write the best checkpoint ... */
#define BEST_FIND_MS 10000  /* ... which a session before this one has written */
#define BEST_POLL_MS 50

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

/* The checkpoint that was begun last is complete: it is as old as the state that it holds. */
static void note_saved(struct train *t)
{
    if (t->progress.saved.step != t->begun)
        atomic_store(&t->mailbox->tally.saved_ms, clock_wall_ms() - (clock_now_ms() - t->saved_ms));
    t->progress.saved = (struct progress_saved){.step = t->begun};
}

void train_settle_checkpoint(struct train *t, bool is_saved, bool has_failed)
{
    if (t->begun > 0 && has_failed) {
        t->progress.saved.has_failed = true;
        t->is_kept = false;
    } else if (t->begun > 0 && is_saved) {
        note_saved(t);
    }
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

enum err_code train_save_step(struct train *t, const struct message_end *end, struct err *err)
{
    enum err_code rc = end->saves ? begin_checkpoint(t, end->is_saved, err) : ERR_OK;

    if (rc == ERR_OK && end->saves && t->wanted > 0)
        t->ordered = (struct progress_ordered){t->wanted, t->state->step};
    return rc;
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

/* --- evaluations --- */

static enum err_code evaluate_split(struct train *t, int64_t step, int split,
                                    struct message_eval *end, struct err *err)
{
    const struct message_split *s = &t->facts.splits[split];
    bool is_lead = t->stage->replica.first_worker == 0; /* the others wait for its end */
    enum err_code rc = ERR_OK;

    *end = (struct message_eval){.best = t->progress.best};
    train_start_counting(t, split);
    if (train_is_decider(t))
        score_reset(&t->score, s);
    for (int64_t i = 0; rc == ERR_OK && is_lead && i < s->n_batches; i++)
        rc = train_forward(t, step, i, err);
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
        train_show_evaluation(t, end);
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

/* --- how a session begins --- */

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

/* --- the loop --- */

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
    int64_t boundary = next_boundary(t, step);
    int64_t n_steps = t->next.n_steps;
    int64_t end;

    if (t->protocol != (enum spec_protocol)t->next.protocol && step > t->first_step)
        t->switched_ns = clock_now_ns();
    t->protocol = (enum spec_protocol)t->next.protocol;
    if (t->protocol == SPEC_PROTOCOL_BSP)
        return train_run_step(t, step, err);
    if (t->protocol == SPEC_PROTOCOL_LOCAL)
        n_steps = t->plan->spec.sync.local_steps;
    end = n_steps > 0 && step + n_steps < boundary ? step + n_steps : boundary;
    return t->protocol == SPEC_PROTOCOL_LOCAL ? train_run_alone(t, end, end == boundary, err)
                                              : train_run_round(t, end, err);
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
        t->hooks = train_hooks(t);
        t->stage->hooks = &t->hooks;
    }
    return homes_open(&t->homes, t->plan, t->stage->worker, &t->stage->weights, &t->exchange, err);
}

enum err_code train_run(struct train *t, struct err *err)
{
    enum err_code rc;

    tally_begin(&t->mailbox->tally, clock_now_ns());
    rc = agree(t, err);
    if (rc == ERR_OK)
        rc = open_homes(t, err);
    t->cpu_milli = cpu_allowed_milli();
    t->first_step = t->n_counted = t->state->step;
    t->saved_step = t->first_step;
    t->dealt = *t->plan;
    t->next = train_usual_next(t, t->first_step);
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
        rc = train_spread_weights(t, t->first_step, err);
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
        train_settle_checkpoint(t, !checkpoint_has_failed(t->checkpoint),
                                checkpoint_has_failed(t->checkpoint));
    if (rc == ERR_OK || rc == ERR_AGAIN) /* the others need all that was sent */
        (void)!homes_wait(&t->homes, &t->exchange, NULL);
    homes_close(&t->homes, &t->exchange);
    train_close_round(t);
    state_settle(t->state);
    free(t->meta);
    t->meta = NULL;
    return rc;
}
