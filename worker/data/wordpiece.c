#include "data/wordpiece.h"

#include <stdlib.h>
#include <string.h>

#include "data/chars.h"

#define UTF8_MAX_BYTES 4
#define MARKS_MAX      1024 /* in a row */

void wordpiece_init(struct wordpiece *w, const struct vocab *vocab, bool keep_case)
{
    *w = (struct wordpiece){.vocab = vocab, .keep_case = keep_case};
}

/* --- scratch memory --- */

static enum err_code reserve_chars(struct wordpiece *w, size_t n, struct err *err)
{
    int32_t *grown;

    if (!w->word) {
        w->word = malloc(2 + (size_t)WORDPIECE_WORD_MAX * UTF8_MAX_BYTES);
        if (!w->word)
            return err_set(err, ERR_NO_MEMORY, "no memory to tokenise");
    }
    if (n <= w->chars_cap)
        return ERR_OK;
    grown = realloc(w->chars, n * sizeof *grown);
    if (!grown)
        return err_set(err, ERR_NO_MEMORY, "no memory to tokenise %zu characters", n);
    w->chars = grown;
    w->chars_cap = n;
    return ERR_OK;
}

static enum err_code add_token(struct token_list *out, int32_t id, struct err *err)
{
    if (out->n == out->cap) {
        size_t cap = out->cap ? 2 * out->cap : 64;
        int32_t *grown = realloc(out->ids, cap * sizeof *grown);

        if (!grown)
            return err_set(err, ERR_NO_MEMORY, "no memory for %zu tokens", cap);
        out->ids = grown;
        out->cap = cap;
    }
    out->ids[out->n++] = id;
    return ERR_OK;
}

/* --- the basic tokenizer --- */

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
static enum err_code read_chars(struct wordpiece *w, const char *text, size_t len, size_t *out_n,
                                struct err *err)
{
    int32_t parts[CHARS_PARTS_MAX];
    size_t n = 0;
    size_t step;
    enum err_code rc = reserve_chars(w, 2 * len + CHARS_PARTS_MAX, err);

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

/* --- WordPiece --- */

/* The longest piece that begins at chars[0]; -1 when there is none. *out_n: its characters. */
static int32_t longest_piece(const struct wordpiece *w, const int32_t *chars, size_t n,
                             bool is_first, size_t *out_n)
{
    size_t ends[WORDPIECE_WORD_MAX]; /* where each character ends in w->word */
    size_t at = 0;

    if (!is_first) {
        w->word[at++] = '#';
        w->word[at++] = '#';
    }
    for (size_t i = 0; i < n; i++) {
        at += chars_encode(chars[i], w->word + at);
        ends[i] = at;
    }
    for (; n > 0; n--) {
        int32_t id;

        if (ends[n - 1] > w->vocab->token_max_bytes)
            continue;
        id = vocab_find(w->vocab, w->word, ends[n - 1]);
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
        return add_token(out, w->vocab->unk, err);
    for (size_t at = 0; at < n; at += taken) {
        int32_t id = longest_piece(w, chars + at, n - at, at == 0, &taken);

        if (id < 0) {
            out->n = before; /* one unknown piece makes the whole word unknown */
            return add_token(out, w->vocab->unk, err);
        }
        rc = add_token(out, id, err);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
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

enum err_code wordpiece_encode(struct wordpiece *w, const char *text, size_t len,
                               struct token_list *out, struct err *err)
{
    size_t before = out->n;
    size_t n = 0;
    size_t step;
    enum err_code rc;

    if (len > WORDPIECE_TEXT_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "text of %zu bytes, above %u", len,
                       WORDPIECE_TEXT_MAX_BYTES);
    rc = read_chars(w, text, len, &n, err);
    for (size_t i = 0; rc == ERR_OK && i < n; i += step) {
        step = 1;
        if (chars_is_whitespace(w->chars[i]))
            continue;
        step = word_length(w->chars + i, n - i);
        rc = add_word(w, w->chars + i, step, out, err);
    }
    if (rc != ERR_OK)
        out->n = before;
    return rc;
}

void wordpiece_deinit(struct wordpiece *w)
{
    free(w->chars);
    free(w->word);
    wordpiece_init(w, NULL, false);
}

void token_list_deinit(struct token_list *t)
{
    free(t->ids);
    *t = (struct token_list){0};
}
