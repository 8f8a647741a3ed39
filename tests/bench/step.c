#include "step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/schedule.h"
#include "base/clock.h"
#include "bench.h"
#include "nn/gemm.h"

#define PEAK_SIZE     1024
#define MASKED_SHARE  0.15
#define MIX_LENGTHS   32
#define TOKEN_STRIDE  7919 /* a prime: ids spread over the vocabulary */
#define LEARNING_RATE 1e-5
#define DROPOUT       0.1

/* The quantiles 1/64, 3/64 .. 63/64 of a log-normal distribution with MNLI's mean of 39 tokens
 * (its sigma 0.45), cut off at 128, in an order that is not sorted. Sum 1248. */
static const int mix[MIX_LENGTHS] = {23, 39, 93, 31, 51, 24, 40, 13, 32, 54, 26,
                                     44, 17, 34, 57, 27, 43, 19, 35, 61, 28, 45,
                                     20, 36, 67, 29, 47, 22, 37, 75, 30, 49};

static void die(const char *what)
{
    (void)fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static void *take(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (!p)
        die("out of memory");
    return p;
}

static int length_of(const struct step_case *c, int seq)
{
    return c->lengths == STEP_FULL ? STEP_LENGTH : mix[seq % MIX_LENGTHS];
}

/* The arrays of all micro-batches, each as long as the whole batch. */
struct arrays {
    int32_t *ids, *types, *starts, *labels, *rows, *target_ids;
    uint32_t *samples;
};

static struct arrays arrays_new(struct step *s, int T, int n_seqs)
{
    int32_t *all = take((size_t)(4 * T + 3 * n_seqs + 1), sizeof *all);
    struct arrays a = {.ids = all};

    s->owned = all;
    a.types = a.ids + T;
    a.rows = a.types + T;
    a.target_ids = a.rows + T;
    a.labels = a.target_ids + T;
    a.samples = (uint32_t *)(a.labels + n_seqs);
    a.starts = a.labels + 2 * n_seqs;
    return a;
}

/* The next micro-batch of `n_seqs` sequences, from sequence `first` on; its arrays are at the front
 * of `a`. */
static void make_input(const struct step *s, const struct step_case *c, int first, int n_seqs,
                       struct arrays *a, struct message_batch *in)
{
    int T = 0, n_targets = 0;

    a->starts[0] = 0;
    for (int i = 0; i < n_seqs; i++) {
        int length = length_of(c, first + i);

        a->samples[i] = (uint32_t)(first + i);
        for (int t = 0; t < length; t++, T++) {
            a->ids[T] = (first + T) * TOKEN_STRIDE % s->plan.spec.model.vocab;
            if (c->masked_lm && n_targets < (int)(MASKED_SHARE * (T + 1)))
                a->rows[n_targets++] = T;
        }
        a->starts[i + 1] = T;
    }
    *in = (struct message_batch){
        .n_seqs = n_seqs,
        .n_tokens = T,
        .n_targets = n_targets,
        .step_seqs = n_seqs * c->micro_batches,
        .step_targets = n_targets * c->micro_batches,
        .starts = a->starts,
        .labels = a->labels,
        .samples = a->samples,
        .rows = a->rows,
        .target_ids = a->target_ids,
        .ids = a->ids,
        .types = a->types,
    };
}

static void make_plan(struct plan *plan, const struct step_case *c)
{
    struct spec *spec = &plan->spec;

    if (model_preset(bench_is_smoke() ? "BertTiny" : c->preset, &spec->model, NULL) != ERR_OK)
        die("no such preset");
    if (c->layers > 0 && !bench_is_smoke())
        spec->model.layers = c->layers;
    if (c->heads > 0)
        spec->model.heads = c->heads;
    if (c->ffn > 0)
        spec->model.ffn = c->ffn;
    if (c->masked_lm)
        spec->model.head = MODEL_HEAD_MASKED_LM;
    spec->data.mask_probability = MASKED_SHARE;
    spec->training.optimizer = SPEC_OPTIMIZER_ADAMW;
    spec->training.beta1 = 0.9;
    spec->training.beta2 = 0.999;
    spec->training.epsilon = 1e-8;
    spec->training.weight_decay = 0.01;
    spec->training.batch_size = c->n_seqs;
    plan->micro_batches = spec->training.micro_batches = c->micro_batches;
    spec->training.max_length = STEP_LENGTH;
    spec->training.dropout = DROPOUT;
    plan->n_workers = 1;
    plan->workers[0].n_units = model_units(&spec->model);
}

/* FLOPs of one micro-batch. */
static double input_flops(const struct model *m, const struct message_batch *b)
{
    struct model_load load = {
        .n_seqs = b->n_seqs, .tokens = b->n_tokens, .targets = (double)b->n_targets};
    double flops = 0;

    for (int i = 0; i < b->n_seqs; i++) {
        double length = b->starts[i + 1] - b->starts[i];

        load.tokens_squared += length * length;
    }
    for (int u = 0; u < model_units(m); u++)
        flops += model_unit_flops(m, u, &load);
    return flops;
}

void step_init(struct step *s, const struct step_case *c)
{
    int M = c->micro_batches, each = c->n_seqs / M;
    int T = each * STEP_LENGTH;
    struct arrays a;
    struct err err;

    memset(s, 0, sizeof *s);
    make_plan(&s->plan, c);
    s->inputs = take((size_t)M, sizeof *s->inputs);
    a = arrays_new(s, T * M, (each + 1) * M);
    for (int i = 0; i < M; i++) {
        make_input(s, c, i * each, each, &a, &s->inputs[i]);
        s->tokens += s->inputs[i].n_tokens;
        s->flops += input_flops(&s->plan.spec.model, &s->inputs[i]);
        a = (struct arrays){.ids = a.ids + T,
                            .types = a.types + T,
                            .starts = a.starts + each + 1,
                            .labels = a.labels + each,
                            .rows = a.rows + T,
                            .target_ids = a.target_ids + T,
                            .samples = a.samples + each};
    }
    if (state_add(&s->state, &s->plan.spec, 0, model_units(&s->plan.spec.model), &err) != ERR_OK ||
        stage_init(&s->stage, &s->state, &s->plan, 0, &err) != ERR_OK)
        die(err.text);
}

void step_deinit(struct step *s)
{
    stage_deinit(&s->stage);
    state_deinit(&s->state);
    free(s->inputs);
    free(s->owned);
}

static void update(struct step *s)
{
    struct weights_step how = {
        .spec = &s->plan.spec, .rate = LEARNING_RATE, .share = 1, .updates = s->at};

    how.scale = optimizer_scale(weights_square_sum(&s->stage.weights, 0), 1.0);
    weights_update(&s->stage.weights, &how);
    s->at++;
    s->next = 0;
}

void step_advance(struct step *s)
{
    struct stage_result result;
    struct err err;

    s->inputs[s->next].step = s->at;
    if (stage_load(&s->stage, 0, &s->inputs[s->next], &err) != ERR_OK)
        die(err.text);
    stage_forward(&s->stage, 0, &result);
    (void)stage_backward(&s->stage, 0, NULL);
    s->next++;
    if (s->next == s->plan.micro_batches)
        update(s);
}

void step_run(struct step *s)
{
    do {
        step_advance(s);
    } while (s->next > 0);
}

void step_setup(char **argv, int threads)
{
    const char *wanted = gemm_core_wanted(), *core = gemm_core_name();
    bool starts_again = false;
    char note[64];
    struct err err;

    if (wanted && !getenv("OPENBLAS_CORETYPE") && strcmp(wanted, core) != 0)
        starts_again = setenv("OPENBLAS_CORETYPE", wanted, 1) == 0;
    if (threads > 1 && !getenv("GOMP_SPINCOUNT") && !getenv("OMP_WAIT_POLICY"))
        starts_again = setenv("GOMP_SPINCOUNT", "1000", 1) == 0;
    if (starts_again)
        (void)execv("/proc/self/exe", argv);
    if (gemm_setup(threads, &err) != ERR_OK)
        die(err.text);
    (void)snprintf(note, sizeof note, "OpenBLAS %s", core);
    if (wanted && strcmp(wanted, core) != 0) {
        (void)fprintf(stderr, "bench: OPENBLAS_CORETYPE forces %s here, the worker takes %s\n",
                      core, wanted);
        (void)snprintf(note, sizeof note, "OpenBLAS %s, forced: not the worker's %s", core, wanted);
    }
    bench_note(note);
}

double step_cpu_seconds(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double step_wall_seconds(void)
{
    return (double)clock_now_ns() * 1e-9;
}

double step_peak_gflops(int rounds)
{
    size_t n = (size_t)PEAK_SIZE * PEAK_SIZE;
    float *a = take(n, sizeof *a);
    float *b = take(n, sizeof *b);
    float *c = take(n, sizeof *c);
    double best = 0;

    for (size_t i = 0; i < n; i++)
        a[i] = b[i] = 1e-3f * (float)(i % 97);
    for (int i = 0; i < bench_rounds(rounds); i++) {
        double start = step_cpu_seconds(), gflops;

        gemm(GEMM_NN, PEAK_SIZE, PEAK_SIZE, PEAK_SIZE, (struct gemm_in){a, PEAK_SIZE},
             (struct gemm_in){b, PEAK_SIZE}, (struct gemm_out){c, PEAK_SIZE, false});
        gflops = 2.0 * (double)n * PEAK_SIZE / (step_cpu_seconds() - start) / 1e9;
        best = gflops > best ? gflops : best;
    }
    free(a);
    free(b);
    free(c);
    return best;
}
