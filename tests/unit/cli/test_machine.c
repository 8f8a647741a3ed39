#include "cli/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((int64_t)1 << 20)

static void machine_reads_cpu_and_memory_of_every_worker(void **state)
{
    static struct machine m;

    (void)state;
    assert_int_equal(
        machine_parse("cpu=0.5,cpu=1500m:memory=2Gi,memory=1Gi:cpu=2", 5120 * MIB, &m, NULL),
        ERR_OK);
    assert_int_equal(m.n_workers, 3);
    assert_int_equal(m.workers[0].cpu_milli, 500);
    assert_int_equal(m.workers[1].cpu_milli, 1500);
    assert_int_equal(m.workers[2].cpu_milli, 2000);
    assert_true(m.workers[0].memory_bytes == 2048 * MIB); /* what the others leave */
    assert_true(m.workers[1].memory_bytes == 2048 * MIB);
    assert_true(m.workers[2].memory_bytes == 1024 * MIB);
    assert_string_equal(m.workers[2].name, "worker-2");
}

static void machine_workers_without_memory_share_what_is_free(void **state)
{
    static struct machine m;

    (void)state;
    assert_int_equal(machine_parse("cpu=1,cpu=1", 1000 * MIB, &m, NULL), ERR_OK);
    assert_true(m.workers[0].memory_bytes == 500 * MIB);
    assert_int_equal(machine_parse("cpu=1,cpu=1:memory=2Gi", 1000 * MIB, &m, NULL), ERR_OK);
    assert_true(m.workers[0].memory_bytes == 0);
}

static void machine_refuses_what_it_cannot_read(void **state)
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
    static struct machine m;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = {0};

        assert_int_equal(machine_parse(bad[i], MIB, &m, &err), ERR_INVALID);
        assert_memory_equal(err.text, "--workers: ", 11);
    }
}

static void machine_takes_no_more_workers_than_it_has_room_for(void **state)
{
    static struct machine m;
    char text[7 * (MACHINE_WORKERS_MAX + 1)] = "";

    (void)state;
    for (int i = 0; i < MACHINE_WORKERS_MAX; i++)
        strcat(text, i ? ",cpu=1" : "cpu=1");
    assert_int_equal(machine_parse(text, MIB, &m, NULL), ERR_OK);
    assert_int_equal(m.n_workers, MACHINE_WORKERS_MAX);
    strcat(text, ",cpu=1");
    assert_int_equal(machine_parse(text, MIB, &m, NULL), ERR_INVALID);
}

static void machine_knows_itself(void **state)
{
    (void)state;
    assert_true(machine_cpu_milli() >= 1000);
    assert_true(machine_free_bytes() > MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machine_reads_cpu_and_memory_of_every_worker),
        cmocka_unit_test(machine_workers_without_memory_share_what_is_free),
        cmocka_unit_test(machine_refuses_what_it_cannot_read),
        cmocka_unit_test(machine_takes_no_more_workers_than_it_has_room_for),
        cmocka_unit_test(machine_knows_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
