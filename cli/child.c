#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

#define ENV_MAX 1024
#define ENV_CPU "SKYJOB_CPU_MILLI="

extern char **environ;

/* The environment with our CPU share in place of any that was there. */
static bool make_environment(const char *share, const char **out, int max)
{
    int n = 0;

    for (char **e = environ; *e; e++) {
        if (strncmp(*e, ENV_CPU, strlen(ENV_CPU)) == 0)
            continue;
        if (n == max - 2)
            return false;
        out[n++] = *e;
    }
    out[n++] = share;
    out[n] = NULL;
    return true;
}

/* Only calls that are safe between fork and exec in a process with threads. */
static _Noreturn void become(const struct child_params *p, const char **env, const int fds[3],
                             pid_t parent)
{
    sigset_t none;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127); /* it died before we could say so */
    (void)setpgid(0, 0);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 0; i < 3; i++)
        if (dup2(fds[i], i) < 0)
            _exit(127);
    /* execve takes both without const for history's sake and changes neither. */
    (void)execve(p->argv[0], (char *const *)(uintptr_t)p->argv, (char *const *)(uintptr_t)env);
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

enum err_code child_start(struct child *c, const struct child_params *params, struct throttle *t,
                          struct err *err)
{
    const char *env[ENV_MAX];
    char share[64];
    int fds[3] = {-1, -1, -1};
    pid_t parent = getpid();
    pid_t pid = -1;
    enum err_code rc;

    (void)snprintf(share, sizeof share, ENV_CPU "%d", params->cpu_milli);
    if (!make_environment(share, env, ENV_MAX))
        return err_set(err, ERR_LIMIT, "more than %d environment variables", ENV_MAX - 2);
    rc = open_files(params, fds, err);
    if (rc == ERR_OK) {
        pid = fork();
        if (pid == 0)
            become(params, env, fds, parent);
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

bool child_poll(struct child *c, struct throttle *t)
{
    siginfo_t info = {0};
    int status;

    if (c->pid == 0)
        return c->has_ended;
    /* Look without waiting for it: until it is waited for, its number cannot be another's. */
    if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return false;
    throttle_remove(t, c->pid);
    if (waitpid(c->pid, &status, 0) != c->pid)
        return false;
    c->pid = 0;
    c->has_ended = true;
    c->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

static void signal_all(struct child *children, int n, int sig)
{
    for (int i = 0; i < n; i++)
        if (children[i].pid != 0)
            (void)kill(children[i].pid, sig);
}

static bool all_ended(struct child *children, int n, struct throttle *t)
{
    bool all = true;

    for (int i = 0; i < n; i++)
        all = (children[i].pid == 0 || child_poll(&children[i], t)) && all;
    return all;
}

void child_stop(struct child *children, int n, struct throttle *t)
{
    int64_t until = clock_now_ms() + CHILD_STOP_MS;
    struct timespec pause = {.tv_nsec = 5000000};

    /* Out of the throttle first: a stopped process would not hear the signal. */
    for (int i = 0; i < n; i++)
        if (children[i].pid != 0)
            throttle_remove(t, children[i].pid);
    signal_all(children, n, SIGTERM);
    while (!all_ended(children, n, t)) {
        if (clock_now_ms() >= until)
            signal_all(children, n, SIGKILL);
        (void)nanosleep(&pause, NULL);
    }
}
