#include "train/couriers.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "nn/threads.h"

/* --- a courier at the link --- */

static void lock(struct couriers *c)
{
    (void)pthread_mutex_lock(&c->lock);
}

static void unlock(struct couriers *c)
{
    (void)pthread_mutex_unlock(&c->lock);
}

static void leave(struct courier *k)
{
    lock(k->all);
    k->away_ms = clock_now_ms();
    unlock(k->all);
}

/* Back from the link, where that was the result, but not while it is shut out. */
static enum err_code enter(struct courier *k, enum err_code rc, struct err *err)
{
    struct couriers *c = k->all;
    int64_t ms;

    lock(c);
    ms = clock_now_ms() - k->away_ms;
    k->slowest_ms = ms > k->slowest_ms ? ms : k->slowest_ms;
    k->away_ms = 0;
    while (rc == ERR_OK && k->is_shut_out)
        rc = exchange_await(&k->exchange, &c->changed, &c->lock, err);
    unlock(c);
    return rc;
}

static enum err_code send_gradient(struct courier *k, const struct exchange_key *key,
                                   const struct weights_unit *u, size_t at, struct err *err)
{
    size_t n = edges_piece(u->count, at);
    enum err_code rc;

    if (k->has_missed) {
        memset(k->leaving, 0, n * sizeof *k->leaving);
    } else {
        memcpy(k->leaving, u->grads + at, n * sizeof *k->leaving);
        memset(u->grads + at, 0, n * sizeof *k->leaving);
    }
    leave(k);
    rc = u->unsent ? exchange_send_largest(&k->exchange, *key, k->leaving, u->unsent + at, n, err)
                   : exchange_send(&k->exchange, *key, NULL, 0, k->leaving, n, err);
    return enter(k, rc, err);
}

static enum err_code receive_weights(struct courier *k, const struct exchange_key *key,
                                     const struct weights_unit *u, size_t at, struct err *err)
{
    size_t n = edges_piece(u->count, at);
    struct link_message msg;
    const float *floats;
    enum err_code rc;

    leave(k);
    rc = exchange_recv(&k->exchange, *key, &msg, err);
    if (rc != ERR_OK)
        return enter(k, rc, err);
    rc = enter(k, ERR_OK, err);
    if (rc == ERR_OK)
        rc = exchange_view(&k->exchange, &msg, n, NULL, &floats, err);
    if (rc == ERR_OK)
        memcpy(u->params + at, floats, n * sizeof *floats);
    exchange_release(&k->exchange, *key, &msg);
    return rc;
}

static enum err_code announce(struct courier *k, int64_t number, struct err *err)
{
    enum err_code rc;

    leave(k);
    rc = exchange_send(&k->exchange,
                       exchange_key(exchange_edge(k->edges->grads_out), MESSAGE_PUSH, number, 0),
                       &k->how, sizeof k->how, NULL, 0, err);
    return enter(k, rc, err);
}

/* --- a push and a pull --- */

static enum err_code take_unit(struct courier *k, int64_t number, int i, struct err *err)
{
    const struct weights *w = k->all->weights;
    const struct weights_unit *u = &w->units[i];
    int unit = w->first_unit + i;
    enum err_code rc = ERR_OK;

    for (size_t at = 0; rc == ERR_OK && at < u->count; at += EDGES_PIECE_FLOATS) {
        if (k->edges) {
            const struct exchange_key key =
                exchange_key(exchange_edge(k->edges->grads_out), MESSAGE_GRADS, number, unit);

            rc = send_gradient(k, &key, u, at, err);
        } else {
            pushes_apply(k->all->pushes, unit, at, edges_piece(u->count, at), u->grads + at,
                         &k->how);
        }
    }
    return rc;
}

static enum err_code bring_unit(struct courier *k, int64_t number, int i, struct err *err)
{
    struct couriers *c = k->all;
    const struct weights_unit *u = &c->weights->units[i];
    int unit = c->weights->first_unit + i;
    enum err_code rc = ERR_OK;

    for (size_t at = 0; rc == ERR_OK && at < u->count; at += EDGES_PIECE_FLOATS) {
        if (k->edges) {
            const struct exchange_key key =
                exchange_key(exchange_edge(k->edges->weights_in), MESSAGE_WEIGHTS, number, unit);

            rc = receive_weights(k, &key, u, at, err);
        } else {
            pushes_read(c->pushes, unit, at, edges_piece(u->count, at), u->params + at);
        }
    }
    lock(c);
    c->has_weights[i] = rc == ERR_OK;
    (void)pthread_cond_broadcast(&c->changed);
    unlock(c);
    return rc;
}

/* A push that took longer than usual is what is usual now; it is forgotten little by little. */
static void end_push(struct courier *k)
{
    struct couriers *c = k->all;

    lock(c);
    if (!k->has_missed)
        k->usual_ms = 1 + (k->slowest_ms > k->usual_ms ? k->slowest_ms
                                                       : (7 * k->usual_ms + k->slowest_ms) / 8);
    k->is_busy = false;
    (void)pthread_cond_broadcast(&c->changed);
    unlock(c);
}

static enum err_code push(struct courier *k, struct err *err)
{
    int64_t number = k->n_pushes++;
    enum err_code rc = k->edges ? announce(k, number, err) : ERR_OK;

    for (int i = k->n_units - 1; rc == ERR_OK && k->how.is_applied && i >= 0; i--)
        rc = take_unit(k, number, k->first + i, err);
    for (int i = 0; rc == ERR_OK && !k->how.is_last && i < k->n_units; i++)
        rc = bring_unit(k, number, k->first + i, err);
    if (rc == ERR_OK)
        end_push(k);
    return rc;
}

static enum err_code wait_for_push(struct courier *k, struct err *err)
{
    struct couriers *c = k->all;
    enum err_code rc = ERR_OK;

    lock(c);
    while (rc == ERR_OK && !k->is_busy)
        rc = exchange_await(&k->exchange, &c->changed, &c->lock, err);
    unlock(c);
    return rc;
}

static void *run(void *arg)
{
    struct courier *k = arg;
    struct err why = {.text = ""};
    enum err_code rc = ERR_OK;

    threads_set_alone();
    while (rc == ERR_OK && wait_for_push(k, &why) == ERR_OK)
        rc = push(k, &why);
    if (rc != ERR_OK && rc != ERR_GONE)
        exchange_fail(&k->exchange, &why);
    return NULL;
}

/* --- the round --- */

/* With the units that are at home at `worker`. */
static enum err_code add_courier(struct couriers *c, int worker, const struct home_edges *edges,
                                 const struct exchange *x, struct err *err)
{
    struct courier *k = &c->couriers[c->n];
    struct plan_home home;
    enum err_code rc;

    *k = (struct courier){.all = c,
                          .edges = edges,
                          .exchange = exchange_beside(x, &c->stops),
                          .usual_ms = k->usual_ms};
    (void)plan_home(c->plan, worker, &home);
    for (int i = c->weights->n_units - 1; i >= 0; i--)
        if (plan_home_has(&home, c->weights->first_unit + i)) {
            k->first = i;
            k->n_units++;
            c->of_unit[i] = k;
        }
    if (k->n_units == 0)
        return ERR_OK;
    k->leaving = malloc(2 * EDGES_PIECE_FLOATS * sizeof *k->leaving);
    if (!k->leaving)
        return err_set(err, ERR_NO_MEMORY, "no memory to send gradients");
    k->exchange.packed = k->leaving + EDGES_PIECE_FLOATS; /* bfloat16, or the largest floats */
    rc = thread_start(&k->thread, run, k, err);
    if (rc == ERR_OK)
        c->n++;
    else
        free(k->leaving);
    return rc;
}

enum err_code couriers_open(struct couriers *c, const struct plan *plan, int worker,
                            const struct weights *weights, struct pushes *pushes,
                            const struct exchange *x, struct err *err)
{
    enum err_code rc;

    c->plan = plan;
    c->weights = weights;
    c->pushes = pushes;
    c->n = 0;
    atomic_store(&c->stops, false);
    (void)pthread_mutex_init(&c->lock, NULL);
    thread_cond_init(&c->changed);
    for (int i = 0; i < weights->n_units; i++)
        c->has_weights[i] = true;
    rc = add_courier(c, worker, NULL, x, err);
    for (int k = 0; rc == ERR_OK && k < x->edges.n_homes; k++)
        if (x->edges.homes[k].grads_out >= 0)
            rc = add_courier(c, x->edges.homes[k].worker, &x->edges.homes[k], x, err);
    return rc;
}

void couriers_close(struct couriers *c)
{
    if (!c->plan)
        return;
    atomic_store(&c->stops, true);
    for (int i = 0; i < c->n; i++) {
        (void)pthread_join(c->couriers[i].thread, NULL);
        free(c->couriers[i].leaving);
    }
    (void)pthread_cond_destroy(&c->changed);
    (void)pthread_mutex_destroy(&c->lock);
    c->plan = NULL;
}

/* --- the trainer's side; all with the lock --- */

static void note(const struct courier *k, const char *what)
{
    LOG(LOG_WARN, what, LOG_I("worker", k->edges->worker), LOG_I("usualMs", k->usual_ms),
        LOG_I("tickets", k->n_missed));
}

/* Shut it out if its home is late: from then on it touches nothing, as it is at the link. */
static bool is_missed(struct courier *k)
{
    int64_t most_ms =
        2 * k->usual_ms > COURIERS_PATIENCE_MS ? 2 * k->usual_ms : COURIERS_PATIENCE_MS;

    if (!k->is_shut_out && k->away_ms > 0 && k->usual_ms > 0 &&
        clock_now_ms() - k->away_ms > most_ms) {
        k->is_shut_out = k->has_missed = true;
        k->n_missed = 0;
        note(k, "a home does not respond, tickets go on without it");
    }
    return k->is_shut_out;
}

static void let_in(struct courier *k)
{
    if (k->away_ms == 0)
        note(k, "a home responds again");
    k->is_shut_out = false;
}

/* To all that are idle and have not had the last one. */
static void give(struct couriers *c, const struct message_push *how)
{
    for (int i = 0; i < c->n; i++) {
        struct courier *k = &c->couriers[i];

        if (k->is_busy || k->how.is_last)
            continue;
        k->how = *how;
        k->is_busy = true;
        k->has_missed = false;
        k->slowest_ms = 0;
        for (int u = k->first; !how->is_last && u < k->first + k->n_units; u++)
            c->has_weights[u] = false;
    }
    (void)pthread_cond_broadcast(&c->changed);
}

static enum err_code wait_for_all(struct couriers *c, bool is_patient, const struct exchange *x,
                                  struct err *err)
{
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK && i < c->n; i++) {
        struct courier *k = &c->couriers[i];

        while (rc == ERR_OK && k->is_busy && (is_patient || !is_missed(k)))
            rc = exchange_await(x, &c->changed, &c->lock, err);
    }
    return rc;
}

enum err_code couriers_push(struct couriers *c, const struct message_push *how,
                            const struct exchange *x, struct err *err)
{
    enum err_code rc = ERR_OK;

    lock(c);
    for (int i = 0; i < c->n; i++) {
        struct courier *k = &c->couriers[i];

        k->n_missed += k->is_shut_out;
        if (k->is_shut_out && (k->away_ms == 0 || how->is_last))
            let_in(k);
    }
    give(c, how);
    if (how->is_last)
        rc = wait_for_all(c, true, x, err);
    if (how->is_last && rc == ERR_OK) {
        give(c, how);
        rc = wait_for_all(c, true, x, err);
    }
    unlock(c);
    return rc;
}

enum err_code couriers_wait_weights(struct couriers *c, int i, const struct exchange *x,
                                    struct err *err)
{
    enum err_code rc = ERR_OK;

    if (!c->plan)
        return ERR_OK;
    lock(c);
    while (rc == ERR_OK && !c->has_weights[i] && !is_missed(c->of_unit[i]))
        rc = exchange_await(x, &c->changed, &c->lock, err);
    unlock(c);
    return rc;
}

enum err_code couriers_wait(struct couriers *c, const struct exchange *x, struct err *err)
{
    enum err_code rc;

    lock(c);
    rc = wait_for_all(c, false, x, err);
    unlock(c);
    return rc;
}
