#include "import/word_counts.h"

#include <stdlib.h>

#include "text/chars.h"
#include "text/lines.h"

#define UTF8_MAX_BYTES  4
#define WORD_TEXT_BYTES 32 /* of a word on average; with longer ones fewer are kept */

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
    enum err_code rc =
        order ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory to sort %zu words", n);

    for (size_t i = 0; order && i < n; i++)
        order[i] = &c->words.entries[i];
    if (order)
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

static enum err_code count(struct word_counts *c, const char *text, size_t len, struct err *err)
{
    struct map_entry *word = map_find(&c->words, text, len);
    enum err_code rc = ERR_OK;

    if (!word) {
        if (c->words.n == c->words_max || c->text_bytes + len > c->words_max * WORD_TEXT_BYTES)
            rc = prune(c, err);
        if (rc == ERR_OK)
            rc = map_add(&c->words, text, len, &word, err);
        if (rc != ERR_OK)
            return rc;
        c->text_bytes += len;
    }
    word->value.number++;
    c->n_seen++;
    return ERR_OK;
}

enum err_code word_counts_add(struct word_counts *c, const char *text, size_t len, struct err *err)
{
    char word[WORDPIECE_WORD_MAX * UTF8_MAX_BYTES];
    const int32_t *chars;
    size_t n;
    enum err_code rc = words_read(&c->reader, text, len, err);

    while (rc == ERR_OK && words_next(&c->reader, &chars, &n)) {
        size_t n_bytes = 0;

        if (n > WORDPIECE_WORD_MAX)
            continue;
        for (size_t i = 0; i < n; i++) {
            n_bytes += chars_encode(chars[i], word + n_bytes);
            c->places[chars[i]] |= i == 0 ? WORD_COUNTS_FIRST : WORD_COUNTS_REST;
        }
        rc = count(c, word, n_bytes, err);
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
    words_deinit(&c->reader);
    map_deinit(&c->words);
    free(c->places);
    *c = (struct word_counts){0};
}
