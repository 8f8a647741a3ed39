#include "data/dataset.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/tsv.h"
#include "data/wordpiece.h"

#define SPECIAL_TOKENS 3 /* [CLS], [SEP], [SEP] */

_Static_assert(DATASET_LABELS == TSV_LABELS, "labels are counted in two places");
_Static_assert(DATASET_LENGTH_MAX <= UINT16_MAX, "dataset.second is 16 bits wide");

/* What grows while a file is read. */
struct build {
    struct dataset d;
    size_t samples_cap;
    size_t tokens_cap;
    size_t n_tokens;
    struct wordpiece wordpiece;
    struct token_list a;
    struct token_list b;
};

static enum err_code folder_path(const char *folder, const char *file, char out[static PATH_MAX],
                                 struct err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", folder, file) >= PATH_MAX)
        return err_set(err, ERR_INVALID, "the path of folder %.80s is too long", folder);
    return ERR_OK;
}

/* A missing file is the error people meet most: say what belongs there. */
static enum err_code explain(enum err_code rc, struct err *err)
{
    struct err cause;

    if (rc != ERR_NOT_FOUND || !err)
        return rc;
    cause = *err;
    return err_set(err, rc,
                   "%s; the data folder must hold " DATASET_VOCAB_FILE ", " DATASET_TRAIN_FILE
                   " and " DATASET_DEV_FILE ": add what is missing",
                   cause.text);
}

enum err_code dataset_vocab(const char *folder, struct vocab *out, struct err *err)
{
    char path[PATH_MAX];
    enum err_code rc = folder_path(folder, DATASET_VOCAB_FILE, path, err);

    return rc == ERR_OK ? explain(vocab_load(path, out, err), err) : rc;
}

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

static enum err_code reserve(struct build *b, size_t tokens, struct err *err)
{
    struct dataset *d = &b->d;
    enum err_code rc = ERR_OK;

    if (d->n_samples == b->samples_cap) {
        size_t cap = b->samples_cap ? 2 * b->samples_cap : 1024;

        if (cap > DATASET_SAMPLES_MAX)
            return err_set(err, ERR_LIMIT, "more than %zu rows", DATASET_SAMPLES_MAX / 2);
        rc = grow(&d->starts, sizeof *d->starts, cap + 1, err);
        if (rc == ERR_OK)
            rc = grow(&d->second, sizeof *d->second, cap, err);
        if (rc == ERR_OK)
            rc = grow(&d->labels, sizeof *d->labels, cap, err);
        if (rc == ERR_OK)
            b->samples_cap = cap;
    }
    if (rc == ERR_OK && b->n_tokens + tokens > b->tokens_cap) {
        size_t cap = 2 * b->tokens_cap + tokens + 4096;

        rc = grow(&d->ids, sizeof *d->ids, cap, err);
        if (rc == ERR_OK)
            b->tokens_cap = cap;
    }
    return rc;
}

/* Shorten the pair to `room` tokens: always the longer one, the second if both are equal. In one
 * step what the reference does token by token. */
static void truncate_pair(size_t *a, size_t *b, size_t room)
{
    size_t half = room / 2;

    if (*a + *b <= room)
        return;
    if (*a <= half)
        *b = room - *a;
    else if (*b <= half)
        *a = room - *b;
    else {
        *a = room - half;
        *b = half;
    }
}

static void put(struct build *b, int32_t id)
{
    b->d.ids[b->n_tokens++] = id;
}

static void put_all(struct build *b, const int32_t *ids, size_t n)
{
    memcpy(b->d.ids + b->n_tokens, ids, n * sizeof *ids);
    b->n_tokens += n;
}

static enum err_code add_row(struct build *b, const struct tsv_row *row, int max_length,
                             struct err *err)
{
    struct dataset *d = &b->d;
    const struct vocab *v = b->wordpiece.vocab;
    size_t n_a;
    size_t n_b;
    enum err_code rc;

    b->a.n = b->b.n = 0;
    rc = wordpiece_encode(&b->wordpiece, row->text_a, row->text_a_bytes, &b->a, err);
    if (rc == ERR_OK)
        rc = wordpiece_encode(&b->wordpiece, row->text_b, row->text_b_bytes, &b->b, err);
    n_a = b->a.n;
    n_b = b->b.n;
    truncate_pair(&n_a, &n_b, (size_t)max_length - SPECIAL_TOKENS);
    if (rc == ERR_OK)
        rc = reserve(b, n_a + n_b + SPECIAL_TOKENS, err);
    if (rc != ERR_OK)
        return rc;

    d->starts[d->n_samples] = b->n_tokens;
    put(b, v->cls);
    put_all(b, b->a.ids, n_a);
    put(b, v->sep);
    d->second[d->n_samples] = (uint16_t)(n_a + 2);
    put_all(b, b->b.ids, n_b);
    put(b, v->sep);
    d->labels[d->n_samples] = (uint8_t)row->label;
    d->n_truncated += n_a < b->a.n || n_b < b->b.n;
    if (n_a + n_b + SPECIAL_TOKENS > (size_t)d->length_max)
        d->length_max = (int)(n_a + n_b + SPECIAL_TOKENS);
    d->n_samples++;
    d->starts[d->n_samples] = b->n_tokens;
    return ERR_OK;
}

static enum err_code read_rows(struct build *b, const char *path, int max_length, struct err *err)
{
    struct tsv *tsv = NULL;
    struct tsv_row row;
    bool end = false;
    enum err_code rc = tsv_open(path, &tsv, err);

    while (rc == ERR_OK && (rc = tsv_next(tsv, &row, &end, err)) == ERR_OK && !end) {
        rc = add_row(b, &row, max_length, err);
        if (rc != ERR_OK)
            rc = err_wrap(err, rc, "%s line %lld", path, (long long)row.line);
    }
    if (rc == ERR_OK && b->d.n_samples == 0)
        rc = err_set(err, ERR_INVALID, "%s: no row with a label; add rows below the first line",
                     path);
    if (rc == ERR_OK) {
        b->d.n_skipped = (size_t)tsv_skipped(tsv);
        rc = grow(&b->d.ids, sizeof *b->d.ids, b->n_tokens, err); /* give back what is spare */
    }
    tsv_close(tsv);
    return rc;
}

enum err_code dataset_load(const struct dataset_params *p, const char *folder, const char *file,
                           struct dataset *out, struct err *err)
{
    struct build b = {0};
    char path[PATH_MAX];
    enum err_code rc;

    if (p->max_length < DATASET_LENGTH_MIN || p->max_length > DATASET_LENGTH_MAX)
        return err_set(err, ERR_INVALID, "spec.training.maxLength: %d is not in %d..%d",
                       p->max_length, DATASET_LENGTH_MIN, DATASET_LENGTH_MAX);
    rc = folder_path(folder, file, path, err);
    if (rc != ERR_OK)
        return rc;
    wordpiece_init(&b.wordpiece, p->vocab, p->keep_case);
    rc = explain(read_rows(&b, path, p->max_length, err), err);
    if (rc == ERR_OK) {
        *out = b.d;
        b.d = (struct dataset){0};
    }
    dataset_deinit(&b.d);
    wordpiece_deinit(&b.wordpiece);
    token_list_deinit(&b.a);
    token_list_deinit(&b.b);
    return rc;
}

int dataset_length(const struct dataset *d, size_t i)
{
    return (int)(d->starts[i + 1] - d->starts[i]);
}

void dataset_deinit(struct dataset *d)
{
    free(d->ids);
    free(d->starts);
    free(d->second);
    free(d->labels);
    *d = (struct dataset){0};
}
