#include "api/model.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int layers, hidden, heads;
} presets[] = {
    {"BertTiny", 2, 128, 2},   {"BertMini", 4, 256, 4},   {"BertSmall", 4, 512, 8},
    {"BertMedium", 8, 512, 8}, {"BertBase", 12, 768, 12}, {"BertLarge", 24, 1024, 16},
};

/* Tensors of each kind of unit in memory order. A dimension is the letter of its size. */
struct row {
    const char *name;   /* %d is the layer */
    char rows, columns; /* columns 0: a vector */
    bool is_gain;
};

static const struct row embeddings[] = {
    {"bert.embeddings.word_embeddings.weight", 'V', 'C', false},
    {"bert.embeddings.position_embeddings.weight", 'P', 'C', false},
    {"bert.embeddings.token_type_embeddings.weight", 'T', 'C', false},
    {"bert.embeddings.LayerNorm.weight", 'C', 0, true},
    {"bert.embeddings.LayerNorm.bias", 'C', 0, false},
};
static const struct row attention[] = {
    {"bert.encoder.layer.%d.attention.self.query.weight", 'C', 'C', false},
    {"bert.encoder.layer.%d.attention.self.key.weight", 'C', 'C', false},
    {"bert.encoder.layer.%d.attention.self.value.weight", 'C', 'C', false},
    {"bert.encoder.layer.%d.attention.self.query.bias", 'C', 0, false},
    {"bert.encoder.layer.%d.attention.self.key.bias", 'C', 0, false},
    {"bert.encoder.layer.%d.attention.self.value.bias", 'C', 0, false},
    {"bert.encoder.layer.%d.attention.output.dense.weight", 'C', 'C', false},
    {"bert.encoder.layer.%d.attention.output.dense.bias", 'C', 0, false},
    {"bert.encoder.layer.%d.attention.output.LayerNorm.weight", 'C', 0, true},
    {"bert.encoder.layer.%d.attention.output.LayerNorm.bias", 'C', 0, false},
};
static const struct row ffn[] = {
    {"bert.encoder.layer.%d.intermediate.dense.weight", 'F', 'C', false},
    {"bert.encoder.layer.%d.intermediate.dense.bias", 'F', 0, false},
    {"bert.encoder.layer.%d.output.dense.weight", 'C', 'F', false},
    {"bert.encoder.layer.%d.output.dense.bias", 'C', 0, false},
    {"bert.encoder.layer.%d.output.LayerNorm.weight", 'C', 0, true},
    {"bert.encoder.layer.%d.output.LayerNorm.bias", 'C', 0, false},
};
static const struct row pooler[] = {
    {"bert.pooler.dense.weight", 'C', 'C', false},
    {"bert.pooler.dense.bias", 'C', 0, false},
};
static const struct row head[] = {
    {"classifier.weight", 'N', 'C', false},
    {"classifier.bias", 'N', 0, false},
};
/* Masked LM alone ends before the pooler. */
static const struct row lm_head[] = {
    {"cls.predictions.transform.dense.weight", 'C', 'C', false},
    {"cls.predictions.transform.dense.bias", 'C', 0, false},
    {"cls.predictions.transform.LayerNorm.weight", 'C', 0, true},
    {"cls.predictions.transform.LayerNorm.bias", 'C', 0, false},
    {"cls.predictions.bias", 'V', 0, false},
    {"bert.pooler.dense.weight", 'C', 'C', false},
    {"bert.pooler.dense.bias", 'C', 0, false},
    {"cls.seq_relationship.weight", '2', 'C', false},
    {"cls.seq_relationship.bias", '2', 0, false},
};
#define MASKED_LM_TENSORS 5

#define ROWS(table)                                                                                \
    {                                                                                              \
        (table), (int)(sizeof(table) / sizeof(table)[0])                                           \
    }
static const struct {
    const struct row *rows;
    int n;
} tables[] = {
    [UNIT_EMBEDDINGS] = ROWS(embeddings),
    [UNIT_ATTENTION] = ROWS(attention),
    [UNIT_FFN] = ROWS(ffn),
    [UNIT_POOLER] = ROWS(pooler),
    [UNIT_HEAD] = ROWS(head),
    [UNIT_LM_HEAD] = ROWS(lm_head),
};

static int size_of(const struct model *m, char letter)
{
    const int sizes[] = {m->vocab,  m->hidden,   m->ffn,       m->positions,
                         m->labels, MODEL_TYPES, MODEL_CHOICES};
    static const char letters[] = "VCFPNT2";

    return letter ? sizes[strchr(letters, letter) - letters] : 1;
}

enum err_code model_preset(const char *name, struct model *out, struct err *err)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        if (strcmp(presets[i].name, name) != 0)
            continue;
        *out = (struct model){.vocab = 30522,
                              .hidden = presets[i].hidden,
                              .layers = presets[i].layers,
                              .heads = presets[i].heads,
                              .ffn = 4 * presets[i].hidden,
                              .positions = 512,
                              .labels = 3,
                              .norm_eps = 1e-12};
        return ERR_OK;
    }
    return err_set(err, ERR_NOT_FOUND,
                   "spec.model.preset: \"%.40s\" is not one of BertTiny, BertMini, BertSmall, "
                   "BertMedium, BertBase, BertLarge",
                   name);
}

enum err_code model_check(const struct model *m, struct err *err)
{
    if (m->layers < 1 || m->layers > MODEL_LAYERS_MAX)
        return err_set(err, ERR_INVALID, "spec.model.layers: %d is not in 1..%d", m->layers,
                       MODEL_LAYERS_MAX);
    if (m->heads < 1 || m->hidden < 1 || m->hidden % m->heads != 0)
        return err_set(
            err, ERR_INVALID,
            "spec.model.hiddenSize: %d is not a multiple of spec.model.attentionHeads, %d",
            m->hidden, m->heads);
    if (m->vocab < 1 || m->ffn < 1 || m->positions < 1 || (m->labels < 1 && !model_is_tied(m)))
        return err_set(err, ERR_INVALID, "spec.model: every size must be at least 1");
    return ERR_OK;
}

bool model_is_tied(const struct model *m)
{
    return m->head == MODEL_HEAD_MASKED_LM || m->head == MODEL_HEAD_PRETRAINING;
}

size_t model_word_floats(const struct model *m)
{
    return (size_t)m->vocab * (size_t)m->hidden;
}

int model_units(const struct model *m)
{
    return 2 * m->layers + (model_is_tied(m) ? 2 : 3);
}

enum unit_kind model_unit_kind(const struct model *m, int unit)
{
    if (unit == 0)
        return UNIT_EMBEDDINGS;
    if (unit <= 2 * m->layers)
        return unit % 2 == 1 ? UNIT_ATTENTION : UNIT_FFN;
    if (model_is_tied(m))
        return UNIT_LM_HEAD;
    return unit == 2 * m->layers + 1 ? UNIT_POOLER : UNIT_HEAD;
}

int model_unit_layer(const struct model *m, int unit)
{
    return unit > 0 && unit <= 2 * m->layers ? (unit - 1) / 2 : -1;
}

void model_unit_name(const struct model *m, int unit, char out[static MODEL_NAME_BYTES])
{
    static const char *const names[] = {"embeddings", "attention", "feed-forward",
                                        "pooler",     "head",      "LM head"};
    int layer = model_unit_layer(m, unit);

    if (layer < 0)
        (void)snprintf(out, MODEL_NAME_BYTES, "%s", names[model_unit_kind(m, unit)]);
    else
        (void)snprintf(out, MODEL_NAME_BYTES, "%s %d", names[model_unit_kind(m, unit)], layer);
}

void model_range_name(const struct model *m, int first, int n, char out[static MODEL_NAME_BYTES])
{
    char from[MODEL_NAME_BYTES];
    char to[MODEL_NAME_BYTES];

    model_unit_name(m, first, from);
    model_unit_name(m, first + n - 1, to);
    if (n == 1)
        (void)snprintf(out, MODEL_NAME_BYTES, "%s", from);
    else
        (void)snprintf(out, MODEL_NAME_BYTES, "%.40s to %.40s", from, to);
}

int model_unit_tensors(const struct model *m, int unit)
{
    enum unit_kind kind = model_unit_kind(m, unit);

    return kind == UNIT_LM_HEAD && m->head == MODEL_HEAD_MASKED_LM ? MASKED_LM_TENSORS
                                                                   : tables[kind].n;
}

struct model_tensor model_tensor(const struct model *m, int unit, int i)
{
    const struct row *rows = tables[model_unit_kind(m, unit)].rows;
    struct model_tensor t = {0};
    char layer[12];
    const char *mark;

    for (int j = 0; j <= i; j++) {
        t.offset += t.count;
        t.dims[0] = size_of(m, rows[j].rows);
        t.dims[1] = size_of(m, rows[j].columns);
        t.count = (size_t)t.dims[0] * (size_t)t.dims[1];
    }
    t.n_dims = rows[i].columns ? 2 : 1;
    t.is_matrix = t.n_dims == 2;
    t.is_gain = rows[i].is_gain;
    mark = strstr(rows[i].name, "%d");
    (void)snprintf(layer, sizeof layer, "%d", model_unit_layer(m, unit));
    (void)snprintf(t.name, sizeof t.name, "%.*s%s%s",
                   mark ? (int)(mark - rows[i].name) : (int)strlen(rows[i].name), rows[i].name,
                   mark ? layer : "", mark ? mark + 2 : "");
    return t;
}

size_t model_unit_params(const struct model *m, int unit)
{
    struct model_tensor last = model_tensor(m, unit, model_unit_tensors(m, unit) - 1);

    return last.offset + last.count;
}

double model_unit_flops(const struct model *m, int unit, const struct model_load *load)
{
    double hidden = m->hidden;

    switch (model_unit_kind(m, unit)) {
    case UNIT_ATTENTION:
        return 3 * (8 * load->tokens * hidden * hidden + 4 * hidden * load->tokens_squared);
    case UNIT_FFN:
        return 3 * 4 * load->tokens * hidden * m->ffn;
    case UNIT_POOLER:
        return 3 * 2.0 * load->n_seqs * hidden * hidden;
    case UNIT_HEAD:
        return 3 * 2.0 * load->n_seqs * hidden * m->labels;
    case UNIT_LM_HEAD:
        return 3 * 2.0 * load->targets * hidden * (hidden + m->vocab) +
               (m->head == MODEL_HEAD_PRETRAINING ? 3 * 2.0 * load->n_seqs * hidden * hidden : 0);
    case UNIT_EMBEDDINGS:
        break;
    }
    return 0;
}
