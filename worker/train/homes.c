#include "train/homes.h"

#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "nn/threads.h"

static bool has_unit(const struct plan_worker *w, int unit)
{
    return unit >= w->first_unit && unit < w->first_unit + w->n_units;
}

static bool is_at_home(const struct homes *h, int i)
{
    return h->home_edges[i] < 0;
}

static void find_homes(struct homes *h, const struct edges *edges)
{
    const struct weights *w = h->weights;

    for (int i = 0; i < w->n_units; i++)
        h->home_edges[i] = -1;
    for (int k = 0; k < edges->n_homes; k++) {
        struct plan_home home;

        (void)plan_home(h->plan, edges->homes[k].worker, &home);
        for (int i = 0; i < w->n_units; i++)
            if (plan_home_has(&home, w->first_unit + i))
                h->home_edges[i] = k;
    }
}

/* A piece of unit `i` of the stage: of its gradients or weights. */
struct piece {
    int i;
    size_t at, n;
    float *floats;
};

typedef enum err_code piece_fn(struct homes_thread *t, const struct homes_order *order,
                               const struct piece *p, struct err *err);

static bool is_of_weights(const struct homes_order *order)
{
    return order->kind == HOMES_SPREAD;
}

/* What the order is about. */
static float *floats_of(const struct homes *h, const struct homes_order *order, int i)
{
    const struct weights_unit *u = &h->weights->units[i];

    if (order->kind == HOMES_MEET)
        return order->meeting.offered;
    return is_of_weights(order) ? weights_floats(u, order->area) : u->grads;
}

static enum err_code by_piece(struct homes_thread *t, const struct homes_order *order, int i,
                              piece_fn *move, struct err *err)
{
    const struct weights_unit *u = &t->homes->weights->units[i];
    float *floats = floats_of(t->homes, order, i);
    enum err_code rc = ERR_OK;

    for (size_t at = 0; rc == ERR_OK && at < u->count; at += EDGES_PIECE_FLOATS) {
        const struct piece p = {i, at, edges_piece(u->count, at), floats + at};

        rc = move(t, order, &p, err);
    }
    return rc;
}

/* --- gradients --- */

static bool computes(const struct homes_order *order, int replica)
{
    return order->replicas >> replica & 1;
}

/* Add the same piece of all replicas: `own` is this one's, and becomes the sum. */
static enum err_code add_piece(struct homes_thread *t, const struct homes_order *order,
                               const struct piece *p, struct err *err)
{
    const struct edges *edges = &t->exchange.edges;
    struct homes *h = t->homes;
    int unit = h->weights->first_unit + p->i;
    float *own = p->floats;
    size_t n = p->n;
    bool is_behind = false; /* this replica's own is in the sum */
    bool is_first = true;

    for (int i = 0; i <= edges->n_homes; i++) {
        bool is_end = i == edges->n_homes;
        const struct home_edges *from = &edges->homes[is_end ? 0 : i];
        struct exchange_key key =
            exchange_key(exchange_edge(from->grads_in), order->message, order->step, unit);
        struct link_message msg;
        const float *piece;
        enum err_code rc;

        if (!is_behind && (is_end || from->replica > h->replica)) {
            if (!is_first && computes(order, h->replica))
                weights_add(own, h->sum, n);
            else if (!is_first)
                memcpy(own, h->sum, n * sizeof *own);
            is_behind = true;
        }
        if (is_end || from->grads_in < 0 || !has_unit(&h->plan->workers[from->worker], unit) ||
            !computes(order, from->replica))
            continue;
        rc = exchange_recv(&t->exchange, key, &msg, err);
        if (rc != ERR_OK)
            return rc;
        rc = exchange_view(&t->exchange, &msg, n, h->unpacked, &piece, err);
        if (rc == ERR_OK && is_first && !is_behind)
            memcpy(h->sum, piece, n * sizeof *piece);
        else if (rc == ERR_OK)
            weights_add(is_behind ? own : h->sum, piece, n);
        is_first = false;
        exchange_release(&t->exchange, key, &msg);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

/* Send it to its home; a gradient begins anew, and before it leaves: as soon as the home has it,
 * the weights may be here with which the trainer computes the next one. */
static enum err_code send_piece(struct homes_thread *t, const struct homes_order *order,
                                const struct piece *p, struct err *err)
{
    const struct homes *h = t->homes;
    const struct weights_unit *u = &h->weights->units[p->i];
    const float *leaving = p->floats;
    const struct home_edges *home = &t->exchange.edges.homes[h->home_edges[p->i]];
    struct exchange_key key = exchange_key(exchange_edge(home->grads_out), order->message,
                                           order->step, h->weights->first_unit + p->i);

    if (order->kind == HOMES_COLLECT && !computes(order, h->replica))
        return ERR_OK;
    if (order->message == MESSAGE_GRADS && u->unsent)
        return exchange_send_largest(&t->exchange, key, p->floats, u->unsent + p->at, p->n, err);
    if (order->kind != HOMES_MEET) {
        leaving = memcpy(h->leaving, p->floats, p->n * sizeof *h->leaving);
        memset(p->floats, 0, p->n * sizeof *p->floats);
    }
    return exchange_send(&t->exchange, key, NULL, 0, leaving, p->n, err);
}

/* Until the trainer has completed its gradient of unit `i`. */
static enum err_code wait_for_gradient(struct homes_thread *t, int i, struct err *err)
{
    struct homes *h = t->homes;
    enum err_code rc = ERR_OK;

    (void)pthread_mutex_lock(&h->lock);
    while (rc == ERR_OK && !h->has_gradient[i])
        rc = exchange_await(&t->exchange, &h->changed, &h->lock, err);
    (void)pthread_mutex_unlock(&h->lock);
    return rc;
}

/* Does this side move the unit's gradients? Those of units at home arrive from the others. */
static bool moves_gradient(const struct homes_thread *t, int i)
{
    return is_at_home(t->homes, i) == (t->side == HOMES_IN);
}

static enum err_code collect(struct homes_thread *t, const struct homes_order *order,
                             struct err *err)
{
    struct homes *h = t->homes;
    bool waits = computes(order, h->replica);
    enum err_code rc = ERR_OK;

    for (int i = h->weights->n_units - 1; rc == ERR_OK && i >= 0; i--) {
        if (!moves_gradient(t, i))
            continue;
        rc = waits ? wait_for_gradient(t, i, err) : ERR_OK;
        if (rc == ERR_OK)
            rc = by_piece(t, order, i, is_at_home(h, i) ? add_piece : send_piece, err);
    }
    return rc;
}

/* --- weights --- */

/* Of a message with a piece of `unit`. */
static int number_of(const struct homes_order *order, int unit)
{
    return (int)order->area * MODEL_UNITS_MAX + unit;
}

static enum err_code send_weights(struct homes_thread *t, const struct homes_order *order,
                                  const struct piece *p, struct err *err)
{
    const struct edges *edges = &t->exchange.edges;
    const struct homes *h = t->homes;
    int unit = h->weights->first_unit + p->i;
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK && i < edges->n_homes; i++) {
        const struct home_edges *to = &edges->homes[i];

        if (to->weights_out >= 0 && has_unit(&h->plan->workers[to->worker], unit))
            rc = exchange_send(&t->exchange,
                               exchange_key(exchange_edge(to->weights_out), MESSAGE_WEIGHTS,
                                            order->step, number_of(order, unit)),
                               NULL, 0, p->floats, p->n, err);
    }
    return rc;
}

static enum err_code receive_weights(struct homes_thread *t, const struct homes_order *order,
                                     const struct piece *p, struct err *err)
{
    const struct homes *h = t->homes;
    const struct home_edges *home = &t->exchange.edges.homes[h->home_edges[p->i]];
    const struct exchange_key key =
        exchange_key(exchange_edge(home->weights_in), MESSAGE_WEIGHTS, order->step,
                     number_of(order, h->weights->first_unit + p->i));

    return exchange_recv_floats(&t->exchange, key, p->floats, p->n, err);
}

static void show_weights(struct homes *h, int i)
{
    (void)pthread_mutex_lock(&h->lock);
    h->has_weights[i] = true;
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->lock);
}

static enum err_code spread(struct homes_thread *t, const struct homes_order *order,
                            struct err *err)
{
    struct homes *h = t->homes;
    bool is_out = t->side == HOMES_OUT;
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK && i < h->weights->n_units; i++) {
        if (is_at_home(h, i) != is_out)
            continue;
        rc = by_piece(t, order, i, is_out ? send_weights : receive_weights, err);
        if (rc == ERR_OK && !is_out)
            show_weights(h, i);
    }
    return rc;
}

/* --- one unit of replicas that train alone --- */

/* At home: the outer step, from the mean of what all have offered. */
static enum err_code step_piece(struct homes_thread *t, const struct homes_order *order,
                                const struct piece *p, struct err *err)
{
    const struct homes_meeting *m = &order->meeting;
    const struct piece own = {p->i, p->at, p->n, t->homes->own};
    float *params = m->params + p->at;
    enum err_code rc;

    memcpy(own.floats, p->floats, p->n * sizeof *own.floats);
    rc = add_piece(t, order, &own, err);
    if (rc != ERR_OK)
        return rc;
    outer_apply(&m->how, params, own.floats, m->velocity ? m->velocity + p->at : NULL, p->n);
    for (size_t k = 0; k < p->n; k++)
        p->floats[k] -= params[k];
    return ERR_OK;
}

static enum err_code send_stepped(struct homes_thread *t, const struct homes_order *order,
                                  const struct piece *p, struct err *err)
{
    const struct piece stepped = {p->i, p->at, p->n, order->meeting.params + p->at};

    return send_weights(t, order, &stepped, err);
}

static enum err_code receive_stepped(struct homes_thread *t, const struct homes_order *order,
                                     const struct piece *p, struct err *err)
{
    const struct piece stepped = {p->i, p->at, p->n, t->homes->own};
    enum err_code rc = receive_weights(t, order, &stepped, err);

    for (size_t k = 0; rc == ERR_OK && k < p->n; k++)
        p->floats[k] -= stepped.floats[k];
    return rc;
}

/* At home all of it is done by what receives: nothing can leave before. */
static enum err_code meet(struct homes_thread *t, const struct homes_order *order, struct err *err)
{
    int i = order->meeting.i;
    bool is_home = is_at_home(t->homes, i);
    enum err_code rc = ERR_OK;

    if (t->side == HOMES_OUT)
        return is_home ? ERR_OK : by_piece(t, order, i, send_piece, err);
    if (is_home)
        rc = by_piece(t, order, i, step_piece, err);
    return rc == ERR_OK ? by_piece(t, order, i, is_home ? send_stepped : receive_stepped, err) : rc;
}

/* --- the threads --- */

/* The next order, when there is one. */
static enum err_code next_order(struct homes_thread *t, struct homes_order *out, struct err *err)
{
    struct homes *h = t->homes;
    int *n_done = &h->n_done[t->side];
    enum err_code rc = ERR_OK;

    (void)pthread_mutex_lock(&h->lock);
    while (rc == ERR_OK && *n_done == h->n_orders)
        rc = exchange_await(&t->exchange, &h->changed, &h->lock, err);
    *out = h->orders[*n_done < h->n_orders ? *n_done : 0];
    (void)pthread_mutex_unlock(&h->lock);
    return rc;
}

static void end_order(struct homes_thread *t)
{
    struct homes *h = t->homes;

    (void)pthread_mutex_lock(&h->lock);
    h->n_done[t->side]++;
    if (h->n_done[HOMES_OUT] > 0 && h->n_done[HOMES_IN] > 0) {
        memmove(&h->orders[0], &h->orders[1], (size_t)--h->n_orders * sizeof h->orders[0]);
        h->n_done[HOMES_OUT]--;
        h->n_done[HOMES_IN]--;
    }
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->lock);
}

static void *run(void *arg)
{
    static enum err_code (*const acts[])(struct homes_thread * t, const struct homes_order *order,
                                         struct err *err) = {
        [HOMES_COLLECT] = collect, [HOMES_SPREAD] = spread, [HOMES_MEET] = meet};
    struct homes_thread *t = arg;
    struct homes_order order;
    struct err why = {.text = ""};
    enum err_code rc = ERR_OK;

    threads_set_alone();
    while (rc == ERR_OK && next_order(t, &order, &why) == ERR_OK) {
        rc = acts[order.kind](t, &order, &why);
        if (rc == ERR_OK)
            end_order(t);
    }
    if (rc != ERR_OK)
        exchange_fail(&t->exchange, &why);
    return NULL;
}

static void give_room_back(struct homes *h)
{
    free(h->sum);
    free(h->sides[HOMES_OUT].exchange.packed);
}

static enum err_code take_room(struct homes *h, struct err *err)
{
    void **packed = &h->sides[HOMES_OUT].exchange.packed;

    h->sum = malloc(4 * EDGES_PIECE_FLOATS * sizeof *h->sum);
    *packed = malloc(EDGES_PIECE_FLOATS * sizeof(float)); /* bfloat16, or the largest floats */
    if (!h->sum || !*packed) {
        give_room_back(h);
        return err_set(err, ERR_NO_MEMORY, "no memory to add gradients");
    }
    h->own = h->sum + EDGES_PIECE_FLOATS;
    h->unpacked = h->own + EDGES_PIECE_FLOATS;
    h->leaving = h->unpacked + EDGES_PIECE_FLOATS;
    return ERR_OK;
}

/* The first `n` threads. */
static void stop_threads(struct homes *h, int n)
{
    atomic_store(&h->stops, true);
    for (int i = 0; i < n; i++)
        (void)pthread_join(h->sides[i].thread, NULL);
    (void)pthread_cond_destroy(&h->changed);
    (void)pthread_mutex_destroy(&h->lock);
    give_room_back(h);
}

enum err_code homes_open(struct homes *h, const struct plan *plan, int worker,
                         const struct weights *weights, struct exchange *x, struct err *err)
{
    enum err_code rc;

    *h = (struct homes){.plan = plan,
                        .replica = plan->workers[worker].replica,
                        .weights = weights,
                        .failure = {.is_claimed = ATOMIC_FLAG_INIT}};
    if (x->edges.n_homes == 0)
        return ERR_OK;
    x->other = &h->failure;
    for (int i = 0; i < HOMES_SIDES; i++)
        h->sides[i] = (struct homes_thread){
            .homes = h, .side = (enum homes_side)i, .exchange = exchange_beside(x, &h->stops)};
    find_homes(h, &x->edges);
    rc = take_room(h, err);
    if (rc != ERR_OK)
        return rc;
    (void)pthread_mutex_init(&h->lock, NULL);
    thread_cond_init(&h->changed);
    for (int i = 0; i < HOMES_SIDES; i++) {
        rc = thread_start(&h->sides[i].thread, run, &h->sides[i], err);
        if (rc != ERR_OK) {
            stop_threads(h, i);
            return rc;
        }
    }
    h->is_open = true;
    return ERR_OK;
}

void homes_close(struct homes *h, struct exchange *x)
{
    if (!h->is_open)
        return;
    stop_threads(h, HOMES_SIDES);
    x->is_lost = x->is_lost || (atomic_load(&h->failure.is_set) && h->failure.is_lost);
    x->other = NULL;
    h->is_open = false;
}

/* --- the trainer's side --- */

/* There is never one more than these: both kinds are waited for in every step. */
static void give_order(struct homes *h, struct homes_order order)
{
    (void)pthread_mutex_lock(&h->lock);
    for (int i = 0;
         is_of_weights(&order) && order.area == WEIGHTS_PARAMS && i < h->weights->n_units; i++)
        h->has_weights[i] = order.kind == HOMES_SPREAD && is_at_home(h, i);
    for (int i = 0; order.kind == HOMES_COLLECT && i < h->weights->n_units; i++)
        h->has_gradient[i] = false;
    h->orders[h->n_orders++] = order;
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->lock);
}

void homes_spread(struct homes *h, int64_t step)
{
    if (h->is_open)
        give_order(h, (struct homes_order){.kind = HOMES_SPREAD, .step = step});
}

void homes_spread_moments(struct homes *h, int64_t step)
{
    if (!h->is_open)
        return;
    give_order(h, (struct homes_order){.kind = HOMES_SPREAD, .step = step, .area = WEIGHTS_MOMENT});
    if (h->weights->units[0].variance)
        give_order(
            h, (struct homes_order){.kind = HOMES_SPREAD, .step = step, .area = WEIGHTS_VARIANCE});
}

void homes_collect(struct homes *h, int64_t step, uint32_t replicas)
{
    if (h->is_open)
        give_order(h, (struct homes_order){.kind = HOMES_COLLECT,
                                           .message = MESSAGE_GRADS,
                                           .step = step,
                                           .replicas = replicas});
}

void homes_collect_weights(struct homes *h, int64_t step)
{
    give_order(h, (struct homes_order){.kind = HOMES_COLLECT,
                                       .message = MESSAGE_OFFER,
                                       .step = step,
                                       .replicas = UINT32_MAX});
    for (int i = 0; i < h->weights->n_units; i++)
        homes_put(h, i);
}

void homes_meet(struct homes *h, int64_t number, const struct homes_meeting *meeting)
{
    give_order(h, (struct homes_order){.kind = HOMES_MEET,
                                       .message = MESSAGE_OFFER,
                                       .step = number,
                                       .replicas = UINT32_MAX,
                                       .meeting = *meeting});
}

void homes_put(struct homes *h, int i)
{
    if (!h->is_open)
        return;
    (void)pthread_mutex_lock(&h->lock);
    h->has_gradient[i] = true;
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->lock);
}

/* Wait for the weights of a unit or, with i < 0, for all orders. */
static enum err_code wait_for(struct homes *h, int i, const struct exchange *x, struct err *err)
{
    enum err_code rc = ERR_OK;

    if (!h->is_open)
        return ERR_OK;
    (void)pthread_mutex_lock(&h->lock);
    while (rc == ERR_OK && (i >= 0 ? !h->has_weights[i] : h->n_orders > 0))
        rc = exchange_await(x, &h->changed, &h->lock, err);
    (void)pthread_mutex_unlock(&h->lock);
    return rc;
}

enum err_code homes_wait_weights(struct homes *h, int i, const struct exchange *x, struct err *err)
{
    return wait_for(h, i, x, err);
}

enum err_code homes_wait(struct homes *h, const struct exchange *x, struct err *err)
{
    return wait_for(h, -1, x, err);
}

bool homes_is_done(struct homes *h)
{
    bool is_done;

    (void)pthread_mutex_lock(&h->lock);
    is_done = h->n_orders == 0;
    (void)pthread_mutex_unlock(&h->lock);
    return is_done;
}
