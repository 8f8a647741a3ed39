#include "import/vocab_build.h"

#include <stdio.h>
#include <string.h>

#include "import/merges.h"
#include "text/chars.h"
#include "text/vocab.h"
#include "text/wordpiece.h"

#define TOKEN_MAX_BYTES (2 + WORDPIECE_WORD_MAX * 4)

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
static size_t spell(int32_t c, bool is_first, char out[static 2 + 4])
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
    char token[2 + 4];
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
    char token[2 + 4];
    size_t n = 0;
    int32_t c = 0;
    enum err_code rc = ERR_OK;

    for (size_t at = 0; rc == ERR_OK && at < word->key_bytes; n++) {
        at += chars_decode(word->key + at, word->key_bytes - at, &c);
        rc = token_id(tokens, token, spell(c, n == 0, token), &symbols[n], err);
    }
    return rc == ERR_OK ? merges_add(m, symbols, n, word->value.number, err) : rc;
}

/* The right token continues a word, so it begins with "##", which is left out. */
static enum err_code join_tokens(struct map *tokens, const struct merge *merge, uint32_t *out,
                                 struct err *err)
{
    char joined[TOKEN_MAX_BYTES + 1];
    int len = snprintf(joined, sizeof joined, "%s%s", tokens->entries[merge->left].key,
                       tokens->entries[merge->right].key + 2);

    return token_id(tokens, joined, (size_t)len, out, err);
}

static enum err_code add_merges(struct map *tokens, const struct word_counts *counts,
                                size_t n_tokens, struct err *err)
{
    struct merges *m = NULL;
    struct merge best;
    uint32_t joined;
    enum err_code rc = merges_new(&m, err);

    for (size_t i = 0; rc == ERR_OK && i < counts->words.n; i++)
        rc = add_word(m, tokens, &counts->words.entries[i], err);
    while (rc == ERR_OK && tokens->n < n_tokens) {
        rc = merges_best(m, &best, err);
        if (rc != ERR_OK || best.n < VOCAB_BUILD_COUNT_MIN)
            break;
        rc = join_tokens(tokens, &best, &joined, err);
        if (rc == ERR_OK)
            rc = merges_apply(m, &best, joined, err);
    }
    merges_free(m);
    return rc;
}

static enum err_code check_size(const struct map *alphabet, int n_tokens, struct err *err)
{
    int n_needed = (int)alphabet->n;

    if (n_needed == VOCAB_BUILD_SPECIALS)
        return err_set(err, ERR_INVALID,
                       "no words in the corpus; give plain text, one sentence per line");
    if (n_tokens > VOCAB_TOKENS_MAX)
        return err_set(err, ERR_LIMIT, "%d tokens are too many; at most %d", n_tokens,
                       VOCAB_TOKENS_MAX);
    if (n_tokens < n_needed)
        return err_set(err, ERR_INVALID,
                       "%d tokens are too few: %d special ones and the corpus's %d characters must "
                       "fit; ask for at least %d, or remove rare characters from the corpus",
                       n_tokens, VOCAB_BUILD_SPECIALS, n_needed - VOCAB_BUILD_SPECIALS, n_needed);
    return ERR_OK;
}

enum err_code vocab_build(const struct word_counts *counts, int n_tokens, struct buf *out,
                          int *out_n_tokens, struct err *err)
{
    struct map tokens = {0};
    enum err_code rc = add_alphabet(&tokens, counts, err);

    if (rc == ERR_OK)
        rc = check_size(&tokens, n_tokens, err);
    if (rc == ERR_OK)
        rc = add_merges(&tokens, counts, (size_t)n_tokens, err);
    for (size_t i = 0; rc == ERR_OK && i < tokens.n; i++)
        rc = buf_addf(out, err, "%s\n", tokens.entries[i].key);
    if (rc == ERR_OK)
        *out_n_tokens = (int)tokens.n;
    map_deinit(&tokens);
    return rc;
}
