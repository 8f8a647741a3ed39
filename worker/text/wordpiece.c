#include "text/wordpiece.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "text/chars.h"

#define MARKS_MAX 1024 /* in a row */

/* --- words --- */

/* Decode, clean and fold the text into w->chars, CJK ideographs set off by spaces.
 *
 * A code point becomes at most two times as many characters as it has bytes: 4 parts from 3 bytes,
 * 3 parts from 2 bytes (U+0390), an ideograph of 3 bytes and its two spaces. */
static enum err_code read_chars(struct wordpiece *w, const char *text, size_t len, struct err *err)
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
    if (rc == ERR_OK)
        w->n = n;
    return rc;
}

enum err_code wordpiece_read(struct wordpiece *w, const char *text, size_t len, struct err *err)
{
    size_t kept = 0;
    enum err_code rc;

    w->at = 0;
    w->n = 0;
    if (len > WORDPIECE_TEXT_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "text of %zu bytes, more than %u", len,
                       WORDPIECE_TEXT_MAX_BYTES);
    rc = read_chars(w, text, len, err);
    if (rc != ERR_OK || w->keep_case)
        return rc;
    /* Lower case and NFD are done character by character; what is left is to order the marks and
     * drop the accents. A run of marks longer than any in real text stays unsorted.
     */
    chars_order(w->chars, w->n, MARKS_MAX);
    for (size_t i = 0; i < w->n; i++) {
        if (!chars_is_accent(w->chars[i]))
            w->chars[kept++] = w->chars[i];
    }
    w->n = kept;
    return ERR_OK;
}

bool wordpiece_next(struct wordpiece *w, const int32_t **out_chars, size_t *out_n)
{
    size_t end;

    while (w->at < w->n && chars_is_whitespace(w->chars[w->at]))
        w->at++;
    if (w->at == w->n)
        return false;
    end = w->at + 1;
    if (!chars_is_punctuation(w->chars[w->at])) /* a word by itself */
        while (end < w->n && !chars_is_whitespace(w->chars[end]) &&
               !chars_is_punctuation(w->chars[end]))
            end++;
    *out_chars = w->chars + w->at;
    *out_n = end - w->at;
    w->at = end;
    return true;
}

/* --- pieces --- */

/* The longest piece that begins at chars[0]; -1 when there is none. *out_n: its characters. */
static int32_t longest_piece(const struct wordpiece *w, const int32_t *chars, size_t n,
                             bool is_first, size_t *out_n)
{
    char word[2 + WORDPIECE_WORD_MAX * CHARS_BYTES_MAX];
    size_t ends[WORDPIECE_WORD_MAX]; /* where each character ends in `word` */
    size_t at = 0;

    if (!is_first) {
        word[at++] = '#';
        word[at++] = '#';
    }
    for (size_t i = 0; i < n; i++) {
        at += chars_encode(chars[i], word + at);
        ends[i] = at;
    }
    for (; n > 0; n--) {
        int32_t id;

        if (ends[n - 1] > w->vocab->token_max_bytes)
            continue;
        id = vocab_find(w->vocab, word, ends[n - 1]);
        if (id >= 0) {
            *out_n = n;
            return id;
        }
    }
    return -1;
}

static enum err_code add_word(struct wordpiece *w, const int32_t *chars, size_t n,
                              struct token_list *out, struct err *err)
{
    size_t before = out->n;
    size_t taken;
    enum err_code rc;

    if (n > WORDPIECE_WORD_MAX)
        return token_list_add(out, &w->vocab->unk, 1, err);
    for (size_t at = 0; at < n; at += taken) {
        int32_t id = longest_piece(w, chars + at, n - at, at == 0, &taken);

        if (id < 0) {
            out->n = before; /* one unknown piece makes the whole word unknown */
            return token_list_add(out, &w->vocab->unk, 1, err);
        }
        rc = token_list_add(out, &id, 1, err);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

enum err_code wordpiece_encode(struct wordpiece *w, const char *text, size_t len,
                               struct token_list *out, struct err *err)
{
    size_t before = out->n;
    const int32_t *chars;
    size_t n;
    enum err_code rc = wordpiece_read(w, text, len, err);

    while (rc == ERR_OK && wordpiece_next(w, &chars, &n))
        rc = add_word(w, chars, n, out, err);
    if (rc != ERR_OK)
        out->n = before;
    return rc;
}

void wordpiece_deinit(struct wordpiece *w)
{
    free(w->chars);
    *w = (struct wordpiece){0};
}

enum err_code token_list_add(struct token_list *t, const int32_t *ids, size_t n, struct err *err)
{
    enum err_code rc = array_reserve(&t->ids, sizeof *t->ids, &t->cap, t->n + n, err);

    if (rc != ERR_OK)
        return rc;
    if (n > 0)
        memcpy(t->ids + t->n, ids, n * sizeof *ids);
    t->n += n;
    return ERR_OK;
}

void token_list_deinit(struct token_list *t)
{
    free(t->ids);
    *t = (struct token_list){0};
}
