#include "files/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/jsonw.h"

#define JSON_MAX_BYTES ((size_t)16 << 20)

void export_shard_name(int stage, int n_stages, char out[static EXPORT_SHARD_BYTES])
{
    if (n_stages == 1)
        (void)snprintf(out, EXPORT_SHARD_BYTES, EXPORT_WHOLE_FILE);
    else
        (void)snprintf(out, EXPORT_SHARD_BYTES, "model-%05d-of-%05d.safetensors", stage + 1,
                       n_stages);
}

enum err_code export_begin(const struct model *m, const char *folder,
                           const struct export_plan *plan, int stage, export_has_fn *has, void *arg,
                           struct safetensors_writer *out, struct err *err)
{
    const struct plan_stage *s = &plan->stages[stage];
    size_t max = (size_t)s->n_units * MODEL_UNIT_TENSORS_MAX;
    struct safetensors_tensor *list = calloc(max, sizeof *list + MODEL_NAME_BYTES);
    char *name = (char *)(list + max);
    char file[EXPORT_SHARD_BYTES];
    char path[PATH_MAX];
    int n = 0;
    enum err_code rc;

    if (!list)
        return err_set(err, ERR_NO_MEMORY, "no memory to list %zu tensors", max);
    for (int unit = s->first_unit; unit < s->first_unit + s->n_units; unit++) {
        for (int i = 0; i < model_unit_tensors(m, unit); i++) {
            struct model_tensor t = model_tensor(m, unit, i);

            if (has && !has(arg, t.name))
                continue;
            memcpy(name, t.name, MODEL_NAME_BYTES);
            list[n++] = (struct safetensors_tensor){
                .name = name, .n_dims = t.n_dims, .dims = {t.dims[0], t.dims[1]}};
            name += MODEL_NAME_BYTES;
        }
    }
    export_shard_name(stage, plan->n_stages, file);
    rc = folder_path(folder, file, path, err);
    if (rc == ERR_OK)
        rc = folder_make(folder, err);
    if (rc == ERR_OK)
        rc = safetensors_begin(path, list, n, out, err);
    free(list);
    return rc;
}

enum err_code export_shard(const struct model *m, const char *folder,
                           const struct export_plan *plan, int stage, const float *const *params,
                           struct err *err)
{
    const struct plan_stage *s = &plan->stages[stage];
    struct safetensors_writer w;
    enum err_code rc = export_begin(m, folder, plan, stage, NULL, NULL, &w, err);

    if (rc != ERR_OK)
        return rc;
    /* A unit's floats lie in the order of its tensors, without gaps. */
    for (int i = 0; i < s->n_units && rc == ERR_OK; i++)
        rc = safetensors_put(&w, params[i], model_unit_params(m, s->first_unit + i), err);
    if (rc == ERR_OK)
        return safetensors_finish(&w, err);
    safetensors_abandon(&w);
    return rc;
}

/* --- the files that exist once --- */

/* transformers counts these names to learn the number of labels. */
static void write_labels(struct jsonw *json, const struct model *m, const struct export_extras *x)
{
    for (int is_back = 0; is_back < 2; is_back++) {
        jsonw_open_object(json, is_back ? "label2id" : "id2label");
        for (int i = 0; i < m->labels; i++) {
            char own[24];
            const char *label = i < x->n_labels ? x->labels[i] : own;

            (void)snprintf(own, sizeof own, "LABEL_%d", i);
            if (is_back)
                jsonw_int(json, label, i);
            else
                jsonw_string(json, own + strlen("LABEL_"), label);
        }
        jsonw_close(json);
    }
}

/* The class of transformers that loads it. */
static void write_kind(struct jsonw *json, const struct model *m, const struct export_extras *x)
{
    static const struct {
        const char *class_name;
        const char *problem; /* NULL: left out */
    } kinds[] = {
        [MODEL_HEAD_CLASSIFIER] = {"BertForSequenceClassification", "single_label_classification"},
        [MODEL_HEAD_REGRESSION] = {"BertForSequenceClassification", "regression"},
        [MODEL_HEAD_MASKED_LM] = {"BertForMaskedLM", NULL},
        [MODEL_HEAD_PRETRAINING] = {"BertForPreTraining", NULL},
    };

    jsonw_open_array(json, "architectures");
    jsonw_string(json, NULL, x->is_headless ? "BertModel" : kinds[m->head].class_name);
    jsonw_close(json);
    jsonw_string(json, "model_type", "bert");
    if (x->is_headless || !kinds[m->head].problem)
        return;
    jsonw_string(json, "problem_type", kinds[m->head].problem);
    write_labels(json, m, x);
}

/* Each of these writes the members of one document. */
static void write_config(struct jsonw *json, const struct model *m, const struct export_extras *x)
{
    write_kind(json, m, x);
    jsonw_string(json, "torch_dtype", "float32");
    jsonw_int(json, "vocab_size", m->vocab);
    jsonw_int(json, "hidden_size", m->hidden);
    jsonw_int(json, "num_hidden_layers", m->layers);
    jsonw_int(json, "num_attention_heads", m->heads);
    jsonw_int(json, "intermediate_size", m->ffn);
    jsonw_int(json, "max_position_embeddings", m->positions);
    jsonw_int(json, "type_vocab_size", MODEL_TYPES);
    jsonw_int(json, "pad_token_id", x->pad_id);
    jsonw_string(json, "hidden_act", "gelu");
    jsonw_string(json, "position_embedding_type", "absolute");
    jsonw_bool(json, "tie_word_embeddings", true);
    jsonw_double(json, "layer_norm_eps", m->norm_eps);
    jsonw_double(json, "initializer_range", 0.02);
    jsonw_double(json, "hidden_dropout_prob", x->dropout);
    jsonw_double(json, "attention_probs_dropout_prob", x->dropout);
}

static void write_tokenizer(struct jsonw *json, const struct model *m,
                            const struct export_extras *x)
{
    jsonw_string(json, "tokenizer_class", "BertTokenizer");
    jsonw_bool(json, "do_lower_case", !x->is_cased);
    jsonw_int(json, "model_max_length", m->positions);
}

static void write_index(struct jsonw *json, const struct model *m, const struct export_plan *plan)
{
    char shard[EXPORT_SHARD_BYTES];
    int64_t bytes = 0;

    for (int unit = 0; unit < model_units(m); unit++)
        bytes += (int64_t)(model_unit_params(m, unit) * sizeof(float));
    jsonw_open_object(json, "metadata");
    jsonw_int(json, "total_size", bytes);
    jsonw_close(json);
    jsonw_open_object(json, "weight_map");
    for (int stage = 0; stage < plan->n_stages; stage++) {
        const struct plan_stage *s = &plan->stages[stage];

        export_shard_name(stage, plan->n_stages, shard);
        for (int unit = s->first_unit; unit < s->first_unit + s->n_units; unit++) {
            for (int i = 0; i < model_unit_tensors(m, unit); i++)
                jsonw_string(json, model_tensor(m, unit, i).name, shard);
        }
    }
    jsonw_close(json);
}

enum err_code export_remove(const char *folder, const char *file, struct err *err)
{
    char path[PATH_MAX];
    enum err_code rc = folder_path(folder, file, path, err);

    if (rc == ERR_OK && unlink(path) != 0 && errno != ENOENT)
        rc = file_error(err, "remove", path);
    return rc;
}

enum err_code export_rest(const struct model *m, const char *folder, const struct export_plan *plan,
                          const struct export_extras *x, struct err *err)
{
    const char *const files[] = {"config.json", "tokenizer_config.json", EXPORT_INDEX_FILE};
    bool is_sharded = plan->n_stages > 1;
    enum err_code rc = folder_make(folder, err);

    /* An earlier run with another number of stages may have left it: transformers would read it
     * first, or users would mistake it for this run's. */
    if (rc == ERR_OK)
        rc = export_remove(folder, is_sharded ? EXPORT_WHOLE_FILE : EXPORT_INDEX_FILE, err);
    for (int i = 0; i < (is_sharded ? 3 : 2) && rc == ERR_OK; i++) {
        struct buf text = {.max = JSON_MAX_BYTES};
        struct jsonw json;
        char path[PATH_MAX];

        jsonw_init(&json, &text);
        jsonw_open_object(&json, NULL);
        if (i == 0)
            write_config(&json, m, x);
        else if (i == 1)
            write_tokenizer(&json, m, x);
        else
            write_index(&json, m, plan);
        jsonw_close(&json);
        rc = jsonw_finish(&json, err);
        if (rc == ERR_OK)
            rc = folder_path(folder, files[i], path, err);
        if (rc == ERR_OK)
            rc = file_write(path, text.data, text.len, err);
        buf_deinit(&text);
    }
    return rc;
}
