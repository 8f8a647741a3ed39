#include "files/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

#define JSON_MAX_BYTES ((size_t)16 << 20)

void export_shard_name(int shard, int n_shards, char out[static EXPORT_SHARD_BYTES])
{
    if (n_shards == 1)
        (void)snprintf(out, EXPORT_SHARD_BYTES, EXPORT_WHOLE_FILE);
    else
        (void)snprintf(out, EXPORT_SHARD_BYTES, "model-%05d-of-%05d.safetensors", shard + 1,
                       n_shards);
}

int export_unit_tensors(const struct model *m, int n_moments, int unit,
                        struct model_tensor out[static EXPORT_UNIT_TENSORS_MAX])
{
    static const char *const names[] = {"moment", "variance"};
    size_t count = model_unit_params(m, unit);
    int n = model_unit_tensors(m, unit);

    for (int i = 0; i < n; i++)
        out[i] = model_tensor(m, unit, i);
    for (int i = 0; i < n_moments; i++, n++) {
        out[n] = (struct model_tensor){.n_dims = 1,
                                       .dims = {(int64_t)count},
                                       .offset = count * (size_t)(i + 1),
                                       .count = count};
        (void)snprintf(out[n].name, sizeof out[n].name, "optimizer.%s.unit-%05d", names[i], unit);
    }
    return n;
}

enum err_code export_begin(const struct export_params *p, int shard, export_has_fn *has, void *arg,
                           struct safetensors_writer *out, struct err *err)
{
    const struct plan_home *s = &p->shards[shard];
    size_t max = (size_t)s->n_units * EXPORT_UNIT_TENSORS_MAX;
    struct model_tensor *list = calloc(max, sizeof *list);
    char file[EXPORT_SHARD_BYTES];
    char path[PATH_MAX];
    int n = 0;
    enum err_code rc;

    if (!list)
        return err_set(err, ERR_NO_MEMORY, "no memory to list %zu tensors", max);
    for (int unit = s->first_unit; unit < s->first_unit + s->n_units; unit++) {
        struct model_tensor tensors[EXPORT_UNIT_TENSORS_MAX];
        int n_tensors = export_unit_tensors(p->model, p->n_moments, unit, tensors);

        for (int i = 0; i < n_tensors; i++) {
            list[n] = tensors[i];
            n += !has || has(arg, list[n].name);
        }
    }
    export_shard_name(shard, p->n_shards, file);
    rc = folder_path(p->folder, file, path, err);
    if (rc == ERR_OK)
        rc = folder_make(p->folder, err);
    if (rc == ERR_OK)
        rc = safetensors_begin(path, list, n, out, err);
    free(list);
    return rc;
}

enum err_code export_shard(const struct export_params *p, int shard, const float *const *params,
                           struct err *err)
{
    const struct plan_home *s = &p->shards[shard];
    struct safetensors_writer w;
    enum err_code rc = export_begin(p, shard, NULL, NULL, &w, err);

    if (rc != ERR_OK)
        return rc;
    /* A unit's floats lie in the order of its tensors, without gaps. */
    for (int i = 0; i < s->n_units && rc == ERR_OK; i++)
        rc = safetensors_put(&w, params[i], model_unit_params(p->model, s->first_unit + i), err);
    if (rc == ERR_OK)
        return safetensors_finish(&w, err);
    safetensors_abandon(&w);
    return rc;
}

/* --- the files that exist once: each of these writes the members of one document --- */

static void write_config(struct jsonw *json, const struct export_params *p)
{
    static const struct {
        const char *class_name; /* of transformers, that loads it */
        const char *problem;    /* NULL: left out */
    } kinds[] = {
        [MODEL_HEAD_CLASSIFIER] = {"BertForSequenceClassification", "single_label_classification"},
        [MODEL_HEAD_REGRESSION] = {"BertForSequenceClassification", "regression"},
        [MODEL_HEAD_MASKED_LM] = {"BertForMaskedLM", NULL},
        [MODEL_HEAD_PRETRAINING] = {"BertForPreTraining", NULL},
    };
    const struct model *m = p->model;
    bool has_labels = !p->is_headless && kinds[m->head].problem;

    jsonw_open_array(json, "architectures");
    jsonw_string(json, NULL, p->is_headless ? "BertModel" : kinds[m->head].class_name);
    jsonw_close(json);
    jsonw_string(json, "model_type", "bert");
    if (has_labels)
        jsonw_string(json, "problem_type", kinds[m->head].problem);
    /* transformers counts the names to learn the number of labels. */
    for (int is_back = 0; has_labels && is_back < 2; is_back++) {
        jsonw_open_object(json, is_back ? "label2id" : "id2label");
        for (int i = 0; i < m->labels; i++) {
            char own[24];
            const char *label = i < p->n_labels ? p->labels[i] : own;

            (void)snprintf(own, sizeof own, "LABEL_%d", i);
            if (is_back)
                jsonw_int(json, label, i);
            else
                jsonw_string(json, own + strlen("LABEL_"), label);
        }
        jsonw_close(json);
    }
    jsonw_string(json, "torch_dtype", "float32");
    jsonw_int(json, "vocab_size", m->vocab);
    jsonw_int(json, "hidden_size", m->hidden);
    jsonw_int(json, "num_hidden_layers", m->layers);
    jsonw_int(json, "num_attention_heads", m->heads);
    jsonw_int(json, "intermediate_size", m->ffn);
    jsonw_int(json, "max_position_embeddings", m->positions);
    jsonw_int(json, "type_vocab_size", MODEL_TYPES);
    jsonw_int(json, "pad_token_id", p->pad_id);
    jsonw_string(json, "hidden_act", "gelu");
    jsonw_string(json, "position_embedding_type", "absolute");
    jsonw_bool(json, "tie_word_embeddings", true);
    jsonw_double(json, "layer_norm_eps", m->norm_eps);
    jsonw_double(json, "initializer_range", 0.02);
    jsonw_double(json, "hidden_dropout_prob", p->dropout);
    jsonw_double(json, "attention_probs_dropout_prob", p->dropout);
}

static void write_tokenizer(struct jsonw *json, const struct export_params *p)
{
    jsonw_string(json, "tokenizer_class", "BertTokenizer");
    jsonw_bool(json, "do_lower_case", !p->is_cased);
    jsonw_int(json, "model_max_length", p->model->positions);
}

static void write_index(struct jsonw *json, const struct export_params *p)
{
    int64_t bytes = 0;

    jsonw_open_object(json, "weight_map");
    for (int shard = 0; shard < p->n_shards; shard++) {
        const struct plan_home *s = &p->shards[shard];
        char file[EXPORT_SHARD_BYTES];

        export_shard_name(shard, p->n_shards, file);
        for (int unit = s->first_unit; unit < s->first_unit + s->n_units; unit++) {
            bytes += (int64_t)(model_unit_params(p->model, unit) * sizeof(float));
            for (int i = 0; i < model_unit_tensors(p->model, unit); i++)
                jsonw_string(json, model_tensor(p->model, unit, i).name, file);
        }
    }
    jsonw_close(json);
    jsonw_open_object(json, "metadata");
    jsonw_int(json, "total_size", bytes);
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

enum err_code export_rest(const struct export_params *p, struct err *err)
{
    static const struct {
        const char *file;
        void (*write)(struct jsonw *json, const struct export_params *p);
    } documents[] = {{"config.json", write_config},
                     {"tokenizer_config.json", write_tokenizer},
                     {EXPORT_INDEX_FILE, write_index}};
    bool is_sharded = p->n_shards > 1;
    enum err_code rc = folder_make(p->folder, err);

    /* An earlier run with another number of shards may have left it: transformers would read it
     * first, or users would mistake it for this run's. */
    if (rc == ERR_OK)
        rc = export_remove(p->folder, is_sharded ? EXPORT_WHOLE_FILE : EXPORT_INDEX_FILE, err);
    for (int i = 0; i < (is_sharded ? 3 : 2) && rc == ERR_OK; i++) {
        struct buf text = {.max = JSON_MAX_BYTES};
        struct jsonw json;
        char path[PATH_MAX];

        jsonw_init(&json, &text);
        jsonw_open_object(&json, NULL);
        documents[i].write(&json, p);
        jsonw_close(&json);
        rc = jsonw_finish(&json, err);
        if (rc == ERR_OK)
            rc = folder_path(p->folder, documents[i].file, path, err);
        if (rc == ERR_OK)
            rc = file_write(path, text.data, text.len, err);
        buf_deinit(&text);
    }
    return rc;
}
