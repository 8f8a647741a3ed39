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
#include "base/jsonw.h"
#include "cli/command.h"
#include "cli/local.h"
#include "cli/pipeline.h"
#include "cli/report.h"
#include "cli/show.h"

struct arguments {
    struct local_params local;
    const char *output;
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
        {"json", .is_set = &a->wants_json},
        {"serial", .is_set = &a->local.is_serial},
        {.name = NULL},
    };

    return command_options(argc, argv, options) && optind == argc && a->local.job_path &&
           a->local.workers;
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
    const struct report report = {.local = l, .cluster = &none, .measured = leader};
    struct buf text = {.max = REPORT_MAX_BYTES};
    struct jsonw w;
    enum err_code rc;

    jsonw_init(&w, &text);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "job", l->job.name);
    jsonw_string(&w, "state", progress_state_name(leader->state));
    jsonw_double(&w, "seconds", seconds);
    jsonw_int(&w, "step", leader->step);
    jsonw_int(&w, "skippedSteps", leader->skipped_steps);
    jsonw_string(&w, "randomlyInitialized", leader->initialised);
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
    report_write(&report, &w);
    write_nodes(&w, l);
    jsonw_close(&w);
    rc = jsonw_finish(&w, err);
    if (rc == ERR_OK)
        (void)printf("%s\n", buf_text(&text));
    buf_deinit(&text);
    return rc;
}

/* --- the result for people --- */

static void print_end(FILE *out, const struct progress *leader, const char *output, double seconds)
{
    char line[SHOW_SUMMARY_BYTES];

    show_notes(out, leader);
    show_summary(leader, seconds, output, line);
    (void)fprintf(out, "%s\n", line);
}

static void on_progress(void *ctx, const struct progress *leader)
{
    struct show *show = ctx;
    char line[SHOW_LINE_BYTES];

    show_progress_text(leader, line);
    show_line(show, line, leader->state != PROGRESS_TRAINING, clock_now_ms());
}

static void on_evaluation(void *ctx, const struct json *evaluation)
{
    char line[SHOW_SUMMARY_BYTES];

    show_evaluation(evaluation, line);
    show_note(ctx, line);
}

static enum err_code write_plan(const struct local *l, struct err *err)
{
    struct buf text = {.max = PLAN_TEXT_MAX_BYTES};
    char path[PATH_MAX];
    enum err_code rc = plan_write(&l->plan, l->job.spec_json, &text, err);

    if (rc == ERR_OK)
        rc = folder_path(l->scratch.path, PLAN_FILE, path, err);
    if (rc == ERR_OK)
        rc = file_write(path, text.data, text.len, err);
    buf_deinit(&text);
    return rc;
}

static enum err_code make_output(const char *path, struct err *err)
{
    char folder[PATH_MAX];

    if (!path)
        return ERR_OK;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return err_set(err, ERR_INVALID, "--output: make %.300s: %s", path, strerror(errno));
    (void)snprintf(folder, sizeof folder, "%s/.", path); /* an error for anything but a folder */
    if (access(folder, W_OK | X_OK) != 0)
        return err_set(err, ERR_INVALID, "--output: write to %.300s: %s", path, strerror(errno));
    return ERR_OK;
}

static enum err_code train(const struct local *l, const struct arguments *a, struct show *show,
                           struct progress *out_leader, struct err *err)
{
    char data[LOCAL_PATH_BYTES];
    struct pipeline_params params = {.local = l,
                                     .data_dir = data,
                                     .model_dir = a->local.model,
                                     .output_dir = a->output,
                                     .ctx = show,
                                     .on_progress = on_progress,
                                     .on_evaluation = on_evaluation};
    enum err_code rc = local_find_data(&l->job.spec, a->local.data, data, err);

    if (rc == ERR_OK)
        rc = write_plan(l, err);
    return rc == ERR_OK ? pipeline_run(&params, out_leader, err) : rc;
}

/* What can be checked before a minute is spent on measuring. */
static enum err_code check_early(const struct arguments *a, struct err *err)
{
    char data[LOCAL_PATH_BYTES];
    struct job job;
    enum err_code rc = job_load(a->local.job_path, a->local.model, &job, err);

    if (rc != ERR_OK)
        return rc;
    rc = local_find_data(&job.spec, a->local.data, data, err);
    if (rc == ERR_OK)
        rc = local_check_model(&job.spec, a->local.model, err);
    if (rc == ERR_OK)
        rc = make_output(a->output, err);
    job_deinit(&job);
    return rc;
}

int command_run(int argc, char **argv)
{
    static struct local local;
    struct arguments a = {.wants_json = false};
    struct progress leader;
    struct show show;
    struct err err;
    int64_t start_ms;
    double seconds;
    enum err_code rc;

    if (!read_arguments(argc, argv, &a))
        return command_usage(argv[0]);
    a.local.talk = a.wants_json ? stderr : stdout;
    interrupt_catch();
    rc = check_early(&a, &err);
    if (rc == ERR_OK)
        rc = local_init(&local, &a.local, &err);
    start_ms = clock_now_ms();
    if (rc == ERR_OK) {
        report_stages(&local, a.local.talk);
        (void)fprintf(a.local.talk, "\n%s\n\n", local.plan.summary.explanation);
        if (local.plan.is_serial)
            (void)fprintf(a.local.talk,
                          "one micro-batch at a time: a step will take longer than "
                          "the %.4g ms of the pipeline\n\n",
                          local.plan.summary.predicted_step_ms);
        show_init(&show, a.local.talk);
        rc = train(&local, &a, &show, &leader, &err);
        show_end(&show);
        if (rc != ERR_OK && rc != ERR_GONE)
            (void)fprintf(stderr, "the workers' logs are in %s\n", local.scratch.path);
    }
    seconds = (double)(clock_now_ms() - start_ms) / 1e3;
    if (rc == ERR_OK && a.wants_json)
        rc = print_json(&local, &leader, seconds, &err);
    else if (rc == ERR_OK)
        print_end(stdout, &leader, a.output, seconds);
    local_deinit(&local, rc != ERR_OK && rc != ERR_GONE && local.plan.n_stages > 0);
    return rc == ERR_OK ? EXIT_DONE : command_failed(&err);
}
