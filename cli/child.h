/* cli/child.h - the worker processes that the CLI starts, holds to a share of the CPU
 * (cli/throttle) and ends.
 *
 * Started by fork and exec, never by a shell, in a process group of their own, so that Ctrl-C
 * reaches them only through us. When this process dies, however it dies, the kernel kills them.
 * Layer: cli. Threads: the one that starts children must outlive them.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <sys/types.h>

#include "base/err.h"
#include "cli/throttle.h"

#define CHILD_STOP_MS 3000 /* between SIGINT and SIGKILL */

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

/* ERR_IO, also when it ends at once; ERR_LIMIT with more than THROTTLE_MAX. A program that
 * cannot be run ends with exit code 127. */
MUST_CHECK enum err_code child_start(struct child *c, const struct child_params *params,
                                     struct throttle *t, struct err *err);

/* Returns how many still run, without waiting; sets has_ended and exit_code of the others. */
int child_poll(struct child *children, int n, struct throttle *t);

/* End all that run: SIGINT, since a worker goes on for a while after SIGTERM, then SIGKILL after
 * CHILD_STOP_MS. Afterwards all have ended. */
void child_stop(struct child *children, int n, struct throttle *t);

#endif
