#include "nn/layers.h"

#include <math.h>
#include <string.h>

#include "nn/gemm.h"
#include "nn/lanes.h"
#include "nn/threads.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#define BIAS_COLUMNS      512 /* a thread's share of the columns: at most two pages wide */
#define NORM_SUMS         3   /* of a chunk of rows: dgain, dbias, dy_bias */
#define HEAD_MATRICES     2   /* [len,len] that the backward of a head works on */
#define EMBEDDING_COLUMNS 64  /* that one thread sums at a time */

static size_t at_row(int row, int columns)
{
    return (size_t)row * (size_t)columns;
}

/* --- linear --- */

void linear_forward(float *y, const float *x, const struct linear *l)
{
    /* OpenBLAS runs over y once anyway to apply beta; filling in the bias takes that pass's place.
     */
#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int t = 0; t < l->T; t++)
        memcpy(y + at_row(t, l->O), l->b, (size_t)l->O * sizeof *y);
    gemm(GEMM_NT, l->T, l->O, l->I, (struct gemm_in){x, l->I}, (struct gemm_in){l->w, l->I},
         (struct gemm_out){y, l->O, true});
}

void linear_backward_input(float *dx, const float *dy, const struct linear *l, bool add)
{
    gemm(GEMM_NN, l->T, l->I, l->O, (struct gemm_in){dy, l->O}, (struct gemm_in){l->w, l->I},
         (struct gemm_out){dx, l->I, add});
}

void linear_backward_weight(const float *dy, const float *x, const struct linear *l)
{
    gemm(GEMM_TN, l->O, l->I, l->T, (struct gemm_in){dy, l->O}, (struct gemm_in){x, l->I},
         (struct gemm_out){l->dw, l->I, true});
}

void linear_backward_bias(const float *dy, const struct linear *l)
{
#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int at = 0; at < l->O; at += BIAS_COLUMNS) {
        int count = l->O - at < BIAS_COLUMNS ? l->O - at : BIAS_COLUMNS;

        lanes()->add_columns(l->db + at, dy + at, l->T, l->O, count);
    }
}

void linear_backward(float *dx, const float *dy, const float *x, const struct linear *l)
{
    linear_backward_weight(dy, x, l);
    linear_backward_bias(dy, l);
    linear_backward_input(dx, dy, l, false);
}

/* --- GELU --- */

void gelu_forward(float *g, const float *h, int T, int F)
{
#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int t = 0; t < T; t++)
        lanes()->gelu(g + at_row(t, F), h + at_row(t, F), F);
}

size_t gelu_partial_floats(int T, int F)
{
    return at_row(threads_chunks(T), F);
}

void gelu_backward(float *h, float *dg, float *dbias, float *partial, int T, int F)
{
    int chunks = threads_chunks(T);

#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int chunk = 0; chunk < chunks; chunk++) {
        float *sums = partial + at_row(chunk, F);
        int end = (chunk + 1) * THREADS_CHUNK_ROWS;

        memset(sums, 0, (size_t)F * sizeof *sums);
        for (int t = chunk * THREADS_CHUNK_ROWS; t < end && t < T; t++)
            lanes()->gelu_back(h + at_row(t, F), dg + at_row(t, F), sums, F);
    }
    for (int chunk = 0; chunk < chunks; chunk++)
        lanes()->add(dbias, partial + at_row(chunk, F), F);
}

/* --- LayerNorm --- */

static const struct dropout_row no_dropout;

size_t layernorm_partial_floats(int T, int C)
{
    return at_row(threads_chunks(T), NORM_SUMS * C);
}

void layernorm_forward(float *out, const float *res, const float *y, const struct layernorm *n,
                       const struct packed *batch, const struct dropout *drop)
{
#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int t = 0; t < n->T; t++) {
        size_t at = at_row(t, n->C);
        struct dropout_row mask = res ? dropout_token(drop, batch, t) : no_dropout;

        n->rstd[t] = lanes()->norm(out + at, n->xhat + at, res ? res + at : NULL, y + at, n, &mask);
    }
}

void layernorm_backward(float *dsum, float *dy, float *dy_bias, const float *dout,
                        const struct layernorm *n, const struct packed *batch,
                        const struct dropout *drop)
{
    int C = n->C, chunks = threads_chunks(n->T);

#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int chunk = 0; chunk < chunks; chunk++) {
        float *sums = n->partial + at_row(chunk, NORM_SUMS * C);
        int end = (chunk + 1) * THREADS_CHUNK_ROWS;

        memset(sums, 0, NORM_SUMS * (size_t)C * sizeof *sums);
        for (int t = chunk * THREADS_CHUNK_ROWS; t < end && t < n->T; t++) {
            size_t at = at_row(t, C);
            struct dropout_row mask = dy ? dropout_token(drop, batch, t) : no_dropout;

            lanes()->norm_back(dsum + at, dy ? dy + at : NULL, sums, dout + at, n->xhat + at,
                               n->rstd[t], n, &mask);
        }
    }
    for (int chunk = 0; chunk < chunks; chunk++) {
        const float *sums = n->partial + at_row(chunk, NORM_SUMS * C);

        lanes()->add(n->dgain, sums, C);
        lanes()->add(n->dbias, sums + C, C);
        if (dy)
            lanes()->add(dy_bias, sums + 2 * (size_t)C, C);
    }
}

/* --- attention --- */

/* One head of one sequence. */
struct head {
    int len, D, C;
    size_t query_at;         /* in qkv; key and value are C and 2C further */
    size_t ctx_at;           /* in ctx */
    struct dropout_row mask; /* of the first query */
    float *probabilities;    /* [len,len] of the thread */
    float *gradients;        /* [len,len] of backward */
};

static size_t matrix_floats(int longest)
{
    return (at_row(longest, longest) + 15) / 16 * 16;
}

size_t attention_work_floats(int longest)
{
    return (size_t)threads_count() * HEAD_MATRICES * matrix_floats(longest);
}

/* Head number `i` of the batch, on the thread that runs it. */
static struct head head_of(const struct packed *batch, int C, int H, int i,
                           const struct dropout *drop, float *work)
{
    int seq = i / H, first = batch->starts[seq], D = C / H;
    int len = batch->starts[seq + 1] - first;
#ifdef _OPENMP
    work += (size_t)omp_get_thread_num() * HEAD_MATRICES * matrix_floats(packed_longest(batch));
#endif
    return (struct head){
        .len = len,
        .D = D,
        .C = C,
        .query_at = at_row(first, 3 * C) + at_row(i % H, D),
        .ctx_at = at_row(first, C) + at_row(i % H, D),
        .mask = dropout_row(drop, DROPOUT_PROBS, batch->samples[seq],
                            (uint32_t)(i % H) << DROPOUT_HEAD_SHIFT),
        .probabilities = work,
        .gradients = work + matrix_floats(len),
    };
}

/* Q K^T */
static void scores(const struct head *h, const float *qkv)
{
    const float *q = qkv + h->query_at;

    gemm_alone(GEMM_NT, h->len, h->len, h->D, (struct gemm_in){q, 3 * h->C},
               (struct gemm_in){q + h->C, 3 * h->C},
               (struct gemm_out){h->probabilities, h->len, false});
}

void attention_forward(float *ctx, const float *qkv, const struct packed *batch, int C, int H,
                       const struct dropout *drop, float *work)
{
    float scale = 1.0f / sqrtf((float)(C / H));

#pragma omp parallel for num_threads(threads_count()) schedule(dynamic)
    for (int i = 0; i < batch->n_seqs * H; i++) {
        struct head h = head_of(batch, C, H, i, drop, work);
        float *p = h.probabilities;

        scores(&h, qkv);
        for (int t = 0; t < h.len; t++, h.mask.row++)
            lanes()->softmax(p + at_row(t, h.len), h.len, scale, &h.mask);
        gemm_alone(GEMM_NN, h.len, h.D, h.len, (struct gemm_in){p, h.len},
                   (struct gemm_in){qkv + h.query_at + 2 * (size_t)C, 3 * C},
                   (struct gemm_out){ctx + h.ctx_at, C, false});
    }
}

void attention_backward(float *dqkv, const float *dctx, const float *qkv,
                        const struct packed *batch, int C, int H, const struct dropout *drop,
                        float *work)
{
    float scale = 1.0f / sqrtf((float)(C / H));

#pragma omp parallel for num_threads(threads_count()) schedule(dynamic)
    for (int i = 0; i < batch->n_seqs * H; i++) {
        struct head h = head_of(batch, C, H, i, drop, work);
        struct gemm_in p = {h.probabilities, h.len}, dp = {h.gradients, h.len};
        struct gemm_in dout = {dctx + h.ctx_at, C};
        const float *q = qkv + h.query_at, *k = q + C, *v = k + C;
        float *dq = dqkv + h.query_at, *dk = dq + C, *dv = dk + C;

        scores(&h, qkv);
        gemm_alone(GEMM_NT, h.len, h.len, h.D, dout, (struct gemm_in){v, 3 * C},
                   (struct gemm_out){h.gradients, h.len, false});
        for (int t = 0; t < h.len; t++, h.mask.row++)
            lanes()->softmax_back(h.probabilities + at_row(t, h.len),
                                  h.gradients + at_row(t, h.len), h.len, scale, &h.mask);
        gemm_alone(GEMM_NN, h.len, h.D, h.len, dp, (struct gemm_in){k, 3 * C},
                   (struct gemm_out){dq, 3 * C, false});
        gemm_alone(GEMM_TN, h.len, h.D, h.len, dp, (struct gemm_in){q, 3 * C},
                   (struct gemm_out){dk, 3 * C, false});
        gemm_alone(GEMM_TN, h.len, h.D, h.len, p, dout, (struct gemm_out){dv, 3 * C, false});
    }
}

/* --- embedding --- */

void embedding_forward(float *out, const struct embedding *e, const int32_t *ids,
                       const int32_t *types, const struct packed *batch, int C)
{
    int T = packed_tokens(batch);

#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int t = 0; t < T; t++) {
        int place = t - batch->starts[packed_seq_of(batch, t)];
        const float *word = e->word + at_row(ids[t], C);
        const float *type = e->type + at_row(types[t], C);
        const float *position = e->position + at_row(place, C);

        for (int c = 0; c < C; c++)
            out[at_row(t, C) + (size_t)c] = word[c] + type[c] + position[c];
    }
}

void embedding_backward(const float *dout, const struct embedding *e, const int32_t *ids,
                        const int32_t *types, const struct packed *batch, int C)
{
    int step = threads_count() > 1 ? EMBEDDING_COLUMNS : C;

#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int at = 0; at < C; at += step) {
        int n = C - at < step ? C - at : step;

        for (int seq = 0; seq < batch->n_seqs; seq++)
            for (int t = batch->starts[seq]; t < batch->starts[seq + 1]; t++) {
                const float *d = dout + at_row(t, C) + at;

                lanes()->add(e->dword + at_row(ids[t], C) + at, d, n);
                lanes()->add(e->dposition + at_row(t - batch->starts[seq], C) + at, d, n);
                lanes()->add(e->dtype + at_row(types[t], C) + at, d, n);
            }
    }
}
