/* kubectl-skyjob run: train a SkyJob on this machine, without a cluster. */
#include <errno.h>
#include <getopt.h> /* optind */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/local.h"
#include "cli/pipeline.h"
#include "cli/show.h"
#include "cli/view.h"
#include "http/s3.h"

struct arguments {
    struct local_params local;
    const char *output;
    const char *checkpoints;
    bool resumes;
    const char *resume_from;
    int n_cuts;
    const char *cuts[COMMAND_REPEATS_MAX];
    bool wants_json;
};

static bool read_arguments(int argc, char **argv, struct arguments *a)
{
    const struct command_option options[] = {
        {"file", 'f', .value = &a->local.job_path},
        {"workers", .value = &a->local.workers},
        {"strategy", .value = &a->local.strategy},
        {"data", .value = &a->local.data},
        {"model", .value = &a->local.model},
        {"output", .value = &a->output},
        {"revise", .value = a->cuts, .n = &a->n_cuts},
        {"json", .is_set = &a->wants_json},
        {"serial", .is_set = &a->local.is_serial},
        {"checkpoints", .value = &a->checkpoints},
        {"resume", .is_set = &a->resumes},
        {"resume-from", .value = &a->resume_from},
        {.name = NULL},
    };

    return command_options(argc, argv, options) && optind == argc && a->local.job_path &&
           a->local.workers && (a->checkpoints || !(a->resumes || a->resume_from));
}

/* --- the result for programs --- */

static void write_nodes(struct jsonw *w, const struct local *l)
{
    jsonw_open_array(w, "nodes");
    for (int i = 0; i < l->n_workers; i++) {
        const struct node *n = &l->workers[i];

        jsonw_open_object(w, NULL);
        jsonw_string(w, "name", n->name);
        jsonw_int(w, "cpuMilli", n->cpu_milli);
        jsonw_double(w, "gflops", n->gflops);
        jsonw_double(w, "unitMilliseconds", n->unit_ms);
        jsonw_string(w, "blasCore", l->probes[i].blas_core);
        jsonw_close(w);
    }
    jsonw_close(w);
}

static enum err_code print_json(const struct local *l, const struct progress *leader,
                                double seconds, struct err *err)
{
    static const struct cluster none;
    const struct view view = {.local = l, .cluster = &none, .measured = leader};
    struct buf text = {.max = VIEW_MAX_BYTES};
    struct jsonw w;
    enum err_code rc;

    jsonw_init(&w, &text);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "job", l->job.name);
    jsonw_string(&w, "state", progress_state_names[leader->state]);
    jsonw_double(&w, "seconds", seconds);
    jsonw_int(&w, "step", leader->step);
    jsonw_int(&w, "skippedSteps", leader->skipped_steps);
    jsonw_string(&w, "randomlyInitialized", leader->randomly_initialized);
    if (isfinite(leader->loss))
        jsonw_double(&w, "loss", leader->loss);
    jsonw_double(&w, "tokensPerSecond", leader->tokens_per_second);
    jsonw_double(&w, "stepMilliseconds", leader->step_ms);
    if (leader->best_step_ms > 0)
        jsonw_double(&w, "bestStepMilliseconds", leader->best_step_ms);
    jsonw_open_object(&w, "metrics");
    for (int i = 0; i < leader->n_metrics; i++)
        if (isfinite(leader->metrics[i].value))
            jsonw_double(&w, leader->metrics[i].name, leader->metrics[i].value);
        else
            jsonw_null(&w, leader->metrics[i].name);
    jsonw_close(&w);
    if (leader->best.step > 0) {
        jsonw_open_object(&w, "best");
        jsonw_string(&w, "metric", leader->best_metric);
        jsonw_double(&w, "value", leader->best.value);
        jsonw_int(&w, "step", leader->best.step);
        jsonw_close(&w);
    }
    jsonw_bool(&w, "endedEarly", leader->has_ended_early);
    jsonw_bool(&w, "serial", l->plan.is_serial);
    view_write(&view, &w);
    write_nodes(&w, l);
    jsonw_close(&w);
    rc = jsonw_finish(&w, err);
    if (rc == ERR_OK)
        (void)printf("%s\n", buf_text(&text));
    buf_deinit(&text);
    return rc;
}

static enum err_code make_folder(const char *option, const char *path, struct err *err)
{
    char folder[PATH_MAX];

    if (!path)
        return ERR_OK;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return err_set(err, ERR_INVALID, "%s: make %.300s: %s", option, path, strerror(errno));
    (void)snprintf(folder, sizeof folder, "%s/.", path); /* an error for anything but a folder */
    if (access(folder, W_OK | X_OK) != 0)
        return err_set(err, ERR_INVALID, "%s: write to %.300s: %s", option, path, strerror(errno));
    return ERR_OK;
}

static enum err_code take_first(void *ctx, const struct s3_object *object, struct err *err)
{
    (void)object;
    *(bool *)ctx = false;
    return err_set(err, ERR_AGAIN, "one is enough");
}

/* Is there nothing under that prefix? Also finds out whether the bucket can be used. */
static enum err_code bucket_is_empty(const char *url, bool *out, struct err *err)
{
    struct s3_access access;
    struct s3 *s3 = NULL;
    enum err_code rc = s3_access_load(url, &access, err);

    *out = true;
    if (rc == ERR_OK)
        rc = s3_new(&access, &s3, err);
    if (rc == ERR_OK)
        rc = s3_list(s3, take_first, out, err);
    s3_free(s3);
    return rc == ERR_AGAIN ? ERR_OK : rc;
}

/* What cannot be used because of how the command was given. */
static enum err_code refuse(const char *option, enum err_code rc, struct err *err)
{
    return err_wrap(err, err_is_transient(rc) ? rc : ERR_INVALID, "%s", option);
}

/* Workers take checkpoints over from folder to folder, or within a bucket. */
static enum err_code check_same_kind(const struct arguments *a, struct err *err)
{
    bool is_bucket = s3_is_url(a->checkpoints);
    struct s3_access own, other;
    enum err_code rc;

    if (s3_is_url(a->resume_from) != is_bucket)
        return err_set(err, ERR_INVALID,
                       "--resume-from: must be %s, as --checkpoints is: copy the other run's "
                       "checkpoints to one first",
                       is_bucket ? "an s3:// URL" : "a folder");
    if (!is_bucket)
        return ERR_OK;
    rc = s3_access_load(a->checkpoints, &own, err);
    if (rc != ERR_OK)
        return refuse("--checkpoints", rc, err);
    rc = s3_access_load(a->resume_from, &other, err);
    if (rc != ERR_OK)
        return refuse("--resume-from", rc, err);
    if (strcmp(own.bucket, other.bucket) != 0)
        return err_set(err, ERR_INVALID,
                       "--resume-from: must be in the bucket of --checkpoints, %s: copy the other "
                       "run's checkpoints there first",
                       own.bucket);
    return ERR_OK;
}

/* Are there any? What they are is for the workers to see. */
static enum err_code check_other(const char *place, struct err *err)
{
    bool is_empty;
    enum err_code rc = s3_is_url(place) ? bucket_is_empty(place, &is_empty, err)
                                        : folder_is_empty(place, &is_empty, err);

    if (rc == ERR_OK && is_empty)
        rc = err_set(err, ERR_INVALID, "there are no checkpoints in %.200s", place);
    return rc == ERR_OK ? ERR_OK : refuse("--resume-from", rc, err);
}

/* What an earlier run left is neither used nor lost by accident. */
static enum err_code check_checkpoints(const struct arguments *a, struct err *err)
{
    bool is_empty = true;
    enum err_code rc = ERR_OK;

    if (!a->checkpoints)
        return ERR_OK;
    if (a->resume_from)
        rc = check_same_kind(a, err);
    if (rc != ERR_OK)
        return rc;
    if (s3_is_url(a->checkpoints)) {
        rc = bucket_is_empty(a->checkpoints, &is_empty, err);
        if (rc != ERR_OK)
            return refuse("--checkpoints", rc, err);
    } else {
        rc = make_folder("--checkpoints", a->checkpoints, err);
        if (rc == ERR_OK)
            rc = folder_is_empty(a->checkpoints, &is_empty, err);
    }
    if (rc == ERR_OK && is_empty && a->resumes)
        return err_set(err, ERR_INVALID, "--resume: there are no checkpoints in %.300s",
                       a->checkpoints);
    if (rc == ERR_OK && is_empty && a->resume_from)
        return check_other(a->resume_from, err);
    if (rc == ERR_OK && !is_empty && !a->resumes)
        return err_set(err, ERR_INVALID,
                       "--checkpoints: %.300s is not empty: add --resume to go on from its newest "
                       "checkpoint, or give another folder",
                       a->checkpoints);
    return rc;
}

/* The cuts of --revise, in rising order. */
static enum err_code read_cuts(const struct arguments *a, const struct local *l,
                               struct cut out[static COMMAND_REPEATS_MAX], struct err *err)
{
    int n_workers = 1;
    enum err_code rc = ERR_OK;

    for (const char *at = a->local.workers; *at; at++)
        n_workers += *at == ',';
    for (int i = 0; i < a->n_cuts && rc == ERR_OK; i++) {
        rc = cut_parse(a->cuts[i], n_workers, &l->job.spec.model, &out[i], err);
        if (rc == ERR_OK && i > 0 && out[i].step <= out[i - 1].step)
            rc = err_set(err, ERR_INVALID,
                         "--revise %.100s: must be of a later step than the one "
                         "before",
                         a->cuts[i]);
    }
    return rc;
}

/* What can be checked before a minute is spent on measuring. */
static enum err_code prepare(struct local *local, const struct arguments *a,
                             struct cut cuts[static COMMAND_REPEATS_MAX], struct err *err)
{
    enum err_code rc = local_read_to_run(local, &a->local, err);

    if (rc == ERR_OK && !a->resume_from && local->job.spec.resume_from[0])
        rc = err_set(err, ERR_INVALID,
                     "spec.resumeFrom: the checkpoints of job %s are not on this machine: give the "
                     "folder or the s3:// URL that has them as --resume-from",
                     local->job.spec.resume_from);
    if (rc == ERR_OK)
        rc = read_cuts(a, local, cuts, err);
    if (rc == ERR_OK && a->checkpoints && local->job.spec.checkpoint.mode == SPEC_SAVING_NEVER)
        rc = err_set(err, ERR_INVALID,
                     "--checkpoints: has no effect with spec.checkpoint.mode Never; leave one of "
                     "them out");
    if (a->checkpoints)
        local->job.spec.checkpoint.is_peers = false; /* the folder takes its place */
    local->job.spec.checkpoint.is_on = a->checkpoints || local->job.spec.checkpoint.is_peers;
    if (rc == ERR_OK)
        rc = spec_check_best(&local->job.spec, a->output, err);
    if (rc == ERR_OK)
        rc = make_folder("--output", a->output, err);
    return rc == ERR_OK ? check_checkpoints(a, err) : rc;
}

int command_run(int argc, char **argv)
{
    static struct local local;
    static struct cut cuts[COMMAND_REPEATS_MAX];
    struct arguments a = {.wants_json = false};
    struct progress leader;
    struct show show;
    struct pipeline_params params = {.local = &local, .cuts = cuts, .show = &show};
    char line[SHOW_SUMMARY_BYTES];
    struct err err;
    int64_t start_ms;
    double seconds;
    enum err_code rc;

    if (!read_arguments(argc, argv, &a))
        return command_usage(argv[0]);
    a.local.messages = a.wants_json ? stderr : stdout;
    params.model_dir = a.local.model;
    params.output_dir = a.output;
    params.checkpoints_dir = a.checkpoints;
    params.resume_from = a.resume_from;
    params.n_cuts = a.n_cuts;
    interrupt_catch();
    checkpoint_catch();
    rc = prepare(&local, &a, cuts, &err);
    if (rc == ERR_OK)
        rc = local_measure(&local, &a.local, &err);
    start_ms = clock_now_ms();
    if (rc == ERR_OK) {
        view_stages(&local, a.local.messages);
        (void)fprintf(a.local.messages, "\n%s\n\n", local.plan.summary.explanation);
        if (local.plan.is_serial)
            (void)fprintf(a.local.messages,
                          "one micro-batch at a time: a step will take longer than "
                          "the %.4g ms of the pipeline\n\n",
                          local.plan.summary.predicted_step_ms);
        show_init(&show, a.local.messages);
        rc = pipeline_run(&params, &leader, &err);
        show_end(&show);
    }
    seconds = (double)(clock_now_ms() - start_ms) / 1e3;
    if (a.n_cuts > 0)
        leader.n_stage_ms = 0; /* of another cut than the plan that is shown */
    if (rc == ERR_OK && a.wants_json) {
        rc = print_json(&local, &leader, seconds, &err);
    } else if (rc == ERR_OK) {
        show_notes(stdout, &leader);
        show_summary(&leader, seconds, a.output, line);
        (void)printf("%s\n", line);
    }
    local_end(&local, rc);
    return rc == ERR_OK ? EXIT_DONE : command_failed(&err);
}
