#include "import/vocab_build.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "import/merges.h"
#include "text/chars.h"
#include "text/vocab.h"
#include "text/wordpiece.h"

#define CODE_POINTS     0x110000
#define TOKEN_MAX_BYTES (2 + WORDPIECE_WORD_MAX * 4)

/* The tokens so far: the text is the file's, and each knows where it begins. */
struct tokens {
    struct buf *text;
    size_t text_start;
    size_t *starts; /* [n + 1] from text_start; a line end stands before the next */
    uint32_t n;
    uint32_t *slots; /* open addressing: token + 1, 0 is free */
    size_t n_slots;  /* a power of two */
};

static const char *token_text(const struct tokens *t, uint32_t i, size_t *out_len)
{
    *out_len = t->starts[i + 1] - t->starts[i] - 1;
    return t->text->data + t->text_start + t->starts[i];
}

static size_t slot_of(const struct tokens *t, const char *text, size_t len)
{
    size_t mask = t->n_slots - 1;
    size_t i = (size_t)hash_bytes(HASH_START, text, len) & mask;

    for (; t->slots[i] > 0; i = (i + 1) & mask) {
        size_t other_len;
        const char *other = token_text(t, t->slots[i] - 1, &other_len);

        if (other_len == len && memcmp(other, text, len) == 0)
            break;
    }
    return i;
}

/* The token's id, a new one when it is new. The caller sees to it that there is room. */
static enum err_code token_id(struct tokens *t, const char *text, size_t len, uint32_t *out,
                              struct err *err)
{
    size_t slot = slot_of(t, text, len);
    enum err_code rc;

    if (t->slots[slot] == 0) {
        rc = buf_addf(t->text, err, "%.*s\n", (int)len, text);
        if (rc != ERR_OK)
            return rc;
        t->slots[slot] = ++t->n;
        t->starts[t->n] = t->text->len - t->text_start;
    }
    *out = t->slots[slot] - 1;
    return ERR_OK;
}

/* Returns the bytes of a character as a token, "##" before it unless it begins a word. */
static size_t spell(int32_t c, bool is_first, char out[static 2 + 4])
{
    size_t n = is_first ? 0 : 2;

    memcpy(out, "##", n);
    return n + chars_encode(c, out + n);
}

/* --- the alphabet --- */

static int alphabet_size(const struct word_counts *counts)
{
    int n = 0;

    for (int32_t c = 0; c < CODE_POINTS; c++)
        n += word_counts_has(counts, c, true) + word_counts_has(counts, c, false);
    return n;
}

static enum err_code add_alphabet(struct tokens *t, const struct word_counts *counts,
                                  struct err *err)
{
    static const char *const specials[VOCAB_BUILD_SPECIALS] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                               "[MASK]"};
    char token[2 + 4];
    uint32_t id;
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK && i < VOCAB_BUILD_SPECIALS; i++)
        rc = token_id(t, specials[i], strlen(specials[i]), &id, err);
    for (int is_rest = 0; is_rest < 2; is_rest++) {
        for (int32_t c = 0; rc == ERR_OK && c < CODE_POINTS; c++) {
            if (word_counts_has(counts, c, !is_rest))
                rc = token_id(t, token, spell(c, !is_rest, token), &id, err);
        }
    }
    return rc;
}

/* --- the merges --- */

static enum err_code add_word(struct merges *m, struct tokens *t, const char *word,
                              const struct word_count *count, struct err *err)
{
    uint32_t symbols[WORDPIECE_WORD_MAX];
    char token[2 + 4];
    size_t n = 0;
    int32_t c = 0;

    for (size_t at = 0; at < count->len; n++) {
        at += chars_decode(word + at, count->len - at, &c);
        symbols[n] = t->slots[slot_of(t, token, spell(c, n == 0, token))] - 1;
    }
    return merges_add(m, symbols, n, count->n, err);
}

static enum err_code join_tokens(struct tokens *t, const struct merge *merge, uint32_t *out,
                                 struct err *err)
{
    char joined[TOKEN_MAX_BYTES];
    size_t left_len;
    size_t right_len;
    const char *left = token_text(t, merge->left, &left_len);
    const char *right = token_text(t, merge->right, &right_len);

    memcpy(joined, left, left_len);
    memcpy(joined + left_len, right + 2, right_len - 2); /* what goes on with a word has "##" */
    return token_id(t, joined, left_len + right_len - 2, out, err);
}

static enum err_code add_merges(struct tokens *t, const struct word_counts *counts,
                                uint32_t n_tokens, struct err *err)
{
    struct merges *m = NULL;
    struct merge best;
    uint32_t joined;
    enum err_code rc = merges_new(&m, err);

    for (size_t i = 0; rc == ERR_OK && i < counts->n_words; i++)
        rc = add_word(m, t, word_counts_text(counts, i), &counts->words[i], err);
    while (rc == ERR_OK && t->n < n_tokens) {
        rc = merges_best(m, &best, err);
        if (rc != ERR_OK || best.n < VOCAB_BUILD_COUNT_MIN)
            break;
        rc = join_tokens(t, &best, &joined, err);
        if (rc == ERR_OK)
            rc = merges_apply(m, &best, joined, err);
    }
    merges_free(m);
    return rc;
}

static enum err_code check_size(const struct word_counts *counts, int n_tokens, struct err *err)
{
    int n_alphabet = alphabet_size(counts);

    if (n_alphabet == 0)
        return err_set(err, ERR_INVALID,
                       "no words in the corpus; give plain text, one sentence a line");
    if (n_tokens > VOCAB_TOKENS_MAX)
        return err_set(err, ERR_LIMIT, "%d tokens are too many; at most %d", n_tokens,
                       VOCAB_TOKENS_MAX);
    if (n_tokens < VOCAB_BUILD_SPECIALS + n_alphabet)
        return err_set(err, ERR_INVALID,
                       "%d tokens are too few: %d special ones and the corpus's %d characters must "
                       "fit; ask for at least %d, or take odd characters out of the corpus",
                       n_tokens, VOCAB_BUILD_SPECIALS, n_alphabet,
                       VOCAB_BUILD_SPECIALS + n_alphabet);
    return ERR_OK;
}

enum err_code vocab_build(const struct word_counts *counts, int n_tokens, struct buf *out,
                          int *out_n_tokens, struct err *err)
{
    struct tokens t = {.text = out, .text_start = out->len, .n_slots = 16};
    enum err_code rc = check_size(counts, n_tokens, err);

    if (rc != ERR_OK)
        return rc;
    while (t.n_slots < 2 * (size_t)n_tokens)
        t.n_slots *= 2;
    t.starts = calloc((size_t)n_tokens + 1, sizeof *t.starts);
    t.slots = calloc(t.n_slots, sizeof *t.slots);
    if (!t.starts || !t.slots)
        rc = err_set(err, ERR_NO_MEMORY, "no memory for %d tokens", n_tokens);
    if (rc == ERR_OK)
        rc = add_alphabet(&t, counts, err);
    if (rc == ERR_OK)
        rc = add_merges(&t, counts, (uint32_t)n_tokens, err);
    if (rc == ERR_OK)
        *out_n_tokens = (int)t.n;
    free(t.starts);
    free(t.slots);
    return rc;
}
