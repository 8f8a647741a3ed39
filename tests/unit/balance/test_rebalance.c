/* When units move between the workers of a running job. Every case is a sequence of looks at a
 * small model of a job: nodes that are slower than planned, noise from a fixed table, and steps
 * that take what the stages take. */
#include "balance/rebalance.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "balance/explain.h"
#include "balance/replicas.h"

#define WORKERS      3
#define LOOK_MS      30000
#define LOOK_STEPS   100
#define MANY_STEPS   1000000000
#define ROOM_BYTES   ((int64_t)16 << 30)
#define SPREAD       10 /* thousandths: the deviation of times that differ by a percent or two */
#define N_NOISE      ((int)(sizeof noise / sizeof noise[0]))
#define LOOKS_TO_ACT (REBALANCE_TIMES + 2)
#define FEW_STEPS    10 /* of a second or so */

/* Shares from -1 to 1, whose sum is 0. */
static const double noise[] = {0.31, -0.84, 0.12, 0.97, -0.45, -0.09, 0.66, -1.0, 0.05, -0.22,
                               0.78, -0.61, 0.4,  0.19, -0.73, 0.52,  -0.3, 0.88, 0.07, -0.81};

/* A job that trains, as it is seen from outside. */
struct job {
    struct spec spec;
    struct plan plan;
    struct node nodes[WORKERS]; /* as they were planned with */
    double times[WORKERS];      /* as long as planned, really */
    double extra_ms;            /* that every stage takes beside its units */
    double noise;               /* share of all times */
    int spread;                 /* that is reported */
    double moved_times; /* a step with another cut than the first one takes so much longer */
    struct plan first;
    const int64_t *room_bytes; /* of the workers' nodes; NULL: no pod is made anew */
    struct progress measured;
    struct status_rebalance memory;
    enum spec_rebalance mode;
    int64_t now_ms;
    int n_looks, n_moves, n_backs, n_suggestions;
};

static struct partition_request request_of(const struct job *j)
{
    struct partition_request r = partition_request_of(&j->spec);

    r.job.micro_batches = 8;
    r.nodes = j->nodes;
    r.n_nodes = WORKERS;
    r.min_stages = r.max_stages = WORKERS;
    return r;
}

/* Cut as the planner does it. */
static void make_plan(struct job *j)
{
    struct partition_request r = request_of(j);
    struct placement placement;

    assert_int_equal(partition_solve(&r, &placement, NULL), ERR_OK);
    j->plan.revision = 1;
    placement_to_plan(&r, &placement, &j->plan);
    j->first = j->plan;
}

/* BertSmall on three nodes that are alike. */
static void begin(struct job *j)
{
    static const char text[] =
        "{\"model\":{\"preset\":\"BertSmall\"},\"data\":{\"source\":{\"sample\":\"MNLI\"}}}";
    struct json *json = NULL;

    *j = (struct job){.spread = SPREAD, .moved_times = 1, .now_ms = INT64_C(1800000000000)};
    assert_int_equal(json_parse(text, strlen(text), &json, NULL), ERR_OK);
    assert_int_equal(spec_parse(json, &j->spec, NULL), ERR_OK);
    json_free(json);
    for (int i = 0; i < WORKERS; i++) {
        j->nodes[i] = (struct node){.cpu_milli = 1000, .memory_bytes = ROOM_BYTES, .gflops = 40};
        (void)snprintf(j->nodes[i].name, sizeof j->nodes[i].name, "node-%d", i);
        j->times[i] = 1;
    }
    make_plan(j);
    j->measured =
        (struct progress){.state = PROGRESS_TRAINING, .revision = 1, .total_steps = MANY_STEPS};
}

static double stage_ms(const struct job *j, int i)
{
    struct partition_request r = request_of(j);
    struct cost_unit units[MODEL_UNITS_MAX];
    double ms = 0;

    cost_of_units(&r.job, units);
    for (int u = 0; u < j->plan.workers[i].n_units; u++)
        ms += cost_unit_ms(&units[j->plan.workers[i].first_unit + u], &j->nodes[i]);
    return ms * j->times[i] + j->extra_ms;
}

static bool has_first_cut(const struct job *j)
{
    bool has = true;

    for (int i = 0; i < WORKERS; i++)
        has = has && j->plan.workers[i].n_units == j->first.workers[i].n_units;
    return has;
}

/* What the leader reports after some more steps. */
static void measure(struct job *j)
{
    struct progress *p = &j->measured;
    double most_ms = 0, sum_ms = 0;

    p->n_stage_ms = WORKERS;
    for (int i = 0; i < WORKERS; i++) {
        double off = j->noise * noise[(7 * j->n_looks + 3 * i) % N_NOISE];

        p->stage_ms[i] = stage_ms(j, i) * (1 + off);
        most_ms = fmax(most_ms, p->stage_ms[i]);
        sum_ms += p->stage_ms[i];
    }
    p->window.step_ms = (sum_ms + 7 * most_ms) * (has_first_cut(j) ? 1 : j->moved_times);
    p->window.mad_ms = most_ms * j->spread / 1000;
    p->window.n_samples += REBALANCE_SAMPLES;
    p->step += LOOK_STEPS;
    j->now_ms += LOOK_MS;
    j->n_looks++;
}

/* The next revision has the decision's cut. */
static void apply(struct job *j, struct rebalance_decision *d)
{
    int unit = 0;

    assert_int_equal(d->next.n_next, WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        struct plan_worker *w = &j->plan.workers[i];

        assert_int_equal(d->next.next[i].slot, w->slot);
        assert_true(d->next.next[i].n_units >= 1);
        w->first_unit = unit;
        w->n_units = d->next.next[i].n_units;
        w->predicted_ms = d->next.next[i].predicted_ms;
        unit += w->n_units;
    }
    assert_int_equal(unit, model_units(&j->spec.model));
    j->measured.revision = d->next.revision = ++j->plan.revision;
    j->measured.window = (struct progress_window){.n_samples = 0};
}

/* Look once; returns what was decided. */
static enum rebalance_kind look(struct job *j)
{
    struct rebalance_input in = {.plan = &j->plan,
                                 .request = request_of(j),
                                 .room_bytes = j->room_bytes,
                                 .measured = &j->measured,
                                 .mode = j->mode,
                                 .last = &j->memory};
    struct rebalance_decision d;

    measure(j);
    in.now_ms = j->now_ms;
    assert_true(rebalance_is_due(&j->plan, &j->measured, false, &j->memory));
    assert_int_equal(rebalance_decide(&in, &d, NULL), ERR_OK);
    assert_true(d.next.message[0] && d.next.decision[0]);
    assert_in_range(d.next.gain_percent, 0, 100);
    j->n_moves += d.kind == REBALANCE_MOVE;
    j->n_backs += d.kind == REBALANCE_BACK;
    j->n_suggestions += d.kind == REBALANCE_SUGGEST && d.is_new;
    if (d.kind == REBALANCE_MOVE || d.kind == REBALANCE_BACK)
        apply(j, &d);
    j->memory = d.next;
    assert_true(d.kind == REBALANCE_GROW || /* after which there is no look until it is done */
                !rebalance_is_due(&j->plan, &j->measured, false, &j->memory));
    return d.kind;
}

static void look_often(struct job *j, int n)
{
    for (int i = 0; i < n; i++)
        (void)look(j);
}

static double true_step_ms(const struct job *j)
{
    double most_ms = 0, sum_ms = 0;

    for (int i = 0; i < WORKERS; i++) {
        most_ms = fmax(most_ms, stage_ms(j, i));
        sum_ms += stage_ms(j, i);
    }
    return sum_ms + 7 * most_ms;
}

/* The shortest step of all cuts, counted out. */
static double least_step_ms(struct job *j)
{
    int n = model_units(&j->spec.model);
    struct plan plan = j->plan;
    double least = INFINITY;

    for (int a = 1; a < n - 1; a++)
        for (int b = a + 1; b < n; b++) {
            int first[] = {0, a, b, n};

            for (int i = 0; i < WORKERS; i++) {
                j->plan.workers[i].first_unit = first[i];
                j->plan.workers[i].n_units = first[i + 1] - first[i];
            }
            least = fmin(least, true_step_ms(j));
        }
    j->plan = plan;
    return least;
}

static void nothing_moves_while_all_is_as_planned(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    look_often(&j, 100);
    assert_int_equal(j.n_moves + j.n_backs, 0);
    assert_string_equal(j.memory.decision, "Kept");
    assert_int_equal(j.memory.gain_percent, 0);
}

/* Medians that wander by a seventh of the plan, and by more where single times do. */
static void noise_moves_nothing_in_a_thousand_looks(void **state)
{
    static const struct {
        double noise;
        int spread;
    } rows[] = {{0.05, 5}, {0.14, 1}, {0.25, 130}, {0.6, 310}};

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct job j;

        begin(&j);
        j.noise = rows[r].noise;
        j.spread = rows[r].spread;
        look_often(&j, 1000);
        assert_int_equal(j.n_moves + j.n_backs, 0);
    }
}

static void a_node_three_times_slower_moves_units_once(void **state)
{
    (void)state;
    for (int slow = 0; slow < WORKERS; slow++) {
        struct job j;
        double before_ms;

        begin(&j);
        j.noise = 0.02;
        look_often(&j, 5);
        j.times[slow] = 3;
        before_ms = true_step_ms(&j);
        look_often(&j, LOOKS_TO_ACT);
        assert_int_equal(j.n_moves, 1);
        assert_true(j.plan.workers[slow].n_units < j.first.workers[slow].n_units);
        assert_true(true_step_ms(&j) < 0.75 * before_ms);
        assert_true(true_step_ms(&j) < 1.05 * least_step_ms(&j));
        look_often(&j, 200);
        assert_int_equal(j.n_moves, 1);
        assert_int_equal(j.n_backs, 0);
    }
}

static void units_return_when_the_node_is_fast_again(void **state)
{
    (void)state;
    for (int slow = 0; slow < WORKERS; slow++) {
        struct job j;

        begin(&j);
        j.noise = 0.02;
        j.times[slow] = 3;
        look_often(&j, 20);
        assert_int_equal(j.n_moves, 1);
        j.times[slow] = 1;
        look_often(&j, 200);
        assert_int_equal(j.n_moves, 2);
        assert_int_equal(j.n_backs, 0);
        assert_true(true_step_ms(&j) < 1.05 * least_step_ms(&j));
    }
}

/* The last node was thought to be so much slower than the others that it has the head only. In
 * truth they are alike. */
static void begin_with_a_stage_that_has_little_to_do(struct job *j, double first_gflops,
                                                     double last_gflops)
{
    begin(j);
    for (int i = 0; i < WORKERS; i++) {
        j->nodes[i].gflops = i == WORKERS - 1 ? last_gflops : first_gflops;
        j->times[i] = j->nodes[i].gflops / 40;
    }
    make_plan(j);
    assert_int_equal(j->plan.workers[WORKERS - 1].n_units, 1);
}

/* What it takes beside its unit, three times as long as that was planned, does not count. */
static void a_stage_with_little_to_do_shows_no_slow_node(void **state)
{
    struct job j;

    (void)state;
    begin_with_a_stage_that_has_little_to_do(&j, 400, 40);
    j.extra_ms = 2 * j.plan.workers[WORKERS - 1].predicted_ms;
    look_often(&j, 200);
    assert_int_equal(j.n_moves, 1);
    assert_int_equal(j.n_backs, 0);
    assert_true(true_step_ms(&j) < 1.05 * least_step_ms(&j));
}

static void a_stage_with_little_to_do_shows_a_fast_node(void **state)
{
    struct job j;

    (void)state;
    begin_with_a_stage_that_has_little_to_do(&j, 40, 4);
    look_often(&j, 200);
    assert_int_equal(j.n_moves, 1);
    assert_int_equal(j.n_backs, 0);
    assert_true(true_step_ms(&j) < 1.05 * least_step_ms(&j));
}

static void a_wrong_prediction_is_taken_back_once(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    j.times[1] = 2;
    j.moved_times = 2;
    look_often(&j, LOOKS_TO_ACT + 1);
    assert_int_equal(j.n_moves, 1);
    assert_int_equal(j.n_backs, 1);
    assert_true(has_first_cut(&j));
    assert_true(j.memory.doubt_percent > 100);
    look_often(&j, 1000);
    assert_int_equal(j.n_moves, 1);
    assert_int_equal(j.n_backs, 1);
}

/* The doubt is not more than the prediction was wrong by. */
static void after_a_wrong_prediction_a_much_slower_node_still_moves_units(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    j.times[1] = 2;
    j.moved_times = 1.8;
    look_often(&j, 10);
    assert_int_equal(j.n_backs, 1);
    j.times[1] = 20;
    look_often(&j, 100);
    assert_int_equal(j.n_moves, 2);
    assert_int_equal(j.n_backs, 1);
}

static void one_look_moves_nothing(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    j.times[0] = 3;
    assert_int_equal(look(&j), REBALANCE_KEEP);
    assert_int_equal(j.memory.n_seen, 1);
    j.times[0] = 1;
    assert_int_equal(look(&j), REBALANCE_KEEP);
    assert_int_equal(j.memory.n_seen, 0);
    j.times[0] = 3;
    assert_int_equal(look(&j), REBALANCE_KEEP);
    assert_int_equal(look(&j), REBALANCE_MOVE);
}

static void after_a_move_the_next_one_waits(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    j.times[0] = 3;
    look_often(&j, REBALANCE_TIMES);
    assert_int_equal(j.n_moves, 1);
    assert_int_equal(j.memory.hold_ms, j.now_ms + REBALANCE_HOLD_MS);
    assert_int_equal(j.memory.hold_step, j.measured.step + REBALANCE_HOLD_STEPS);
    j.memory.hold_ms += 4 * LOOK_MS;
    j.times[0] = 1;
    look_often(&j, 5);
    assert_int_equal(j.n_moves, 1);
    assert_non_null(strstr(j.memory.message, "Waiting"));
    look_often(&j, 5);
    assert_int_equal(j.n_moves, 2);
}

/* The clock was set back: no pause is that long. */
static void a_pause_does_not_last_for_ever(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    j.memory.hold_ms = j.now_ms + INT64_C(1000000000);
    j.times[0] = 3;
    look_often(&j, REBALANCE_TIMES);
    assert_int_equal(j.n_moves, 1);
}

static void suggest_suggests_once_and_moves_nothing(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    j.mode = SPEC_REBALANCE_SUGGEST;
    j.times[2] = 3;
    look_often(&j, 50);
    assert_int_equal(j.n_moves, 0);
    assert_int_equal(j.n_suggestions, 1);
    assert_string_equal(j.memory.decision, "Suggested");
    assert_in_range(j.memory.gain_percent, 20, 90);
}

static void a_move_must_pay_in_the_steps_that_are_left(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    j.times[0] = 3;
    j.measured.total_steps = 3 * LOOK_STEPS + 3;
    look_often(&j, 3);
    assert_int_equal(j.n_moves, 1); /* a hundred steps are left at the second look */
    begin(&j);
    j.times[0] = 3;
    j.measured.total_steps = 2 * LOOK_STEPS + 3;
    look_often(&j, 2);
    assert_int_equal(j.n_moves, 0);
    assert_non_null(strstr(j.memory.message, "3 steps that are left"));
}

static void a_small_gain_is_no_reason(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    j.times[0] = 1.16;
    look_often(&j, 20);
    assert_int_equal(j.n_moves, 0);
}

/* No pod has more memory than its stage needs. */
static void begin_without_room(struct job *j)
{
    struct partition_request r;
    struct placement placement;

    begin(j);
    r = request_of(j);
    assert_int_equal(partition_solve(&r, &placement, NULL), ERR_OK);
    for (int i = 0; i < WORKERS; i++)
        j->nodes[i].memory_bytes = placement.stages[i].memory_bytes;
    j->times[0] = 3;
}

static void units_stay_where_no_pod_has_room(void **state)
{
    struct job j;

    (void)state;
    begin_without_room(&j);
    look_often(&j, 10);
    assert_int_equal(j.n_moves, 0);
}

static const int64_t much[WORKERS] = {ROOM_BYTES, ROOM_BYTES, ROOM_BYTES};

/* The worker that loses units keeps its pod. */
static void workers_get_more_memory_where_their_nodes_have_it(void **state)
{
    struct job j;

    (void)state;
    begin_without_room(&j);
    j.room_bytes = much;
    for (int i = 1; i < REBALANCE_TIMES; i++)
        assert_int_equal(look(&j), REBALANCE_KEEP);
    assert_int_equal(look(&j), REBALANCE_GROW);
    assert_string_equal(j.memory.decision, "Growing");
    assert_int_equal(j.memory.n_next, WORKERS);
    assert_true(j.memory.next[0].n_units < j.plan.workers[0].n_units);
    for (int s = 0; s < WORKERS; s++)
        assert_int_equal(j.memory.next[s].grows,
                         j.memory.next[s].n_units > j.plan.workers[s].n_units);
    assert_non_null(strstr(j.memory.message, " on node node-1 and node node-2 must be started "
                                             "again with more memory, from a checkpoint. "));
    assert_in_range(j.memory.gain_percent, 20, 90);
}

static void no_worker_gets_more_memory_where_units_can_move_without(void **state)
{
    struct job j;

    (void)state;
    begin(&j); /* whose pods have room */
    j.room_bytes = much;
    j.times[0] = 3;
    look_often(&j, LOOKS_TO_ACT);
    assert_int_equal(j.n_moves, 1);
}

static void no_worker_gets_more_memory_near_the_end(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    j.times[0] = 3;
    j.measured.total_steps = REBALANCE_TIMES * LOOK_STEPS + FEW_STEPS;
    look_often(&j, REBALANCE_TIMES);
    assert_int_equal(j.n_moves, 1); /* which starts no pod */
    begin_without_room(&j);
    j.room_bytes = much;
    j.measured.total_steps = REBALANCE_TIMES * LOOK_STEPS + FEW_STEPS;
    for (int i = 0; i < REBALANCE_TIMES; i++)
        assert_int_equal(look(&j), REBALANCE_KEEP);
    assert_non_null(strstr(j.memory.message, "does not pay off"));
}

static void no_worker_gets_more_memory_than_its_node_has(void **state)
{
    int64_t room[WORKERS];
    struct job j;

    (void)state;
    begin_without_room(&j);
    for (int i = 0; i < WORKERS; i++)
        room[i] = j.nodes[i].memory_bytes;
    j.room_bytes = room;
    look_often(&j, 10);
    assert_int_equal(j.n_moves, 0);
    assert_string_equal(j.memory.decision, "Kept");
}

/* The pod that gives units away keeps them until the first step is over. */
static void units_move_as_far_as_there_is_room(void **state)
{
    int n_full;
    struct job j;

    (void)state;
    begin(&j);
    j.times[0] = 3;
    look_often(&j, 5);
    n_full = j.plan.workers[2].n_units;
    begin(&j);
    j.times[0] = 3;
    for (int i = 0; i < WORKERS; i++)
        j.nodes[i].memory_bytes = j.plan.workers[i].memory_bytes; /* the limit of its pod */
    look_often(&j, 5);
    assert_true(j.plan.workers[2].n_units <= n_full);
    assert_true(j.plan.workers[0].n_units <= j.first.workers[0].n_units);
}

static void units_do_not_go_back_to_workers_that_are_gone(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    j.times[1] = 2;
    j.moved_times = 2;
    look_often(&j, REBALANCE_TIMES);
    assert_int_equal(j.n_moves, 1);
    j.memory.last[1].slot = 65;
    look_often(&j, 3);
    assert_int_equal(j.n_backs, 0);
}

/* A recovery has made another revision meanwhile. */
static void what_happened_in_an_earlier_revision_is_not_judged(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    j.times[1] = 2;
    j.moved_times = 2;
    look_often(&j, REBALANCE_TIMES);
    assert_int_equal(j.n_moves, 1);
    j.measured.revision = ++j.plan.revision;
    look_often(&j, 3);
    assert_int_equal(j.n_backs, 0);
}

static void a_look_needs_new_samples_of_this_revision(void **state)
{
    struct job j;
    struct progress *p = &j.measured;

    (void)state;
    begin(&j);
    measure(&j);
    assert_true(rebalance_is_due(&j.plan, p, false, &j.memory));
    p->window.n_samples = REBALANCE_SAMPLES - 1;
    assert_false(rebalance_is_due(&j.plan, p, false, &j.memory));
    j.memory = (struct status_rebalance){.revision = 1, .samples = REBALANCE_SAMPLES};
    p->window.n_samples = REBALANCE_SAMPLES + REBALANCE_EVERY - 1;
    assert_false(rebalance_is_due(&j.plan, p, false, &j.memory));
    p->window.n_samples++;
    assert_true(rebalance_is_due(&j.plan, p, false, &j.memory));
    p->state = PROGRESS_EVALUATING;
    assert_false(rebalance_is_due(&j.plan, p, false, &j.memory));
    p->state = PROGRESS_TRAINING;
    p->revision = 2;
    assert_false(rebalance_is_due(&j.plan, p, false, &j.memory));
    p->revision = 1;
    p->stage_ms[1] = 0;
    assert_false(rebalance_is_due(&j.plan, p, false, &j.memory));
}

/* Of any combination: the cut is whole, and a move makes the true step shorter. */
static void every_move_makes_the_step_shorter(void **state)
{
    static const double times[] = {0.3, 0.7, 1, 1.5, 4};
    const int n = (int)(sizeof times / sizeof times[0]);

    (void)state;
    for (int k = 0; k < n * n * n; k++) {
        struct job j;
        double before_ms;

        begin(&j);
        j.times[0] = times[k % n];
        j.times[1] = times[k / n % n];
        j.times[2] = times[k / n / n];
        before_ms = true_step_ms(&j);
        look_often(&j, 30);
        assert_int_equal(j.n_backs, 0);
        assert_in_range(j.n_moves, 0, 1);
        assert_true(j.n_moves == 0 || true_step_ms(&j) < 0.95 * before_ms);
        assert_true(true_step_ms(&j) < 1.15 * least_step_ms(&j));
    }
}

/* --- nodes that join --- */

/* `n` free nodes like the others, but so many times as fast. A look with so many stages at most. */
static enum rebalance_kind look_with(struct job *j, int n_free, double times, int most,
                                     struct rebalance_decision *out)
{
    struct node nodes[WORKERS + REBALANCE_JOIN_MAX];
    struct rebalance_input in = {.plan = &j->plan,
                                 .request = request_of(j),
                                 .measured = &j->measured,
                                 .mode = j->mode,
                                 .last = &j->memory};

    measure(j);
    in.now_ms = j->now_ms;
    memcpy(nodes, j->nodes, sizeof j->nodes);
    for (int i = 0; i < n_free; i++) {
        nodes[WORKERS + i] = j->nodes[0];
        nodes[WORKERS + i].gflops = 40 * times;
        (void)snprintf(nodes[WORKERS + i].name, sizeof nodes[0].name, "free-%d", i);
    }
    in.request.nodes = nodes;
    in.request.n_nodes = WORKERS + n_free;
    in.request.max_stages = most;
    assert_int_equal(rebalance_decide(&in, out, NULL), ERR_OK);
    j->memory = out->next;
    return out->kind;
}

static int n_joining(const struct rebalance_decision *d)
{
    int n = 0;

    for (int i = 0; i < d->next.n_next; i++)
        n += d->next.next[i].slot >= REBALANCE_SLOT_JOINS;
    return n;
}

static int units_of(const struct rebalance_decision *d)
{
    int n = 0;

    for (int i = 0; i < d->next.n_next; i++)
        n += d->next.next[i].n_units;
    return n;
}

static void a_free_node_joins_after_two_looks(void **state)
{
    struct rebalance_decision d;
    struct job j;

    (void)state;
    begin(&j);
    assert_int_equal(look_with(&j, 1, 1, WORKERS + 1, &d), REBALANCE_KEEP);
    assert_int_equal(look_with(&j, 1, 1, WORKERS + 1, &d), REBALANCE_JOIN);
    assert_int_equal(d.next.n_next, WORKERS + 1);
    assert_int_equal(n_joining(&d), 1);
    assert_int_equal(units_of(&d), model_units(&j.spec.model));
    assert_int_equal(d.next.next[0].slot, j.plan.workers[0].slot);
    assert_string_equal(d.next.decision, "Joining");
    assert_non_null(strstr(d.next.message, "Node free-0 can join. With "));
    assert_in_range(d.next.gain_percent, 10, 40);
    assert_int_equal(d.next.n_last, WORKERS);
}

static void several_free_nodes_join_if_each_is_worth_it(void **state)
{
    static const struct {
        double times;
        int n;
    } rows[] = {{2, 2}, {0.1, 0}};

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct rebalance_decision d;
        struct job j;

        begin(&j);
        for (int i = 0; i < REBALANCE_TIMES; i++)
            (void)look_with(&j, 2, rows[r].times, WORKERS + 2, &d);
        assert_int_equal(n_joining(&d), rows[r].n);
        assert_int_equal(d.kind, rows[r].n > 0 ? REBALANCE_JOIN : REBALANCE_KEEP);
    }
}

static void no_node_joins_beyond_the_most_stages(void **state)
{
    struct rebalance_decision d;
    struct job j;

    (void)state;
    begin(&j);
    for (int i = 0; i < 10; i++)
        assert_int_equal(look_with(&j, 1, 1, WORKERS, &d), REBALANCE_KEEP);
}

/* The first one stays, since it has the data. */
static void a_slow_worker_leaves_for_a_free_node(void **state)
{
    (void)state;
    for (int slow = 0; slow < WORKERS; slow++) {
        struct rebalance_decision d;
        struct job j;
        bool stays = false;

        begin(&j);
        j.times[slow] = 4;
        for (int i = 0; i < REBALANCE_TIMES; i++)
            (void)look_with(&j, 1, 1, WORKERS, &d);
        assert_int_equal(d.kind, slow > 0 ? REBALANCE_JOIN : d.kind);
        assert_int_equal(d.next.n_next, WORKERS);
        for (int i = 0; i < WORKERS; i++)
            stays = stays || d.next.next[i].slot == j.plan.workers[slow].slot;
        assert_true(stays == (slow == 0));
        assert_int_equal(d.next.next[0].slot, j.plan.workers[0].slot);
        assert_true((strstr(d.next.message, "leaves") != NULL) == (n_joining(&d) > 0));
    }
}

/* All take three times as long as their nodes were measured, or a third: so will the one that
 * joins.
 */
static void a_free_node_is_as_far_off_its_measurement_as_the_workers(void **state)
{
    static const struct {
        double workers, free;
        int n;
    } rows[] = {{3, 0.3, 0}, {3, 1, 1}, {0.33, 1, 1}, {0.33, 0.3, 0}};

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct rebalance_decision d;
        struct job j;

        begin(&j);
        for (int i = 0; i < WORKERS; i++)
            j.times[i] = rows[r].workers;
        for (int i = 0; i < REBALANCE_TIMES; i++)
            (void)look_with(&j, 1, rows[r].free, WORKERS + 1, &d);
        assert_int_equal(n_joining(&d), rows[r].n);
    }
}

static void no_node_joins_near_the_end(void **state)
{
    struct rebalance_decision d;
    struct job j;

    (void)state;
    begin(&j);
    j.measured.total_steps = 2 * LOOK_STEPS + 1;
    for (int i = 0; i < REBALANCE_TIMES; i++)
        assert_int_equal(look_with(&j, 1, 1, WORKERS + 1, &d), REBALANCE_KEEP);
}

/* --- replicas --- */

#define REPLICAS 3

/* The exchange takes next to nothing. */
static const struct cost_link quick = {.bytes_per_s = 1e12, .latency_ms = 0.01};

/* The job as replicas of one stage each. */
static void begin_replicas(struct job *j)
{
    struct partition_request r;
    static struct replicas planned;

    begin(j);
    j->spec.placement.min_stages = j->spec.placement.max_stages = 1;
    r = request_of(j);
    r.min_stages = r.max_stages = 1;
    r.link = quick;
    assert_int_equal(replicas_choose(&r, REPLICAS, &planned, NULL), ERR_OK);
    replicas_to_plan(&r, &planned, &j->plan);
    j->first = j->plan;
    (void)snprintf(j->measured.sync.protocol, sizeof j->measured.sync.protocol, "BSP");
}

static double micro_batch_ms(const struct job *j, int k)
{
    return j->first.workers[k].predicted_ms * j->times[k];
}

static double replica_ms(const struct job *j, int k)
{
    return j->plan.shares[k] * micro_batch_ms(j, k);
}

/* One look, and the revision that follows from it. */
static struct rebalance_decision look_at_replicas(struct job *j)
{
    struct rebalance_input in = {.plan = &j->plan,
                                 .request = request_of(j),
                                 .measured = &j->measured,
                                 .mode = SPEC_REBALANCE_AUTO,
                                 .last = &j->memory};
    struct progress *m = &j->measured;
    struct rebalance_decision d;

    in.request.link = quick;
    m->n_stage_ms = REPLICAS;
    m->window.step_ms = 0;
    for (int k = 0; k < REPLICAS; k++) {
        m->stage_ms[k] = micro_batch_ms(j, k);
        m->window.step_ms = fmax(m->window.step_ms, replica_ms(j, k));
    }
    m->window.step_ms *=
        memcmp(j->plan.shares, j->first.shares, sizeof j->plan.shares) == 0 ? 1 : j->moved_times;
    m->window.mad_ms = 0.01;
    m->window.n_samples += REBALANCE_SAMPLES;
    m->step += LOOK_STEPS;
    in.now_ms = j->now_ms += LOOK_MS;
    assert_int_equal(rebalance_decide(&in, &d, NULL), ERR_OK);
    j->memory = d.next;
    if (d.kind != REBALANCE_MOVE && d.kind != REBALANCE_BACK)
        return d;
    assert_int_equal(d.next.n_next, REPLICAS);
    for (int k = 0; k < REPLICAS; k++) {
        assert_int_equal(d.next.next[k].slot, j->plan.workers[k].slot);
        j->plan.shares[k] = d.next.next[k].micro_batches;
        j->plan.workers[k].predicted_ms = d.next.next[k].predicted_ms;
    }
    m->revision = j->memory.revision = ++j->plan.revision;
    m->window.n_samples = 0;
    return d;
}

static int look_at_replicas_often(struct job *j, enum rebalance_kind kind)
{
    int n = 0;

    for (int i = 0; i < 30; i++)
        n += look_at_replicas(j).kind == kind;
    return n;
}

static void shares_follow_a_replica_that_becomes_slow(void **state)
{
    struct job j;

    (void)state;
    begin_replicas(&j);
    assert_int_equal(look_at_replicas_often(&j, REBALANCE_MOVE), 0);
    j.times[1] = 3;
    assert_int_equal(look_at_replicas_often(&j, REBALANCE_MOVE), 1);
    assert_true(j.plan.shares[1] < j.first.shares[1]);
    assert_int_equal(j.plan.shares[0] + j.plan.shares[1] + j.plan.shares[2], 8);
    assert_true(replica_ms(&j, 1) <= 1.01 * replica_ms(&j, 0));
    j.times[1] = 1;
    assert_int_equal(look_at_replicas_often(&j, REBALANCE_MOVE), 1);
    assert_true(j.plan.shares[1] >= 2);
}

static void a_decision_about_replicas_names_their_shares(void **state)
{
    struct rebalance_decision d;
    struct job j;

    (void)state;
    begin_replicas(&j);
    j.times[1] = 3;
    do
        d = look_at_replicas(&j);
    while (d.kind != REBALANCE_MOVE);
    assert_non_null(strstr(d.next.message, "instead of the planned"));
    assert_non_null(strstr(d.next.message, " of 8 micro-batches instead of "));
    assert_null(strstr(d.next.message, "units per stage"));
}

static void shares_go_back_when_steps_are_longer_with_them(void **state)
{
    struct job j;

    (void)state;
    begin_replicas(&j);
    j.times[1] = 3;
    j.moved_times = 3;
    assert_int_equal(look_at_replicas_often(&j, REBALANCE_BACK), 1);
    assert_memory_equal(j.plan.shares, j.first.shares, sizeof j.plan.shares);
}

/* A replica that is free takes the next ticket: shares are of no use but for the homes. */
static void replicas_out_of_step_keep_their_shares(void **state)
{
    struct job j;

    (void)state;
    begin_replicas(&j);
    (void)snprintf(j.measured.sync.protocol, sizeof j.measured.sync.protocol, "Local");
    j.times[1] = 3;
    assert_int_equal(look_at_replicas_often(&j, REBALANCE_MOVE), 0);
    assert_string_equal(j.memory.decision, "Kept");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_moves_while_all_is_as_planned),
        cmocka_unit_test(noise_moves_nothing_in_a_thousand_looks),
        cmocka_unit_test(a_node_three_times_slower_moves_units_once),
        cmocka_unit_test(units_return_when_the_node_is_fast_again),
        cmocka_unit_test(a_stage_with_little_to_do_shows_no_slow_node),
        cmocka_unit_test(a_stage_with_little_to_do_shows_a_fast_node),
        cmocka_unit_test(a_wrong_prediction_is_taken_back_once),
        cmocka_unit_test(after_a_wrong_prediction_a_much_slower_node_still_moves_units),
        cmocka_unit_test(one_look_moves_nothing),
        cmocka_unit_test(after_a_move_the_next_one_waits),
        cmocka_unit_test(a_pause_does_not_last_for_ever),
        cmocka_unit_test(suggest_suggests_once_and_moves_nothing),
        cmocka_unit_test(a_move_must_pay_in_the_steps_that_are_left),
        cmocka_unit_test(a_small_gain_is_no_reason),
        cmocka_unit_test(units_stay_where_no_pod_has_room),
        cmocka_unit_test(workers_get_more_memory_where_their_nodes_have_it),
        cmocka_unit_test(no_worker_gets_more_memory_where_units_can_move_without),
        cmocka_unit_test(no_worker_gets_more_memory_near_the_end),
        cmocka_unit_test(no_worker_gets_more_memory_than_its_node_has),
        cmocka_unit_test(units_move_as_far_as_there_is_room),
        cmocka_unit_test(units_do_not_go_back_to_workers_that_are_gone),
        cmocka_unit_test(what_happened_in_an_earlier_revision_is_not_judged),
        cmocka_unit_test(a_look_needs_new_samples_of_this_revision),
        cmocka_unit_test(every_move_makes_the_step_shorter),
        cmocka_unit_test(a_free_node_joins_after_two_looks),
        cmocka_unit_test(several_free_nodes_join_if_each_is_worth_it),
        cmocka_unit_test(no_node_joins_beyond_the_most_stages),
        cmocka_unit_test(a_slow_worker_leaves_for_a_free_node),
        cmocka_unit_test(a_free_node_is_as_far_off_its_measurement_as_the_workers),
        cmocka_unit_test(no_node_joins_near_the_end),
        cmocka_unit_test(shares_follow_a_replica_that_becomes_slow),
        cmocka_unit_test(a_decision_about_replicas_names_their_shares),
        cmocka_unit_test(shares_go_back_when_steps_are_longer_with_them),
        cmocka_unit_test(replicas_out_of_step_keep_their_shares),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
