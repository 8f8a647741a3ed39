#include "data/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "base/folder.h"

/* Change an array to `need` elements. */
static enum err_code grow(void *array, size_t element_bytes, size_t need, struct err *err)
{
    void *old;
    void *grown;

    memcpy(&old, array, sizeof old);
    grown = realloc(old, need * element_bytes);
    if (!grown)
        return err_set(err, ERR_NO_MEMORY, "no memory for %zu elements of a data set", need);
    memcpy(array, &grown, sizeof grown);
    return ERR_OK;
}

static enum err_code resize(struct dataset *d, size_t cap, struct err *err)
{
    bool is_regression = d->params.layout->task->head == MODEL_HEAD_REGRESSION;
    enum err_code rc = grow(&d->offsets, sizeof *d->offsets, cap, err);

    if (rc == ERR_OK)
        rc = is_regression ? grow(&d->scores, sizeof *d->scores, cap, err)
                           : grow(&d->labels, sizeof *d->labels, cap, err);
    return rc;
}

static enum err_code add_row(struct dataset *d, const struct table_row *row, size_t *cap,
                             struct err *err)
{
    enum err_code rc = ERR_OK;

    if (d->n_samples == *cap) {
        *cap = *cap ? 2 * *cap : 1024;
        rc = *cap > DATASET_SAMPLES_MAX
                 ? err_set(err, ERR_LIMIT, "more than %zu rows", DATASET_SAMPLES_MAX)
                 : resize(d, *cap, err);
    }
    if (rc != ERR_OK)
        return rc;
    d->offsets[d->n_samples] = row->offset;
    if (d->scores)
        d->scores[d->n_samples] = row->score;
    else
        d->labels[d->n_samples] = (uint8_t)row->label;
    d->n_samples++;
    return ERR_OK;
}

static enum err_code read_rows(struct dataset *d, const char *path,
                               const struct layout_split *split, struct err *err)
{
    struct table_row row;
    size_t cap = 0;
    bool end = false;
    enum err_code rc = table_open(path, d->params.layout, split, &d->table, err);

    if (rc == ERR_OK && d->params.most_bytes > 0)
        table_thin(d->table, d->params.most_bytes);
    while (rc == ERR_OK && (rc = table_next(d->table, &row, &end, err)) == ERR_OK && !end) {
        rc = add_row(d, &row, &cap, err);
        if (rc != ERR_OK)
            rc = err_wrap(err, rc, "%s", path);
    }
    if (rc == ERR_OK && d->n_samples == 0)
        rc = err_set(err, ERR_INVALID, "%s: no row with a label; add rows%s", path,
                     split->has_header ? " below the first line" : "");
    if (rc != ERR_OK)
        return rc;
    d->n_unlabelled = (size_t)table_unlabelled(d->table);
    d->n_broken = (size_t)table_broken(d->table);
    table_settle(d->table);
    return resize(d, d->n_samples, err); /* give back what is spare */
}

enum err_code dataset_load(const struct sequence_params *p, const char *folder,
                           const struct layout_split *split, struct dataset *out, struct err *err)
{
    struct dataset d = {.params = *p};
    char path[PATH_MAX];
    enum err_code rc = sequence_check(p, err);

    if (rc == ERR_OK)
        rc = folder_path(folder, split->file, path, err);
    if (rc != ERR_OK)
        return rc;
    wordpiece_init(&d.wordpiece, &p->tokenizer->vocab, p->tokenizer->is_cased);
    rc = layout_explain(p->layout, split, read_rows(&d, path, split, err), err);
    if (rc == ERR_OK) {
        *out = d;
        d = (struct dataset){0};
    }
    dataset_deinit(&d);
    return rc;
}

static enum err_code encode(struct dataset *d, size_t i, struct err *err)
{
    struct table_row row;
    enum err_code rc = table_at(d->table, d->offsets[i], &row, err);

    d->b.n = 0;
    d->a.n = 0;
    if (rc == ERR_OK)
        rc = token_list_add(&d->a, d->params.tokenizer->vocab.cls, err);
    if (rc == ERR_OK)
        rc = wordpiece_encode(&d->wordpiece, row.text, row.text_bytes, &d->a, err);
    if (rc == ERR_OK && row.pair)
        rc = wordpiece_encode(&d->wordpiece, row.pair, row.pair_bytes, &d->b, err);
    return rc;
}

enum err_code dataset_get(struct dataset *d, size_t i, struct sequence *out, struct err *err)
{
    const struct sequence_params *p = &d->params;
    bool is_pair = p->layout->train.pair.name;
    enum err_code rc;

    if (i >= d->n_samples)
        return err_set(err, ERR_INVALID, "sample %zu of a data set of %zu", i, d->n_samples);
    rc = encode(d, i, err);
    if (rc == ERR_OK)
        rc = sequence_join(&d->a, is_pair ? &d->b : NULL, &p->tokenizer->vocab, p->max_length, out,
                           err);
    if (rc != ERR_OK)
        return rc;
    out->sample = (uint32_t)i;
    out->label = d->labels ? d->labels[i] : 0;
    out->score = d->scores ? d->scores[i] : 0;
    return ERR_OK;
}

void dataset_deinit(struct dataset *d)
{
    table_close(d->table);
    free(d->offsets);
    free(d->labels);
    free(d->scores);
    wordpiece_deinit(&d->wordpiece);
    token_list_deinit(&d->a);
    token_list_deinit(&d->b);
    *d = (struct dataset){0};
}
