#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

/* Only calls that are safe between fork and exec in a process with threads. */
static _Noreturn void become(const struct child_params *p, const int fds[3], pid_t parent)
{
    sigset_t none;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127); /* it died before prctl() took effect */
    (void)setpgid(0, 0);
    (void)signal(SIGINT, SIG_DFL); /* ignored by what a shell runs in the background */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 0; i < 3; i++)
        if (dup2(fds[i], i) < 0)
            _exit(127);
    (void)close_range(3, ~0u, 0); /* libraries leave sockets open across execv() */
    /* execv() does not change them; its type lacks const for historical reasons. */
    (void)execv(p->argv[0], (char *const *)(uintptr_t)p->argv);
    _exit(127);
}

static enum err_code open_files(const struct child_params *p, int fds[3], struct err *err)
{
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;

    fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fds[0] < 0)
        return file_error(err, "open", "/dev/null");
    fds[1] = open(p->out_path, flags, 0644);
    if (fds[1] < 0)
        return file_error(err, "open", p->out_path);
    fds[2] = open(p->log_path, flags, 0644);
    if (fds[2] < 0)
        return file_error(err, "open", p->log_path);
    return ERR_OK;
}

void child_add_option(const char **argv, const char *option, const char *value)
{
    if (!value)
        return;
    while (*argv)
        argv++;
    argv[0] = option;
    argv[1] = value;
}

enum err_code child_start(struct child *c, const struct child_params *params, struct throttle *t,
                          struct err *err)
{
    char share[16];
    int fds[3] = {-1, -1, -1};
    pid_t parent = getpid();
    pid_t pid = -1;
    enum err_code rc;

    (void)snprintf(share, sizeof share, "%d", params->cpu_milli);
    if (setenv("SKYJOB_CPU_MILLI", share, 1) != 0)
        return err_set(err, ERR_NO_MEMORY, "no memory for the environment of %s", params->argv[0]);
    rc = open_files(params, fds, err);
    if (rc == ERR_OK) {
        pid = fork();
        if (pid == 0)
            become(params, fds, parent);
        if (pid < 0)
            rc = err_set(err, ERR_IO, "start %s: %s", params->argv[0], strerror(errno));
    }
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    if (rc != ERR_OK)
        return rc;
    *c = (struct child){.pid = pid};
    rc = throttle_add(t, pid, params->cpu_milli, err);
    if (rc != ERR_OK)
        child_stop(c, 1, t);
    return rc;
}

int child_poll(struct child *children, int n, struct throttle *t)
{
    int n_running = 0;

    for (struct child *c = children; c < children + n; c++) {
        siginfo_t info = {0};
        int status;

        if (c->pid == 0)
            continue;
        n_running++;
        /* WNOWAIT: until it is waited for, its pid cannot be reused. */
        if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0)
            continue;
        throttle_remove(t, c->pid);
        if (waitpid(c->pid, &status, 0) != c->pid)
            continue;
        n_running--;
        c->pid = 0;
        c->has_ended = true;
        c->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return n_running;
}

static void signal_all(struct child *children, int n, int sig)
{
    for (int i = 0; i < n; i++)
        if (children[i].pid != 0)
            (void)kill(children[i].pid, sig);
}

void child_stop(struct child *children, int n, struct throttle *t)
{
    int64_t until = clock_now_ms() + CHILD_STOP_MS;
    struct timespec pause = {.tv_nsec = 5000000};

    /* Out of the throttle first: a stopped process would not handle the signal. */
    for (int i = 0; i < n; i++)
        if (children[i].pid != 0)
            throttle_remove(t, children[i].pid);
    signal_all(children, n, SIGINT);
    while (child_poll(children, n, t) > 0) {
        if (clock_now_ms() >= until)
            signal_all(children, n, SIGKILL);
        (void)nanosleep(&pause, NULL);
    }
}
