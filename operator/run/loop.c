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
#include "run/metrics.h"
#include "run/metrics_port.h"
#include "run/queue.h"
#include "run/reader.h"
#include "run/solver.h"
#include "run/store.h"
#include "run/turns.h"
#include "run/workers.h"
#include "run/writers.h"

#define IDLE_MS      30000
#define STANDBY_MS   500 /* between two looks at whether it leads */
#define SOON_MS      20  /* the shortest pause between two looks at a job */
#define RETRY_MS     500
#define RETRY_MAX_MS 30000
#define CAPACITY_MS  DECIDE_SOLVE_MS /* between two looks at a job that waits for nodes */
#define RANK_MAX_MS  100             /* of a job that was just looked at, less 1 per second since */
#define SKIPPED_MS   60000           /* between two log lines about skipped objects */

_Static_assert(STORE_KINDS <= METRICS_WATCHES_MAX, "every watch has its metrics");

struct watch_of {
    struct loop *loop;
    const char *what;
    enum store_kind kind;
    struct kube_watch watch;
    uint64_t n_skipped;
    int64_t skipped_ms; /* when that was last logged */
};

struct loop {
    struct kube_client *client;
    struct loop_options options;
    struct watch_of *watches; /* of nodes one, of other kinds one for each namespace */
    size_t n_watches;
    struct store store;
    struct queue queue;
    struct queue searches; /* jobs that look for a plan, one at a time */
    struct solver *solver;
    struct solver_case *solved;   /* for the solver's decisions */
    char search[QUEUE_KEY_BYTES]; /* the job of the case that the solver has */
    bool saves_plan; /* a writer acts on one: until then the store does not show what it takes */
    struct writers *writers;
    struct issuer *issuer; /* NULL: pods have no certificates */
    struct reader reader;
    struct workers workers;
    struct kube_recorder recorder;
    struct health *health;
    struct metrics_port *metrics_port; /* NULL: metrics are not served */
    atomic_bool stops;
    bool was_ready;
    struct turns turns;
    uint64_t n_errors;
    struct metrics_times reconciles, own;
};

/* --- what happens --- */

static void enqueue(void *loop, const char *key, int64_t delay_ms)
{
    struct loop *l = loop;
    struct err err;

    if (queue_add(&l->queue, key, clock_now_ms() + delay_ms, &err) != ERR_OK)
        LOG(LOG_ERROR, "job not queued", LOG_S("job", key), LOG_S("error", err.text));
}

/* Nodes and pods change all the time, and each change may concern every job that waits. */
static void on_capacity(void *ctx, const char *key)
{
    struct loop *l = ctx;
    const struct store_job *job = store_find_job(&l->store, key);
    int64_t left_ms = job ? job->decided_ms + CAPACITY_MS - clock_now_ms() : 0;

    enqueue(l, key, left_ms > 0 ? left_ms : 0);
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
        LOG_S("namespace", json_text(metadata, "namespace")),
        LOG_S("name", json_string(json_get(metadata, "name"), "?")), LOG_S("error", err->text),
        LOG_I("skipped", w->n_skipped));
}

static void on_change(void *ctx, enum kube_change change, const struct json *object)
{
    struct watch_of *w = ctx;
    struct err err;

    if (store_change(&w->loop->store, w->kind, change, object, &err) != ERR_OK)
        on_skipped(w, object, &err);
}

static void on_error(void *ctx, const struct err *err, int64_t wait_ms)
{
    struct watch_of *w = ctx;

    LOG(LOG_WARN, "watch failed", LOG_S("kind", w->what), LOG_S("error", err->text),
        LOG_I("wait_ms", wait_ms));
}

/* In the solver's thread. */
static void on_solved(void *http)
{
    http_wake(http);
}

static void work(void *ctx, const struct writers_task *task);

/* --- building --- */

static const struct {
    const char *what;
    struct kube_ref ref;
} kinds[STORE_KINDS] = {[STORE_JOBS] = {"skyjobs", {.resource = &apply_skyjobs}},
                        [STORE_PODS] = {"pods", {.resource = &kube_pods}},
                        [STORE_NODES] = {"nodes", {.resource = &kube_nodes}},
                        [STORE_REVISIONS] = {"revisions",
                                             {.resource = &kube_config_maps,
                                              .label_selector = LABEL_JOB_UID "," LABEL_REVISION}}};

static void add_watch(struct loop *l, int kind, const char *namespace)
{
    struct watch_of *w = &l->watches[l->n_watches++];

    *w = (struct watch_of){.loop = l, .what = kinds[kind].what, .kind = (enum store_kind)kind};
    w->watch.client = l->client;
    w->watch.ref = kinds[kind].ref;
    w->watch.ref.namespace = namespace;
    w->watch.watcher = (struct kube_watcher){w, on_change, on_error, on_skipped};
}

static enum err_code add_watches(struct loop *l, struct err *err)
{
    static const char *const all[] = {NULL};
    const char *const *namespaces = l->options.namespaces ? l->options.namespaces : all;
    size_t n = 0;

    do
        n++;
    while (namespaces[n - 1] && namespaces[n]);
    l->watches = calloc(STORE_KINDS * n, sizeof *l->watches);
    if (!l->watches)
        return err_set(err, ERR_NO_MEMORY, "no memory for the watches");
    for (int kind = 0; kind < STORE_KINDS; kind++)
        for (size_t i = 0; i < (kind == STORE_NODES ? 1 : n); i++)
            add_watch(l, kind, kind == STORE_NODES ? NULL : namespaces[i]);
    return ERR_OK;
}

static bool is_ready(const struct loop *l)
{
    for (size_t i = 0; i < l->n_watches; i++)
        if (!l->watches[i].watch.is_synced)
            return false;
    return true;
}

static bool leads(const struct loop *l)
{
    return !l->options.lease || lease_is_held(l->options.lease);
}

static bool may_call(void *ctx)
{
    return leads(ctx);
}

static void publish_metrics(struct loop *l)
{
    struct metrics m = {
        .is_leader = leads(l),
        .reconciles = l->reconciles,
        .own = l->own,
        .n_errors = l->n_errors,
        .n_queued = l->queue.keys.n,
        .late_ms = leads(l) ? queue_late_ms(&l->queue, clock_now_ms()) : 0,
        .has_jobs = l->was_ready,
        .n_stalled = l->store.n_stalled,
        .n_watches = STORE_KINDS,
    };

    memcpy(m.n_jobs_in, l->store.n_jobs_in, sizeof m.n_jobs_in);
    memcpy(m.n_requests, kube_client_requests(l->client), sizeof m.n_requests);
    for (int i = 0; i < STORE_KINDS; i++)
        m.watches[i].resource = kinds[i].what;
    for (size_t i = 0; i < l->n_watches; i++) {
        m.watches[l->watches[i].kind].n_events += l->watches[i].watch.n_events;
        m.watches[l->watches[i].kind].n_skipped += l->watches[i].n_skipped;
    }
    metrics_port_publish(l->metrics_port, &m);
}

/* Before every wait, so that what is served is at most a call or a decision old. */
static void publish(struct loop *l)
{
    if (l->health)
        health_publish(l->health, is_ready(l));
    if (l->metrics_port)
        publish_metrics(l);
}

/* Of the loop or of the lease, whichever is later. */
static int64_t turned_ms(void *ctx)
{
    const struct loop *l = ctx;
    int64_t loop_ms = http_turned_ms(kube_client_http(l->client));
    int64_t lease_ms = l->options.lease ? lease_turned_ms(l->options.lease) : loop_ms;

    return lease_ms < loop_ms ? lease_ms : loop_ms;
}

enum err_code loop_new(struct kube_client *client, const struct loop_options *options,
                       struct loop **out, struct err *err)
{
    struct http *http = kube_client_http(client);
    struct loop *l = calloc(1, sizeof *l);
    enum err_code rc;

    if (l) {
        l->client = client;
        l->recorder.client = client;
        l->recorder.component = "skyjob-operator";
        l->options = *options;
        l->workers.store = &l->store;
        l->workers.may_call = may_call;
        l->workers.ctx = l;
        l->store.listener =
            (struct store_listener){.ctx = l, .on_enqueue = enqueue, .on_capacity = on_capacity};
        l->solved = calloc(1, sizeof *l->solved);
    }
    rc = l && l->solved ? fleet_new(http, &l->workers.fleet, err)
                        : err_set(err, ERR_NO_MEMORY, "no memory for the loop");
    if (rc == ERR_OK && options->authority_name)
        rc = issuer_new(client, options->authority_namespace, options->authority_name, &l->issuer,
                        err);
    if (rc == ERR_OK) {
        l->workers.issuer = l->issuer;
        l->reader = (struct reader){.client = client,
                                    .issuer = l->issuer,
                                    .namespace = options->reader_namespace,
                                    .name = options->reader_name};
        rc = add_watches(l, err);
    }
    if (rc == ERR_OK)
        rc = solver_new(on_solved, http, &l->solver, err);
    if (rc == ERR_OK)
        rc = writers_new(http, work, l, &l->writers, err);
    if (rc == ERR_OK && options->health_address)
        rc = health_open(options->health_address, turned_ms, l, &l->health, err);
    if (rc == ERR_OK && options->metrics_address)
        rc = metrics_port_open(options->metrics_address, options->metrics_client,
                               clock_wall_ms() / 1000, &l->metrics_port, err);
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
    metrics_port_close(l->metrics_port);
    writers_free(l->writers);
    for (size_t i = 0; i < l->n_watches; i++)
        kube_watch_deinit(&l->watches[i].watch);
    free(l->watches);
    fleet_free(l->workers.fleet);
    issuer_free(l->issuer);
    if (!l->solver || !solver_is_busy(l->solver))
        solver_case_free(l->solved); /* else it is the solver's */
    solver_free(l->solver);
    queue_deinit(&l->queue);
    queue_deinit(&l->searches);
    turns_deinit(&l->turns);
    store_deinit(&l->store);
    free(l);
}

/* --- one job --- */

static enum err_code observe(struct loop *l, const char *key, struct solver_case *c,
                             struct err *err)
{
    c->decision.requeue_ms = -1;
    c->seen.settings = l->options.settings;
    c->seen.now_ms = clock_wall_ms();
    return store_observe(&l->store, key, &c->view, &c->seen, err);
}

static bool has_plan(const struct decision *d)
{
    for (int i = 0; i < d->n_actions; i++)
        if (d->actions[i].kind == ACTION_CREATE_REVISION)
            return true;
    return false;
}

static enum err_code act(struct loop *l, const char *key, struct solver_case *c, struct err *err)
{
    struct apply apply = {.client = l->client,
                          .recorder = &l->recorder,
                          .store = &l->store,
                          .workers = &l->workers,
                          .issuer = l->issuer};
    struct store_job *job = store_find_job(&l->store, key);
    enum err_code rc;

    job->decided_ms = clock_now_ms();
    job->unplaced = c->decision.unplaced;
    job->waits_for_nodes = c->seen.nodes && !c->seen.is_deleting && !has_plan(&c->decision) &&
                           !status_is_over(&c->decision.status);
    job->is_written = true;
    rc = apply_decision(&apply, &c->seen, &c->decision, err);
    job = store_job_of(&l->store, &c->seen);
    if (job)
        job->is_written = false;
    return rc;
}

/* When to look at the job again. */
static void settle(struct loop *l, const char *key, const struct decision *d, enum err_code rc,
                   const struct err *err)
{
    struct store_job *job = store_find_job(&l->store, key);
    int64_t quiet_ms = kube_client_quiet_ms(l->client, clock_now_ms());
    int64_t retry_ms = RETRY_MS;

    if (rc == ERR_OK) {
        if (job)
            job->n_failures = 0;
        if (d->requeue_ms >= 0)
            enqueue(l, key, d->requeue_ms > SOON_MS ? d->requeue_ms : SOON_MS);
        return;
    }
    l->n_errors++;
    if (rc == ERR_AGAIN && quiet_ms > 0) /* the server has said how long, and to all */
        retry_ms = quiet_ms;
    else if (job)
        retry_ms = backoff_ms(++job->n_failures, RETRY_MS, RETRY_MAX_MS);
    /* A conflict is how two writers notice each other: the watch brings the other's version. */
    LOG(rc == ERR_CONFLICT ? LOG_INFO : LOG_WARN, "reconcile failed, retrying", LOG_S("job", key),
        LOG_S("error", err->text), LOG_I("wait_ms", retry_ms));
    enqueue(l, key, retry_ms);
}

static void enqueue_search(struct loop *l, const char *key, int64_t due_ms)
{
    struct err err;

    if (queue_add(&l->searches, key, due_ms, &err) != ERR_OK)
        LOG(LOG_ERROR, "job not queued", LOG_S("job", key), LOG_S("error", err.text));
}

static bool looks_for_plan(const struct store_job *job)
{
    bool is_new = job->decided_ms == 0 && job->revision == 0 && !job->is_final;

    return (job->waits_for_nodes || is_new) && !job->is_deleting;
}

/* Observe, decide, act; but a search for a plan comes later. */
static void reconcile(struct loop *l, const char *key, struct solver_case *c)
{
    struct apply apply = {.client = l->client,
                          .recorder = &l->recorder,
                          .store = &l->store,
                          .workers = &l->workers,
                          .issuer = l->issuer};
    struct err err = {0};
    enum err_code rc = apply_orphans(&apply, key, &err);
    struct store_job *job = store_find_job(&l->store, key);
    bool is_search = rc == ERR_OK && job && looks_for_plan(job);

    if (rc == ERR_OK && job && job->is_written) { /* what a search has found */
        enqueue(l, key, SOON_MS);
        return;
    }
    c->decision.requeue_ms = -1;
    if (rc == ERR_OK && job && !is_search)
        rc = observe(l, key, c, &err);
    if (is_search || (rc == ERR_OK && job && c->seen.nodes && !job->is_deleting)) {
        enqueue_search(l, key, clock_now_ms());
        return;
    }
    if (rc == ERR_OK && job) {
        decide(&c->seen, &c->decision);
        rc = act(l, key, c, &err);
    }
    settle(l, key, &c->decision, rc, &err);
}

/* Have the writers reconcile what is due. */
static int64_t reconcile_due(struct loop *l)
{
    char key[QUEUE_KEY_BYTES];
    int64_t wait_ms = IDLE_MS;

    while (!l->stops && writers_n_busy(l->writers) < WRITERS_MAX) {
        if (!queue_take(&l->queue, clock_now_ms(), key, &wait_ms))
            return wait_ms < 0 || wait_ms > IDLE_MS ? IDLE_MS : wait_ms;
        (void)writers_give(l->writers, key, NULL);
    }
    return IDLE_MS; /* until one of them is free */
}

/* --- a search for a plan --- */

/* A job that trains does not wait for its turn; among the others of a namespace the one comes first
 * that was looked at longest ago. */
static int64_t turn_ms(struct loop *l, const struct store_job *job, int64_t now_ms)
{
    int64_t wait_ms = job->trains ? 0 : turns_wait_ms(&l->turns, job->namespace, now_ms);
    int64_t rank_ms = RANK_MAX_MS - (now_ms - job->decided_ms) / 1000;

    return wait_ms > 0 && rank_ms > 0 ? wait_ms + rank_ms : wait_ms;
}

/* The next one whose turn it is; false: there is none for *wait_ms. */
static bool take_search(struct loop *l, int64_t now_ms, int64_t *wait_ms)
{
    while (queue_take(&l->searches, now_ms, l->search, wait_ms)) {
        const struct store_job *job = store_find_job(&l->store, l->search);
        int64_t left_ms = job ? turn_ms(l, job, now_ms) : 0;

        if (left_ms == 0)
            return true;
        enqueue_search(l, l->search, now_ms + left_ms);
        queue_done(&l->searches, l->search);
    }
    return false;
}

/* Returns the time until another one is due. */
static int64_t start_search(struct loop *l)
{
    int64_t now_ms = clock_now_ms();
    int64_t wait_ms = IDLE_MS;
    struct store_job *job;
    struct err err = {0};
    enum err_code rc;

    if (solver_is_busy(l->solver) || l->saves_plan || !take_search(l, now_ms, &wait_ms))
        return wait_ms < 0 || wait_ms > IDLE_MS ? IDLE_MS : wait_ms;
    job = store_find_job(&l->store, l->search);
    rc = job ? observe(l, l->search, l->solved, &err) : ERR_NOT_FOUND;
    if (rc == ERR_OK) {
        l->solved->decided_ms = job->decided_ms;
        solver_start(l->solver, l->solved);
        return IDLE_MS;
    }
    if (job)
        settle(l, l->search, &l->solved->decision, rc, &err);
    queue_done(&l->searches, l->search);
    return 0;
}

/* Act on what the solver has decided, unless the job is another one by now. */
static void end_search(struct loop *l, const char *key, struct solver_case *c)
{
    struct store_job *job = store_job_of(&l->store, &c->seen);
    struct err err = {0};

    if (job && strcmp(job->version, c->seen.version) == 0 && job->decided_ms == c->decided_ms) {
        enum err_code rc = act(l, key, c, &err);

        settle(l, key, &c->decision, rc, &err);
    } else if (job) {
        enqueue(l, key, 0);
    }
    if (has_plan(&c->decision))
        l->saves_plan = false;
    queue_done(&l->searches, key);
}

static void save_plan(struct loop *l)
{
    struct solver_case *c =
        writers_n_busy(l->writers) < WRITERS_MAX ? solver_take(l->solver) : NULL;

    if (!c)
        return;
    turns_add(&l->turns, c->seen.namespace, c->took_ms, clock_now_ms());
    l->saves_plan = l->saves_plan || has_plan(&c->decision);
    l->solved = writers_give(l->writers, l->search, c);
}

/* --- the loop --- */

static void work(void *ctx, const struct writers_task *task)
{
    struct loop *l = ctx;
    int64_t start_ns = clock_now_ns();
    int64_t in_calls_ns = kube_in_calls_ns();
    int64_t took_ns;

    if (task->is_decided) {
        end_search(l, task->key, task->c);
    } else {
        reconcile(l, task->key, task->c);
        took_ns = clock_now_ns() - start_ns;
        metrics_add_time(&l->reconciles, took_ns);
        metrics_add_time(&l->own, took_ns - (kube_in_calls_ns() - in_calls_ns));
        queue_done(&l->queue, task->key);
    }
    store_view_drop_nodes(&task->c->view);
}

/* What is known goes on when the Secret of the CA cannot be read. */
static void tend_certificates(struct loop *l)
{
    int64_t now_s = clock_wall_ms() / 1000;
    struct err err;

    if (l->issuer && issuer_tend(l->issuer, leads(l), clock_now_ms(), now_s, &err) != ERR_OK)
        LOG(LOG_WARN, "CA not read", LOG_S("error", err.text));
    if (l->metrics_port && metrics_port_tend(l->metrics_port, l->issuer, now_s, &err) != ERR_OK)
        LOG(LOG_WARN, "certificate not renewed", LOG_S("error", err.text));
}

/* Without a CA nothing can be done for jobs whose workers have certificates. */
static bool has_authority(const struct loop *l)
{
    return !l->issuer || issuer_generation(l->issuer) != 0;
}

/* Jobs do not wait for it. */
static void tend_reader(struct loop *l)
{
    struct err err;

    if (reader_tend(&l->reader, clock_now_ms(), clock_wall_ms() / 1000, &err) != ERR_OK)
        LOG(LOG_WARN, "no certificate for readers of metrics", LOG_S("error", err.text));
}

static enum err_code turn(struct loop *l, struct err *err)
{
    int64_t wait_ms = leads(l) ? IDLE_MS : STANDBY_MS;

    if (l->options.lease && lease_is_lost(l->options.lease))
        return err_set(err, ERR_DENIED, "another operator may lead now");
    if (is_ready(l)) {
        if (!l->was_ready)
            LOG(LOG_INFO, "watching", LOG_I("jobs", l->store.jobs.n),
                LOG_I("nodes", l->store.nodes.n));
        l->was_ready = true;
        tend_certificates(l);
        if (leads(l) && !has_authority(l)) {
            wait_ms = STANDBY_MS;
        } else if (leads(l)) {
            int64_t search_ms;

            tend_reader(l);
            save_plan(l);
            wait_ms = reconcile_due(l);
            search_ms = start_search(l);
            wait_ms = search_ms < wait_ms ? search_ms : wait_ms;
        }
    }
    for (size_t i = 0; i < l->n_watches; i++) {
        int64_t ms = kube_watch_step(&l->watches[i].watch, clock_now_ms());

        if (ms >= 0 && ms < wait_ms)
            wait_ms = ms;
    }
    publish(l);
    return http_poll(kube_client_http(l->client), wait_ms, err);
}

enum err_code loop_run(struct loop *l, struct err *err)
{
    struct http *http = kube_client_http(l->client);
    enum err_code rc = ERR_OK;

    http_share(http);
    while (!l->stops && rc == ERR_OK)
        rc = turn(l, err);
    http_stop(http); /* the writers' calls end soon */
    while (writers_n_busy(l->writers) > 0)
        (void)!http_poll(http, HTTP_STOP_MS, NULL);
    http_unshare(http);
    return rc;
}

void loop_stop(struct loop *l)
{
    atomic_store(&l->stops, true);
    http_stop(kube_client_http(l->client));
}
