/* throttle: cli/throttle.h for shell scripts.
 *
 *     throttle PID CPU_MILLI    until the process ends or this one gets SIGTERM
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/throttle.h"

int main(int argc, char **argv)
{
    pid_t pid = argc == 3 ? (pid_t)atoi(argv[1]) : 0;
    int cpu_milli = argc == 3 ? atoi(argv[2]) : 0;
    const struct timespec look = {.tv_nsec = 50000000};
    struct throttle *t = NULL;
    struct err err;
    sigset_t ends;
    enum err_code rc;

    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL);
    rc = pid > 0 && cpu_milli > 0 ? throttle_new(&t, &err)
                                  : err_set(&err, ERR_INVALID, "usage: throttle PID CPU_MILLI");
    if (rc == ERR_OK)
        rc = throttle_add(t, pid, cpu_milli, &err);
    while (rc == ERR_OK && kill(pid, 0) == 0 && sigtimedwait(&ends, NULL, &look) != SIGTERM)
        continue;
    throttle_free(t);
    if (rc == ERR_OK)
        return 0;
    (void)fprintf(stderr, "throttle: %s\n", err.text);
    return 1;
}
