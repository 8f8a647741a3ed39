#include "run/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/tour.h"
#include "fleet/fleet.h"

/* One call under way; a list, so that workers_free() finds them. */
struct call {
    struct workers *workers;
    struct call *next;
    struct call **place; /* what points to this one */
    char job_key[QUEUE_KEY_BYTES];
    char namespace[OBSERVED_WORD_BYTES];
    char pod[NAMES_BYTES];
    char uid[OBSERVED_UID_BYTES];
};

struct workers {
    struct fleet *fleet;
    struct store *store;
    struct workers_listener listener;
    struct call *calls;
    int n_calls;
};

enum err_code workers_new(struct http *http, struct store *store, struct workers_listener listener,
                          struct workers **out, struct err *err)
{
    struct workers *w = calloc(1, sizeof *w);
    enum err_code rc;

    if (!w)
        return err_set(err, ERR_NO_MEMORY, "no memory for the workers' calls");
    rc = fleet_new(http, &w->fleet, err);
    if (rc != ERR_OK) {
        free(w);
        return rc;
    }
    w->store = store;
    w->listener = listener;
    *out = w;
    return ERR_OK;
}

static void end_call(struct call *c)
{
    *c->place = c->next;
    if (c->next)
        c->next->place = c->place;
    c->workers->n_calls--;
    free(c);
}

void workers_free(struct workers *w)
{
    if (!w)
        return;
    fleet_free(w->fleet); /* whose handlers are not told any more */
    while (w->calls)
        end_call(w->calls);
    free(w);
}

static const struct seen_pod *pod_of(const struct observed *seen, int stage)
{
    for (int i = 0; i < seen->n_pods; i++)
        if (seen->pods[i].role == POD_STAGE && seen->pods[i].stage == stage &&
            seen->pods[i].attempt == seen->plan.attempt)
            return &seen->pods[i];
    return NULL;
}

/* Where a worker is called, and with which key; false before the key is known. */
static bool find_address(const struct workers *w, const struct observed *seen,
                         const struct seen_pod *pod, struct fleet_address *out)
{
    const struct store_job *job;
    char key[QUEUE_KEY_BYTES];

    store_key(seen->namespace, seen->name, key);
    job = store_find_job(w->store, key);
    if (!job || !job->has_secret)
        return false;
    *out = (struct fleet_address){.port = PORT_CONTROL, .key = job->secret};
    memcpy(out->host, pod->ip, sizeof out->host);
    return true;
}

static struct call *begin_call(struct workers *w, const struct observed *seen,
                               const struct seen_pod *pod)
{
    struct call *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->workers = w;
    store_key(seen->namespace, seen->name, c->job_key);
    memcpy(c->namespace, seen->namespace, sizeof c->namespace);
    memcpy(c->pod, pod->name, sizeof c->pod);
    memcpy(c->uid, pod->uid, sizeof c->uid);
    c->next = w->calls;
    c->place = &w->calls;
    if (c->next)
        c->next->place = &c->next;
    w->calls = c;
    w->n_calls++;
    return c;
}

/* How long until this worker may be called; 0: now. */
static int64_t wait_ms(const struct workers *w, const struct store_own *own)
{
    int max = own->n_unanswered > 0 ? WORKERS_CALLS_MAX / 2 : WORKERS_CALLS_MAX;
    int64_t left_ms = own->call_after_ms - clock_now_ms();

    if (left_ms > 0)
        return left_ms;
    return w->n_calls < max ? 0 : WORKERS_BUSY_MS;
}

/* A refusal is an answer, too; silence and nonsense are not. */
static void note_answer(struct store_own *own, enum err_code code)
{
    if (code == ERR_OK || code == ERR_CONFLICT || code == ERR_INVALID || code == ERR_DENIED) {
        own->n_unanswered = 0;
        own->silent_since_ms = 0;
        own->call_after_ms = 0;
        return;
    }
    if (own->n_unanswered++ == 0 || own->silent_since_ms == 0)
        own->silent_since_ms = clock_now_ms();
    own->call_after_ms =
        clock_now_ms() + backoff_ms(own->n_unanswered, WORKERS_RETRY_MS, WORKERS_RETRY_MAX_MS);
}

/* --- the peer table --- */

static void on_told(void *ctx, const struct progress *progress, const struct err *err)
{
    struct call *c = ctx;
    struct workers *w = c->workers;
    struct store_own *own = store_find_own(w->store, c->namespace, c->pod, c->uid);
    bool is_refused =
        err->code == ERR_CONFLICT || err->code == ERR_INVALID || err->code == ERR_DENIED;

    (void)progress;
    if (own) { /* else the pod is gone, and with it the question */
        own->is_being_told = false;
        /* A probe measures with the table that it has, or without: no reason to begin again. */
        own->seen.knows_peers = err->code == ERR_OK || (is_refused && own->seen.role == POD_PROBE);
        note_answer(own, err->code);
        own->seen.refuses_peers = is_refused;
        if (is_refused)
            (void)snprintf(own->seen.refusal, sizeof own->seen.refusal, "%s", err->text);
        if (is_refused)
            LOG(LOG_WARN, "worker refused the peer table", LOG_S("job", c->job_key),
                LOG_S("pod", c->pod), LOG_S("error", err->text));
        w->listener.on_again(
            w->listener.ctx, c->job_key,
            err->code == ERR_OK || is_refused ? 0 : own->call_after_ms - clock_now_ms());
    }
    end_call(c);
}

static enum err_code fill_peers(const struct observed *seen, struct peers *out, struct err *err)
{
    *out = (struct peers){.attempt = seen->plan.attempt, .n_stages = seen->plan.n_stages};
    for (int s = 0; s < out->n_stages; s++) {
        const struct seen_pod *pod = pod_of(seen, s);

        if (!pod || pod->ip[0] == '\0')
            return err_set(err, ERR_AGAIN, "stage %d has no address", s);
        memcpy(out->stages[s].host, pod->ip, sizeof out->stages[s].host);
        out->stages[s].port = PORT_TENSOR;
    }
    return ERR_OK;
}

static enum err_code tell(struct workers *w, const struct observed *seen,
                          const struct seen_pod *pod, struct store_own *own,
                          const struct peers *peers, struct err *err)
{
    int64_t later_ms = wait_ms(w, own);
    char key[QUEUE_KEY_BYTES];
    struct fleet_address to;
    struct call *c;
    enum err_code rc;

    if (later_ms > 0) {
        store_key(seen->namespace, seen->name, key);
        w->listener.on_again(w->listener.ctx, key, later_ms);
        return ERR_OK;
    }
    if (!find_address(w, seen, pod, &to))
        return err_set(err, ERR_AGAIN, "no key for the workers yet");
    c = begin_call(w, seen, pod);
    if (!c)
        return err_set(err, ERR_NO_MEMORY, "no memory for a call to %s", pod->name);
    rc = fleet_post_peers(w->fleet, &to, peers,
                          (struct fleet_handler){.ctx = c, .on_answer = on_told}, err);
    if (rc != ERR_OK)
        end_call(c);
    else
        own->is_being_told = true;
    return rc;
}

/* What the store knows of a pod that is still to be told; NULL when there is none. */
static struct store_own *own_to_tell(struct workers *w, const struct observed *seen,
                                     const struct seen_pod *pod)
{
    struct store_own *own =
        pod ? store_find_own(w->store, seen->namespace, pod->name, pod->uid) : NULL;

    return own && !own->is_being_told && !own->seen.knows_peers ? own : NULL;
}

enum err_code workers_tell(struct workers *w, const struct observed *seen, int stage,
                           struct err *err)
{
    const struct seen_pod *pod = pod_of(seen, stage);
    struct store_own *own = own_to_tell(w, seen, pod);
    struct peers peers;
    enum err_code rc;

    if (!own)
        return ERR_OK;
    rc = fill_peers(seen, &peers, err);
    return rc == ERR_OK ? tell(w, seen, pod, own, &peers, err) : rc;
}

/* --- probes --- */

/* All that run, by the names of their nodes, which is the same order whoever asks. */
struct probes {
    int n;
    const struct seen_pod *list[SPEC_STAGES_MAX];
};

static void find_probes(const struct observed *seen, struct probes *out)
{
    out->n = 0;
    for (int i = 0; i < seen->n_pods && out->n < SPEC_STAGES_MAX; i++) {
        const struct seen_pod *p = &seen->pods[i];
        int k = out->n;

        if (p->role != POD_PROBE || p->is_deleting || p->phase != POD_RUNNING || p->ip[0] == '\0')
            continue;
        for (; k > 0 && strcmp(out->list[k - 1]->node, p->node) > 0; k--)
            out->list[k] = out->list[k - 1];
        out->list[k] = p;
        out->n++;
    }
}

static void add_probe(struct peers *to, const struct seen_pod *p)
{
    int i = to->n_stages++;

    memcpy(to->stages[i].host, p->ip, sizeof to->stages[i].host);
    memcpy(to->stages[i].node, p->node, sizeof to->stages[i].node);
    to->stages[i].port = PORT_TENSOR;
}

static void fill_tour(const struct probes *probes, int self, struct peers *out)
{
    *out = (struct peers){.attempt = 0};
    add_probe(out, probes->list[self]);
    for (int round = 0; round < tour_rounds(probes->n) && round < NODE_LINKS_MAX; round++) {
        int partner = tour_partner(probes->n, round, self);

        add_probe(out, probes->list[partner >= 0 ? partner : self]);
    }
}

enum err_code workers_tell_probe(struct workers *w, const struct observed *seen, const char *pod,
                                 struct err *err)
{
    struct probes probes;
    struct peers peers;

    find_probes(seen, &probes);
    for (int i = 0; i < probes.n; i++) {
        struct store_own *own = own_to_tell(w, seen, probes.list[i]);

        if (!own || strcmp(probes.list[i]->name, pod) != 0)
            continue;
        fill_tour(&probes, i, &peers);
        return tell(w, seen, probes.list[i], own, &peers, err);
    }
    return ERR_OK;
}

/* --- the head --- */

static bool is_same_step(const struct progress *a, const struct progress *b)
{
    return a->attempt == b->attempt && a->state == b->state && a->step == b->step;
}

static void on_asked(void *ctx, const struct progress *progress, const struct err *err)
{
    struct call *c = ctx;
    struct workers *w = c->workers;
    struct store_job *job = store_find_job(w->store, c->job_key);
    struct store_own *own = store_find_own(w->store, c->namespace, c->pod, c->uid);

    if (own)
        note_answer(own, err->code);
    if (err->code == ERR_PROTOCOL)
        LOG(LOG_WARN, "head sent nonsense", LOG_S("job", c->job_key), LOG_S("error", err->text));
    if (job)
        job->is_asking = false;
    if (job && progress) { /* if it did not answer, its pod's state says what there is to say */
        if (!job->has_head || !is_same_step(&job->head, progress))
            job->head_same_since_ms = clock_now_ms();
        job->head_answered_ms = clock_now_ms();
        job->head = *progress;
        job->has_head = true;
        w->listener.on_again(w->listener.ctx, c->job_key, 0);
    }
    end_call(c);
}

enum err_code workers_ask(struct workers *w, const struct observed *seen, int64_t age_ms,
                          struct err *err)
{
    const struct seen_pod *pod = seen->has_plan ? pod_of(seen, 0) : NULL;
    const struct store_own *own =
        pod ? store_find_own(w->store, seen->namespace, pod->name, pod->uid) : NULL;
    char key[QUEUE_KEY_BYTES];
    struct fleet_address to;
    struct store_job *job;
    struct call *c;
    enum err_code rc;

    store_key(seen->namespace, seen->name, key);
    job = store_find_job(w->store, key);
    if (!job || !own || wait_ms(w, own) > 0 || pod->ip[0] == '\0' || pod->phase != POD_RUNNING ||
        job->is_asking || (job->head_asked_ms > 0 && clock_now_ms() - job->head_asked_ms < age_ms))
        return ERR_OK;
    if (!find_address(w, seen, pod, &to))
        return err_set(err, ERR_AGAIN, "no key for the workers yet");
    c = begin_call(w, seen, pod);
    if (!c)
        return err_set(err, ERR_NO_MEMORY, "no memory for a call to %s", pod->name);
    rc = fleet_ask_status(w->fleet, &to, (struct fleet_handler){.ctx = c, .on_answer = on_asked},
                          err);
    if (rc != ERR_OK) {
        end_call(c);
        return rc;
    }
    job->is_asking = true;
    job->head_asked_ms = clock_now_ms();
    return ERR_OK;
}
