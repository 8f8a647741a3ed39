#include "files/pretrained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/folder.h"
#include "files/alias.h"
#include "files/bundle.h"
#include "files/shards.h"
#include "files/weight.h"

struct pretrained {
    char folder[PATH_MAX];
    char config_path[PATH_MAX];
    struct bert_config config;
    bool has_rows;             /* the classifier's are not in the task's order: */
    int rows[TASK_LABELS_MAX]; /* label i is row rows[i] */
    struct shards *shards;     /* one of these two is there */
    struct bundle *bundle;
};

static enum err_code open_config(struct pretrained *p, struct err *err)
{
    static const char *const files[] = {"config.json", "bert_config.json"};
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

static enum err_code open_weights(struct pretrained *p, struct err *err)
{
    char prefix[PATH_MAX];
    enum err_code rc;

    if (shards_in(p->folder))
        return shards_open(p->folder, &p->shards, err);
    rc = bundle_prefix(p->folder, prefix, err);
    if (rc == ERR_OK)
        return bundle_open(prefix, &p->bundle, err);
    if (rc != ERR_NOT_FOUND)
        return rc;
    if (folder_has(p->folder, "pytorch_model.bin") ||
        folder_has(p->folder, "pytorch_model.bin.index.json"))
        return err_set(err, ERR_INVALID,
                       "%s: pytorch_model.bin may run code and is not read; load it in "
                       "transformers and save_pretrained() it, which writes model.safetensors",
                       p->folder);
    return err_set(
        err, ERR_INVALID,
        "%s: no model.safetensors, no index of shards and no checkpoint of TensorFlow; copy "
        "the whole folder",
        p->folder);
}

enum err_code pretrained_open(const char *folder, struct pretrained **out, struct err *err)
{
    struct pretrained *p;
    enum err_code rc = ERR_OK;

    if (access(folder, R_OK | X_OK) != 0)
        return file_error(err, "open folder", folder);
    p = calloc(1, sizeof *p);
    if (!p)
        return err_set(err, ERR_NO_MEMORY, "no memory to read %s", folder);
    if (snprintf(p->folder, sizeof p->folder, "%s", folder) >= (int)sizeof p->folder)
        rc = err_set(err, ERR_INVALID, "the path of folder %.80s is too long", folder);
    if (rc == ERR_OK)
        rc = open_config(p, err);
    if (rc == ERR_OK)
        rc = open_weights(p, err);
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

enum err_code pretrained_check(const struct pretrained *p, const struct model *wanted,
                               struct err *err)
{
    enum err_code rc = bert_config_check(p->config_path, &p->config, wanted, err);

    if (rc == ERR_OK && model_is_tied(wanted) && !p->config.is_tied)
        return err_set(err, ERR_INVALID,
                       "%s: tie_word_embeddings is false, but SkyJob ties the decoder to the word "
                       "embeddings; take another model or task",
                       p->config_path);
    return rc;
}

enum err_code pretrained_check_vocab(const struct pretrained *p, const struct vocab *vocab,
                                     struct err *err)
{
    if (vocab->n_tokens <= p->config.model.vocab)
        return ERR_OK;
    return err_set(err, ERR_INVALID,
                   "%s: vocab_size is %d but the vocabulary has %d tokens; use the vocab.txt that "
                   "came with the model",
                   p->config_path, p->config.model.vocab, vocab->n_tokens);
}

/* A tensor and how it lies in its file. */
struct found {
    const struct weight *weight; /* NULL: not there */
    bool is_transposed;
};

static enum err_code find_tensor(const struct pretrained *p, const char *name, struct found *out,
                                 struct err *err)
{
    char alias[MODEL_NAME_BYTES];

    *out = (struct found){0};
    if (p->bundle) {
        alias_tensorflow(name, alias, &out->is_transposed);
        return bundle_find(p->bundle, alias, &out->weight, err);
    }
    for (int i = 0; i < ALIAS_MAX && !out->weight; i++) {
        if (alias_make(name, i, alias))
            out->weight = shards_find(p->shards, alias);
    }
    return ERR_OK;
}

bool pretrained_has(const struct pretrained *p, const char *name)
{
    struct found found;

    /* A damaged one is there; whoever reads it gets the error. */
    return find_tensor(p, name, &found, NULL) != ERR_OK || found.weight;
}

static bool has_shape(const struct found *f, const struct model_tensor *t)
{
    const struct weight *w = f->weight;

    if (w->n_dims != t->n_dims)
        return false;
    if (f->is_transposed)
        return w->dims[0] == t->dims[1] && w->dims[1] == t->dims[0];
    return w->dims[0] == t->dims[0] && (t->n_dims == 1 || w->dims[1] == t->dims[1]);
}

/* May a folder lack it, so that it starts at random? */
static bool is_of_head(const struct model_tensor *t)
{
    static const char *const prefixes[] = {"classifier.", "cls.", "bert.pooler."};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(t->name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    return false;
}

enum err_code pretrained_match_labels(struct pretrained *p, const struct layout *layout,
                                      struct err *err)
{
    struct found head;
    enum err_code rc;

    if (layout->n_labels == 0)
        return ERR_OK;
    rc = find_tensor(p, "classifier.weight", &head, err);
    if (rc != ERR_OK || !head.weight || head.weight->n_dims != 2 ||
        (int64_t)head.weight->dims[head.is_transposed] != layout->n_labels)
        return rc;
    rc = bert_config_match(p->config_path, &p->config, layout->task, layout->labels,
                           layout->n_labels, p->rows, err);
    p->has_rows = rc == ERR_OK;
    return rc;
}

/* Put the rows of a classifier's tensor into the task's order. */
static enum err_code order_rows(const struct pretrained *p, const struct model_tensor *t,
                                float *tensor, struct err *err)
{
    size_t each = t->count / (size_t)t->dims[0];
    float *rows;

    if (!p->has_rows || strncmp(t->name, "classifier.", strlen("classifier.")) != 0)
        return ERR_OK;
    rows = malloc(t->count * sizeof *rows);
    if (!rows)
        return err_set(err, ERR_NO_MEMORY, "no memory to order the labels of a model");
    memcpy(rows, tensor, t->count * sizeof *rows);
    for (int i = 0; i < t->dims[0]; i++)
        memcpy(tensor + (size_t)i * each, rows + (size_t)p->rows[i] * each, each * sizeof *rows);
    free(rows);
    return ERR_OK;
}

/* Only the number of labels is another task's. */
static bool has_other_labels(const struct found *f, const struct model_tensor *t)
{
    struct model_tensor other = *t;

    other.dims[0] = (int)f->weight->dims[0];
    return strncmp(t->name, "classifier.", strlen("classifier.")) == 0 && has_shape(f, &other);
}

static void shape_of(const struct model_tensor *t, char out[static WEIGHT_SHAPE_BYTES])
{
    struct weight w = {.n_dims = t->n_dims, .dims = {t->dims[0], t->dims[1]}};

    weight_shape(&w, out);
}

static enum err_code load_tensor(const struct pretrained *p, const struct model_tensor *t,
                                 float *out, struct pretrained_missing *missing, struct err *err)
{
    struct found f;
    char has[WEIGHT_SHAPE_BYTES];
    char needs[WEIGHT_SHAPE_BYTES];
    enum err_code rc = find_tensor(p, t->name, &f, err);

    if (rc != ERR_OK)
        return rc;
    if (!f.weight && is_of_head(t)) {
        missing->n_tensors++;
        (void)snprintf(missing->why, sizeof missing->why, "%s is not there", t->name);
        return ERR_OK;
    }
    if (!f.weight)
        return err_set(err, ERR_INVALID,
                       "%s: no tensor \"%s\"; the folder is not complete or not of a BERT: copy "
                       "it again",
                       p->folder, t->name);
    if (has_shape(&f, t)) {
        rc = f.is_transposed ? weight_read_transposed(f.weight, out, err)
                             : weight_read(f.weight, out, err);
        return rc == ERR_OK ? order_rows(p, t, out, err) : rc;
    }
    weight_shape(f.weight, has);
    shape_of(t, needs);
    if (has_other_labels(&f, t)) {
        missing->n_tensors++;
        (void)snprintf(missing->why, sizeof missing->why, "%s has shape %s, the task needs %s",
                       t->name, has, needs);
        return ERR_OK;
    }
    return err_set(err, ERR_INVALID,
                   "%s: tensor \"%.96s\" has shape %s but %s asks for %s; the files do not belong "
                   "together, copy the folder again",
                   f.weight->file, f.weight->name, has, p->config_path, needs);
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

enum err_code pretrained_load_words(const struct pretrained *p, const struct model *m, float *out,
                                    struct err *err)
{
    struct pretrained_missing none = {0};
    struct model_tensor words = model_tensor(m, 0, 0);

    return load_tensor(p, &words, out, &none, err);
}

void pretrained_close(struct pretrained *p)
{
    if (!p)
        return;
    shards_close(p->shards);
    bundle_close(p->bundle);
    free(p);
}
