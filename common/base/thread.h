/* base/thread.h - threads that leave signals to the main thread, and waits on the monotonic clock.
 *
 * Layer: base. Threads: any.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <time.h>

#include "base/err.h"

/* Start a thread with all signals blocked. ERR_NO_MEMORY: there can be no more threads. */
MUST_CHECK enum err_code thread_start(pthread_t *out, void *(*run)(void *arg), void *arg,
                                      struct err *err);

/* A condition whose timed waits end at a thread_deadline(). */
void thread_cond_init(pthread_cond_t *cond);
struct timespec thread_deadline(int timeout_ms);

#endif
