#include "train/stage.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/schedule.h"
#include "begin.h"
#include "nn/gemm.h"

#define N_STEPS    4
#define N_SEQS     3 /* of a micro-batch */
#define N_MICRO    4
#define LENGTH     9
#define VOCAB      40
#define STAGES_MAX 5

/* A whole run of training, with the stages driven one after the other in this process. */
struct run {
    struct plan plan;
    struct state state;
    struct stage stages[STAGES_MAX];
    double losses[N_STEPS];
};

/* What is trained, and how. */
struct kind {
    const char *name;
    enum model_head head;
    enum spec_optimizer optimizer;
    int n_micro; /* micro-batches of a step; N_SEQS * N_MICRO sequences in all */
    enum gemm_precision precision;
    bool recompute;
};

static void make_plan(struct plan *plan, const struct kind *kind, const int *units, int n_stages)
{
    int next = 0;

    memset(plan, 0, sizeof *plan);
    plan->spec.model = (struct model){.head = kind->head,
                                      .vocab = VOCAB,
                                      .hidden = 32,
                                      .layers = 2,
                                      .heads = 4,
                                      .ffn = 64,
                                      .positions = 16,
                                      .labels = kind->head == MODEL_HEAD_REGRESSION ? 1 : 3,
                                      .norm_eps = 1e-12};
    plan->spec.training.batch_size = N_SEQS * N_MICRO;
    plan->micro_batches = kind->n_micro;
    plan->spec.training.optimizer = kind->optimizer;
    plan->spec.training.momentum = 0.9;
    plan->spec.training.beta1 = 0.9;
    plan->spec.training.beta2 = 0.999;
    plan->spec.training.epsilon = 1e-8;
    plan->spec.training.activations =
        kind->recompute ? SPEC_ACTIVATIONS_RECOMPUTE : SPEC_ACTIVATIONS_KEEP;
    plan->spec.data.mask_probability = 0.15;
    plan->spec.training.max_length = LENGTH;
    plan->spec.training.seed = 7;
    plan->spec.training.dropout = 0.1;
    plan->spec.training.learning_rate = 1e-3;
    plan->spec.training.warmup_ratio = 0.25;
    plan->spec.training.max_grad_norm = 0.5;
    plan->spec.training.weight_decay = 0.01;
    plan->n_workers = n_stages;
    for (int s = 0; s < n_stages; s++) {
        plan->workers[s].first_unit = next;
        plan->workers[s].n_units = units[s];
        next += units[s];
    }
    assert_int_equal(next, model_units(&plan->spec.model));
}

/* One masked token a sequence. */
static const int32_t *masked_ids(const int32_t *starts, int n, int32_t *rows, const int32_t *ids)
{
    static int32_t target_ids[N_SEQS * N_MICRO];

    for (int i = 0; i < n; i++) {
        rows[i] = starts[i] + 1 + i % 3;
        target_ids[i] = (ids[rows[i]] * 3 + 1) % VOCAB;
    }
    return target_ids;
}

/* Sequences of mixed length whose label depends on their tokens. */
static void make_input(const struct plan *plan, int64_t step, int micro, struct message_batch *in)
{
    static int32_t ids[N_SEQS * N_MICRO * LENGTH], types[N_SEQS * N_MICRO * LENGTH];
    static int32_t starts[N_SEQS * N_MICRO + 1], labels[N_SEQS * N_MICRO], rows[N_SEQS * N_MICRO];
    static float scores[N_SEQS * N_MICRO];
    static uint32_t samples[N_SEQS * N_MICRO];
    const struct spec *spec = &plan->spec;
    const struct message_limits limits = message_limits_of(spec, plan->micro_batches);
    int n = limits.seqs;
    int t = 0;

    for (int i = 0; i < n; i++) {
        uint32_t sample = (uint32_t)(step * 100 + micro * n + i);
        int length = 4 + (int)(sample * 7 % (LENGTH - 3));

        starts[i] = t;
        samples[i] = sample;
        labels[i] = limits.labels > 0 ? (int32_t)(sample % (uint32_t)limits.labels) : 0;
        scores[i] = (float)(sample % 5) / 2;
        for (int p = 0; p < length; p++, t++) {
            ids[t] = (int32_t)((sample * 31 + (uint32_t)p * 17 + sample % 3) % VOCAB);
            types[t] = p > length / 2;
        }
    }
    starts[n] = t;
    *in = (struct message_batch){.n_seqs = n,
                                 .n_tokens = t,
                                 .step_seqs = spec->training.batch_size,
                                 .starts = starts,
                                 .labels = limits.labels > 0 ? labels : NULL,
                                 .scores = limits.labels > 0 ? NULL : scores,
                                 .samples = samples,
                                 .ids = ids,
                                 .types = types,
                                 .step = step};
    if (limits.targets > 0) {
        in->n_targets = n;
        in->step_targets = N_SEQS * N_MICRO;
        in->rows = rows;
        in->target_ids = masked_ids(starts, n, rows, ids);
    }
}

/* One forward; `tensor` is the output of the stage before, good until the backward. */
static void run_forward(struct stage *s, int slot, const struct message_batch *in,
                        const float *tensor, struct stage_result *out)
{
    assert_int_equal(stage_load(s, slot, in, NULL), ERR_OK);
    s->slots[slot].input = tensor;
    stage_forward(s, slot, out);
}

/* All micro-batches forward through all stages and back, in micro-batch order. Slots allow only
 * S - s in flight, so each goes back before the next one starts. */
static void run_microbatch(struct run *r, int64_t step, int micro)
{
    struct stage_result result = {0};
    const float *gradient = NULL;
    struct message_batch in;

    make_input(&r->plan, step, micro, &in);
    for (int s = 0; s < r->plan.n_workers; s++)
        run_forward(&r->stages[s], 0, &in, s > 0 ? result.tensor : NULL, &result);
    r->losses[step] += result.loss.sum + result.loss.next_sum;
    for (int s = r->plan.n_workers - 1; s >= 0; s--)
        gradient = stage_backward(&r->stages[s], 0, gradient);
    assert_null(gradient);
}

/* What tie_collect() and tie_spread() do between processes. */
static void tie_by_hand(struct run *r, bool collects)
{
    const struct tie *from = &r->stages[r->plan.n_workers - 1].tie;
    const struct tie *to = &r->stages[0].tie;

    if (!to->is_tied)
        return;
    for (size_t i = 0; collects && i < to->count; i++) {
        to->owned_grads[i] += from->grads[i];
        from->grads[i] = 0;
    }
    if (!collects && from->words != to->owned)
        memcpy(from->words, to->owned, to->count * sizeof(float));
}

static struct run *run_cut(const struct kind *kind, const int *units, int n_stages)
{
    struct run *r = calloc(1, sizeof *r);

    assert_non_null(r);
    make_plan(&r->plan, kind, units, n_stages);
    for (int s = 0; s < n_stages; s++)
        begin_stage(&r->stages[s], &r->state, &r->plan, s);
    tie_by_hand(r, false);
    for (int64_t step = 0; step < N_STEPS; step++) {
        struct weights_step how = {.spec = &r->plan.spec, .share = 1, .updates = step};
        double square_sum = 0;

        for (int m = 0; m < kind->n_micro; m++)
            run_microbatch(r, step, m);
        tie_by_hand(r, true);
        for (int s = 0; s < n_stages; s++)
            square_sum = weights_square_sum(&r->stages[s].weights, square_sum);
        assert_true(square_sum > 0);
        how.rate = optimizer_rate(&r->plan.spec, step, N_STEPS);
        how.scale = optimizer_scale(square_sum, r->plan.spec.training.max_grad_norm);
        for (int s = 0; s < n_stages; s++)
            weights_update(&r->stages[s].weights, &how);
        tie_by_hand(r, false);
    }
    return r;
}

static void free_run(struct run *r)
{
    for (int s = 0; s < r->plan.n_workers; s++)
        stage_deinit(&r->stages[s]);
    state_deinit(&r->state);
    free(r);
}

static const struct weights_unit *unit_of(const struct run *r, int unit)
{
    for (int s = 0; s < r->plan.n_workers; s++) {
        const struct weights *w = &r->stages[s].weights;

        if (unit >= w->first_unit && unit < w->first_unit + w->n_units)
            return &w->units[unit - w->first_unit];
    }
    return NULL;
}

static void assert_same_weights(const struct run *cut, const struct run *whole)
{
    for (int u = 0; u < model_units(&whole->plan.spec.model); u++) {
        const struct weights_unit *a = unit_of(whole, u);
        const struct weights_unit *b = unit_of(cut, u);

        assert_int_equal(a->count, b->count);
        assert_memory_equal(a->params, b->params, a->count * sizeof(float));
    }
}

static const struct kind kinds[] = {
    {.name = "stage_cuts_change_no_bit_of_a_classifier",
     .head = MODEL_HEAD_CLASSIFIER,
     .n_micro = 4},
    {.name = "stage_cuts_change_no_bit_with_sgd",
     .head = MODEL_HEAD_CLASSIFIER,
     .optimizer = SPEC_OPTIMIZER_SGD,
     .n_micro = 4},
    {.name = "stage_cuts_change_no_bit_with_one_micro_batch",
     .head = MODEL_HEAD_CLASSIFIER,
     .n_micro = 1},
    {.name = "stage_cuts_change_no_bit_with_many_micro_batches",
     .head = MODEL_HEAD_CLASSIFIER,
     .n_micro = 12},
    {.name = "stage_cuts_change_no_bit_in_bfloat16",
     .head = MODEL_HEAD_CLASSIFIER,
     .n_micro = 1,
     .precision = GEMM_BF16},
    {.name = "stage_cuts_change_no_bit_of_a_masked_lm_in_bfloat16",
     .head = MODEL_HEAD_MASKED_LM,
     .n_micro = 2,
     .precision = GEMM_BF16},
    {.name = "stage_cuts_change_no_bit_with_recompute",
     .head = MODEL_HEAD_CLASSIFIER,
     .n_micro = 4,
     .recompute = true},
    {.name = "stage_cuts_change_no_bit_of_a_masked_lm_with_recompute",
     .head = MODEL_HEAD_MASKED_LM,
     .n_micro = 4,
     .recompute = true},
    {.name = "stage_cuts_change_no_bit_of_a_regression",
     .head = MODEL_HEAD_REGRESSION,
     .n_micro = 4},
    {.name = "stage_cuts_change_no_bit_of_a_masked_lm", .head = MODEL_HEAD_MASKED_LM, .n_micro = 4},
    {.name = "stage_cuts_change_no_bit_of_pretraining",
     .head = MODEL_HEAD_PRETRAINING,
     .n_micro = 3},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

/* Cut inside layers too: units are embeddings, attention 0, feed-forward 0, ... A language model
 * has one unit less behind the last layer. */
static void check_cuts(void **state)
{
    static const int cuts[][STAGES_MAX] = {{3, 4}, {2, 5}, {1, 5, 1}, {1, 1, 3, 1, 1}, {5, 2}};
    static const int n_stages[] = {2, 2, 3, 5, 2};
    const struct kind *kind = *state;
    int units = kind->head == MODEL_HEAD_MASKED_LM || kind->head == MODEL_HEAD_PRETRAINING ? 6 : 7;
    struct run *whole;

    if (kind->precision == GEMM_BF16 && !gemm_has_bf16()) {
        print_message("skipped: this processor has no AVX512_BF16\n");
        skip();
    }
    assert_int_equal(gemm_use(kind->precision, NULL), ERR_OK);
    whole = run_cut(kind, &units, 1);
    for (size_t c = 0; c < sizeof n_stages / sizeof n_stages[0]; c++) {
        int cut_units[STAGES_MAX];
        struct run *cut;

        memcpy(cut_units, cuts[c], sizeof cut_units);
        cut_units[n_stages[c] / 2] -= 7 - units;
        cut = run_cut(kind, cut_units, n_stages[c]);
        assert_memory_equal(cut->losses, whole->losses, sizeof whole->losses);
        assert_same_weights(cut, whole);
        free_run(cut);
    }
    free_run(whole);
    assert_int_equal(gemm_use(GEMM_FP32, NULL), ERR_OK);
}

static void stage_loss_starts_at_chance_and_moves(void **state)
{
    struct run *r = run_cut(&kinds[0], (const int[]){7}, 1);

    (void)state;
    assert_true(fabs(r->losses[0] / (N_SEQS * N_MICRO) - log(3)) < 0.1);
    assert_true(r->losses[N_STEPS - 1] != r->losses[0]);
    free_run(r);
}

static void stage_recompute_changes_no_bit_and_takes_less_memory(void **state)
{
    static const enum model_head heads[] = {MODEL_HEAD_CLASSIFIER, MODEL_HEAD_PRETRAINING};

    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        struct kind kind = {.head = heads[i], .n_micro = 4};
        const int units[] = {4, heads[i] == MODEL_HEAD_CLASSIFIER ? 3 : 2};
        struct run *keeps = run_cut(&kind, units, 2), *again;
        size_t all = stage_bytes(&keeps->plan, 0);

        kind.recompute = true;
        again = run_cut(&kind, units, 2);
        assert_memory_equal(again->losses, keeps->losses, sizeof keeps->losses);
        assert_same_weights(again, keeps);
        assert_true(stage_bytes(&again->plan, 0) < all);
        free_run(keeps);
        free_run(again);
    }
}

/* What travels between the stages of a step. */
struct edge {
    float forward[N_MICRO][N_SEQS * LENGTH * 32], backward[N_MICRO][N_SEQS * LENGTH * 32];
    int n_forward, n_backward; /* sent so far */
    struct stage_result sent;  /* the newest forward, borrowed */
};

static void do_forward(struct run *r, struct edge *edges, int s, int micro)
{
    int slot = micro % r->stages[s].n_slots;
    struct stage_result result = {0};
    struct message_batch in;

    make_input(&r->plan, 0, micro, &in);
    run_forward(&r->stages[s], slot, &in, s > 0 ? edges[s - 1].forward[micro] : NULL, &result);
    r->losses[0] += result.loss.sum;
    if (s == r->plan.n_workers - 1)
        return;
    memcpy(edges[s].forward[micro], result.tensor, result.floats * sizeof(float));
    edges[s].sent = result;
    edges[s].n_forward++;
}

static void do_backward(struct run *r, struct edge *edges, int s, int micro)
{
    const struct stage *stage = &r->stages[s];
    int slot = micro % stage->n_slots;
    const float *dout = s < r->plan.n_workers - 1 ? edges[s].backward[micro] : NULL;
    const float *din = stage_backward(&r->stages[s], slot, dout);

    if (s < r->plan.n_workers - 1) /* the sender may not have finished */
        assert_memory_equal(edges[s].sent.tensor, edges[s].forward[edges[s].n_forward - 1],
                            edges[s].sent.floats * sizeof(float));
    if (s == 0)
        return;
    memcpy(edges[s - 1].backward[micro], din, stage->slots[slot].in_floats * sizeof(float));
    edges[s - 1].n_backward++;
}

/* One step's gradients of three stages that keep to the plan's schedule, each as far as it gets. */
static struct run *run_schedule(bool is_serial, bool recompute)
{
    const struct kind kind = {.head = MODEL_HEAD_CLASSIFIER, .n_micro = 4, .recompute = recompute};
    struct edge edges[2] = {{.n_forward = 0}};
    struct run *r = calloc(1, sizeof *r);
    struct schedule schedule;
    int at[3] = {0};

    assert_non_null(r);
    make_plan(&r->plan, &kind, (const int[]){3, 2, 2}, 3);
    r->plan.is_serial = is_serial;
    schedule = schedule_of(&r->plan, 0, r->plan.spec.training.batch_size);
    for (int s = 0; s < 3; s++)
        begin_stage(&r->stages[s], &r->state, &r->plan, s);
    while (at[0] < schedule_length(&schedule))
        for (int s = 0; s < 3; s++) {
            struct schedule_op op = schedule_op(&schedule, s, at[s]);

            if (at[s] == schedule_length(&schedule) ||
                (op.is_backward ? s < 2 && edges[s].n_backward <= op.microbatch
                                : s > 0 && edges[s - 1].n_forward <= op.microbatch))
                continue;
            (op.is_backward ? do_backward : do_forward)(r, edges, s, op.microbatch);
            at[s]++;
        }
    return r;
}

static void assert_same_step(const struct run *a, const struct run *b)
{
    assert_true(a->losses[0] > 0 && a->losses[0] == b->losses[0]);
    for (int u = 0; u < model_units(&a->plan.spec.model); u++) {
        const struct weights_unit *unit = unit_of(a, u);

        assert_memory_equal(unit->grads, unit_of(b, u)->grads, unit->count * sizeof(float));
    }
}

static void stage_recompute_keeps_microbatches_in_flight_apart(void **state)
{
    struct run *keeps = run_schedule(false, false), *again = run_schedule(false, true);

    (void)state;
    assert_int_equal(again->stages[0].n_slots, 3);
    assert_same_step(keeps, again);
    free_run(keeps);
    free_run(again);
}

static void stage_serial_steps_have_the_same_bits_and_take_less_memory(void **state)
{
    struct run *piped = run_schedule(false, false), *serial = run_schedule(true, false);

    (void)state;
    assert_same_step(piped, serial);
    assert_true(stage_bytes(&serial->plan, 0) < stage_bytes(&piped->plan, 0));
    assert_true(stage_bytes(&serial->plan, 2) == stage_bytes(&piped->plan, 2));
    free_run(piped);
    free_run(serial);
}

static void stage_pretraining_starts_at_chance(void **state)
{
    struct run *r = run_cut(&kinds[N_KINDS - 1], (const int[]){6}, 1);

    (void)state;
    assert_true(fabs(r->losses[0] / (N_SEQS * N_MICRO) - log(VOCAB) - log(2)) < 0.1);
    free_run(r);
}

static void stage_load_refuses_tokens_outside_the_model(void **state)
{
    struct run *r = calloc(1, sizeof *r);
    int32_t bad_ids[N_SEQS * LENGTH];
    struct message_batch in;
    struct err err;

    (void)state;
    assert_non_null(r);
    make_plan(&r->plan, &kinds[0], (const int[]){7}, 1);
    begin_stage(&r->stages[0], &r->state, &r->plan, 0);
    make_input(&r->plan, 0, 0, &in);
    memcpy(bad_ids, in.ids, sizeof bad_ids);
    bad_ids[3] = VOCAB;
    in.ids = bad_ids;
    assert_int_equal(stage_load(&r->stages[0], 0, &in, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "token 3"));
    make_input(&r->plan, 0, 0, &in);
    r->plan.spec.model.positions = 3;
    assert_int_equal(stage_load(&r->stages[0], 0, &in, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "positions"));
    free_run(r);
}

/* A worker takes it over from the model that it starts from, after stage_init(). */
static void stage_runs_with_the_epsilon_that_the_plan_has_by_then(void **state)
{
    struct run *r = run_cut(&kinds[0], (const int[]){7}, 1);
    struct stage_result result;
    struct message_batch in;
    double before;

    (void)state;
    make_input(&r->plan, 0, 0, &in);
    run_forward(&r->stages[0], 0, &in, NULL, &result);
    before = result.loss.sum;
    r->plan.spec.model.norm_eps = 0.5;
    run_forward(&r->stages[0], 0, &in, NULL, &result);
    assert_true(result.loss.sum != before);
    free_run(r);
}

static void stage_bytes_grow_with_the_microbatches_in_flight(void **state)
{
    struct plan plan;
    size_t first;

    (void)state;
    make_plan(&plan, &kinds[0], (const int[]){3, 2, 2}, 3);
    first = stage_bytes(&plan, 0);
    plan.micro_batches = 1;
    plan.spec.training.batch_size = N_SEQS;
    assert_true(stage_bytes(&plan, 0) < first);
}

static int set_up(void **state)
{
    (void)state;
    return gemm_setup(1, NULL) == ERR_OK ? 0 : -1;
}

int main(void)
{
    static const struct CMUnitTest fixed[] = {
        cmocka_unit_test(stage_loss_starts_at_chance_and_moves),
        cmocka_unit_test(stage_recompute_changes_no_bit_and_takes_less_memory),
        cmocka_unit_test(stage_recompute_keeps_microbatches_in_flight_apart),
        cmocka_unit_test(stage_serial_steps_have_the_same_bits_and_take_less_memory),
        cmocka_unit_test(stage_pretraining_starts_at_chance),
        cmocka_unit_test(stage_load_refuses_tokens_outside_the_model),
        cmocka_unit_test(stage_runs_with_the_epsilon_that_the_plan_has_by_then),
        cmocka_unit_test(stage_bytes_grow_with_the_microbatches_in_flight),
    };
    enum { N_FIXED = sizeof fixed / sizeof fixed[0] };
    struct CMUnitTest tests[N_FIXED + N_KINDS];

    memcpy(tests, fixed, sizeof fixed);
    for (size_t i = 0; i < N_KINDS; i++)
        tests[N_FIXED + i] = (struct CMUnitTest){.name = kinds[i].name,
                                                 .test_func = check_cuts,
                                                 .initial_state = (void *)(uintptr_t)&kinds[i]};
    return _cmocka_run_group_tests("stage", tests, N_FIXED + N_KINDS, set_up, NULL);
}
