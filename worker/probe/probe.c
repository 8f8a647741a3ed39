#include "probe/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "nn/gemm.h"
#include "nn/threads.h"
#include "probe/microbenchmark.h"
#include "train/cpu.h"

#define WARM_SHARE          0.15 /* of the time */
#define CALL_SHARE          0.05
#define WINDOW_MS           200 /* two periods of a quota */
#define WINDOWS_MIN         6   /* three of each size */
#define WINDOWS_MAX         64
#define DISTURBED           1.1  /* times the median window: longer ones are dropped */
#define CACHE_BYTES         96e6 /* three times the largest L3 cache */
#define UPDATES             3    /* timed, after one to warm up */
#define SMALL               4    /* a whole micro-batch has this many times the sequences */
#define CALL_HIDDEN         16   /* of a unit so small that its time is the cost of the call */
#define CALL_SHARE_MAX      0.25 /* of a block's time */
#define WEIGHT_SHARE_MAX    0.8  /* of a block's time; more is noise */
#define CROWDED             0.9  /* of the limit; below, other load takes the rest */
#define USUAL_MICRO_BATCHES 8
#define TRIAD_FLOATS        ((size_t)4 << 20) /* 16 MiB per array: more than a core's caches */
#define TRIAD_ROUNDS        4
#define TRIAD_BYTES         (3.0 * sizeof(float) * TRIAD_FLOATS) /* read and written */

/* Milliseconds of one unit of each kind that is measured: forward and backward of the mean
 * micro-batch; CPU time with one thread. */
struct times {
    double ms[UNIT_FFN + 1];
};

/* What is measured with micro-batches of one size. */
struct size {
    int n_seqs;
    struct model_load load; /* the mean */
    struct times mean;      /* of the windows that were not disturbed */
    int n_windows;
    struct times windows[WINDOWS_MAX];
};

struct probe {
    const struct spec *spec;
    const struct sequences *sequences;
    struct microbenchmark bench;
    struct size whole, small; /* the job's micro-batch, and a quarter of it */
    double call_ms;           /* of a unit */
    double update_ms;         /* of a parameter */
    int64_t wall_ns, cpu_ns;  /* of all that was timed */
};

/* --- times --- */

static double block_ms(const struct times *t)
{
    return t->ms[UNIT_ATTENTION] + t->ms[UNIT_FFN];
}

static double block_flops(const struct probe *p, const struct model_load *load)
{
    return model_unit_flops(&p->spec->model, 1, load) + model_unit_flops(&p->spec->model, 2, load);
}

/* The times of some rounds, scaled to the mean micro-batch. */
static enum err_code run_rounds(struct probe *p, int n_seqs, int duration_ms, struct times *out,
                                struct err *err)
{
    struct model_load mean = microbenchmark_load(&p->bench, n_seqs);
    struct microbenchmark_sum sum = {0};
    int64_t wall_ns = clock_now_ns();
    int64_t cpu_ns = clock_cpu_ns();
    double scale;
    enum err_code rc;

    do {
        rc = microbenchmark_round(&p->bench, n_seqs, &sum, err);
    } while (rc == ERR_OK && clock_now_ns() - wall_ns < duration_ms * 1000000LL);
    p->wall_ns += clock_now_ns() - wall_ns;
    p->cpu_ns += clock_cpu_ns() - cpu_ns;
    scale = block_flops(p, &mean) / block_flops(p, &sum.load) / p->bench.plan.spec.model.layers;
    out->ms[UNIT_EMBEDDINGS] = sum.kind_ms[UNIT_EMBEDDINGS] * mean.tokens / sum.load.tokens;
    out->ms[UNIT_ATTENTION] = sum.kind_ms[UNIT_ATTENTION] * scale;
    out->ms[UNIT_FFN] = sum.kind_ms[UNIT_FFN] * scale;
    return rc;
}

static int by_block(const void *a, const void *b)
{
    double x = block_ms(a);
    double y = block_ms(b);

    return x < y ? -1 : x > y;
}

static void take_means(const struct probe *p, struct size *size)
{
    struct times *w = size->windows;
    int count = size->n_windows, n = 0;
    double most_ms;

    size->load = microbenchmark_load(&p->bench, size->n_seqs);
    qsort(w, (size_t)count, sizeof *w, by_block);
    most_ms = DISTURBED * (block_ms(&w[(count - 1) / 2]) + block_ms(&w[count / 2])) / 2;
    while (n < count && block_ms(&w[n]) <= most_ms)
        n++;
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= UNIT_FFN; k++)
            size->mean.ms[k] += w[i].ms[k] / n;
}

static void time_updates(struct probe *p)
{
    double best = INFINITY, params = 0;

    for (int i = 0; i <= UPDATES; i++) {
        struct stopwatch watch = {0};

        stopwatch_start(&watch);
        params = microbenchmark_update(&p->bench);
        stopwatch_stop(&watch);
        if (i > 0) /* the first one touches memory for the first time */
            best = fmin(best, stopwatch_busy_ms(&watch, threads_count()));
    }
    p->update_ms = best / params;
}

static enum err_code time_units(struct probe *p, int duration_ms, struct err *err)
{
    const struct model *m = &p->spec->model;
    int n_seqs = p->whole.n_seqs > p->small.n_seqs ? p->whole.n_seqs : p->small.n_seqs;
    /* All layers, or enough that weights and gradients come from memory as in training, where those
     * of a whole stage do not fit into a cache. */
    double bytes = 2 * sizeof(float) * (double)(model_unit_params(m, 1) + model_unit_params(m, 2));
    int layers = (int)fmin(ceil(CACHE_BYTES / bytes), m->layers);
    struct times times;
    enum err_code rc = microbenchmark_init(&p->bench, p->spec, p->sequences, layers, n_seqs, err);
    int64_t end_ms = clock_now_ms() + duration_ms;

    if (rc == ERR_OK)
        rc = run_rounds(p, p->whole.n_seqs, (int)(WARM_SHARE * duration_ms), &times, err);
    p->wall_ns = p->cpu_ns = 0;
    for (int i = 0; rc == ERR_OK && (i < WINDOWS_MIN || clock_now_ms() < end_ms); i++) {
        struct size *size = i % 2 == 0 ? &p->whole : &p->small;

        /* After one round, or a backward pass would be of the other size. */
        rc = run_rounds(p, size->n_seqs, 0, &times, err);
        if (rc == ERR_OK)
            rc = run_rounds(p, size->n_seqs, WINDOW_MS, &times, err);
        if (rc == ERR_OK && size->n_windows < WINDOWS_MAX)
            size->windows[size->n_windows++] = times;
    }
    if (rc == ERR_OK) {
        take_means(p, &p->whole);
        take_means(p, &p->small);
        time_updates(p);
    }
    microbenchmark_deinit(&p->bench);
    return rc;
}

static enum err_code time_calls(struct probe *p, int duration_ms, struct err *err)
{
    static const struct sequences one = {.n = 1, .tokens = {1}};
    struct spec tiny = *p->spec;
    struct times times = {0};
    enum err_code rc;

    tiny.model.hidden = CALL_HIDDEN;
    tiny.model.heads = 1;
    tiny.model.ffn = CALL_HIDDEN;
    rc = microbenchmark_init(&p->bench, &tiny, &one, 1, 1, err);
    if (rc == ERR_OK)
        rc = run_rounds(p, 1, duration_ms, &times, err);
    microbenchmark_deinit(&p->bench);
    p->call_ms = fmin(block_ms(&times), CALL_SHARE_MAX * block_ms(&p->whole.mean)) / 2;
    return rc;
}

/* --- from times to speed and pace --- */

/* The share of a core that each thread gets. */
static double share(const struct probe *p)
{
    int threads = threads_count();
    double allowed = fmin(1, cpu_allowed_milli() / 1000.0 / threads);
    double got = (double)p->cpu_ns / (double)p->wall_ns;

    if (threads > 1)
        return 1; /* wall times include it */
    return allowed == 1 || got < CROWDED * allowed ? got : allowed;
}

/* The cost of a FLOP of `unit`, which takes `ms`, relative to a nominal one, without the time of
 * the call and of the weights. */
static double relative_cost(const struct probe *p, int unit, double ms, double flops_per_ms,
                            double parameter)
{
    const struct model *m = &p->spec->model;
    double flops =
        (ms - p->call_ms) * flops_per_ms - parameter * (double)model_unit_params(m, unit);

    return fmax(0.1, flops / model_unit_flops(m, unit, &p->whole.load));
}

/* Speed from the times of a block; all other times as the FLOPs that would take as long. */
static void derive(const struct probe *p, struct node_probe *out)
{
    const struct times *t = &p->whole.mean;
    const struct model *m = &p->spec->model;
    double own_ms = block_ms(t) - 2 * p->call_ms;
    double flops = block_flops(p, &p->whole.load), flops_per_ms = flops / own_ms;
    double elements = p->whole.load.tokens * m->hidden;
    double params = (double)(model_unit_params(m, 1) + model_unit_params(m, 2));
    /* A line through the times of the two sizes: at size 0 it gives the time to read and write the
     * weights once, which does not depend on the size of the micro-batch. */
    double slope =
        (block_ms(t) - block_ms(&p->small.mean)) / (flops - block_flops(p, &p->small.load));
    double weights_ms = fmax(0, fmin(own_ms - slope * flops, WEIGHT_SHARE_MAX * own_ms));
    double parameter = weights_ms * flops_per_ms / params;

    out->gflops = flops_per_ms / 1e6 * share(p);
    out->unit_ms = p->call_ms / share(p);
    out->block_ms = block_ms(t) / share(p);
    out->pace = (struct node_pace){
        .attention = relative_cost(p, 1, t->ms[UNIT_ATTENTION], flops_per_ms, parameter),
        .ffn = relative_cost(p, 2, t->ms[UNIT_FFN], flops_per_ms, parameter),
        .parameter = parameter,
        .element = fmax(0, t->ms[UNIT_EMBEDDINGS] - p->call_ms) * flops_per_ms / elements,
        .update = p->update_ms * flops_per_ms,
        .sequence = p->sequences->make_ms * flops_per_ms,
    };
}

/* By STREAM's triad (McCalpin 1995); 0 without memory for the arrays. */
static double memory_bytes_per_s(void)
{
    float *a = calloc(3 * TRIAD_FLOATS, sizeof *a);
    double best = 0;

    for (int round = 0; a && round < TRIAD_ROUNDS; round++) {
        struct stopwatch watch = {0};

        stopwatch_start(&watch);
#pragma omp parallel for simd num_threads(threads_count()) schedule(static)
        for (size_t i = 0; i < TRIAD_FLOATS; i++)
            a[i] = a[i + TRIAD_FLOATS] + 0.5f * a[i + 2 * TRIAD_FLOATS];
        stopwatch_stop(&watch);
        best = fmax(best, TRIAD_BYTES / stopwatch_busy_ms(&watch, threads_count()) * 1e3);
    }
    free(a);
    return best;
}

enum err_code probe_run(const struct spec *spec, const struct sequences *sequences, int duration_ms,
                        struct node_probe *out, struct err *err)
{
    struct probe *p = calloc(1, sizeof *p); /* too large for a stack */
    struct node_probe found = {.threads = threads_count(), .lengths = sequences_lengths(sequences)};
    bool is_bf16 = spec->training.precision != SPEC_PRECISION_FP32 && gemm_has_bf16();
    /* Of the job, or a usual number where the planner has yet to choose. */
    int m = spec->training.micro_batches > 0 ? spec->training.micro_batches : USUAL_MICRO_BATCHES;
    int n_seqs;
    enum err_code rc;

    if (!p)
        return err_set(err, ERR_NO_MEMORY, "no memory for the probe");
    p->spec = spec;
    p->sequences = sequences;
    while (spec->training.batch_size % m != 0)
        m--;
    n_seqs = spec->training.batch_size / m;
    p->whole.n_seqs = n_seqs;
    p->small.n_seqs = n_seqs >= SMALL ? n_seqs / SMALL : n_seqs * SMALL;
    rc = gemm_use(is_bf16 ? GEMM_BF16 : GEMM_FP32, err);
    if (rc == ERR_OK)
        rc = time_units(p, (int)((1 - CALL_SHARE) * duration_ms), err);
    if (rc == ERR_OK)
        rc = time_calls(p, (int)(CALL_SHARE * duration_ms), err);
    if (rc == ERR_OK) {
        derive(p, &found);
        found.memory_bytes_per_s = memory_bytes_per_s() * share(p);
        (void)snprintf(found.blas_core, sizeof found.blas_core, "%s", gemm_core_name());
        cpu_model(found.cpu_model, sizeof found.cpu_model);
        found.has_bf16 = gemm_has_bf16() ? NODE_YES : NODE_NO;
        *out = found;
    }
    free(p);
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "probe");
}
