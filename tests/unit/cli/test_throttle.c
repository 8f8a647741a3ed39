/* What the throttle allows, in a world whose time is the test's: a process that is not stopped uses
 * all of it. And a real process, stopped and let go. */
#include "cli/throttle.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "process.h"

static struct throttle *throttle;

static pid_t start(void (*work)(void))
{
    pid_t pid = fork();

    if (pid == 0) {
        work();
        _exit(0);
    }
    assert_true(pid > 0);
    return pid;
}

static void end(pid_t pid)
{
    throttle_remove(throttle, pid);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void compute(void)
{
    for (;;)
        (void)getppid();
}

static void idle(void)
{
    for (;;)
        (void)pause();
}

enum { WORLD_PROCESSES = 2 };

static struct {
    bool is_on;
    pthread_t tester; /* whose time is real */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t now_ns, until_ns; /* it stands at `until_ns` */
    int64_t late_ns;          /* how much longer a pause takes than it should */
    int n;
    struct world_process {
        pid_t pid;
        clockid_t clock;
        bool is_idle, is_stopped;
        int64_t used_ns;
    } processes[WORLD_PROCESSES];
} world = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __real_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __real_kill(pid_t pid, int sig);
int __wrap_kill(pid_t pid, int sig);

static bool is_tester(void)
{
    return !world.is_on || pthread_equal(pthread_self(), world.tester);
}

static struct timespec time_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    bool is_virtual = !is_tester() && clock == CLOCK_MONOTONIC;

    (void)pthread_mutex_lock(&world.lock);
    if (is_virtual)
        *out = time_of(world.now_ns);
    for (int i = 0; i < world.n; i++)
        if (clock == world.processes[i].clock) {
            *out = time_of(world.processes[i].used_ns);
            is_virtual = true;
        }
    (void)pthread_mutex_unlock(&world.lock);
    return is_virtual ? 0 : __real_clock_gettime(clock, out);
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    int64_t ns = (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;

    if (is_tester())
        return __real_nanosleep(t, left);
    (void)pthread_mutex_lock(&world.lock);
    while (world.is_on && world.now_ns >= world.until_ns)
        (void)pthread_cond_wait(&world.changed, &world.lock);
    ns += world.late_ns;
    world.now_ns += ns;
    for (int i = 0; i < world.n; i++)
        if (!world.processes[i].is_idle && !world.processes[i].is_stopped)
            world.processes[i].used_ns += ns;
    (void)pthread_cond_broadcast(&world.changed);
    (void)pthread_mutex_unlock(&world.lock);
    return 0;
}

int __wrap_kill(pid_t pid, int sig)
{
    (void)pthread_mutex_lock(&world.lock);
    for (int i = 0; i < world.n; i++)
        if (world.processes[i].pid == pid && (sig == SIGSTOP || sig == SIGCONT))
            world.processes[i].is_stopped = sig == SIGSTOP;
    (void)pthread_mutex_unlock(&world.lock);
    return __real_kill(pid, sig);
}

static int world_make(void **state)
{
    (void)state;
    world.is_on = true;
    world.tester = pthread_self();
    world.now_ns = world.until_ns = 0;
    world.late_ns = 0;
    return throttle_new(&throttle, NULL) == ERR_OK ? 0 : -1;
}

static int world_clean(void **state)
{
    (void)state;
    (void)pthread_mutex_lock(&world.lock);
    world.is_on = false; /* lets the thread go on */
    world.n = 0;
    (void)pthread_cond_broadcast(&world.changed);
    (void)pthread_mutex_unlock(&world.lock);
    throttle_free(throttle);
    return 0;
}

/* Its time is the world's: of the process only the pid is used. */
static pid_t world_start(int cpu_milli)
{
    struct world_process v = {.pid = start(idle)};

    assert_int_equal(clock_getcpuclockid(v.pid, &v.clock), 0);
    (void)pthread_mutex_lock(&world.lock);
    world.processes[world.n++] = v;
    (void)pthread_mutex_unlock(&world.lock);
    assert_int_equal(throttle_add(throttle, v.pid, cpu_milli, NULL), ERR_OK);
    return v.pid;
}

/* Let it pass; afterwards the throttle waits until more does. */
static void world_pass_ms(int ms)
{
    (void)pthread_mutex_lock(&world.lock);
    world.until_ns += (int64_t)ms * 1000000;
    (void)pthread_cond_broadcast(&world.changed);
    while (world.now_ns < world.until_ns)
        (void)pthread_cond_wait(&world.changed, &world.lock);
    (void)pthread_mutex_unlock(&world.lock);
}

static int world_used_ms(int process)
{
    return (int)(world.processes[process].used_ns / 1000000);
}

/* Of ten seconds, give or take what one period allows and what one late look adds. */
static void check_shares(int late_ms)
{
    pid_t slow = world_start(100);
    pid_t quick = world_start(400);

    world.late_ns = (int64_t)late_ms * 1000000;
    world_pass_ms(10000);
    end(slow);
    end(quick);
    assert_in_range(world_used_ms(0), 1000 - late_ms - 10, 1000 + late_ms + 10);
    assert_in_range(world_used_ms(1), 4000 - late_ms - 40, 4000 + late_ms + 40);
}

static void throttle_holds_processes_to_their_share(void **state)
{
    (void)state;
    check_shares(0);
}

/* On a busy machine its own thread has to wait, and a child has used too much before it looks. */
static void throttle_deducts_what_was_used_while_it_was_late(void **state)
{
    (void)state;
    check_shares(30);
}

static void throttle_saves_nothing_up_for_an_idle_process(void **state)
{
    pid_t pid = world_start(200);

    (void)state;
    world.processes[0].is_idle = true;
    world_pass_ms(5000);
    assert_int_equal(world_used_ms(0), 0);
    world.processes[0].is_idle = false;
    world_pass_ms(1000);
    end(pid);
    assert_in_range(world_used_ms(0), 200 - 20, 200 + 20);
}

static void throttle_stops_a_process_and_leaves_none_stopped(void **state)
{
    pid_t pid = start(compute);

    (void)state;
    assert_int_equal(throttle_new(&throttle, NULL), ERR_OK);
    assert_int_equal(throttle_add(throttle, pid, 20, NULL), ERR_OK);
    process_await(pid, "T");
    throttle_free(throttle);
    process_await(pid, "R");
    throttle = NULL;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void throttle_says_that_there_is_no_such_process(void **state)
{
    pid_t pid = start(compute);
    struct err err;

    (void)state;
    assert_int_equal(throttle_new(&throttle, NULL), ERR_OK);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(throttle_add(throttle, pid, 20, &err), ERR_IO);
    assert_non_null(strstr(err.text, "CPU clock of process"));
    throttle_free(throttle);
}

#define VIRTUAL(name) cmocka_unit_test_setup_teardown(name, world_make, world_clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        VIRTUAL(throttle_holds_processes_to_their_share),
        VIRTUAL(throttle_deducts_what_was_used_while_it_was_late),
        VIRTUAL(throttle_saves_nothing_up_for_an_idle_process),
        cmocka_unit_test(throttle_stops_a_process_and_leaves_none_stopped),
        cmocka_unit_test(throttle_says_that_there_is_no_such_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
