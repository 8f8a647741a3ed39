/* Real processes: started, held back, ended; and what the throttle allows them in a world whose
 * time is the test's: a process that is not stopped uses all of it. */
#include "cli/child.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "scratch.h"

#define PATIENCE_MS 10000

static struct throttle *throttle;
static char path[64];

static int make(void **state)
{
    if (scratch_make(state) != 0 || throttle_new(&throttle, NULL) != ERR_OK)
        return -1;
    (void)snprintf(path, sizeof path, "%s/output", scratch);
    return 0;
}

static int clean(void **state)
{
    throttle_free(throttle);
    return scratch_remove(state);
}

static struct child start(const char *const *argv, int cpu_milli)
{
    struct child c = {.pid = 0};
    struct child_params params = {
        .argv = argv, .out_path = path, .log_path = path, .cpu_milli = cpu_milli};

    assert_int_equal(child_start(&c, &params, throttle, NULL), ERR_OK);
    assert_true(c.pid > 0);
    return c;
}

static void pause_ms(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    (void)nanosleep(&t, NULL);
}

static void wait_for(struct child *c)
{
    int64_t until = clock_now_ms() + PATIENCE_MS;

    while (child_poll(c, 1, throttle) > 0 && clock_now_ms() < until)
        pause_ms(5);
    assert_true(c->has_ended);
    assert_int_equal(c->pid, 0);
}

static void child_ends_with_the_exit_code_of_its_program(void **state)
{
    static const char *const yes[] = {"/bin/true", NULL};
    static const char *const no[] = {"/bin/false", NULL};
    static const char *const none[] = {"/nowhere/program", NULL};
    struct child c = start(yes, 1000);

    (void)state;
    wait_for(&c);
    assert_int_equal(c.exit_code, 0);
    c = start(no, 1000);
    wait_for(&c);
    assert_int_equal(c.exit_code, 1);
    c = start(none, 1000);
    wait_for(&c);
    assert_int_equal(c.exit_code, 127);
}

static void child_has_its_share_in_its_environment_once(void **state)
{
    static const char *const argv[] = {"/usr/bin/env", NULL};
    struct buf text = {.max = 1 << 20};
    struct child c;
    char *first;

    (void)state;
    assert_int_equal(setenv("SKYJOB_CPU_MILLI", "7", 1), 0);
    c = start(argv, 1500);
    wait_for(&c);
    assert_int_equal(unsetenv("SKYJOB_CPU_MILLI"), 0);
    assert_int_equal(file_read(path, &text, NULL), ERR_OK);
    first = strstr(text.data, "SKYJOB_CPU_MILLI=");
    assert_non_null(first);
    assert_memory_equal(first, "SKYJOB_CPU_MILLI=1500\n", 22);
    assert_null(strstr(first + 1, "SKYJOB_CPU_MILLI="));
    buf_deinit(&text);
}

static void wait_for_text(const char *wanted)
{
    int64_t until = clock_now_ms() + PATIENCE_MS;

    for (bool is_there = false; !is_there; pause_ms(10)) {
        struct buf text = {.max = 1 << 20};

        is_there = file_read(path, &text, NULL) == ERR_OK && strstr(buf_text(&text), wanted);
        buf_deinit(&text);
        assert_true(clock_now_ms() < until);
    }
}

static void child_stop_ends_those_that_listen_and_kills_those_that_do_not(void **state)
{
    static const char *const meek[] = {"/bin/sleep", "1000", NULL};
    static const char *const deaf[] = {"/bin/sh", "-c",
                                       "trap '' INT; echo ready; while :; do sleep 1; done", NULL};
    struct child c[3] = {start(meek, 1000), start(deaf, 1000), {.pid = 0}};
    int64_t from;

    (void)state;
    wait_for_text("ready");
    from = clock_now_ms();
    child_stop(c, 3, throttle);
    assert_int_equal(c[0].exit_code, 128 + SIGINT);
    assert_int_equal(c[1].exit_code, 128 + SIGKILL);
    assert_false(c[2].has_ended);
    assert_in_range(clock_now_ms() - from, CHILD_STOP_MS - 100, CHILD_STOP_MS + PATIENCE_MS);
}

/* A program that only computes. */
static const char *const busy[] = {"/bin/sh", "-c", "while :; do :; done", NULL};

/* --- a world of its own time, for the throttle's thread --- */

enum { VIRTUAL_CHILDREN = 2 };

static struct {
    bool is_on;
    pthread_t tester; /* whose time is real */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t now_ns, until_ns; /* it stands at `until_ns` */
    int64_t late_ns;          /* how much longer a pause takes than it should */
    int n;
    struct virtual_child {
        pid_t pid;
        clockid_t clock;
        bool is_idle, is_stopped;
        int64_t used_ns;
    } children[VIRTUAL_CHILDREN];
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
        if (clock == world.children[i].clock) {
            *out = time_of(world.children[i].used_ns);
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
        if (!world.children[i].is_idle && !world.children[i].is_stopped)
            world.children[i].used_ns += ns;
    (void)pthread_cond_broadcast(&world.changed);
    (void)pthread_mutex_unlock(&world.lock);
    return 0;
}

int __wrap_kill(pid_t pid, int sig)
{
    (void)pthread_mutex_lock(&world.lock);
    for (int i = 0; i < world.n; i++)
        if (world.children[i].pid == pid && (sig == SIGSTOP || sig == SIGCONT))
            world.children[i].is_stopped = sig == SIGSTOP;
    (void)pthread_mutex_unlock(&world.lock);
    return __real_kill(pid, sig);
}

static int world_make(void **state)
{
    world.is_on = true;
    world.tester = pthread_self();
    world.now_ns = world.until_ns = 0;
    world.late_ns = 0;
    return make(state);
}

static int world_clean(void **state)
{
    (void)pthread_mutex_lock(&world.lock);
    world.is_on = false; /* lets the thread go on */
    world.n = 0;
    (void)pthread_cond_broadcast(&world.changed);
    (void)pthread_mutex_unlock(&world.lock);
    return clean(state);
}

/* Its time is the world's: of the process only the pid is used. */
static struct child world_start(int cpu_milli)
{
    static const char *const idle[] = {"/bin/sleep", "1000", NULL};
    struct child c = start(idle, cpu_milli);
    struct virtual_child v = {.pid = c.pid};

    assert_int_equal(clock_getcpuclockid(c.pid, &v.clock), 0);
    (void)pthread_mutex_lock(&world.lock);
    world.children[world.n++] = v;
    (void)pthread_mutex_unlock(&world.lock);
    return c;
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

static int world_used_ms(int child)
{
    return (int)(world.children[child].used_ns / 1000000);
}

/* Of ten seconds, give or take what one period allows and what one late look adds. */
static void check_shares(int late_ms)
{
    struct child c[2] = {world_start(100), world_start(400)};

    world.late_ns = (int64_t)late_ms * 1000000;
    world_pass_ms(10000);
    child_stop(c, 2, throttle);
    assert_in_range(world_used_ms(0), 1000 - late_ms - 10, 1000 + late_ms + 10);
    assert_in_range(world_used_ms(1), 4000 - late_ms - 40, 4000 + late_ms + 40);
}

static void throttle_holds_children_to_their_share(void **state)
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

static void throttle_saves_nothing_up_for_an_idle_child(void **state)
{
    struct child c = world_start(200);

    (void)state;
    world.children[0].is_idle = true;
    world_pass_ms(5000);
    assert_int_equal(world_used_ms(0), 0);
    world.children[0].is_idle = false;
    world_pass_ms(1000);
    child_stop(&c, 1, throttle);
    assert_in_range(world_used_ms(0), 200 - 20, 200 + 20);
}

/* --- real ones again --- */

/* 'R' runs, 'T' is stopped, 'Z' has ended; '?' if there is none. */
static char state_of(pid_t pid)
{
    char letter = '?';
    char stat_path[64];
    FILE *f;

    (void)snprintf(stat_path, sizeof stat_path, "/proc/%d/stat", (int)pid);
    f = fopen(stat_path, "re");
    if (!f)
        return '?';
    if (fscanf(f, "%*d (%*[^)]) %c", &letter) != 1)
        letter = '?';
    (void)fclose(f);
    return letter;
}

/* Until its state is one of these. */
static void wait_for_state(pid_t pid, const char *letters)
{
    int64_t until = clock_now_ms() + PATIENCE_MS;

    while (!strchr(letters, state_of(pid))) {
        assert_true(clock_now_ms() < until);
        pause_ms(1);
    }
}

static void throttle_stops_a_child_and_leaves_none_stopped(void **state)
{
    struct child c = start(busy, 20);

    (void)state;
    wait_for_state(c.pid, "T");
    throttle_remove(throttle, c.pid);
    wait_for_state(c.pid, "R");
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    wait_for(&c);
    assert_int_equal(c.exit_code, 128 + SIGKILL);
}

static void child_dies_with_the_process_that_started_it(void **state)
{
    int ends[2];
    pid_t parent;
    pid_t orphan = 0;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    parent = fork();
    if (parent == 0) {
        /* The lock of the throttle's thread stayed behind in the fork: a new one. */
        struct child c = {.pid = 0};
        struct child_params params = {
            .argv = busy, .out_path = path, .log_path = path, .cpu_milli = 50};
        struct throttle *own = NULL;

        if (throttle_new(&own, NULL) == ERR_OK && child_start(&c, &params, own, NULL) == ERR_OK)
            (void)!write(ends[1], &c.pid, sizeof c.pid);
        pause_ms(300);
        (void)kill(getpid(), SIGKILL);
    }
    assert_int_equal(read(ends[0], &orphan, sizeof orphan), sizeof orphan);
    assert_true(orphan > 0);
    wait_for_state(orphan, "?Z"); /* gone, or waiting for an init process that does not care */
    (void)close(ends[0]);
    (void)close(ends[1]);
}

#define TEST(name)    cmocka_unit_test_setup_teardown(name, make, clean)
#define VIRTUAL(name) cmocka_unit_test_setup_teardown(name, world_make, world_clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(child_ends_with_the_exit_code_of_its_program),
        TEST(child_has_its_share_in_its_environment_once),
        TEST(child_stop_ends_those_that_listen_and_kills_those_that_do_not),
        VIRTUAL(throttle_holds_children_to_their_share),
        VIRTUAL(throttle_deducts_what_was_used_while_it_was_late),
        VIRTUAL(throttle_saves_nothing_up_for_an_idle_child),
        TEST(throttle_stops_a_child_and_leaves_none_stopped),
        TEST(child_dies_with_the_process_that_started_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
