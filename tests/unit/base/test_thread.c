#include "base/thread.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"

static void *read_mask(void *arg)
{
    (void)pthread_sigmask(SIG_SETMASK, NULL, arg);
    return NULL;
}

static void thread_blocks_signals_in_the_new_thread_only(void **state)
{
    sigset_t theirs;
    sigset_t ours;
    pthread_t thread;

    (void)state;
    assert_int_equal(thread_start(&thread, read_mask, &theirs, NULL), ERR_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &ours), 0);
    assert_true(sigismember(&theirs, SIGTERM));
    assert_false(sigismember(&ours, SIGTERM));
}

static void thread_wait_ends_at_its_deadline(void **state)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    struct timespec deadline = thread_deadline(20);
    int64_t start_ms = clock_now_ms();
    int rc = 0;

    (void)state;
    thread_cond_init(&cond);
    pthread_mutex_lock(&lock);
    while (rc == 0)
        rc = pthread_cond_timedwait(&cond, &lock, &deadline);
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&cond);
    assert_int_equal(rc, ETIMEDOUT);
    assert_true(clock_now_ms() - start_ms >= 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_blocks_signals_in_the_new_thread_only),
        cmocka_unit_test(thread_wait_ends_at_its_deadline),
    };
    return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
