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

/* --- what must hold for every decision --- */

/* The highest that anything carries. */
static int newest_attempt(const struct observed *seen)
{
    int attempt = seen->status.attempt > 1 ? seen->status.attempt : 1;

    for (int i = 0; i < seen->n_plans; i++)
        attempt = seen->plan_attempts[i] > attempt ? seen->plan_attempts[i] : attempt;
    for (int i = 0; i < seen->n_pods; i++)
        if (seen->pods[i].role == POD_STAGE && seen->pods[i].attempt > attempt)
            attempt = seen->pods[i].attempt;
    return attempt;
}

static void check_order(const struct world *w, uint64_t seed)
{
    const struct observed *seen = &w->seen;
    const struct decision *d = &w->decision;

    for (int i = 0; i < d->n_actions; i++) {
        const struct action *a = &d->actions[i];

        if (a->kind == ACTION_CREATE_PLAN && seen->status.attempt != d->plan.attempt)
            fail_msg("seed %llu: a plan of attempt %d while %d is written",
                     (unsigned long long)seed, d->plan.attempt, seen->status.attempt);
        if (a->kind == ACTION_CREATE_STAGE_POD &&
            (!seen->has_plan || seen->plan.attempt != a->attempt))
            fail_msg("seed %llu: a pod without a plan", (unsigned long long)seed);
        if ((a->kind == ACTION_CREATE_STAGE_POD || a->kind == ACTION_CREATE_PROBE_POD ||
             a->kind == ACTION_CREATE_PLAN) &&
            (seen->is_deleting || status_is_final(&seen->status)))
            fail_msg("seed %llu: something is made for a job that is over",
                     (unsigned long long)seed);
        for (int k = 0; k < seen->n_pods && a->kind == ACTION_DELETE_POD; k++)
            if (strcmp(seen->pods[k].name, a->name) == 0 && seen->pods[k].role == POD_STAGE &&
                seen->pods[k].attempt >= newest_attempt(seen) && !status_is_final(&seen->status))
                fail_msg("seed %llu: pod %s of the current attempt is deleted",
                         (unsigned long long)seed, a->name);
    }
    if (d->status.attempt < seen->status.attempt || d->status.restarts < seen->status.restarts)
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

static void random_pod(struct world *w, int number)
{
    static const char *const reasons[] = {"", "", "", "ImagePullBackOff", "Evicted", "Error"};
    struct seen_pod *p = &w->seen.pods[w->seen.n_pods++];

    *p = (struct seen_pod){.role = one_in(4) ? POD_PROBE : POD_STAGE,
                           .stage = (int)random_below(4),
                           .attempt = 1 + (int)random_below(3),
                           .phase = (enum pod_phase)random_below(4),
                           .is_ready = one_in(2),
                           .is_deleting = one_in(6),
                           .is_disrupted = one_in(8),
                           .is_unschedulable = one_in(8),
                           .is_out_of_memory = one_in(8),
                           .has_peers = one_in(2),
                           .has_exit_code = one_in(2),
                           .exit_code = (int)random_below(3),
                           .cpu_milli = 500,
                           .image_asked = hash_text(one_in(4) ? "worker:2" : "worker:1"),
                           .has_progress = one_in(2),
                           .has_probe = one_in(2)};
    p->progress.cause = (enum progress_cause)random_below(5);
    p->probe = (struct node_probe){.gflops = 5, .unit_ms = 0.1, .threads = 1};
    p->probe.has_bf16 = (enum node_answer)random_below(3);
    (void)snprintf(p->digest, sizeof p->digest, "sha256:%u", 1 + random_below(2));
    p->created_ms = w->seen.now_ms - random_below(200000);
    p->finished_ms = w->seen.now_ms - random_below(20000);
    (void)snprintf(p->uid, sizeof p->uid, "random-%d", number);
    (void)snprintf(p->node, sizeof p->node, "node-%u", random_below(WORLD_NODES + 1));
    (void)snprintf(p->reason, sizeof p->reason, "%s", reasons[random_below(6)]);
    if (one_in(2))
        (void)snprintf(p->ip, sizeof p->ip, "10.0.1.%d", number);
    if (p->role == POD_PROBE)
        names_probe_pod(w->seen.name, p->node, p->name);
    else
        names_stage_pod(w->seen.name, p->stage, p->attempt, p->name);
    for (int i = 0; i < w->seen.n_pods - 1; i++)
        if (strcmp(w->seen.pods[i].name, p->name) == 0) {
            w->seen.n_pods--; /* names are unique */
            return;
        }
}

static void random_status(struct world *w)
{
    struct status *s = &w->seen.status;

    s->attempt = (int)random_below(4);
    s->restarts = (int)random_below(5);
    s->restarts_in_a_row = (int)random_below(3);
    s->memory_percent = one_in(3) ? 150 : 0;
    s->next_attempt_ms = one_in(3) ? w->seen.now_ms + 5000 - (int64_t)random_below(10) * 1000 : 0;
    s->generation = 1;
    for (int t = 0; t < CONDITION_COUNT; t++) {
        bool rare = t == CONDITION_COMPLETE || t == CONDITION_FAILED;

        s->conditions[t].value =
            rare && !one_in(10) ? CONDITION_FALSE : (enum condition_value)random_below(4);
        (void)snprintf(s->conditions[t].reason, STATUS_REASON_BYTES, "Random");
    }
    s->n_stages = (int)random_below(4);
    for (int i = 0; i < s->n_stages; i++)
        (void)snprintf(s->stages[i].state, STATUS_WORD_BYTES, "%s",
                       one_in(3) ? "Succeeded" : "Running");
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
#define SAMPLE     "\"data\":{\"source\":{\"sample\":\"MNLI\"}}"
#define CONFIG_MAP "\"data\":{\"source\":{\"configMap\":{\"name\": \"nli\"}}}"

static struct world *random_world(uint64_t seed)
{
    static const char *const specs[] = {
        NULL,
        NULL,
        TINY CONFIG_MAP "}",
        TINY CONFIG_MAP ",\"training\":{\"precision\":\"BF16\"}}",
        TINY SAMPLE ",\"placement\":{\"probePolicy\":\"Always\"}}",
        TINY SAMPLE ",\"placement\":{\"probePolicy\":\"Never\"}}",
    };
    struct spec spec;
    struct world *w;

    seed_now = seed * UINT64_C(0x9e3779b97f4a7c15);
    w = world_new(specs[random_below(6)]);
    w->seen.created_ms = w->seen.now_ms - random_below(20000);
    assert_int_equal(spec_parse(w->spec_json, &spec, NULL), ERR_OK);
    if (one_in(2))
        (void)world_settle(w); /* so that there is a plan with real stages */
    for (int i = 0; i < WORLD_NODES; i++)
        random_node(w, &spec, &w->nodes[i]);
    if (w->seen.has_plan && one_in(3)) {
        w->seen.plan.attempt = 1 + (int)random_below(3);
        w->seen.plan_attempts[0] = w->seen.plan.attempt;
    }
    if (one_in(8))
        w->seen.has_plan = false;
    if (!one_in(3))
        random_status(w);
    for (uint32_t i = random_below(8); i > 0; i--)
        random_pod(w, (int)i);
    w->seen.data = (enum data_state)random_below(3);
    w->seen.data_checked_ms = w->seen.now_ms - random_below(20000);
    w->has_data = one_in(2);
    w->seen.is_deleting = one_in(20);
    w->seen.problem =
        (struct seen_problem){.n_in_a_row = (int)random_below(3), .code = ERR_CONFLICT};
    w->seen.has_leader = one_in(2);
    w->seen.leader =
        (struct progress){.attempt = 1, .step = 3, .total_steps = 10, .eta_seconds = 4};
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

/* What the cluster does in a second: pods start, workers finish, now and then something breaks. */
static void live(struct world *w, int *n_troubles)
{
    int n_trained = 0;

    for (int i = 0; i < w->seen.n_pods; i++) {
        struct seen_pod *p = &w->seen.pods[i];

        if (p->role == POD_PROBE && p->phase == POD_PENDING && one_in(3)) {
            p->phase = POD_SUCCEEDED;
            p->has_probe = true;
            p->probe = (struct node_probe){.gflops = 9, .unit_ms = 0.1, .threads = 1};
        } else if (p->role == POD_STAGE && p->phase == POD_PENDING && one_in(3)) {
            p->phase = POD_RUNNING;
            (void)snprintf(p->ip, sizeof p->ip, "10.0.2.%d", p->stage + 1);
        }
    }
    for (int s = 0; s < w->seen.plan.n_stages; s++)
        n_trained += w->seen.has_plan && world_pod(w, s) && world_pod(w, s)->has_peers;
    if (w->seen.has_plan && n_trained == w->seen.plan.n_stages && one_in(10))
        for (int s = 0; s < w->seen.plan.n_stages; s++)
            if (world_pod(w, s)->phase == POD_RUNNING)
                world_end_pod(w, s, 0, PROGRESS_CAUSE_NONE);
    if (w->seen.n_pods > 0 && *n_troubles > 0 && one_in(10)) {
        struct seen_pod *p = &w->seen.pods[random_below((uint32_t)w->seen.n_pods)];

        (*n_troubles)--;
        if (one_in(2) || p->role == POD_PROBE)
            world_remove_pod(w, p);
        else
            world_end_pod(w, p->stage, 1, PROGRESS_CAUSE_OTHER);
    }
}

static void check_names(const struct world *w, uint64_t seed)
{
    for (int i = 0; i < w->seen.n_pods; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(w->seen.pods[i].name, w->seen.pods[k].name) == 0)
                fail_msg("seed %llu: two pods %s", (unsigned long long)seed, w->seen.pods[i].name);
}

/* A life in which the operator dies in the middle of every third round. */
static void decide_brings_every_life_to_its_end(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= LIVES; seed++) {
        struct world *w;
        int n_troubles;
        int tick = 0;

        seed_now = seed * UINT64_C(0x2545f4914f6cdd1d);
        w = world_new("{\"model\":{\"preset\":\"BertTiny\"},"
                      "\"data\":{\"source\":{\"configMap\":{\"name\": \"nli\"}}},"
                      "\"failurePolicy\":{\"maxRestarts\":1000}}");
        n_troubles = (int)random_below(5);
        w->has_data = one_in(2);
        for (int i = 0; i < WORLD_NODES; i++)
            w->nodes[i].annotations.gflops = one_in(2) ? 0 : 10;
        for (; tick < TICKS_MAX && !status_is_final(&w->seen.status); tick++) {
            w->seen.now_ms += TICK_MS;
            w->has_data = w->has_data || one_in(20);
            live(w, &n_troubles);
            for (int round = 0; round < 3; round++) {
                world_decide(w);
                check_order(w, seed);
                world_apply(w, one_in(3) ? (int)random_below(4) : DECIDE_ACTIONS_MAX);
                check_names(w, seed);
            }
        }
        if (!status_is(&w->seen.status, CONDITION_COMPLETE))
            fail_msg("seed %llu: not complete after %d ticks: %s", (unsigned long long)seed, tick,
                     w->seen.status.message);
        world_free(w);
    }
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
