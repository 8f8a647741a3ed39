#include "data/mask.h"

#include <math.h>
#include <stdbool.h>

#include "data/sampler.h"

/* What a key is used for. */
enum { CHOOSE, REPLACE, WORD };

enum err_code mask_init(struct mask *m, const struct vocab *vocab, double probability,
                        struct err *err)
{
    const int32_t specials[MASK_SPECIALS] = {vocab->pad, vocab->unk, vocab->cls, vocab->sep,
                                             vocab->mask};

    if (vocab->mask < 0)
        return err_set(err, ERR_INVALID,
                       "vocab.txt has no token [MASK], which replaces masked tokens; add the line");
    if (vocab->n_tokens <= MASK_SPECIALS)
        return err_set(err, ERR_INVALID, "vocab.txt has no words; it has %d tokens",
                       vocab->n_tokens);
    *m = (struct mask){.probability = probability,
                       .n_words = vocab->n_tokens - MASK_SPECIALS,
                       .id = vocab->mask,
                       .cls = vocab->cls,
                       .sep = vocab->sep};
    for (int i = 0; i < MASK_SPECIALS; i++) { /* insertion sort */
        int at = i;

        for (; at > 0 && m->specials[at - 1] > specials[i]; at--)
            m->specials[at] = m->specials[at - 1];
        m->specials[at] = specials[i];
    }
    return ERR_OK;
}

int mask_count(const struct mask *m, int n)
{
    int count = (int)floor(m->probability * n + 0.5);

    if (n == 0)
        return 0;
    return count < 1 ? 1 : count > n ? n : count;
}

static int32_t replacement(const struct mask *m, uint64_t key, int at, int32_t id)
{
    uint64_t dice = random_below(random_key(key, REPLACE), (uint64_t)at, 10);

    if (dice < 8)
        return m->id;
    if (dice > 8)
        return id;
    id = (int32_t)random_below(random_key(key, WORD), (uint64_t)at, (uint64_t)m->n_words);
    for (int i = 0; i < MASK_SPECIALS; i++) /* words are counted without the special tokens */
        id += id >= m->specials[i];
    return id;
}

static bool is_real(const struct mask *m, int32_t id)
{
    return id != m->cls && id != m->sep;
}

/* Selection sampling (Knuth, TAOCP 3.4.2, algorithm S): in one pass every set of `wanted` of the
 * `left` tokens is equally likely. */
int mask_apply(const struct mask *m, uint64_t key, int32_t *ids, int length, int32_t *rows,
               int32_t *target_ids)
{
    uint64_t choose = random_key(key, CHOOSE);
    int left = 0;
    int wanted;
    int n = 0;

    for (int i = 0; i < length; i++)
        left += is_real(m, ids[i]);
    wanted = mask_count(m, left);
    for (int i = 0; n < wanted; i++) {
        if (!is_real(m, ids[i]))
            continue;
        if (random_below(choose, (uint64_t)i, (uint64_t)left--) >= (uint64_t)(wanted - n))
            continue;
        rows[n] = i;
        target_ids[n++] = ids[i];
        ids[i] = replacement(m, key, i, ids[i]);
    }
    return n;
}
