#include "data/batch.h"

#include <string.h>

#define ALIGN 64

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t targets_max(const struct batch_limits *l)
{
    return l->has_targets ? (size_t)l->n_seqs * (size_t)l->max_length : 0;
}

size_t batch_bytes(const struct batch_limits *limits)
{
    size_t q = (size_t)limits->n_seqs;
    size_t t = q * (size_t)limits->max_length;

    return 2 * aligned(t * sizeof(int32_t)) + 2 * aligned((q + 1) * sizeof(int32_t)) +
           3 * aligned(q * sizeof(int32_t)) + 2 * aligned(targets_max(limits) * sizeof(int32_t));
}

static void *take(unsigned char **at, size_t bytes)
{
    void *area = *at;

    *at += aligned(bytes);
    return area;
}

void batch_init(struct batch *b, void *memory, const struct batch_limits *limits)
{
    size_t q = (size_t)limits->n_seqs;
    size_t t = q * (size_t)limits->max_length;
    size_t k = targets_max(limits);
    unsigned char *at = memory;

    *b = (struct batch){.limits = *limits};
    b->ids = take(&at, t * sizeof *b->ids);
    b->types = take(&at, t * sizeof *b->types);
    b->starts = take(&at, (q + 1) * sizeof *b->starts);
    b->target_starts = take(&at, (q + 1) * sizeof *b->target_starts);
    b->labels = take(&at, q * sizeof *b->labels);
    b->scores = take(&at, q * sizeof *b->scores);
    b->samples = take(&at, q * sizeof *b->samples);
    b->rows = take(&at, k * sizeof *b->rows);
    b->target_ids = take(&at, k * sizeof *b->target_ids);
    batch_reset(b);
}

void batch_reset(struct batch *b)
{
    b->n_seqs = b->n_tokens = b->n_targets = 0;
    b->starts[0] = 0;
    b->target_starts[0] = 0;
}

static enum err_code check_room(const struct batch *b, int length, int n_targets, struct err *err)
{
    const struct batch_limits *l = &b->limits;

    if (b->n_seqs == l->n_seqs)
        return err_set(err, ERR_LIMIT, "more than %d sequences in a batch", l->n_seqs);
    if (length > l->max_length)
        return err_set(err, ERR_LIMIT, "%d tokens in a sequence, above %d", length, l->max_length);
    if (n_targets > (l->has_targets ? length : 0))
        return err_set(err, ERR_LIMIT, "%d masked tokens in a sequence of %d", n_targets, length);
    return ERR_OK;
}

/* The sequence's arrays are filled in; count it. */
static void close_sequence(struct batch *b, int length, int n_targets)
{
    b->n_seqs++;
    b->n_tokens += length;
    b->n_targets += n_targets;
    b->starts[b->n_seqs] = b->n_tokens;
    b->target_starts[b->n_seqs] = b->n_targets;
}

enum err_code batch_add(struct batch *b, const struct sequence *s, struct err *err)
{
    int t = b->n_tokens;
    int q = b->n_seqs;
    enum err_code rc = check_room(b, s->length, s->n_targets, err);

    if (rc != ERR_OK)
        return rc;
    for (int i = 0; i < s->length; i++) {
        b->ids[t + i] = s->ids[i];
        b->types[t + i] = i < s->n_first ? 0 : 1;
    }
    for (int i = 0; i < s->n_targets; i++) {
        b->rows[b->n_targets + i] = t + s->rows[i];
        b->target_ids[b->n_targets + i] = s->target_ids[i];
    }
    b->labels[q] = s->label;
    b->scores[q] = s->score;
    b->samples[q] = s->sample;
    close_sequence(b, s->length, s->n_targets);
    return ERR_OK;
}

enum err_code batch_copy(struct batch *b, const struct batch *from, int q, struct err *err)
{
    int start = from->starts[q];
    int length = from->starts[q + 1] - start;
    int target = from->target_starts[q];
    int n_targets = from->target_starts[q + 1] - target;
    size_t bytes = (size_t)length * sizeof(int32_t);
    enum err_code rc = check_room(b, length, n_targets, err);

    if (rc != ERR_OK)
        return rc;
    memcpy(b->ids + b->n_tokens, from->ids + start, bytes);
    memcpy(b->types + b->n_tokens, from->types + start, bytes);
    for (int i = 0; i < n_targets; i++) {
        b->rows[b->n_targets + i] = from->rows[target + i] - start + b->n_tokens;
        b->target_ids[b->n_targets + i] = from->target_ids[target + i];
    }
    b->labels[b->n_seqs] = from->labels[q];
    b->scores[b->n_seqs] = from->scores[q];
    b->samples[b->n_seqs] = from->samples[q];
    close_sequence(b, length, n_targets);
    return ERR_OK;
}

/* --- balancing --- */

static int length_of(const struct batch *step, int32_t q)
{
    return step->starts[q + 1] - step->starts[q];
}

/* Longer sequences first, equally long ones by sample. */
static bool is_before(const struct batch *step, int32_t a, int32_t b)
{
    int la = length_of(step, a);
    int lb = length_of(step, b);

    return la != lb ? la > lb : step->samples[a] < step->samples[b];
}

/* Heap sort: in place, no allocation, no bad case. */
static void sift(const struct batch *step, int32_t *s, int root, int n)
{
    for (int child; (child = 2 * root + 1) < n; root = child) {
        int32_t moved = s[root];

        if (child + 1 < n && is_before(step, s[child], s[child + 1]))
            child++;
        if (!is_before(step, moved, s[child]))
            return;
        s[root] = s[child];
        s[child] = moved;
    }
}

static void sort(const struct batch *step, int32_t *s, int n)
{
    for (int root = n / 2; root-- > 0;)
        sift(step, s, root, n);
    for (int last = n - 1; last > 0; last--) {
        int32_t moved = s[0];

        s[0] = s[last];
        s[last] = moved;
        sift(step, s, 0, last);
    }
}

int batch_first(int n, int m, int k)
{
    int more = n % m; /* the first `more` have one more */

    return k * (n / m) + (k < more ? k : more);
}

void batch_balance(const struct batch *step, int32_t *order, int32_t *scratch, int m)
{
    int64_t tokens[BATCH_MICRO_MAX] = {0};
    int filled[BATCH_MICRO_MAX] = {0};
    int n = step->n_seqs;

    for (int i = 0; i < n; i++)
        scratch[i] = i;
    sort(step, scratch, n);
    for (int i = 0; i < n; i++) {
        int best = -1;

        for (int k = 0; k < m; k++) {
            if (filled[k] < batch_first(n, m, k + 1) - batch_first(n, m, k) &&
                (best < 0 || tokens[k] < tokens[best]))
                best = k;
        }
        order[batch_first(n, m, best) + filled[best]++] = scratch[i];
        tokens[best] += length_of(step, scratch[i]);
    }
}
