/* Real processes: started, ended. */
#include "cli/child.h"

#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "scratch.h"

#include "process.h"

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

static void child_dies_with_the_process_that_started_it(void **state)
{
    static const char *const busy[] = {"/bin/sh", "-c", "while :; do :; done", NULL};
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
    process_await(orphan, "?Z"); /* gone, or waiting for an init process that does not care */
    (void)close(ends[0]);
    (void)close(ends[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(child_ends_with_the_exit_code_of_its_program),
        TEST(child_has_its_share_in_its_environment_once),
        TEST(child_stop_ends_those_that_listen_and_kills_those_that_do_not),
        TEST(child_dies_with_the_process_that_started_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
