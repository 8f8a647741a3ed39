#include "cli/throttle.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"

#define LOOK_NS   2000000
#define PERIOD_NS ((int64_t)THROTTLE_PERIOD_MS * 1000000)

struct share {
    pid_t pid;
    clockid_t clock;
    int64_t quota_ns; /* a period */
    int64_t left_ns;  /* of this period; negative: deducted from the next */
    int64_t used_ns;  /* CPU time at the last look */
    bool is_stopped;
};

struct throttle {
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    bool is_ending;
    int n_shares;
    struct share shares[THROTTLE_MAX];
};

static bool read_cpu_ns(clockid_t clock, int64_t *out)
{
    struct timespec t;

    if (clock_gettime(clock, &t) != 0)
        return false;
    *out = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    return true;
}

static void set_stopped(struct share *w, bool is_stopped)
{
    if (w->is_stopped != is_stopped)
        (void)kill(w->pid, is_stopped ? SIGSTOP : SIGCONT);
    w->is_stopped = is_stopped;
}

static void account(struct share *w, bool is_new_period)
{
    int64_t used;

    if (!read_cpu_ns(w->clock, &used))
        return; /* it has ended; its owner will remove it */
    w->left_ns -= used - w->used_ns;
    w->used_ns = used;
    if (is_new_period) {
        w->left_ns += w->quota_ns;
        if (w->left_ns > w->quota_ns)
            w->left_ns = w->quota_ns;
    }
    set_stopped(w, w->left_ns <= 0);
}

static void *enforce(void *arg)
{
    struct throttle *t = arg;
    int64_t period_end_ns = clock_now_ns() + PERIOD_NS;
    bool is_ending = false;

    while (!is_ending) {
        struct timespec pause = {.tv_nsec = LOOK_NS};
        int64_t now_ns;
        bool is_new_period;

        (void)nanosleep(&pause, NULL);
        now_ns = clock_now_ns();
        is_new_period = now_ns >= period_end_ns;
        if (is_new_period)
            period_end_ns =
                now_ns - period_end_ns < PERIOD_NS ? period_end_ns + PERIOD_NS : now_ns + PERIOD_NS;
        (void)pthread_mutex_lock(&t->lock);
        for (int i = 0; i < t->n_shares; i++)
            account(&t->shares[i], is_new_period);
        is_ending = t->is_ending;
        (void)pthread_mutex_unlock(&t->lock);
    }
    return NULL;
}

enum err_code throttle_new(struct throttle **out, struct err *err)
{
    struct throttle *t = calloc(1, sizeof *t);
    enum err_code rc;

    if (!t)
        return err_set(err, ERR_NO_MEMORY, "no memory to limit the workers' CPU");
    (void)pthread_mutex_init(&t->lock, NULL);
    rc = thread_start(&t->thread, enforce, t, err);
    if (rc != ERR_OK) {
        (void)pthread_mutex_destroy(&t->lock);
        free(t);
        return rc;
    }
    *out = t;
    return ERR_OK;
}

void throttle_free(struct throttle *t)
{
    if (!t)
        return;
    (void)pthread_mutex_lock(&t->lock);
    t->is_ending = true;
    (void)pthread_mutex_unlock(&t->lock);
    (void)pthread_join(t->thread, NULL);
    for (int i = 0; i < t->n_shares; i++)
        set_stopped(&t->shares[i], false);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

enum err_code throttle_add(struct throttle *t, pid_t pid, int cpu_milli, struct err *err)
{
    struct share w = {.pid = pid, .quota_ns = cpu_milli * (PERIOD_NS / 1000)};
    enum err_code rc = ERR_OK;
    int failed = clock_getcpuclockid(pid, &w.clock);

    if (failed != 0 || !read_cpu_ns(w.clock, &w.used_ns))
        return err_set(err, ERR_IO, "read the CPU clock of process %d: %s", (int)pid,
                       strerror(failed ? failed : errno));
    w.left_ns = w.quota_ns;
    (void)pthread_mutex_lock(&t->lock);
    if (t->n_shares == THROTTLE_MAX)
        rc = err_set(err, ERR_LIMIT, "more than %d processes", THROTTLE_MAX);
    else
        t->shares[t->n_shares++] = w;
    (void)pthread_mutex_unlock(&t->lock);
    return rc;
}

void throttle_remove(struct throttle *t, pid_t pid)
{
    (void)pthread_mutex_lock(&t->lock);
    for (int i = 0; i < t->n_shares; i++) {
        if (t->shares[i].pid != pid)
            continue;
        set_stopped(&t->shares[i], false);
        t->shares[i] = t->shares[--t->n_shares];
        break;
    }
    (void)pthread_mutex_unlock(&t->lock);
}
