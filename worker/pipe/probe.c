#include "pipe/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "nn/gemm.h"
#include "nn/threads.h"
#include "pipe/cpu.h"
#include "pipe/stage.h"

#define WARM_UP_ROUNDS 2
#define MEAN_SHARE     3  /* a sentence pair is about a third of the longest that is allowed */
#define SMALL_HIDDEN   16 /* a block so small that only the fixed cost of its calls is left */
#define SMALL_MS       100

/* One stage that owns only the attention and feed-forward of a one-layer model. */
struct bench {
    struct plan plan;
    struct stage stage;
    struct stage_input in;
    int32_t *starts;
    int32_t *labels;
    uint32_t *samples;
    float *tensor;
    double flops; /* of a round */
};

static void bench_deinit(struct bench *b)
{
    free(b->starts);
    free(b->labels);
    free(b->samples);
    free(b->tensor);
    stage_deinit(&b->stage);
}

/* Three stages, of which the middle one is measured: it has neither data nor loss. */
static void cut(struct plan *plan)
{
    plan->n_stages = 3;
    plan->stages[0] = (struct plan_stage){.first_unit = 0, .n_units = 1};
    plan->stages[1] = (struct plan_stage){.first_unit = 1, .n_units = 2};
    plan->stages[2] = (struct plan_stage){.first_unit = 3, .n_units = 2};
}

static enum err_code bench_init(struct bench *b, const struct spec *spec, struct err *err)
{
    int n_seqs = spec->training.batch_size / spec->training.micro_batches;
    int length = spec->training.max_length / MEAN_SHARE;
    struct model_load load = {.n_seqs = n_seqs, .tokens = (double)n_seqs * length};
    size_t floats;
    enum err_code rc;

    memset(b, 0, sizeof *b);
    b->plan.spec = *spec;
    b->plan.spec.model.layers = 1;
    b->plan.spec.training.recompute = false;
    cut(&b->plan);
    rc = stage_init(&b->stage, &b->plan, 1, err);
    if (rc != ERR_OK)
        return rc;
    floats = (size_t)n_seqs * (size_t)length * (size_t)spec->model.hidden;
    b->starts = calloc((size_t)n_seqs + 1, sizeof *b->starts);
    b->labels = calloc((size_t)n_seqs, sizeof *b->labels);
    b->samples = calloc((size_t)n_seqs, sizeof *b->samples);
    b->tensor = calloc(floats, sizeof *b->tensor);
    if (!b->starts || !b->labels || !b->samples || !b->tensor) {
        bench_deinit(b);
        return err_set(err, ERR_NO_MEMORY, "no memory for a micro-batch of %d tokens",
                       n_seqs * length);
    }
    for (int i = 0; i <= n_seqs; i++)
        b->starts[i] = i * length;
    for (size_t i = 0; i < floats; i++)
        b->tensor[i] = (float)((i * 2654435761u) % 2001u) / 1000.0f - 1.0f;
    b->in = (struct stage_input){.batch = {.n_seqs = n_seqs,
                                           .n_tokens = n_seqs * length,
                                           .starts = b->starts,
                                           .labels = b->labels,
                                           .samples = b->samples},
                                 .tensor = b->tensor};
    load.tokens_squared = load.tokens * length;
    for (int u = 1; u <= 2; u++)
        b->flops += model_unit_flops(&b->plan.spec.model, u, &load);
    return ERR_OK;
}

static enum err_code round_trip(struct bench *b, struct err *err)
{
    struct stage_result result;
    enum err_code rc = stage_forward(&b->stage, 0, &b->in, &result, err);

    if (rc == ERR_OK)
        (void)stage_backward(&b->stage, 0, result.tensor);
    return rc;
}

/* Mean milliseconds of a round over `duration_ms`. */
static enum err_code measure(const struct spec *spec, int duration_ms, double *out_ms,
                             double *out_flops, struct err *err)
{
    struct bench *b = malloc(sizeof *b); /* too large for a stack */
    int64_t start_ns;
    int rounds = 0;
    enum err_code rc;

    if (!b)
        return err_set(err, ERR_NO_MEMORY, "no memory for the probe");
    rc = bench_init(b, spec, err);
    if (rc != ERR_OK) {
        free(b);
        return rc;
    }
    for (int i = 0; rc == ERR_OK && i < WARM_UP_ROUNDS; i++)
        rc = round_trip(b, err);
    start_ns = clock_now_ns();
    while (rc == ERR_OK && (rounds == 0 || clock_now_ns() - start_ns < duration_ms * 1000000LL)) {
        rc = round_trip(b, err);
        rounds++;
    }
    *out_ms = (double)(clock_now_ns() - start_ns) / 1e6 / rounds;
    *out_flops = b->flops;
    bench_deinit(b);
    free(b);
    return rc;
}

enum err_code probe_run(const struct spec *spec, int duration_ms, struct node_probe *out,
                        struct err *err)
{
    struct node_probe p = {.threads = threads_count()};
    struct spec small = *spec;
    bool is_bf16 = spec->training.precision != SPEC_PRECISION_FP32 && gemm_has_bf16();
    double ms = 0;
    double flops = 0;
    double small_ms = 0;
    double small_flops = 0;
    enum err_code rc;

    small.model.hidden = SMALL_HIDDEN;
    small.model.heads = 1;
    small.model.ffn = SMALL_HIDDEN;
    rc = gemm_use(is_bf16 ? GEMM_BF16 : GEMM_FP32, err);
    if (rc == ERR_OK)
        rc = measure(spec, duration_ms, &ms, &flops, err);
    if (rc == ERR_OK)
        rc = measure(&small, SMALL_MS, &small_ms, &small_flops, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "probe");
    p.gflops = flops / ms / 1e6;
    p.unit_ms = small_ms / 2;
    if (p.unit_ms > ms / 4)
        p.unit_ms = ms / 4;
    p.gflops = flops / (ms - 2 * p.unit_ms) / 1e6;
    (void)snprintf(p.blas_core, sizeof p.blas_core, "%s", gemm_core_name());
    cpu_model(p.cpu_model, sizeof p.cpu_model);
    p.has_bf16 = gemm_has_bf16() ? NODE_YES : NODE_NO;
    *out = p;
    return ERR_OK;
}
