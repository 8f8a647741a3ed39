#include "cli/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/show.h"

#define SAVING_MIN 0.01 /* of the time of BSP: less is noise */
#define SEED_MAX   INT64_C(9007199254740991)

struct variant_sync tuning_sync(const struct tuning *t, int percent)
{
    return (struct variant_sync){.percent = percent, .later = t->later};
}

int64_t tuning_seed(const struct tuning *t, int i)
{
    int64_t own = t->spec->training.seed;

    return own <= SEED_MAX - TUNER_RUNS_MAX ? own + i : own - i;
}

/* --- for people --- */

static double reference_seconds(const struct tuner *t)
{
    double sum = 0;

    for (int i = 0; i < t->n_references; i++)
        sum += t->references[i].seconds;
    return sum / t->n_references;
}

/* What the answer is worth. */
struct worth {
    int64_t job_steps;
    double saved_seconds; /* per job of so many steps */
    double n_jobs;        /* after which the tuning has paid for itself; 0: nothing is saved */
};

static struct worth worth_of(const struct tuning *t)
{
    int own = t->steps > 0 ? t->spec->training.steps : 0;
    struct worth w = {.job_steps = own > 0 ? own : t->total_steps};

    w.saved_seconds = tuner_saving(&t->tuner) * (double)w.job_steps / (double)t->total_steps;
    if (tuner_saving(&t->tuner) > SAVING_MIN * reference_seconds(&t->tuner))
        w.n_jobs = ceil(tuner_seconds(&t->tuner) / w.saved_seconds);
    return w;
}

static const char *const verdict_names[] = {
    [TUNER_OPEN] = "not tested",     [TUNER_GOOD] = "good enough",
    [TUNER_WORSE] = "worse",         [TUNER_FUTILE] = "given up",
    [TUNER_UNDECIDED] = "undecided", [TUNER_FAILED] = "failed to train",
};

static void print_row(const struct tuning *t, int i, FILE *out)
{
    struct tuner_summary s = tuner_summary(&t->tuner, i);
    char name[VARIANT_NAME_BYTES], bounds[48] = "-", mean[16] = "-", seconds[16] = "-",
                                   speed[16] = "-";

    variant_name(tuning_sync(t, tuner_percents[i]), name);
    if (s.n_pairs > 0) {
        (void)snprintf(mean, sizeof mean, "%+.2f", s.mean / TUNING_POINT);
        (void)snprintf(seconds, sizeof seconds, "%.1f s", s.seconds);
        (void)snprintf(speed, sizeof speed, "%.2fx", s.bsp_seconds / s.seconds);
    }
    if (s.n_pairs > 1)
        (void)snprintf(bounds, sizeof bounds, "%+.2f to %+.2f", s.lower / TUNING_POINT,
                       s.upper / TUNING_POINT);
    (void)fprintf(out, "%-20s %4d  %10s  %18s  %9s  %6s  %s\n", name, t->tuner.candidates[i].n,
                  mean, bounds, seconds, speed, verdict_names[s.verdict]);
}

static void print_table(const struct tuning *t, FILE *out)
{
    char seconds[16];

    (void)fprintf(out, "\n%-20s %4s  %10s  %18s  %9s  %6s  %s\n", "SYNC", "RUNS", "DIFFERENCE",
                  "BOUNDS", "TIME", "SPEED", "RESULT");
    for (int i = 0; i < TUNER_CANDIDATES; i++)
        print_row(t, i, out);
    (void)snprintf(seconds, sizeof seconds, "%.1f s", reference_seconds(&t->tuner));
    (void)fprintf(out, "%-20s %4d  %10s  %18s  %9s  %6s\n", "BSP", t->tuner.n_references, "", "",
                  seconds, "1.00x");
    (void)fprintf(out,
                  "differences from BSP with the same seed, in points (%.2f) of %s, with one-sided "
                  "%.0f%% bounds\n",
                  TUNING_POINT, task_metric_names[t->metric], 100 * (1 - TUNER_ALPHA));
}

static void print_worth(const struct tuning *t, FILE *out)
{
    struct worth w = worth_of(t);
    char duration[32];

    show_duration(tuner_seconds(&t->tuner), duration);
    (void)fprintf(out, "cost: %d runs, %s\n", tuner_count(&t->tuner), duration);
    if (w.n_jobs > 0)
        (void)fprintf(
            out,
            "saves %.1f s per job of %lld steps on these workers: paid for after %.0f such "
            "%s\n",
            w.saved_seconds, (long long)w.job_steps, w.n_jobs, w.n_jobs == 1 ? "job" : "jobs");
    else
        (void)fprintf(out, "saves nothing\n");
    if (t->steps > 0 && w.job_steps != t->total_steps)
        (void)fprintf(
            out,
            "note: the runs had %lld steps, the job has %lld: a longer job may need another "
            "switch point\n",
            (long long)t->total_steps, (long long)w.job_steps);
}

/* The patch for the job, and the job with it; the caller owns both. */
static enum err_code make_documents(const struct tuning *t, struct json **out_patch,
                                    struct json **out_manifest, struct err *err)
{
    struct json *patch = NULL;
    enum err_code rc =
        variant_patch(t->spec, t->base, tuning_sync(t, tuner_answer(&t->tuner)), &patch, err);

    if (rc == ERR_OK)
        rc = variant_apply(t->job->document, patch, out_manifest, err);
    if (rc == ERR_OK)
        *out_patch = patch;
    else
        json_free(patch);
    return rc;
}

/* How the answer gets into the job. */
static enum err_code print_use(const struct tuning *t, FILE *out, struct err *err)
{
    bool has_namespace = strcmp(t->job->namespace, "default") != 0;
    struct buf yaml = {.max = VARIANT_MAX_BYTES};
    struct json *patch = NULL;
    struct json *manifest = NULL;
    char *text = NULL;
    enum err_code rc = make_documents(t, &patch, &manifest, err);

    if (rc == ERR_OK)
        rc = variant_yaml(json_path(manifest, "spec.sync"), &yaml, err);
    if (rc == ERR_OK) {
        text = json_print(patch);
        rc = text ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory for the result");
    }
    if (rc == ERR_OK)
        (void)fprintf(out,
                      "\nuse it in the job's file:\n  sync: %s\nor for the job in the cluster:\n"
                      "  kubectl patch sj %s%s%s --type merge -p '%s'\n",
                      buf_text(&yaml), t->job->name, has_namespace ? " -n " : "",
                      has_namespace ? t->job->namespace : "", text);
    free(text);
    json_free(manifest);
    json_free(patch);
    buf_deinit(&yaml);
    return rc;
}

enum err_code tuning_print(const struct tuning *t, FILE *out, struct err *err)
{
    int answer = tuner_answer(&t->tuner);
    const char *unit = t->points == 1 ? "point" : "points";
    char name[VARIANT_NAME_BYTES];

    variant_name(tuning_sync(t, answer), name);
    print_table(t, out);
    if (answer == TUNER_BSP)
        (void)fprintf(out, "\nchosen: BSP: no candidate is shown to be less than %.4g %s worse\n",
                      t->points, unit);
    else
        (void)fprintf(out, "\nchosen: %s: less than %.4g %s worse than BSP\n", name, t->points,
                      unit);
    print_worth(t, out);
    return print_use(t, out, err);
}

/* --- for programs --- */

static void write_runs(const struct tuning *t, struct jsonw *w, int percent,
                       const struct tuner_result *runs, int n)
{
    for (int i = 0; i < n; i++) {
        jsonw_open_object(w, NULL);
        jsonw_int(w, "percent", percent);
        jsonw_int(w, "seed", tuning_seed(t, i));
        jsonw_bool(w, "trained", runs[i].is_trained);
        if (runs[i].is_trained)
            jsonw_double(w, "metric", runs[i].metric);
        jsonw_double(w, "seconds", runs[i].seconds);
        jsonw_close(w);
    }
}

/* Differences and bounds are in units of the metric. */
static void write_candidate(const struct tuning *t, struct jsonw *w, int i)
{
    struct tuner_summary s = tuner_summary(&t->tuner, i);

    jsonw_open_object(w, NULL);
    jsonw_int(w, "percent", tuner_percents[i]);
    jsonw_string(w, "result", verdict_names[s.verdict]);
    jsonw_int(w, "pairs", s.n_pairs);
    if (s.n_pairs > 0) {
        jsonw_double(w, "meanDifference", s.mean);
        jsonw_double(w, "seconds", s.seconds);
        jsonw_double(w, "speed", s.bsp_seconds / s.seconds);
    }
    if (s.n_pairs > 1) {
        jsonw_double(w, "lowerBound", s.lower);
        jsonw_double(w, "upperBound", s.upper);
    }
    jsonw_close(w);
}

static void write_json(const struct tuning *t, const struct json *patch, const struct json *sync,
                       struct jsonw *w)
{
    const struct tuner *tuner = &t->tuner;
    struct worth worth = worth_of(t);

    jsonw_open_object(w, NULL);
    jsonw_string(w, "job", t->job->name);
    jsonw_string(w, "metric", task_metric_names[t->metric]);
    jsonw_double(w, "margin", tuner->margin);
    jsonw_int(w, "steps", t->total_steps);
    jsonw_open_array(w, "runs");
    write_runs(t, w, TUNER_BSP, tuner->references, tuner->n_references);
    for (int i = 0; i < TUNER_CANDIDATES; i++)
        write_runs(t, w, tuner_percents[i], tuner->candidates[i].runs, tuner->candidates[i].n);
    jsonw_close(w);
    jsonw_open_array(w, "candidates");
    for (int i = 0; i < TUNER_CANDIDATES; i++)
        write_candidate(t, w, i);
    jsonw_close(w);
    jsonw_int(w, "chosenPercent", tuner_answer(tuner));
    jsonw_value(w, "sync", sync);
    jsonw_value(w, "patch", patch);
    jsonw_double(w, "seconds", tuner_seconds(tuner));
    jsonw_int(w, "jobSteps", worth.job_steps);
    jsonw_double(w, "savedSecondsPerJob", worth.n_jobs > 0 ? worth.saved_seconds : 0);
    if (worth.n_jobs > 0)
        jsonw_double(w, "jobsToPayOff", worth.n_jobs);
    jsonw_close(w);
}

enum err_code tuning_print_json(const struct tuning *t, FILE *out, struct err *err)
{
    struct buf text = {.max = VARIANT_MAX_BYTES};
    struct json *patch = NULL;
    struct json *manifest = NULL;
    struct jsonw w;
    enum err_code rc = make_documents(t, &patch, &manifest, err);

    jsonw_init(&w, &text);
    if (rc == ERR_OK) {
        write_json(t, patch, json_path(manifest, "spec.sync"), &w);
        rc = jsonw_finish(&w, err);
    }
    if (rc == ERR_OK)
        (void)fprintf(out, "%s\n", buf_text(&text));
    json_free(manifest);
    json_free(patch);
    buf_deinit(&text);
    return rc;
}

/* --- for the cluster --- */

enum err_code tuning_write(const struct tuning *t, const char *path, struct err *err)
{
    struct buf line = {.max = VARIANT_MAX_BYTES};
    struct json *patch = NULL;
    struct json *manifest = NULL;
    char *text = NULL;
    enum err_code rc = make_documents(t, &patch, &manifest, err);

    if (rc == ERR_OK) {
        text = json_print(manifest);
        rc = text ? buf_addf(&line, err, "%s\n", text)
                  : err_set(err, ERR_NO_MEMORY, "no memory for the manifest");
    }
    if (rc == ERR_OK)
        rc = file_write(path, line.data, line.len, err);
    free(text);
    json_free(manifest);
    json_free(patch);
    buf_deinit(&line);
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "--output");
}
