#include "data/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "data/sampler.h"

#define SPECIALS   3 /* [CLS], [SEP], [SEP] */
#define LENGTH_MIN 8 /* the special tokens and a few more */
#define LENGTH_MAX 8192

/* What a sample's key is used for; masking has keys of its own below the last. */
enum { IS_RANDOM, CUT, OTHER_CHUNK, OTHER_SENTENCE, MASKING };

/* Room for one more of `array`, which has as many items as there are samples. */
static enum err_code reserve(struct source *s, void *array, size_t item_bytes, size_t *cap,
                             struct err *err)
{
    if (s->n_samples == SOURCE_SAMPLES_MAX)
        return err_set(err, ERR_LIMIT, "more than %zu samples", SOURCE_SAMPLES_MAX);
    return array_reserve(array, item_bytes, cap, s->n_samples + 1, err);
}

/* --- rows --- */

static enum err_code read_rows(struct source *s, const char *path, const struct layout_split *split,
                               struct err *err)
{
    bool is_regression = s->params.layout->task->head == MODEL_HEAD_REGRESSION;
    size_t offsets_cap = 0;
    size_t answers_cap = 0;
    struct table_row row;
    bool end = false;
    enum err_code rc = table_open(path, s->params.layout, split, &s->table, err);

    if (rc == ERR_OK)
        s->table->lines.stops = s->params.stops;
    if (rc == ERR_OK && s->params.most_bytes > 0)
        table_thin(s->table, s->params.most_bytes);
    while (rc == ERR_OK && (rc = table_next(s->table, &row, &end, err)) == ERR_OK && !end) {
        rc = reserve(s, &s->offsets, sizeof *s->offsets, &offsets_cap, err);
        if (rc == ERR_OK)
            rc = is_regression ? reserve(s, &s->scores, sizeof *s->scores, &answers_cap, err)
                               : reserve(s, &s->labels, sizeof *s->labels, &answers_cap, err);
        if (rc != ERR_OK)
            return err_wrap(err, rc, "%s", path);
        s->offsets[s->n_samples] = row.offset;
        if (is_regression)
            s->scores[s->n_samples] = row.score;
        else
            s->labels[s->n_samples] = (uint8_t)row.label;
        s->n_samples++;
    }
    if (rc != ERR_OK)
        return rc;
    if (s->n_samples == 0)
        return err_set(err, ERR_INVALID, "%s: no row with a label; add rows%s", path,
                       split->has_header ? " below the first line" : "");
    s->n_unlabelled = (size_t)s->table->n_unlabelled;
    s->n_broken = (size_t)s->table->n_broken;
    lines_settle(&s->table->lines);
    return ERR_OK;
}

static enum err_code encode_row(struct source *s, size_t i, struct err *err)
{
    struct table_row row;
    enum err_code rc = table_at(s->table, s->offsets[i], &row, err);

    if (rc == ERR_OK)
        rc = wordpiece_encode(&s->wordpiece, row.text, row.text_bytes, &s->a, err);
    if (rc == ERR_OK && row.pair)
        rc = wordpiece_encode(&s->wordpiece, row.pair, row.pair_bytes, &s->b, err);
    return rc;
}

/* --- the pass over plain text --- */

/* The chunk that grows, and the room in the arrays. */
struct build {
    struct source *s;
    struct source_chunk open; /* without lines: none */
    size_t tokens;            /* in it */
    size_t chunks_cap, firsts_cap;
    size_t n_lines_max;
};

static enum err_code close_chunk(struct build *b, struct err *err)
{
    struct source *s = b->s;
    enum err_code rc;

    if (b->open.n_lines == 0)
        return ERR_OK;
    rc = reserve(s, &s->chunks, sizeof *s->chunks, &b->chunks_cap, err);
    if (rc != ERR_OK)
        return rc;
    s->chunks[s->n_samples++] = b->open;
    if (b->open.n_lines > b->n_lines_max)
        b->n_lines_max = b->open.n_lines;
    b->open.n_lines = 0;
    b->tokens = 0;
    return ERR_OK;
}

/* A document without a chunk does not count. */
static enum err_code close_document(struct build *b, struct err *err)
{
    struct source *s = b->s;
    enum err_code rc = close_chunk(b, err);

    if (rc == ERR_OK)
        rc = array_reserve(&s->firsts, sizeof *s->firsts, &b->firsts_cap, s->n_documents + 2, err);
    if (rc != ERR_OK)
        return rc;
    s->firsts[0] = 0;
    if (s->n_samples > s->firsts[s->n_documents])
        s->firsts[++s->n_documents] = s->n_samples;
    return ERR_OK;
}

/* A line without a token (control characters, for example) lengthens a chunk and begins none. */
static enum err_code add_sentence(struct build *b, const char *text, size_t len, struct err *err)
{
    struct source *s = b->s;
    size_t room = (size_t)s->params.max_length - SPECIALS;
    enum err_code rc;

    s->a.n = 0;
    rc = wordpiece_encode(&s->wordpiece, text, len, &s->a, err);
    s->n_cut += s->a.n > room;
    if (rc == ERR_OK && b->open.n_lines > 0 && b->tokens + s->a.n > room)
        rc = close_chunk(b, err);
    if (rc != ERR_OK || (b->open.n_lines == 0 && s->a.n == 0))
        return rc;
    if (b->open.n_lines == 0)
        b->open =
            (struct source_chunk){.offset = s->lines.offset, .document = (uint32_t)s->n_documents};
    b->open.n_lines++;
    b->tokens += s->a.n;
    return ERR_OK;
}

static enum err_code read_text(struct source *s, const char *path, struct err *err)
{
    struct build b = {.s = s};
    const char *text;
    size_t len;
    bool end = false;
    enum err_code rc =
        mask_init(&s->mask, &s->params.tokenizer->vocab, s->params.mask_probability, err);

    if (rc == ERR_OK)
        rc = lines_open(path, &s->lines, err);
    s->lines.stops = s->params.stops;
    if (rc == ERR_OK && s->params.most_bytes > 0)
        lines_thin(&s->lines, s->params.most_bytes);
    while (rc == ERR_OK && (rc = lines_next(&s->lines, &text, &len, &end, err)) == ERR_OK && !end) {
        if (s->lines.skipped || lines_is_blank(text, len))
            rc = close_document(&b, err);
        if (rc == ERR_OK && !lines_is_blank(text, len))
            rc = add_sentence(&b, text, len, err);
    }
    if (rc == ERR_OK)
        rc = close_document(&b, err);
    if (rc != ERR_OK)
        return rc;
    if (s->n_samples == 0)
        return err_set(err, ERR_INVALID, "%s: no words; write one sentence per line", path);
    if (s->has_pairs && s->n_documents < 2)
        return err_set(err, ERR_INVALID,
                       "%s: one document, but next-sentence prediction takes sentences from "
                       "another; put empty lines between documents, or set spec.data.task to "
                       "MaskedLM",
                       path);
    lines_settle(&s->lines);
    s->ends = calloc(b.n_lines_max, sizeof *s->ends);
    s->rows = calloc((size_t)s->params.max_length, sizeof *s->rows);
    s->target_ids = calloc((size_t)s->params.max_length, sizeof *s->target_ids);
    if (!s->ends || !s->rows || !s->target_ids)
        return err_set(err, ERR_NO_MEMORY, "no memory for a sequence");
    return ERR_OK;
}

/* --- samples of plain text --- */

/* Append the chunk's tokens to `out`. *out_n sentences have tokens; sentence k ends, counted from
 * the chunk's beginning, at s->ends[k]. */
static enum err_code read_chunk(struct source *s, size_t i, struct token_list *out, size_t *out_n,
                                struct err *err)
{
    uint64_t offset = s->chunks[i].offset;
    size_t before = out->n;
    size_t n = 0;
    enum err_code rc = ERR_OK;

    for (uint32_t k = 0; rc == ERR_OK && k < s->chunks[i].n_lines; k++) {
        size_t at = out->n;
        const char *text;
        size_t len;

        offset = lines_at(&s->lines, offset, &text, &len);
        rc = wordpiece_encode(&s->wordpiece, text, len, out, err);
        if (out->n > at)
            s->ends[n++] = out->n - before;
    }
    if (rc == ERR_NO_MEMORY)
        return rc;
    if (rc != ERR_OK || n == 0)
        return lines_changed(&s->lines, err);
    *out_n = n;
    return ERR_OK;
}

/* Make s->b what does not follow: a chunk of any document but chunk i's, from one of its sentences
 * on. */
static enum err_code take_other(struct source *s, uint64_t key, size_t i, struct err *err)
{
    size_t first = s->firsts[s->chunks[i].document];
    size_t n_own = s->firsts[s->chunks[i].document + 1] - first;
    size_t other = (size_t)random_below(key, OTHER_CHUNK, s->n_samples - n_own);
    size_t n;
    size_t sentence;
    enum err_code rc = read_chunk(s, other < first ? other : other + n_own, &s->b, &n, err);

    if (rc != ERR_OK)
        return rc;
    sentence = (size_t)random_below(key, OTHER_SENTENCE, n);
    if (sentence > 0) {
        size_t from = s->ends[sentence - 1];

        memmove(s->b.ids, s->b.ids + from, (s->b.n - from) * sizeof *s->b.ids);
        s->b.n -= from;
    }
    return ERR_OK;
}

/* Append the chunk to s->a, which has [CLS]. Of a pair, s->b gets the second part; *out_label is 0
 * when it follows the first, else 1. */
static enum err_code encode_chunk(struct source *s, uint64_t key, size_t i, int32_t *out_label,
                                  struct err *err)
{
    size_t n = 0;
    size_t n_first;
    size_t end;
    enum err_code rc = read_chunk(s, i, &s->a, &n, err);

    if (rc != ERR_OK || !s->has_pairs)
        return rc;
    n_first = n == 1 ? 1 : 1 + (size_t)random_below(key, CUT, n - 1);
    end = 1 + s->ends[n_first - 1];
    *out_label = n == 1 || random_below(key, IS_RANDOM, 2) == 1;
    if (*out_label == 1)
        rc = take_other(s, key, i, err);
    else
        rc = token_list_add(&s->b, s->a.ids + end, s->a.n - end, err);
    s->a.n = end;
    return rc;
}

/* --- both --- */

enum err_code source_load(const struct source_params *p, const char *folder,
                          const struct layout_split *split, struct source *out, struct err *err)
{
    bool is_text = p->layout->is_text;
    bool has_pairs = is_text ? p->layout->task->head == MODEL_HEAD_PRETRAINING
                             : p->layout->train.pair.name != NULL;
    struct source s = {
        .params = *p,
        .has_pairs = has_pairs,
        .wordpiece = {.vocab = &p->tokenizer->vocab, .keep_case = p->tokenizer->is_cased}};
    char path[PATH_MAX];
    enum err_code rc = folder_path(folder, split->file, path, err);

    if (rc != ERR_OK)
        return rc;
    if (p->max_length < LENGTH_MIN || p->max_length > LENGTH_MAX)
        return err_set(err, ERR_INVALID, "spec.training.maxSequenceLength: %d is not in %d..%d",
                       p->max_length, LENGTH_MIN, LENGTH_MAX);
    rc = is_text ? read_text(&s, path, err) : read_rows(&s, path, split, err);
    rc = layout_explain(p->layout, split, rc, err);
    if (rc == ERR_OK)
        *out = s;
    else
        source_deinit(&s);
    return rc;
}

/* Cut s->a, [CLS] and the first part, and s->b to fit, and append the rest to s->a. */
static enum err_code join(struct source *s, struct sequence *q, struct err *err)
{
    const int32_t *sep = &s->params.tokenizer->vocab.sep;
    size_t room = (size_t)s->params.max_length - SPECIALS + (s->has_pairs ? 0 : 1);
    size_t n_a = s->a.n - 1; /* behind [CLS] */
    size_t n_b = s->b.n;
    size_t *longer = n_a > n_b ? &n_a : &n_b;
    size_t *shorter = n_a > n_b ? &n_b : &n_a;
    enum err_code rc;

    if (n_a + n_b > room) {
        if (*shorter > room / 2)
            *shorter = room / 2;
        *longer = room - *shorter;
    }
    s->a.n = n_a + 1;
    rc = token_list_add(&s->a, sep, 1, err);
    if (rc == ERR_OK)
        rc = token_list_add(&s->a, s->b.ids, n_b, err);
    if (rc == ERR_OK && s->has_pairs)
        rc = token_list_add(&s->a, sep, 1, err);
    q->length = (int)s->a.n;
    q->n_first = (int)n_a + 2;
    q->ids = s->a.ids;
    return rc;
}

enum err_code source_get(struct source *s, size_t i, uint64_t epoch, struct sequence *out,
                         struct err *err)
{
    uint64_t key = random_key(random_key(s->params.seed, epoch), i);
    struct sequence q = {.sample = (uint32_t)i};
    enum err_code rc;

    if (i >= s->n_samples)
        return err_set(err, ERR_INVALID, "sample %zu of %zu", i, s->n_samples);
    s->a.n = s->b.n = 0;
    rc = token_list_add(&s->a, &s->params.tokenizer->vocab.cls, 1, err);
    if (rc == ERR_OK)
        rc = s->params.layout->is_text ? encode_chunk(s, key, i, &q.label, err)
                                       : encode_row(s, i, err);
    if (rc == ERR_OK)
        rc = join(s, &q, err);
    if (rc != ERR_OK)
        return rc;
    if (s->params.layout->is_text) {
        q.n_targets = mask_apply(&s->mask, random_key(key, MASKING), s->a.ids, q.length, s->rows,
                                 s->target_ids);
        q.rows = s->rows;
        q.target_ids = s->target_ids;
    } else {
        q.label = s->labels ? s->labels[i] : 0;
        q.score = s->scores ? s->scores[i] : 0;
    }
    *out = q;
    return ERR_OK;
}

void source_deinit(struct source *s)
{
    table_close(s->table);
    free(s->offsets);
    free(s->labels);
    free(s->scores);
    lines_close(&s->lines);
    free(s->chunks);
    free(s->firsts);
    free(s->ends);
    free(s->rows);
    free(s->target_ids);
    wordpiece_deinit(&s->wordpiece);
    token_list_deinit(&s->a);
    token_list_deinit(&s->b);
    *s = (struct source){0};
}
