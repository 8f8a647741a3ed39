#include "train/tie.h"

#include <string.h>

void tie_layout(struct tie *t, const struct weights *weights, bool is_last, size_t piece,
                struct arena *arena)
{
    bool is_first = weights->first_unit == 0;

    *t = (struct tie){.is_tied = model_is_tied(weights->model),
                      .is_first = is_first,
                      .is_last = is_last,
                      .count = model_word_floats(weights->model),
                      .piece = piece};
    if (!t->is_tied)
        return;
    if (is_first) {
        t->owned = weights->units[0].params;
        t->owned_grads = weights->units[0].grads;
    }
    if (is_last) {
        t->words = is_first ? t->owned : arena_floats(arena, t->count);
        t->grads = arena_floats(arena, t->count);
    }
}

/* What a stage does with the [V,C] floats: it sends them from `from`, adds them to `sum`, copies
 * them to `copy`, or, between the two ends, passes them on. */
struct relay {
    int in, out; /* enum edge_role */
    const float *from;
    float *sum, *copy;
};

static enum err_code move_piece(struct exchange *x, const struct relay *relay,
                                const struct exchange_key *in, size_t at, size_t n, struct err *err)
{
    struct exchange_key out = *in;
    struct link_message msg;
    const float *piece;
    enum err_code rc = exchange_check(x, err);

    if (rc != ERR_OK)
        return rc;
    out.edge = relay->out;
    if (relay->from)
        return exchange_send(x, out, NULL, 0, relay->from + at, n, err);
    rc = exchange_recv(x, *in, &msg, err);
    if (rc != ERR_OK)
        return rc;
    rc = exchange_view(x, &msg, n, NULL, &piece, err);
    if (rc == ERR_OK && relay->sum)
        weights_add(relay->sum + at, piece, n);
    else if (rc == ERR_OK && relay->copy)
        memcpy(relay->copy + at, piece, n * sizeof *piece);
    else if (rc == ERR_OK)
        rc = exchange_send(x, out, NULL, 0, piece, n, err);
    exchange_release(x, *in, &msg);
    return rc;
}

static enum err_code move(const struct tie *t, struct exchange *x, const struct relay *relay,
                          int64_t step, struct err *err)
{
    struct exchange_key key = exchange_key(relay->in, MESSAGE_TIE, step, 0);
    enum err_code rc = ERR_OK;

    for (size_t at = 0; rc == ERR_OK && at < t->count; at += t->piece, key.microbatch++) {
        size_t left = t->count - at;

        rc = move_piece(x, relay, &key, at, left < t->piece ? left : t->piece, err);
    }
    return rc;
}

enum err_code tie_collect(struct tie *t, struct exchange *x, int64_t step, struct err *err)
{
    const struct relay relay = {.in = EDGE_BACKWARD_IN,
                                .out = EDGE_BACKWARD_OUT,
                                .from = t->is_last ? t->grads : NULL,
                                .sum = t->is_first ? t->owned_grads : NULL};
    enum err_code rc = ERR_OK;

    if (!t->is_tied)
        return ERR_OK;
    if (t->is_first && t->is_last)
        weights_add(t->owned_grads, t->grads, t->count);
    else
        rc = move(t, x, &relay, step, err);
    if (t->is_last)
        memset(t->grads, 0, t->count * sizeof *t->grads);
    return rc;
}

enum err_code tie_spread(struct tie *t, struct exchange *x, int64_t step, struct err *err)
{
    const struct relay relay = {.in = EDGE_FORWARD_IN,
                                .out = EDGE_FORWARD_OUT,
                                .from = t->is_first ? t->owned : NULL,
                                .copy = t->is_last ? t->words : NULL};

    if (!t->is_tied || (t->is_first && t->is_last))
        return ERR_OK;
    return move(t, x, &relay, step, err);
}
