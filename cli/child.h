/* cli/child.h - the worker processes that the CLI starts, limits and ends.
 *
 * Started by fork and exec, never by a shell, in a process group of their own, so that Ctrl-C
 * reaches them only through us. When this process dies, however it dies, the kernel kills them.
 * Layer: cli. Threads: that which starts them must live as long as they shall.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "base/buf.h"
#include "cli/throttle.h"

#define CHILD_STOP_MS 3000 /* between asking and killing */

struct child {
    pid_t pid; /* 0: not started, or over and waited for */
    bool has_ended;
    int exit_code; /* as a shell counts: 128 + n for signal n */
};

struct child_params {
    const char *const *argv; /* closed by NULL; argv[0] is the path of the program */
    const char *out_path;    /* its stdout; created */
    const char *log_path;    /* its stderr; created; may be the same */
    int cpu_milli;           /* its share, also in its environment as SKYJOB_CPU_MILLI */
};

/* ERR_IO; ERR_LIMIT of the throttle. A program that cannot be run ends with exit code 127. */
MUST_CHECK enum err_code child_start(struct child *c, const struct child_params *params,
                                     struct throttle *t, struct err *err);

/* Has it ended? Sets has_ended and exit_code; waits at most for nothing. */
bool child_poll(struct child *c, struct throttle *t);

/* End all that run: ask, wait CHILD_STOP_MS, kill. Afterwards all have ended. */
void child_stop(struct child *children, int n, struct throttle *t);

#endif
