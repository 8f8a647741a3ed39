#include "import/word_counts.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "text/chars.h"
#include "text/lines.h"
#include "text/wordpiece.h"

#define CODE_POINTS     0x110000
#define UTF8_MAX_BYTES  4
#define WORD_TEXT_BYTES 32 /* of a word on average; with longer ones fewer are kept */

enum err_code word_counts_init(struct word_counts *c, bool keep_case, size_t words_max,
                               struct err *err)
{
    *c = (struct word_counts){.words_max = words_max, .n_slots = 1024};
    words_init(&c->reader, keep_case);
    c->slots = calloc(c->n_slots, sizeof *c->slots);
    c->firsts = calloc(1, CODE_POINTS / 8);
    c->rests = calloc(1, CODE_POINTS / 8);
    if (c->slots && c->firsts && c->rests)
        return ERR_OK;
    word_counts_deinit(c);
    return err_set(err, ERR_NO_MEMORY, "no memory to count words");
}

const char *word_counts_text(const struct word_counts *c, size_t i)
{
    return c->text + c->words[i].start;
}

/* The slot that holds the word, or the free one where it belongs. */
static size_t slot_of(const struct word_counts *c, const char *text, size_t len)
{
    size_t mask = c->n_slots - 1;
    size_t i = (size_t)hash_bytes(HASH_START, text, len) & mask;

    for (; c->slots[i] > 0; i = (i + 1) & mask) {
        size_t word = c->slots[i] - 1;

        if (c->words[word].len == len && memcmp(word_counts_text(c, word), text, len) == 0)
            break;
    }
    return i;
}

static void fill_slots(struct word_counts *c)
{
    memset(c->slots, 0, c->n_slots * sizeof *c->slots);
    for (size_t i = 0; i < c->n_words; i++)
        c->slots[slot_of(c, word_counts_text(c, i), c->words[i].len)] = (uint32_t)(i + 1);
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* The count in the middle, and how many of the words with just that count are below the middle. */
static enum err_code find_middle(const struct word_counts *c, uint64_t *out_n, size_t *out_n_equal,
                                 struct err *err)
{
    uint64_t *counts = malloc(c->n_words * sizeof *counts);
    size_t below = 0;

    if (!counts)
        return err_set(err, ERR_NO_MEMORY, "no memory to sort %zu words", c->n_words);
    for (size_t i = 0; i < c->n_words; i++)
        counts[i] = c->words[i].n;
    qsort(counts, c->n_words, sizeof *counts, compare_numbers);
    *out_n = counts[c->n_words / 2];
    while (counts[below] < *out_n)
        below++;
    *out_n_equal = c->n_words / 2 - below;
    free(counts);
    return ERR_OK;
}

/* Drop the rarer half, of equally rare words those that came first. */
static enum err_code prune(struct word_counts *c, struct err *err)
{
    size_t kept = 0;
    size_t text_len = 0;
    size_t n_equal = 0;
    uint64_t middle = 0;
    enum err_code rc = find_middle(c, &middle, &n_equal, err);

    if (rc != ERR_OK)
        return rc;
    for (size_t i = 0; i < c->n_words; i++) {
        struct word_count word = c->words[i];

        if (word.n == middle && n_equal > 0) {
            n_equal--;
            continue;
        }
        if (word.n < middle)
            continue;
        memmove(c->text + text_len, c->text + word.start, word.len);
        word.start = (uint32_t)text_len;
        text_len += word.len;
        c->words[kept++] = word;
    }
    c->n_words = kept;
    c->text_len = text_len;
    c->n_pruned++;
    fill_slots(c);
    return ERR_OK;
}

/* Make room for one more word of `len` bytes. */
static enum err_code reserve(struct word_counts *c, size_t len, struct err *err)
{
    if (c->n_words == c->words_max || c->text_len + len > c->words_max * WORD_TEXT_BYTES) {
        enum err_code rc = prune(c, err);

        if (rc != ERR_OK)
            return rc;
    }
    if (c->n_words == c->words_cap) {
        size_t cap = c->words_cap ? 2 * c->words_cap : 256;
        struct word_count *grown = realloc(c->words, cap * sizeof *grown);

        if (!grown)
            return err_set(err, ERR_NO_MEMORY, "no memory to count %zu words", cap);
        c->words = grown;
        c->words_cap = cap;
    }
    if (c->text_len + len > c->text_cap) {
        size_t cap = 2 * c->text_cap + WORDPIECE_WORD_MAX * UTF8_MAX_BYTES;
        char *grown = realloc(c->text, cap);

        if (!grown)
            return err_set(err, ERR_NO_MEMORY, "no memory for %zu bytes of words", cap);
        c->text = grown;
        c->text_cap = cap;
    }
    if (2 * c->n_words >= c->n_slots) {
        uint32_t *grown = realloc(c->slots, 2 * c->n_slots * sizeof *grown);

        if (!grown)
            return err_set(err, ERR_NO_MEMORY, "no memory to look up %zu words", c->n_words);
        c->slots = grown;
        c->n_slots *= 2;
        fill_slots(c);
    }
    return ERR_OK;
}

static enum err_code count(struct word_counts *c, const char *text, size_t len, struct err *err)
{
    size_t slot = slot_of(c, text, len);
    enum err_code rc;

    if (c->slots[slot] == 0) {
        rc = reserve(c, len, err);
        if (rc != ERR_OK)
            return rc;
        memcpy(c->text + c->text_len, text, len);
        c->words[c->n_words++] =
            (struct word_count){.start = (uint32_t)c->text_len, .len = (uint32_t)len};
        c->text_len += len;
        slot = slot_of(c, text, len); /* the table may be another */
        c->slots[slot] = (uint32_t)c->n_words;
    }
    c->words[c->slots[slot] - 1].n++;
    c->n_seen++;
    return ERR_OK;
}

static void set_bit(uint8_t *bits, int32_t i)
{
    bits[i / 8] = (uint8_t)(bits[i / 8] | 1u << i % 8);
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
            set_bit(i == 0 ? c->firsts : c->rests, chars[i]);
        }
        rc = count(c, word, n_bytes, err);
    }
    return rc;
}

enum err_code word_counts_add_file(struct word_counts *c, const char *path, struct err *err)
{
    struct lines *lines = NULL;
    const char *line;
    size_t len;
    bool end = false;
    enum err_code rc = lines_open(path, &lines, err);

    while (rc == ERR_OK) {
        rc = lines_next(lines, &line, &len, &end, err);
        if (rc != ERR_OK || end)
            break;
        rc = word_counts_add(c, line, len, err);
    }
    lines_close(lines);
    return rc;
}

bool word_counts_has(const struct word_counts *c, int32_t code_point, bool is_first)
{
    const uint8_t *bits = is_first ? c->firsts : c->rests;

    return code_point >= 0 && code_point < CODE_POINTS &&
           bits[code_point / 8] >> code_point % 8 & 1;
}

void word_counts_deinit(struct word_counts *c)
{
    words_deinit(&c->reader);
    free(c->words);
    free(c->text);
    free(c->slots);
    free(c->firsts);
    free(c->rests);
    *c = (struct word_counts){0};
}
