/* api/model.h - the shape of a BERT with its head: its units, and the tensors of each unit.
 *
 * A model is a chain of units, the smallest parts a stage can own: the embeddings, then attention
 * and feed-forward of each layer, then the pooler and a classifier, or the head of a language
 * model, which sees every token and so contains the pooler. A stage owns a consecutive run of them.
 * All sizes come from here: for the planner, the worker's memory layout and the weights' files.
 *
 * Letters: V vocabulary, C hidden, H heads, F feed-forward, L layers, P positions, N labels.
 * Layer: api (may use base). Threads: any; everything here is pure.
 */
#ifndef API_MODEL_H
#define API_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MODEL_LAYERS_MAX       512
#define MODEL_UNITS_MAX        (2 * MODEL_LAYERS_MAX + 3)
#define MODEL_UNIT_TENSORS_MAX 10
#define MODEL_CHOICES          2 /* of the next-sentence head: it follows, it does not */
#define MODEL_TYPES            2 /* token types: first and second sentence */
#define MODEL_NAME_BYTES       96

enum model_head {
    MODEL_HEAD_CLASSIFIER,  /* cross entropy over N labels of a sequence */
    MODEL_HEAD_REGRESSION,  /* squared error of one number of a sequence; N is 1 */
    MODEL_HEAD_MASKED_LM,   /* cross entropy over V words at masked tokens */
    MODEL_HEAD_PRETRAINING, /* masked LM, and whether the second sentence follows the first */
};

struct model {
    enum model_head head;
    int vocab;     /* V */
    int hidden;    /* C, a multiple of heads */
    int layers;    /* L */
    int heads;     /* H */
    int ffn;       /* F */
    int positions; /* P: the longest sequence the model can take */
    int labels;    /* N; not used by a language model */
    double norm_eps;
};

enum unit_kind {
    UNIT_EMBEDDINGS,
    UNIT_ATTENTION,
    UNIT_FFN,
    UNIT_POOLER,
    UNIT_HEAD,
    UNIT_LM_HEAD, /* its decoder [V,C] is the word embeddings, which belong to unit 0 */
};
#define UNIT_KINDS (UNIT_LM_HEAD + 1)

/* One parameter tensor of a unit; within a unit they lie one behind the other in this order. */
struct model_tensor {
    char name[MODEL_NAME_BYTES]; /* as Hugging Face's BertForSequenceClassification and
                                  * BertForPreTraining call it */
    int n_dims;                  /* 1 or 2 */
    int64_t dims[2];
    size_t offset;  /* floats from the start of the unit */
    size_t count;   /* floats */
    bool is_matrix; /* weight decay and random initialisation; else a bias or LayerNorm vector */
    bool is_gain;   /* LayerNorm weight: starts at 1, not 0 */
};

/* Fill in a published size by name: BertTiny, BertMini, BertSmall, BertMedium, BertBase, BertLarge
 * (Turc et al. 2019, arXiv 1908.08962; Devlin et al. 2018). ERR_NOT_FOUND lists them. */
MUST_CHECK enum err_code model_preset(const char *name, struct model *out, struct err *err);

/* ERR_INVALID names the field of the spec: "spec.model.hiddenSize: 130 is not a multiple ...". */
MUST_CHECK enum err_code model_check(const struct model *m, struct err *err);

int model_units(const struct model *m);
/* Does it predict masked tokens? Then the last stage needs the word embeddings of the first. */
bool model_is_tied(const struct model *m);
/* Floats of the word embeddings, the first tensor of the embeddings: V C. */
size_t model_word_floats(const struct model *m);
enum unit_kind model_unit_kind(const struct model *m, int unit);
/* Layer of an attention or feed-forward unit, else -1. */
int model_unit_layer(const struct model *m, int unit);
/* For people: "embeddings", "attention 3", "feed-forward 3", "pooler", "head", "LM head". */
void model_unit_name(const struct model *m, int unit, char out[static MODEL_NAME_BYTES]);
/* A run of units for people: "embeddings to attention 3". */
void model_range_name(const struct model *m, int first, int n, char out[static MODEL_NAME_BYTES]);

int model_unit_tensors(const struct model *m, int unit);
/* Tensor `i` of `unit`, 0 <= i < model_unit_tensors(). */
struct model_tensor model_tensor(const struct model *m, int unit, int i);
/* Parameters of a unit, in floats. */
size_t model_unit_params(const struct model *m, int unit);

/* What the arithmetic of a micro-batch depends on. */
struct model_load {
    int n_seqs;            /* B */
    double tokens;         /* T, of all sequences together, without padding */
    double tokens_squared; /* sum over the sequences of their length squared */
    double targets;        /* masked tokens, which a language model predicts */
};
/* FLOPs of a unit's matrix products, forward and backward (three times the forward): what a speed
 * in GFLOP/s counts, for the planner that predicts with it and the probe that measures it. */
double model_unit_flops(const struct model *m, int unit, const struct model_load *load);

#endif
