#include "data/batch.h"

#include "base/arena.h"

/* Take the arrays from an arena, or count their bytes with an empty one. */
static void lay_out(struct batch *b, const struct batch_limits *limits, struct arena *a)
{
    size_t q = (size_t)limits->n_seqs;
    size_t t = q * (size_t)limits->max_length;
    size_t k = limits->has_targets ? t : 0;

    *b = (struct batch){.limits = *limits};
    b->ids = arena_take(a, t * sizeof *b->ids);
    b->types = arena_take(a, t * sizeof *b->types);
    b->starts = arena_take(a, (q + 1) * sizeof *b->starts);
    b->target_starts = arena_take(a, (q + 1) * sizeof *b->target_starts);
    b->labels = arena_take(a, q * sizeof *b->labels);
    b->scores = arena_take(a, q * sizeof *b->scores);
    b->samples = arena_take(a, q * sizeof *b->samples);
    b->rows = arena_take(a, k * sizeof *b->rows);
    b->target_ids = arena_take(a, k * sizeof *b->target_ids);
}

size_t batch_bytes(const struct batch_limits *limits)
{
    struct arena count = {0};
    struct batch b;

    lay_out(&b, limits, &count);
    return count.used;
}

void batch_init(struct batch *b, void *memory, const struct batch_limits *limits)
{
    lay_out(b, limits, ARENA_AT(memory));
    batch_reset(b);
}

void batch_reset(struct batch *b)
{
    b->n_seqs = b->n_tokens = b->n_targets = 0;
    b->starts[0] = 0;
    b->target_starts[0] = 0;
}

enum err_code batch_add(struct batch *b, const struct sequence *s, struct err *err)
{
    const struct batch_limits *l = &b->limits;
    int t = b->n_tokens;
    int k = b->n_targets;
    int q = b->n_seqs;

    if (q == l->n_seqs)
        return err_set(err, ERR_LIMIT, "more than %d sequences in a batch", l->n_seqs);
    if (s->length > l->max_length)
        return err_set(err, ERR_LIMIT, "%d tokens in a sequence, more than %d", s->length,
                       l->max_length);
    if (s->n_targets > (l->has_targets ? s->length : 0))
        return err_set(err, ERR_LIMIT, "%d masked tokens in a sequence of %d", s->n_targets,
                       s->length);
    for (int i = 0; i < s->length; i++) {
        b->ids[t + i] = s->ids[i];
        b->types[t + i] = i < s->n_first ? 0 : 1;
    }
    for (int i = 0; i < s->n_targets; i++) {
        b->rows[k + i] = t + s->rows[i] - s->first_row;
        b->target_ids[k + i] = s->target_ids[i];
    }
    b->labels[q] = s->label;
    b->scores[q] = s->score;
    b->samples[q] = s->sample;
    b->n_seqs++;
    b->starts[b->n_seqs] = b->n_tokens += s->length;
    b->target_starts[b->n_seqs] = b->n_targets += s->n_targets;
    return ERR_OK;
}

enum err_code batch_copy(struct batch *b, const struct batch *from, int q, struct err *err)
{
    int start = from->starts[q];
    int target = from->target_starts[q];
    struct sequence s = {.sample = from->samples[q],
                         .length = from->starts[q + 1] - start,
                         .ids = from->ids + start,
                         .label = from->labels[q],
                         .score = from->scores[q],
                         .n_targets = from->target_starts[q + 1] - target,
                         .first_row = start,
                         .rows = from->rows + target,
                         .target_ids = from->target_ids + target};

    while (s.n_first < s.length && from->types[start + s.n_first] == 0)
        s.n_first++;
    return batch_add(b, &s, err);
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

/* Let s[root] of a heap, the first on top, sink to its place. */
static void sift(const struct batch *step, int32_t *s, int root, int n)
{
    for (int child; (child = 2 * root + 1) < n; root = child) {
        int32_t moved = s[root];

        if (child + 1 < n && is_before(step, s[child + 1], s[child]))
            child++;
        if (!is_before(step, s[child], moved))
            return;
        s[root] = s[child];
        s[child] = moved;
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
    for (int root = n / 2; root-- > 0;)
        sift(step, scratch, root, n);
    for (int left = n; left > 0; left--) {
        int32_t longest = scratch[0];
        int best = -1;

        scratch[0] = scratch[left - 1];
        sift(step, scratch, 0, left - 1);
        for (int k = 0; k < m; k++) {
            if (filled[k] < batch_first(n, m, k + 1) - batch_first(n, m, k) &&
                (best < 0 || tokens[k] < tokens[best]))
                best = k;
        }
        order[batch_first(n, m, best) + filled[best]++] = longest;
        tokens[best] += length_of(step, longest);
    }
}
