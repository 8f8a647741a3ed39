#include "import/vocab_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/merges.h"
#include "text/chars.h"
#include "text/lines.h"

#define WORD_TEXT_BYTES 32 /* of a word on average; with longer ones fewer are kept */
#define TOKEN_MAX_BYTES (2 + WORDPIECE_WORD_MAX * CHARS_BYTES_MAX)

/* --- the words of a corpus --- */

enum err_code word_counts_init(struct word_counts *c, bool keep_case, size_t words_max,
                               struct err *err)
{
    *c = (struct word_counts){.words_max = words_max, .reader.keep_case = keep_case};
    c->places = calloc(1, WORD_COUNTS_CODE_POINTS);
    return c->places ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory to count words");
}

/* The most frequent first; of equally frequent words those that came last. */
static int compare(const void *a, const void *b)
{
    const struct map_entry *x = *(const struct map_entry *const *)a;
    const struct map_entry *y = *(const struct map_entry *const *)b;

    if (x->value.number != y->value.number)
        return x->value.number > y->value.number ? -1 : 1;
    return x > y ? -1 : x < y;
}

/* Drop the rarer half. */
static enum err_code prune(struct word_counts *c, struct err *err)
{
    size_t n = c->words.n;
    const struct map_entry **order = calloc(n, sizeof *order);
    struct map kept = {0};
    size_t text_bytes = 0;
    enum err_code rc = ERR_OK;

    if (!order)
        return err_set(err, ERR_NO_MEMORY, "no memory to sort %zu words", n);
    for (size_t i = 0; i < n; i++)
        order[i] = &c->words.entries[i];
    qsort(order, n, sizeof(struct map_entry *), compare);
    for (size_t i = n - n / 2; rc == ERR_OK && i-- > 0;) { /* those that came first stay first */
        struct map_entry *copy;

        rc = map_add(&kept, order[i]->key, order[i]->key_bytes, &copy, err);
        if (rc == ERR_OK)
            copy->value = order[i]->value;
        text_bytes += order[i]->key_bytes;
    }
    free(order);
    if (rc != ERR_OK) {
        map_deinit(&kept);
        return rc;
    }
    map_deinit(&c->words);
    c->words = kept;
    c->text_bytes = text_bytes;
    c->n_pruned++;
    return ERR_OK;
}

enum err_code word_counts_add(struct word_counts *c, const char *text, size_t len, struct err *err)
{
    char word[WORDPIECE_WORD_MAX * CHARS_BYTES_MAX];
    const int32_t *chars;
    size_t n;
    enum err_code rc = wordpiece_read(&c->reader, text, len, err);

    while (rc == ERR_OK && wordpiece_next(&c->reader, &chars, &n)) {
        struct map_entry *known;
        size_t n_bytes = 0;

        if (n > WORDPIECE_WORD_MAX)
            continue;
        for (size_t i = 0; i < n; i++) {
            n_bytes += chars_encode(chars[i], word + n_bytes);
            c->places[chars[i]] |= i == 0 ? WORD_COUNTS_FIRST : WORD_COUNTS_REST;
        }
        known = map_find(&c->words, word, n_bytes);
        if (!known) {
            if (c->words.n == c->words_max ||
                c->text_bytes + n_bytes > c->words_max * WORD_TEXT_BYTES)
                rc = prune(c, err);
            if (rc == ERR_OK)
                rc = map_add(&c->words, word, n_bytes, &known, err);
            if (rc != ERR_OK)
                return rc;
            c->text_bytes += n_bytes;
        }
        known->value.number++;
        c->n_seen++;
    }
    return rc;
}

enum err_code word_counts_add_file(struct word_counts *c, const char *path, struct err *err)
{
    struct lines lines = {.number = 0};
    const char *line;
    size_t len;
    bool end = false;
    enum err_code rc = lines_open(path, &lines, err);

    while (rc == ERR_OK) {
        rc = lines_next(&lines, &line, &len, &end, err);
        if (rc != ERR_OK || end)
            break;
        rc = word_counts_add(c, line, len, err);
    }
    lines_close(&lines);
    return rc;
}

void word_counts_deinit(struct word_counts *c)
{
    wordpiece_deinit(&c->reader);
    map_deinit(&c->words);
    free(c->places);
    *c = (struct word_counts){0};
}

/* --- tokens --- */

/* The token's id: its place in the map. */
static enum err_code token_id(struct map *tokens, const char *text, size_t len, uint32_t *out,
                              struct err *err)
{
    struct map_entry *entry;
    enum err_code rc = map_add(tokens, text, len, &entry, err);

    if (rc == ERR_OK)
        *out = (uint32_t)(entry - tokens->entries);
    return rc;
}

/* Returns the bytes of a character as a token, "##" before it unless it begins a word. */
static size_t spell(int32_t c, bool is_first, char out[static 2 + CHARS_BYTES_MAX])
{
    size_t n = is_first ? 0 : 2;

    memcpy(out, "##", n);
    return n + chars_encode(c, out + n);
}

/* --- the alphabet --- */

static enum err_code add_alphabet(struct map *tokens, const struct word_counts *counts,
                                  struct err *err)
{
    static const char *const specials[VOCAB_BUILD_SPECIALS] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                               "[MASK]"};
    char token[2 + CHARS_BYTES_MAX];
    uint32_t id;
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK && i < VOCAB_BUILD_SPECIALS; i++)
        rc = token_id(tokens, specials[i], strlen(specials[i]), &id, err);
    for (uint8_t place = WORD_COUNTS_FIRST; place <= WORD_COUNTS_REST; place++) {
        for (int32_t c = 0; rc == ERR_OK && c < WORD_COUNTS_CODE_POINTS; c++) {
            if (counts->places[c] & place)
                rc = token_id(tokens, token, spell(c, place == WORD_COUNTS_FIRST, token), &id, err);
        }
    }
    return rc;
}

/* --- the merges --- */

/* The alphabet has all of its characters. */
static enum err_code add_word(struct merges *m, struct map *tokens, const struct map_entry *word,
                              struct err *err)
{
    uint32_t symbols[WORDPIECE_WORD_MAX];
    char token[2 + CHARS_BYTES_MAX];
    size_t n = 0;
    int32_t c = 0;
    enum err_code rc = ERR_OK;

    for (size_t at = 0; rc == ERR_OK && at < word->key_bytes; n++) {
        at += chars_decode(word->key + at, word->key_bytes - at, &c);
        rc = token_id(tokens, token, spell(c, n == 0, token), &symbols[n], err);
    }
    return rc == ERR_OK ? merges_add(m, symbols, n, word->value.number, err) : rc;
}

static enum err_code add_merges(struct map *tokens, const struct word_counts *counts,
                                size_t n_tokens, struct err *err)
{
    char text[TOKEN_MAX_BYTES + 1];
    struct merges *m = NULL;
    struct merge best;
    uint32_t joined;
    int len;
    enum err_code rc = merges_new(&m, err);

    for (size_t i = 0; rc == ERR_OK && i < counts->words.n; i++)
        rc = add_word(m, tokens, &counts->words.entries[i], err);
    while (rc == ERR_OK && tokens->n < n_tokens) {
        merges_best(m, &best);
        if (best.n < VOCAB_BUILD_COUNT_MIN)
            break;
        /* The right token continues a word, so it begins with "##", which is left out. */
        len = snprintf(text, sizeof text, "%s%s", tokens->entries[best.left].key,
                       tokens->entries[best.right].key + 2);
        rc = token_id(tokens, text, (size_t)len, &joined, err);
        if (rc == ERR_OK)
            rc = merges_apply(m, &best, joined, err);
    }
    merges_free(m);
    return rc;
}

enum err_code vocab_build(const struct word_counts *counts, int n_tokens, struct buf *out,
                          int *out_n_tokens, struct err *err)
{
    struct map tokens = {0};
    enum err_code rc = add_alphabet(&tokens, counts, err);
    int n_needed = (int)tokens.n;

    if (rc == ERR_OK && n_needed == VOCAB_BUILD_SPECIALS)
        rc = err_set(err, ERR_INVALID,
                     "no words in the corpus; give plain text, one sentence per line");
    if (rc == ERR_OK && n_tokens > VOCAB_TOKENS_MAX)
        rc = err_set(err, ERR_LIMIT, "%d tokens are too many; at most %d", n_tokens,
                     VOCAB_TOKENS_MAX);
    if (rc == ERR_OK && n_tokens < n_needed)
        rc = err_set(err, ERR_INVALID,
                     "%d tokens are too few: %d special ones and the corpus's %d characters must "
                     "fit; ask for at least %d, or remove rare characters from the corpus",
                     n_tokens, VOCAB_BUILD_SPECIALS, n_needed - VOCAB_BUILD_SPECIALS, n_needed);
    if (rc == ERR_OK)
        rc = add_merges(&tokens, counts, (size_t)n_tokens, err);
    for (size_t i = 0; rc == ERR_OK && i < tokens.n; i++)
        rc = buf_addf(out, err, "%s\n", tokens.entries[i].key);
    if (rc == ERR_OK)
        *out_n_tokens = (int)tokens.n;
    map_deinit(&tokens);
    return rc;
}
