#include "run/loop.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "kube/event.h"
#include "kube/watch.h"
#include "run/apply.h"
#include "run/health.h"
#include "run/queue.h"
#include "run/store.h"
#include "run/workers.h"

#define IDLE_MS       30000
#define SOON_MS       20 /* the shortest pause between two looks at a job */
#define RETRY_MS      500
#define RETRY_MAX_MS  30000
#define TURN_MS       100             /* of jobs, then the watches get their turn */
#define ROOM_MS       DECIDE_SOLVE_MS /* between two looks at a job that waits for nodes */
#define SOLVE_LONG_MS 10              /* a search for a plan after which other jobs come first */
#define RANK_MAX_MS   100 /* of a job that was just looked at, less 1 per second since */
#define WATCHES       4
#define SKIPPED_MS    60000 /* between two log lines about skipped objects */

typedef enum err_code change_fn(struct store *s, enum kube_change change, const struct json *object,
                                struct err *err);

struct watch_of {
    struct loop *loop;
    const char *what;
    change_fn *change;
    struct kube_watch *watch;
    uint64_t n_skipped;
    int64_t skipped_ms; /* when that was last logged */
};

struct loop {
    struct kube_client *client;
    struct loop_options options;
    struct watch_of watches[WATCHES];
    struct store store;
    struct queue queue;
    struct workers *workers;
    struct kube_recorder *recorder;
    struct health *health;
    struct observed *seen;
    struct decision *decision;
    atomic_bool stops;
    bool was_ready;
    int64_t solve_after_ms; /* not before then for jobs that wait for nodes */
    uint64_t n_reconciles;
    uint64_t n_errors;
    int64_t reconcile_ms;
};

/* --- what happens --- */

static void look_at(struct loop *l, const char *key, int64_t delay_ms)
{
    struct err err;

    if (queue_add(&l->queue, key, clock_now_ms() + delay_ms, &err) != ERR_OK)
        LOG(LOG_ERROR, "job not queued", LOG_S("job", key), LOG_S("error", err.text));
}

static void on_touch(void *ctx, const char *key)
{
    look_at(ctx, key, 0);
}

/* Nodes and pods change all the time, and each change may concern every job that waits. */
static void on_room(void *ctx, const char *key)
{
    struct loop *l = ctx;
    const struct store_job *job = store_find_job(&l->store, key);
    int64_t left_ms = job ? job->looked_ms + ROOM_MS - clock_now_ms() : 0;

    look_at(l, key, left_ms > 0 ? left_ms : 0);
}

static void on_again(void *ctx, const char *key, int64_t delay_ms)
{
    look_at(ctx, key, delay_ms);
}

/* Any user may write such objects, again and again: the log is not theirs to fill. */
static void on_skipped(void *ctx, const struct json *object, const struct err *err)
{
    struct watch_of *w = ctx;
    const struct json *metadata = json_get(object, "metadata");
    int64_t now_ms = clock_now_ms();

    w->n_skipped++;
    if (w->n_skipped > 1 && now_ms - w->skipped_ms < SKIPPED_MS)
        return;
    w->skipped_ms = now_ms;
    LOG(LOG_WARN, "object skipped", LOG_S("kind", w->what),
        LOG_S("namespace", json_string(json_get(metadata, "namespace"), "")),
        LOG_S("name", json_string(json_get(metadata, "name"), "?")), LOG_S("error", err->text),
        LOG_I("skipped", w->n_skipped));
}

static void on_change(void *ctx, enum kube_change change, const struct json *object)
{
    struct watch_of *w = ctx;
    struct err err;

    if (w->change(&w->loop->store, change, object, &err) != ERR_OK)
        on_skipped(w, object, &err);
}

static void on_error(void *ctx, const struct err *err, int64_t wait_ms)
{
    struct watch_of *w = ctx;

    LOG(LOG_WARN, "watch failed", LOG_S("kind", w->what), LOG_S("error", err->text),
        LOG_I("wait_ms", wait_ms));
}

/* --- building --- */

static enum err_code add_watch(struct loop *l, int i, const struct kube_ref *ref, const char *what,
                               change_fn *change, struct err *err)
{
    struct watch_of *w = &l->watches[i];

    *w = (struct watch_of){.loop = l, .what = what, .change = change};
    return kube_watch_new(
        l->client, ref,
        (struct kube_watcher){
            .ctx = w, .on_change = on_change, .on_error = on_error, .on_skipped = on_skipped},
        &w->watch, err);
}

static enum err_code add_watches(struct loop *l, struct err *err)
{
    const char *namespace = l->options.namespace;
    struct kube_ref jobs = {.resource = &apply_skyjobs, .namespace = namespace};
    struct kube_ref pods = {.resource = &kube_pods, .namespace = namespace};
    struct kube_ref nodes = {.resource = &kube_nodes};
    struct kube_ref plans = {.resource = &kube_config_maps,
                             .namespace = namespace,
                             .label_selector = LABEL_JOB_UID "," LABEL_ATTEMPT};
    enum err_code rc = add_watch(l, 0, &jobs, "skyjobs", store_change_job, err);

    if (rc == ERR_OK)
        rc = add_watch(l, 1, &pods, "pods", store_change_pod, err);
    if (rc == ERR_OK)
        rc = add_watch(l, 2, &nodes, "nodes", store_change_node, err);
    if (rc == ERR_OK)
        rc = add_watch(l, 3, &plans, "plans", store_change_plan, err);
    return rc;
}

static bool is_ready(const struct loop *l)
{
    for (int i = 0; i < WATCHES; i++)
        if (!kube_watch_is_synced(l->watches[i].watch))
            return false;
    return true;
}

static enum err_code write_metrics(const struct loop *l, struct buf *out, struct err *err)
{
    enum err_code rc = buf_addf(
        out, err,
        "# TYPE skyjob_reconcile_total counter\nskyjob_reconcile_total %llu\n"
        "# TYPE skyjob_reconcile_errors_total counter\nskyjob_reconcile_errors_total %llu\n"
        "# TYPE skyjob_reconcile_seconds_total counter\nskyjob_reconcile_seconds_total %.3f\n"
        "# TYPE skyjob_queue_length gauge\nskyjob_queue_length %zu\n"
        "# TYPE skyjob_jobs gauge\nskyjob_jobs %zu\n"
        "# TYPE skyjob_watch_events_total counter\n",
        (unsigned long long)l->n_reconciles, (unsigned long long)l->n_errors,
        (double)l->reconcile_ms / 1000, queue_length(&l->queue), l->store.jobs.n);

    for (int i = 0; i < WATCHES && rc == ERR_OK; i++)
        rc = buf_addf(out, err, "skyjob_watch_events_total{resource=\"%s\"} %llu\n",
                      l->watches[i].what,
                      (unsigned long long)kube_watch_n_events(l->watches[i].watch));
    if (rc == ERR_OK)
        rc = buf_addf(out, err, "# TYPE skyjob_watch_skipped_total counter\n");
    for (int i = 0; i < WATCHES && rc == ERR_OK; i++)
        rc = buf_addf(out, err, "skyjob_watch_skipped_total{resource=\"%s\"} %llu\n",
                      l->watches[i].what, (unsigned long long)l->watches[i].n_skipped);
    return rc;
}

/* Before every wait, so that what is served is at most a call or a decision old. */
static void publish(struct loop *l)
{
    struct buf metrics = {.max = HEALTH_METRICS_BYTES};
    struct err err;

    if (!l->health)
        return;
    if (write_metrics(l, &metrics, &err) != ERR_OK)
        LOG(LOG_WARN, "no metrics", LOG_S("error", err.text));
    health_publish(l->health, is_ready(l), &metrics);
}

static int64_t turned_ms(void *ctx)
{
    return http_turned_ms(ctx);
}

static enum err_code build(struct loop *l, struct err *err)
{
    enum err_code rc;

    l->seen = calloc(1, sizeof *l->seen);
    l->decision = calloc(1, sizeof *l->decision);
    if (!l->seen || !l->decision)
        return err_set(err, ERR_NO_MEMORY, "no memory for the loop");
    l->store.listener = (struct store_listener){.ctx = l, .on_touch = on_touch, .on_room = on_room};
    rc = workers_new(kube_client_http(l->client), &l->store,
                     (struct workers_listener){.ctx = l, .on_again = on_again}, &l->workers, err);
    if (rc == ERR_OK)
        rc = kube_recorder_new(l->client, "skyjob-operator", &l->recorder, err);
    if (rc == ERR_OK)
        rc = add_watches(l, err);
    if (rc == ERR_OK && l->options.health_address)
        rc = health_open(
            l->options.health_address,
            (struct health_source){.ctx = kube_client_http(l->client), .turned_ms = turned_ms},
            &l->health, err);
    return rc;
}

enum err_code loop_new(struct kube_client *client, const struct loop_options *options,
                       struct loop **out, struct err *err)
{
    struct loop *l = calloc(1, sizeof *l);
    enum err_code rc;

    if (!l)
        return err_set(err, ERR_NO_MEMORY, "no memory for the loop");
    l->client = client;
    l->options = *options;
    rc = build(l, err);
    if (rc != ERR_OK) {
        loop_free(l);
        return rc;
    }
    *out = l;
    return ERR_OK;
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    health_close(l->health);
    for (int i = 0; i < WATCHES; i++)
        kube_watch_free(l->watches[i].watch);
    kube_recorder_free(l->recorder);
    workers_free(l->workers);
    queue_deinit(&l->queue);
    store_deinit(&l->store);
    free(l->seen);
    free(l->decision);
    free(l);
}

/* --- one job --- */

/* Observe, decide, act. Returns when to look again in *out_again_ms, -1 for not by itself. */
static enum err_code decide_and_apply(struct loop *l, const char *key, struct store_job *job,
                                      int64_t *out_again_ms, struct err *err)
{
    struct apply apply = {
        .client = l->client, .recorder = l->recorder, .store = &l->store, .workers = l->workers};
    char version[STORE_VERSION_BYTES];
    struct json *spec_json;
    struct spec *spec;
    int64_t start_ms;
    enum err_code rc;

    memcpy(version, job->version, sizeof version);
    l->seen->settings = l->options.settings;
    l->seen->now_ms = clock_wall_ms();
    rc = store_observe(&l->store, key, l->seen, err);
    if (rc != ERR_OK)
        return rc;
    start_ms = clock_now_ms();
    decide(l->seen, l->decision);
    job->looked_ms = clock_now_ms();
    job->unplaced = l->decision->unplaced;
    job->waits_for_nodes =
        l->seen->nodes && !l->seen->is_deleting && !status_is_final(&l->decision->status);
    if (job->looked_ms - start_ms >= SOLVE_LONG_MS)
        l->solve_after_ms = job->looked_ms + 2 * (job->looked_ms - start_ms);
    *out_again_ms = l->decision->requeue_ms;
    /* Watches report while calls are waited for, and may replace or remove the job's documents. */
    spec_json = job->spec_json;
    spec = job->spec;
    job->spec_json = NULL;
    job->spec = NULL;
    rc = apply_decision(&apply, l->seen, l->decision, version, err);
    job = store_find_job(&l->store, key);
    if (job && strcmp(job->uid, l->seen->uid) == 0 && !job->spec_json && !job->is_final) {
        job->spec_json = spec_json;
        job->spec = spec;
    } else {
        json_free(spec_json);
        free(spec);
    }
    return rc;
}

static void reconcile(struct loop *l, const char *key)
{
    struct store_job *job = store_find_job(&l->store, key);
    int64_t again_ms = -1;
    int64_t retry_ms = RETRY_MS;
    struct err err = {0};
    enum err_code rc;

    if (!job)
        return;
    l->n_reconciles++;
    rc = decide_and_apply(l, key, job, &again_ms, &err);
    job = store_find_job(&l->store, key);
    if (rc == ERR_OK) {
        if (job)
            job->n_failures = 0;
        if (again_ms >= 0)
            look_at(l, key, again_ms > SOON_MS ? again_ms : SOON_MS);
        return;
    }
    l->n_errors++;
    if (job)
        retry_ms = backoff_ms(++job->n_failures, RETRY_MS, RETRY_MAX_MS);
    /* A conflict is how two writers notice each other: the watch brings the other's version. */
    LOG(rc == ERR_CONFLICT ? LOG_INFO : LOG_WARN, "reconcile failed, retrying", LOG_S("job", key),
        LOG_S("error", err.text), LOG_I("wait_ms", retry_ms));
    look_at(l, key, retry_ms);
}

/* However many jobs wait for nodes, a third of the time is theirs at most: those that run come
 * first. Among the former the one comes first that was looked at longest ago. */
static bool is_postponed(struct loop *l, const char *key, int64_t now_ms)
{
    const struct store_job *job = store_find_job(&l->store, key);
    int64_t rank_ms;

    if (!job || !job->waits_for_nodes || now_ms >= l->solve_after_ms)
        return false;
    rank_ms = RANK_MAX_MS - (now_ms - job->looked_ms) / 1000;
    look_at(l, key, l->solve_after_ms - now_ms + (rank_ms > 0 ? rank_ms : 0));
    return true;
}

static int64_t reconcile_due(struct loop *l)
{
    char key[QUEUE_KEY_BYTES];
    int64_t wait_ms = IDLE_MS;
    int64_t end_ms = clock_now_ms() + TURN_MS;

    while (!l->stops && clock_now_ms() < end_ms) {
        int64_t start_ms = clock_now_ms();

        if (!queue_take(&l->queue, start_ms, key, &wait_ms))
            return wait_ms < 0 || wait_ms > IDLE_MS ? IDLE_MS : wait_ms;
        if (!is_postponed(l, key, start_ms))
            reconcile(l, key);
        queue_done(&l->queue, key);
        l->reconcile_ms += clock_now_ms() - start_ms;
    }
    return 0;
}

/* --- the loop --- */

static int64_t step_watches(struct loop *l)
{
    int64_t wait_ms = IDLE_MS;

    for (int i = 0; i < WATCHES; i++) {
        int64_t ms = kube_watch_step(l->watches[i].watch, clock_now_ms());

        if (ms >= 0 && ms < wait_ms)
            wait_ms = ms;
    }
    return wait_ms;
}

static enum err_code turn(struct loop *l, struct err *err)
{
    int64_t due_ms = IDLE_MS;
    int64_t watch_ms;

    if (is_ready(l)) {
        if (!l->was_ready)
            LOG(LOG_INFO, "watching", LOG_I("jobs", l->store.jobs.n),
                LOG_I("nodes", l->store.nodes.n));
        l->was_ready = true;
        due_ms = reconcile_due(l);
    }
    watch_ms = step_watches(l);
    publish(l);
    return http_poll(kube_client_http(l->client), due_ms < watch_ms ? due_ms : watch_ms, err);
}

enum err_code loop_run(struct loop *l, struct err *err)
{
    enum err_code rc = ERR_OK;

    while (!l->stops && rc == ERR_OK)
        rc = turn(l, err);
    return rc;
}

void loop_stop(struct loop *l)
{
    atomic_store(&l->stops, true);
    http_stop(kube_client_http(l->client));
}
