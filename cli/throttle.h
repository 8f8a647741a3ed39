/* cli/throttle.h - processes held to a share of the CPU.
 *
 * Does from outside, without root or cgroups, what the kernel's CFS quota does: every process has
 * cpu_milli * 100 us of CPU time per period of 100 ms. A thread of its own reads the processes' CPU
 * clocks every 2 ms, stops (SIGSTOP) those that have used up their share and resumes them in the
 * next period. Excess is deducted from later periods, so the mean is exact; unused time is lost, as
 * with the kernel. No process is left stopped.
 * Layer: cli. Threads: any.
 */
#ifndef CLI_THROTTLE_H
#define CLI_THROTTLE_H

#include <sys/types.h>

#include "base/err.h"

#define THROTTLE_MAX       128 /* processes */
#define THROTTLE_PERIOD_MS 100

struct throttle;

MUST_CHECK enum err_code throttle_new(struct throttle **out, struct err *err);
void throttle_free(struct throttle *t);
/* Hold a process to a share from now on. ERR_IO: there is none with this pid; ERR_LIMIT. */
MUST_CHECK enum err_code throttle_add(struct throttle *t, pid_t pid, int cpu_milli,
                                      struct err *err);
/* Let it run without a limit. An unknown one is ignored. */
void throttle_remove(struct throttle *t, pid_t pid);

#endif
