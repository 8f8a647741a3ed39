/* From data and nodes to a plan. Every reason to wait is a condition with its remedy. */
#include <stdio.h>
#include <string.h>

#include "api/lengths.h"
#include "balance/choose.h"
#include "balance/explain.h"
#include "base/buf.h"
#include "base/hash.h"
#include "control/context.h"

static void wait_with(struct context *c, const char *state, enum news news, const char *reason,
                      const char *message)
{
    context_set(c, news,
                &(struct condition_set){CONDITION_PLACED, CONDITION_FALSE, reason, message});
    context_show(c, state, message);
}

static bool is_paused(struct context *c)
{
    int64_t left_ms = c->seen->status.next_attempt_ms - c->seen->now_ms;
    /* Longer than any pause: the clock was set back since. */
    bool is_over = left_ms <= 0 || left_ms > DECIDE_BACKOFF_MAX_MS + 1000;
    bool is_edited = c->seen->status.generation != c->seen->generation; /* perhaps the remedy */

    if (is_over || is_edited) {
        c->out->status.next_attempt_ms = 0;
        return false;
    }
    for (int i = 0; i < c->seen->n_pods; i++)
        if ((c->seen->pods[i].role == POD_PROBE || c->seen->pods[i].role == POD_MODEL) &&
            c->seen->pods[i].phase == POD_PENDING)
            context_delete_pod(c, &c->seen->pods[i]); /* it holds a node, and is created again */
    context_requeue(c, left_ms);
    return true; /* the conditions from before the pause still hold */
}

/* A pod on a node that does not answer may stay for ever, and holds nothing that we want. */
static bool is_in_the_way(const struct observed *seen, const struct seen_pod *p)
{
    if (p->role != POD_STAGE || p->phase == POD_SUCCEEDED || p->phase == POD_FAILED)
        return false;
    for (int i = 0; i < seen->n_nodes; i++)
        if (strcmp(seen->nodes[i].name, p->node) == 0)
            return seen->nodes[i].excluded != EXCLUDED_NOT_READY;
    return false;
}

static bool waits_for_pods(struct context *c)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        char text[STATUS_MESSAGE_BYTES];

        if (!is_in_the_way(c->seen, &c->seen->pods[i]))
            continue;
        (void)snprintf(text, sizeof text, "Waiting for pod %s of the last attempt to terminate.",
                       c->seen->pods[i].name);
        wait_with(c, "Restarting", NEWS_QUIET, "WaitingForPods", text);
        return true;
    }
    return false;
}

static bool needs_a_look(const struct spec *spec)
{
    return spec->data.source != SPEC_SOURCE_SAMPLE || spec->from.claim[0] || spec->output.claim[0];
}

static void add_keys(const struct spec *spec, char *text, size_t bytes)
{
    const char *files[] = {spec_train_file(spec), spec_dev_file(spec),
                           spec->from.claim[0] ? NULL : SPEC_VOCAB_FILE};
    const char *gap = "It must have the keys ";

    for (int i = 0; i < 3; i++) {
        if (!files[i])
            continue;
        text_add(text, bytes, "%s%.120s", gap, files[i]);
        gap = ", ";
    }
    text_add(text, bytes, gap[0] == ',' ? ". " : "");
}

/* Before any pod is made, so that a job that cannot start holds no node meanwhile. */
static bool waits_for_data(struct context *c)
{
    const struct observed *seen = c->seen;
    bool is_missing = seen->data == DATA_MISSING || seen->data == DATA_NO_CLAIM;
    int64_t age_ms = seen->now_ms - seen->data_checked_ms; /* negative: the clock was set back */
    char text[STATUS_MESSAGE_BYTES];

    if (!needs_a_look(&c->spec) ||
        (seen->data == DATA_PRESENT && age_ms >= 0 && age_ms < DECIDE_DATA_STALE_MS))
        return false;
    if (!is_missing || age_ms < 0 || age_ms >= DECIDE_DATA_RETRY_MS)
        (void)context_add(c, ACTION_READ_DATA);
    else
        context_requeue(c, DECIDE_DATA_RETRY_MS - age_ms);
    if (!is_missing)
        return true;
    text[0] = '\0';
    text_add(text, sizeof text, "%s. ", seen->data_problem);
    if (seen->data == DATA_MISSING)
        add_keys(&c->spec, text, sizeof text);
    text_add(text, sizeof text, "Checking again every %d seconds.", DECIDE_DATA_RETRY_MS / 1000);
    wait_with(c, "Waiting", NEWS_WARNING,
              seen->data == DATA_MISSING ? "DataNotFound" : "ClaimNotFound", text);
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
        wait_with(c, "Waiting", NEWS_WARNING, "ImagePullFailed", nodes->image_problem);
        return;
    }
    (void)snprintf(text, sizeof text, "Measuring the speed of %d %s.", nodes->n_measuring,
                   nodes->n_measuring == 1 ? "node" : "nodes");
    if (nodes->waits_for[0])
        text_add(text, sizeof text, " %s", nodes->waits_for);
    survey_add_bad(&nodes->survey, text, sizeof text);
    wait_with(c, "Measuring", NEWS_NORMAL, "MeasuringNodes", text);
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
    wait_with(c, "Waiting", NEWS_WARNING, "InsufficientNodes", text);
    oneshot_retry(c, POD_PROBE);
    context_requeue(c, DECIDE_NODES_RETRY_MS);
}

static void make_plan(struct context *c, const struct partition_request *request,
                      const struct placement *placement)
{
    struct plan *p = &c->out->plan;

    memset(p, 0, sizeof *p);
    (void)snprintf(p->namespace, sizeof p->namespace, "%s", c->seen->namespace);
    (void)snprintf(p->job, sizeof p->job, "%s", c->seen->name);
    (void)snprintf(p->uid, sizeof p->uid, "%s", c->seen->uid);
    p->attempt = c->attempt;
    placement_to_plan(request, placement, p);
    (void)context_add(c, ACTION_CREATE_PLAN);
}

/* A plan whose figures were not measured starts with that. */
static void add_assumed(const struct survey *survey, char reason[static PLAN_REASON_BYTES])
{
    char rest[PLAN_REASON_BYTES];

    if (survey->n_assumed == 0)
        return;
    memcpy(rest, reason, sizeof rest);
    reason[0] = '\0';
    survey_add_assumed(survey, reason, PLAN_REASON_BYTES);
    text_add(reason, PLAN_REASON_BYTES, " %s", rest);
}

static void add_excluded(const struct survey *survey, char *text, size_t bytes)
{
    if (survey->n_candidates == survey->n_nodes)
        return;
    text_add(text, bytes, " Excluded: ");
    survey_add_excluded(survey, text, bytes);
    text_add(text, bytes, ".");
}

/* Two measurements that this job has to live with. */
static void add_contradiction(const struct survey *survey, char *text, size_t bytes)
{
    for (int i = 0; i < survey->n_candidates; i++) {
        const struct survey_node *n = survey->judged[i];

        if (!n->rival)
            continue;
        text_add(text, bytes,
                 " Of %.60s and %.60s, which have the same processor, the one with less CPU was "
                 "measured faster.",
                 n->object->name, n->rival->name);
        return;
    }
}

/* As when only a pod on one node can read the data, or all speeds were declared. */
static void add_guess(const struct spec *spec, const struct survey *survey, char *text,
                      size_t bytes)
{
    char guess[LENGTHS_TEXT_BYTES];

    lengths_guess(spec, &survey->lengths, guess);
    if (guess[0])
        text_add(text, bytes, " Lengths are a guess: %s.", guess);
}

/* Behind the planner's own explanation, which is cut short for it if need be. */
static void add_notes(const struct context *c, const struct survey *survey,
                      char reason[static PLAN_REASON_BYTES])
{
    char notes[PLAN_REASON_BYTES / 2] = "";
    size_t most;

    add_excluded(survey, notes, sizeof notes);
    add_guess(&c->spec, survey, notes, sizeof notes);
    add_contradiction(survey, notes, sizeof notes);
    most = PLAN_REASON_BYTES - 1 - strlen(notes);
    if (strlen(reason) > most)
        memcpy(reason + most - 4, " ...", 5);
    text_add(reason, PLAN_REASON_BYTES, "%s", notes);
}

static void mix(uint64_t *hash, const void *bytes, size_t n)
{
    *hash = hash_bytes(*hash, bytes, n);
}

/* Everything that the answer depends on; the generation stands for the spec. Structs go in whole
 * where they hold nothing but doubles, and so no padding. */
static uint64_t digest_of(const struct context *c, const struct partition_request *q)
{
    uint64_t hash = HASH_START;

    mix(&hash, &c->seen->generation, sizeof c->seen->generation);
    mix(&hash, &q->job.lengths, sizeof q->job.lengths);
    mix(&hash, &q->job.pace, sizeof q->job.pace);
    mix(&hash, &q->memory_percent, sizeof q->memory_percent);
    for (int i = 0; i < q->n_nodes; i++) {
        const struct node *n = &q->nodes[i];

        mix(&hash, n->name, strlen(n->name) + 1);
        mix(&hash, &n->cpu_milli, sizeof n->cpu_milli);
        mix(&hash, &n->memory_bytes, sizeof n->memory_bytes);
        mix(&hash, &n->gflops, sizeof n->gflops);
        mix(&hash, &n->unit_ms, sizeof n->unit_ms);
        mix(&hash, &n->message, sizeof n->message);
    }
    if (q->links)
        mix(&hash, q->links, (size_t)q->n_nodes * (size_t)q->n_nodes * sizeof *q->links);
    return hash;
}

/* Is it too early to search again, or is the answer known? Then the decision is complete. */
static bool is_answered(struct context *c, const struct nodes *nodes, uint64_t digest)
{
    const struct unplaced *last = &c->seen->unplaced;
    int64_t age_ms = c->seen->now_ms - last->solved_ms;

    if (!last->is_set)
        return false;
    if (last->digest == digest) {
        show_insufficient(c, nodes, last->why);
        return true;
    }
    if (age_ms < 0 || age_ms >= DECIDE_SOLVE_MS)
        return false;
    context_requeue(c, DECIDE_SOLVE_MS - age_ms);
    return true;
}

static enum err_code solve(struct context *c, struct nodes *nodes, struct err *err)
{
    struct survey *survey = &nodes->survey;
    struct partition_request request = partition_request_of(&c->spec);
    struct placement placement;
    struct plan *plan = &c->out->plan;
    char failed[STATUS_MESSAGE_BYTES] = "";
    char bad[STATUS_MESSAGE_BYTES] = "";
    uint64_t digest;
    enum err_code rc = survey_link(survey, err);

    if (rc != ERR_OK)
        return rc;
    request.job.lengths = survey->lengths;
    request.job.pace = survey->pace;
    request.nodes = survey->candidates;
    request.n_nodes = survey->n_candidates;
    request.links = survey->links;
    if (c->seen->status.memory_percent > 100)
        request.memory_percent = c->seen->status.memory_percent;
    digest = digest_of(c, &request);
    if (is_answered(c, nodes, digest))
        return ERR_OK;
    rc = choose_solve(&request, &placement, err);
    if (rc != ERR_OK) {
        c->out->unplaced = (struct unplaced){
            .is_set = rc != ERR_NO_MEMORY, .digest = digest, .solved_ms = c->seen->now_ms};
        (void)snprintf(c->out->unplaced.why, sizeof c->out->unplaced.why, "%s", err->text);
        show_insufficient(c, nodes, err->text);
        return ERR_OK;
    }
    c->out->unplaced = (struct unplaced){0};
    make_plan(c, &request, &placement);
    add_assumed(survey, plan->summary.explanation);
    add_notes(c, survey, plan->summary.explanation);
    add_failed(nodes, failed, sizeof failed);
    if (nodes->failed[0])
        context_add_event(c, true, "NodeNotMeasured", failed);
    survey_add_bad(survey, bad, sizeof bad);
    if (survey->n_bad > 0)
        context_add_event(c, true, "InvalidNodeAnnotation", bad);
    return ERR_OK;
}

/* To a plan, or to a condition with what is missing. */
static enum err_code plan_on(struct context *c, struct nodes *nodes, struct err *err)
{
    char why[ERR_TEXT_BYTES];

    if (nodes->n_measuring > 0) {
        show_measuring(c, nodes);
        return ERR_OK;
    }
    if (nodes->survey.n_candidates < spec_least_stages(&c->spec)) {
        (void)snprintf(why, sizeof why, "%d of %d nodes can be used and %s %d",
                       nodes->survey.n_candidates, c->seen->n_nodes,
                       c->spec.placement.strategy == SPEC_STRATEGY_MANUAL
                           ? "spec.placement.manual names"
                           : "spec.placement.minStages is",
                       spec_least_stages(&c->spec));
        show_insufficient(c, nodes, why);
        return ERR_OK;
    }
    if (c->seen->status.attempt != c->attempt) {
        context_requeue(c, 0); /* the attempt is written down before anything of it is made */
        return ERR_OK;
    }
    return solve(c, nodes, err);
}

void place(struct context *c)
{
    struct nodes nodes;
    struct model_wait model;
    struct err err = {0};
    enum err_code rc;

    if (is_paused(c) || waits_for_pods(c) || waits_for_data(c))
        return;
    if (model_waits(c, &model)) {
        wait_with(c, "Waiting", model.news, model.reason, model.text);
        return;
    }
    rc = nodes_survey(c, &nodes, &err);
    if (rc == ERR_OK)
        rc = plan_on(c, &nodes, &err);
    if (rc != ERR_OK) {
        wait_with(c, "Waiting", NEWS_WARNING, "OutOfMemory", err.text);
        context_requeue(c, DECIDE_NODES_RETRY_MS);
    }
    survey_deinit(&nodes.survey);
}
