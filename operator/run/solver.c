#include "run/solver.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"

struct solver {
    void (*on_done)(void *ctx);
    void *ctx;
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    struct solver_case *open, *done;
    bool stops, is_alone;      /* alone: the thread is not waited for and frees all of it */
    struct solver_case *taken; /* the loop's alone: what it has given and not taken back */
};

void solver_case_free(struct solver_case *c)
{
    if (c)
        store_view_deinit(&c->view);
    free(c);
}

static void dispose(struct solver *s)
{
    solver_case_free(s->taken);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

static void *run(void *arg)
{
    struct solver *s = arg;
    struct solver_case *c;
    int64_t began_ms;

    pthread_mutex_lock(&s->lock);
    while (!s->stops) {
        c = s->open;
        if (!c) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        s->open = NULL;
        pthread_mutex_unlock(&s->lock);
        began_ms = clock_now_ms();
        decide(&c->seen, &c->decision);
        c->took_ms = clock_now_ms() - began_ms;
        pthread_mutex_lock(&s->lock);
        s->done = c;
        if (!s->stops)
            s->on_done(s->ctx);
    }
    pthread_mutex_unlock(&s->lock);
    if (s->is_alone)
        dispose(s);
    return NULL;
}

enum err_code solver_new(void (*on_done)(void *ctx), void *ctx, struct solver **out,
                         struct err *err)
{
    struct solver *s = calloc(1, sizeof *s);

    if (!s)
        return err_set(err, ERR_NO_MEMORY, "no memory for the solver");
    s->on_done = on_done;
    s->ctx = ctx;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, run, s) != 0) {
        free(s);
        return err_set(err, ERR_NO_MEMORY, "no thread for the solver");
    }
    *out = s;
    return ERR_OK;
}

void solver_free(struct solver *s)
{
    pthread_t thread;
    bool is_busy;

    if (!s)
        return;
    thread = s->thread;
    pthread_mutex_lock(&s->lock);
    s->stops = true;
    s->is_alone = is_busy = s->taken && !s->done;
    (void)pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (is_busy) {
        (void)pthread_detach(thread);
        return;
    }
    (void)pthread_join(thread, NULL);
    dispose(s);
}

bool solver_is_busy(const struct solver *s)
{
    return s->taken != NULL;
}

void solver_start(struct solver *s, struct solver_case *c)
{
    pthread_mutex_lock(&s->lock);
    s->taken = s->open = c;
    (void)pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

struct solver_case *solver_take(struct solver *s)
{
    struct solver_case *out;

    pthread_mutex_lock(&s->lock);
    out = s->done;
    s->done = NULL;
    if (out)
        s->taken = NULL;
    pthread_mutex_unlock(&s->lock);
    return out;
}
