#include "run/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/pairing.h"
#include "fleet/fleet.h"

struct workers {
    struct fleet *fleet;
    struct store *store;
    struct workers_listener listener;
};

/* Of which pod a call is: it may be gone when the answer comes. */
struct call {
    struct workers *workers;
    char job_key[QUEUE_KEY_BYTES];
    char namespace[OBSERVED_WORD_BYTES];
    char pod[NAMES_BYTES];
    char uid[OBSERVED_UID_BYTES];
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

void workers_free(struct workers *w)
{
    if (!w)
        return;
    fleet_free(w->fleet);
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

/* How long until this worker may be called; 0: now. */
static int64_t wait_ms(const struct workers *w, const struct contact *c)
{
    int max = c->n_unanswered > 0 ? WORKERS_CALLS_MAX / 2 : WORKERS_CALLS_MAX;
    int64_t left_ms = contact_wait_ms(c, clock_now_ms());

    if (left_ms > 0)
        return left_ms;
    return fleet_n_calls(w->fleet) < max ? 0 : WORKERS_BUSY_MS;
}

/* The pod's contact after this answer; NULL when the pod is gone, and with it the question. */
static struct store_own *take_answer(const struct call *c, const struct err *err, bool was_table)
{
    struct store_own *own = store_find_own(c->workers->store, c->namespace, c->pod, c->uid);

    if (own)
        contact_answered(&own->contact, err, was_table, clock_now_ms(), WORKERS_RETRY_MAX_MS);
    return own;
}

static void on_posted(void *ctx, const struct progress *progress, const struct err *err)
{
    struct call *c = ctx;
    struct workers *w = c->workers;
    struct store_own *own = take_answer(c, err, true);
    struct contact *contact = own ? &own->contact : NULL;

    (void)progress;
    if (!contact)
        return;
    if (contact->is_refused)
        LOG(LOG_WARN, "worker refused the peer table", LOG_S("job", c->job_key),
            LOG_S("pod", c->pod), LOG_S("error", err->text));
    /* A probe measures with the table that it has, or without: no reason to begin again. */
    if (contact->is_refused && own->seen.role == POD_PROBE)
        contact->has_table = true;
    w->listener.on_again(
        w->listener.ctx, c->job_key,
        contact->has_table || contact->is_refused ? 0 : contact_wait_ms(contact, clock_now_ms()));
}

static bool is_same_step(const struct progress *a, const struct progress *b)
{
    return a->attempt == b->attempt && a->state == b->state && a->step == b->step;
}

static void on_status(void *ctx, const struct progress *progress, const struct err *err)
{
    struct call *c = ctx;
    struct workers *w = c->workers;
    struct store_job *job = store_find_job(w->store, c->job_key);

    (void)take_answer(c, err, false);
    if (err->code == ERR_PROTOCOL)
        LOG(LOG_WARN, "invalid status from the leader", LOG_S("job", c->job_key),
            LOG_S("error", err->text));
    if (!job || !progress) /* if it did not answer, its pod's state shows why */
        return;
    if (!job->has_leader || !is_same_step(&job->leader, progress))
        job->leader_same_since_ms = clock_now_ms();
    job->leader_answered_ms = clock_now_ms();
    job->leader = *progress;
    job->has_leader = true;
    w->listener.on_again(w->listener.ctx, c->job_key, 0);
}

/* Send the pod its peer table or, without one, ask it for its status. */
static enum err_code call_pod(struct workers *w, const struct observed *seen,
                              const struct seen_pod *pod, struct contact *contact,
                              const struct peers *peers, struct err *err)
{
    struct call c = {.workers = w};
    struct fleet_handler handler = {
        .ctx = &c, .ctx_bytes = sizeof c, .on_answer = peers ? on_posted : on_status};
    struct fleet_address to = {.port = PORT_CONTROL};
    const struct store_job *job;
    enum err_code rc;

    store_key(seen->namespace, seen->name, c.job_key);
    memcpy(c.namespace, seen->namespace, sizeof c.namespace);
    memcpy(c.pod, pod->name, sizeof c.pod);
    memcpy(c.uid, pod->uid, sizeof c.uid);
    job = store_find_job(w->store, c.job_key);
    if (!job || !job->has_secret)
        return err_set(err, ERR_AGAIN, "no key for the workers yet");
    to.key = job->secret;
    memcpy(to.host, pod->ip, sizeof to.host);
    rc = peers ? fleet_post_peers(w->fleet, &to, peers, handler, err)
               : fleet_ask_status(w->fleet, &to, handler, err);
    contact->is_busy = rc == ERR_OK;
    return rc;
}

/* --- peer tables --- */

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

/* Send the table as soon as the worker may be called. */
static enum err_code send_table(struct workers *w, const struct observed *seen,
                                const struct seen_pod *pod, struct contact *contact,
                                const struct peers *peers, struct err *err)
{
    int64_t later_ms = wait_ms(w, contact);
    char key[QUEUE_KEY_BYTES];

    if (later_ms == 0)
        return call_pod(w, seen, pod, contact, peers, err);
    store_key(seen->namespace, seen->name, key);
    w->listener.on_again(w->listener.ctx, key, later_ms);
    return ERR_OK;
}

/* The contact of a pod that still needs its table; NULL if it does not. */
static struct contact *contact_without_table(struct workers *w, const struct observed *seen,
                                             const struct seen_pod *pod)
{
    struct store_own *own =
        pod ? store_find_own(w->store, seen->namespace, pod->name, pod->uid) : NULL;

    return own && !own->contact.is_busy && !own->contact.has_table ? &own->contact : NULL;
}

enum err_code workers_post_peers(struct workers *w, const struct observed *seen, int stage,
                                 struct err *err)
{
    const struct seen_pod *pod = pod_of(seen, stage);
    struct contact *contact = contact_without_table(w, seen, pod);
    struct peers peers;
    enum err_code rc;

    if (!contact)
        return ERR_OK;
    rc = fill_peers(seen, &peers, err);
    return rc == ERR_OK ? send_table(w, seen, pod, contact, &peers, err) : rc;
}

/* --- probes --- */

/* All that run, in the order of the names of their nodes. */
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

static void fill_pairing(const struct probes *probes, int self, struct peers *out)
{
    *out = (struct peers){.attempt = 0};
    add_probe(out, probes->list[self]);
    for (int round = 0; round < pairing_rounds(probes->n) && round < NODE_LINKS_MAX; round++) {
        int partner = pairing_partner(probes->n, round, self);

        add_probe(out, probes->list[partner >= 0 ? partner : self]);
    }
}

enum err_code workers_post_probe_peers(struct workers *w, const struct observed *seen,
                                       const char *pod, struct err *err)
{
    struct probes probes;
    struct peers peers;

    find_probes(seen, &probes);
    for (int i = 0; i < probes.n; i++) {
        struct contact *contact = contact_without_table(w, seen, probes.list[i]);

        if (!contact || strcmp(probes.list[i]->name, pod) != 0)
            continue;
        fill_pairing(&probes, i, &peers);
        return send_table(w, seen, probes.list[i], contact, &peers, err);
    }
    return ERR_OK;
}

/* --- the leader --- */

enum err_code workers_ask_status(struct workers *w, const struct observed *seen, int64_t age_ms,
                                 struct err *err)
{
    const struct seen_pod *pod = seen->has_plan ? pod_of(seen, 0) : NULL;
    struct store_own *own =
        pod ? store_find_own(w->store, seen->namespace, pod->name, pod->uid) : NULL;
    char key[QUEUE_KEY_BYTES];
    struct store_job *job;
    enum err_code rc;

    store_key(seen->namespace, seen->name, key);
    job = store_find_job(w->store, key);
    if (!job || !own || own->contact.is_busy || wait_ms(w, &own->contact) > 0 ||
        pod->ip[0] == '\0' || pod->phase != POD_RUNNING ||
        (job->leader_asked_ms > 0 && clock_now_ms() - job->leader_asked_ms < age_ms))
        return ERR_OK;
    rc = call_pod(w, seen, pod, &own->contact, NULL, err);
    if (rc == ERR_OK)
        job->leader_asked_ms = clock_now_ms();
    return rc;
}
