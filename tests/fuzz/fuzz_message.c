/* Messages between stages: what a reader accepts is in range and is written as the same bytes.
 *
 * The first byte chooses the message and whether the rest is cut or filled up to its right length.
 */
#include "train/message.h"

#include <math.h>
#include <string.h>

#include "fuzz.h"

static const struct message_limits classes = {
    .seqs = 12, .step_seqs = 20, .length = 24, .labels = 3, .targets = 0, .vocab = 40};
static const struct message_limits scores = {
    .seqs = 12, .step_seqs = 20, .length = 24, .vocab = 40};
static const struct message_limits words = {
    .seqs = 12, .step_seqs = 20, .length = 24, .labels = 1, .targets = 16, .vocab = 40};

/* All readers in one form: false when the bytes are refused. */
typedef bool read_fn(const void *in, size_t n, void *out_bytes, size_t *out_n);

static void check_targets(const struct message_batch *b, const struct message_limits *limits)
{
    MUST(b->n_targets >= 0 && b->n_targets <= limits->targets);
    MUST(b->step_targets >= b->n_targets);
    for (int i = 0; i < b->n_targets; i++) {
        MUST(b->rows[i] >= 0 && b->rows[i] < b->n_tokens);
        MUST(i == 0 || b->rows[i] > b->rows[i - 1]);
        MUST(b->target_ids[i] >= 0 && b->target_ids[i] < limits->vocab);
    }
}

static bool read_batch(const void *in, size_t n, const struct message_limits *limits,
                       void *out_bytes, size_t *out_n)
{
    struct message_batch b;

    if (message_batch_read(in, n, limits, &b, NULL) != ERR_OK)
        return false;
    MUST(b.n_seqs >= 1 && b.n_seqs <= limits->seqs);
    MUST(b.step_seqs >= b.n_seqs && b.step_seqs <= limits->step_seqs);
    MUST(b.starts[0] == 0 && b.starts[b.n_seqs] == b.n_tokens);
    MUST((b.labels != NULL) == (limits->labels > 0) && (b.scores != NULL) == !b.labels);
    for (int i = 0; i < b.n_seqs; i++) {
        MUST(b.starts[i + 1] > b.starts[i] && b.starts[i + 1] - b.starts[i] <= limits->length);
        MUST(!b.labels || (b.labels[i] >= 0 && b.labels[i] < limits->labels));
        MUST(!b.scores || isfinite(b.scores[i]));
    }
    check_targets(&b, limits);
    MUST((const char *)(b.target_ids + b.n_targets) == (const char *)in + n);
    MUST(n <= message_max_bytes(limits, 7));
    *out_n = message_batch_write(&b, out_bytes);
    return true;
}

static bool read_classes(const void *in, size_t n, void *out_bytes, size_t *out_n)
{
    return read_batch(in, n, &classes, out_bytes, out_n);
}

static bool read_scores(const void *in, size_t n, void *out_bytes, size_t *out_n)
{
    return read_batch(in, n, &scores, out_bytes, out_n);
}

static bool read_words(const void *in, size_t n, void *out_bytes, size_t *out_n)
{
    return read_batch(in, n, &words, out_bytes, out_n);
}

static bool read_facts(const void *in, size_t n, void *out_bytes, size_t *out_n)
{
    struct message_facts f;

    if (n != sizeof f)
        return false;
    memcpy(&f, in, n);
    if (message_facts_check(&f, NULL) != ERR_OK)
        return false;
    MUST(f.total_steps >= 0 && f.steps_per_epoch >= 1 && f.last_seqs >= 1);
    MUST(f.n_splits >= 0 && f.n_splits <= MESSAGE_SPLITS_MAX);
    MUST(isfinite(f.best.value) && f.best.step >= 0 && f.best.n_since >= 0);
    for (int i = 0; i < f.n_splits; i++)
        MUST(f.splits[i].n_batches >= 1 && f.splits[i].n_samples >= f.splits[i].n_batches);
    *out_n = n;
    memcpy(out_bytes, &f, n);
    return true;
}

static bool read_sum(const void *in, size_t n, void *out_bytes, size_t *out_n)
{
    static struct message_sum s;

    if (n > sizeof s)
        return false;
    memcpy(&s, in, n);
    if (n < message_sum_bytes(0) || message_sum_check(&s, NULL) != ERR_OK ||
        n != message_sum_bytes(s.n_units))
        return false;
    MUST(s.n_stages >= 0 && s.n_stages < SPEC_STAGES_MAX); /* room for the reader's own */
    for (int i = 0; i < s.n_stages; i++)
        MUST(isfinite(s.stage_ms[i]) && s.stage_ms[i] >= 0);
    *out_n = n;
    memcpy(out_bytes, &s, n);
    return true;
}

static bool read_end(const void *in, size_t n, void *out_bytes, size_t *out_n)
{
    struct message_end e;

    if (n != sizeof e)
        return false;
    memcpy(&e, in, n);
    if (message_end_check(&e, NULL) != ERR_OK)
        return false;
    MUST(e.n_stages >= 0 && e.n_stages <= SPEC_STAGES_MAX);
    MUST(e.end.step > 0 && e.end.updates >= 0 && e.end.updates < e.end.step);
    MUST(isfinite(e.end.scale) && isfinite(e.end.rate));
    for (int i = 0; i < e.n_stages; i++)
        MUST(isfinite(e.stage_ms[i]) && e.stage_ms[i] >= 0);
    *out_n = n;
    memcpy(out_bytes, &e, n);
    return true;
}

static bool read_eval(const void *in, size_t n, void *out_bytes, size_t *out_n)
{
    struct message_eval e;

    if (n != sizeof e)
        return false;
    memcpy(&e, in, n);
    if (message_eval_check(&e, NULL) != ERR_OK)
        return false;
    MUST(e.n_metrics >= 0 && e.n_metrics <= MESSAGE_METRICS_MAX);
    MUST(isfinite(e.best.value) && e.best.step >= 0 && e.best.n_since >= 0);
    *out_n = n;
    memcpy(out_bytes, &e, n);
    return true;
}

static bool read_stop(const void *in, size_t n, void *out_bytes, size_t *out_n)
{
    struct message_stop s;

    if (n != sizeof s)
        return false;
    memcpy(&s, in, n);
    if (message_stop_check(&s, NULL) != ERR_OK)
        return false;
    MUST(s.failed_stage >= -1 && s.failed_stage < SPEC_STAGES_MAX);
    MUST(strlen(s.why) < sizeof s.why);
    *out_n = n;
    memcpy(out_bytes, &s, n);
    return true;
}

static const struct {
    read_fn *read;
    size_t bytes; /* 0: as many as it says */
} kinds[] = {
    {read_classes, 0},
    {read_scores, 0},
    {read_words, 0},
    {read_facts, sizeof(struct message_facts)},
    {read_sum, offsetof(struct message_sum, square_sums)},
    {read_end, sizeof(struct message_end)},
    {read_eval, sizeof(struct message_eval)},
    {read_stop, sizeof(struct message_stop)},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    size_t which, size, n_back = 0;
    uint8_t *in, *back;

    if (n == 0)
        return 0;
    which = bytes[0] % N_KINDS;
    size = bytes[0] >= 64 && kinds[which].bytes > 0 ? kinds[which].bytes : n - 1;
    in = calloc(1, size); /* aligned, as the reader of frames has it */
    back = malloc(size);
    MUST(in && back);
    if (n > 1)
        memcpy(in, bytes + 1, n - 1 < size ? n - 1 : size);
    if (kinds[which].read(in, size, back, &n_back)) {
        MUST(n_back == size);
        MUST(memcmp(back, in, size) == 0);
    }
    free(in);
    free(back);
    return 0;
}
