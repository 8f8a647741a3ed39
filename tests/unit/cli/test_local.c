#include "cli/local.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((int64_t)1 << 20)

static void local_workers_have_cpu_and_memory(void **state)
{
    static struct local l;

    (void)state;
    assert_int_equal(
        local_workers("cpu=0.5,cpu=1500m:memory=2Gi,memory=1Gi:cpu=2", 5120 * MIB, &l, NULL),
        ERR_OK);
    assert_int_equal(l.n_workers, 3);
    assert_int_equal(l.workers[0].cpu_milli, 500);
    assert_int_equal(l.workers[1].cpu_milli, 1500);
    assert_int_equal(l.workers[2].cpu_milli, 2000);
    assert_true(l.workers[0].memory_bytes == 2048 * MIB); /* what the others leave */
    assert_true(l.workers[1].memory_bytes == 2048 * MIB);
    assert_true(l.workers[2].memory_bytes == 1024 * MIB);
    assert_string_equal(l.workers[2].name, "worker-2");
}

static void local_workers_without_memory_share_what_is_free(void **state)
{
    static struct local l;

    (void)state;
    assert_int_equal(local_workers("cpu=1,cpu=1", 1000 * MIB, &l, NULL), ERR_OK);
    assert_true(l.workers[0].memory_bytes == 500 * MIB);
    assert_int_equal(local_workers("cpu=1,cpu=1:memory=2Gi", 1000 * MIB, &l, NULL), ERR_OK);
    assert_true(l.workers[0].memory_bytes == 0);
}

static void local_workers_that_cannot_be_read_are_refused(void **state)
{
    static const char *const bad[] = {"",
                                      ",",
                                      "cpu",
                                      "cpu=",
                                      "cpu=1,",
                                      "cpu=1,,cpu=1",
                                      "cpu=x",
                                      "cpu=-1",
                                      "cpu=0",
                                      "cpu=0.001",
                                      "cpu=9999",
                                      "memory=1Gi",
                                      "cpu=1:memory=",
                                      "cpu=1:disk=1",
                                      "1",
                                      "cpu=1cpu=2"};
    static struct local l;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = {0};

        assert_int_equal(local_workers(bad[i], MIB, &l, &err), ERR_INVALID);
        assert_memory_equal(err.text, "--workers: ", 11);
    }
}

static void local_link_is_as_fast_as_messages_are(void **state)
{
    struct node workers[3] = {{.message = {.ms = 0.2, .byte_ns = 1}},
                              {.message = {.ms = 0.1, .byte_ns = 2}},
                              {.message = {.ms = 0}}}; /* not measured */
    struct cost_link fallback = COST_LINK_DEFAULT;
    struct cost_link link = local_link(workers, 3);

    (void)state;
    assert_true(link.bytes_per_s == 1e9);
    assert_true(link.latency_ms == 0.1);
    link = local_link(&workers[2], 1);
    assert_memory_equal(&link, &fallback, sizeof link);
}

static void local_workers_are_bounded(void **state)
{
    static struct local l;
    char text[7 * (LOCAL_WORKERS_MAX + 1)] = "";

    (void)state;
    for (int i = 0; i < LOCAL_WORKERS_MAX; i++)
        strcat(text, i ? ",cpu=1" : "cpu=1");
    assert_int_equal(local_workers(text, MIB, &l, NULL), ERR_OK);
    assert_int_equal(l.n_workers, LOCAL_WORKERS_MAX);
    strcat(text, ",cpu=1");
    assert_int_equal(local_workers(text, MIB, &l, NULL), ERR_INVALID);
}

static void local_memory_is_known(void **state)
{
    (void)state;
    assert_true(local_free_bytes() > MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local_workers_have_cpu_and_memory),
        cmocka_unit_test(local_workers_without_memory_share_what_is_free),
        cmocka_unit_test(local_workers_that_cannot_be_read_are_refused),
        cmocka_unit_test(local_workers_are_bounded),
        cmocka_unit_test(local_link_is_as_fast_as_messages_are),
        cmocka_unit_test(local_memory_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
