/* From the store to one job's view of the world. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "control/decide.h"
#include "run/parse.h"

/* The highest number that is believed when the status has none. */
#define NUMBER_CLAIM_MAX 1000000

/* Does this pod matter more than that one, if there is not room for both? */
static bool is_newer(const struct seen_pod *a, const struct seen_pod *b)
{
    if (a->role != b->role)
        return a->role == POD_WORKER;
    return a->incarnation > b->incarnation;
}

/* Returns its place; NULL when others matter more. */
static struct seen_pod *add_pod(struct observed *out, int most, const struct seen_pod *pod)
{
    int to = 0;

    if (out->n_pods < most) {
        to = out->n_pods++;
    } else {
        for (int i = 1; i < out->n_pods; i++)
            if (is_newer(&out->pods[to], &out->pods[i]))
                to = i;
        if (!is_newer(pod, &out->pods[to]))
            return NULL;
    }
    out->pods[to] = *pod;
    return &out->pods[to];
}

/* A number is in the status before anything of it is made, so nothing of ours is ahead of that. A
 * status without one may have been emptied: then believe the objects, within reason. */
static int last_number(const struct status *s)
{
    return s->revision > 0 ? s->revision : NUMBER_CLAIM_MAX;
}

static bool has_its_name(const struct observed *job, const struct seen_pod *p)
{
    char name[NAMES_BYTES] = "";

    if (p->role == POD_PROBE)
        names_probe_pod(job->name, job->uid, p->node, name);
    else if (p->role == POD_MODEL)
        names_model_pod(job->name, job->uid, name);
    else if (p->slot >= 0 && p->slot <= PLAN_SLOT_MAX && p->incarnation > 0)
        names_worker_pod(job->name, job->uid, p->slot, p->incarnation, name);
    return strcmp(name, p->name) == 0;
}

static bool is_in_status(const struct status *s, const struct seen_pod *p)
{
    for (int i = 0; i < s->n_stages; i++)
        if (strcmp(s->stages[i].pod_uid, p->uid) == 0)
            return true;
    return false;
}

static int64_t since(int64_t then_ms, int64_t now_ms)
{
    return then_ms == 0 ? 0 : now_ms > then_ms ? now_ms - then_ms : 1;
}

/* Labels and owner references are written by anyone who may create pods: they make a pod one to be
 * deleted in the end, but only those count that we have created: the status has their uids. */
static void observe_pod(struct store_own *own, int most, struct observed *out)
{
    struct seen_pod *p = add_pod(out, most, &own->seen);
    int64_t now_ms = clock_now_ms();
    bool is_worker = own->seen.role == POD_WORKER;

    if (!p)
        return;
    if (own->trust == TRUST_NONE && is_worker && is_in_status(&out->status, p))
        own->trust = TRUST_CREATED; /* also once it is not listed any more, as when it leaves */
    if (own->trust == TRUST_NONE && !(is_worker && status_is_final(&out->status)))
        p->role = POD_UNVERIFIED;
    /* Into the wall clock of this decision. */
    if (own->first_seen_ms > 0)
        p->created_ms = out->now_ms - (now_ms - own->first_seen_ms);
    if (is_worker && own->end_seen_ms > 0)
        p->finished_ms = out->now_ms - (now_ms - own->end_seen_ms);
    if (p->phase == POD_PENDING && p->message[0] == '\0')
        memcpy(p->message, own->event, sizeof p->message);
    p->deleting_ms = since(own->deleting_seen_ms, now_ms);
    p->silent_ms = own->contact.silent_since_ms > 0 ? now_ms - own->contact.silent_since_ms : 0;
    p->accepted = own->contact.accepted;
    p->refuses = own->contact.is_refused;
    if (p->refuses)
        (void)snprintf(p->refusal, sizeof p->refusal, "%s", own->contact.refusal);
    p->halted = own->calls.halted;
    p->halting_ms =
        own->calls.halting >= out->status.revision - 1 ? since(own->calls.halting_ms, now_ms) : 0;
    p->ended_ms = since(own->calls.ended_ms, now_ms);
    p->answered_ms = since(own->calls.answered_ms, now_ms);
}

static bool counts(const struct store_own *own, const struct observed *out)
{
    const struct seen_pod *p = &own->seen;

    if (strcmp(own->job_uid, out->uid) != 0)
        return false;
    if (own->trust == TRUST_REFUSED)
        return p->incarnation == 0 || p->incarnation == out->status.revision;
    return has_its_name(out, p) &&
           (own->trust == TRUST_CREATED || p->incarnation <= last_number(&out->status));
}

static void observe_left(const struct store_own *own, union store_left *to, struct seen_pod *p)
{
    sparse_read(own->left, to);
    if (own->seen.role == POD_PROBE)
        p->probe = &to->probe;
    else if (own->seen.role == POD_MODEL)
        p->model = &to->model;
    else
        p->progress = &to->progress;
}

static enum err_code observe_documents(struct store *s, struct store_view *v, struct observed *out,
                                       struct err *err)
{
    size_t n = (size_t)out->n_pods;
    enum err_code rc = array_reserve(&v->reports, sizeof *v->reports, &v->n_reports, n, err);

    if (rc == ERR_OK)
        rc = array_reserve(&v->left, sizeof *v->left, &v->n_left, n, err);
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        struct seen_pod *p = &out->pods[i];
        const struct store_own *own = store_find_own(s, out->namespace, p->name, p->uid);

        if (own && own->calls.report) {
            sparse_read(own->calls.report, &v->reports[i]);
            p->report = &v->reports[i];
        }
        if (own && own->left)
            observe_left(own, &v->left[i], p);
    }
    return rc;
}

/* There is room for three pods per worker and a probe of every node. */
static enum err_code observe_pods(struct store *s, const char *key, struct store_view *v,
                                  struct observed *out, struct err *err)
{
    struct store_own *own;
    size_t most = 0;
    enum err_code rc;

    for (own = store_pods(s, key); own; own = store_next_pod(own))
        most += counts(own, out);
    if (most > OBSERVED_WORKER_PODS + s->nodes.n)
        most = OBSERVED_WORKER_PODS + s->nodes.n;
    rc = array_reserve(&v->pods, sizeof *v->pods, &v->n_pods, most, err);
    if (rc != ERR_OK)
        return rc;
    out->n_pods = 0;
    out->pods = v->pods;
    for (own = store_pods(s, key); own; own = store_next_pod(own))
        if (counts(own, out))
            observe_pod(own, (int)most, out);
    return observe_documents(s, v, out, err);
}

/* Of more revisions than there is room for, any but the newest may be left out: they are only
 * deleted, and there is another time. */
static enum err_code observe_revisions(struct store *s, const char *key, struct store_view *v,
                                       struct observed *out, struct err *err)
{
    const struct store_revision *newest = NULL;

    out->n_revisions = 0;
    for (const struct store_revision *r = store_revisions(s, key); r; r = store_next_revision(r)) {
        bool is_newest = !newest || r->number > newest->number;
        int to = out->n_revisions;

        if (strcmp(r->job_uid, out->uid) != 0 || r->number > last_number(&out->status))
            continue;
        if (to == OBSERVED_REVISIONS_MAX && !is_newest)
            continue;
        if (to == OBSERVED_REVISIONS_MAX)
            to = 0;
        else
            out->n_revisions++;
        out->revision_numbers[to] = r->number;
        memcpy(out->revision_uids[to], r->uid, sizeof out->revision_uids[to]);
        if (is_newest)
            newest = r;
    }
    out->is_revision_lost = newest && newest->is_lost;
    out->has_revision = newest && newest->parsed;
    out->revision_text = NULL;
    if (!out->has_revision)
        return ERR_OK;
    sparse_read(newest->parsed, &out->revision);
    v->revision.max = REVISION_TEXT_MAX_BYTES;
    buf_reset(&v->revision);
    out->revision_text = &v->revision;
    return buf_add(&v->revision, newest->text.data, newest->text.len, err);
}

/* --- nodes --- */

/* Pods of this job do not count: whatever they hold is given back before the next plan runs. */
static void use_up_pods(struct store *s, struct node_object *nodes, size_t n,
                        const struct observed *job)
{
    size_t place = 0;
    struct store_pod *p;

    while ((p = map_next(&s->pods, &place, NULL)) != NULL) {
        bool is_own = p->own && p->own->trust != TRUST_REFUSED && counts(p->own, job);

        if (p->node && !p->has_ended && !is_own)
            node_objects_use(nodes, n, p->node, p->requests.cpu_milli, p->requests.memory_bytes);
    }
}

/* Has the scheduler bound this pod, or is it over already? */
static bool is_settled(void *ctx, const char *namespace, const char *name)
{
    const struct store *s = ctx;
    char key[QUEUE_KEY_BYTES];
    const struct store_pod *pod;

    store_key(namespace, name, key);
    pod = map_get(&s->pods, key);
    return pod && (pod->node || pod->has_ended);
}

static void use_up_plans(struct store *s, struct node_object *nodes, size_t n, const char *job_uid)
{
    size_t place = 0;
    struct store_revision *r;

    while ((r = map_next(&s->revisions, &place, NULL)) != NULL) {
        const struct store_job *job = map_get(&s->jobs, r->job_key);
        struct revision parsed;

        if (strcmp(r->job_uid, job_uid) == 0 || !job || !r->parsed)
            continue;
        sparse_read(r->parsed, &parsed);
        if (promise_is_open(&parsed.plan, job->uid, job->revision,
                            job->is_final || job->is_deleting))
            promise_use(&parsed.plan, (struct promise_pods){s, is_settled}, nodes, n);
    }
}

static size_t text_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

/* A copy of `text` at *to, which moves on; NULL for NULL. */
static char *keep_text(char **to, const char *text)
{
    char *out = *to;
    size_t n = text_bytes(text);

    if (n == 0)
        return NULL;
    memcpy(out, text, n);
    *to += n;
    return out;
}

static enum err_code observe_nodes(struct store *s, struct store_view *v, struct observed *out,
                                   struct err *err)
{
    size_t place = 0;
    size_t n = 0;
    size_t n_bytes = 0;
    const struct sparse *from;
    char *texts;
    enum err_code rc = array_reserve(&v->nodes, sizeof *v->nodes, &v->n_nodes, s->nodes.n, err);

    while (rc == ERR_OK && (from = map_next(&s->nodes, &place, NULL)) != NULL) {
        sparse_read(from, &v->nodes[n]);
        n_bytes += text_bytes(v->nodes[n].labels) + text_bytes(v->nodes[n].taints);
        n++;
    }
    if (rc == ERR_OK)
        rc = array_reserve(&v->node_texts, 1, &v->n_node_texts, n_bytes, err);
    if (rc != ERR_OK)
        return rc;
    texts = v->node_texts;
    for (size_t i = 0; i < n; i++) {
        v->nodes[i].labels = keep_text(&texts, v->nodes[i].labels);
        v->nodes[i].taints = keep_text(&texts, v->nodes[i].taints);
    }
    node_objects_sort(v->nodes, n);
    use_up_pods(s, v->nodes, n, out);
    use_up_plans(s, v->nodes, n, out->uid);
    out->nodes = v->nodes;
    out->n_nodes = (int)n;
    return ERR_OK;
}

static void observe_job(const struct store_job *j, struct store_view *v, struct observed *out)
{
    parse_release_spec(&v->spec);
    v->spec = j->spec;
    if (j->spec)
        j->spec->n_users++;
    out->spec_json = j->spec ? j->spec->json : NULL;
    out->spec = NULL;
    if (j->spec && j->spec->is_valid) {
        sparse_read(j->spec->parsed, &v->parsed);
        out->spec = &v->parsed;
    }
    out->spec_problem = j->spec ? j->spec->problem : "";
    memcpy(out->namespace, j->namespace, sizeof out->namespace);
    memcpy(out->name, j->name, sizeof out->name);
    memcpy(out->uid, j->uid, sizeof out->uid);
    memcpy(out->version, j->version, sizeof out->version);
    memset(&out->status, 0, sizeof out->status);
    if (j->status)
        sparse_read(j->status, &out->status);
    if (j->is_final) { /* all that still matters of it */
        out->status.revision = j->revision;
        out->status.conditions[CONDITION_COMPLETE].value = CONDITION_TRUE;
    }
    memcpy(out->asked, j->asked, sizeof out->asked);
    out->generation = j->generation;
    out->created_ms = j->created_ms;
    out->is_deleting = j->is_deleting;
    out->is_foreign = j->is_foreign;
    out->expires_ms = j->expires_ms;
    memcpy(out->checkpoint_time, j->checkpoint_time, sizeof out->checkpoint_time);
    out->data = j->data;
    out->problem = j->problem;
    out->has_leader = j->has_leader;
    out->leader = j->leader;
    out->leader_answered_ms = out->now_ms - (clock_now_ms() - j->leader_answered_ms);
    out->leader_same_ms = j->leader_answered_ms - j->leader_same_since_ms;
    out->unplaced = j->unplaced;
}

enum err_code store_observe(struct store *s, const char *key, struct store_view *view,
                            struct observed *out, struct err *err)
{
    const struct store_job *j = map_get(&s->jobs, key);
    bool has_leaving = false;
    enum err_code rc;

    if (!j)
        return err_set(err, ERR_NOT_FOUND, "SkyJob %s is gone", key);
    observe_job(j, view, out);
    out->n_training = s->n_training;
    rc = observe_pods(s, key, view, out, err);
    if (rc == ERR_OK)
        rc = observe_revisions(s, key, view, out, err);
    if (rc != ERR_OK)
        return rc;
    out->nodes = NULL;
    out->n_nodes = 0;
    for (int i = 0; i < out->n_pods; i++)
        has_leaving = has_leaving || decide_is_leaving(&out->pods[i]);
    if (out->has_revision && out->revision.plan.revision >= out->status.revision && !has_leaving &&
        !decide_is_balance_due(out) && !decide_is_join_due(out) && !decide_is_replica_due(out))
        return ERR_OK;
    return observe_nodes(s, view, out, err);
}
