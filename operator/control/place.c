/* From data and nodes to a plan, and to a revision with it. Every reason to wait is a condition
 * with its remedy. */
#include <stdio.h>
#include <string.h>

#include "api/node.h"
#include "base/buf.h"
#include "base/hash.h"
#include "control/context.h"

static bool is_paused(struct context *c)
{
    int64_t left_ms = c->seen->status.next_revision_ms - c->seen->now_ms;
    /* Longer than any pause: the clock was set back since. */
    bool is_over = left_ms <= 0 || left_ms > DECIDE_BACKOFF_MAX_MS + 1000;
    bool is_edited = c->seen->status.generation != c->seen->generation; /* perhaps the remedy */

    if (is_over || is_edited) {
        c->out->status.next_revision_ms = 0;
        return false;
    }
    for (int i = 0; i < c->seen->n_pods; i++)
        if ((c->seen->pods[i].role == POD_PROBE || c->seen->pods[i].role == POD_MODEL) &&
            c->seen->pods[i].phase == POD_PENDING)
            context_delete_pod(c, &c->seen->pods[i]); /* it holds a node, and is created again */
    context_requeue(c, left_ms);
    return true; /* the conditions from before the pause still hold */
}

static bool waits_for_pods(struct context *c)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];
        char text[STATUS_MESSAGE_BYTES];

        if (p->role != POD_WORKER || pod_is_over(p) || !context_has_answering_node(c, p) ||
            recovery_keeps(c, p) || recovery_has_silent(c, p->node))
            continue;
        (void)snprintf(text, sizeof text, "Waiting for pod %s of the last revision to terminate.",
                       p->name);
        context_wait(c, "Restarting", EVENT_NONE, "WaitingForPods", text);
        return true;
    }
    return false;
}

/* Before any pod is made, so that a job that cannot start holds no node meanwhile. */
static bool waits_for_data(struct context *c)
{
    const struct seen_data *data = &c->seen->data;
    const struct spec *spec = &c->spec;
    bool is_missing = data->state == DATA_MISSING || data->state == DATA_NO_CLAIM;
    int64_t age_ms = c->seen->now_ms - data->checked_ms; /* negative: the clock was set back */
    char text[STATUS_MESSAGE_BYTES] = "";
    const char *keys[SPEC_FILES_MAX];
    int n = spec_data_files(spec, keys);

    if (spec->data.source == SPEC_SOURCE_SAMPLE && !spec->from.claim[0] &&
        !spec->checkpoint.volume.claim[0] && !spec->output.claim[0])
        return false;
    if (data->state == DATA_PRESENT && age_ms >= 0 && age_ms < DECIDE_DATA_STALE_MS)
        return false;
    if (!is_missing || age_ms < 0 || age_ms >= DECIDE_DATA_RETRY_MS)
        (void)context_add(c, ACTION_READ_DATA);
    else
        context_requeue(c, DECIDE_DATA_RETRY_MS - age_ms);
    if (!is_missing)
        return true;
    text_add(text, sizeof text, "%s. ", data->problem);
    for (int i = 0; i < n && data->state == DATA_MISSING; i++)
        text_add(text, sizeof text, "%s%.120s%s", i ? ", " : "It must have the keys ", keys[i],
                 i + 1 < n ? "" : ". ");
    text_add(text, sizeof text, "Checking again every %d seconds.", DECIDE_DATA_RETRY_MS / 1000);
    context_wait(c, "Waiting", EVENT_WARNING,
                 data->state == DATA_MISSING ? "DataNotFound" : "ClaimNotFound", text);
    return true;
}

/* Why a node is not used. */
static void add_failed(const struct nodes *nodes, char *text, size_t bytes)
{
    if (nodes->failed[0] == '\0')
        return;
    text_add(text, bytes, "%sNot measured: %s.", text[0] ? " " : "", nodes->failed);
    if (nodes->n_failed_more > 0)
        text_add(text, bytes, " %d more could not be measured.", nodes->n_failed_more);
}

static void show_measuring(struct context *c, const struct nodes *nodes)
{
    char text[STATUS_MESSAGE_BYTES];

    if (nodes->image_problem[0]) {
        context_wait(c, "Waiting", EVENT_WARNING, "ImagePullFailed", nodes->image_problem);
        return;
    }
    (void)snprintf(text, sizeof text, "Measuring the speed of %d %s.", nodes->n_measuring,
                   nodes->n_measuring == 1 ? "node" : "nodes");
    if (nodes->waits_for[0])
        text_add(text, sizeof text, " %s", nodes->waits_for);
    survey_add_bad(&nodes->survey, text, sizeof text);
    context_wait(c, "Measuring", EVENT_NORMAL, "MeasuringNodes", text);
}

static void show_insufficient(struct context *c, const struct nodes *nodes, const char *why)
{
    char text[STATUS_MESSAGE_BYTES];

    (void)snprintf(text, sizeof text, "%s%s", why,
                   nodes->survey.n_candidates < nodes->survey.n_nodes ? "; excluded: " : "");
    survey_add_excluded(&nodes->survey, text, sizeof text);
    text_add(text, sizeof text, ". Planned again when a node changes%s.",
             nodes->failed[0] ? ", and measured again after a pause" : "");
    add_failed(nodes, text, sizeof text);
    survey_add_bad(&nodes->survey, text, sizeof text);
    context_wait(c, "Waiting", EVENT_WARNING, "InsufficientNodes", text);
    oneshot_retry(c, POD_PROBE);
    context_requeue(c, DECIDE_NODES_RETRY_MS);
}

/* What people should know of the plan, around the planner's own explanation, which is cut short for
 * it if need be. */
static void explain(const struct context *c, const struct survey *survey,
                    char explanation[static PLAN_REASON_BYTES])
{
    char solver[PLAN_REASON_BYTES];
    char notes[PLAN_REASON_BYTES / 2] = "";
    char guess[LENGTHS_TEXT_BYTES];
    size_t most;

    memcpy(solver, explanation, sizeof solver);
    explanation[0] = '\0';
    survey_add_assumed(survey, explanation, PLAN_REASON_BYTES);
    text_add(explanation, PLAN_REASON_BYTES, "%s%s", explanation[0] ? " " : "", solver);
    if (survey->n_candidates < survey->n_nodes) {
        text_add(notes, sizeof notes, " Excluded: ");
        survey_add_excluded(survey, notes, sizeof notes);
        text_add(notes, sizeof notes, ".");
    }
    /* As when only a pod on one node can read the data, or all speeds were declared. */
    lengths_guess(&c->spec, &survey->lengths, guess);
    if (guess[0])
        text_add(notes, sizeof notes, " Lengths are a guess: %s.", guess);
    /* Two measurements that this job has to live with. */
    for (int i = 0; i < survey->n_candidates; i++) {
        const struct survey_node *n = survey->entries[i];

        if (!n->rival)
            continue;
        text_add(notes, sizeof notes,
                 " Of %.60s and %.60s, which have the same processor, the one with less CPU was "
                 "measured faster.",
                 n->object->name, n->rival->name);
        break;
    }
    most = PLAN_REASON_BYTES - 1 - strlen(notes);
    if (strlen(explanation) > most)
        memcpy(explanation + most - 4, " ...", 5);
    text_add(explanation, PLAN_REASON_BYTES, "%s", notes);
}

/* Everything that the answer depends on; the generation stands for the spec. Structs go in whole
 * where they hold nothing but doubles, and so no padding. */
static uint64_t digest_of(const struct context *c, const struct partition_request *q)
{
    size_t n_links = (size_t)q->n_nodes * (size_t)q->n_nodes;
    uint64_t hash = HASH_START;

    hash = hash_bytes(hash, &c->seen->generation, sizeof c->seen->generation);
    hash = hash_bytes(hash, &q->job.lengths, sizeof q->job.lengths);
    hash = hash_bytes(hash, &q->job.pace, sizeof q->job.pace);
    hash = hash_bytes(hash, &q->memory_percent, sizeof q->memory_percent);
    for (int i = 0; i < q->n_nodes; i++) {
        const struct node *n = &q->nodes[i];

        hash = hash_bytes(hash, n->name, strlen(n->name) + 1);
        hash = hash_bytes(hash, &n->cpu_milli, sizeof n->cpu_milli);
        hash = hash_bytes(hash, &n->memory_bytes, sizeof n->memory_bytes);
        hash = hash_bytes(hash, &n->gflops, sizeof n->gflops);
        hash = hash_bytes(hash, &n->unit_ms, sizeof n->unit_ms);
        hash = hash_bytes(hash, &n->message, sizeof n->message);
    }
    if (q->links)
        hash = hash_bytes(hash, q->links, n_links * sizeof *q->links);
    return hash;
}

/* The workers that are left keep their slots where their nodes are in the plan, and what they have
 * of them is enough; all others are new. A first stage has the data, others may not. */
static void name_workers(const struct context *c, struct plan *plan)
{
    const struct plan *last = &c->seen->revision.plan;
    int64_t percent = context_memory_percent(c, &c->spec);
    bool is_taken[2 * SPEC_STAGES_MAX] = {false};
    int slot = 0;

    for (int i = 0; i < plan->n_workers; i++) {
        struct plan_worker *worker = &plan->workers[i];

        worker->slot = -1;
        for (int s = 0; s < context_n_stages(c) && c->is_recovering; s++) {
            const struct seen_pod *pod = context_stage_pod(c, s);

            if (!pod || pod_is_over(pod) || strcmp(pod->node, worker->node) != 0 ||
                (worker->first_unit == 0 && c->seen->status.stages[s].plan.first_unit != 0) ||
                pod->cpu_milli < worker->cpu_milli ||
                pod->memory_bytes < worker->memory_bytes * 100 / percent || worker->slot >= 0 ||
                pod->slot < 0 || pod->slot >= 2 * SPEC_STAGES_MAX || is_taken[pod->slot])
                continue;
            worker->slot = pod->slot;
            worker->incarnation = pod->incarnation;
            worker->cpu_milli = pod->cpu_milli;
            worker->memory_bytes = pod->memory_bytes;
            is_taken[pod->slot] = true;
        }
    }
    /* Those that go may still have what others need: their slots are not given away. */
    for (int i = 0; i < last->n_workers && c->is_recovering && c->seen->has_revision; i++)
        if (last->workers[i].slot < 2 * SPEC_STAGES_MAX && context_stage_pod(c, i))
            is_taken[last->workers[i].slot] = true;
    for (int i = 0; i < plan->n_workers; i++) {
        if (plan->workers[i].slot >= 0)
            continue;
        while (is_taken[slot])
            slot++;
        plan->workers[i].slot = slot++;
    }
}

static void add_units(char *text, size_t bytes, int n, const char *what)
{
    if (n > 0)
        text_add(text, bytes, "%s %d %s", text[strlen(text) - 1] == ':' ? "" : ",", n, what);
}

/* What a recovery costs, and what it does not. */
static void tell_resume(struct context *c, const struct report *const reports[], int n_reports)
{
    const struct revision *r = &c->out->revision;
    char text[STATUS_MESSAGE_BYTES] = "";
    int64_t newest = r->resume.step;
    int n_own = 0, n_moving = 0, n_saved = 0, n_new;

    for (int i = 0; i < n_reports; i++)
        if (reports[i]->end.step > newest)
            newest = reports[i]->end.step;
    for (int i = 0; i < r->plan.n_workers; i++)
        for (int u = 0; u < r->plan.workers[i].n_units; u++) {
            const struct resume_source *s = revision_source(r, r->plan.workers[i].first_unit + u);
            bool is_held = s->kind == SOURCE_WORKER;

            n_own += is_held && s->slot == r->plan.workers[i].slot;
            n_moving += is_held && s->slot != r->plan.workers[i].slot;
            n_saved += resume_is_saved(s);
        }
    n_new = model_units(&r->plan.spec.model) - n_own - n_moving - n_saved;
    text_add(text, sizeof text,
             "Revision %d goes on from step %lld; %lld %s repeated. Units:", r->plan.revision,
             (long long)r->resume.step, (long long)(newest - r->resume.step),
             newest == r->resume.step + 1 ? "step is" : "steps are");
    add_units(text, sizeof text, n_own, "stay where they are");
    add_units(text, sizeof text, n_moving, "move to another worker");
    add_units(text, sizeof text, n_saved, "come from a checkpoint");
    add_units(text, sizeof text, n_new, "begin anew");
    text_add(text, sizeof text, ".");
    context_add_event(c, false, "Recovering", text);
}

/* The next revision has this plan, which is that of the decision, and goes on from what the workers
 * hold. */
static void revise(struct context *c, const struct plan *of_decision)
{
    const struct report *reports[PEERS_MAX];
    struct plan plan = *of_decision;
    int n = c->is_recovering ? recovery_reports(c, reports) : 0;
    const struct resume *last = c->seen->has_revision ? &c->seen->revision.resume : NULL;
    struct action *a;

    revision_make(&plan, reports, n, plan.spec.from.claim[0] ? SOURCE_PRETRAINED : SOURCE_RANDOM,
                  last, &c->out->revision);
    if (c->is_recovering)
        tell_resume(c, reports, n);
    a = context_add(c, ACTION_CREATE_REVISION);
    a->keeps_spec = c->is_recovering && c->seen->has_revision;
    a->takes_sync = a->keeps_spec && !spec_same_sync(&plan.spec, &c->seen->revision.plan.spec);
}

enum err_code place_request(const struct context *c, const struct spec *spec, struct survey *survey,
                            struct partition_request *out, struct err *err)
{
    enum err_code rc = survey_link(survey, err);

    if (rc != ERR_OK)
        return rc;
    *out = partition_request_of(spec);
    out->job.lengths = survey->lengths;
    out->job.pace = survey->pace;
    out->nodes = survey->candidates;
    out->n_nodes = survey->n_candidates;
    out->links = survey->links;
    out->memory_percent = context_memory_percent(c, spec);
    return ERR_OK;
}

/* The last search for a plan, or for a preview; NULL: there was none. */
static const struct unplaced *last_search(const struct context *c, bool is_preview)
{
    const struct unplaced *last = &c->seen->unplaced;

    return last->is_set && last->is_preview == is_preview ? last : NULL;
}

/* Is it too early for the next one? */
static bool waits_to_search(struct context *c, const struct unplaced *last)
{
    int64_t age_ms = c->seen->now_ms - last->solved_ms;

    if (age_ms < 0 || age_ms >= DECIDE_SOLVE_MS)
        return false;
    context_requeue(c, DECIDE_SOLVE_MS - age_ms);
    return true;
}

static enum err_code solve(struct context *c, struct nodes *nodes, struct err *err)
{
    struct survey *survey = &nodes->survey;
    struct partition_request request;
    struct replicas replicas;
    struct plan *plan = &c->out->revision.plan;
    const struct unplaced *last = last_search(c, false);
    char failed[STATUS_MESSAGE_BYTES] = "";
    char bad[STATUS_MESSAGE_BYTES] = "";
    uint64_t digest;
    enum err_code rc = place_request(c, &c->spec, survey, &request, err);

    if (rc != ERR_OK)
        return rc;
    digest = digest_of(c, &request);
    if (last && last->digest == digest) {
        show_insufficient(c, nodes, last->why); /* the same question has the same answer */
        return ERR_OK;
    }
    if (last && waits_to_search(c, last))
        return ERR_OK;
    rc = missing_choose(c, &request, &replicas, err);
    if (rc != ERR_OK) {
        c->out->unplaced = (struct unplaced){
            .is_set = rc != ERR_NO_MEMORY, .digest = digest, .solved_ms = c->seen->now_ms};
        (void)snprintf(c->out->unplaced.why, sizeof c->out->unplaced.why, "%s", err->text);
        show_insufficient(c, nodes, err->text);
        return ERR_OK;
    }
    c->out->unplaced = (struct unplaced){0};
    c->out->revision = (struct revision){.until = 0};
    (void)snprintf(plan->namespace, sizeof plan->namespace, "%s", c->seen->namespace);
    (void)snprintf(plan->job, sizeof plan->job, "%s", c->seen->name);
    (void)snprintf(plan->uid, sizeof plan->uid, "%s", c->seen->uid);
    plan->revision = c->number;
    replicas_to_plan(&request, &replicas, plan);
    explain(c, survey, plan->summary.explanation);
    name_workers(c, plan);
    revise(c, plan);
    add_failed(nodes, failed, sizeof failed);
    if (nodes->failed[0])
        context_add_event(c, true, "NodeNotMeasured", failed);
    survey_add_bad(survey, bad, sizeof bad);
    if (survey->n_bad > 0)
        context_add_event(c, true, "InvalidNodeAnnotation", bad);
    return ERR_OK;
}

static enum err_code solve_preview(struct context *c, struct survey *survey, struct err *err)
{
    const struct unplaced *last = last_search(c, true);
    struct status_placement *to = &c->out->status.placement;
    struct plan *plan = &c->out->revision.plan;
    struct partition_request request;
    struct replicas replicas;
    char text[STATUS_MESSAGE_BYTES];
    uint64_t digest;
    enum err_code rc = place_request(c, &c->spec, survey, &request, err);

    if (rc != ERR_OK)
        return rc;
    digest = digest_of(c, &request);
    if (last && (last->digest == digest || waits_to_search(c, last)))
        return ERR_OK;
    c->out->unplaced = (struct unplaced){
        .is_set = true, .is_preview = true, .digest = digest, .solved_ms = c->seen->now_ms};
    *to = (struct status_placement){.strategy = ""};
    rc = replicas_choose(&request, c->spec.replicas, &replicas, err);
    if (rc == ERR_OK) {
        *plan = (struct plan){.revision = c->number};
        replicas_to_plan(&request, &replicas, plan);
        explain(c, survey, plan->summary.explanation);
        context_show_placement(c, plan);
        (void)snprintf(text, sizeof text, "With the nodes as they are: %s",
                       plan->summary.explanation);
    } else if (rc == ERR_NOT_FOUND) {
        (void)snprintf(text, sizeof text, "With the nodes as they are there is no plan: %s.",
                       err->text);
        rc = ERR_OK;
    }
    if (rc == ERR_OK)
        context_false(c, CONDITION_PLACED, EVENT_NONE, "Suspended", text);
    return rc;
}

/* As no pod is made, nodes that no job has measured count as unmeasured, and a model whose sizes
 * are in its files has no preview. */
void place_preview(struct context *c)
{
    const struct survey_request request = context_survey(c, &c->spec);
    struct survey survey;
    struct err err = {0};
    enum err_code rc;

    if (!c->seen->nodes || !spec_has_sizes(&c->spec))
        return;
    rc = survey_make(&request, &survey, &err);
    if (rc == ERR_OK) {
        rc = solve_preview(c, &survey, &err);
        survey_deinit(&survey);
    }
    if (rc != ERR_OK) {
        context_false(c, CONDITION_PLACED, EVENT_NONE, "Suspended", err.text);
        context_requeue(c, DECIDE_NODES_RETRY_MS);
    }
}

/* Has the node of a worker that was lost room for another one? */
static bool has_room(const struct context *c, const struct plan_worker *worker)
{
    for (int i = 0; i < c->seen->n_nodes; i++) {
        const struct node_object *n = &c->seen->nodes[i];

        if (strcmp(n->name, worker->node) == 0)
            return node_object_exclusion(n, context_worker(c)) == EXCLUDED_NOT &&
                   !recovery_has_silent(c, n->name) &&
                   n->cpu_milli - n->cpu_used_milli >= worker->cpu_milli &&
                   n->memory_bytes - n->memory_used_bytes >= worker->memory_bytes;
    }
    return false;
}

/* The last plan again, with a new worker on the same node for each that was lost. Returns whether
 * that is possible. */
static bool repeat(struct context *c)
{
    const struct plan *last = &c->seen->revision.plan;
    struct plan *plan = &c->out->revision.plan;

    if (!c->is_recovering || !c->seen->has_revision || c->seen->status.revision != c->number ||
        c->seen->status.n_stages != last->n_workers || missing_replicas(last))
        return false;
    for (int i = 0; i < last->n_workers; i++) {
        const struct plan_worker *worker = &last->workers[i];
        const struct seen_pod *pod = context_stage_pod(c, i);
        bool is_left = pod && !pod_is_over(pod);

        if (is_left ? pod->slot != worker->slot || pod->incarnation != worker->incarnation
                    : strcmp(c->seen->status.stages[i].plan.node, worker->node) != 0 ||
                          !has_room(c, worker))
            return false;
    }
    c->out->revision = (struct revision){.plan = *last};
    plan->revision = c->number;
    plan->spec.sync = c->spec.sync;
    if (!spec_same_sync(&plan->spec, &last->spec) &&
        spec_later_protocol(&plan->spec) == SPEC_PROTOCOL_ASP)
        plan->homes_follow_shares = true; /* as the planner has it */
    for (int i = 0; i < plan->n_workers; i++) {
        const struct seen_pod *pod = context_stage_pod(c, i);

        if (!pod || pod_is_over(pod))
            plan->workers[i].incarnation = c->number;
    }
    revise(c, plan);
    return true;
}

static int least_replicas(const struct context *c)
{
    return missing_are_allowed(c) || c->spec.replicas == 0 ? 1 : c->spec.replicas;
}

/* To a plan, or to a condition with what is missing. */
void place(struct context *c)
{
    bool is_manual = c->spec.placement.strategy == SPEC_STRATEGY_MANUAL;
    int least =
        is_manual ? c->spec.placement.stages.n : least_replicas(c) * c->spec.placement.min_stages;
    char why[ERR_TEXT_BYTES];
    struct nodes nodes;
    struct err err = {0};
    enum err_code rc;

    if (is_paused(c) || waits_for_pods(c))
        return;
    if (c->is_recovering && c->seen->has_revision) {
        c->spec = c->seen->revision.plan.spec; /* that of the workers that are left */
        protocol_take(c);
    }
    if (rebalance_plan(c) || c->drain == DRAIN_READY) {
        struct plan plan = c->out->revision.plan;

        revise(c, &plan);
        return;
    }
    if (repeat(c) || waits_for_data(c) || model_waits(c))
        return;
    rc = nodes_survey(c, &nodes, &err);
    if (rc == ERR_OK && nodes.n_measuring > 0) {
        show_measuring(c, &nodes);
    } else if (rc == ERR_OK && nodes.survey.n_candidates < least) {
        (void)snprintf(why, sizeof why, "%d of %d nodes can be used and %s %d",
                       nodes.survey.n_candidates, c->seen->n_nodes,
                       is_manual ? "spec.placement.manual names" : "spec.placement.minStages is",
                       least);
        show_insufficient(c, &nodes, why);
    } else if (rc == ERR_OK && c->seen->status.revision != c->number) {
        context_requeue(c, 0); /* the number is written down before anything of it is made */
    } else if (rc == ERR_OK) {
        rc = solve(c, &nodes, &err);
    }
    if (rc != ERR_OK) {
        context_wait(c, "Waiting", EVENT_WARNING, "OutOfMemory", err.text);
        context_requeue(c, DECIDE_NODES_RETRY_MS);
    }
    survey_deinit(&nodes.survey);
}
