#include "balance/cost.h"

#include <math.h>

#include "base/bytes.h"

#define PERIOD_MS 100.0 /* of a CPU quota: the default of kernel and kubelet */

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

struct node_pace cost_pace(const struct cost_job *job)
{
    static const struct node_pace usual = {.attention = 1,
                                           .ffn = 1,
                                           .parameter = COST_PARAMETER_FLOPS,
                                           .element = COST_ELEMENT_FLOPS,
                                           .update = COST_UPDATE_FLOPS,
                                           .sequence = COST_SEQUENCE_FLOPS};

    return job->pace.attention > 0 ? job->pace : usual;
}

struct cost_job cost_job_in_replica(const struct cost_job *job)
{
    struct cost_job out = *job;

    out.pace = cost_pace(job);
    out.pace.update = 0;
    return out;
}

struct floats {
    double kept; /* from forward to backward, with the unit's output: inputs of products, and what a
                  * normalisation or GELU needs. Attention's probabilities are computed again. */
    double scratch; /* only while the unit computes: its gradients, one head's probabilities per
                     * thread, and the stage's output and gradients on their way */
};

static struct floats floats_of(const struct spec *spec, enum unit_kind kind,
                               const struct model_load *load)
{
    const struct model *m = &spec->model;
    double longest = spec->training.max_length;
    double hidden = m->hidden;
    double tokens = load->tokens;
    double passing = 3 * tokens * hidden;

    switch (kind) {
    case UNIT_EMBEDDINGS:
        return (struct floats){tokens * (2 * hidden + 3), passing + 1.1 * tokens * hidden};
    case UNIT_ATTENTION:
        return (struct floats){tokens * (6 * hidden + 1),
                               passing + 5.1 * tokens * hidden +
                                   COST_HEAD_MATRICES * longest * longest};
    case UNIT_FFN:
        return (struct floats){tokens * (2 * hidden + m->ffn + 1),
                               passing + 1.1 * tokens * (hidden + m->ffn)};
    case UNIT_POOLER:
        return (struct floats){2 * load->n_seqs * hidden, passing + 3 * load->n_seqs * hidden};
    case UNIT_LM_HEAD:
        return (struct floats){load->targets * (3 * hidden + 4) + load->n_seqs * (2 * hidden + 8),
                               passing + 2 * load->targets * hidden +
                                   COST_LM_ROWS * (double)m->vocab};
    case UNIT_HEAD:
        break;
    }
    return (struct floats){load->n_seqs * (m->labels + 8), passing + 3 * load->n_seqs * hidden};
}

/* Replicas that train alone offer their weights unit by unit, from a copy of one. */
static double offered_floats(const struct spec *spec)
{
    const struct model *m = &spec->model;
    bool may_be_alone =
        spec->sync.protocol == SPEC_PROTOCOL_AUTO ||
        (spec_is_asynchronous(spec) && spec_later_protocol(spec) == SPEC_PROTOCOL_LOCAL);
    double largest = 0;

    for (int u = 0; may_be_alone && u < model_units(m); u++)
        largest = fmax(largest, (double)model_unit_params(m, u));
    return largest;
}

void cost_of_unit(const struct cost_job *job, int unit, struct cost_unit *out)
{
    const struct node_pace pace = cost_pace(job);
    const struct spec *spec = job->spec;
    const struct model *m = &spec->model;
    enum unit_kind kind = model_unit_kind(m, unit);
    struct model_load full = cost_load_full(job);
    struct model_load mean = cost_load_mean(job);
    bool is_last = kind == UNIT_HEAD || kind == UNIT_LM_HEAD;
    bool is_run_again =
        spec->training.activations == SPEC_ACTIVATIONS_RECOMPUTE && kind != UNIT_LM_HEAD;
    int64_t params = (int64_t)model_unit_params(m, unit);
    /* The LM head's stage holds the word embeddings and a gradient for them, but no moments. Once
     * per step their gradients are sent away and their weights come back. */
    int64_t words = kind == UNIT_LM_HEAD ? (int64_t)model_word_floats(m) : 0;
    int64_t areas = spec->training.optimizer == SPEC_OPTIMIZER_SGD ? 3 : 4;
    int64_t copied = job->saves_from_copy ? areas - 1 : 0; /* all but the gradients */
    /* Replicas out of step have a copy of the weights, and an outer step perhaps momentum. */
    bool may_be_free = spec_is_asynchronous(spec) || spec->sync.protocol == SPEC_PROTOCOL_AUTO;
    int64_t snapshots = may_be_free + (spec->sync.outer_momentum > 0);
    double factor = kind == UNIT_ATTENTION ? pace.attention : kind == UNIT_FFN ? pace.ffn : 1;
    struct floats floats = floats_of(spec, kind, &full);
    double kept = floats.kept;
    double flops = factor * model_unit_flops(m, unit, &mean) +
                   pace.parameter * ((double)params + (double)words);

    if (kind == UNIT_EMBEDDINGS) /* a few rows of its weights, and the head makes the sequences */
        flops = pace.element * mean.tokens * m->hidden;
    flops *= is_run_again ? 4.0 / 3 : 1;
    if (kind == UNIT_EMBEDDINGS)
        flops += pace.sequence * mean.n_seqs;
    if (is_run_again && kind == UNIT_POOLER)
        kept = full.n_seqs * (double)m->hidden;
    else if (is_run_again && kind != UNIT_HEAD) /* the output, and the ids of the batch */
        kept = full.tokens * (kind == UNIT_EMBEDDINGS ? m->hidden + 2.0 : m->hidden);
    *out = (struct cost_unit){
        .flops = flops + pace.update * ((double)params + (double)words / 4) / job->micro_batches,
        .state_bytes = ((areas + copied + snapshots) * params + 2 * words) * COST_FLOAT_BYTES,
        .activation_bytes = (int64_t)kept * COST_FLOAT_BYTES,
        .scratch_bytes = (int64_t)(floats.scratch + (floats.kept - kept) + offered_floats(spec)) *
                         COST_FLOAT_BYTES,
        .slot_bytes = is_last ? 0 : (int64_t)full.tokens * m->hidden * COST_FLOAT_BYTES,
        /* After the pooler there is one vector per sequence. */
        .edge_mean_bytes =
            is_last ? 0
                    : (kind == UNIT_POOLER ? mean.n_seqs : mean.tokens) * (double)m->hidden *
                          (spec->wire == SPEC_WIRE_BF16 ? COST_FLOAT_BYTES / 2 : COST_FLOAT_BYTES),
    };
}

int64_t cost_checkpoint_bytes(const struct spec *spec)
{
    int64_t areas = spec->training.optimizer == SPEC_OPTIMIZER_SGD ? 2 : 3;
    int64_t params = 0;

    for (int u = 0; u < model_units(&spec->model); u++)
        params += (int64_t)model_unit_params(&spec->model, u);
    return params * areas * COST_FLOAT_BYTES;
}

void cost_of_units(const struct cost_job *job, struct cost_unit *out)
{
    int n_units = model_units(&job->spec->model);

    for (int u = 0; u < n_units; u++)
        if (u > 2 && u <= 2 * job->spec->model.layers)
            out[u] = out[u - 2];
        else
            cost_of_unit(job, u, &out[u]);
}

int64_t cost_unit_bytes(const struct cost_unit *units, int unit)
{
    return COST_PROCESS_BYTES + (unit == 0 ? COST_DATA_BYTES : 0) + units[unit].state_bytes +
           units[unit].activation_bytes + units[unit].scratch_bytes;
}

int64_t cost_least_bytes(const struct cost_unit *units, int n_units)
{
    int64_t least = INT64_MAX;

    for (int u = 0; u < n_units; u++)
        if (cost_unit_bytes(units, u) < least)
            least = cost_unit_bytes(units, u);
    return least;
}

int64_t cost_most_bytes(const struct cost_unit *units, int n_units, int micro_batches)
{
    int64_t most = COST_PROCESS_BYTES + COST_DATA_BYTES;

    for (int u = 0; u < n_units; u++)
        most += units[u].state_bytes + micro_batches * units[u].activation_bytes +
                units[u].scratch_bytes + 2 * COST_LINK_SLOTS * units[u].slot_bytes;
    return most;
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
