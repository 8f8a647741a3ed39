#include "pipe/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "nn/gemm.h"
#include "nn/threads.h"
#include "nn/triad.h"
#include "pipe/cpu.h"
#include "pipe/piece.h"

#define ROUNDS_MIN          2    /* timed, however long one takes */
#define CACHE_BYTES         96e6 /* three times the largest cache of a core complex */
#define ROUNDS_MAX          100000
#define UPDATES             3    /* the first one meets memory that nobody has touched */
#define SMALL               4    /* the smaller micro-batch is so much smaller */
#define CALL_HIDDEN         16   /* a unit so small that only the cost of its calls is left */
#define CALL_SHARE_MAX      0.25 /* of a block's time */
#define WEIGHT_SHARE_MAX    0.8  /* of a block's time; more is noise */
#define CROWDED             0.9  /* got less than this much of what the limit allows */
#define USUAL_MICRO_BATCHES 8
#define TRIAD_FLOATS        ((size_t)4 << 20) /* 16 MiB an array: more than a core's caches */
#define TRIAD_ROUNDS        4

/* Milliseconds of a round; on the CPU's clock with one thread. */
struct times {
    double block, small, attention, ffn, embeddings, update, call;
};

struct probe {
    const struct spec *spec;
    const struct sequences *sequences;
    int n_seqs; /* of a micro-batch */
    int blocks; /* that are timed together; times and figures are of one */
    struct piece piece;
    struct times ms;
    struct model_load load; /* of a whole micro-batch */
    double small_flops;
    double params;
    int64_t wall_ns, cpu_ns; /* of all that was timed */
    double rounds_ms[ROUNDS_MAX];
};

/* --- times --- */

static int64_t now_ns(void)
{
    return threads_count() == 1 ? clock_cpu_ns() : clock_now_ns();
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* The median: what disturbs a round on a shared machine makes it longer and never shorter. */
static enum err_code time_rounds(struct probe *p, int duration_ms, double *out_ms, struct err *err)
{
    enum err_code rc = piece_round(&p->piece, err); /* warm up */
    int64_t wall_ns = clock_now_ns();
    int64_t cpu_ns = clock_cpu_ns();
    int rounds = 0;

    while (rc == ERR_OK && rounds < ROUNDS_MAX &&
           (rounds < ROUNDS_MIN || clock_now_ns() - wall_ns < duration_ms * 1000000LL)) {
        int64_t start_ns = now_ns();

        rc = piece_round(&p->piece, err);
        p->rounds_ms[rounds++] = (double)(now_ns() - start_ns) / 1e6;
    }
    qsort(p->rounds_ms, (size_t)rounds, sizeof *p->rounds_ms, by_size);
    *out_ms = p->rounds_ms[rounds / 2];
    p->wall_ns += clock_now_ns() - wall_ns;
    p->cpu_ns += clock_cpu_ns() - cpu_ns;
    return rc;
}

static enum err_code open_piece(struct probe *p, const struct spec *spec, int first, int n,
                                int n_seqs, struct err *err)
{
    struct piece_params params = {.spec = spec,
                                  .sequences = p->sequences,
                                  .layers = n > 1 ? n / 2 : 1,
                                  .first_unit = first,
                                  .n_units = n,
                                  .n_seqs = n_seqs};

    return piece_init(&p->piece, &params, err);
}

/* A run of units with micro-batches of `n_seqs`. */
static enum err_code time_units(struct probe *p, int first, int n, int duration_ms, double *out_ms,
                                struct err *err)
{
    enum err_code rc = open_piece(p, p->spec, first, n, p->n_seqs, err);

    if (rc == ERR_OK)
        rc = time_rounds(p, duration_ms, out_ms, err);
    piece_deinit(&p->piece);
    return rc;
}

/* As many blocks as the model has, or enough that their weights and gradients come from memory: in
 * a cache they would be there for the next round, which those of a whole stage are not. */
static int blocks_of(const struct model *m)
{
    double bytes = 2 * sizeof(float) * (double)(model_unit_params(m, 1) + model_unit_params(m, 2));
    int enough = (int)ceil(CACHE_BYTES / bytes);

    return enough < m->layers ? enough : m->layers;
}

static enum err_code time_block(struct probe *p, int duration_ms, struct err *err)
{
    enum err_code rc = open_piece(p, p->spec, 1, 2 * p->blocks, p->n_seqs, err);

    if (rc == ERR_OK)
        rc = time_rounds(p, duration_ms, &p->ms.block, err);
    p->ms.block /= p->blocks;
    if (rc == ERR_OK) {
        int64_t start_ns;

        p->load = p->piece.load;
        p->params = piece_params(&p->piece) / p->blocks;
        piece_update(&p->piece);
        start_ns = now_ns();
        for (int i = 0; i < UPDATES; i++)
            piece_update(&p->piece);
        p->ms.update = (double)(now_ns() - start_ns) / 1e6 / UPDATES / p->blocks;
    }
    piece_deinit(&p->piece);
    return rc;
}

/* The block once more with another size of micro-batch, to tell apart what grows with it. */
static enum err_code time_small(struct probe *p, int duration_ms, struct err *err)
{
    int n_seqs = p->n_seqs >= SMALL ? p->n_seqs / SMALL : p->n_seqs * SMALL;
    enum err_code rc = open_piece(p, p->spec, 1, 2 * p->blocks, n_seqs, err);

    if (rc == ERR_OK)
        rc = time_rounds(p, duration_ms, &p->ms.small, err);
    p->ms.small /= p->blocks;
    if (rc == ERR_OK)
        p->small_flops = piece_flops(&p->piece) / p->blocks;
    piece_deinit(&p->piece);
    return rc;
}

static enum err_code time_calls(struct probe *p, int duration_ms, struct err *err)
{
    static const struct sequences one = {.n = 1, .tokens = {1}};
    const struct sequences *own = p->sequences;
    struct spec tiny = *p->spec;
    enum err_code rc;

    tiny.model.hidden = CALL_HIDDEN;
    tiny.model.heads = 1;
    tiny.model.ffn = CALL_HIDDEN;
    p->sequences = &one;
    rc = open_piece(p, &tiny, 1, 2, 1, err);
    if (rc == ERR_OK)
        rc = time_rounds(p, duration_ms, &p->ms.call, err);
    piece_deinit(&p->piece);
    p->sequences = own;
    p->ms.call = fmin(p->ms.call, CALL_SHARE_MAX * p->ms.block) / 2;
    return rc;
}

static enum err_code time_all(struct probe *p, int duration_ms, struct err *err)
{
    enum err_code rc = time_block(p, duration_ms * 5 / 10, err);

    if (rc == ERR_OK)
        rc = time_small(p, duration_ms * 2 / 10, err);
    if (rc == ERR_OK)
        rc = time_units(p, 1, 1, duration_ms / 10, &p->ms.attention, err);
    if (rc == ERR_OK)
        rc = time_units(p, 2, 1, duration_ms / 10, &p->ms.ffn, err);
    if (rc == ERR_OK)
        rc = time_units(p, 0, 1, duration_ms / 20, &p->ms.embeddings, err);
    if (rc == ERR_OK)
        rc = time_calls(p, duration_ms / 20, err);
    return rc;
}

/* --- what they mean --- */

/* Of a core, for each thread. */
static double share(const struct probe *p)
{
    int threads = threads_count();
    double allowed = fmin(1, cpu_allowed_milli() / 1000.0 / threads);
    double got = (double)p->cpu_ns / (double)p->wall_ns;

    if (threads > 1)
        return 1; /* on the wall's clock, so it is in there */
    return got < CROWDED * allowed ? got : allowed;
}

static double unit_flops(const struct probe *p, int unit)
{
    return model_unit_flops(&p->spec->model, unit, &p->load);
}

/* Milliseconds in which a block's weights come and go once: a straight line through the two sizes
 * of micro-batch, at size 0. */
static double weights_ms(const struct probe *p, double flops, double block_ms)
{
    double slope = (p->ms.block - p->ms.small) / (flops - p->small_flops);

    return fmax(0, fmin(block_ms - slope * flops, WEIGHT_SHARE_MAX * block_ms));
}

/* As how many FLOPs one of `unit` counts, which takes `part` of the block. */
static double weigh(const struct probe *p, int unit, double part, double flops_per_ms,
                    double parameter)
{
    double params = (double)model_unit_params(&p->spec->model, unit);
    double flops = (part * p->ms.block - p->ms.call) * flops_per_ms - parameter * params;

    return fmax(0.1, flops / unit_flops(p, unit));
}

static void explain(const struct probe *p, struct node_probe *out)
{
    const struct times *t = &p->ms;
    double flops = unit_flops(p, 1) + unit_flops(p, 2);
    double block_ms = t->block - 2 * t->call;
    double flops_per_ms = flops / block_ms;
    double attention = t->attention / (t->attention + t->ffn);
    double elements = p->load.tokens * p->spec->model.hidden;
    double parameter = weights_ms(p, flops, block_ms) * flops_per_ms / p->params;

    out->gflops = flops_per_ms / 1e6 * share(p);
    out->unit_ms = t->call / share(p);
    out->pace = (struct spec_pace){
        .attention = weigh(p, 1, attention, flops_per_ms, parameter),
        .ffn = weigh(p, 2, 1 - attention, flops_per_ms, parameter),
        .parameter = parameter,
        .element = fmax(0, t->embeddings - t->call) * flops_per_ms / elements,
        .update = t->update * flops_per_ms / p->params,
        .sequence = p->sequences->make_ms * flops_per_ms,
    };
}

/* The job's; where the planner is to choose, as many as there are of usual. */
static int micro_batches(const struct spec *spec)
{
    int m = spec->training.micro_batches > 0 ? spec->training.micro_batches : USUAL_MICRO_BATCHES;

    while (spec->training.batch_size % m != 0)
        m--;
    return m;
}

/* 0 where there is no memory to ask. */
static double memory_bytes_per_s(void)
{
    float *memory = calloc(3 * TRIAD_FLOATS, sizeof *memory);
    double best = 0;

    for (int i = 0; memory && i < TRIAD_ROUNDS; i++) {
        int64_t start_ns = now_ns();

        triad(memory, memory + TRIAD_FLOATS, memory + 2 * TRIAD_FLOATS, 0.5f, TRIAD_FLOATS);
        best = fmax(best, TRIAD_BYTES * (double)TRIAD_FLOATS / (double)(now_ns() - start_ns) * 1e9);
    }
    free(memory);
    return best;
}

enum err_code probe_run(const struct spec *spec, const struct sequences *sequences, int duration_ms,
                        struct node_probe *out, struct err *err)
{
    struct probe *p = calloc(1, sizeof *p); /* too large for a stack */
    struct node_probe found = {.threads = threads_count(), .lengths = sequences_lengths(sequences)};
    bool is_bf16 = spec->training.precision != SPEC_PRECISION_FP32 && gemm_has_bf16();
    enum err_code rc;

    if (!p)
        return err_set(err, ERR_NO_MEMORY, "no memory for the probe");
    p->spec = spec;
    p->sequences = sequences;
    p->n_seqs = spec->training.batch_size / micro_batches(spec);
    p->blocks = blocks_of(&spec->model);
    rc = gemm_use(is_bf16 ? GEMM_BF16 : GEMM_FP32, err);
    if (rc == ERR_OK)
        rc = time_all(p, duration_ms, err);
    if (rc == ERR_OK) {
        explain(p, &found);
        found.memory_bytes_per_s = memory_bytes_per_s() * share(p);
        (void)snprintf(found.blas_core, sizeof found.blas_core, "%s", gemm_core_name());
        cpu_model(found.cpu_model, sizeof found.cpu_model);
        found.has_bf16 = gemm_has_bf16() ? NODE_YES : NODE_NO;
        *out = found;
    }
    free(p);
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "probe");
}
