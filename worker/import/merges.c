#include "import/merges.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"

struct word {
    uint64_t n_seen;
    uint32_t start; /* of its symbols */
    uint32_t len;
};

/* One word of a pair's list; lists are 1-based, 0 ends them. */
struct spot {
    uint32_t word;
    uint32_t next;
};

/* The heap is ordered by `queued`, the count that a pair had when it took its place. A pair moves
 * up at once when its count exceeds that; one that has fallen moves down when it comes up. */
struct pair {
    uint32_t left, right;
    uint64_t n;
    uint64_t queued; /* at least n */
    uint32_t place;  /* in the heap */
    uint32_t spots;  /* of every word that has the pair, and of some that had it */
};

struct merges {
    struct word *words;
    size_t n_words, words_cap;
    uint32_t *symbols;
    size_t n_symbols, symbols_cap;
    struct spot *spots;
    size_t n_spots, spots_cap;
    uint32_t free_spots;
    struct map keys; /* of the pairs, in their order */
    struct pair *pairs;
    uint32_t *heap; /* of all pairs, the most frequent first */
    size_t n_pairs, pairs_cap, heap_cap;
};

/* --- the heap --- */

static bool is_before(const struct merges *m, uint32_t a, uint32_t b)
{
    const struct pair *p = &m->pairs[a];
    const struct pair *q = &m->pairs[b];

    if (p->queued != q->queued)
        return p->queued > q->queued;
    return p->left != q->left ? p->left < q->left : p->right < q->right;
}

static void put(struct merges *m, size_t at, uint32_t pair)
{
    m->heap[at] = pair;
    m->pairs[pair].place = (uint32_t)at;
}

static void rise(struct merges *m, uint32_t pair)
{
    size_t at = m->pairs[pair].place;

    for (; at > 0 && is_before(m, pair, m->heap[(at - 1) / 2]); at = (at - 1) / 2)
        put(m, at, m->heap[(at - 1) / 2]);
    put(m, at, pair);
}

static void sink_top(struct merges *m)
{
    uint32_t moved = m->heap[0];
    size_t at = 0;

    for (size_t child; (child = 2 * at + 1) < m->n_pairs; at = child) {
        if (child + 1 < m->n_pairs && is_before(m, m->heap[child + 1], m->heap[child]))
            child++;
        if (!is_before(m, m->heap[child], moved))
            break;
        put(m, at, m->heap[child]);
    }
    put(m, at, moved);
}

void merges_best(struct merges *m, struct merge *out)
{
    *out = (struct merge){0};
    while (m->n_pairs > 0) {
        struct pair *top = &m->pairs[m->heap[0]];

        if (top->queued == top->n) {
            *out = (struct merge){.left = top->left, .right = top->right, .n = top->n};
            return;
        }
        top->queued = top->n;
        sink_top(m);
    }
}

/* --- pairs --- */

/* One that exists. */
static struct pair *find_pair(const struct merges *m, uint32_t left, uint32_t right)
{
    const uint32_t key[] = {left, right};

    return &m->pairs[map_find(&m->keys, (const char *)key, sizeof key) - m->keys.entries];
}

/* Enter the word into the pair's list. */
static enum err_code add_spot(struct merges *m, struct pair *p, uint32_t word, struct err *err)
{
    uint32_t spot = m->free_spots;

    if (p->spots > 0 && m->spots[p->spots - 1].word == word)
        return ERR_OK;
    if (spot > 0) {
        m->free_spots = m->spots[spot - 1].next;
    } else {
        enum err_code rc =
            array_reserve(&m->spots, sizeof *m->spots, &m->spots_cap, m->n_spots + 1, err);

        if (rc != ERR_OK)
            return rc;
        spot = (uint32_t)++m->n_spots;
    }
    m->spots[spot - 1] = (struct spot){.word = word, .next = p->spots};
    p->spots = spot;
    return ERR_OK;
}

/* Count a pair of the word; the word has it from now on. */
static enum err_code add_pair(struct merges *m, uint32_t left, uint32_t right, uint32_t word,
                              struct err *err)
{
    const uint32_t key[] = {left, right};
    struct map_entry *entry;
    struct pair *p;
    uint32_t i;
    enum err_code rc = map_add(&m->keys, (const char *)key, sizeof key, &entry, err);

    if (rc == ERR_OK)
        rc = array_reserve(&m->pairs, sizeof *m->pairs, &m->pairs_cap, m->keys.n, err);
    if (rc == ERR_OK)
        rc = array_reserve(&m->heap, sizeof *m->heap, &m->heap_cap, m->keys.n, err);
    if (rc != ERR_OK)
        return rc;
    i = (uint32_t)(entry - m->keys.entries);
    p = &m->pairs[i];
    if (i == m->n_pairs)
        *p = (struct pair){.left = left, .right = right, .place = (uint32_t)m->n_pairs++};
    p->n += m->words[word].n_seen;
    if (p->n > p->queued) {
        p->queued = p->n;
        rise(m, i);
    }
    return add_spot(m, p, word, err);
}

/* --- words --- */

enum err_code merges_new(struct merges **out, struct err *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory to build a vocabulary");
}

enum err_code merges_add(struct merges *m, const uint32_t *symbols, size_t n_symbols,
                         uint64_t n_seen, struct err *err)
{
    uint32_t word = (uint32_t)m->n_words;
    enum err_code rc =
        array_reserve(&m->words, sizeof *m->words, &m->words_cap, m->n_words + 1, err);

    if (rc == ERR_OK && m->n_symbols + n_symbols > UINT32_MAX)
        rc = err_set(err, ERR_LIMIT, "the words have more than %u characters", UINT32_MAX);
    if (rc == ERR_OK)
        rc = array_reserve(&m->symbols, sizeof *m->symbols, &m->symbols_cap,
                           m->n_symbols + n_symbols, err);
    if (rc != ERR_OK)
        return rc;
    memcpy(m->symbols + m->n_symbols, symbols, n_symbols * sizeof *symbols);
    m->words[m->n_words++] = (struct word){
        .n_seen = n_seen, .start = (uint32_t)m->n_symbols, .len = (uint32_t)n_symbols};
    m->n_symbols += n_symbols;
    for (size_t i = 1; rc == ERR_OK && i < n_symbols; i++)
        rc = add_pair(m, symbols[i - 1], symbols[i], word, err);
    return rc;
}

static bool has_pair(const uint32_t *symbols, size_t n, const struct merge *merge)
{
    for (size_t i = 1; i < n; i++) {
        if (symbols[i - 1] == merge->left && symbols[i] == merge->right)
            return true;
    }
    return false;
}

/* Put `symbol` for the pair in one word: drop its pairs, join, count its pairs. A pair that is
 * there before and after is listed already. */
static enum err_code join(struct merges *m, uint32_t word, const struct merge *merge,
                          uint32_t symbol, struct err *err)
{
    struct word *w = &m->words[word];
    uint32_t *symbols = m->symbols + w->start;
    uint32_t len = 0;
    enum err_code rc = ERR_OK;

    if (!has_pair(symbols, w->len, merge))
        return ERR_OK;
    for (uint32_t i = 1; i < w->len; i++)
        find_pair(m, symbols[i - 1], symbols[i])->n -= w->n_seen;
    for (uint32_t i = 0; i < w->len; i++) {
        bool both = i + 1 < w->len && symbols[i] == merge->left && symbols[i + 1] == merge->right;

        symbols[len++] = both ? symbol : symbols[i];
        i += both;
    }
    w->len = len;
    for (uint32_t i = 1; rc == ERR_OK && i < len; i++) {
        if (symbols[i - 1] == symbol || symbols[i] == symbol)
            rc = add_pair(m, symbols[i - 1], symbols[i], word, err);
        else
            find_pair(m, symbols[i - 1], symbols[i])->n += w->n_seen;
    }
    return rc;
}

enum err_code merges_apply(struct merges *m, const struct merge *merge, uint32_t symbol,
                           struct err *err)
{
    struct pair *p = find_pair(m, merge->left, merge->right);
    uint32_t spot = p->spots;
    enum err_code rc = ERR_OK;

    p->spots = 0;
    while (rc == ERR_OK && spot > 0) {
        struct spot here = m->spots[spot - 1];

        m->spots[spot - 1].next = m->free_spots;
        m->free_spots = spot;
        rc = join(m, here.word, merge, symbol, err);
        spot = here.next;
    }
    return rc;
}

void merges_free(struct merges *m)
{
    if (!m)
        return;
    free(m->words);
    free(m->symbols);
    free(m->spots);
    free(m->pairs);
    map_deinit(&m->keys);
    free(m->heap);
    free(m);
}
