#include "cli/local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/names.h"
#include "balance/explain.h"

#define WORKER_NAME "skyjob-worker"

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
    return err_set(err, ERR_NOT_FOUND,
                   "%s is neither beside this program nor in PATH: build it (make all) or name it "
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
            return ERR_OK; /* which file is missing in it, the head knows */
        return err_set(err, ERR_NOT_FOUND, "--data: %.300s: %s", given, strerror(errno));
    }
    if (spec->data.source != SPEC_SOURCE_SAMPLE)
        return err_set(err, ERR_INVALID,
                       "spec.data.source: the %s \"%.60s\" is in a cluster: say with --data DIR "
                       "where its files are on this machine",
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
                         "the sample data are not there: make them (make sample) or name a folder "
                         "with --data DIR");
}

enum err_code local_check_model(const struct spec *spec, const char *given, struct err *err)
{
    if (given && access(given, R_OK | X_OK) != 0)
        return err_set(err, ERR_NOT_FOUND, "--model: %.300s: %s", given, strerror(errno));
    if (!given && spec->from.claim[0])
        return err_set(err, ERR_INVALID,
                       "spec.model.from: the persistentVolumeClaim \"%.60s\" is in a cluster: say "
                       "with --model DIR where its model is on this machine",
                       spec->from.claim);
    return ERR_OK;
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

static void warn_if_too_many(const struct machine *m, FILE *talk)
{
    int sum = 0;

    for (int i = 0; i < m->n_workers; i++)
        sum += m->workers[i].cpu_milli;
    if (sum > machine_cpu_milli())
        (void)fprintf(talk,
                      "note: the workers may use %.4g cores together and this machine has %.4g: "
                      "they will wait for each other\n",
                      sum / 1000.0, machine_cpu_milli() / 1000.0);
}

/* Probe l->machine. Without data the workers say how fast they are all the same. */
static enum err_code measure(struct local *l, const struct local_params *params, struct err *err)
{
    char data[LOCAL_PATH_BYTES];
    struct machine_measure how = {
        .job = &l->job, .worker = l->worker, .folder = l->scratch.path, .model = params->model};
    enum err_code rc = find_worker(l->worker, err);

    if (local_find_data(&l->job.spec, params->data, data, NULL) == ERR_OK)
        how.data = data;
    if (rc == ERR_OK)
        rc = scratch_make(&l->scratch, err);
    if (rc == ERR_OK)
        rc = throttle_new(&l->throttle, err);
    if (rc == ERR_OK)
        rc = machine_probe(&l->machine, &how, l->throttle, err);
    return rc;
}

static enum err_code measure_workers(struct local *l, const struct local_params *params,
                                     struct err *err)
{
    enum err_code rc;

    warn_if_too_many(&l->machine, params->talk);
    (void)fprintf(params->talk, "measuring %d workers ...\n", l->machine.n_workers);
    (void)fflush(params->talk);
    rc = measure(l, params, err);
    if (rc == ERR_OK)
        cost_job_measured(&l->request.job, l->machine.probes, l->machine.n_workers);
    return rc;
}

/* This machine reads the data; how fast it is does not matter. */
static enum err_code measure_lengths(struct local *l, const struct local_params *params,
                                     struct err *err)
{
    enum err_code rc = machine_parse("cpu=1", machine_free_bytes(), &l->machine, err);

    if (rc == ERR_OK)
        rc = measure(l, params, err);
    if (rc == ERR_OK && l->machine.probes[0].lengths.mean == 0)
        rc = err_set(err, ERR_INVALID, "--data: %.200s has no training data that can be read",
                     params->data);
    if (rc == ERR_OK)
        l->request.job.lengths = l->machine.probes[0].lengths;
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
        rc = machine_parse(params->workers, machine_free_bytes(), &out->machine, err);
    if (rc == ERR_OK)
        rc = measure_workers(out, params, err);
    if (rc != ERR_OK)
        return rc;
    return make_plan(out, params, out->machine.workers, out->machine.n_workers, NULL, err);
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
