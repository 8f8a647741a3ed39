#include "data/batch.h"

#include <limits.h>
#include <string.h>

#define ALIGN 64

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

size_t batch_bytes(int seqs_max, int max_length)
{
    size_t q = (size_t)seqs_max;
    size_t t = q * (size_t)max_length;

    return 3 * aligned(t * sizeof(int32_t)) + aligned((q + 1) * sizeof(int32_t)) +
           aligned(q * sizeof(int32_t)) + aligned(q * sizeof(uint64_t));
}

static void *take(unsigned char **at, size_t bytes)
{
    void *area = *at;

    *at += aligned(bytes);
    return area;
}

void batch_init(struct batch *b, void *memory, int seqs_max, int max_length)
{
    size_t q = (size_t)seqs_max;
    size_t t = q * (size_t)max_length;
    unsigned char *at = memory;

    *b = (struct batch){.seqs_max = seqs_max, .tokens_max = seqs_max * max_length};
    b->ids = take(&at, t * sizeof *b->ids);
    b->types = take(&at, t * sizeof *b->types);
    b->positions = take(&at, t * sizeof *b->positions);
    b->starts = take(&at, (q + 1) * sizeof *b->starts);
    b->labels = take(&at, q * sizeof *b->labels);
    b->samples = take(&at, q * sizeof *b->samples);
    b->starts[0] = 0;
}

static void add(struct batch *b, const struct dataset *d, uint64_t sample)
{
    int length = dataset_length(d, (size_t)sample);
    int t = b->n_tokens;

    memcpy(b->ids + t, d->ids + d->starts[sample], (size_t)length * sizeof *b->ids);
    for (int i = 0; i < length; i++) {
        b->types[t + i] = i >= d->second[sample];
        b->positions[t + i] = i;
    }
    b->labels[b->n_seqs] = d->labels[sample];
    b->samples[b->n_seqs] = sample;
    b->n_tokens += length;
    b->n_seqs++;
    b->starts[b->n_seqs] = b->n_tokens;
}

enum err_code batch_pack(struct batch *b, const struct dataset *d, const uint64_t *samples, int n,
                         struct err *err)
{
    enum err_code rc = ERR_OK;

    b->n_seqs = b->n_tokens = 0;
    if (n < 0 || n > b->seqs_max)
        return err_set(err, ERR_LIMIT, "%d sequences in a batch made for %d", n, b->seqs_max);
    for (int i = 0; i < n && rc == ERR_OK; i++) {
        if (samples[i] >= d->n_samples)
            rc = err_set(err, ERR_INVALID, "sample %llu of a data set of %zu",
                         (unsigned long long)samples[i], d->n_samples);
        else if (dataset_length(d, (size_t)samples[i]) > b->tokens_max - b->n_tokens)
            rc = err_set(err, ERR_LIMIT, "more than %d tokens in a batch", b->tokens_max);
        else
            add(b, d, samples[i]);
    }
    if (rc != ERR_OK)
        b->n_seqs = b->n_tokens = 0;
    return rc;
}

/* --- balancing --- */

/* Longer samples first, equally long ones by number. */
static bool is_before(const struct dataset *d, uint64_t a, uint64_t b)
{
    int la = dataset_length(d, (size_t)a);
    int lb = dataset_length(d, (size_t)b);

    return la != lb ? la > lb : a < b;
}

/* Heap sort: in place, no allocation, no bad case. */
static void sift(const struct dataset *d, uint64_t *s, int root, int n)
{
    for (int child; (child = 2 * root + 1) < n; root = child) {
        uint64_t moved = s[root];

        if (child + 1 < n && is_before(d, s[child], s[child + 1]))
            child++;
        if (!is_before(d, moved, s[child]))
            return;
        s[root] = s[child];
        s[child] = moved;
    }
}

static void sort(const struct dataset *d, uint64_t *s, int n)
{
    for (int root = n / 2; root-- > 0;)
        sift(d, s, root, n);
    for (int last = n - 1; last > 0; last--) {
        uint64_t moved = s[0];

        s[0] = s[last];
        s[last] = moved;
        sift(d, s, 0, last);
    }
}

void batch_balance(const struct dataset *d, uint64_t *samples, uint64_t *scratch, int n, int m)
{
    int64_t tokens[BATCH_MICRO_MAX] = {0};
    int filled[BATCH_MICRO_MAX] = {0};
    int each = n / m;

    sort(d, samples, n);
    for (int i = 0; i < n; i++) {
        int best = -1;

        for (int k = 0; k < m; k++) {
            if (filled[k] < each && (best < 0 || tokens[k] < tokens[best]))
                best = k;
        }
        scratch[best * each + filled[best]++] = samples[i];
        tokens[best] += dataset_length(d, (size_t)samples[i]);
    }
    memcpy(samples, scratch, (size_t)n * sizeof *samples);
}
