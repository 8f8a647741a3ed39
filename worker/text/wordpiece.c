#include "text/wordpiece.h"

#include <stdlib.h>

#include "base/array.h"
#include "text/chars.h"

#define UTF8_MAX_BYTES 4

void wordpiece_init(struct wordpiece *w, const struct vocab *vocab, bool keep_case)
{
    *w = (struct wordpiece){.vocab = vocab};
    words_init(&w->words, keep_case);
}

/* The longest piece that begins at chars[0]; -1 when there is none. *out_n: its characters. */
static int32_t longest_piece(const struct wordpiece *w, const int32_t *chars, size_t n,
                             bool is_first, size_t *out_n)
{
    char word[2 + WORDPIECE_WORD_MAX * UTF8_MAX_BYTES];
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
        return token_list_add(out, w->vocab->unk, err);
    for (size_t at = 0; at < n; at += taken) {
        int32_t id = longest_piece(w, chars + at, n - at, at == 0, &taken);

        if (id < 0) {
            out->n = before; /* one unknown piece makes the whole word unknown */
            return token_list_add(out, w->vocab->unk, err);
        }
        rc = token_list_add(out, id, err);
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
    enum err_code rc = words_read(&w->words, text, len, err);

    while (rc == ERR_OK && words_next(&w->words, &chars, &n))
        rc = add_word(w, chars, n, out, err);
    if (rc != ERR_OK)
        out->n = before;
    return rc;
}

void wordpiece_deinit(struct wordpiece *w)
{
    words_deinit(&w->words);
    wordpiece_init(w, NULL, false);
}

enum err_code token_list_add(struct token_list *t, int32_t id, struct err *err)
{
    enum err_code rc = array_reserve(&t->ids, sizeof *t->ids, &t->cap, t->n + 1, err);

    if (rc == ERR_OK)
        t->ids[t->n++] = id;
    return rc;
}

void token_list_deinit(struct token_list *t)
{
    free(t->ids);
    *t = (struct token_list){0};
}
