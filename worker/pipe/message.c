#include "pipe/message.h"

#include <string.h>

#define STEPS_MAX (INT64_C(1) << 40)

/* A batch on the wire: n_seqs, n_tokens, samples, starts, labels. */
static size_t batch_bytes(int n_seqs)
{
    size_t n = (size_t)n_seqs;

    return 2 * sizeof(int32_t) + n * sizeof(uint32_t) + (n + 1) * sizeof(int32_t) +
           n * sizeof(int32_t);
}

size_t message_max_bytes(int n_seqs)
{
    size_t n = batch_bytes(n_seqs);

    return n > sizeof(struct message_end) ? n : sizeof(struct message_end);
}

static char *put(char *p, const void *bytes, size_t n)
{
    memcpy(p, bytes, n);
    return p + n;
}

size_t message_batch_write(const struct message_batch *b, void *out)
{
    int32_t head[2] = {b->n_seqs, b->n_tokens};
    size_t n = (size_t)b->n_seqs;
    char *p = out;

    p = put(p, head, sizeof head);
    p = put(p, b->samples, n * sizeof *b->samples);
    p = put(p, b->starts, (n + 1) * sizeof *b->starts);
    p = put(p, b->labels, n * sizeof *b->labels);
    return (size_t)(p - (char *)out);
}

static enum err_code check_batch(const struct message_batch *b, int max_length, int n_labels,
                                 struct err *err)
{
    if (b->starts[0] != 0 || b->starts[b->n_seqs] != b->n_tokens)
        return err_set(err, ERR_PROTOCOL, "micro-batch: sequences do not add up to %d tokens",
                       b->n_tokens);
    for (int i = 0; i < b->n_seqs; i++) {
        int64_t length = (int64_t)b->starts[i + 1] - b->starts[i];

        if (length < 1 || length > max_length)
            return err_set(err, ERR_PROTOCOL, "micro-batch: sequence %d has %lld tokens, not 1..%d",
                           i, (long long)length, max_length);
        if (b->labels[i] < 0 || b->labels[i] >= n_labels)
            return err_set(err, ERR_PROTOCOL, "micro-batch: label %d is not in 0..%d", b->labels[i],
                           n_labels - 1);
    }
    return ERR_OK;
}

enum err_code message_batch_read(const void *in, size_t n, int max_seqs, int max_length,
                                 int n_labels, struct message_batch *out, struct err *err)
{
    struct message_batch b = {0};
    const char *p = in;
    int32_t head[2];
    enum err_code rc;

    if (n < sizeof head)
        return err_set(err, ERR_PROTOCOL, "micro-batch: %zu bytes are too few", n);
    memcpy(head, p, sizeof head);
    b.n_seqs = head[0];
    b.n_tokens = head[1];
    if (b.n_seqs < 1 || b.n_seqs > max_seqs || n != batch_bytes(b.n_seqs))
        return err_set(err, ERR_PROTOCOL, "micro-batch: %d sequences in %zu bytes, at most %d",
                       b.n_seqs, n, max_seqs);
    b.samples = (const uint32_t *)(const void *)(p + sizeof head);
    b.starts = (const int32_t *)(const void *)(b.samples + b.n_seqs);
    b.labels = b.starts + b.n_seqs + 1;
    rc = check_batch(&b, max_length, n_labels, err);
    if (rc == ERR_OK)
        *out = b;
    return rc;
}

size_t message_facts_write(const struct message_facts *f, void *out)
{
    memcpy(out, f, sizeof *f);
    return sizeof *f;
}

enum err_code message_facts_read(const void *in, size_t n, struct message_facts *out,
                                 struct err *err)
{
    struct message_facts f;

    if (n != sizeof f)
        return err_set(err, ERR_PROTOCOL, "facts of the run: %zu bytes, not %zu", n, sizeof f);
    memcpy(&f, in, sizeof f);
    if (f.total_steps < 1 || f.total_steps > STEPS_MAX || f.steps_per_epoch < 1 ||
        f.steps_per_epoch > STEPS_MAX || f.n_eval_batches < 0 || f.n_eval_batches > STEPS_MAX ||
        f.n_eval_samples < 0 || f.n_eval_samples > STEPS_MAX)
        return err_set(err, ERR_PROTOCOL, "facts of the run: out of range");
    *out = f;
    return ERR_OK;
}

size_t message_sum_write(const struct message_sum *s, void *out)
{
    memcpy(out, s, sizeof *s);
    return sizeof *s;
}

enum err_code message_sum_read(const void *in, size_t n, struct message_sum *out, struct err *err)
{
    struct message_sum s;

    if (n != sizeof s)
        return err_set(err, ERR_PROTOCOL, "sum of a step: %zu bytes, not %zu", n, sizeof s);
    memcpy(&s, in, sizeof s);
    if (s.n_stages < 0 || s.n_stages >= SPEC_STAGES_MAX)
        return err_set(err, ERR_PROTOCOL, "sum of a step: %d stages", s.n_stages);
    *out = s;
    return ERR_OK;
}

size_t message_end_write(const struct message_end *e, void *out)
{
    memcpy(out, e, sizeof *e);
    return sizeof *e;
}

enum err_code message_end_read(const void *in, size_t n, struct message_end *out, struct err *err)
{
    struct message_end e;

    if (n != sizeof e)
        return err_set(err, ERR_PROTOCOL, "end of a step: %zu bytes, not %zu", n, sizeof e);
    memcpy(&e, in, sizeof e);
    if (e.n_stages < 0 || e.n_stages > SPEC_STAGES_MAX || e.n_samples < 0)
        return err_set(err, ERR_PROTOCOL, "end of a step: %d stages, %lld samples", e.n_stages,
                       (long long)e.n_samples);
    *out = e;
    return ERR_OK;
}
