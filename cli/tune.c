/* kubectl-skyjob tune: find out by runs on this machine when the replicas of a job may stop working
 * in step (cli/tuner). */
#include <getopt.h> /* optind */
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/local.h"
#include "cli/pipeline.h"
#include "cli/show.h"
#include "cli/tuning.h"
#include "cli/view.h"

#define POINTS_MAX     100
#define POINTS_DEFAULT 1
#define RUNS_DEFAULT   5
#define STEPS_MAX      100000000

struct tune {
    struct local_params params;
    const char *margin, *n_runs, *n_steps; /* as given; NULL: not */
    const char *output;
    bool wants_json;

    struct local local;   /* its job is that of the run */
    struct spec spec;     /* the job's own */
    struct json *variant; /* that of the run */
    struct tuning tuning;
    struct show show;
};

static bool read_arguments(int argc, char **argv, struct tune *t)
{
    const struct command_option options[] = {
        {"file", 'f', .value = &t->params.job_path},
        {"workers", .value = &t->params.workers},
        {"data", .value = &t->params.data},
        {"model", .value = &t->params.model},
        {"margin", .value = &t->margin},
        {"runs", .value = &t->n_runs},
        {"steps", .value = &t->n_steps},
        {"output", .value = &t->output},
        {"json", .is_set = &t->wants_json},
        {.name = NULL},
    };

    return command_options(argc, argv, options) && optind == argc && t->params.job_path &&
           t->params.workers;
}

/* --- what can be checked before a minute is spent --- */

static enum err_code check_steps(int64_t n, struct err *err)
{
    if (n >= TUNER_STEPS_MIN)
        return ERR_OK;
    return err_set(
        err, ERR_INVALID,
        "spec.training: %lld steps are too few to tune: with fewer than %d the candidates "
        "do not differ",
        (long long)n, TUNER_STEPS_MIN);
}

/* The names are those that a worker looks for (worker/data/layout.c). */
static enum err_code check_dev(const struct local *l, struct err *err)
{
    static const char *const names[] = {"dev.tsv", "dev.txt", "dev_matched.tsv"};
    const char *own = l->job.spec.data.files.dev;
    bool has_dev = own[0] && folder_has(l->data, own);

    for (size_t i = 0; i < sizeof names / sizeof names[0] && !own[0]; i++)
        has_dev = has_dev || folder_has(l->data, names[i]);
    if (has_dev)
        return ERR_OK;
    return err_set(err, ERR_INVALID,
                   "spec.data: there is no dev set in %.200s, and without an evaluation there is "
                   "nothing to compare",
                   l->data);
}

static enum err_code check_output(const char *path, struct err *err)
{
    char copy[PATH_MAX];

    if (!path)
        return ERR_OK;
    (void)snprintf(copy, sizeof copy, "%s", path);
    if (access(dirname(copy), W_OK | X_OK) == 0)
        return ERR_OK;
    (void)file_error(err, "write", path);
    return err_wrap(err, ERR_INVALID, "--output");
}

static enum err_code check_job(const struct tune *t, struct err *err)
{
    const struct spec *s = &t->local.job.spec;
    int steps = t->tuning.steps > 0 ? t->tuning.steps : s->training.steps;

    if (s->replicas < 2)
        return err_set(err, ERR_INVALID,
                       "spec.replicas: must be 2 or more, not %s: a single pipeline has nothing to "
                       "synchronize",
                       s->replicas == 1 ? "1" : "Auto, which may choose 1");
    if (s->training.evaluates_only)
        return err_set(err, ERR_INVALID,
                       "spec.training.steps: must be above 0: with 0 nothing is trained");
    if (s->resume_from[0])
        return err_set(
            err, ERR_INVALID,
            "spec.resumeFrom: the checkpoints of job %s are not on this machine, and all "
            "runs begin with step 0; leave it out",
            s->resume_from);
    return steps > 0 ? check_steps(steps, err) : ERR_OK;
}

static enum err_code prepare(struct tune *t, struct err *err)
{
    enum task_metric list[TASK_METRICS];
    int n_runs = RUNS_DEFAULT;
    enum err_code rc = command_number("margin", t->margin, 0, POINTS_MAX, &t->tuning.points, err);

    if (rc == ERR_OK)
        rc = command_count("runs", t->n_runs, TUNER_RUNS_MIN, TUNER_RUNS_MAX, &n_runs, err);
    if (rc == ERR_OK)
        rc = command_count("steps", t->n_steps, TUNER_STEPS_MIN, STEPS_MAX, &t->tuning.steps, err);
    if (rc == ERR_OK)
        rc = check_output(t->output, err);
    if (rc == ERR_OK)
        rc = local_read_to_run(&t->local, &t->params, err);
    if (rc == ERR_OK)
        rc = check_job(t, err);
    if (rc == ERR_OK)
        rc = check_dev(&t->local, err);
    if (rc != ERR_OK)
        return rc;
    t->spec = t->local.job.spec;
    t->tuning.job = &t->local.job;
    t->tuning.spec = &t->spec;
    t->tuning.base = t->local.job.spec_json;
    t->tuning.later = spec_later_protocol(&t->spec) == SPEC_PROTOCOL_LOCAL ? SPEC_PROTOCOL_LOCAL
                                                                           : SPEC_PROTOCOL_ASP;
    (void)task_metric_list(task_find(t->spec.data.task), list);
    t->tuning.metric = t->spec.training.keeps_best ? t->spec.training.best_by : list[0];
    tuner_init(&t->tuning.tuner, t->tuning.points * TUNING_POINT,
               t->tuning.metric == TASK_EVAL_LOSS, n_runs);
    return ERR_OK;
}

/* --- runs --- */

/* Make the job that of a run. */
static enum err_code set_variant(struct tune *t, const struct tuner_run *run, struct err *err)
{
    struct job *job = &t->local.job;
    const struct variant_run how = {.sync = tuning_sync(&t->tuning, run->percent),
                                    .seed = tuning_seed(&t->tuning, run->seed),
                                    .steps = t->tuning.steps};
    struct json *made = NULL;
    enum err_code rc = variant_spec(&t->spec, t->tuning.base, &how, &made, err);

    if (rc == ERR_OK)
        rc = spec_parse(made, &job->spec, err);
    if (rc != ERR_OK) {
        json_free(made);
        return rc;
    }
    job->spec_json = made;
    job->spec.checkpoint.is_on = job->spec.checkpoint.is_peers;
    json_free(t->variant);
    t->variant = made;
    return ERR_OK;
}

/* All protocols run on the same plan. That of a Switch has the memory for each. */
static enum err_code measure(struct tune *t, struct err *err)
{
    const struct tuner_run some = {.percent = tuner_percents[TUNER_CANDIDATES - 1]};
    enum err_code rc = set_variant(t, &some, err);

    if (rc == ERR_OK)
        rc = local_measure(&t->local, &t->params, err);
    if (rc == ERR_OK) {
        view_stages(&t->local, t->params.messages);
        (void)fprintf(t->params.messages, "\n");
        (void)fflush(t->params.messages);
    }
    return rc;
}

/* NaN when it was not measured. */
static double metric_of(const struct tune *t, const struct progress *leader)
{
    if (t->spec.training.keeps_best)
        return leader->best.step > 0 ? leader->best.value : NAN;
    for (int i = 0; i < leader->n_metrics; i++)
        if (strcmp(leader->metrics[i].name, task_metric_names[t->tuning.metric]) == 0)
            return leader->metrics[i].value;
    return NAN;
}

static void print_run(struct tune *t, const struct tuner_run *run,
                      const struct tuner_result *result, const struct err *reason)
{
    char line[SHOW_SUMMARY_BYTES], name[VARIANT_NAME_BYTES], duration[32];

    variant_name(tuning_sync(&t->tuning, run->percent), name);
    show_duration(result->seconds, duration);
    (void)snprintf(line, sizeof line, "%-20s seed %lld  ", name,
                   (long long)tuning_seed(&t->tuning, run->seed));
    if (result->is_trained)
        text_add(line, sizeof line, "%s %.4f  %s", task_metric_names[t->tuning.metric],
                 result->metric, duration);
    else
        text_add(line, sizeof line, "failed after %s: %s", duration, reason->text);
    t->show.is_quiet = false;
    show_note(&t->show, line);
    t->show.is_quiet = true;
}

/* ERR_INVALID when the loss or the metric is not finite, or a worker has found that this job cannot
 * be trained. */
static enum err_code train(struct tune *t, struct tuner_result *out, struct err *err)
{
    struct pipeline_params params = {
        .local = &t->local, .model_dir = t->params.model, .show = &t->show};
    struct progress leader;
    int64_t start_ms = clock_now_ms();
    enum err_code rc = pipeline_run(&params, &leader, err);

    out->seconds = (double)(clock_now_ms() - start_ms) / 1e3;
    if (rc != ERR_OK)
        return rc;
    if (t->tuning.total_steps < leader.total_steps)
        t->tuning.total_steps = leader.total_steps;
    out->metric = metric_of(t, &leader);
    out->is_trained = isfinite(leader.loss) && isfinite(out->metric);
    if (!out->is_trained)
        return err_set(err, ERR_INVALID, "after step %lld the loss or %s is missing or not finite",
                       (long long)leader.step, task_metric_names[t->tuning.metric]);
    /* Those of epochs are known only now. */
    return leader.has_ended_early ? ERR_OK : check_steps(leader.total_steps, err);
}

/* With BSP a job that cannot be trained ends the tuning. If BSP has trained it with the same seed,
 * it is the protocol's fault. */
static enum err_code run_once(struct tune *t, const struct tuner_run *run, struct err *err)
{
    struct tuner_result result = {.is_trained = false};
    enum err_code rc = set_variant(t, run, err);

    t->local.plan.spec = t->local.job.spec;
    scratch_end(&t->local.scratch, false); /* of the run before, or of the measurement */
    if (rc == ERR_OK)
        rc = scratch_make(&t->local.scratch, err);
    if (rc != ERR_OK)
        return rc;
    rc = train(t, &result, err);
    if (rc != ERR_OK && (rc != ERR_INVALID || run->percent == TUNER_BSP))
        return rc;
    print_run(t, run, &result, err);
    tuner_note(&t->tuning.tuner, &result);
    return ERR_OK;
}

static enum err_code run_all(struct tune *t, struct err *err)
{
    struct tuner_run run;
    char name[VARIANT_NAME_BYTES];
    enum err_code rc = ERR_OK;

    show_init(&t->show, t->params.messages);
    t->show.is_quiet = true;
    while (rc == ERR_OK && tuner_next(&t->tuning.tuner, &run)) {
        rc = run_once(t, &run, err);
        if (rc != ERR_OK && rc != ERR_GONE) {
            variant_name(tuning_sync(&t->tuning, run.percent), name);
            (void)err_wrap(err, rc, "%s, seed %lld", name,
                           (long long)tuning_seed(&t->tuning, run.seed));
        }
    }
    show_end(&t->show);
    if (rc == ERR_OK)
        scratch_end(&t->local.scratch, false);
    return rc;
}

int command_tune(int argc, char **argv)
{
    static struct tune t;
    struct err err;
    enum err_code rc;

    if (!read_arguments(argc, argv, &t))
        return command_usage(argv[0]);
    t.params.messages = t.wants_json ? stderr : stdout;
    t.tuning.points = POINTS_DEFAULT;
    interrupt_catch();
    rc = prepare(&t, &err);
    if (rc == ERR_OK)
        rc = measure(&t, &err);
    if (rc == ERR_OK)
        rc = run_all(&t, &err);
    if (rc == ERR_OK)
        rc = t.wants_json ? tuning_print_json(&t.tuning, stdout, &err)
                          : tuning_print(&t.tuning, stdout, &err);
    if (rc == ERR_OK && t.output)
        rc = tuning_write(&t.tuning, t.output, &err);
    if (rc == ERR_OK && t.output)
        (void)fprintf(t.params.messages, "the job with the result is in %s\n", t.output);
    json_free(t.variant);
    local_end(&t.local, rc);
    return rc == ERR_OK ? EXIT_DONE : command_failed(&err);
}
