/* Whatever is observed, decide() comes to rest; and whatever happens on the way, a job ends.
 *
 * Every case is a seed, printed when it fails. The random states contain much that cannot happen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/recover.h"
#include "base/hash.h"
#include "world.h"

#define STATES    4000
#define LIVES     400
#define TICKS_MAX 4000
#define TICK_MS   1000

static uint64_t seed_now;

static uint32_t random_below(uint32_t n)
{
    seed_now = seed_now * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed_now >> 33) % n;
}

static bool one_in(uint32_t n)
{
    return random_below(n) == 0;
}

/* What the files of spec.model.from contain, and what a pod reports that only looks like ours. */
static const struct model in_files = {
    .vocab = 99, .hidden = 64, .layers = 3, .heads = 4, .ffn = 128, .positions = 256};
static const struct model in_fake = {
    .vocab = 98, .hidden = 32, .layers = 2, .heads = 2, .ffn = 64, .positions = 512};

/* What pods leave: a worker, by its cause, and a probe. */
static const struct progress last_words[] = {
    [PROGRESS_CAUSE_NONE] = {.cause = PROGRESS_CAUSE_NONE, .eta_seconds = -1},
    [PROGRESS_CAUSE_CONFIG] = {.cause = PROGRESS_CAUSE_CONFIG, .eta_seconds = -1},
    [PROGRESS_CAUSE_DATA_MISSING] = {.cause = PROGRESS_CAUSE_DATA_MISSING, .eta_seconds = -1},
    [PROGRESS_CAUSE_PEER_LOST] = {.cause = PROGRESS_CAUSE_PEER_LOST, .eta_seconds = -1},
    [PROGRESS_CAUSE_OTHER] = {.cause = PROGRESS_CAUSE_OTHER, .eta_seconds = -1},
};
static const struct node_probe found[] = {
    {.gflops = 5, .unit_ms = 0.1, .threads = 1, .has_bf16 = NODE_UNKNOWN},
    {.gflops = 5, .unit_ms = 0.1, .threads = 1, .has_bf16 = NODE_YES},
    {.gflops = 5, .unit_ms = 0.1, .threads = 1, .has_bf16 = NODE_NO},
};

/* --- what must hold for every decision --- */

/* The highest that anything carries. */
static int newest_number(const struct observed *seen)
{
    int number = seen->status.revision > 1 ? seen->status.revision : 1;

    for (int i = 0; i < seen->n_revisions; i++)
        number = seen->revision_numbers[i] > number ? seen->revision_numbers[i] : number;
    for (int i = 0; i < seen->n_pods; i++)
        if (seen->pods[i].role == POD_WORKER && seen->pods[i].incarnation > number)
            number = seen->pods[i].incarnation;
    return number;
}

/* Has its leader ended, or has it? */
static bool has_trained(const struct observed *seen)
{
    const struct status *s = &seen->status;

    return status_is_over(&seen->status) ||
           strcmp(s->conditions[CONDITION_RUNNING].reason, "Finishing") == 0 ||
           (s->n_stages > 0 && strcmp(s->stages[0].state, "Succeeded") == 0) ||
           (seen->has_leader && seen->leader.state == PROGRESS_DONE);
}

/* Is the pod a worker of the revision in force, or kept for the next one? */
static bool is_kept(const struct observed *seen, const struct seen_pod *p)
{
    const struct revision *r = &seen->revision;
    bool is_in_force = seen->has_revision && r->plan.revision >= newest_number(seen);
    int i = is_in_force ? revision_find(r, p->slot) : -1;

    if (p->role != POD_WORKER ||
        (status_is(&seen->status, CONDITION_SUSPENDED) && seen->spec && seen->spec->suspends))
        return false;
    if (p->incarnation >= newest_number(seen) && is_in_force && i < 0)
        return false; /* for a worker that leaves, or did not leave after all */
    if (p->incarnation >= newest_number(seen) ||
        (i >= 0 && revision_worker(r, i).incarnation == p->incarnation))
        return true;
    for (i = 0; i < seen->status.n_stages && !is_in_force; i++)
        if (strcmp(seen->status.stages[i].pod_uid, p->uid) == 0)
            return true;
    return false;
}

/* New sizes are those that a pod of ours has read. */
static void check_sizes(const struct observed *seen, const struct decision *d, uint64_t seed)
{
    const struct model *m = &d->status.model;

    if (m->hidden == 0 || memcmp(m, &seen->status.model, sizeof *m) == 0)
        return;
    for (int i = 0; i < seen->n_pods; i++)
        if (seen->pods[i].role == POD_MODEL && seen->pods[i].model &&
            memcmp(m, seen->pods[i].model, sizeof *m) == 0)
            return;
    fail_msg("seed %llu: sizes that no pod of ours has read", (unsigned long long)seed);
}

static void check_order(const struct world *w, uint64_t seed)
{
    const struct observed *seen = &w->seen;
    const struct decision *d = &w->decision;

    for (int i = 0; i < d->n_actions; i++) {
        const struct action *a = &d->actions[i];

        if (a->kind == ACTION_CREATE_REVISION && seen->status.revision != d->revision.plan.revision)
            fail_msg("seed %llu: revision %d while %d is written", (unsigned long long)seed,
                     d->revision.plan.revision, seen->status.revision);
        if ((a->kind == ACTION_CREATE_WORKER_POD || a->kind == ACTION_CREATE_SUBSTITUTE) &&
            (!seen->has_revision || seen->revision.plan.revision != d->status.revision))
            fail_msg("seed %llu: a pod without a plan", (unsigned long long)seed);
        if (a->kind == ACTION_POST_REVISION && seen->n_revisions == 0 && !seen->is_revision_lost)
            fail_msg("seed %llu: a revision is posted that is not kept", (unsigned long long)seed);
        if (a->kind == ACTION_CREATE_REVISION && d->revision.plan.spec.model.hidden == 0)
            fail_msg("seed %llu: a plan for a model without sizes", (unsigned long long)seed);
        if (a->kind == ACTION_CREATE_MODEL_POD && spec_has_sizes(seen->spec))
            fail_msg("seed %llu: sizes are read that are known", (unsigned long long)seed);
        if ((a->kind == ACTION_CREATE_WORKER_POD || a->kind == ACTION_CREATE_PROBE_POD ||
             a->kind == ACTION_CREATE_SUBSTITUTE || a->kind == ACTION_CREATE_MODEL_POD ||
             a->kind == ACTION_CREATE_REVISION) &&
            (seen->is_deleting || status_is_over(&seen->status) ||
             status_is(&d->status, CONDITION_SUSPENDED)))
            fail_msg("seed %llu: something is made for a job that is over, or suspended",
                     (unsigned long long)seed);
        for (int k = 0; k < seen->n_pods && a->kind == ACTION_DELETE_POD; k++) {
            const struct seen_pod *p = &seen->pods[k];

            if (strcmp(p->name, a->name) != 0)
                continue;
            if (is_kept(seen, p) && !seen->is_deleting && !has_trained(seen))
                fail_msg("seed %llu: pod %s of the current revision is deleted",
                         (unsigned long long)seed, a->name);
            if (p->role == POD_FOREIGN)
                fail_msg("seed %llu: pod %s is deleted, which is not ours",
                         (unsigned long long)seed, a->name);
        }
    }
    check_sizes(seen, d, seed);
    if (d->status.revision < seen->status.revision || d->status.restarts < seen->status.restarts)
        fail_msg("seed %llu: a count goes down", (unsigned long long)seed);
    if (status_is(&d->status, CONDITION_COMPLETE) && status_is(&d->status, CONDITION_FAILED) &&
        !status_is_final(&seen->status))
        fail_msg("seed %llu: complete and failed", (unsigned long long)seed);
}

static void settle(struct world *w, uint64_t seed)
{
    for (int round = 0; round < WORLD_ROUNDS_MAX; round++) {
        world_decide(w);
        check_order(w, seed);
        if (world_is_idle(w))
            return;
        world_apply(w, DECIDE_ACTIONS_MAX);
    }
    fail_msg("seed %llu: not at rest after %d rounds: %s (action %d of %d)",
             (unsigned long long)seed, WORLD_ROUNDS_MAX, w->decision.status.message,
             (int)w->decision.actions[0].kind, w->decision.n_actions);
}

/* --- any state --- */

/* Ours, or not known to be, or known not to be. */
static void random_reader(struct seen_pod *p)
{
    static const enum pod_role roles[] = {POD_MODEL, POD_MODEL, POD_UNVERIFIED, POD_FOREIGN};

    p->role = roles[random_below(4)];
    p->slot = p->incarnation = 0;
    p->probe = NULL;
    p->progress = NULL;
    p->model = !one_in(2) ? NULL : p->role == POD_MODEL ? &in_files : &in_fake;
    if (p->role == POD_FOREIGN || (p->role == POD_UNVERIFIED && one_in(2)))
        (void)snprintf(p->uid, sizeof p->uid, WORLD_FAKE);
}

static void random_report(struct world *w, struct seen_pod *p)
{
    struct report *r = &w->reports[p->slot];

    *r = (struct report){.slot = p->slot,
                         .incarnation = p->incarnation,
                         .revision = (int)random_below(5),
                         .session = (enum report_session)random_below(5),
                         .lineage = (int64_t)random_below(3),
                         .is_leaving = one_in(8),
                         .end.step = (int64_t)random_below(3)};
    r->end.revision = 1;
    report_add(r, &(struct report_run){.n_units = 1 + (int)random_below(9),
                                       .step = (int64_t)random_below(3)});
    p->report = r;
    p->ended_ms = r->session == REPORT_RUNNING ? 0 : 1 + random_below(20000);
}

static void random_pod(struct world *w, int number)
{
    static const char *const reasons[] = {"", "", "", "ImagePullBackOff", "Evicted", "Error"};
    struct seen_pod *p = &w->seen.pods[w->seen.n_pods++];

    *p = (struct seen_pod){.role = one_in(4)   ? POD_PROBE
                                   : one_in(6) ? POD_MODEL
                                               : POD_WORKER,
                           .slot = (int)random_below(4),
                           .incarnation = 1 + (int)random_below(3),
                           .phase = (enum pod_phase)random_below(4),
                           .is_ready = one_in(2),
                           .is_deleting = one_in(6),
                           .grace_ms = one_in(2) ? 1000 : 60000,
                           .deleting_ms = random_below(20000),
                           .is_disrupted = one_in(8),
                           .is_unschedulable = one_in(8),
                           .is_out_of_memory = one_in(8),
                           .accepted = (int)random_below(4),
                           .refuses = one_in(10),
                           .halted = (int)random_below(4),
                           .halting_ms = one_in(4) ? random_below(2 * RECOVER_HALT_MS) : 0,
                           .silent_ms = one_in(4) ? random_below(2 * RECOVER_HALT_MS) : 0,
                           .has_exit_code = one_in(2),
                           .exit_code = (int)random_below(3),
                           .cpu_milli = 500,
                           .memory_bytes = (int64_t)random_below(4) << 30,
                           .image_asked = hash_text(one_in(4) ? "worker:2" : "worker:1"),
                           .progress = one_in(2) ? &last_words[random_below(5)] : NULL,
                           .probe = one_in(2) ? &found[random_below(3)] : NULL};
    (void)snprintf(p->digest, sizeof p->digest, "sha256:%u", 1 + random_below(2));
    p->created_ms = w->seen.now_ms - random_below(200000);
    p->finished_ms = w->seen.now_ms - random_below(20000);
    (void)snprintf(p->uid, sizeof p->uid, "random-%d", number);
    (void)snprintf(p->node, sizeof p->node, "node-%u", random_below(WORLD_NODES + 1));
    (void)snprintf(p->reason, sizeof p->reason, "%s", reasons[random_below(6)]);
    if (one_in(2))
        (void)snprintf(p->ip, sizeof p->ip, "10.0.1.%d", number);
    if (p->role == POD_PROBE) {
        names_probe_pod(w->seen.name, w->seen.uid, p->node, p->name);
    } else if (p->role == POD_MODEL) {
        random_reader(p);
        names_model_pod(w->seen.name, w->seen.uid, p->name);
    } else {
        names_worker_pod(w->seen.name, w->seen.uid, p->slot, p->incarnation, p->name);
        if (one_in(2))
            random_report(w, p);
    }
    for (int i = 0; i < w->seen.n_pods - 1; i++)
        if (strcmp(w->seen.pods[i].name, p->name) == 0) {
            w->seen.n_pods--; /* names are unique */
            return;
        }
}

static void random_status(struct world *w)
{
    struct status *s = &w->seen.status;

    s->revision = (int)random_below(4);
    s->restarts = (int)random_below(5);
    s->restarts_in_a_row = (int)random_below(3);
    s->memory_percent = one_in(3) ? 150 : 0;
    s->next_revision_ms = one_in(3) ? w->seen.now_ms + 5000 - (int64_t)random_below(10) * 1000 : 0;
    s->generation = 1;
    s->model = one_in(3) ? in_files : (struct model){.hidden = 0};
    for (int t = 0; t < CONDITION_COUNT; t++) {
        bool rare = t == CONDITION_COMPLETE || t == CONDITION_FAILED;

        s->conditions[t].value =
            rare && !one_in(10) ? CONDITION_FALSE : (enum condition_value)random_below(4);
        (void)snprintf(s->conditions[t].reason, STATUS_REASON_BYTES, "Random");
    }
    s->n_stages = (int)random_below(4);
    for (int i = 0; i < s->n_stages; i++) {
        (void)snprintf(s->stages[i].state, STATUS_WORD_BYTES, "%s",
                       one_in(3) ? "Succeeded" : "Running");
        if (one_in(2))
            (void)snprintf(s->stages[i].pod_uid, STATUS_UID_BYTES, "random-%u", random_below(8));
    }
}

/* Of this job's shapes and other ones, old and new, and with a probe's pod of the same time. */
static void random_annotations(const struct world *w, const struct spec *spec,
                               struct node_object *n)
{
    struct annotation_probe *p = &n->annotations.probe;

    n->annotations.has_probe = true;
    *p = (struct annotation_probe){.found = {.gflops = 7, .threads = 1}, .cpu_milli = 500};
    p->found.has_bf16 = (enum node_answer)random_below(3);
    p->subject.cpu_milli = n->cpu_milli;
    p->subject.memory_bytes = n->memory_bytes;
    p->time_ms = w->seen.now_ms + 10000 - (int64_t)random_below(20) * 1000;
    if (one_in(4))
        p->time_ms -= ANNOTATION_FRESH_MS;
    (void)snprintf(p->subject.image, sizeof p->subject.image, "worker:%u", 1 + random_below(2));
    (void)snprintf(p->subject.digest, sizeof p->subject.digest, "%s", one_in(2) ? "sha256:1" : "");
    if (one_in(2))
        annotation_work(spec, w->seen.namespace, p->subject.work);
    (void)snprintf(n->annotations.bad, sizeof n->annotations.bad, "%s",
                   one_in(2) ? "a annotations: is bad" : "");
}

static void random_node(const struct world *w, const struct spec *spec, struct node_object *n)
{
    n->excluded = one_in(2) ? (enum exclusion)random_below(EXCLUDED_UNREADABLE) : EXCLUDED_NOT;
    n->cpu_used_milli = (int64_t)random_below(3000);
    n->memory_used_bytes = (int64_t)random_below(4096) << 20;
    if (one_in(2))
        n->annotations.gflops = 0;
    n->annotations.has_bf16 = (enum node_answer)random_below(3);
    if (one_in(3))
        random_annotations(w, spec, n);
}

#define TINY       "{\"model\":{\"preset\":\"BertTiny\"},"
#define FROM       "{\"model\":{\"from\":{\"persistentVolumeClaim\":{\"claimName\":\"models\"}}},"
#define SAMPLE     "\"data\":{\"source\":{\"sample\":\"MNLI\"}}"
#define CONFIG_MAP "\"data\":{\"source\":{\"configMap\":{\"name\": \"nli\"}}}"

#define SHARED    ",\"checkpoint\":{\"store\":{\"persistentVolumeClaim\":{\"claimName\": \"a\"}}}"
#define SUSPENDED ",\"suspend\":true"

static struct world *random_world(uint64_t seed)
{
    static const char *const specs[] = {
        NULL,
        NULL,
        TINY CONFIG_MAP "}",
        TINY CONFIG_MAP ",\"training\":{\"precision\":\"BF16\"}}",
        TINY SAMPLE ",\"placement\":{\"probePolicy\":\"Always\"}}",
        TINY SAMPLE ",\"placement\":{\"probePolicy\":\"Never\"}}",
        FROM SAMPLE "}",
        FROM CONFIG_MAP "}",
        TINY SAMPLE SUSPENDED "}",
        TINY SAMPLE SHARED SUSPENDED "}",
    };
    struct spec spec;
    struct world *w;

    seed_now = seed * UINT64_C(0x9e3779b97f4a7c15);
    w = world_new(specs[random_below(sizeof specs / sizeof specs[0])]);
    w->seen.created_ms = w->seen.now_ms - random_below(20000);
    assert_int_equal(spec_parse(w->spec_json, &spec, NULL), ERR_OK);
    if (one_in(2))
        (void)world_settle(w); /* so that there is a plan with real stages */
    for (int i = 0; i < WORLD_NODES; i++)
        random_node(w, &spec, &w->nodes[i]);
    if (w->seen.has_revision && one_in(3)) {
        w->seen.revision.plan.revision = 1 + (int)random_below(3);
        w->seen.revision_numbers[0] = w->seen.revision.plan.revision;
    }
    if (one_in(8))
        w->seen.has_revision = false;
    if (!one_in(3))
        random_status(w);
    for (uint32_t i = random_below(8); i > 0; i--)
        random_pod(w, (int)i);
    w->seen.data.state = (enum data_state)random_below(3);
    w->seen.data.checked_ms = w->seen.now_ms - random_below(20000);
    w->has_data = one_in(2);
    w->seen.is_deleting = one_in(20);
    w->seen.problem =
        (struct seen_problem){.n_in_a_row = (int)random_below(3), .code = ERR_CONFLICT};
    w->seen.generation = one_in(8) ? 2 : 1;
    world_observe_spec(w);
    w->seen.has_leader = one_in(2);
    w->seen.leader =
        (struct progress){.revision = 1, .step = 3, .total_steps = 10, .eta_seconds = 4};
    return w;
}

static void decide_comes_to_rest_from_any_state(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= STATES; seed++) {
        struct world *w = random_world(seed);

        settle(w, seed);
        world_free(w);
    }
}

static void decide_is_a_function_of_what_it_sees(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= STATES / 10; seed++) {
        struct world *a = random_world(seed);
        struct world *b = random_world(seed);

        memset(&b->decision, 0x5a, sizeof b->decision); /* nothing is left of an earlier one */
        world_decide(a);
        world_decide(b);
        assert_int_equal(a->decision.n_actions, b->decision.n_actions);
        for (int i = 0; i < a->decision.n_actions; i++)
            assert_memory_equal(&a->decision.actions[i], &b->decision.actions[i],
                                sizeof a->decision.actions[i]);
        assert_int_equal(a->decision.requeue_ms, b->decision.requeue_ms);
        assert_memory_equal(&a->decision.status, &b->decision.status, sizeof a->decision.status);
        world_free(a);
        world_free(b);
    }
}

/* --- whole lives --- */

static void end_reader(const struct world *w, struct seen_pod *p, bool is_well)
{
    p->phase = is_well ? POD_SUCCEEDED : POD_FAILED;
    p->has_exit_code = true;
    p->exit_code = is_well ? 0 : 1;
    p->finished_ms = w->seen.now_ms;
    p->model = is_well ? &in_files : NULL;
}

/* A pod of the reader's name that reports other sizes. */
static void add_fake(struct world *w)
{
    struct seen_pod *p = &w->seen.pods[w->seen.n_pods++];

    *p = (struct seen_pod){.role = POD_UNVERIFIED, .created_ms = w->seen.now_ms};
    names_model_pod(w->seen.name, w->seen.uid, p->name);
    (void)snprintf(p->uid, sizeof p->uid, WORLD_FAKE);
    end_reader(w, p, true);
    p->model = &in_fake;
}

/* The fake goes when its owner deletes it; of its own a restarted operator is not sure either. */
static void live_reader(struct world *w, struct seen_pod *p)
{
    if (strcmp(p->uid, WORLD_FAKE) == 0) {
        if (one_in(50))
            world_remove_pod(w, p);
    } else if (p->phase == POD_PENDING && one_in(3)) {
        p->phase = POD_RUNNING;
    } else if (p->phase == POD_RUNNING && one_in(3)) {
        end_reader(w, p, true);
    }
    if (p->role == POD_MODEL && one_in(10))
        p->role = POD_UNVERIFIED;
}

static bool is_reader(const struct seen_pod *p)
{
    return p->role == POD_MODEL || strstr(p->name, "-model");
}

static void end_worker(const struct world *w, struct seen_pod *p, int exit_code)
{
    p->phase = exit_code == 0 ? POD_SUCCEEDED : POD_FAILED;
    p->has_exit_code = true;
    p->exit_code = exit_code;
    p->finished_ms = w->seen.now_ms;
    p->progress = &last_words[exit_code ? PROGRESS_CAUSE_OTHER : PROGRESS_CAUSE_NONE];
}

/* A link breaks, and with it the sessions of all. */
static void break_session(struct world *w, const struct seen_pod *of)
{
    for (int i = 0; i < w->seen.n_pods; i++) {
        struct seen_pod *p = &w->seen.pods[i];

        if (p->role != POD_WORKER || !p->report || p->accepted != of->accepted ||
            p->report->session != REPORT_RUNNING)
            continue;
        w->reports[p->slot].session = REPORT_HALTED;
        p->ended_ms = 1;
    }
}

/* Steps are done while all sessions of the newest revision run, and some day the last one. */
static void live_training(struct world *w)
{
    const struct revision *r = &w->seen.revision;
    bool all_run = w->seen.has_revision;

    for (int i = 0; i < w->seen.n_pods; i++) {
        struct seen_pod *p = &w->seen.pods[i];

        p->halting_ms += p->halting_ms > 0 ? TICK_MS : 0;
        p->ended_ms += p->ended_ms > 0 ? TICK_MS : 0;
    }
    for (int s = 0; s < r->plan.n_workers && all_run; s++) {
        const struct seen_pod *p = world_pod(w, s);

        all_run = p && p->phase == POD_RUNNING && p->accepted == r->plan.revision && p->report &&
                  p->report->session == REPORT_RUNNING;
    }
    if (!all_run)
        return;
    if (!w->seen.has_leader || w->seen.leader.revision != r->plan.revision)
        w->seen.leader = (struct progress){.revision = r->plan.revision,
                                           .state = PROGRESS_TRAINING,
                                           .step = r->resume.step,
                                           .total_steps = 1000,
                                           .eta_seconds = -1};
    w->seen.has_leader = true;
    w->seen.leader.step++;
    if (w->ordered > 0 && one_in(3))
        w->seen.leader.ordered = (struct progress_ordered){w->ordered, one_in(3) ? 0 : 7};
    for (int s = 0; s < r->plan.n_workers; s++) {
        struct report *report = &w->reports[world_pod(w, s)->slot];

        report->lineage = r->resume.lineage;
        report->end = (struct step_end){.revision = r->plan.revision, .step = w->seen.leader.step};
        report->n_runs = 0;
        report_add(report, &(struct report_run){.first_unit = r->plan.workers[s].first_unit,
                                                .n_units = r->plan.workers[s].n_units,
                                                .step = w->seen.leader.step});
    }
    if (!one_in(10))
        return;
    w->seen.leader.state = PROGRESS_DONE;
    w->reports[world_pod(w, 0)->slot].session = REPORT_DONE;
    for (int s = 1; s < r->plan.n_workers; s++)
        end_worker(w, world_pod(w, s), 0);
}

/* What the cluster does in a second: pods start, workers finish, now and then something breaks. */
static void live(struct world *w, int *n_troubles)
{
    for (int i = 0; i < w->seen.n_pods; i++) {
        struct seen_pod *p = &w->seen.pods[i];

        if (p->role == POD_PROBE && p->phase == POD_PENDING && one_in(3)) {
            p->phase = POD_SUCCEEDED;
            p->probe = &found[0];
        } else if (p->role == POD_WORKER && p->phase == POD_PENDING && one_in(3)) {
            p->phase = POD_RUNNING;
            (void)snprintf(p->ip, sizeof p->ip, "10.0.2.%d", p->slot + 1);
        } else if (is_reader(p)) {
            live_reader(w, p);
        }
    }
    live_training(w);
    if (w->seen.n_pods > 0 && *n_troubles > 0 && one_in(10)) {
        struct seen_pod *p = &w->seen.pods[random_below((uint32_t)w->seen.n_pods)];

        (*n_troubles)--;
        if (is_reader(p))
            end_reader(w, p, false);
        else if (one_in(3) || p->role != POD_WORKER)
            world_remove_pod(w, p);
        else if (one_in(2) && p->report)
            break_session(w, p);
        else
            end_worker(w, p, 1);
    }
}

static void check_names(const struct world *w, uint64_t seed)
{
    for (int i = 0; i < w->seen.n_pods; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(w->seen.pods[i].name, w->seen.pods[k].name) == 0)
                fail_msg("seed %llu: two pods %s", (unsigned long long)seed, w->seen.pods[i].name);
}

#define LASTING SHARED ",\"failurePolicy\":{\"maxRestarts\":1000}"

/* Now and then its user suspends the job, and resumes it later. */
static void live_user(struct world *w, bool has_sizes, int *n_pauses)
{
    static const char *const specs[2][2] = {
        {FROM CONFIG_MAP LASTING "}", FROM CONFIG_MAP LASTING SUSPENDED "}"},
        {TINY CONFIG_MAP LASTING "}", TINY CONFIG_MAP LASTING SUSPENDED "}"}};
    bool suspends = w->spec.suspends;

    if (!one_in(20) || (!suspends && *n_pauses == 0))
        return;
    *n_pauses -= !suspends;
    w->seen.generation++;
    world_set_spec(w, specs[has_sizes][!suspends]);
}

/* A life in which the operator dies in the middle of every third round. */
static void decide_brings_every_life_to_its_end(void **state)
{
    int n_suspended = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= LIVES; seed++) {
        bool was_suspended = false;
        bool has_sizes;
        struct world *w;
        int n_troubles;
        int n_pauses;
        int tick = 0;

        seed_now = seed * UINT64_C(0x2545f4914f6cdd1d);
        has_sizes = one_in(2);
        w = world_new(has_sizes ? TINY CONFIG_MAP LASTING "}" : FROM CONFIG_MAP LASTING "}");
        n_troubles = (int)random_below(5);
        n_pauses = (int)random_below(3);
        w->has_data = one_in(2);
        if (!has_sizes && one_in(4))
            add_fake(w);
        for (int i = 0; i < WORLD_NODES; i++)
            w->nodes[i].annotations.gflops = one_in(2) ? 0 : 10;
        for (; tick < TICKS_MAX && !status_is_final(&w->seen.status); tick++) {
            w->seen.now_ms += TICK_MS;
            w->has_data = w->has_data || one_in(20);
            live(w, &n_troubles);
            live_user(w, has_sizes, &n_pauses);
            for (int round = 0; round < 3; round++) {
                world_decide(w);
                check_order(w, seed);
                world_apply(w, one_in(3) ? (int)random_below(4) : DECIDE_ACTIONS_MAX);
                check_names(w, seed);
            }
            was_suspended = was_suspended || status_is(&w->seen.status, CONDITION_SUSPENDED);
        }
        n_suspended += was_suspended;
        if (!status_is(&w->seen.status, CONDITION_COMPLETE))
            fail_msg("seed %llu: not complete after %d ticks: %s", (unsigned long long)seed, tick,
                     w->seen.status.message);
        if (!has_sizes && w->seen.revision.plan.spec.model.hidden != in_files.hidden)
            fail_msg("seed %llu: trained with %d", (unsigned long long)seed,
                     w->seen.revision.plan.spec.model.hidden);
        world_free(w);
    }
    assert_true(n_suspended > LIVES / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decide_comes_to_rest_from_any_state),
        cmocka_unit_test(decide_is_a_function_of_what_it_sees),
        cmocka_unit_test(decide_brings_every_life_to_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
