#include "train/pushes.h"

#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "nn/threads.h"

void pushes_apply(struct pushes *p, int unit, size_t at, size_t n, float *grads,
                  const struct message_push *how)
{
    const struct weights_step step = {.spec = p->spec,
                                      .rate = how->rate,
                                      .scale = how->scale,
                                      .share = how->share,
                                      .updates = how->updates};

    (void)pthread_mutex_lock(&p->lock);
    weights_update_part(&p->spec->model, unit, &p->state->units[unit], at, n, grads, &step);
    (void)pthread_mutex_unlock(&p->lock);
}

void pushes_read(struct pushes *p, int unit, size_t at, size_t n, float *out)
{
    (void)pthread_mutex_lock(&p->lock);
    memcpy(out, p->state->units[unit].params + at, n * sizeof *out);
    (void)pthread_mutex_unlock(&p->lock);
}

/* --- a guest --- */

static enum err_code receive_unit(struct guest *g, struct exchange *x, int64_t number, int unit,
                                  const struct message_push *how, struct err *err)
{
    struct pushes *p = g->pushes;
    const struct exchange_key key =
        exchange_key(exchange_edge(g->edges->grads_in), MESSAGE_GRADS, number, unit);
    enum err_code rc = ERR_OK;

    for (size_t at = 0; rc == ERR_OK && at < p->state->units[unit].count;
         at += EDGES_PIECE_FLOATS) {
        size_t n = edges_piece(p->state->units[unit].count, at);

        rc = exchange_recv_floats(x, key, g->piece, n, err);
        if (rc == ERR_OK)
            pushes_apply(p, unit, at, n, g->piece, how);
    }
    return rc;
}

static enum err_code send_unit(struct guest *g, struct exchange *x, int64_t number, int unit,
                               struct err *err)
{
    struct pushes *p = g->pushes;
    const struct exchange_key key =
        exchange_key(exchange_edge(g->edges->weights_out), MESSAGE_WEIGHTS, number, unit);
    enum err_code rc = ERR_OK;

    for (size_t at = 0; rc == ERR_OK && at < p->state->units[unit].count;
         at += EDGES_PIECE_FLOATS) {
        size_t n = edges_piece(p->state->units[unit].count, at);

        pushes_read(p, unit, at, n, g->piece);
        rc = exchange_send(x, key, NULL, 0, g->piece, n, err);
    }
    return rc;
}

/* One push in falling order of units, and one answer in rising order. */
static enum err_code serve(struct guest *g, struct exchange *x, int64_t number, bool *out_is_last,
                           struct err *err)
{
    struct message_push how;
    enum err_code rc = exchange_recv_meta(
        x, exchange_key(exchange_edge(g->edges->grads_in), MESSAGE_PUSH, number, 0), &how,
        sizeof how, err);

    if (rc == ERR_OK)
        rc = message_push_check(&how, err);
    for (int i = g->n_units - 1; rc == ERR_OK && how.is_applied && i >= 0; i--)
        rc = receive_unit(g, x, number, g->first_unit + i, &how, err);
    for (int i = 0; rc == ERR_OK && !how.is_last && i < g->n_units; i++)
        rc = send_unit(g, x, number, g->first_unit + i, err);
    *out_is_last = rc == ERR_OK && how.is_last;
    return rc;
}

static void *run_guest(void *arg)
{
    struct guest *g = arg;
    struct pushes *p = g->pushes;
    struct exchange x = p->exchange;
    struct err why = {.text = ""};
    bool is_last = false;
    enum err_code rc = ERR_OK;

    threads_set_alone();
    for (int64_t number = 0; rc == ERR_OK && !is_last; number++)
        rc = serve(g, &x, number, &is_last, &why);
    if (rc != ERR_OK && rc != ERR_GONE)
        exchange_fail(&x, &why);
    (void)pthread_mutex_lock(&p->lock);
    p->n_pushing -= is_last;
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* --- the round --- */

/* The units of a worker that are at home here. */
static void find_units(struct guest *g, const struct plan *plan, const struct plan_home *home)
{
    const struct plan_worker *w = &plan->workers[g->edges->worker];
    int first = w->first_unit > home->first_unit ? w->first_unit : home->first_unit;
    int end_there = w->first_unit + w->n_units, end_here = home->first_unit + home->n_units;

    g->first_unit = first;
    g->n_units = (end_there < end_here ? end_there : end_here) - first;
}

static enum err_code add_guest(struct pushes *p, const struct plan *plan,
                               const struct plan_home *home, const struct home_edges *edges,
                               struct err *err)
{
    struct guest *g = &p->guests[p->n_guests];
    enum err_code rc;

    *g = (struct guest){.pushes = p, .edges = edges};
    find_units(g, plan, home);
    g->piece = malloc(EDGES_PIECE_FLOATS * sizeof *g->piece);
    if (!g->piece)
        return err_set(err, ERR_NO_MEMORY, "no memory to apply gradients");
    (void)pthread_mutex_lock(&p->lock);
    p->n_pushing++;
    (void)pthread_mutex_unlock(&p->lock);
    rc = thread_start(&g->thread, run_guest, g, err);
    if (rc == ERR_OK)
        p->n_guests++;
    else
        free(g->piece);
    return rc;
}

enum err_code pushes_open(struct pushes *p, const struct plan *plan, int worker,
                          const struct state *state, const struct exchange *x, struct err *err)
{
    struct plan_home home;
    enum err_code rc = ERR_OK;

    *p = (struct pushes){.spec = &plan->spec, .state = state};
    p->exchange = exchange_beside(x, &p->stops);
    (void)pthread_mutex_init(&p->lock, NULL);
    thread_cond_init(&p->changed);
    (void)plan_home(plan, worker, &home);
    for (int k = 0; rc == ERR_OK && k < x->edges.n_homes; k++)
        if (x->edges.homes[k].grads_in >= 0)
            rc = add_guest(p, plan, &home, &x->edges.homes[k], err);
    return rc;
}

void pushes_close(struct pushes *p)
{
    if (!p->state)
        return;
    atomic_store(&p->stops, true);
    for (int i = 0; i < p->n_guests; i++) {
        (void)pthread_join(p->guests[i].thread, NULL);
        free(p->guests[i].piece);
    }
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
    p->state = NULL;
}

enum err_code pushes_wait(struct pushes *p, const struct exchange *x, struct err *err)
{
    enum err_code rc = ERR_OK;

    (void)pthread_mutex_lock(&p->lock);
    while (rc == ERR_OK && p->n_pushing > 0)
        rc = exchange_await(x, &p->changed, &p->lock, err);
    (void)pthread_mutex_unlock(&p->lock);
    return rc;
}
