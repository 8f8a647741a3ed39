#include "data/corpus.h"

#include <stdlib.h>
#include <string.h>

#include "base/folder.h"
#include "data/random.h"

#define CHUNKS_MAX ((size_t)1 << 31)

/* What a sample's key is used for; MASKING has keys of its own below. */
enum { IS_RANDOM, CUT, OTHER_CHUNK, OTHER_SENTENCE, MASKING };

/* --- the pass over the text --- */

/* The chunk that grows, and room for more of them. */
struct build {
    struct corpus *c;
    struct corpus_chunk open; /* n_lines is 0: none is */
    size_t tokens;            /* in it */
    size_t chunks_cap, firsts_cap;
    size_t n_lines_max;
};

/* Room for one element more behind `n`, and for twice as many when there is none. */
static enum err_code reserve(void *array, size_t element_bytes, size_t n, size_t *cap,
                             struct err *err)
{
    size_t wanted = *cap ? 2 * *cap : 256;
    void *old;
    void *grown;

    if (n < *cap)
        return ERR_OK;
    memcpy(&old, array, sizeof old);
    grown = wanted > CHUNKS_MAX ? NULL : realloc(old, wanted * element_bytes);
    if (!grown)
        return err_set(err, ERR_NO_MEMORY, "no memory for an index of %zu chunks of text", wanted);
    memcpy(array, &grown, sizeof grown);
    *cap = wanted;
    return ERR_OK;
}

static enum err_code close_chunk(struct build *b, struct err *err)
{
    struct corpus *c = b->c;
    enum err_code rc;

    if (b->open.n_lines == 0)
        return ERR_OK;
    rc = reserve(&c->chunks, sizeof *c->chunks, c->n_samples, &b->chunks_cap, err);
    if (rc != ERR_OK)
        return rc;
    c->chunks[c->n_samples++] = b->open;
    if (b->open.n_lines > b->n_lines_max)
        b->n_lines_max = b->open.n_lines;
    b->open.n_lines = 0;
    b->tokens = 0;
    return ERR_OK;
}

/* A document without a chunk is none. */
static enum err_code close_document(struct build *b, struct err *err)
{
    struct corpus *c = b->c;
    enum err_code rc = close_chunk(b, err);

    if (rc == ERR_OK)
        rc = reserve(&c->firsts, sizeof *c->firsts, c->n_documents + 1, &b->firsts_cap, err);
    if (rc != ERR_OK)
        return rc;
    if (c->n_documents == 0)
        c->firsts[0] = 0;
    if (c->n_samples > c->firsts[c->n_documents])
        c->firsts[++c->n_documents] = c->n_samples;
    return ERR_OK;
}

static size_t chunk_room(const struct corpus *c)
{
    return (size_t)c->params.max_length - SEQUENCE_SPECIALS;
}

/* A line without a token (control characters, say) lengthens a chunk and begins none. */
static enum err_code add_sentence(struct build *b, const char *text, size_t len, struct err *err)
{
    struct corpus *c = b->c;
    size_t room = chunk_room(c);
    enum err_code rc;

    c->a.n = 0;
    rc = wordpiece_encode(&c->wordpiece, text, len, &c->a, err);
    c->n_cut += c->a.n > room;
    if (rc == ERR_OK && b->open.n_lines > 0 && b->tokens + c->a.n > room)
        rc = close_chunk(b, err);
    if (rc != ERR_OK || (b->open.n_lines == 0 && c->a.n == 0))
        return rc;
    if (b->open.n_lines == 0)
        b->open = (struct corpus_chunk){.offset = lines_offset(c->lines),
                                        .document = (uint32_t)c->n_documents};
    b->open.n_lines++;
    b->tokens += c->a.n;
    return ERR_OK;
}

static bool is_blank(const char *text, size_t len)
{
    size_t i = 0;

    while (i < len && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r'))
        i++;
    return i == len;
}

static enum err_code read_text(struct corpus *c, const char *path, struct err *err)
{
    struct build b = {.c = c};
    const char *text;
    size_t len;
    bool end = false;
    enum err_code rc = lines_open(path, &c->lines, err);

    if (rc == ERR_OK && c->params.most_bytes > 0)
        lines_thin(c->lines, c->params.most_bytes);
    while (rc == ERR_OK && (rc = lines_next(c->lines, &text, &len, &end, err)) == ERR_OK && !end) {
        if (lines_skipped(c->lines) || is_blank(text, len))
            rc = close_document(&b, err);
        if (rc == ERR_OK && !is_blank(text, len))
            rc = add_sentence(&b, text, len, err);
    }
    if (rc == ERR_OK)
        rc = close_document(&b, err);
    if (rc != ERR_OK)
        return rc;
    if (c->n_samples == 0)
        return err_set(err, ERR_INVALID, "%s: no words; write one sentence per line", path);
    if (c->has_pairs && c->n_documents < 2)
        return err_set(err, ERR_INVALID,
                       "%s: one document, but sentences that do not follow are taken from another; "
                       "put empty lines between documents, or set spec.data.task to MaskedLM",
                       path);
    lines_settle(c->lines);
    c->ends = calloc(b.n_lines_max, sizeof *c->ends);
    c->rows = calloc((size_t)c->params.max_length, sizeof *c->rows);
    c->target_ids = calloc((size_t)c->params.max_length, sizeof *c->target_ids);
    if (!c->ends || !c->rows || !c->target_ids)
        return err_set(err, ERR_NO_MEMORY, "no memory for a sequence");
    return ERR_OK;
}

enum err_code corpus_load(const struct sequence_params *p, const char *folder,
                          const struct layout_split *split, struct corpus *out, struct err *err)
{
    struct corpus c = {.params = *p, .has_pairs = p->layout->task->head == MODEL_HEAD_PRETRAINING};
    char path[PATH_MAX];
    enum err_code rc = sequence_check(p, err);

    if (rc == ERR_OK)
        rc = mask_init(&c.mask, &p->tokenizer->vocab, p->mask_probability, err);
    if (rc == ERR_OK)
        rc = folder_path(folder, split->file, path, err);
    if (rc != ERR_OK)
        return rc;
    wordpiece_init(&c.wordpiece, &p->tokenizer->vocab, p->tokenizer->is_cased);
    rc = layout_explain(p->layout, split, read_text(&c, path, err), err);
    if (rc == ERR_OK) {
        *out = c;
        c = (struct corpus){0};
    }
    corpus_deinit(&c);
    return rc;
}

/* --- samples --- */

/* Append the chunk's tokens to `out`. *out_n sentences have tokens; sentence s ends, counted from
 * the chunk's beginning, at c->ends[s]. */
static enum err_code read_chunk(struct corpus *c, size_t i, struct token_list *out, size_t *out_n,
                                struct err *err)
{
    uint64_t offset = c->chunks[i].offset;
    size_t before = out->n;
    size_t n = 0;
    enum err_code rc = ERR_OK;

    for (uint32_t k = 0; rc == ERR_OK && k < c->chunks[i].n_lines; k++) {
        size_t at = out->n;
        const char *text;
        size_t len;

        offset = lines_at(c->lines, offset, &text, &len);
        rc = wordpiece_encode(&c->wordpiece, text, len, out, err);
        if (out->n > at)
            c->ends[n++] = out->n - before;
    }
    if (rc == ERR_NO_MEMORY)
        return rc;
    if (rc != ERR_OK || n == 0)
        return err_set(err, ERR_INVALID,
                       "%s changed since it was checked; leave it alone while the job runs",
                       lines_path(c->lines));
    *out_n = n;
    return ERR_OK;
}

/* A chunk of any document but chunk i's. */
static size_t other_chunk(const struct corpus *c, uint64_t key, size_t i)
{
    size_t first = c->firsts[c->chunks[i].document];
    size_t n_own = c->firsts[c->chunks[i].document + 1] - first;
    size_t other = (size_t)random_below(key, OTHER_CHUNK, c->n_samples - n_own);

    return other < first ? other : other + n_own;
}

/* Make c->b what does not follow. */
static enum err_code take_other(struct corpus *c, uint64_t key, size_t i, struct err *err)
{
    size_t n;
    size_t sentence;
    enum err_code rc = read_chunk(c, other_chunk(c, key, i), &c->b, &n, err);

    if (rc != ERR_OK)
        return rc;
    sentence = (size_t)random_below(key, OTHER_SENTENCE, n);
    if (sentence > 0) {
        size_t from = c->ends[sentence - 1];

        memmove(c->b.ids, c->b.ids + from, (c->b.n - from) * sizeof *c->b.ids);
        c->b.n -= from;
    }
    return ERR_OK;
}

/* Cut c->a, [CLS] and n sentences, in two; *out_label: 0 when the second follows the first, else 1.
 */
static enum err_code make_pair(struct corpus *c, uint64_t key, size_t i, size_t n,
                               int32_t *out_label, struct err *err)
{
    bool is_random = n == 1 || random_below(key, IS_RANDOM, 2) == 1;
    size_t n_first = n == 1 ? 1 : 1 + (size_t)random_below(key, CUT, n - 1);
    size_t end = 1 + c->ends[n_first - 1];
    enum err_code rc = ERR_OK;

    c->b.n = 0;
    if (is_random) {
        rc = take_other(c, key, i, err);
    } else {
        for (size_t k = end; rc == ERR_OK && k < c->a.n; k++)
            rc = token_list_add(&c->b, c->a.ids[k], err);
    }
    c->a.n = end;
    *out_label = is_random;
    return rc;
}

enum err_code corpus_get(struct corpus *c, size_t i, uint64_t epoch, struct sequence *out,
                         struct err *err)
{
    uint64_t key = random_key(random_key(c->params.seed, epoch), i);
    struct sequence s = {0};
    int32_t label = 0;
    size_t n = 0;
    enum err_code rc;

    if (i >= c->n_samples)
        return err_set(err, ERR_INVALID, "chunk %zu of a text of %zu", i, c->n_samples);
    c->a.n = 0;
    rc = token_list_add(&c->a, c->params.tokenizer->vocab.cls, err);
    if (rc == ERR_OK)
        rc = read_chunk(c, i, &c->a, &n, err);
    if (rc == ERR_OK && c->has_pairs)
        rc = make_pair(c, key, i, n, &label, err);
    if (rc == ERR_OK)
        rc = sequence_join(&c->a, c->has_pairs ? &c->b : NULL, &c->params.tokenizer->vocab,
                           c->params.max_length, &s, err);
    if (rc != ERR_OK)
        return rc;
    s.sample = (uint32_t)i;
    s.label = label;
    s.n_targets =
        mask_apply(&c->mask, random_key(key, MASKING), c->a.ids, s.length, c->rows, c->target_ids);
    s.rows = c->rows;
    s.target_ids = c->target_ids;
    *out = s;
    return ERR_OK;
}

void corpus_deinit(struct corpus *c)
{
    lines_close(c->lines);
    free(c->chunks);
    free(c->firsts);
    free(c->ends);
    free(c->rows);
    free(c->target_ids);
    wordpiece_deinit(&c->wordpiece);
    token_list_deinit(&c->a);
    token_list_deinit(&c->b);
    *c = (struct corpus){0};
}
