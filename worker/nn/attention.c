#include "nn/attention.h"

#include <math.h>

#include "nn/gemm.h"
#include "nn/lanes.h"
#include "nn/threads.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#define MATRICES 2 /* [len,len] that backward works on at a time */

/* One head of one sequence. */
struct head {
    int len, D, C;
    int index;       /* of the head */
    size_t first;    /* row of the sequence's first token */
    uint32_t sample; /* for dropout */
};

static size_t matrix_floats(int longest)
{
    return ((size_t)longest * (size_t)longest + 15) / 16 * 16;
}

size_t attention_work_floats(int longest, int threads)
{
    return (size_t)threads * MATRICES * matrix_floats(longest);
}

static int thread_index(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

static struct head head_of(const struct packed *batch, int C, int H, int piece)
{
    int seq = piece / H;
    struct head head = {
        .len = batch->starts[seq + 1] - batch->starts[seq],
        .D = C / H,
        .C = C,
        .index = piece % H,
        .first = (size_t)batch->starts[seq],
        .sample = batch->samples[seq],
    };

    return head;
}

static struct dropout_row drop_of(const struct head *h, const struct dropout *drop, int query)
{
    return dropout_row(drop, DROPOUT_PROBS, h->sample,
                       (uint32_t)h->index << DROPOUT_HEAD_SHIFT | (uint32_t)query);
}

/* Offset of the head's query in qkv; key and value are C and 2C further. */
static size_t query_at(const struct head *h)
{
    return h->first * 3 * (size_t)h->C + (size_t)h->index * (size_t)h->D;
}

static size_t ctx_at(const struct head *h)
{
    return h->first * (size_t)h->C + (size_t)h->index * (size_t)h->D;
}

static void scores(const struct head *h, const float *qkv, float *s)
{
    const float *q = qkv + query_at(h);

    gemm_alone(GEMM_NT, h->len, h->len, h->D, 1.0f, (struct gemm_in){q, 3 * h->C},
               (struct gemm_in){q + h->C, 3 * h->C}, (struct gemm_out){s, h->len, 0.0f});
}

static void forward_head(const struct head *h, float *ctx, const float *qkv,
                         const struct dropout *drop, float *s)
{
    float scale = 1.0f / sqrtf((float)h->D);

    scores(h, qkv, s);
    for (int t = 0; t < h->len; t++) {
        struct dropout_row mask = drop_of(h, drop, t);

        lanes()->softmax(s + (size_t)t * (size_t)h->len, h->len, scale, &mask);
    }
    gemm_alone(GEMM_NN, h->len, h->D, h->len, 1.0f, (struct gemm_in){s, h->len},
               (struct gemm_in){qkv + query_at(h) + 2 * (size_t)h->C, 3 * h->C},
               (struct gemm_out){ctx + ctx_at(h), h->C, 0.0f});
}

void attention_forward(float *ctx, const float *qkv, const struct packed *batch, int C, int H,
                       const struct dropout *drop, float *work)
{
    size_t each = MATRICES * matrix_floats(packed_longest(batch));

#pragma omp parallel for num_threads(threads_count()) schedule(dynamic)
    for (int piece = 0; piece < batch->n_seqs * H; piece++) {
        struct head h = head_of(batch, C, H, piece);

        forward_head(&h, ctx, qkv, drop, work + (size_t)thread_index() * each);
    }
}

static void backward_head(const struct head *h, float *dqkv, const float *dctx, const float *qkv,
                          const struct dropout *drop, float *s)
{
    float scale = 1.0f / sqrtf((float)h->D);
    float *ds = s + matrix_floats(h->len);
    const float *q = qkv + query_at(h);
    float *dq = dqkv + query_at(h);
    struct gemm_in dout = {dctx + ctx_at(h), h->C};
    int C = h->C, len = h->len, D = h->D;

    scores(h, qkv, s);
    gemm_alone(GEMM_NT, len, len, D, 1.0f, dout, (struct gemm_in){q + 2 * (size_t)C, 3 * C},
               (struct gemm_out){ds, len, 0.0f});
    for (int t = 0; t < len; t++) {
        struct dropout_row mask = drop_of(h, drop, t);

        lanes()->softmax_back(s + (size_t)t * (size_t)len, ds + (size_t)t * (size_t)len, len, scale,
                              &mask);
    }
    gemm_alone(GEMM_NN, len, D, len, 1.0f, (struct gemm_in){ds, len},
               (struct gemm_in){q + C, 3 * C}, (struct gemm_out){dq, 3 * C, 0.0f});
    gemm_alone(GEMM_TN, len, D, len, 1.0f, (struct gemm_in){ds, len}, (struct gemm_in){q, 3 * C},
               (struct gemm_out){dq + C, 3 * C, 0.0f});
    gemm_alone(GEMM_TN, len, D, len, 1.0f, (struct gemm_in){s, len}, dout,
               (struct gemm_out){dq + 2 * (size_t)C, 3 * C, 0.0f});
}

void attention_backward(float *dqkv, const float *dctx, const float *qkv,
                        const struct packed *batch, int C, int H, const struct dropout *drop,
                        float *work)
{
    size_t each = MATRICES * matrix_floats(packed_longest(batch));

#pragma omp parallel for num_threads(threads_count()) schedule(dynamic)
    for (int piece = 0; piece < batch->n_seqs * H; piece++) {
        struct head h = head_of(batch, C, H, piece);

        backward_head(&h, dqkv, dctx, qkv, drop, work + (size_t)thread_index() * each);
    }
}
