#include "files/pretrained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "files/export.h"
#include "files/safetensors.h"

#define SHARDS_MAX      1024
#define FILE_NAME_BYTES 255
#define GOOGLES_CONFIG  "bert_config.json"

struct pretrained {
    char folder[PATH_MAX];
    char config_path[PATH_MAX];
    struct bert_config config;
    bool has_rows;                  /* the classifier's are not in the task's order: */
    int rows[TASK_LABELS_MAX];      /* label i is row rows[i] */
    struct pretrained_reader other; /* another format's; its `find` is NULL for safetensors: */
    struct json *index;             /* of the shards; NULL: one file */
    struct map files;               /* struct safetensors by name */
};

bool pretrained_alias(const char *name, int i, char out[static MODEL_NAME_BYTES])
{
    enum { OLD_NORM = 1, NO_PREFIX = 2, DECODER = 4 };
    static const char prefix[] = "bert.";
    bool has_prefix = strncmp(name, prefix, strlen(prefix)) == 0;

    if (i & NO_PREFIX && !has_prefix)
        return false;
    (void)snprintf(out, MODEL_NAME_BYTES, "%s", i & NO_PREFIX ? name + strlen(prefix) : name);
    if (i & OLD_NORM)
        return weight_rename(out, "LayerNorm.weight", "LayerNorm.gamma") ||
               weight_rename(out, "LayerNorm.bias", "LayerNorm.beta");
    if (i & DECODER)
        return weight_rename(out, "cls.predictions.bias", "cls.predictions.decoder.bias");
    return true;
}

static enum err_code open_config(struct pretrained *p, struct err *err)
{
    static const char *const files[] = {"config.json", GOOGLES_CONFIG};
    struct json *root = NULL;
    const char *file = folder_has(p->folder, files[0]) ? files[0] : files[1];
    enum err_code rc;

    if (!folder_has(p->folder, file))
        return err_set(err, ERR_INVALID,
                       "%s: neither config.json nor bert_config.json; name the folder of a model",
                       p->folder);
    rc = folder_path(p->folder, file, p->config_path, err);
    if (rc == ERR_OK)
        rc = folder_json(p->folder, file, &root, err);
    if (rc == ERR_OK)
        rc = bert_config_parse(p->config_path, root, &p->config, err);
    json_free(root);
    return rc;
}

static enum err_code add_file(struct pretrained *p, const char *name, struct err *err)
{
    struct safetensors *file = NULL;
    char path[PATH_MAX];
    enum err_code rc = folder_path(p->folder, name, path, err);

    if (rc == ERR_OK && p->files.n == SHARDS_MAX)
        rc = err_set(err, ERR_LIMIT, "%s/%s: more than %d shards", p->folder, EXPORT_INDEX_FILE,
                     SHARDS_MAX);
    if (rc == ERR_OK)
        rc = safetensors_open(path, &file, err);
    if (rc == ERR_NOT_FOUND)
        rc = err_set(err, ERR_INVALID,
                     "%s: the index names this shard, but it is missing; copy the whole folder",
                     path);
    if (rc != ERR_OK)
        return rc;
    rc = map_put(&p->files, name, file, err);
    if (rc != ERR_OK)
        safetensors_close(file);
    return rc;
}

static enum err_code open_index(struct pretrained *p, struct err *err)
{
    const struct json *map;
    enum err_code rc = folder_json(p->folder, EXPORT_INDEX_FILE, &p->index, err);

    if (rc != ERR_OK)
        return rc;
    map = json_get(p->index, "weight_map");
    if (json_kind_of(map) != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "%s/%s: no object \"weight_map\"; save the model again",
                       p->folder, EXPORT_INDEX_FILE);
    for (const struct json *v = json_first(map); v && rc == ERR_OK; v = json_next(v)) {
        const char *file = json_string(v, "");

        /* Of this very folder and no other. */
        if (!*file || *file == '.' || strchr(file, '/') || strlen(file) > FILE_NAME_BYTES)
            return err_set(err, ERR_INVALID,
                           "%s/%s: tensor \"%.80s\": \"%.80s\" is not a file of this folder; save "
                           "the model again",
                           p->folder, EXPORT_INDEX_FILE, json_key(v), file);
        if (!map_get(&p->files, file))
            rc = add_file(p, file, err);
        if (rc == ERR_OK && !safetensors_find(map_get(&p->files, file), json_key(v)))
            rc = err_set(err, ERR_INVALID,
                         "%s/%s: tensor \"%.80s\" is not in %.80s; copy the whole folder again",
                         p->folder, EXPORT_INDEX_FILE, json_key(v), file);
    }
    return rc;
}

/* Where both are, transformers takes the single file. */
static enum err_code open_files(struct pretrained *p, struct err *err)
{
    if (folder_has(p->folder, EXPORT_WHOLE_FILE))
        return add_file(p, EXPORT_WHOLE_FILE, err);
    if (folder_has(p->folder, EXPORT_INDEX_FILE))
        return open_index(p, err);
    if (strstr(p->config_path, GOOGLES_CONFIG) || folder_has(p->folder, "bert_model.ckpt.index"))
        return err_set(err, ERR_INVALID,
                       "%s: a TensorFlow checkpoint; convert it with `skyjob-import model --from "
                       "DIR --out DIR` and use the folder that this writes",
                       p->folder);
    if (folder_has(p->folder, "pytorch_model.bin") ||
        folder_has(p->folder, "pytorch_model.bin.index.json"))
        return err_set(err, ERR_INVALID,
                       "%s: pytorch_model.bin may run code and is not read; load it in "
                       "transformers and save_pretrained() it, which writes model.safetensors",
                       p->folder);
    return err_set(err, ERR_INVALID,
                   "%s: no model.safetensors and no index of shards; copy the whole folder",
                   p->folder);
}

enum err_code pretrained_open(const char *folder, const struct pretrained_reader *reader,
                              struct pretrained **out, struct err *err)
{
    struct pretrained *p;
    enum err_code rc;

    if (access(folder, R_OK | X_OK) != 0)
        return file_error(err, "open folder", folder);
    p = calloc(1, sizeof *p);
    if (!p)
        return err_set(err, ERR_NO_MEMORY, "no memory to read %s", folder);
    (void)snprintf(p->folder, sizeof p->folder, "%s", folder); /* a path that exists fits */
    rc = open_config(p, err);
    if (rc == ERR_OK && reader)
        p->other = *reader;
    else if (rc == ERR_OK)
        rc = open_files(p, err);
    if (rc != ERR_OK) {
        pretrained_close(p);
        return rc;
    }
    *out = p;
    return ERR_OK;
}

const struct bert_config *pretrained_config(const struct pretrained *p)
{
    return &p->config;
}

enum err_code pretrained_inspect(const char *folder, struct buf *out, struct err *err)
{
    struct pretrained *p = NULL;
    enum err_code rc = pretrained_open(folder, NULL, &p, err);

    if (rc == ERR_OK)
        rc = fields_print(bert_config_sizes, &p->config.model, out, err);
    pretrained_close(p);
    return rc;
}

enum err_code pretrained_check(const struct pretrained *p, const struct model *wanted,
                               struct err *err)
{
    enum err_code rc = bert_config_check(p->config_path, &p->config.model, wanted, err);

    if (rc == ERR_OK && model_is_tied(wanted) && !p->config.is_tied)
        return err_set(err, ERR_INVALID,
                       "%s: tie_word_embeddings is false, but SkyJob ties the decoder to the word "
                       "embeddings; take another model or task",
                       p->config_path);
    return rc;
}

enum err_code pretrained_check_vocab(const struct pretrained *p, int n_tokens, struct err *err)
{
    if (n_tokens <= p->config.model.vocab)
        return ERR_OK;
    return err_set(err, ERR_INVALID,
                   "%s: vocab_size is %d but the vocabulary has %d tokens; use the vocab.txt that "
                   "came with the model",
                   p->config_path, p->config.model.vocab, n_tokens);
}

/* ERR_NOT_FOUND, without a text, when the folder has no tensor that we call `name`. */
static enum err_code find_tensor(const struct pretrained *p, const char *name, struct weight *out,
                                 struct err *err)
{
    const struct json *map = json_get(p->index, "weight_map");
    char alias[MODEL_NAME_BYTES];

    if (p->other.find)
        return p->other.find(p->other.from, name, out, err);
    for (int i = 0; i < PRETRAINED_ALIAS_MAX; i++) {
        const struct weight *found = NULL;
        const char *file;

        if (!pretrained_alias(name, i, alias))
            continue;
        file = p->index ? json_string(json_get(map, alias), "") : EXPORT_WHOLE_FILE;
        if (map_get(&p->files, file))
            found = safetensors_find(map_get(&p->files, file), alias);
        if (found) {
            *out = *found;
            return ERR_OK;
        }
    }
    return ERR_NOT_FOUND;
}

bool pretrained_has(const struct pretrained *p, const char *name)
{
    struct weight found;

    /* A damaged tensor exists; reading it fails. */
    return find_tensor(p, name, &found, NULL) != ERR_NOT_FOUND;
}

static bool has_shape(const struct weight *w, const struct model_tensor *t)
{
    return w->n_dims == t->n_dims && w->dims[0] == t->dims[0] &&
           (t->n_dims == 1 || w->dims[1] == t->dims[1]);
}

static bool begins_with(const struct model_tensor *t, const char *prefix)
{
    return strncmp(t->name, prefix, strlen(prefix)) == 0;
}

enum err_code pretrained_match_labels(struct pretrained *p, const struct task *task,
                                      const char *const *labels, int n_labels, struct err *err)
{
    struct weight head;
    enum err_code rc;

    if (n_labels == 0)
        return ERR_OK;
    rc = find_tensor(p, "classifier.weight", &head, err);
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK || head.n_dims != 2 || head.dims[0] != n_labels)
        return rc;
    rc = bert_config_match(p->config_path, &p->config, task, labels, n_labels, p->rows, err);
    p->has_rows = rc == ERR_OK;
    return rc;
}

static enum err_code load_tensor(const struct pretrained *p, const struct model_tensor *t,
                                 float *out, struct pretrained_missing *missing, struct err *err)
{
    struct weight needed = {.n_dims = t->n_dims, .dims = {t->dims[0], t->dims[1]}};
    struct model_tensor other = *t; /* the same of another number of labels */
    struct weight w;
    char has[WEIGHT_SHAPE_BYTES];
    char needs[WEIGHT_SHAPE_BYTES];
    enum err_code rc = find_tensor(p, t->name, &w, err);

    /* A folder may lack the head, which then starts at random. */
    if (rc == ERR_NOT_FOUND && (begins_with(t, "classifier.") || begins_with(t, "cls.") ||
                                begins_with(t, "bert.pooler."))) {
        missing->n_tensors++;
        (void)snprintf(missing->why, sizeof missing->why, "%s is missing", t->name);
        return ERR_OK;
    }
    if (rc == ERR_NOT_FOUND)
        return err_set(err, ERR_INVALID,
                       "%s: no tensor \"%s\"; the folder is not complete or not of a BERT: copy "
                       "it again",
                       p->folder, t->name);
    if (rc != ERR_OK)
        return rc;
    if (has_shape(&w, t)) {
        size_t each = t->count / (size_t)t->dims[0];
        float *rows;

        rc = weight_read(&w, out, err);
        if (rc != ERR_OK || !p->has_rows || !begins_with(t, "classifier."))
            return rc;
        rows = malloc(t->count * sizeof *rows);
        if (!rows)
            return err_set(err, ERR_NO_MEMORY, "no memory to order the labels of a model");
        memcpy(rows, out, t->count * sizeof *rows);
        for (int i = 0; i < t->dims[0]; i++) /* in the task's order */
            memcpy(out + (size_t)i * each, rows + (size_t)p->rows[i] * each, each * sizeof *rows);
        free(rows);
        return ERR_OK;
    }
    weight_shape(&w, has);
    weight_shape(&needed, needs);
    other.dims[0] = (int)w.dims[0];
    if (begins_with(t, "classifier.") && has_shape(&w, &other)) {
        missing->n_tensors++;
        (void)snprintf(missing->why, sizeof missing->why, "%s has shape %s, the task needs %s",
                       t->name, has, needs);
        return ERR_OK;
    }
    return err_set(err, ERR_INVALID,
                   "%s: tensor \"%.96s\" has shape %s but %s asks for %s; the files do not belong "
                   "together, copy the folder again",
                   w.file, w.name, has, p->config_path, needs);
}

enum err_code pretrained_load_unit(const struct pretrained *p, const struct model *m, int unit,
                                   float *params, struct pretrained_missing *out_missing,
                                   struct err *err)
{
    struct pretrained_missing missing = {0};
    enum err_code rc = ERR_OK;

    for (int i = 0; i < model_unit_tensors(m, unit) && rc == ERR_OK; i++) {
        struct model_tensor t = model_tensor(m, unit, i);

        rc = load_tensor(p, &t, params + t.offset, &missing, err);
    }
    if (rc == ERR_OK)
        *out_missing = missing;
    return rc;
}

void pretrained_close(struct pretrained *p)
{
    struct safetensors *file;
    size_t place = 0;

    if (!p)
        return;
    while ((file = map_next(&p->files, &place, NULL)))
        safetensors_close(file);
    map_deinit(&p->files);
    json_free(p->index);
    free(p);
}
