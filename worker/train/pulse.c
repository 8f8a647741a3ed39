#include "train/pulse.h"

#include "base/thread.h"

#define TICKS 20 /* within the limit */

int64_t pulse_tick(struct pulse *p, int64_t tick_ms)
{
    unsigned beats = atomic_load(&p->beats);

    p->still_ms = beats == p->seen ? p->still_ms + tick_ms : 0;
    p->seen = beats;
    return p->still_ms;
}

static void *watch(void *arg)
{
    struct pulse *p = arg;
    int64_t tick_ms = p->limit_ms / TICKS > 0 ? p->limit_ms / TICKS : 1;
    bool has_stalled = false;

    pthread_mutex_lock(&p->lock);
    while (!p->stops && !has_stalled) {
        struct timespec until = thread_deadline((int)tick_ms);

        (void)pthread_cond_timedwait(&p->changed, &p->lock, &until);
        has_stalled = !p->stops && pulse_tick(p, tick_ms) >= p->limit_ms;
    }
    pthread_mutex_unlock(&p->lock);
    if (has_stalled)
        p->on_stall(p->ctx, p->still_ms);
    return NULL;
}

enum err_code pulse_start(struct pulse *p, int64_t limit_ms, pulse_stalled *on_stall, void *ctx,
                          struct err *err)
{
    enum err_code rc;

    p->limit_ms = limit_ms;
    p->on_stall = on_stall;
    p->ctx = ctx;
    p->stops = false;
    p->seen = atomic_load(&p->beats);
    p->still_ms = 0;
    (void)pthread_mutex_init(&p->lock, NULL);
    thread_cond_init(&p->changed);
    rc = thread_start(&p->thread, watch, p, err);
    if (rc == ERR_OK)
        return ERR_OK;
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
    return rc;
}

void pulse_stop(struct pulse *p)
{
    pthread_mutex_lock(&p->lock);
    p->stops = true;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    (void)pthread_join(p->thread, NULL);
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
}
