#include "data/sequence.h"

enum err_code sequence_check(const struct sequence_params *p, struct err *err)
{
    if (p->max_length >= SEQUENCE_LENGTH_MIN && p->max_length <= SEQUENCE_LENGTH_MAX)
        return ERR_OK;
    return err_set(err, ERR_INVALID, "spec.training.maxSequenceLength: %d is not in %d..%d",
                   p->max_length, SEQUENCE_LENGTH_MIN, SEQUENCE_LENGTH_MAX);
}

void sequence_truncate(size_t *n_a, size_t *n_b, size_t room)
{
    size_t *longer = *n_a > *n_b ? n_a : n_b;
    size_t *shorter = *n_a > *n_b ? n_b : n_a;

    if (*n_a + *n_b <= room)
        return;
    if (*shorter > room / 2)
        *shorter = room / 2;
    *longer = room - *shorter;
}

enum err_code sequence_join(struct token_list *a, const struct token_list *b,
                            const struct vocab *vocab, int max_length, struct sequence *out,
                            struct err *err)
{
    size_t room = (size_t)max_length - SEQUENCE_SPECIALS + (b ? 0 : 1);
    size_t n_a = a->n - 1; /* behind [CLS] */
    size_t n_b = b ? b->n : 0;
    enum err_code rc;

    sequence_truncate(&n_a, &n_b, room);
    a->n = n_a + 1;
    rc = token_list_add(a, vocab->sep, err);
    for (size_t k = 0; rc == ERR_OK && k < n_b; k++)
        rc = token_list_add(a, b->ids[k], err);
    if (rc == ERR_OK && b)
        rc = token_list_add(a, vocab->sep, err);
    if (rc != ERR_OK)
        return rc;
    *out = (struct sequence){.length = (int)a->n, .n_first = (int)n_a + 2, .ids = a->ids};
    return ERR_OK;
}
