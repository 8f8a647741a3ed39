/* From the store to one job's view of the world. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "run/store.h"

/* The highest attempt that is believed when the status has none. */
#define ATTEMPT_CLAIM_MAX 1000000

/* Does this pod matter more than that one, if there is not room for both? */
static bool is_newer(const struct seen_pod *a, const struct seen_pod *b)
{
    if (a->role != b->role)
        return a->role == POD_STAGE;
    return a->attempt > b->attempt;
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

/* An attempt is in the status before anything of it is made, so nothing of ours is ahead of that.
 * A status without attempt may have been emptied: then believe the objects, within reason. */
static int last_attempt(const struct status *s)
{
    return s->attempt > 0 ? s->attempt : ATTEMPT_CLAIM_MAX;
}

static bool has_its_name(const struct observed *job, const struct seen_pod *p)
{
    char name[NAMES_BYTES] = "";

    if (p->role == POD_PROBE)
        names_probe_pod(job->name, p->node, name);
    else if (p->role == POD_MODEL)
        names_model_pod(job->name, name);
    else if (p->stage >= 0 && p->stage < SPEC_STAGES_MAX && p->attempt > 0)
        names_stage_pod(job->name, p->stage, p->attempt, name);
    return strcmp(name, p->name) == 0;
}

/* Is it the pod whose uid the status has? */
static bool is_recorded(const struct status *s, const struct seen_pod *p)
{
    return p->attempt == s->attempt && strcmp(s->stages[p->stage].pod_uid, p->uid) == 0;
}

/* Labels and owner references are written by anyone who may create pods: they make a pod one to be
 * deleted in the end, but only those count that we have created. */
static void observe_pod(const struct store_own *own, int most, struct observed *out)
{
    struct seen_pod *p = add_pod(out, most, &own->seen);
    int64_t now_ms = clock_now_ms();
    bool is_over = own->seen.role == POD_STAGE &&
                   (own->seen.attempt < out->status.attempt || status_is_final(&out->status));

    if (p && own->trust == TRUST_NONE && !is_over &&
        !(p->role == POD_STAGE && is_recorded(&out->status, p)))
        p->role = POD_CLAIMED;
    if (!p)
        return;
    /* Into the wall clock of this decision. */
    if (own->first_seen_ms > 0)
        p->created_ms = out->now_ms - (now_ms - own->first_seen_ms);
    if (own->seen.role == POD_STAGE && own->end_seen_ms > 0)
        p->finished_ms = out->now_ms - (now_ms - own->end_seen_ms);
    if (p->phase == POD_PENDING && p->message[0] == '\0')
        memcpy(p->message, own->event, sizeof p->message);
    p->silent_ms = own->contact.silent_since_ms > 0 ? now_ms - own->contact.silent_since_ms : 0;
    p->has_peers = own->contact.has_table;
    p->refuses_peers = own->contact.is_refused;
    if (p->refuses_peers)
        (void)snprintf(p->refusal, sizeof p->refusal, "%s", own->contact.refusal);
}

static bool counts(const struct store_own *own, const struct observed *out)
{
    const struct seen_pod *p = &own->seen;

    if (strcmp(own->job_uid, out->uid) != 0)
        return false;
    if (own->trust == TRUST_REFUSED)
        return p->attempt == 0 || p->attempt == out->status.attempt;
    return has_its_name(out, p) &&
           (own->trust == TRUST_CREATED || p->attempt <= last_attempt(&out->status));
}

/* There is room for the pods of three attempts and a probe of every node. */
static enum err_code observe_pods(struct store *s, struct observed *out, struct err *err)
{
    size_t place = 0;
    size_t most = 0;
    struct store_pod *p;

    while ((p = map_next(&s->pods, &place, NULL)) != NULL)
        most += p->own && counts(p->own, out);
    if (most > OBSERVED_STAGE_PODS + s->nodes.n)
        most = OBSERVED_STAGE_PODS + s->nodes.n;
    out->n_pods = 0;
    out->pods = NULL;
    if (most == 0)
        return ERR_OK;
    if (s->n_seen_pods < most) {
        struct seen_pod *bigger = realloc(s->seen_pods, most * sizeof *bigger);

        if (!bigger)
            return err_set(err, ERR_NO_MEMORY, "no memory for %zu pods", most);
        s->seen_pods = bigger;
        s->n_seen_pods = most;
    }
    out->pods = s->seen_pods;
    place = 0;
    while ((p = map_next(&s->pods, &place, NULL)) != NULL)
        if (p->own && counts(p->own, out))
            observe_pod(p->own, (int)most, out);
    return ERR_OK;
}

static void add_plan(struct observed *out, const struct store_plan *plan)
{
    int to = 0;

    if (out->n_plans < OBSERVED_PLANS_MAX) {
        to = out->n_plans++;
    } else {
        for (int i = 1; i < out->n_plans; i++)
            if (out->plan_attempts[i] < out->plan_attempts[to])
                to = i;
        if (plan->attempt <= out->plan_attempts[to])
            return;
    }
    out->plan_attempts[to] = plan->attempt;
    memcpy(out->plan_uids[to], plan->uid, sizeof out->plan_uids[to]);
}

static void observe_plans(const struct store *s, struct observed *out)
{
    const struct store_plan *newest = NULL;
    size_t place = 0;
    struct store_plan *p;

    out->n_plans = 0;
    while ((p = map_next(&s->plans, &place, NULL)) != NULL) {
        if (strcmp(p->job_uid, out->uid) != 0 || p->attempt > last_attempt(&out->status) ||
            (p->is_lost && p->attempt != out->status.attempt))
            continue;
        add_plan(out, p);
        if (!newest || p->attempt > newest->attempt)
            newest = p;
    }
    out->is_plan_lost = newest && newest->is_lost;
    out->has_plan = newest && newest->plan;
    if (out->has_plan)
        out->plan = *newest->plan;
}

/* --- nodes --- */

/* Pods of this job do not count: whatever they hold is given back before the next plan runs. */
static void use_up_pods(struct store *s, size_t n, const struct observed *job)
{
    size_t place = 0;
    struct store_pod *p;

    while ((p = map_next(&s->pods, &place, NULL)) != NULL) {
        bool is_own = p->own && p->own->trust != TRUST_REFUSED && counts(p->own, job);

        if (p->node && !p->has_ended && !is_own)
            node_objects_use(s->scratch, n, p->node, p->requests.cpu_milli,
                             p->requests.memory_bytes);
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

static void use_up_plans(struct store *s, size_t n, const char *job_uid)
{
    size_t place = 0;
    struct store_plan *p;

    while ((p = map_next(&s->plans, &place, NULL)) != NULL) {
        const struct store_job *job = map_get(&s->jobs, p->job_key);

        if (strcmp(p->job_uid, job_uid) == 0 || !job || !p->plan ||
            !promise_is_open(&p->promise, job->uid, job->attempt,
                             job->is_final || job->is_deleting))
            continue;
        promise_use(&p->promise, (struct promise_pods){s, is_settled}, s->scratch, n);
    }
}

static enum err_code observe_nodes(struct store *s, struct observed *out, struct err *err)
{
    size_t place = 0;
    size_t n = 0;
    struct node_object *from;

    if (s->n_scratch < s->nodes.n) {
        struct node_object *bigger = realloc(s->scratch, s->nodes.n * sizeof *bigger);

        if (!bigger)
            return err_set(err, ERR_NO_MEMORY, "no memory for %zu nodes", s->nodes.n);
        s->scratch = bigger;
        s->n_scratch = s->nodes.n;
    }
    while ((from = map_next(&s->nodes, &place, NULL)) != NULL)
        s->scratch[n++] = *from;
    node_objects_sort(s->scratch, n);
    use_up_pods(s, n, out);
    use_up_plans(s, n, out->uid);
    out->nodes = s->scratch;
    out->n_nodes = (int)n;
    return ERR_OK;
}

static void observe_job(const struct store_job *j, struct observed *out)
{
    memcpy(out->namespace, j->namespace, sizeof out->namespace);
    memcpy(out->name, j->name, sizeof out->name);
    memcpy(out->uid, j->uid, sizeof out->uid);
    memset(&out->status, 0, sizeof out->status);
    if (j->status)
        memcpy(&out->status, j->status, STATUS_BYTES(j->status->n_stages));
    if (j->is_final) { /* all that still matters of it */
        out->status.attempt = j->attempt;
        out->status.conditions[CONDITION_COMPLETE].value = CONDITION_TRUE;
    }
    out->spec_json = j->spec_json;
    out->spec = j->spec;
    out->spec_problem = j->spec_problem;
    out->generation = j->generation;
    out->created_ms = j->created_ms;
    out->is_deleting = j->is_deleting;
    out->data = j->data;
    out->is_data_everywhere = j->is_data_everywhere;
    memcpy(out->data_problem, j->data_problem, sizeof out->data_problem);
    out->data_checked_ms = j->data_checked_ms;
    out->problem = j->problem;
    out->has_leader = j->has_leader;
    out->leader = j->leader;
    out->leader_answered_ms = out->now_ms - (clock_now_ms() - j->leader_answered_ms);
    out->leader_same_ms = j->leader_answered_ms - j->leader_same_since_ms;
    out->unplaced = j->unplaced;
}

enum err_code store_observe(struct store *s, const char *key, struct observed *out, struct err *err)
{
    const struct store_job *j = map_get(&s->jobs, key);
    enum err_code rc;

    if (!j)
        return err_set(err, ERR_NOT_FOUND, "SkyJob %s is gone", key);
    observe_job(j, out);
    rc = observe_pods(s, out, err);
    if (rc != ERR_OK)
        return rc;
    observe_plans(s, out);
    out->nodes = NULL;
    out->n_nodes = 0;
    if (out->has_plan && out->plan.attempt >= out->status.attempt)
        return ERR_OK;
    return observe_nodes(s, out, err);
}
