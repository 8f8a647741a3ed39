#include "base/sparse.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GROUP 64 /* words that share a mask */

struct sparse {
    size_t n_words;    /* of the original */
    uint64_t packed[]; /* per group a mask, whose bits are the words that follow */
};

static size_t group_words(size_t left)
{
    return left < GROUP ? left : GROUP;
}

/* Returns how many words of `out` that took. */
static size_t pack(const unsigned char *from, size_t n_words, uint64_t out[static 1 + GROUP])
{
    size_t n = 1;

    out[0] = 0;
    for (size_t i = 0; i < n_words; i++) {
        uint64_t word;

        memcpy(&word, from + i * sizeof word, sizeof word);
        if (word == 0)
            continue;
        out[0] |= UINT64_C(1) << i;
        out[n++] = word;
    }
    return n;
}

enum err_code sparse_new(const void *from, size_t bytes, struct sparse **out, struct err *err)
{
    const unsigned char *words = from;
    size_t n_words = bytes / SPARSE_WORD_BYTES;
    uint64_t group[1 + GROUP];
    size_t n = 0;
    struct sparse *s;

    assert(bytes % SPARSE_WORD_BYTES == 0);
    for (size_t i = 0; i < n_words; i += GROUP)
        n += pack(words + i * SPARSE_WORD_BYTES, group_words(n_words - i), group);
    s = malloc(sizeof *s + n * sizeof s->packed[0]);
    if (!s)
        return err_set(err, ERR_NO_MEMORY, "no memory for a copy");
    s->n_words = n_words;
    n = 0;
    for (size_t i = 0; i < n_words; i += GROUP) {
        size_t n_packed = pack(words + i * SPARSE_WORD_BYTES, group_words(n_words - i), group);

        memcpy(s->packed + n, group, n_packed * sizeof group[0]);
        n += n_packed;
    }
    *out = s;
    return ERR_OK;
}

void sparse_read(const struct sparse *s, void *out)
{
    unsigned char *words = out;
    const uint64_t *at = s->packed;

    memset(out, 0, s->n_words * SPARSE_WORD_BYTES);
    for (size_t i = 0; i < s->n_words; i += GROUP)
        for (uint64_t mask = *at++; mask != 0; mask &= mask - 1)
            memcpy(words + (i + (size_t)__builtin_ctzll(mask)) * SPARSE_WORD_BYTES, at++,
                   SPARSE_WORD_BYTES);
}
