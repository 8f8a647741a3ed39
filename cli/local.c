#include "cli/local.h"

#include <errno.h>
#include <math.h>
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
#include "cluster/node_object.h"

#define WORKER_NAME     "skyjob-worker"
#define CPU_MILLI_MIN   20 /* with less, a process hardly gets to its main() */
#define CPU_MILLI_MAX   1024000
#define PROBE_MAX_MS    120000
#define PROBE_MAX_BYTES 4096
#define PROBE_ARGUMENTS 8
#define PROC_MAX_BYTES  ((size_t)1 << 16)

/* --- files that belong to this program --- */

/* The folder of our own binary; "." if it cannot be determined. */
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

static enum err_code find_worker(char out[static LOCAL_PATH_BYTES], struct err *err)
{
    const char *given = getenv("SKYJOB_WORKER");
    const char *path = getenv("PATH");
    char folder[LOCAL_PATH_BYTES];

    own_folder(folder);
    if (given)
        (void)snprintf(out, LOCAL_PATH_BYTES, "%s", given);
    else
        (void)snprintf(out, LOCAL_PATH_BYTES, "%.480s/%s", folder, WORKER_NAME);
    for (const char *at = path && !given ? path : "";; at += *at == ':') {
        size_t n = strcspn(at, ":");

        if (access(out, X_OK) == 0)
            return ERR_OK;
        if (*at == '\0')
            break;
        if (n > 0 && n < LOCAL_PATH_BYTES - sizeof WORKER_NAME)
            (void)snprintf(out, LOCAL_PATH_BYTES, "%.*s/%s", (int)n, at, WORKER_NAME);
        at += n;
    }
    return err_set(err, ERR_NOT_FOUND,
                   "%s is neither beside this program nor in PATH: build it (make all) or set "
                   "SKYJOB_WORKER to its path",
                   given ? given : WORKER_NAME);
}
enum err_code local_find_data(struct local *l, const char *given, struct err *err)
{
    static const char *const places[] = {"../../sample/mnli", "../sample/mnli",
                                         "../share/skyjob/mnli"};
    const struct spec *spec = &l->job.spec;
    bool is_claim = spec->data.source == SPEC_SOURCE_CLAIM;
    char folder[LOCAL_PATH_BYTES];

    if (given) {
        if (access(given, R_OK | X_OK) != 0)
            return err_set(err, ERR_NOT_FOUND, "--data: %.300s: %s", given, strerror(errno));
        (void)snprintf(l->data, sizeof l->data, "%s", given);
        return ERR_OK; /* the first stage reports files that are missing in it */
    }
    if (spec->data.source != SPEC_SOURCE_SAMPLE)
        return err_set(err, ERR_INVALID,
                       "spec.data.source: the %s \"%.60s\" is in a cluster: give the folder "
                       "with its files on this machine as --data DIR",
                       is_claim ? "persistentVolumeClaim" : "configMap",
                       is_claim ? spec->data.volume.claim : spec->data.config_map);
    own_folder(folder);
    for (size_t i = 0; i <= sizeof places / sizeof places[0]; i++) {
        if (i < sizeof places / sizeof places[0])
            (void)snprintf(l->data, sizeof l->data, "%.450s/%s", folder, places[i]);
        else
            (void)snprintf(l->data, sizeof l->data, "%s", SAMPLE_DIR);
        if (folder_has(l->data, "train.tsv"))
            return ERR_OK;
    }
    l->data[0] = '\0';
    return err_set(err, ERR_NOT_FOUND,
                   "there is no sample data: make it (make sample) or give a folder as --data DIR");
}

/* --- the workers --- */

static enum err_code read_item(char *item, struct node *n, struct err *err)
{
    char *rest = NULL;
    int64_t milli = 0;
    enum err_code rc;

    for (char *part = strtok_r(item, ":", &rest); part; part = strtok_r(NULL, ":", &rest)) {
        if (strncmp(part, "cpu=", 4) == 0)
            rc = quantity_parse(part + 4, true, &milli, err);
        else if (strncmp(part, "memory=", 7) == 0)
            rc = quantity_parse(part + 7, false, &n->memory_bytes, err);
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

enum err_code local_workers(const char *text, int64_t free_bytes, struct local *out,
                            struct err *err)
{
    char *copy = strdup(text);
    char *rest = copy;
    int n_without = 0;
    enum err_code rc = copy ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory for --workers");

    memset(out->workers, 0, sizeof out->workers);
    out->n_workers = 0;
    for (char *item = strsep(&rest, ","); item && rc == ERR_OK; item = strsep(&rest, ",")) {
        struct node *worker = &out->workers[out->n_workers];

        if (out->n_workers == LOCAL_WORKERS_MAX)
            rc = err_set(err, ERR_INVALID, "--workers: more than %d", LOCAL_WORKERS_MAX);
        else if (*item == '\0')
            rc = err_set(err, ERR_INVALID, "--workers: nothing before or after a comma");
        else
            rc = read_item(item, worker, err);
        if (rc != ERR_OK)
            break;
        (void)snprintf(worker->name, sizeof worker->name, "worker-%d", out->n_workers++);
        free_bytes -= worker->memory_bytes;
        n_without += worker->memory_bytes == 0;
    }
    for (int i = 0; i < out->n_workers; i++)
        if (out->workers[i].memory_bytes == 0)
            out->workers[i].memory_bytes = free_bytes > 0 ? free_bytes / n_without : 0;
    free(copy);
    return rc;
}

/* The number after a word in a file; -1 when the word is not there. */
static int64_t number_in(const char *path, const char *word)
{
    struct buf text = {.max = PROC_MAX_BYTES};
    const char *at = NULL;
    int64_t value = -1;

    if (file_read(path, &text, NULL) == ERR_OK)
        at = strstr(buf_text(&text), word);
    if (at)
        value = strtoll(at + strlen(word), NULL, 10);
    buf_deinit(&text);
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

static enum err_code read_result(struct local *l, int i, const struct child *child, struct err *err)
{
    struct buf text = {.max = PROBE_MAX_BYTES};
    char path[SCRATCH_PATH_BYTES];
    enum err_code rc;

    scratch_file(&l->scratch, path, child->exit_code == 0 ? "probe-%d" : "probe-log-%d", i);
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
 * limits; sets probes, gflops and unit_ms. Speed can be measured without data, too. */
static enum err_code measure(struct local *l, const struct local_params *params, struct err *err)
{
    struct child children[LOCAL_WORKERS_MAX] = {{.pid = 0}};
    struct timespec pause = {.tv_nsec = 10000000};
    char spec[SCRATCH_PATH_BYTES];
    const char *argv[PROBE_ARGUMENTS + 1] = {l->worker, "probe", "--spec", spec};
    int64_t until;
    char *text;
    enum err_code rc = find_worker(l->worker, err);

    if (rc == ERR_OK)
        rc = scratch_make(&l->scratch, err);
    if (rc == ERR_OK)
        rc = throttle_new(&l->throttle, err);
    if (rc != ERR_OK)
        return rc;
    if (l->data[0] || local_find_data(l, params->data, NULL) == ERR_OK)
        child_add_option(argv, "--data", l->data);
    child_add_option(argv, "--model", params->model);
    scratch_file(&l->scratch, spec, "spec.json");
    text = json_print(l->job.spec_json);
    rc = text ? file_write(spec, text, strlen(text), err)
              : err_set(err, ERR_NO_MEMORY, "no memory for the spec");
    free(text);
    for (int i = 0; i < l->n_workers && rc == ERR_OK; i++) {
        char out[SCRATCH_PATH_BYTES];
        char log[SCRATCH_PATH_BYTES];
        struct child_params how = {
            .argv = argv, .out_path = out, .log_path = log, .cpu_milli = l->workers[i].cpu_milli};

        scratch_file(&l->scratch, out, "probe-%d", i);
        scratch_file(&l->scratch, log, "probe-log-%d", i);
        rc = child_start(&children[i], &how, l->throttle, err);
    }
    until = clock_now_ms() + PROBE_MAX_MS;
    while (rc == ERR_OK && child_poll(children, l->n_workers, l->throttle) > 0) {
        (void)nanosleep(&pause, NULL);
        if (interrupt_seen())
            rc = err_set(err, ERR_GONE, "interrupted");
        else if (clock_now_ms() > until)
            rc = err_set(err, ERR_TIMEOUT, "measuring the workers took more than %d s",
                         PROBE_MAX_MS / 1000);
    }
    child_stop(children, l->n_workers, l->throttle);
    for (int i = 0; i < l->n_workers && rc == ERR_OK; i++)
        rc = read_result(l, i, &children[i], err);
    return rc;
}

/* --- the plan --- */

enum err_code local_read(struct local *out, const struct local_params *params, struct err *err)
{
    struct spec *spec = &out->job.spec;
    enum err_code rc = job_load(params->job_path, params->model, &out->job, err);
    int i = 0;

    if (rc != ERR_OK || !params->strategy)
        return rc;
    while (spec_strategy_names[i] && strcmp(spec_strategy_names[i], params->strategy) != 0)
        i++;
    if (!spec_strategy_names[i])
        return err_set(err, ERR_INVALID,
                       "--strategy: \"%.40s\" is none of: Optimal, Even, Dynamic, Manual",
                       params->strategy);
    spec->placement.strategy = (enum spec_strategy)i;
    if (spec->placement.strategy == SPEC_STRATEGY_MANUAL && spec->placement.stages.n == 0)
        return err_set(err, ERR_INVALID,
                       "--strategy: Manual needs spec.placement.manual in the job's file");
    return ERR_OK;
}

enum err_code local_read_to_run(struct local *out, const struct local_params *params,
                                struct err *err)
{
    enum err_code rc = local_read(out, params, err);

    if (rc == ERR_OK)
        rc = local_find_data(out, params->data, err);
    if (rc == ERR_OK && !params->model && out->job.spec.from.claim[0])
        rc = err_set(err, ERR_INVALID,
                     "spec.model.from: the persistentVolumeClaim \"%.60s\" is in a cluster: give "
                     "the folder with its model on this machine as --model DIR",
                     out->job.spec.from.claim);
    return rc;
}

static enum err_code make_plan(struct local *l, const struct local_params *params,
                               const struct node *nodes, int n_nodes, const struct cost_link *links,
                               struct err *err)
{
    enum err_code rc;

    l->request.nodes = nodes;
    l->request.n_nodes = n_nodes;
    l->request.links = links;
    rc = replicas_choose(&l->request, l->job.spec.replicas, &l->replicas, err);
    l->is_solved = true;
    if (rc != ERR_OK)
        return rc;
    l->placement = l->replicas.pipelines[0];
    l->plan = (struct plan){.revision = 1, .is_serial = params->is_serial};
    (void)snprintf(l->plan.namespace, sizeof l->plan.namespace, "%s", l->job.namespace);
    (void)snprintf(l->plan.job, sizeof l->plan.job, "%s", l->job.name);
    (void)snprintf(l->plan.uid, sizeof l->plan.uid, "local-%ld", (long)getpid());
    replicas_to_plan(&l->request, &l->replicas, &l->plan);
    return ERR_OK;
}

struct cost_link local_link(const struct node *workers, int n)
{
    struct cost_link link = COST_LINK_DEFAULT;

    for (int i = 0; i < n; i++) {
        const struct node_message *m = &workers[i].message;

        if (m->ms > 0)
            link.latency_ms = fmin(link.latency_ms, m->ms);
        if (m->byte_ns > 0)
            link.bytes_per_s = fmax(link.bytes_per_s, 1e9 / m->byte_ns);
    }
    return link;
}

enum err_code local_measure(struct local *out, const struct local_params *params, struct err *err)
{
    cpu_set_t cores;
    int has = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    int milli = 0;
    enum err_code rc = local_workers(params->workers, local_free_bytes(), out, err);

    if (rc != ERR_OK)
        return rc;
    for (int i = 0; i < out->n_workers; i++)
        milli += out->workers[i].cpu_milli;
    if (milli > 1000 * has)
        (void)fprintf(
            params->messages,
            "note: the workers have %.4g cores in total, more than the %d of this machine: "
            "they will compete for CPU\n",
            milli / 1000.0, has);
    (void)fprintf(params->messages, "measuring %d %s ...\n", out->n_workers,
                  out->n_workers == 1 ? "worker" : "workers");
    (void)fflush(params->messages);
    out->request = partition_request_of(&out->job.spec);
    rc = measure(out, params, err);
    if (rc != ERR_OK)
        return rc;
    cost_job_measured(&out->request.job, out->probes, out->n_workers);
    out->request.link = local_link(out->workers, out->n_workers);
    return make_plan(out, params, out->workers, out->n_workers, NULL, err);
}

enum err_code local_plan(struct local *out, const struct local_params *params, struct survey *s,
                         struct err *err)
{
    struct cost_job *job = &out->request.job;
    enum err_code rc = ERR_OK;

    out->request = partition_request_of(&out->job.spec);
    if (params->data) { /* this machine reads the data; its speed does not matter */
        rc = local_workers("cpu=1", local_free_bytes(), out, err);
        if (rc == ERR_OK)
            rc = measure(out, params, err);
        if (rc == ERR_OK && out->probes[0].lengths.mean == 0)
            rc = err_set(err, ERR_INVALID, "--data: %.200s has no training data that can be read",
                         params->data);
        if (rc == ERR_OK)
            job->lengths = out->probes[0].lengths;
    }
    if (rc == ERR_OK)
        rc = survey_link(s, err);
    if (rc != ERR_OK)
        return rc;
    if (s->lengths.mean > 0)
        job->lengths = s->lengths;
    if (s->pace.attention > 0)
        job->pace = s->pace;
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

void local_end(struct local *l, enum err_code rc)
{
    bool is_kept = rc != ERR_OK && rc != ERR_GONE && l->plan.n_workers > 0 && l->scratch.path[0];

    if (is_kept)
        (void)fprintf(stderr, "the workers' logs are in %s\n", l->scratch.path);
    local_deinit(l, is_kept);
}
