/* cli/child.h - the worker processes that the CLI starts, holds to a share of the CPU, and ends.
 *
 * Started by fork and exec, never by a shell, in a process group of their own, so that Ctrl-C
 * reaches them only through us. When this process dies, however it dies, the kernel kills them.
 *
 * The throttle does from outside, without root or cgroups, what the kernel's CFS quota does: every
 * child has cpu_milli * 100 us of CPU time per period of 100 ms. A thread of its own reads the
 * children's CPU clocks every 2 ms, stops (SIGSTOP) those that have used up their share and resumes
 * them in the next period. Excess is deducted from later periods, so the mean is exact; unused time
 * is lost, as with the kernel. No child is left stopped.
 * Layer: cli. Threads: the one that starts children must outlive them.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <sys/types.h>

#include "base/err.h"

#define CHILD_STOP_MS         3000 /* between SIGINT and SIGKILL */
#define THROTTLE_CHILDREN_MAX 128
#define THROTTLE_PERIOD_MS    100

struct throttle;

MUST_CHECK enum err_code throttle_new(struct throttle **out, struct err *err);
void throttle_free(struct throttle *t);
/* Let a child run without a limit. An unknown one is ignored. */
void throttle_remove(struct throttle *t, pid_t pid);

struct child {
    pid_t pid; /* 0: not started, or over and waited for */
    bool has_ended;
    int exit_code; /* as a shell counts: 128 + n for signal n */
};

struct child_params {
    const char *const *argv; /* closed by NULL; argv[0] is the path of the program */
    const char *out_path;    /* its stdout; created */
    const char *log_path;    /* its stderr; created; may be the same */
    int cpu_milli;           /* its share; also SKYJOB_CPU_MILLI in its environment and in ours */
};

/* Append to `argv`, which has room for two more and ends with NULL; not if `value` is NULL. */
void child_add_option(const char **argv, const char *option, const char *value);

/* ERR_IO, also when it ends at once; ERR_LIMIT with more than THROTTLE_CHILDREN_MAX. A program that
 * cannot be run ends with exit code 127. */
MUST_CHECK enum err_code child_start(struct child *c, const struct child_params *params,
                                     struct throttle *t, struct err *err);

/* Returns how many still run, without waiting; sets has_ended and exit_code of the others. */
int child_poll(struct child *children, int n, struct throttle *t);

/* End all that run: SIGINT, since a worker goes on for a while after SIGTERM, then SIGKILL after
 * CHILD_STOP_MS. Afterwards all have ended. */
void child_stop(struct child *children, int n, struct throttle *t);

#endif
