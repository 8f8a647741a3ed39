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

static struct exchange_key key_of(enum link_edge edge, int64_t step, size_t piece)
{
    return exchange_key(edge, FRAME_TIE, step, (int)piece);
}

static size_t floats_of(const struct tie *t, size_t piece)
{
    size_t left = t->count - piece * t->piece;

    return left < t->piece ? left : t->piece;
}

static size_t n_pieces(const struct tie *t)
{
    return (t->count + t->piece - 1) / t->piece;
}

static void add(float *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* --- one piece, on its way between the first and the last stage --- */

static enum err_code send_piece(const struct tie *t, struct exchange *x, enum link_edge out,
                                int64_t step, size_t piece, const float *area, struct err *err)
{
    struct exchange_key key = key_of(out, step, piece);

    return exchange_send(x, &key, NULL, 0, area, floats_of(t, piece), err);
}

static enum err_code recv_piece(const struct tie *t, struct exchange *x, enum link_edge in,
                                int64_t step, size_t piece, struct link_message *msg,
                                struct err *err)
{
    struct exchange_key key = key_of(in, step, piece);
    enum err_code rc = exchange_recv(x, &key, msg, err);

    if (rc != ERR_OK)
        return rc;
    rc = exchange_check_floats(msg, floats_of(t, piece), err);
    if (rc != ERR_OK)
        exchange_release(x, &key, msg);
    return rc;
}

static enum err_code send_all(const struct tie *t, struct exchange *x, enum link_edge out,
                              int64_t step, const float *area, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (size_t i = 0; rc == ERR_OK && i < n_pieces(t); i++)
        rc = send_piece(t, x, out, step, i, area + i * t->piece, err);
    return rc;
}

/* What to do with the pieces that arrive. */
enum action {
    ACTION_ADD,   /* to what is in `to` */
    ACTION_COPY,  /* in its place */
    ACTION_RELAY, /* on to `out`: this stage is between the two */
};

struct arrival {
    enum action action;
    enum link_edge in, out;
    float *to;
};

static enum err_code use_piece(const struct tie *t, struct exchange *x, const struct arrival *a,
                               int64_t step, size_t piece, const float *from, struct err *err)
{
    size_t n = floats_of(t, piece);

    switch (a->action) {
    case ACTION_ADD:
        add(a->to + piece * t->piece, from, n);
        break;
    case ACTION_COPY:
        memcpy(a->to + piece * t->piece, from, n * sizeof *from);
        break;
    case ACTION_RELAY:
        return send_piece(t, x, a->out, step, piece, from, err);
    }
    return ERR_OK;
}

static enum err_code recv_all(const struct tie *t, struct exchange *x, const struct arrival *a,
                              int64_t step, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (size_t i = 0; rc == ERR_OK && i < n_pieces(t); i++) {
        struct exchange_key key = key_of(a->in, step, i);
        struct link_message msg;

        rc = recv_piece(t, x, a->in, step, i, &msg, err);
        if (rc != ERR_OK)
            return rc;
        rc = use_piece(t, x, a, step, i, msg.tensor, err);
        exchange_release(x, &key, &msg);
    }
    return rc;
}

enum err_code tie_collect(struct tie *t, struct exchange *x, int64_t step, struct err *err)
{
    const struct arrival arrival = {.action = t->is_first ? ACTION_ADD : ACTION_RELAY,
                                    .in = LINK_BACKWARD_IN,
                                    .out = LINK_BACKWARD_OUT,
                                    .to = t->owned_grads};
    enum err_code rc = ERR_OK;

    if (!t->is_tied)
        return ERR_OK;
    if (!t->is_last)
        return recv_all(t, x, &arrival, step, err);
    if (t->is_first)
        add(t->owned_grads, t->grads, t->count);
    else
        rc = send_all(t, x, LINK_BACKWARD_OUT, step, t->grads, err);
    memset(t->grads, 0, t->count * sizeof(float));
    return rc;
}

enum err_code tie_spread(struct tie *t, struct exchange *x, int64_t step, struct err *err)
{
    const struct arrival arrival = {.action = t->is_last ? ACTION_COPY : ACTION_RELAY,
                                    .in = LINK_FORWARD_IN,
                                    .out = LINK_FORWARD_OUT,
                                    .to = t->words};

    if (!t->is_tied || (t->is_first && t->is_last))
        return ERR_OK;
    if (t->is_first)
        return send_all(t, x, LINK_FORWARD_OUT, step, t->owned, err);
    return recv_all(t, x, &arrival, step, err);
}
