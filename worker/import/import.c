#include "import/import.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "files/export.h"
#include "import/bundle.h"
#include "text/tokenizer.h"

struct import {
    const char *from;
    struct bundle *bundle; /* NULL: the weights are safetensors */
    struct pretrained *source;
    struct tokenizer tokenizer;
    struct import_report report;
};

static enum err_code open_source(struct import *im, struct err *err)
{
    struct model *m = &im->report.model;
    struct pretrained_reader reader = {.find = bundle_find_ours};
    char prefix[PATH_MAX];
    /* Safetensors first, as transformers has it. */
    bool is_ours =
        folder_has(im->from, EXPORT_WHOLE_FILE) || folder_has(im->from, EXPORT_INDEX_FILE);
    enum err_code rc = is_ours ? ERR_NOT_FOUND : bundle_prefix(im->from, prefix, err);

    if (rc == ERR_OK)
        rc = bundle_open(prefix, &im->bundle, err);
    else if (rc == ERR_NOT_FOUND)
        rc = ERR_OK;
    reader.from = im->bundle;
    if (rc == ERR_OK)
        rc = pretrained_open(im->from, im->bundle ? &reader : NULL, &im->source, err);
    if (rc == ERR_OK)
        rc = tokenizer_load(NULL, im->from, SPEC_CASE_ABSENT, &im->tokenizer, err);
    if (rc == ERR_OK)
        rc = pretrained_check_vocab(im->source, im->tokenizer.vocab.n_tokens, err);
    if (rc != ERR_OK)
        return rc;
    im->report.is_cased = im->tokenizer.is_cased;
    /* The largest head that the tensors make up. */
    *m = pretrained_config(im->source)->model;
    if (pretrained_has(im->source, "cls.predictions.bias"))
        m->head = pretrained_has(im->source, "cls.seq_relationship.weight") ? MODEL_HEAD_PRETRAINING
                                                                            : MODEL_HEAD_MASKED_LM;
    else
        m->head = m->labels == 1 ? MODEL_HEAD_REGRESSION : MODEL_HEAD_CLASSIFIER;
    return pretrained_check(im->source, m, err);
}

static bool count_if_there(void *arg, const char *name)
{
    struct import *im = arg;
    bool is_there = pretrained_has(im->source, name);

    im->report.n_tensors += is_there;
    im->report.is_headless |= !is_there;
    return is_there;
}

static enum err_code put_unit(const struct import *im, int unit, struct safetensors_writer *w,
                              struct err *err)
{
    const struct model *m = &im->report.model;
    struct pretrained_missing missing;
    float *params = malloc(model_unit_params(m, unit) * sizeof *params);
    int n_put = 0;
    enum err_code rc;

    if (!params)
        return err_set(err, ERR_NO_MEMORY, "no memory for unit %d of the model", unit);
    rc = pretrained_load_unit(im->source, m, unit, params, &missing, err);
    for (int i = 0; i < model_unit_tensors(m, unit) && rc == ERR_OK; i++) {
        struct model_tensor t = model_tensor(m, unit, i);

        if (!pretrained_has(im->source, t.name))
            continue;
        rc = safetensors_put(w, params + t.offset, t.count, err);
        n_put++;
    }
    free(params);
    /* A classifier with other labels than its config has is there, but was not read. */
    if (rc == ERR_OK && n_put + missing.n_tensors != model_unit_tensors(m, unit))
        rc = err_set(err, ERR_INVALID, "%s: %s by its config: correct num_labels there", im->from,
                     missing.why);
    return rc;
}

static enum err_code write_model(struct import *im, const char *to, struct err *err)
{
    const struct model *m = &im->report.model;
    const struct bert_config *config = pretrained_config(im->source);
    const char *labels[TASK_LABELS_MAX];
    struct export_params p = {.model = m,
                              .folder = to,
                              .n_shards = 1,
                              .shards = {{.n_units = model_units(m)}},
                              .pad_id = im->tokenizer.vocab.pad,
                              .is_cased = im->report.is_cased,
                              .n_labels = config->n_names,
                              .labels = labels,
                              .dropout = config->hidden_dropout};
    struct safetensors_writer w;
    enum err_code rc = export_begin(&p, 0, count_if_there, im, &w, err);

    for (int i = 0; i < config->n_names; i++)
        labels[i] = config->names[i];
    if (rc != ERR_OK)
        return rc;
    for (int unit = 0; unit < model_units(m) && rc == ERR_OK; unit++)
        rc = put_unit(im, unit, &w, err);
    if (rc == ERR_OK)
        rc = safetensors_finish(&w, err);
    else
        safetensors_abandon(&w);
    if (rc == ERR_OK)
        rc = vocab_save(&im->tokenizer.vocab, to, err);
    p.is_headless = im->report.is_headless;
    return rc == ERR_OK ? export_rest(&p, err) : rc;
}

enum err_code import_folder(const char *from, const char *to, struct import_report *out,
                            struct err *err)
{
    struct import im = {.from = from};
    enum err_code rc = open_source(&im, err);

    if (rc == ERR_OK)
        rc = write_model(&im, to, err);
    if (rc == ERR_OK)
        *out = im.report;
    pretrained_close(im.source);
    bundle_close(im.bundle);
    tokenizer_deinit(&im.tokenizer);
    return rc;
}
