#include "cli/local.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/names.h"
#include "balance/explain.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/command.h"
#include "cluster/quantity.h"

#define WORKER_NAME     "skyjob-worker"
#define CPU_MILLI_MIN   20 /* with less, a process hardly gets to its main() */
#define CPU_MILLI_MAX   1024000
#define ITEM_BYTES      96
#define PROBE_MAX_MS    120000
#define PROBE_MAX_BYTES 4096
#define PROBE_ARGUMENTS 8

/* --- files that belong to this program --- */

/* The folder of our own binary; "." when it cannot be found out. */
static void own_folder(char out[static LOCAL_PATH_BYTES])
{
    ssize_t n = readlink("/proc/self/exe", out, LOCAL_PATH_BYTES - 1);
    char *slash;

    out[n > 0 ? n : 0] = '\0';
    slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
    else
        (void)snprintf(out, LOCAL_PATH_BYTES, ".");
}

static bool find_in_path(const char *name, char out[static LOCAL_PATH_BYTES])
{
    const char *path = getenv("PATH");

    for (const char *at = path ? path : ""; *at;) {
        size_t n = strcspn(at, ":");

        if (n > 0 &&
            (size_t)snprintf(out, LOCAL_PATH_BYTES, "%.*s/%s", (int)n, at, name) <
                LOCAL_PATH_BYTES &&
            access(out, X_OK) == 0)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

static enum err_code find_worker(char out[static LOCAL_PATH_BYTES], struct err *err)
{
    const char *given = getenv("SKYJOB_WORKER");
    char folder[LOCAL_PATH_BYTES];

    own_folder(folder);
    if (given)
        (void)snprintf(out, LOCAL_PATH_BYTES, "%s", given);
    else
        (void)snprintf(out, LOCAL_PATH_BYTES, "%.480s/%s", folder, WORKER_NAME);
    if (access(out, X_OK) == 0 || (!given && find_in_path(WORKER_NAME, out)))
        return ERR_OK;
    return err_set(
        err, ERR_NOT_FOUND,
        "%s is neither beside this program nor in PATH: build it (make all) or give its path "
        "in SKYJOB_WORKER",
        given ? given : WORKER_NAME);
}

static bool holds_training_file(const char *folder)
{
    char file[LOCAL_PATH_BYTES + 16];

    (void)snprintf(file, sizeof file, "%s/train.tsv", folder);
    return access(file, R_OK) == 0;
}

enum err_code local_find_data(const struct spec *spec, const char *given,
                              char out[static LOCAL_PATH_BYTES], struct err *err)
{
    static const char *const places[] = {"../../sample/mnli", "../sample/mnli",
                                         "../share/skyjob/mnli"};
    char folder[LOCAL_PATH_BYTES];

    if (given) {
        (void)snprintf(out, LOCAL_PATH_BYTES, "%s", given);
        if (access(given, R_OK | X_OK) == 0)
            return ERR_OK; /* the first stage reports files that are missing in it */
        return err_set(err, ERR_NOT_FOUND, "--data: %.300s: %s", given, strerror(errno));
    }
    if (spec->data.source != SPEC_SOURCE_SAMPLE)
        return err_set(err, ERR_INVALID,
                       "spec.data.source: the %s \"%.60s\" is in a cluster: give the folder "
                       "with its files on this machine as --data DIR",
                       spec->data.source == SPEC_SOURCE_CLAIM ? "persistentVolumeClaim"
                                                              : "configMap",
                       spec->data.source == SPEC_SOURCE_CLAIM ? spec->data.volume.claim
                                                              : spec->data.config_map);
    own_folder(folder);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        (void)snprintf(out, LOCAL_PATH_BYTES, "%.450s/%s", folder, places[i]);
        if (holds_training_file(out))
            return ERR_OK;
    }
    (void)snprintf(out, LOCAL_PATH_BYTES, "%s", SAMPLE_DIR);
    return holds_training_file(out)
               ? ERR_OK
               : err_set(err, ERR_NOT_FOUND,
                         "there is no sample data: make it (make sample) or give a folder as "
                         "--data DIR");
}

enum err_code local_check_model(const struct spec *spec, const char *given, struct err *err)
{
    if (given && access(given, R_OK | X_OK) != 0)
        return err_set(err, ERR_NOT_FOUND, "--model: %.300s: %s", given, strerror(errno));
    if (!given && spec->from.claim[0])
        return err_set(err, ERR_INVALID,
                       "spec.model.from: the persistentVolumeClaim \"%.60s\" is in a cluster: give "
                       "the folder with its model on this machine as --model DIR",
                       spec->from.claim);
    return ERR_OK;
}

/* --- the workers --- */

static enum err_code read_item(char *item, struct node *n, struct err *err)
{
    char *rest = NULL;
    int64_t milli = 0;
    enum err_code rc;

    for (char *part = strtok_r(item, ":", &rest); part; part = strtok_r(NULL, ":", &rest)) {
        if (strncmp(part, "cpu=", 4) == 0)
            rc = quantity_milli(part + 4, &milli, err);
        else if (strncmp(part, "memory=", 7) == 0)
            rc = quantity_units(part + 7, &n->memory_bytes, err);
        else
            rc = err_set(err, ERR_INVALID, "\"%.40s\" is neither cpu= nor memory=", part);
        if (rc != ERR_OK)
            return err_wrap(err, ERR_INVALID, "--workers");
    }
    if (milli < CPU_MILLI_MIN || milli > CPU_MILLI_MAX)
        return err_set(err, ERR_INVALID, "--workers: every worker needs cpu= from %dm to %d",
                       CPU_MILLI_MIN, CPU_MILLI_MAX / 1000);
    n->cpu_milli = (int)milli;
    return ERR_OK;
}

static void share_memory(struct local *l, int64_t free_bytes)
{
    int n_without = 0;

    for (int i = 0; i < l->n_workers; i++) {
        n_without += l->workers[i].memory_bytes == 0;
        free_bytes -= l->workers[i].memory_bytes;
    }
    for (int i = 0; i < l->n_workers; i++)
        if (l->workers[i].memory_bytes == 0)
            l->workers[i].memory_bytes = free_bytes > 0 ? free_bytes / n_without : 0;
}

enum err_code local_workers(const char *text, int64_t free_bytes, struct local *out,
                            struct err *err)
{
    memset(out->workers, 0, sizeof out->workers);
    out->n_workers = 0;
    for (const char *at = text; *at || at == text;) {
        size_t n = strcspn(at, ",");
        struct node *worker = &out->workers[out->n_workers];
        char item[ITEM_BYTES];
        enum err_code rc;

        if (out->n_workers == LOCAL_WORKERS_MAX)
            return err_set(err, ERR_INVALID, "--workers: more than %d", LOCAL_WORKERS_MAX);
        if (n >= sizeof item)
            return err_set(err, ERR_INVALID, "--workers: \"%.40s...\" is too long", at);
        memcpy(item, at, n);
        item[n] = '\0';
        (void)snprintf(worker->name, sizeof worker->name, "worker-%d", out->n_workers);
        rc = read_item(item, worker, err);
        if (rc != ERR_OK)
            return rc;
        out->n_workers++;
        at += n;
        if (*at == ',' && *++at == '\0')
            return err_set(err, ERR_INVALID, "--workers: nothing after the last comma");
    }
    share_memory(out, free_bytes);
    return ERR_OK;
}

/* The number after a word in a file of "Word: number" lines; -1 when it is not there. */
static int64_t number_in(const char *path, const char *word)
{
    FILE *f = fopen(path, "re");
    char line[256];
    int64_t value = -1;

    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, word, strlen(word)) == 0) {
            char *end;

            value = strtoll(line + strlen(word), &end, 10);
            if (end == line + strlen(word))
                value = -1;
            break;
        }
    if (f)
        (void)fclose(f);
    return value;
}

int64_t local_free_bytes(void)
{
    int64_t kib = number_in("/proc/meminfo", "MemAvailable:");
    int64_t bytes = kib > 0 ? kib * 1024 : 4096 * MIB;
    int64_t limit = number_in("/sys/fs/cgroup/memory.max", "");
    int64_t used = number_in("/sys/fs/cgroup/memory.current", "");

    if (limit > 0 && used >= 0 && limit - used < bytes)
        bytes = limit - used;
    return bytes;
}

static void file_in(const char *folder, const char *what, int i, char out[static LOCAL_PATH_BYTES])
{
    (void)snprintf(out, LOCAL_PATH_BYTES, "%s/%s-%d", folder, what, i);
}

static enum err_code wait_all(struct child *children, int n, struct throttle *t, struct err *err)
{
    int64_t until = clock_now_ms() + PROBE_MAX_MS;
    struct timespec pause = {.tv_nsec = 10000000};
    int n_left = n;

    while (n_left > 0) {
        n_left = 0;
        for (int i = 0; i < n; i++)
            n_left += !children[i].has_ended && !child_poll(&children[i], t);
        if (interrupt_seen())
            return err_set(err, ERR_GONE, "interrupted");
        if (clock_now_ms() > until)
            return err_set(err, ERR_TIMEOUT, "measuring the workers took more than %d s",
                           PROBE_MAX_MS / 1000);
        (void)nanosleep(&pause, NULL);
    }
    return ERR_OK;
}

static enum err_code read_result(struct local *l, int i, const struct child *child, struct err *err)
{
    struct buf text = {.max = PROBE_MAX_BYTES};
    char path[LOCAL_PATH_BYTES];
    enum err_code rc;

    file_in(l->scratch.path, child->exit_code == 0 ? "probe" : "probe-log", i, path);
    rc = file_read(path, &text, err);
    if (rc == ERR_OK && child->exit_code != 0)
        rc = err_set(err, child->exit_code == EXIT_CONFIG ? ERR_INVALID : ERR_IO,
                     "exit code %d: %.300s", child->exit_code, buf_text(&text));
    if (rc == ERR_OK)
        rc = node_probe_read(buf_text(&text), &l->probes[i], err);
    buf_deinit(&text);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "measure %s", l->workers[i].name);
    l->workers[i].gflops = l->probes[i].gflops;
    l->workers[i].unit_ms = l->probes[i].unit_ms;
    l->workers[i].message = l->probes[i].message;
    return ERR_OK;
}

/* Measure all workers at the same time, as they will run, with `skyjob-worker probe` under their
 * limits; sets probes, gflops and unit_ms. Without data their speed can be measured all the same.
 */
static enum err_code measure(struct local *l, const struct local_params *params, struct err *err)
{
    struct child children[LOCAL_WORKERS_MAX] = {{.pid = 0}};
    char data[LOCAL_PATH_BYTES];
    char spec[LOCAL_PATH_BYTES];
    const char *argv[PROBE_ARGUMENTS + 1] = {l->worker, "probe", "--spec", spec};
    int n = 4;
    char *text;
    enum err_code rc = find_worker(l->worker, err);

    if (rc == ERR_OK)
        rc = scratch_make(&l->scratch, err);
    if (rc == ERR_OK)
        rc = throttle_new(&l->throttle, err);
    if (rc != ERR_OK)
        return rc;
    if (local_find_data(&l->job.spec, params->data, data, NULL) == ERR_OK) {
        argv[n++] = "--data";
        argv[n++] = data;
    }
    if (params->model) {
        argv[n++] = "--model";
        argv[n++] = params->model;
    }
    (void)snprintf(spec, sizeof spec, "%.480s/spec.json", l->scratch.path);
    text = json_print(l->job.spec_json);
    rc = text ? file_write(spec, text, strlen(text), err)
              : err_set(err, ERR_NO_MEMORY, "no memory for the spec");
    free(text);
    for (int i = 0; i < l->n_workers && rc == ERR_OK; i++) {
        char out[LOCAL_PATH_BYTES];
        char log[LOCAL_PATH_BYTES];
        struct child_params how = {
            .argv = argv, .out_path = out, .log_path = log, .cpu_milli = l->workers[i].cpu_milli};

        file_in(l->scratch.path, "probe", i, out);
        file_in(l->scratch.path, "probe-log", i, log);
        rc = child_start(&children[i], &how, l->throttle, err);
    }
    if (rc == ERR_OK)
        rc = wait_all(children, l->n_workers, l->throttle, err);
    child_stop(children, l->n_workers, l->throttle);
    for (int i = 0; i < l->n_workers && rc == ERR_OK; i++)
        rc = read_result(l, i, &children[i], err);
    return rc;
}

static enum err_code measure_workers(struct local *l, const struct local_params *params,
                                     struct err *err)
{
    cpu_set_t cores;
    int has = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    int milli = 0;
    enum err_code rc;

    for (int i = 0; i < l->n_workers; i++)
        milli += l->workers[i].cpu_milli;
    if (milli > 1000 * has)
        (void)fprintf(params->talk,
                      "note: the workers ask for %.4g cores together and this machine has %d: they "
                      "will wait for each other\n",
                      milli / 1000.0, has);
    (void)fprintf(params->talk, "measuring %d %s ...\n", l->n_workers,
                  l->n_workers == 1 ? "worker" : "workers");
    (void)fflush(params->talk);
    rc = measure(l, params, err);
    if (rc == ERR_OK)
        cost_job_measured(&l->request.job, l->probes, l->n_workers);
    return rc;
}

/* This machine reads the data; its speed does not matter. */
static enum err_code measure_lengths(struct local *l, const struct local_params *params,
                                     struct err *err)
{
    enum err_code rc = local_workers("cpu=1", local_free_bytes(), l, err);

    if (rc == ERR_OK)
        rc = measure(l, params, err);
    if (rc == ERR_OK && l->probes[0].lengths.mean == 0)
        rc = err_set(err, ERR_INVALID, "--data: %.200s has no training data that can be read",
                     params->data);
    if (rc == ERR_OK)
        l->request.job.lengths = l->probes[0].lengths;
    return rc;
}

/* --- the plan --- */

static enum err_code set_strategy(const char *name, struct spec *spec, struct err *err)
{
    enum spec_strategy strategy;

    if (!name)
        return ERR_OK;
    if (!spec_strategy_find(name, &strategy))
        return err_set(err, ERR_INVALID,
                       "--strategy: \"%.40s\" is none of: Optimal, Even, Dynamic, Manual", name);
    if (strategy == SPEC_STRATEGY_MANUAL && spec->placement.stages.n == 0)
        return err_set(err, ERR_INVALID,
                       "--strategy: Manual needs spec.placement.manual in the job's file");
    spec->placement.strategy = strategy;
    return ERR_OK;
}

static enum err_code make_plan(struct local *l, const struct local_params *params,
                               const struct node *nodes, int n_nodes, const struct cost_link *links,
                               struct err *err)
{
    enum err_code rc;

    l->request.nodes = nodes;
    l->request.n_nodes = n_nodes;
    l->request.links = links;
    rc = choose_solve(&l->request, &l->placement, err);
    l->is_solved = true;
    if (rc != ERR_OK)
        return rc;
    l->plan = (struct plan){.attempt = 1, .is_serial = params->is_serial};
    (void)snprintf(l->plan.namespace, sizeof l->plan.namespace, "%s", l->job.namespace);
    (void)snprintf(l->plan.job, sizeof l->plan.job, "%s", l->job.name);
    (void)snprintf(l->plan.uid, sizeof l->plan.uid, "local-%ld", (long)getpid());
    placement_to_plan(&l->request, &l->placement, &l->plan);
    return ERR_OK;
}

enum err_code local_read(struct local *out, const struct local_params *params, struct err *err)
{
    enum err_code rc =
        out->job.document ? ERR_OK : job_load(params->job_path, params->model, &out->job, err);

    return rc == ERR_OK ? set_strategy(params->strategy, &out->job.spec, err) : rc;
}

enum err_code local_init(struct local *out, const struct local_params *params, struct err *err)
{
    enum err_code rc = local_read(out, params, err);

    out->request = partition_request_of(&out->job.spec);
    if (rc == ERR_OK)
        rc = local_workers(params->workers, local_free_bytes(), out, err);
    if (rc == ERR_OK)
        rc = measure_workers(out, params, err);
    if (rc != ERR_OK)
        return rc;
    return make_plan(out, params, out->workers, out->n_workers, NULL, err);
}

enum err_code local_plan(struct local *out, const struct local_params *params, struct survey *s,
                         struct err *err)
{
    enum err_code rc = ERR_OK;

    out->request = partition_request_of(&out->job.spec);
    if (params->data)
        rc = measure_lengths(out, params, err);
    if (rc == ERR_OK)
        rc = survey_link(s, err);
    if (rc != ERR_OK)
        return rc;
    if (s->lengths.mean > 0)
        out->request.job.lengths = s->lengths;
    if (s->pace.attention > 0)
        out->request.job.pace = s->pace;
    return make_plan(out, params, s->candidates, s->n_candidates, s->links, err);
}

void local_deinit(struct local *l, bool keeps_folder)
{
    throttle_free(l->throttle);
    scratch_end(&l->scratch, keeps_folder);
    job_deinit(&l->job);
    l->request = (struct partition_request){.n_nodes = 0};
    l->is_solved = false;
    l->throttle = NULL;
}
