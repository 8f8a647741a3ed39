#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/bert_config.h"
#include "control/manifest.h"

static const char smallest[] = "{\"model\":{\"preset\":\"BertMini\"},"
                               "\"data\":{\"source\":{\"sample\":\"MNLI\"}},"
                               "\"placement\":{\"maxStages\":3}}";

/* As the store does: with the sizes in a status of this generation. */
void world_observe_spec(struct world *w)
{
    const struct status *s = &w->seen.status;
    const struct json *spec = w->spec_json;

    json_free(w->filled);
    w->filled = NULL;
    if (s->model.hidden > 0 && s->generation == w->seen.generation &&
        bert_config_fill("", &s->model, w->spec_json, &w->filled, NULL) == ERR_OK)
        spec = w->filled;
    w->seen.spec_json = spec;
    w->seen.spec = spec_parse(spec, &w->spec, &w->spec_problem) == ERR_OK ? &w->spec : NULL;
    w->seen.spec_problem = w->spec_problem.text;
}

void world_set_spec(struct world *w, const char *text)
{
    struct err err = {0};

    json_free(w->spec_json);
    if (json_parse(text, strlen(text), &w->spec_json, &err) != ERR_OK)
        fail_msg("%s", err.text);
    world_observe_spec(w);
}

struct world *world_new(const char *spec)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    world_set_spec(w, spec ? spec : smallest);
    w->seen.now_ms = WORLD_NOW_MS;
    w->seen.generation = 1;
    (void)snprintf(w->seen.namespace, sizeof w->seen.namespace, "team");
    (void)snprintf(w->seen.name, sizeof w->seen.name, "mnli");
    (void)snprintf(w->seen.uid, sizeof w->seen.uid, "0b7d");
    (void)snprintf(w->seen.settings.worker_image, sizeof w->seen.settings.worker_image, "worker:1");
    for (int i = 0; i < WORLD_NODES; i++) {
        struct node_object *n = &w->nodes[i];

        (void)snprintf(n->name, sizeof n->name, "node-%d", i);
        n->cpu_milli = 1000 * (i + 1);
        n->memory_bytes = (int64_t)4 << 30;
        n->annotations.gflops = 20.0 * (i + 1);
    }
    w->seen.nodes = w->nodes;
    w->seen.n_nodes = WORLD_NODES;
    w->seen.pods = w->pods;
    w->has_data = true;
    return w;
}

void world_free(struct world *w)
{
    json_free(w->filled);
    json_free(w->spec_json);
    free(w);
}

void world_decide(struct world *w)
{
    decide(&w->seen, &w->decision);
}

static struct seen_pod *add_pod(struct world *w)
{
    struct seen_pod *p = &w->seen.pods[w->seen.n_pods];

    assert_true(w->seen.n_pods < WORLD_PODS);
    w->seen.n_pods++;
    *p = (struct seen_pod){.created_ms = w->seen.now_ms};
    (void)snprintf(p->uid, sizeof p->uid, "pod-%d-%d", w->seen.n_pods, w->n_events);
    return p;
}

static void create_stage_pod(struct world *w, const struct action *a)
{
    struct seen_pod *p;

    assert_true(w->seen.has_plan);
    for (int i = 0; i < w->seen.n_pods; i++)
        if (strcmp(w->seen.pods[i].name, a->name) == 0)
            return; /* the name is taken, by ourselves: a 409 */
    p = add_pod(w);
    p->role = POD_STAGE;
    p->stage = a->stage;
    p->attempt = w->seen.plan.attempt;
    memcpy(p->name, a->name, sizeof p->name);
    memcpy(p->node, w->seen.plan.stages[a->stage].node, sizeof p->node);
}

static void create_probe_pod(struct world *w, const struct action *a)
{
    struct seen_pod *p;

    if (world_probe(w, a->node))
        return;
    p = add_pod(w);
    p->role = POD_PROBE;
    p->cpu_milli = a->cpu_milli;
    p->image_asked = a->image;
    names_probe_pod(w->seen.name, a->node, p->name);
    memcpy(p->node, a->node, sizeof p->node);
}

static void create_model_pod(struct world *w, const struct action *a)
{
    struct seen_pod *p;

    if (world_reader(w))
        return;
    p = add_pod(w);
    p->role = POD_MODEL;
    p->image_asked = a->image;
    names_model_pod(w->seen.name, p->name);
}

void world_remove_pod(struct world *w, struct seen_pod *pod)
{
    *pod = w->seen.pods[--w->seen.n_pods];
}

static void delete_pod(struct world *w, const struct action *a)
{
    for (int i = 0; i < w->seen.n_pods; i++) {
        struct seen_pod *p = &w->seen.pods[i];

        if (strcmp(p->name, a->name) == 0 && strcmp(p->uid, a->uid) == 0) {
            world_remove_pod(w, p);
            return;
        }
    }
}

static void create_plan(struct world *w)
{
    for (int i = 0; i < w->seen.n_plans; i++)
        if (w->seen.plan_attempts[i] == w->decision.plan.attempt)
            return; /* it was decided already, and is immutable */
    assert_true(w->seen.n_plans < OBSERVED_PLANS_MAX);
    (void)snprintf(w->seen.plan_uids[w->seen.n_plans], OBSERVED_UID_BYTES, "plan-%d",
                   w->decision.plan.attempt);
    w->seen.plan_attempts[w->seen.n_plans++] = w->decision.plan.attempt;
    w->seen.plan = w->decision.plan;
    w->seen.has_plan = true;
    w->seen.is_plan_lost = false;
}

static void delete_plan(struct world *w, const struct action *a)
{
    for (int i = 0; i < w->seen.n_plans; i++) {
        int last = w->seen.n_plans - 1;

        if (w->seen.plan_attempts[i] != a->attempt || strcmp(w->seen.plan_uids[i], a->uid) != 0)
            continue;
        w->seen.plan_attempts[i] = w->seen.plan_attempts[last];
        memmove(w->seen.plan_uids[i], w->seen.plan_uids[last], OBSERVED_UID_BYTES);
        w->seen.n_plans = last;
        i--;
    }
}

static void label_node(struct world *w, const struct action *a)
{
    for (int i = 0; i < WORLD_NODES; i++) {
        struct buf patch = {.max = MANIFEST_MAX_BYTES};
        struct node_object *n = &w->nodes[i];
        struct json *node = NULL;
        struct annotations annotations;

        if (strcmp(n->name, a->node) != 0)
            continue;
        if (manifest_node_patch(&w->seen, a, &patch, NULL) == ERR_OK) {
            assert_int_equal(json_parse(patch.data, patch.len, &node, NULL), ERR_OK);
            annotations_read(node, &annotations);
            assert_true(annotations.has_probe);
            n->annotations.has_probe = true;
            n->annotations.probe = annotations.probe;
        }
        json_free(node);
        buf_deinit(&patch);
    }
}

static void take_step(struct world *w, const struct action *a)
{
    switch (a->kind) {
    case ACTION_CREATE_STAGE_POD:
        create_stage_pod(w, a);
        break;
    case ACTION_CREATE_PROBE_POD:
        create_probe_pod(w, a);
        break;
    case ACTION_CREATE_MODEL_POD:
        create_model_pod(w, a);
        break;
    case ACTION_DELETE_POD:
        delete_pod(w, a);
        break;
    case ACTION_CREATE_PLAN:
        create_plan(w);
        break;
    case ACTION_DELETE_PLAN:
        delete_plan(w, a);
        break;
    case ACTION_LABEL_NODE:
        label_node(w, a);
        break;
    case ACTION_DOUBT_NODE:
        for (int i = 0; i < WORLD_NODES; i++)
            if (strcmp(w->nodes[i].name, a->node) == 0)
                w->nodes[i].annotations.probe.is_contradicted = true;
        break;
    case ACTION_READ_EVENTS:
        for (int i = 0; i < w->seen.n_pods; i++)
            if (strcmp(w->seen.pods[i].name, a->name) == 0)
                w->seen.pods[i].events_ms = w->seen.now_ms;
        break;
    case ACTION_POST_PEERS:
        world_pod(w, a->stage)->has_peers = true;
        break;
    case ACTION_POST_PROBE_PEERS:
        for (int i = 0; i < w->seen.n_pods; i++)
            if (strcmp(w->seen.pods[i].name, a->name) == 0)
                w->seen.pods[i].has_peers = true;
        break;
    case ACTION_READ_DATA:
        w->seen.data = w->lacks_claim ? DATA_NO_CLAIM : w->has_data ? DATA_PRESENT : DATA_MISSING;
        w->seen.data_checked_ms = w->seen.now_ms;
        break;
    case ACTION_EVENT:
        w->n_events++;
        memcpy(w->last_event, a->reason, sizeof w->last_event);
        break;
    case ACTION_CREATE_POLICY:
    case ACTION_CREATE_PROBE_SPEC:
        break;
    }
}

void world_apply(struct world *w, int n_steps)
{
    w->seen.unplaced = w->decision.unplaced;
    for (int i = 0; i < w->decision.n_actions && i < n_steps; i++)
        take_step(w, &w->decision.actions[i]);
    if (n_steps < w->decision.n_actions)
        return;
    w->seen.status = w->decision.status;
    if (w->seen.status.model.hidden > 0)
        world_observe_spec(w);
}

static void write_text(const struct status *s, struct buf *out)
{
    struct jsonw writer;

    jsonw_init(&writer, out);
    status_write(s, &writer, NULL);
    assert_int_equal(jsonw_finish(&writer, NULL), ERR_OK);
}

bool world_is_idle(const struct world *w)
{
    struct buf before = {.max = STATUS_TEXT_MAX_BYTES};
    struct buf after = {.max = STATUS_TEXT_MAX_BYTES};
    bool is_same;

    write_text(&w->seen.status, &before);
    write_text(&w->decision.status, &after);
    is_same = strcmp(buf_text(&before), buf_text(&after)) == 0;
    buf_deinit(&before);
    buf_deinit(&after);
    return is_same && w->decision.n_actions == 0;
}

void world_round(struct world *w)
{
    world_decide(w);
    world_apply(w, DECIDE_ACTIONS_MAX);
}

int world_settle(struct world *w)
{
    for (int round = 0; round < WORLD_ROUNDS_MAX; round++) {
        world_decide(w);
        if (world_is_idle(w))
            return round;
        world_apply(w, DECIDE_ACTIONS_MAX);
    }
    fail_msg("still not settled after %d rounds: %s, %d actions, first is %d", WORLD_ROUNDS_MAX,
             w->decision.status.message, w->decision.n_actions, (int)w->decision.actions[0].kind);
    return -1;
}

struct seen_pod *world_pod(struct world *w, int stage)
{
    struct seen_pod *found = NULL;

    for (int i = 0; i < w->seen.n_pods; i++) {
        struct seen_pod *p = &w->seen.pods[i];

        if (p->role == POD_STAGE && p->stage == stage && (!found || p->attempt > found->attempt))
            found = p;
    }
    return found;
}

struct seen_pod *world_probe(struct world *w, const char *node)
{
    for (int i = 0; i < w->seen.n_pods; i++)
        if (w->seen.pods[i].role == POD_PROBE && strcmp(w->seen.pods[i].node, node) == 0)
            return &w->seen.pods[i];
    return NULL;
}

struct seen_pod *world_reader(struct world *w)
{
    for (int i = 0; i < w->seen.n_pods; i++)
        if (w->seen.pods[i].role == POD_MODEL)
            return &w->seen.pods[i];
    return NULL;
}

void world_run_pods(struct world *w)
{
    for (int s = 0; s < w->seen.plan.n_stages; s++) {
        struct seen_pod *p = world_pod(w, s);

        if (!p || p->phase != POD_PENDING)
            continue;
        p->phase = POD_RUNNING;
        p->is_ready = true;
        (void)snprintf(p->ip, sizeof p->ip, "10.0.0.%d", s + 1);
    }
}

void world_end_pod(struct world *w, int stage, int exit_code, enum progress_cause cause)
{
    struct seen_pod *p = world_pod(w, stage);

    p->phase = exit_code == 0 ? POD_SUCCEEDED : POD_FAILED;
    p->is_ready = false;
    p->has_exit_code = true;
    p->exit_code = exit_code;
    p->finished_ms = w->seen.now_ms;
    p->has_progress = true;
    p->progress = (struct progress){.state = exit_code == 0 ? PROGRESS_DONE : PROGRESS_FAILED,
                                    .cause = cause,
                                    .attempt = p->attempt,
                                    .stage = stage,
                                    .step = 100,
                                    .total_steps = 100,
                                    .loss = 0.5,
                                    .eta_seconds = -1};
    if (exit_code != 0)
        (void)snprintf(p->progress.error, sizeof p->progress.error, "stage %d has a reason", stage);
}

void world_start_training(struct world *w)
{
    (void)world_settle(w);
    world_run_pods(w);
    (void)world_settle(w);
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
}

int world_count(const struct world *w, enum action_kind kind)
{
    int n = 0;

    for (int i = 0; i < w->decision.n_actions; i++)
        n += w->decision.actions[i].kind == kind;
    return n;
}

const struct action *world_find(const struct world *w, enum action_kind kind)
{
    for (int i = 0; i < w->decision.n_actions; i++)
        if (w->decision.actions[i].kind == kind)
            return &w->decision.actions[i];
    return NULL;
}

bool world_has_event(const struct world *w, const char *reason)
{
    for (int i = 0; i < w->decision.n_actions; i++)
        if (w->decision.actions[i].kind == ACTION_EVENT &&
            strcmp(w->decision.actions[i].reason, reason) == 0)
            return true;
    return false;
}
