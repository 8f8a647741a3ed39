#include "run/writers.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/thread.h"

struct writer {
    struct writers *all;
    pthread_t thread;
    sem_t has_task;
    struct writers_task task;
    bool is_busy;
};

struct writers {
    struct http *http;
    void (*work)(void *ctx, const struct writers_task *task);
    void *ctx;
    atomic_bool stops;
    int n; /* that have been started */
    struct writer list[WRITERS_MAX];
};

static void *run(void *arg)
{
    struct writer *own = arg;
    struct writers *w = own->all;

    for (;;) {
        while (sem_wait(&own->has_task) != 0)
            ; /* a signal */
        if (w->stops)
            return NULL;
        http_enter(w->http);
        w->work(w->ctx, &own->task);
        own->is_busy = false;
        http_leave(w->http);
        http_wake(w->http);
    }
}

static enum err_code start(struct writers *w, struct writer *own, struct err *err)
{
    enum err_code rc;

    own->all = w;
    own->task.c = calloc(1, sizeof *own->task.c);
    if (!own->task.c)
        return err_set(err, ERR_NO_MEMORY, "no memory for a writer");
    (void)sem_init(&own->has_task, 0, 0);
    rc = thread_start(&own->thread, run, own, err);
    if (rc == ERR_OK)
        w->n++;
    else
        solver_case_free(own->task.c);
    return rc;
}

enum err_code writers_new(struct http *http,
                          void (*work)(void *ctx, const struct writers_task *task), void *ctx,
                          struct writers **out, struct err *err)
{
    struct writers *w = calloc(1, sizeof *w);
    enum err_code rc = ERR_OK;

    if (!w)
        return err_set(err, ERR_NO_MEMORY, "no memory for the writers");
    w->http = http;
    w->work = work;
    w->ctx = ctx;
    for (int i = 0; i < WRITERS_MAX && rc == ERR_OK; i++)
        rc = start(w, &w->list[i], err);
    if (rc == ERR_OK)
        *out = w;
    else
        writers_free(w);
    return rc;
}

void writers_free(struct writers *w)
{
    if (!w)
        return;
    w->stops = true;
    for (int i = 0; i < w->n; i++) {
        (void)sem_post(&w->list[i].has_task);
        (void)pthread_join(w->list[i].thread, NULL);
        (void)sem_destroy(&w->list[i].has_task);
        solver_case_free(w->list[i].task.c);
    }
    free(w);
}

int writers_n_busy(const struct writers *w)
{
    int n = 0;

    for (int i = 0; i < WRITERS_MAX; i++)
        n += w->list[i].is_busy;
    return n;
}

struct solver_case *writers_give(struct writers *w, const char *key, struct solver_case *decided)
{
    struct writer *own = w->list;
    struct solver_case *out = NULL;

    while (own->is_busy)
        own++;
    own->is_busy = true;
    (void)snprintf(own->task.key, sizeof own->task.key, "%s", key);
    own->task.is_decided = decided != NULL;
    if (decided) {
        out = own->task.c;
        own->task.c = decided;
    }
    (void)sem_post(&own->has_task);
    return out;
}
