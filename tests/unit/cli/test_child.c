/* Real processes: started, held back, ended. */
#include "cli/child.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"

#define PATIENCE_MS 10000

static struct throttle *throttle;
static char path[] = "/tmp/test_child-XXXXXX";

static int make(void **state)
{
    int fd;

    (void)state;
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    fd = mkstemp(path);
    if (fd < 0 || throttle_new(&throttle, NULL) != ERR_OK)
        return -1;
    return close(fd);
}

static int clean(void **state)
{
    (void)state;
    throttle_free(throttle);
    return unlink(path);
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

    while (!child_poll(c, throttle) && clock_now_ms() < until)
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

static void child_is_told_its_share_once(void **state)
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
                                       "trap '' TERM; echo ready; while :; do sleep 1; done", NULL};
    struct child c[3] = {start(meek, 1000), start(deaf, 1000), {.pid = 0}};
    int64_t from;

    (void)state;
    wait_for_text("ready");
    from = clock_now_ms();
    child_stop(c, 3, throttle);
    assert_int_equal(c[0].exit_code, 128 + SIGTERM);
    assert_int_equal(c[1].exit_code, 128 + SIGKILL);
    assert_false(c[2].has_ended);
    assert_in_range(clock_now_ms() - from, CHILD_STOP_MS - 100, CHILD_STOP_MS + PATIENCE_MS);
}

/* A program that only computes. */
static const char *const busy[] = {"/bin/sh", "-c", "while :; do :; done", NULL};

static int64_t cpu_ms(pid_t pid)
{
    struct timespec t;
    clockid_t clock;

    assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &t), 0);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Of the CPU time that both children had in two seconds, is each one's share right by a factor of
 * two? On a busy machine they get less, and the throttle, which stops them from outside, is late.
 */
static bool are_shares_right(const struct child c[2])
{
    int64_t from = clock_now_ms();
    int64_t used[2] = {cpu_ms(c[0].pid), cpu_ms(c[1].pid)};
    int64_t wall;

    pause_ms(2000);
    wall = clock_now_ms() - from;
    for (int i = 0; i < 2; i++)
        used[i] = cpu_ms(c[i].pid) - used[i];
    return used[0] >= wall / 40 && used[0] <= wall / 5 && used[1] >= wall / 10 &&
           used[1] <= wall * 4 / 5 && used[1] > used[0];
}

static void throttle_holds_children_to_their_share(void **state)
{
    struct child c[2] = {start(busy, 100), start(busy, 400)};
    bool is_right = false;

    (void)state;
    pause_ms(300);
    for (int i = 0; i < 3 && !is_right; i++)
        is_right = are_shares_right(c);
    child_stop(c, 2, throttle);
    assert_true(is_right);
}

static void throttle_leaves_nobody_stopped(void **state)
{
    struct child c = start(busy, 20);
    char state_letter = '?';
    char stat_path[64];
    FILE *f;

    (void)state;
    pause_ms(200); /* by now it has used up its share many times over */
    throttle_remove(throttle, c.pid);
    (void)snprintf(stat_path, sizeof stat_path, "/proc/%d/stat", (int)c.pid);
    pause_ms(20);
    f = fopen(stat_path, "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state_letter), 1);
    (void)fclose(f);
    assert_int_equal(state_letter, 'R');
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    wait_for(&c);
    assert_int_equal(c.exit_code, 128 + SIGKILL);
}

static void child_dies_with_the_process_that_started_it(void **state)
{
    int ends[2];
    pid_t parent;
    pid_t orphan = 0;
    int64_t until;

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
    until = clock_now_ms() + PATIENCE_MS;
    /* Gone, or dead and waiting for an init process that does not care. */
    for (char letter = '?'; letter != 'Z'; pause_ms(10)) {
        char stat_path[64];
        FILE *f;

        (void)snprintf(stat_path, sizeof stat_path, "/proc/%d/stat", (int)orphan);
        f = fopen(stat_path, "re");
        if (!f)
            break;
        if (fscanf(f, "%*d (%*[^)]) %c", &letter) != 1)
            letter = '?';
        (void)fclose(f);
        assert_true(clock_now_ms() < until);
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(child_ends_with_the_exit_code_of_its_program),
        TEST(child_is_told_its_share_once),
        TEST(child_stop_ends_those_that_listen_and_kills_those_that_do_not),
        TEST(throttle_holds_children_to_their_share),
        TEST(throttle_leaves_nobody_stopped),
        TEST(child_dies_with_the_process_that_started_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
