/* cli/throttle.h - hold child processes to a share of the CPU, without root or cgroups.
 *
 * What the kernel's CFS quota does, from outside: every child has cpu_milli * 100 us of CPU time in
 * a period of 100 ms. A thread of its own reads the children's CPU clocks every 2 ms, stops
 * (SIGSTOP) whoever has used up its share and lets it go on in the next period. What was used too
 * much is paid back, so the mean is exact; what was not used is lost, as with the kernel.
 * A child is never left stopped: not by throttle_remove() or throttle_free(), and when this process
 * dies its children get SIGKILL from the kernel (cli/child.h).
 * Layer: cli. Threads: any; a pid must be removed before it is waited for, since its number may be
 * somebody else's afterwards.
 */
#ifndef CLI_THROTTLE_H
#define CLI_THROTTLE_H

#include <sys/types.h>

#include "base/err.h"

#define THROTTLE_CHILDREN_MAX 128
#define THROTTLE_PERIOD_MS    100

struct throttle;

MUST_CHECK enum err_code throttle_new(struct throttle **out, struct err *err);
void throttle_free(struct throttle *t);

/* ERR_LIMIT; ERR_IO when the child's CPU clock cannot be read, as when it has just ended. */
MUST_CHECK enum err_code throttle_add(struct throttle *t, pid_t pid, int cpu_milli,
                                      struct err *err);
/* Let go of a child, and let it run. One that is not known is fine. */
void throttle_remove(struct throttle *t, pid_t pid);

#endif
