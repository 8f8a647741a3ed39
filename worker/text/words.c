#include "text/words.h"

#include <stdlib.h>

#include "base/array.h"
#include "text/chars.h"

#define MARKS_MAX 1024 /* in a row */

void words_init(struct words *w, bool keep_case)
{
    *w = (struct words){.keep_case = keep_case};
}

/* Lower case and NFD are done character by character; what is left is the order of marks and to
 * drop the accents. A run of marks longer than a run of accents is ever written stays unsorted. */
static size_t strip_accents(int32_t *chars, size_t n)
{
    size_t kept = 0;

    chars_order(chars, n, MARKS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (!chars_is_accent(chars[i]))
            chars[kept++] = chars[i];
    }
    return kept;
}

/* Decode, clean and fold the text into w->chars, CJK ideographs marked off by spaces.
 *
 * A code point becomes at most two times as many characters as it has bytes: 4 parts from 3 bytes,
 * 3 parts from 2 bytes (U+0390), an ideograph of 3 bytes and its two spaces. */
static enum err_code read_chars(struct words *w, const char *text, size_t len, size_t *out_n,
                                struct err *err)
{
    int32_t parts[CHARS_PARTS_MAX];
    size_t n = 0;
    size_t step;
    enum err_code rc =
        array_reserve(&w->chars, sizeof *w->chars, &w->cap, 2 * len + CHARS_PARTS_MAX, err);

    for (size_t i = 0; rc == ERR_OK && i < len; i += step) {
        size_t n_parts = 1;
        bool is_alone;

        step = chars_decode(text + i, len - i, &parts[0]);
        if (step == 0)
            return err_set(err, ERR_INVALID, "byte %zu is not UTF-8", i);
        is_alone = chars_is_cjk(parts[0]);
        if (chars_is_whitespace(parts[0]))
            parts[0] = ' ';
        else if (chars_is_control(parts[0]))
            continue;
        else if (!w->keep_case)
            n_parts = chars_lower(parts[0], text, len, i, parts);
        if (is_alone)
            w->chars[n++] = ' ';
        for (size_t k = 0; k < n_parts; k++)
            w->chars[n++] = parts[k];
        if (is_alone)
            w->chars[n++] = ' ';
    }
    *out_n = w->keep_case || rc != ERR_OK ? n : strip_accents(w->chars, n);
    return rc;
}

/* Characters of the word that begins at chars[0]: a punctuation mark is a word by itself. */
static size_t word_length(const int32_t *chars, size_t n)
{
    size_t i = 1;

    if (chars_is_punctuation(chars[0]))
        return 1;
    while (i < n && !chars_is_whitespace(chars[i]) && !chars_is_punctuation(chars[i]))
        i++;
    return i;
}

enum err_code words_read(struct words *w, const char *text, size_t len, struct err *err)
{
    size_t n = 0;
    enum err_code rc;

    w->at = 0;
    w->n = 0;
    if (len > WORDS_TEXT_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "text of %zu bytes, above %u", len, WORDS_TEXT_MAX_BYTES);
    rc = read_chars(w, text, len, &n, err);
    if (rc == ERR_OK)
        w->n = n;
    return rc;
}

bool words_next(struct words *w, const int32_t **out_chars, size_t *out_n)
{
    while (w->at < w->n && chars_is_whitespace(w->chars[w->at]))
        w->at++;
    if (w->at == w->n)
        return false;
    *out_chars = w->chars + w->at;
    *out_n = word_length(w->chars + w->at, w->n - w->at);
    w->at += *out_n;
    return true;
}

void words_deinit(struct words *w)
{
    free(w->chars);
    words_init(w, false);
}
