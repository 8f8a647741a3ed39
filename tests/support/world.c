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
    w->seen.settings.worker_user = MANIFEST_USER;
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
    w->seen.revision_text = &w->text;
    w->text.max = REVISION_TEXT_MAX_BYTES;
    w->has_data = true;
    return w;
}

void world_free(struct world *w)
{
    json_free(w->filled);
    json_free(w->spec_json);
    buf_deinit(&w->text);
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

/* A 409, as the API server gives it: then it is compared with what would have been created. */
static bool is_taken(struct world *w, const char *name, enum pod_role role, uint64_t image)
{
    for (int i = 0; i < w->seen.n_pods; i++) {
        struct seen_pod *p = &w->seen.pods[i];

        if (strcmp(p->name, name) != 0)
            continue;
        if (p->role == POD_UNVERIFIED) {
            p->role = strcmp(p->uid, WORLD_FAKE) == 0 ? POD_FOREIGN : role;
            p->image_asked = image;
        }
        return true;
    }
    return false;
}

static void create_worker_pod(struct world *w, const struct action *a)
{
    const struct plan_worker *worker = &w->seen.revision.plan.workers[a->stage];
    char name[NAMES_BYTES] = "";
    struct seen_pod *p;

    assert_true(w->seen.has_revision);
    names_worker_pod(w->seen.name, w->seen.uid, worker->slot, worker->incarnation, name);
    if (is_taken(w, name, POD_WORKER, 0))
        return;
    p = add_pod(w);
    p->role = POD_WORKER;
    p->slot = worker->slot;
    p->incarnation = worker->incarnation;
    p->group = a->group;
    p->group_size = a->group_size;
    p->cpu_milli = worker->cpu_milli;
    p->memory_bytes = worker->memory_bytes;
    memcpy(p->name, name, sizeof p->name);
    memcpy(p->node, worker->node, sizeof p->node);
}

static void create_substitute(struct world *w, const struct action *a)
{
    int incarnation = w->seen.revision.plan.revision;
    char name[NAMES_BYTES] = "";
    struct seen_pod *p;

    names_worker_pod(w->seen.name, w->seen.uid, a->slot, incarnation, name);
    if (is_taken(w, name, POD_WORKER, 0))
        return;
    p = add_pod(w);
    p->role = POD_WORKER;
    p->slot = a->slot;
    p->incarnation = incarnation;
    p->group = a->group;
    p->group_size = a->group_size;
    p->cpu_milli = a->cpu_milli;
    p->memory_bytes = a->memory_bytes;
    memcpy(p->name, name, sizeof p->name);
    memcpy(p->node, a->node, sizeof p->node);
}

static void create_probe_pod(struct world *w, const struct action *a)
{
    char name[NAMES_BYTES] = "";
    struct seen_pod *p;

    names_probe_pod(w->seen.name, w->seen.uid, a->node, name);
    if (is_taken(w, name, POD_PROBE, a->image))
        return;
    p = add_pod(w);
    p->role = POD_PROBE;
    p->cpu_milli = a->cpu_milli;
    p->image_asked = a->image;
    memcpy(p->name, name, sizeof p->name);
    memcpy(p->node, a->node, sizeof p->node);
}

static void create_model_pod(struct world *w, const struct action *a)
{
    char name[NAMES_BYTES] = "";
    struct seen_pod *p;

    names_model_pod(w->seen.name, w->seen.uid, name);
    if (is_taken(w, name, POD_MODEL, a->image))
        return;
    p = add_pod(w);
    p->role = POD_MODEL;
    p->image_asked = a->image;
    memcpy(p->name, name, sizeof p->name);
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

static void create_revision(struct world *w)
{
    const struct revision *r = &w->decision.revision;

    for (int i = 0; i < w->seen.n_revisions; i++)
        if (w->seen.revision_numbers[i] == r->plan.revision)
            return; /* it was decided already, and is immutable */
    assert_true(w->seen.n_revisions < OBSERVED_REVISIONS_MAX);
    (void)snprintf(w->seen.revision_uids[w->seen.n_revisions], OBSERVED_UID_BYTES, "revision-%d",
                   r->plan.revision);
    w->seen.revision_numbers[w->seen.n_revisions++] = r->plan.revision;
    w->seen.revision = *r;
    w->seen.has_revision = true;
    buf_reset(&w->text);
    assert_int_equal(revision_write(r, w->seen.spec_json, &w->text, NULL), ERR_OK);
}

static void restore_revision(struct world *w)
{
    int n = w->seen.n_revisions++;

    (void)snprintf(w->seen.revision_uids[n], OBSERVED_UID_BYTES, "restored");
    w->seen.revision_numbers[n] = w->seen.revision.plan.revision;
    w->seen.is_revision_lost = false;
}

static void delete_revision(struct world *w, const struct action *a)
{
    for (int i = 0; i < w->seen.n_revisions; i++) {
        int last = w->seen.n_revisions - 1;

        if (w->seen.revision_numbers[i] != a->revision ||
            strcmp(w->seen.revision_uids[i], a->uid) != 0)
            continue;
        w->seen.revision_numbers[i] = w->seen.revision_numbers[last];
        memmove(w->seen.revision_uids[i], w->seen.revision_uids[last], OBSERVED_UID_BYTES);
        w->seen.n_revisions = last;
        i--;
    }
}

/* --- workers --- */

static struct seen_pod *find_pod(struct world *w, const char *name)
{
    for (int i = 0; i < w->seen.n_pods; i++)
        if (strcmp(w->seen.pods[i].name, name) == 0)
            return &w->seen.pods[i];
    return NULL;
}

static void set_report(struct world *w, struct seen_pod *p, enum report_session session)
{
    struct report *r = &w->reports[p->slot % WORLD_SLOTS];

    *r = (struct report){.slot = p->slot,
                         .incarnation = p->incarnation,
                         .revision = p->accepted,
                         .session = session,
                         .lineage = w->seen.revision.resume.lineage};
    p->report = r;
    p->ended_ms = session == REPORT_RUNNING ? 0 : 1;
}

static void post_revision(struct world *w, const struct action *a)
{
    struct seen_pod *p = find_pod(w, a->name);

    assert_true(p && p->phase == POD_RUNNING);
    p->accepted = w->seen.revision.plan.revision;
    p->halting_ms = 0;
    set_report(w, p, REPORT_RUNNING);
}

/* A leader that is done ends with it; the others keep what they hold. */
static void halt(struct world *w, const struct action *a)
{
    struct seen_pod *p = find_pod(w, a->name);

    if (!p || p->phase != POD_RUNNING)
        return;
    p->halted = a->revision;
    p->halting_ms = 1;
    if (w->seen.has_leader && w->seen.leader.state == PROGRESS_DONE && p == world_pod(w, 0))
        p->phase = POD_SUCCEEDED;
    else if (!p->report)
        set_report(w, p, REPORT_HALTED);
    else if (p->report->session != REPORT_DONE)
        w->reports[p->slot % WORLD_SLOTS].session = REPORT_HALTED;
    p->ended_ms = 1;
}

void world_end_session(struct world *w, int stage, int64_t ended_ms)
{
    struct seen_pod *p = world_pod(w, stage);
    struct report *r = &w->reports[p->slot % WORLD_SLOTS];

    set_report(w, p, REPORT_HALTED);
    p->ended_ms = ended_ms;
    r->cause = PROGRESS_CAUSE_PEER_LOST;
    (void)snprintf(r->error, sizeof r->error, "link to stage %d lost", stage + 1);
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
    case ACTION_CREATE_WORKER_POD:
        create_worker_pod(w, a);
        break;
    case ACTION_CREATE_SUBSTITUTE:
        create_substitute(w, a);
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
    case ACTION_CREATE_REVISION:
        create_revision(w);
        break;
    case ACTION_RESTORE_REVISION:
        restore_revision(w);
        break;
    case ACTION_DELETE_REVISION:
        delete_revision(w, a);
        break;
    case ACTION_ANNOTATE_NODE:
        label_node(w, a);
        break;
    case ACTION_INVALIDATE_PROBE:
        for (int i = 0; i < WORLD_NODES; i++)
            if (strcmp(w->nodes[i].name, a->node) == 0)
                w->nodes[i].annotations.probe.is_contradicted = true;
        break;
    case ACTION_READ_EVENTS:
        for (int i = 0; i < w->seen.n_pods; i++)
            if (strcmp(w->seen.pods[i].name, a->name) == 0)
                w->seen.pods[i].events_ms = w->seen.now_ms;
        break;
    case ACTION_POST_REVISION:
        post_revision(w, a);
        break;
    case ACTION_HALT:
        halt(w, a);
        break;
    case ACTION_POST_PROBE_PEERS:
        for (int i = 0; i < w->seen.n_pods; i++)
            if (strcmp(w->seen.pods[i].name, a->name) == 0)
                w->seen.pods[i].accepted = 1;
        break;
    case ACTION_READ_DATA:
        w->seen.data.state = w->lacks_claim ? DATA_NO_CLAIM
                             : w->has_data  ? DATA_PRESENT
                                            : DATA_MISSING;
        w->seen.data.checked_ms = w->seen.now_ms;
        break;
    case ACTION_EVENT:
        w->n_events++;
        memcpy(w->last_event, a->reason, sizeof w->last_event);
        break;
    case ACTION_DELETE_JOB:
        w->seen.is_deleting = true;
        break;
    case ACTION_DELETE_GROUP: /* Kueue lets go of its pods */
        for (int i = w->seen.n_pods - 1; i >= 0; i--)
            if (w->seen.pods[i].group == a->group)
                world_remove_pod(w, &w->seen.pods[i]);
        break;
    case ACTION_ORDER_CHECKPOINT:
        w->ordered = a->order;
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
    if (w->seen.status.model.hidden > 0 || w->filled)
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

        if (p->role == POD_WORKER && p->slot == w->seen.revision.plan.workers[stage].slot &&
            (!found || p->incarnation > found->incarnation))
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
    for (int s = 0; s < w->seen.revision.plan.n_workers; s++) {
        struct seen_pod *p = world_pod(w, s);

        if (!p || p->phase != POD_PENDING)
            continue;
        p->phase = POD_RUNNING;
        p->is_ready = true;
        (void)snprintf(p->ip, sizeof p->ip, "10.0.0.%d", s + 1);
    }
}

struct progress *world_last_words(struct world *w, int stage)
{
    return &w->last_words[world_pod(w, stage)->slot % WORLD_SLOTS];
}

void world_end_pod(struct world *w, int stage, int exit_code, enum progress_cause cause)
{
    struct seen_pod *p = world_pod(w, stage);
    struct progress *left = world_last_words(w, stage);

    p->phase = exit_code == 0 ? POD_SUCCEEDED : POD_FAILED;
    p->is_ready = false;
    p->has_exit_code = true;
    p->exit_code = exit_code;
    p->finished_ms = w->seen.now_ms;
    *left = (struct progress){.state = exit_code == 0 ? PROGRESS_DONE : PROGRESS_FAILED,
                              .cause = cause,
                              .revision = w->seen.revision.plan.revision,
                              .slot = p->slot,
                              .step = 100,
                              .total_steps = 100,
                              .loss = 0.5,
                              .eta_seconds = -1};
    if (exit_code != 0)
        (void)snprintf(left->error, sizeof left->error, "stage %d has a reason", stage);
    p->progress = left;
}

void world_start_training(struct world *w)
{
    (void)world_settle(w);
    world_run_pods(w);
    (void)world_settle(w);
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
}

void world_make_alike(struct world *w)
{
    for (int i = 0; i < WORLD_NODES; i++) {
        w->nodes[i].cpu_milli = 2000;
        w->nodes[i].annotations.gflops = 40;
    }
}

void world_train_on(struct world *w)
{
    (void)world_settle(w);
    world_run_pods(w);
    (void)world_settle(w);
    w->seen.has_leader = true;
    w->seen.leader = (struct progress){.state = PROGRESS_TRAINING,
                                       .revision = w->seen.revision.plan.revision,
                                       .step = 7,
                                       .total_steps = 100000,
                                       .loss = 1};
    (void)world_settle(w);
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
