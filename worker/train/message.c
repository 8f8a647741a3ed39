#include "train/message.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define STEPS_MAX   (INT64_C(1) << 40)
#define SHARE_MAX   65536              /* micro-batches: more than a step has */
#define SAMPLES_MAX (INT64_C(1) << 28) /* of a split: the last stage has arrays of this length */

/* A batch on the wire: this, then samples, starts, labels or scores, rows, target_ids. */
struct counts {
    int32_t n_seqs, n_tokens, n_targets, step_seqs;
    int64_t step_targets;
};

enum parts { PARTS_NONE = 0, PARTS_M = 1, PARTS_T = 2, PARTS_B = PARTS_M | PARTS_T };

#define MESSAGE_ROW(name, parts) [MESSAGE_##name] = {#name, PARTS_##parts},
static const struct {
    const char *name;
    enum parts parts;
} kinds[N_MESSAGE_KINDS] = {[MESSAGE_NONE] = {"NONE", PARTS_NONE}, MESSAGE_KINDS(MESSAGE_ROW)};
#undef MESSAGE_ROW

const char *message_kind_name(uint32_t kind)
{
    return kind < N_MESSAGE_KINDS ? kinds[kind].name : "unknown";
}

bool message_may_carry(enum message_kind kind, uint32_t meta_bytes, uint64_t tensor_bytes)
{
    enum parts parts = kinds[kind].parts;

    return (meta_bytes == 0 || (parts & PARTS_M)) && (tensor_bytes == 0 || (parts & PARTS_T));
}

struct message_limits message_limits_of(const struct spec *spec, int micro_batches)
{
    const struct model *m = &spec->model;
    int seqs = spec->training.batch_size / micro_batches;
    int length = spec->training.max_length;
    int masked = (int)ceil(spec->data.mask_probability * length);

    return (struct message_limits){
        .seqs = seqs,
        .step_seqs = spec->training.batch_size,
        .length = length,
        .labels = m->head == MODEL_HEAD_CLASSIFIER    ? m->labels
                  : m->head == MODEL_HEAD_PRETRAINING ? MODEL_CHOICES
                  : m->head == MODEL_HEAD_MASKED_LM   ? 1
                                                      : 0,
        .targets = model_is_tied(m) ? seqs * (masked > 1 ? masked : 1) : 0,
        .vocab = m->vocab,
    };
}

static size_t batch_bytes(int n_seqs, int n_targets)
{
    return sizeof(struct counts) +
           (3 * (size_t)n_seqs + 1 + 2 * (size_t)n_targets) * sizeof(int32_t);
}

size_t message_max_bytes(const struct message_limits *limits, int n_units)
{
    size_t batch = batch_bytes(limits->seqs, limits->targets);
    size_t sum = message_sum_bytes(n_units);

    return batch > sum ? batch : sum;
}

int message_step_seqs(const struct message_facts *f, int batch_size, int64_t step)
{
    if ((step + 1) % f->steps_per_epoch == 0 && f->last_seqs < batch_size)
        return (int)f->last_seqs;
    return batch_size;
}

double message_loss_mean(const struct message_loss *l)
{
    return l->sum / (double)(l->n > 0 ? l->n : 1) +
           l->next_sum / (double)(l->n_seqs > 0 ? l->n_seqs : 1);
}

void message_loss_add(struct message_loss *to, const struct message_loss *l)
{
    to->sum += l->sum;
    to->n += l->n;
    to->next_sum += l->next_sum;
    to->n_seqs += l->n_seqs;
}

static char *put(char *p, const void *bytes, size_t n)
{
    if (n > 0) /* what a batch lacks is NULL */
        memcpy(p, bytes, n);
    return p + n;
}

size_t message_batch_write(const struct message_batch *b, void *out)
{
    struct counts counts = {.n_seqs = b->n_seqs,
                            .n_tokens = b->n_tokens,
                            .n_targets = b->n_targets,
                            .step_seqs = b->step_seqs,
                            .step_targets = b->step_targets};
    size_t n = (size_t)b->n_seqs;
    char *p = out;

    p = put(p, &counts, sizeof counts);
    p = put(p, b->samples, n * sizeof *b->samples);
    p = put(p, b->starts, (n + 1) * sizeof *b->starts);
    p = b->scores ? put(p, b->scores, n * sizeof *b->scores)
                  : put(p, b->labels, n * sizeof *b->labels);
    p = put(p, b->rows, (size_t)b->n_targets * sizeof *b->rows);
    p = put(p, b->target_ids, (size_t)b->n_targets * sizeof *b->target_ids);
    return (size_t)(p - (char *)out);
}

static enum err_code check_sequences(const struct message_batch *b,
                                     const struct message_limits *limits, struct err *err)
{
    if (b->starts[0] != 0 || b->starts[b->n_seqs] != b->n_tokens)
        return err_set(err, ERR_PROTOCOL, "micro-batch: sequences do not add up to %d tokens",
                       b->n_tokens);
    for (int i = 0; i < b->n_seqs; i++) {
        int64_t length = (int64_t)b->starts[i + 1] - b->starts[i];

        if (length < 1 || length > limits->length)
            return err_set(err, ERR_PROTOCOL, "micro-batch: sequence %d has %lld tokens, not 1..%d",
                           i, (long long)length, limits->length);
        if (b->labels && (b->labels[i] < 0 || b->labels[i] >= limits->labels))
            return err_set(err, ERR_PROTOCOL, "micro-batch: label %d is not in 0..%d", b->labels[i],
                           limits->labels - 1);
        if (b->scores && !isfinite(b->scores[i]))
            return err_set(err, ERR_PROTOCOL, "micro-batch: score of sequence %d is not finite", i);
    }
    return ERR_OK;
}

static enum err_code check_targets(const struct message_batch *b,
                                   const struct message_limits *limits, struct err *err)
{
    if (b->step_targets < b->n_targets || b->step_targets > STEPS_MAX)
        return err_set(err, ERR_PROTOCOL, "micro-batch: %d masked tokens, %lld in its step",
                       b->n_targets, (long long)b->step_targets);
    for (int i = 0; i < b->n_targets; i++) {
        int32_t before = i > 0 ? b->rows[i - 1] : -1;

        if (b->rows[i] <= before || b->rows[i] >= b->n_tokens || b->target_ids[i] < 0 ||
            b->target_ids[i] >= limits->vocab)
            return err_set(err, ERR_PROTOCOL,
                           "micro-batch: masked token %d at %d with id %d, after %d of %d", i,
                           b->rows[i], b->target_ids[i], before, b->n_tokens);
    }
    return ERR_OK;
}

enum err_code message_batch_read(const void *in, size_t n, const struct message_limits *limits,
                                 struct message_batch *out, struct err *err)
{
    struct message_batch b = {0};
    const char *p = in;
    struct counts counts;
    enum err_code rc;

    if (n < sizeof counts)
        return err_set(err, ERR_PROTOCOL, "micro-batch: only %zu bytes", n);
    memcpy(&counts, p, sizeof counts);
    if (counts.n_seqs < 1 || counts.n_seqs > limits->seqs || counts.n_targets < 0 ||
        counts.n_targets > limits->targets || n != batch_bytes(counts.n_seqs, counts.n_targets))
        return err_set(err, ERR_PROTOCOL,
                       "micro-batch: %d sequences and %d masked tokens in %zu bytes, at most %d "
                       "and %d",
                       counts.n_seqs, counts.n_targets, n, limits->seqs, limits->targets);
    if (counts.step_seqs < counts.n_seqs || counts.step_seqs > limits->step_seqs)
        return err_set(err, ERR_PROTOCOL, "micro-batch: %d sequences in a step of %d, at most %d",
                       counts.n_seqs, counts.step_seqs, limits->step_seqs);
    b.n_seqs = counts.n_seqs;
    b.n_tokens = counts.n_tokens;
    b.n_targets = counts.n_targets;
    b.step_seqs = counts.step_seqs;
    b.step_targets = counts.step_targets;
    b.samples = (const uint32_t *)(const void *)(p + sizeof counts);
    b.starts = (const int32_t *)(const void *)(b.samples + b.n_seqs);
    if (limits->labels > 0)
        b.labels = b.starts + b.n_seqs + 1;
    else
        b.scores = (const float *)(const void *)(b.starts + b.n_seqs + 1);
    b.rows = b.starts + 2 * b.n_seqs + 1;
    b.target_ids = b.rows + b.n_targets;
    rc = check_sequences(&b, limits, err);
    if (rc == ERR_OK)
        rc = check_targets(&b, limits, err);
    if (rc == ERR_OK)
        *out = b;
    return rc;
}

static enum err_code check_best(const struct progress_best *b, struct err *err)
{
    if (b->step < 0 || b->step > STEPS_MAX || b->lineage < 0 || b->n_since < 0 ||
        b->n_since > STEPS_MAX || !isfinite(b->value) || (b->step > 0 && b->lineage < 1))
        return err_set(err, ERR_PROTOCOL, "best evaluation: at step %lld of lineage %lld",
                       (long long)b->step, (long long)b->lineage);
    return ERR_OK;
}

enum err_code message_facts_check(const struct message_facts *f, struct err *err)
{
    if (f->version != MESSAGE_VERSION)
        return err_set(err, ERR_PROTOCOL,
                       "the leader sends messages of version %d, this worker of version %d: the "
                       "workers of a job need the same image",
                       f->version, MESSAGE_VERSION);
    if (f->total_steps < 0 || f->total_steps > STEPS_MAX || f->steps_per_epoch < 1 ||
        f->steps_per_epoch > STEPS_MAX || f->last_seqs < 1 || f->last_seqs > SAMPLES_MAX ||
        f->n_splits < 0 || f->n_splits > MESSAGE_SPLITS_MAX)
        return err_set(err, ERR_PROTOCOL, "facts of the run: out of range");
    for (int i = 0; i < f->n_splits; i++) {
        const struct message_split *s = &f->splits[i];

        if (s->n_batches < 1 || s->n_samples < s->n_batches || s->n_samples > SAMPLES_MAX ||
            s->is_test < 0 || s->is_test > 1 || s->place < 0 || s->place >= MESSAGE_SPLITS_MAX / 2)
            return err_set(err, ERR_PROTOCOL, "facts of the run: %lld samples in %lld batches",
                           (long long)s->n_samples, (long long)s->n_batches);
    }
    return check_best(&f->best, err);
}

size_t message_sum_bytes(int n_units)
{
    return offsetof(struct message_sum, square_sums) + (size_t)n_units * sizeof(double);
}

static enum err_code check_times(const double *ms, int n, int max, struct err *err)
{
    bool are_times = n >= 0 && n <= max;

    /* A NaN would stay in every mean that includes it. */
    for (int i = 0; are_times && i < n; i++)
        are_times = isfinite(ms[i]) && ms[i] >= 0;
    if (!are_times)
        return err_set(err, ERR_PROTOCOL, "end of a step: invalid times of %d stages", n);
    return ERR_OK;
}

static bool is_flag(int32_t value)
{
    return value == 0 || value == 1;
}

enum err_code message_sum_check(const struct message_sum *s, struct err *err)
{
    enum err_code rc;

    if (s->n_units < 0 || s->n_units > MODEL_UNITS_MAX)
        return err_set(err, ERR_PROTOCOL, "end of a step: sums of %d units", s->n_units);
    if (!is_flag(s->wants_checkpoint) || !is_flag(s->is_writing) || !is_flag(s->has_failed))
        return err_set(err, ERR_PROTOCOL, "end of a step: checkpoint %d, %d, %d",
                       s->wants_checkpoint, s->is_writing, s->has_failed);
    if (s->n_tokens < 0 || s->loss.n < 0 || s->loss.n_seqs < 0)
        return err_set(err, ERR_PROTOCOL, "end of a step: %lld tokens, loss of %lld",
                       (long long)s->n_tokens, (long long)s->loss.n);
    rc = check_times(&s->ticket_ms, 1, 1, err);
    if (rc == ERR_OK)
        rc = check_times(&s->batch_ms, 1, 1, err);
    if (rc == ERR_OK)
        rc = check_times(s->stage_ms, s->n_stages, SPEC_STAGES_MAX - 1, err);
    return rc == ERR_OK ? check_times(s->stage_mad_ms, s->n_stages, SPEC_STAGES_MAX - 1, err) : rc;
}

static bool is_share(double share)
{
    return share >= 0 && share <= 1;
}

enum err_code message_push_check(const struct message_push *p, struct err *err)
{
    if (!is_flag(p->is_applied) || !is_flag(p->is_last) || !isfinite(p->rate) ||
        !isfinite(p->scale) || !is_share(p->share) || (p->is_applied && p->share <= 0) ||
        p->updates < 0 || p->updates > STEPS_MAX)
        return err_set(err, ERR_PROTOCOL, "gradients of a ticket: rate %g, scale %g, share %g",
                       p->rate, p->scale, p->share);
    return ERR_OK;
}

static enum err_code check_next(const struct message_next *n, struct err *err)
{
    bool is_possible = n->protocol >= 0 && n->protocol < (int32_t)SPEC_PROTOCOL_SWITCH &&
                       n->n_steps >= 0 && isfinite(n->lag_ms) && isfinite(n->usual_ms) &&
                       n->answer >= 0 && n->answer < (int32_t)SPEC_STRAGGLERS_AUTO &&
                       isfinite(n->answer_ms) && isfinite(n->wait_ms);

    for (int k = 0; k < PLAN_REPLICAS_MAX; k++)
        is_possible = is_possible && n->shares[k] >= 0 && n->shares[k] <= SHARE_MAX;
    if (!is_possible)
        return err_set(err, ERR_PROTOCOL, "end of a step: protocol %d for %d steps", n->protocol,
                       n->n_steps);
    return ERR_OK;
}

enum err_code message_end_check(const struct message_end *e, struct err *err)
{
    const struct step_end *end = &e->end;
    const struct message_ticket *ticket = &e->ticket;
    enum err_code rc;

    if (end->revision < 1 || end->step < 1 || end->step > STEPS_MAX ||
        (int)end->outcome < STEP_APPLY || end->outcome > STEP_FAIL || end->updates < 0 ||
        end->updates >= end->step || !isfinite(end->scale) || !isfinite(end->rate) ||
        !is_flag(e->saves) || !is_flag(e->is_saved) || !is_flag(e->has_failed) ||
        !is_flag(e->joins) || e->n_tokens < 0)
        return err_set(err, ERR_PROTOCOL, "end of step %lld: outcome %d after %lld updates",
                       (long long)end->step, (int)end->outcome, (long long)end->updates);
    if (ticket->next < -1 || ticket->next > STEPS_MAX || !is_share(ticket->share) ||
        ticket->steps_done < 0 || ticket->steps_done > STEPS_MAX || ticket->staleness_max < 0 ||
        !isfinite(ticket->staleness))
        return err_set(err, ERR_PROTOCOL, "end of a ticket of step %lld: %lld follows, share %g",
                       (long long)end->step, (long long)ticket->next, ticket->share);
    rc = check_next(&e->next, err);
    if (rc == ERR_OK)
        rc = check_times(e->ticket_ms, PLAN_REPLICAS_MAX, PLAN_REPLICAS_MAX, err);
    if (rc == ERR_OK)
        rc = check_times(e->stage_ms, e->n_stages, SPEC_STAGES_MAX, err);
    return rc == ERR_OK ? check_times(e->stage_mad_ms, e->n_stages, SPEC_STAGES_MAX, err) : rc;
}

enum err_code message_eval_check(const struct message_eval *e, struct err *err)
{
    if (e->n_metrics < 0 || e->n_metrics > MESSAGE_METRICS_MAX)
        return err_set(err, ERR_PROTOCOL, "end of an evaluation: %d metrics", e->n_metrics);
    return check_best(&e->best, err);
}

enum err_code message_copied_check(const struct message_copied *c, struct err *err)
{
    if (!is_flag(c->is_complete) || !memchr(c->why, '\0', sizeof c->why))
        return err_set(err, ERR_PROTOCOL, "the answer to a copy of step %lld: %d",
                       (long long)c->step, c->is_complete);
    return ERR_OK;
}

enum err_code message_stop_check(const struct message_stop *s, struct err *err)
{
    if (s->failed_stage < -1 || s->failed_stage >= SPEC_STAGES_MAX ||
        !memchr(s->why, '\0', sizeof s->why))
        return err_set(err, ERR_PROTOCOL, "end of the run: no reason from stage %d",
                       s->failed_stage);
    return ERR_OK;
}
