#include "balance/cost.h"

#include <math.h>

#include "api/lengths.h"
#include "base/bytes.h"

#define FLOAT_BYTES 4
#define PERIOD_MS   100.0 /* of a CPU quota: the default of kernel and kubelet */

/* A micro-batch of sequences of these lengths. */
static struct model_load load_of(const struct cost_job *job, struct node_lengths l)
{
    const struct spec *spec = job->spec;
    int n = spec->training.batch_size / job->micro_batches;
    double tokens = n * l.mean;

    return (struct model_load){
        .n_seqs = n,
        .tokens = tokens,
        .tokens_squared = n * l.mean_square,
        .targets = model_is_tied(&spec->model) ? spec->data.mask_probability * tokens : 0};
}

struct model_load cost_load_full(const struct cost_job *job)
{
    double length = job->spec->training.max_length;

    return load_of(job, (struct node_lengths){length, length * length});
}

struct model_load cost_load_mean(const struct cost_job *job)
{
    return load_of(job, lengths_of(job->spec, &job->lengths));
}

/* Floats kept from forward to backward with the unit's output: inputs of products, and what a
 * normalisation or GELU needs. Attention's probabilities are computed again, not kept. */
static double activation_floats(const struct model *m, enum unit_kind kind,
                                const struct model_load *load)
{
    double hidden = m->hidden;

    switch (kind) {
    case UNIT_EMBEDDINGS:
        return load->tokens * (2 * hidden + 3);
    case UNIT_ATTENTION:
        return load->tokens * (6 * hidden + 1);
    case UNIT_FFN:
        return load->tokens * (2 * hidden + m->ffn + 1);
    case UNIT_POOLER:
        return 2 * load->n_seqs * hidden;
    case UNIT_LM_HEAD:
        return load->targets * (3 * hidden + 4) + load->n_seqs * (2 * hidden + 8);
    case UNIT_HEAD:
        break;
    }
    return load->n_seqs * (m->labels + 8);
}

static bool is_run_again(const struct spec *spec, enum unit_kind kind)
{
    return spec->training.activations == SPEC_ACTIVATIONS_RECOMPUTE && kind != UNIT_LM_HEAD;
}

/* The same with activations recomputed: the output, and the part of the batch that is needed again.
 */
static double kept_floats(const struct spec *spec, enum unit_kind kind,
                          const struct model_load *load)
{
    double hidden = spec->model.hidden;

    if (!is_run_again(spec, kind) || kind == UNIT_HEAD)
        return activation_floats(&spec->model, kind, load);
    if (kind == UNIT_POOLER)
        return load->n_seqs * hidden;
    return load->tokens * (kind == UNIT_EMBEDDINGS ? hidden + 2 : hidden);
}

/* Floats that live only while the unit computes: its gradients, one head's probabilities per
 * thread, and the stage's output and gradients on their way. */
static double scratch_floats(const struct spec *spec, enum unit_kind kind,
                             const struct model_load *load)
{
    const struct model *m = &spec->model;
    double longest = spec->training.max_length;
    double hidden = m->hidden;
    double passing = 3 * load->tokens * hidden;

    switch (kind) {
    case UNIT_EMBEDDINGS:
        return passing + 1.1 * load->tokens * hidden;
    case UNIT_ATTENTION:
        return passing + 5.1 * load->tokens * hidden + COST_HEAD_MATRICES * longest * longest;
    case UNIT_FFN:
        return passing + 1.1 * load->tokens * (hidden + m->ffn);
    case UNIT_LM_HEAD:
        return passing + 2 * load->targets * hidden + COST_LM_ROWS * (double)m->vocab;
    case UNIT_POOLER:
    case UNIT_HEAD:
        break;
    }
    return passing + 3 * load->n_seqs * hidden;
}

/* After the pooler there is one vector per sequence. */
static double edge_floats(const struct model *m, enum unit_kind kind, const struct model_load *load)
{
    if (kind == UNIT_HEAD || kind == UNIT_LM_HEAD)
        return 0;
    return (kind == UNIT_POOLER ? load->n_seqs : load->tokens) * (double)m->hidden;
}

/* The LM head's stage holds the word embeddings and a gradient for them, but no moments. */
static int64_t state_floats(const struct spec *spec, int unit)
{
    const struct model *m = &spec->model;
    int64_t areas = spec->training.optimizer == SPEC_OPTIMIZER_SGD ? 3 : 4;
    int64_t words =
        model_unit_kind(m, unit) == UNIT_LM_HEAD ? 2 * (int64_t)model_word_floats(m) : 0;

    return areas * (int64_t)model_unit_params(m, unit) + words;
}

static struct node_pace pace_of(const struct cost_job *job)
{
    const struct node_pace usual = {.attention = 1,
                                    .ffn = 1,
                                    .parameter = COST_PARAMETER_FLOPS,
                                    .element = COST_ELEMENT_FLOPS,
                                    .update = COST_UPDATE_FLOPS,
                                    .sequence = COST_SEQUENCE_FLOPS};

    return job->pace.attention > 0 ? job->pace : usual;
}

/* Forward and backward of a micro-batch. */
static double passes_flops(const struct cost_job *job, int unit, const struct model_load *load)
{
    const struct model *m = &job->spec->model;
    enum unit_kind kind = model_unit_kind(m, unit);
    struct node_pace pace = pace_of(job);
    double factor = kind == UNIT_ATTENTION ? pace.attention : kind == UNIT_FFN ? pace.ffn : 1;
    double words = kind == UNIT_LM_HEAD ? (double)model_word_floats(m) : 0;
    double weights = (double)model_unit_params(m, unit) + words;
    double flops = factor * model_unit_flops(m, unit, load) + pace.parameter * weights;

    if (kind == UNIT_EMBEDDINGS) /* a few rows of its weights, and the head makes the sequences */
        flops = pace.element * load->tokens * m->hidden;
    flops *= is_run_again(job->spec, kind) ? 4.0 / 3 : 1;
    return kind == UNIT_EMBEDDINGS ? flops + pace.sequence * load->n_seqs : flops;
}

/* A micro-batch's share of what is done once per step. */
static double step_flops(const struct cost_job *job, int unit)
{
    const struct model *m = &job->spec->model;
    bool is_tied = model_unit_kind(m, unit) == UNIT_LM_HEAD;
    double words = is_tied ? (double)model_word_floats(m) / 4 : 0; /* gradient away, weights back */

    return pace_of(job).update * ((double)model_unit_params(m, unit) + words) / job->micro_batches;
}

void cost_of_unit(const struct cost_job *job, int unit, struct cost_unit *out)
{
    const struct spec *spec = job->spec;
    const struct model *m = &spec->model;
    enum unit_kind kind = model_unit_kind(m, unit);
    struct model_load full = cost_load_full(job);
    struct model_load mean = cost_load_mean(job);
    double kept = kept_floats(spec, kind, &full);
    double again = activation_floats(m, kind, &full) - kept;

    *out = (struct cost_unit){
        .flops = passes_flops(job, unit, &mean) + step_flops(job, unit),
        .state_bytes = state_floats(spec, unit) * FLOAT_BYTES,
        .activation_bytes = (int64_t)kept * FLOAT_BYTES,
        .scratch_bytes = (int64_t)(scratch_floats(spec, kind, &full) + again) * FLOAT_BYTES,
        .slot_bytes = kind == UNIT_HEAD || kind == UNIT_LM_HEAD
                          ? 0
                          : (int64_t)full.tokens * m->hidden * FLOAT_BYTES,
        .edge_mean_bytes = edge_floats(m, kind, &mean) *
                           (spec->wire == SPEC_WIRE_BF16 ? FLOAT_BYTES / 2 : FLOAT_BYTES),
    };
}

void cost_of_units(const struct cost_job *job, struct cost_unit *out)
{
    int n_units = model_units(&job->spec->model);

    for (int u = 0; u < n_units; u++) {
        bool is_alike = u > 2 && u <= 2 * job->spec->model.layers;

        if (is_alike)
            out[u] = out[u - 2];
        else
            cost_of_unit(job, u, &out[u]);
    }
}

int64_t cost_unit_bytes(const struct cost_job *job, int unit)
{
    struct cost_unit c;

    cost_of_unit(job, unit, &c);
    return COST_PROCESS_BYTES + (unit == 0 ? COST_DATA_BYTES : 0) + c.state_bytes +
           c.activation_bytes + c.scratch_bytes;
}

int64_t cost_least_bytes(const struct cost_job *job)
{
    int64_t least = INT64_MAX;
    int n_units = model_units(&job->spec->model);

    for (int u = 0; u < n_units; u++) { /* of the layers, which are alike, the first is enough */
        if (u > 2 && u <= 2 * job->spec->model.layers)
            continue;

        int64_t bytes = cost_unit_bytes(job, u);

        if (bytes < least)
            least = bytes;
    }
    return least;
}

int64_t cost_planned_bytes(int64_t node_bytes, int percent)
{
    return percent == 100 ? node_bytes : node_bytes / percent * 100;
}

int64_t cost_limit_bytes(int64_t stage_bytes, int64_t node_bytes, int percent)
{
    int64_t limit = mib_of((stage_bytes + stage_bytes / 4) * percent / 100) * MIB;

    return limit < node_bytes ? limit : node_bytes;
}

double cost_unit_ms(const struct cost_unit *c, const struct node *n)
{
    return c->flops / (n->gflops * 1e6) + n->unit_ms;
}

const struct cost_unit *cost_largest_edge(const struct cost_unit *units, int n_units)
{
    const struct cost_unit *largest = &units[0];

    for (int u = 1; u < n_units - 1; u++)
        if (units[u].edge_mean_bytes > largest->edge_mean_bytes)
            largest = &units[u];
    return largest;
}

double cost_messages_ms(const struct cost_unit *c, const struct node *n)
{
    static const struct node_message usual = COST_MESSAGE_DEFAULT;
    const struct node_message *m = n->message.ms > 0 ? &n->message : &usual;
    double cores = n->cpu_milli > 0 ? n->cpu_milli / 1000.0 : 1;

    return (2 * m->ms + c->edge_mean_bytes * m->byte_ns / 1e6) / cores;
}

double cost_edge_ms(const struct cost_unit *c, const struct cost_link *link)
{
    return c->edge_mean_bytes / link->bytes_per_s * 1e3 + link->latency_ms;
}

double cost_balanced_ms(const struct node *nodes, int n, double flops)
{
    double flops_per_ms = 0;

    for (int i = 0; i < n; i++)
        flops_per_ms += nodes[i].gflops * 1e6;
    return flops / flops_per_ms;
}

static double latency_ms(double cpu_ms, double quota)
{
    double at_hand_ms = quota * PERIOD_MS;

    return fmin(cpu_ms, at_hand_ms) + fmax(0, cpu_ms - at_hand_ms) / quota;
}

double cost_fill_share(const struct node *n, double balanced_ms, int n_microbatches)
{
    double quota = n->cpu_milli / 1000.0;
    double cpu_ms = quota * balanced_ms;

    if (n->cpu_milli <= 0 || n->cpu_milli >= 1000 || n_microbatches == 1)
        return 1;
    return (latency_ms(cpu_ms / 3, quota) + latency_ms(cpu_ms * 2 / 3, quota)) / balanced_ms;
}

double cost_busy_share(double fill_share, int n_microbatches)
{
    return n_microbatches > 1 ? (n_microbatches - fill_share) / (n_microbatches - 1) : 1;
}

/* --- what was measured for a job --- */

void cost_job_measured(struct cost_job *job, const struct node_probe *probes, int n)
{
    double gflops = 0;

    for (int i = 0; i < n; i++) {
        if (!(probes[i].gflops > gflops))
            continue;
        gflops = probes[i].gflops;
        if (probes[i].lengths.mean > 0)
            job->lengths = probes[i].lengths;
        if (probes[i].pace.attention > 0)
            job->pace = probes[i].pace;
    }
}
