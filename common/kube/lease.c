#include "kube/lease.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "kube/event.h"

const struct kube_resource kube_leases = {"coordination.k8s.io", "v1", "leases", true};

#define LEASE_MAX_BYTES 4096

/* --- decisions --- */

void lease_read(const struct json *object, struct lease_record *out)
{
    const struct json *spec = json_get(object, "spec");

    *out = (struct lease_record){0};
    JSON_COPY(out->version, json_path(object, "metadata.resourceVersion"));
    JSON_COPY(out->holder, json_path(spec, "holderIdentity"));
    JSON_COPY(out->acquired, json_path(spec, "acquireTime"));
    out->duration_ms = json_int(json_get(spec, "leaseDurationSeconds"), 0) * INT64_C(1000);
    out->n_transitions = json_int(json_get(spec, "leaseTransitions"), 0);
}

void lease_observe(struct lease_view *view, const struct lease_record *record, int64_t now_ms)
{
    if (strcmp(view->record.version, record->version) != 0)
        view->changed_ms = now_ms;
    view->record = *record;
}

bool lease_is_free(const struct lease_view *view, const char *identity, int64_t now_ms)
{
    const struct lease_record *r = &view->record;

    return r->holder[0] == '\0' || strcmp(r->holder, identity) == 0 ||
           now_ms - view->changed_ms >= r->duration_ms;
}

/* The API server wants microseconds in a Lease. */
static void format_micro(int64_t wall_ms, char out[static CLOCK_TEXT_BYTES])
{
    char seconds[CLOCK_TEXT_BYTES];

    clock_format(wall_ms, seconds);
    (void)snprintf(out, CLOCK_TEXT_BYTES, "%.19s.%03d000Z", seconds, (int)(wall_ms % 1000));
}

enum err_code lease_write(const struct lease_view *view, const char *name, const char *identity,
                          bool releases, int64_t wall_ms, struct buf *out, struct err *err)
{
    const struct lease_record *r = &view->record;
    const bool is_ours = strcmp(r->holder, identity) == 0;
    char now[CLOCK_TEXT_BYTES];
    struct jsonw w;

    format_micro(wall_ms, now);
    const struct jsont_value values[] = {
        JSONT_S("name", name),
        JSONT_S("version", r->version[0] ? r->version : NULL), /* absent: a new one */
        JSONT_S("holder", releases ? "" : identity),
        JSONT_I("duration", releases ? 1 : LEASE_DURATION_MS / 1000),
        JSONT_S("acquired", is_ours && r->acquired[0] ? r->acquired : now),
        JSONT_S("renewed", now),
        JSONT_I("transitions", r->n_transitions + (!is_ours && r->version[0])),
    };
    jsonw_init(&w, out);
    jsont_write(&w, NULL,
                "{'apiVersion': 'coordination.k8s.io/v1', 'kind': 'Lease',"
                " 'metadata': {'name': $name, 'resourceVersion': $version},"
                " 'spec': {'holderIdentity': $holder, 'leaseDurationSeconds': $duration,"
                " 'acquireTime': $acquired, 'renewTime': $renewed,"
                " 'leaseTransitions': $transitions}}",
                values, sizeof values / sizeof *values);
    return jsonw_finish(&w, err);
}

/* --- a process --- */

struct lease {
    struct kube_client *client;
    struct lease_options options;
    struct kube_recorder recorder;
    struct lease_view view;         /* the thread's own */
    atomic_int_least64_t until_ms;  /* how long this process leads, if it does not renew; 0: not */
    atomic_int_least64_t turned_ms; /* when the thread last came by */
    atomic_bool is_lost;
    pthread_t thread;
    pthread_mutex_t lock; /* of `stops` */
    pthread_cond_t stopping;
    bool stops;
};

static struct kube_ref ref_of(const struct lease *l)
{
    return (struct kube_ref){
        .resource = &kube_leases, .namespace = l->options.namespace, .name = l->options.name};
}

static void observe(struct lease *l, const struct lease_record *record)
{
    if (strcmp(record->holder, l->view.record.holder) != 0)
        LOG(LOG_INFO, "leader", LOG_S("lease", l->options.name),
            LOG_S("is", record->holder[0] ? record->holder : "(nobody)"));
    lease_observe(&l->view, record, clock_now_ms());
}

static enum err_code write_once(struct lease *l, bool releases, struct err *err)
{
    const struct kube_ref ref = ref_of(l);
    const int64_t start_ms = clock_now_ms();
    struct buf body = {.max = LEASE_MAX_BYTES};
    struct lease_record record;
    struct json *object = NULL;
    enum err_code rc = lease_write(&l->view, l->options.name, l->options.identity, releases,
                                   clock_wall_ms(), &body, err);

    if (rc == ERR_OK)
        rc = l->view.record.version[0] ? kube_merge(l->client, &ref, body.data, &object, err)
                                       : kube_create(l->client, &ref, body.data, &object, err);
    buf_deinit(&body);
    if (rc != ERR_OK)
        return rc;
    lease_read(object, &record);
    json_free(object);
    observe(l, &record);
    atomic_store(&l->until_ms, releases ? 0 : start_ms + LEASE_RENEW_MS);
    return ERR_OK;
}

static enum err_code read_once(struct lease *l, struct err *err)
{
    const struct kube_ref ref = ref_of(l);
    struct lease_record record = {0};
    struct json *object = NULL;
    enum err_code rc = kube_get(l->client, &ref, &object, err);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == ERR_OK)
        lease_read(object, &record);
    json_free(object);
    observe(l, &record);
    return ERR_OK;
}

static bool is_ours(const struct lease *l)
{
    return strcmp(l->view.record.holder, l->options.identity) == 0;
}

/* Acquire the Lease, or renew it. ERR_CONFLICT: it is another's. */
static enum err_code try_once(struct lease *l, struct err *err)
{
    enum err_code rc;

    if (is_ours(l) && write_once(l, false, NULL) == ERR_OK)
        return ERR_OK;
    rc = read_once(l, err);
    if (rc == ERR_OK && !lease_is_free(&l->view, l->options.identity, clock_now_ms()))
        return err_set(err, ERR_CONFLICT, "%.100s leads", l->view.record.holder);
    return rc == ERR_OK ? write_once(l, false, err) : rc;
}

/* Returns whether the lease goes on. */
static bool wait_for(struct lease *l, int64_t ms)
{
    struct timespec until = thread_deadline((int)ms);
    bool goes_on;

    pthread_mutex_lock(&l->lock);
    while (!l->stops && pthread_cond_timedwait(&l->stopping, &l->lock, &until) == 0)
        continue;
    goes_on = !l->stops;
    pthread_mutex_unlock(&l->lock);
    return goes_on;
}

static void announce(struct lease *l)
{
    char text[LEASE_HOLDER_BYTES + 32];
    const struct kube_event event = {.subject = {.api_version = "coordination.k8s.io/v1",
                                                 .kind = "Lease",
                                                 .namespace = l->options.namespace,
                                                 .name = l->options.name,
                                                 .uid = ""},
                                     .reason = "LeaderElection",
                                     .message = text};
    struct err err;

    (void)snprintf(text, sizeof text, "%s became leader", l->options.identity);
    if (kube_event_post(&l->recorder, &event, &err) != ERR_OK)
        LOG(LOG_WARN, "event not recorded", LOG_S("lease", l->options.name),
            LOG_S("error", err.text));
}

static void lose(struct lease *l, const struct err *err)
{
    LOG(LOG_ERROR, "leads no more", LOG_S("lease", l->options.name), LOG_S("error", err->text));
    atomic_store(&l->until_ms, 0);
    atomic_store(&l->is_lost, true);
    l->options.on_lost(l->options.ctx);
}

static void *run(void *arg)
{
    struct lease *l = arg;
    bool leads = false;
    int64_t wait_ms;
    struct err err;

    do {
        enum err_code rc = try_once(l, &err);

        wait_ms = LEASE_RETRY_MS;
        if (rc == ERR_OK && !leads)
            announce(l);
        leads = leads || rc == ERR_OK;
        if (rc != ERR_OK && leads && (!is_ours(l) || !lease_is_held(l))) {
            lose(l, &err);
            return NULL;
        }
        if (rc != ERR_OK && rc != ERR_CONFLICT)
            LOG(LOG_WARN, "lease", LOG_S("name", l->options.name), LOG_S("error", err.text));
        if (!leads)
            wait_ms += (int64_t)(LEASE_RETRY_MS * LEASE_JITTER) * (clock_now_ns() % 1024) / 1024;
        atomic_store(&l->turned_ms, clock_now_ms());
    } while (wait_for(l, wait_ms));
    return NULL;
}

enum err_code lease_identity(char out[static LEASE_HOLDER_BYTES], struct err *err)
{
    char host[LEASE_HOLDER_BYTES - 32] = "";
    uint64_t random;

    if (gethostname(host, sizeof host - 1) != 0 ||
        getrandom(&random, sizeof random, 0) != sizeof random)
        return err_set(err, ERR_IO, "no host name or no random numbers");
    (void)snprintf(out, LEASE_HOLDER_BYTES, "%s_%016llx", host, (unsigned long long)random);
    return ERR_OK;
}

enum err_code lease_new(struct kube_client *client, const struct lease_options *options,
                        struct lease **out, struct err *err)
{
    struct lease *l = calloc(1, sizeof *l);
    enum err_code rc;

    if (!l)
        return err_set(err, ERR_NO_MEMORY, "no memory for the lease");
    l->client = client;
    l->options = *options;
    l->recorder = (struct kube_recorder){.client = client, .component = options->component};
    atomic_store(&l->turned_ms, clock_now_ms());
    (void)pthread_mutex_init(&l->lock, NULL);
    thread_cond_init(&l->stopping);
    rc = thread_start(&l->thread, run, l, err);
    if (rc != ERR_OK) {
        free(l);
        return rc;
    }
    *out = l;
    return ERR_OK;
}

void lease_free(struct lease *l)
{
    struct err err;

    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stops = true;
    (void)pthread_cond_signal(&l->stopping);
    pthread_mutex_unlock(&l->lock);
    (void)pthread_join(l->thread, NULL);
    if (!l->is_lost && is_ours(l) && write_once(l, true, &err) != ERR_OK)
        LOG(LOG_WARN, "lease not released", LOG_S("name", l->options.name),
            LOG_S("error", err.text));
    (void)pthread_cond_destroy(&l->stopping);
    (void)pthread_mutex_destroy(&l->lock);
    free(l);
}

bool lease_is_held(const struct lease *l)
{
    return clock_now_ms() < atomic_load(&l->until_ms);
}

bool lease_is_lost(const struct lease *l)
{
    return atomic_load(&l->is_lost);
}

int64_t lease_turned_ms(const struct lease *l)
{
    return atomic_load(&l->turned_ms);
}
