#include "base/thread.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"

enum err_code thread_start(pthread_t *out, void *(*run)(void *arg), void *arg, struct err *err)
{
    sigset_t all;
    sigset_t before;
    int rc;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(out, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? ERR_OK
                   : err_set(err, ERR_NO_MEMORY, "cannot start a thread: %s", strerror(rc));
}

void thread_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

struct timespec thread_deadline(int timeout_ms)
{
    int64_t ns = clock_now_ns() + (int64_t)timeout_ms * 1000000;

    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = ns % 1000000000};
}
