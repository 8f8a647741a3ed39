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
#include "base/thread.h"

#define LOOK_NS   2000000
#define PERIOD_NS ((int64_t)THROTTLE_PERIOD_MS * 1000000)

/* --- the throttle --- */

struct share {
    pid_t pid;
    clockid_t clock;
    int64_t quota_ns; /* a period */
    int64_t left_ns;  /* of this period; negative: deducted from the next */
    int64_t used_ns;  /* CPU time at the last look */
    bool is_stopped;
};

struct throttle {
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    bool is_ending;
    int n_shares;
    struct share shares[THROTTLE_CHILDREN_MAX];
};

static bool read_cpu_ns(clockid_t clock, int64_t *out)
{
    struct timespec t;

    if (clock_gettime(clock, &t) != 0)
        return false;
    *out = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    return true;
}

static void set_stopped(struct share *w, bool is_stopped)
{
    if (w->is_stopped != is_stopped)
        (void)kill(w->pid, is_stopped ? SIGSTOP : SIGCONT);
    w->is_stopped = is_stopped;
}

static void account(struct share *w, bool is_new_period)
{
    int64_t used;

    if (!read_cpu_ns(w->clock, &used))
        return; /* it has ended; its owner will remove it */
    w->left_ns -= used - w->used_ns;
    w->used_ns = used;
    if (is_new_period) {
        w->left_ns += w->quota_ns;
        if (w->left_ns > w->quota_ns)
            w->left_ns = w->quota_ns;
    }
    set_stopped(w, w->left_ns <= 0);
}

static void *enforce(void *arg)
{
    struct throttle *t = arg;
    int64_t period_end_ns = clock_now_ns() + PERIOD_NS;
    bool is_ending = false;

    while (!is_ending) {
        struct timespec pause = {.tv_nsec = LOOK_NS};
        int64_t now_ns;
        bool is_new_period;

        (void)nanosleep(&pause, NULL);
        now_ns = clock_now_ns();
        is_new_period = now_ns >= period_end_ns;
        if (is_new_period)
            period_end_ns =
                now_ns - period_end_ns < PERIOD_NS ? period_end_ns + PERIOD_NS : now_ns + PERIOD_NS;
        (void)pthread_mutex_lock(&t->lock);
        for (int i = 0; i < t->n_shares; i++)
            account(&t->shares[i], is_new_period);
        is_ending = t->is_ending;
        (void)pthread_mutex_unlock(&t->lock);
    }
    return NULL;
}

enum err_code throttle_new(struct throttle **out, struct err *err)
{
    struct throttle *t = calloc(1, sizeof *t);
    enum err_code rc;

    if (!t)
        return err_set(err, ERR_NO_MEMORY, "no memory to limit the workers' CPU");
    (void)pthread_mutex_init(&t->lock, NULL);
    rc = thread_start(&t->thread, enforce, t, err);
    if (rc != ERR_OK) {
        (void)pthread_mutex_destroy(&t->lock);
        free(t);
        return rc;
    }
    *out = t;
    return ERR_OK;
}

void throttle_free(struct throttle *t)
{
    if (!t)
        return;
    (void)pthread_mutex_lock(&t->lock);
    t->is_ending = true;
    (void)pthread_mutex_unlock(&t->lock);
    (void)pthread_join(t->thread, NULL);
    for (int i = 0; i < t->n_shares; i++)
        set_stopped(&t->shares[i], false);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

static enum err_code throttle_add(struct throttle *t, pid_t pid, int cpu_milli, struct err *err)
{
    struct share w = {.pid = pid, .quota_ns = cpu_milli * (PERIOD_NS / 1000)};
    enum err_code rc = ERR_OK;
    int failed = clock_getcpuclockid(pid, &w.clock);

    if (failed != 0 || !read_cpu_ns(w.clock, &w.used_ns))
        return err_set(err, ERR_IO, "read the CPU clock of process %d: %s", (int)pid,
                       strerror(failed ? failed : errno));
    w.left_ns = w.quota_ns;
    (void)pthread_mutex_lock(&t->lock);
    if (t->n_shares == THROTTLE_CHILDREN_MAX)
        rc = err_set(err, ERR_LIMIT, "more than %d processes", THROTTLE_CHILDREN_MAX);
    else
        t->shares[t->n_shares++] = w;
    (void)pthread_mutex_unlock(&t->lock);
    return rc;
}

void throttle_remove(struct throttle *t, pid_t pid)
{
    (void)pthread_mutex_lock(&t->lock);
    for (int i = 0; i < t->n_shares; i++) {
        if (t->shares[i].pid != pid)
            continue;
        set_stopped(&t->shares[i], false);
        t->shares[i] = t->shares[--t->n_shares];
        break;
    }
    (void)pthread_mutex_unlock(&t->lock);
}

/* --- children --- */

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
