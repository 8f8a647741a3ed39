#include "run/workers.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/decide.h"
#include "fleet/fleet.h"

enum call_kind {
    CALL_REVISION,
    CALL_TABLE, /* a probe's partners */
    CALL_HALT,
    CALL_END,
    CALL_CHECKPOINT,
    CALL_REPORT,
    CALL_STATUS,
};

/* Of which pod a call is: it may be gone when the answer comes. */
struct call {
    struct store *store;
    enum call_kind kind;
    int revision;  /* that is posted, or to be halted */
    int64_t order; /* of CALL_CHECKPOINT */
    char job_key[QUEUE_KEY_BYTES];
    char namespace[OBSERVED_WORD_BYTES];
    char pod[NAMES_BYTES];
    char uid[OBSERVED_UID_BYTES];
};

/* How long until this worker may be called; 0: now. */
static int64_t wait_ms(const struct workers *w, const struct contact *c)
{
    int max = c->n_unanswered > 0 ? WORKERS_CALLS_MAX / 2 : WORKERS_CALLS_MAX;
    int64_t left_ms = contact_wait_ms(c, clock_now_ms());

    if (left_ms > 0)
        return left_ms;
    if (w->may_call && !w->may_call(w->ctx))
        return WORKERS_BUSY_MS;
    return fleet_n_calls(w->fleet) < max ? 0 : WORKERS_BUSY_MS;
}

/* --- answers --- */

static void take_posted(const struct call *c, struct store_own *own, const struct err *err)
{
    struct contact *contact = &own->contact;

    if (contact->is_refused)
        LOG(LOG_WARN, "worker refused what was posted", LOG_S("job", c->job_key),
            LOG_S("pod", c->pod), LOG_I("revision", c->revision), LOG_S("error", err->text));
    /* A probe measures with the table that it has, or without: no reason to begin again. */
    if (contact->is_refused && c->kind == CALL_TABLE)
        contact->accepted = c->revision;
    /* It may have accepted what is posted even if it did not answer. */
    if (own->calls.report && own->calls.report_revision < c->revision)
        store_drop_report(own);
    if (err->code == ERR_OK && own->calls.halting < c->revision)
        own->calls.halting = 0;
    store_enqueue(c->store, c->job_key,
                  contact->accepted >= c->revision || contact->is_refused
                      ? 0
                      : contact_wait_ms(contact, clock_now_ms()));
}

static void take_halted(const struct call *c, struct store_own *own, const struct err *err)
{
    if (err->code == ERR_OK) {
        own->calls.halted = c->revision;
        own->calls.halt_posted_ms = clock_now_ms();
        own->calls.asked_ms = 0;
        store_drop_report(own);
    }
    store_enqueue(c->store, c->job_key, contact_wait_ms(&own->contact, clock_now_ms()));
}

/* A refusal is final: the worker does not know the order, or has the key of another job. */
static void take_ended(const struct call *c, struct store_own *own, const struct err *err)
{
    if (own->contact.n_unanswered > 0)
        return;
    own->calls.is_ended = true;
    store_drop_key(own);
    if (err->code == ERR_OK)
        LOG(LOG_INFO, "worker ordered to end", LOG_S("job", c->job_key), LOG_S("pod", c->pod));
    else
        LOG(LOG_WARN, "worker refused to end", LOG_S("job", c->job_key), LOG_S("pod", c->pod),
            LOG_S("error", err->text));
}

static void take_report(const struct call *c, struct store_own *own, const struct report *report,
                        const struct err *err)
{
    struct err problem = *err;
    bool is_its =
        report && report->slot == own->seen.slot && report->incarnation == own->seen.incarnation;

    if (is_its && store_set_report(own, report, &problem) == ERR_OK &&
        report->session != REPORT_RUNNING)
        store_enqueue(c->store, c->job_key, 0);
    if (report && !is_its)
        (void)err_set(&problem, ERR_PROTOCOL, "the report is of worker %d, incarnation %d",
                      report->slot, report->incarnation);
    if (problem.code == ERR_PROTOCOL || problem.code == ERR_NO_MEMORY)
        LOG(LOG_WARN, "invalid report from a worker", LOG_S("job", c->job_key),
            LOG_S("pod", c->pod), LOG_S("error", problem.text));
}

static void take_status(const struct call *c, const struct progress *progress,
                        const struct err *err)
{
    struct store_job *job = store_find_job(c->store, c->job_key);
    bool is_news;

    if (err->code == ERR_PROTOCOL)
        LOG(LOG_WARN, "invalid status from the leader", LOG_S("job", c->job_key),
            LOG_S("error", err->text));
    if (!job || !progress) /* if it did not answer, its pod's state shows why */
        return;
    is_news = !job->has_leader || job->leader.revision != progress->revision ||
              job->leader.state != progress->state || job->leader.step == 0;
    if (is_news || job->leader.step != progress->step)
        job->leader_same_since_ms = clock_now_ms();
    job->leader_answered_ms = clock_now_ms();
    job->leader = *progress;
    job->has_leader = true;
    if (is_news) /* more steps of the same are seen when it is asked again */
        store_enqueue(c->store, c->job_key, 0);
}

static void on_answer(void *ctx, const struct fleet_answer *answer, const struct err *err)
{
    struct call *c = ctx;
    struct store_own *own = store_find_own(c->store, c->namespace, c->pod, c->uid);
    bool is_posted = c->kind == CALL_REVISION || c->kind == CALL_TABLE;

    if (!own) /* the pod is gone, and with it the question */
        return;
    contact_answered(&own->contact, err, is_posted ? c->revision : 0, clock_now_ms(),
                     WORKERS_RETRY_MAX_MS);
    if (own->contact.n_unanswered == 0)
        own->calls.answered_ms = clock_now_ms();
    if (is_posted)
        take_posted(c, own, err);
    else if (c->kind == CALL_HALT)
        take_halted(c, own, err);
    else if (c->kind == CALL_END)
        take_ended(c, own, err);
    else if (c->kind == CALL_CHECKPOINT)
        own->calls.ordered = err->code == ERR_OK ? c->order : own->calls.ordered;
    else if (c->kind == CALL_REPORT)
        take_report(c, own, answer->report, err);
    else
        take_status(c, answer->progress, err);
    if (own->is_to_end) /* which may have had to wait for this answer */
        store_enqueue_orphan(c->store, own, contact_wait_ms(&own->contact, clock_now_ms()));
}

/* --- calls --- */

struct question {
    enum call_kind kind;
    int revision;
    const struct peers *peers; /* of what is posted */
    int64_t order;             /* of CALL_CHECKPOINT */
    const struct buf *text;    /* of CALL_REVISION */
};

/* Who calls a pod that speaks TLS, and what its certificate must name. */
static enum err_code find_identity(const struct workers *w, const struct store_own *own,
                                   struct fleet_address *to, struct err *err)
{
    if (!own->seen.has_tls)
        return ERR_OK;
    if (!w->issuer)
        return err_set(err, ERR_INVALID, "%s speaks TLS: the operator needs --authority",
                       own->seen.name);
    names_worker_dns(own->job_uid, own->seen.slot, own->seen.incarnation, to->name);
    return issuer_caller(w->issuer, own->job_uid, clock_wall_ms() / 1000, &to->identity, err);
}

/* Call a pod that may be called. */
static enum err_code call_with(const struct workers *w, struct store_own *own,
                               const struct hmac_key *key, const struct question *q, bool closes,
                               struct err *err)
{
    struct call c = {
        .store = w->store, .kind = q->kind, .revision = q->revision, .order = q->order};
    struct fleet_handler handler = {.ctx = &c, .ctx_bytes = sizeof c, .on_answer = on_answer};
    struct fleet_address to = {.port = PORT_CONTROL, .key = *key, .closes = closes};
    enum err_code rc = find_identity(w, own, &to, err);

    if (rc != ERR_OK)
        return rc;

    memcpy(c.job_key, own->job_key, sizeof c.job_key);
    (void)snprintf(c.namespace, sizeof c.namespace, "%.*s", (int)strcspn(c.job_key, "/"),
                   c.job_key);
    memcpy(c.pod, own->seen.name, sizeof c.pod);
    memcpy(c.uid, own->seen.uid, sizeof c.uid);
    memcpy(to.host, own->seen.ip, sizeof to.host);
    switch (q->kind) {
    case CALL_REVISION:
        rc = fleet_post_revision(w->fleet, &to, q->text, q->peers, handler, err);
        break;
    case CALL_TABLE:
        rc = fleet_post_peers(w->fleet, &to, q->peers, handler, err);
        break;
    case CALL_HALT:
        rc = fleet_halt(w->fleet, &to, q->revision, handler, err);
        break;
    case CALL_END:
        rc = fleet_end(w->fleet, &to, handler, err);
        break;
    case CALL_CHECKPOINT:
        rc = fleet_order_checkpoint(w->fleet, &to, q->order, handler, err);
        break;
    case CALL_REPORT:
        rc = fleet_ask_report(w->fleet, &to, handler, err);
        break;
    case CALL_STATUS:
        rc = fleet_ask_status(w->fleet, &to, handler, err);
        break;
    }
    own->contact.is_busy = rc == ERR_OK;
    return rc;
}

/* Is its worker called again only when the connection would be too old? */
static bool is_rarely_called(const struct workers *w, const struct observed *seen,
                             const struct store_own *own)
{
    return w->store->n_training > WORKERS_KEPT_JOBS &&
           !(seen->has_revision && own->seen.slot == revision_worker(&seen->revision, 0).slot);
}

/* Likewise, of a job that is there. */
static enum err_code call_pod(const struct workers *w, const struct observed *seen,
                              struct store_own *own, const struct question *q, struct err *err)
{
    const struct store_job *job = store_job_of(w->store, seen);

    if (!job || !job->has_secret)
        return err_set(err, ERR_AGAIN, "no key for the workers yet");
    return call_with(w, own, &job->secret, q, is_rarely_called(w, seen, own), err);
}

/* As soon as the pod may be called. */
static enum err_code send(const struct workers *w, const struct observed *seen,
                          const struct seen_pod *pod, const struct question *q, struct err *err)
{
    struct store_own *own = store_find_own(w->store, seen->namespace, pod->name, pod->uid);
    char key[QUEUE_KEY_BYTES];
    int64_t later_ms;

    if (!own || own->contact.is_busy)
        return ERR_OK;
    later_ms = wait_ms(w, &own->contact);
    if (later_ms == 0)
        return call_pod(w, seen, own, q, err);
    store_key(seen->namespace, seen->name, key);
    store_enqueue(w->store, key, later_ms);
    return ERR_OK;
}

static const struct seen_pod *find_pod(const struct observed *seen, const char *name)
{
    for (int i = 0; i < seen->n_pods; i++)
        if (strcmp(seen->pods[i].name, name) == 0)
            return &seen->pods[i];
    return NULL;
}

/* --- what is posted --- */

static void add_peer(struct peers *to, const struct seen_pod *p)
{
    int i = to->n++;

    memcpy(to->list[i].host, p->ip, sizeof to->list[i].host);
    if (p->role == POD_PROBE)
        memcpy(to->list[i].node, p->node, sizeof to->list[i].node);
    to->list[i].port = PORT_TENSOR;
}

enum err_code workers_post_revision(const struct workers *w, const struct observed *seen,
                                    const char *name, struct err *err)
{
    const struct revision *r = &seen->revision;
    const struct seen_pod *pod = find_pod(seen, name);
    struct peers peers = {.revision = r->plan.revision};
    struct question q = {.kind = CALL_REVISION,
                         .revision = r->plan.revision,
                         .peers = &peers,
                         .text = seen->revision_text};
    const struct store_own *own =
        pod ? store_find_own(w->store, seen->namespace, pod->name, pod->uid) : NULL;

    if (!own || own->contact.accepted == r->plan.revision)
        return ERR_OK;
    for (int i = 0; i < revision_n_workers(r); i++) {
        const struct seen_pod *peer = decide_worker_pod(seen, revision_worker(r, i));

        if (!peer || peer->ip[0] == '\0')
            return err_set(err, ERR_AGAIN, "worker %d has no address", revision_worker(r, i).slot);
        add_peer(&peers, peer);
    }
    return send(w, seen, pod, &q, err);
}

enum err_code workers_post_halt(const struct workers *w, const struct observed *seen,
                                const char *name, int revision, struct err *err)
{
    const struct seen_pod *pod = find_pod(seen, name);
    struct store_own *own =
        pod ? store_find_own(w->store, seen->namespace, pod->name, pod->uid) : NULL;
    struct question q = {.kind = CALL_HALT, .revision = revision};
    int64_t now_ms = clock_now_ms();

    if (!own)
        return ERR_OK;
    if (own->calls.halting != revision) {
        own->calls.halting = revision;
        own->calls.halting_ms = now_ms;
    }
    if (own->calls.halted == revision && now_ms - own->calls.halt_posted_ms < WORKERS_HALT_MS)
        return ERR_OK;
    return send(w, seen, pod, &q, err);
}

/* A worker that does not run or has no address holds no units, so SIGTERM ends it. */
static void order_end(const struct workers *w, struct store_own *own)
{
    const struct question q = {.kind = CALL_END};
    int64_t later_ms = wait_ms(w, &own->contact);
    struct err err = {0};

    if (own->seen.phase != POD_RUNNING || own->seen.ip[0] == '\0')
        store_drop_key(own);
    if (!own->is_to_end || own->contact.is_busy)
        return;
    if (later_ms == 0 && call_with(w, own, &own->key, &q, true, &err) != ERR_OK) {
        contact_answered(&own->contact, &err, 0, clock_now_ms(), WORKERS_RETRY_MAX_MS);
        later_ms = contact_wait_ms(&own->contact, clock_now_ms());
    }
    if (later_ms > 0)
        store_enqueue_orphan(w->store, own, later_ms);
}

void workers_order_ends(const struct workers *w, const char *job_key)
{
    for (struct store_own *own = store_pods(w->store, job_key); own; own = store_next_pod(own))
        if (own->is_to_end)
            order_end(w, own);
}

enum err_code workers_order_checkpoint(const struct workers *w, const struct observed *seen,
                                       const char *name, int64_t order, struct err *err)
{
    const struct seen_pod *pod = find_pod(seen, name);
    const struct store_own *own =
        pod ? store_find_own(w->store, seen->namespace, pod->name, pod->uid) : NULL;
    const struct question q = {.kind = CALL_CHECKPOINT, .order = order};

    if (!own || own->calls.ordered >= order)
        return ERR_OK;
    return send(w, seen, pod, &q, err);
}

enum err_code workers_post_probe_peers(const struct workers *w, const struct observed *seen,
                                       const char *pod, struct err *err)
{
    /* Those that run, in the order of the names of their nodes. */
    const struct seen_pod *probes[SPEC_STAGES_MAX];
    struct peers peers = {.revision = 0};
    struct question q = {.kind = CALL_TABLE, .revision = 1, .peers = &peers};
    const struct store_own *own;
    int self = 0;
    int n = 0;

    for (int i = 0; i < seen->n_pods && n < SPEC_STAGES_MAX; i++) {
        const struct seen_pod *p = &seen->pods[i];
        int k = n;

        if (p->role != POD_PROBE || p->is_deleting || p->phase != POD_RUNNING || p->ip[0] == '\0')
            continue;
        for (; k > 0 && strcmp(probes[k - 1]->node, p->node) > 0; k--)
            probes[k] = probes[k - 1];
        probes[k] = p;
        n++;
    }
    while (self < n && strcmp(probes[self]->name, pod) != 0)
        self++;
    if (self == n)
        return ERR_OK;
    own = store_find_own(w->store, seen->namespace, probes[self]->name, probes[self]->uid);
    if (!own || own->contact.accepted > 0)
        return ERR_OK;
    add_peer(&peers, probes[self]);
    for (int round = 0; round < pairing_rounds(n) && round < NODE_LINKS_MAX; round++) {
        int partner = pairing_partner(n, round, self);

        add_peer(&peers, probes[partner >= 0 ? partner : self]);
    }
    return send(w, seen, probes[self], &q, err);
}

/* --- what is asked --- */

/* The pod's own record, if it may be asked something now; else NULL. */
static struct store_own *find_idle(const struct workers *w, const struct observed *seen,
                                   const struct seen_pod *pod)
{
    struct store_own *own =
        pod ? store_find_own(w->store, seen->namespace, pod->name, pod->uid) : NULL;

    return own && !own->contact.is_busy && wait_ms(w, &own->contact) == 0 && pod->ip[0] &&
                   pod->phase == POD_RUNNING
               ? own
               : NULL;
}

enum err_code workers_ask_reports(const struct workers *w, const struct observed *seen,
                                  int64_t age_ms, struct err *err)
{
    struct question q = {.kind = CALL_REPORT};
    enum err_code rc = ERR_OK;

    for (int i = 0; i < seen->n_pods && rc == ERR_OK; i++) {
        const struct seen_pod *pod = &seen->pods[i];
        struct store_own *own = pod->role == POD_WORKER ? find_idle(w, seen, pod) : NULL;
        int64_t now_ms = clock_now_ms();

        if (!own || (own->calls.asked_ms > 0 && now_ms - own->calls.asked_ms < age_ms))
            continue;
        own->calls.asked_ms = now_ms;
        rc = call_pod(w, seen, own, &q, err);
    }
    return rc;
}

enum err_code workers_ask_status(const struct workers *w, const struct observed *seen,
                                 int64_t age_ms, struct err *err)
{
    const struct seen_pod *pod =
        seen->has_revision ? decide_worker_pod(seen, revision_worker(&seen->revision, 0)) : NULL;
    struct store_job *job = store_job_of(w->store, seen);
    struct store_own *own = find_idle(w, seen, pod);
    struct question q = {.kind = CALL_STATUS};
    enum err_code rc;

    if (!job || !own ||
        (job->leader_asked_ms > 0 && clock_now_ms() - job->leader_asked_ms < age_ms))
        return ERR_OK;
    rc = call_pod(w, seen, own, &q, err);
    if (rc == ERR_OK)
        job->leader_asked_ms = clock_now_ms();
    return rc;
}
