/* What a worker takes for its share of the machine, whatever machine the test runs on. */
#include "train/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "nn/gemm.h"
#include "nn/threads.h"

/* --- a machine that is made up: these take the place of the C library's --- */

static int cores; /* in the affinity mask; 0: the mask does not fit into a cpu_set_t */
static const char *cpu_max;
static const char *cpu_stat, *old_cpu_stat; /* of cgroup v2 and v1 */

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    (void)pid;
    if (cores == 0) {
        errno = EINVAL;
        return -1;
    }
    CPU_ZERO_S(bytes, set);
    for (int i = 0; i < cores; i++)
        CPU_SET_S((size_t)i, bytes, set);
    return 0;
}

int open(const char *path, int flags, ...)
{
    const char *text = strcmp(path, "/sys/fs/cgroup/cpu.max") == 0        ? cpu_max
                       : strcmp(path, "/sys/fs/cgroup/cpu.stat") == 0     ? cpu_stat
                       : strcmp(path, "/sys/fs/cgroup/cpu/cpu.stat") == 0 ? old_cpu_stat
                                                                          : NULL;
    int ends[2];

    if (strncmp(path, "/sys/fs/cgroup/", 15) != 0)
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
    errno = ENOENT;
    if (!text || pipe(ends) != 0)
        return -1;
    assert_int_equal(write(ends[1], text, strlen(text)), strlen(text));
    (void)close(ends[1]);
    return ends[0];
}

struct row {
    const char *name;
    int cores;
    const char *cpu_max;
    const char *told; /* SKYJOB_CPU_MILLI */
    int milli;
    int threads;
};

static struct row rows[] = {
    {"cpu_is_all_cores_without_a_quota", 8, "max 100000\n", NULL, 8000, 8},
    {"cpu_is_the_quota_where_that_is_less", 8, "150000 100000\n", NULL, 1500, 1},
    {"cpu_is_what_the_environment_says_where_that_is_less", 8, NULL, "500", 500, 1},
    {"cpu_of_128_cores_starts_as_many_threads_as_are_useful", 128, NULL, NULL, 128000, 64},
    {"cpu_of_a_quota_of_128_cores_is_no_error_either", 1024, "12800000 100000\n", NULL, 128000, 64},
    {"cpu_of_65_cores_is_no_error_either", 65, NULL, "65000", 65000, 64},
};

static void cpu_is_as_expected(void **state)
{
    const struct row *row = *state;
    bool has_openmp;

    threads_set(2);
    has_openmp = threads_count() == 2;
    cores = row->cores;
    cpu_max = row->cpu_max;
    if (row->told)
        assert_int_equal(setenv("SKYJOB_CPU_MILLI", row->told, 1), 0);
    else
        assert_int_equal(unsetenv("SKYJOB_CPU_MILLI"), 0);
    assert_int_equal(cpu_allowed_milli(), row->milli);
    assert_int_equal(cpu_threads(), row->threads);
    assert_int_equal(gemm_setup(cpu_threads(), NULL), ERR_OK);
    assert_int_equal(threads_count(), has_openmp ? row->threads : 1);
    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
}

/* More than 1,024 CPUs: as many as are online. */
static void cpu_of_a_machine_with_a_longer_mask_is_all_that_is_online(void **state)
{
    (void)state;
    cores = 0;
    cpu_max = NULL;
    assert_int_equal(unsetenv("SKYJOB_CPU_MILLI"), 0);
    assert_int_equal(cpu_allowed_milli(), 1000 * sysconf(_SC_NPROCESSORS_ONLN));
}

static void cpu_is_throttled_for_as_long_as_the_cgroup_says(void **state)
{
    (void)state;
    assert_int_equal(cpu_throttled_ns(), 0);
    cpu_stat = "usage_usec 5\nuser_usec 3\nsystem_usec 2\n"; /* without a quota */
    assert_int_equal(cpu_throttled_ns(), 0);
    cpu_stat = "usage_usec 900\nnr_periods 40\nnr_throttled 7\nthrottled_usec 5000000001\n"
               "nr_bursts 0\nburst_usec 0\n";
    assert_int_equal(cpu_throttled_ns(), 5000000001000);
    cpu_stat = NULL;
    old_cpu_stat = "nr_periods 40\nnr_throttled 7\nthrottled_time 5000000001\n";
    assert_int_equal(cpu_throttled_ns(), 5000000001);
}

#define N_ROWS (sizeof rows / sizeof rows[0])

int main(void)
{
    struct CMUnitTest tests[N_ROWS + 2];

    for (size_t i = 0; i < N_ROWS; i++)
        tests[i] = (struct CMUnitTest){rows[i].name, cpu_is_as_expected, NULL, NULL, &rows[i]};
    tests[N_ROWS] = (struct CMUnitTest)cmocka_unit_test(
        cpu_of_a_machine_with_a_longer_mask_is_all_that_is_online);
    tests[N_ROWS + 1] =
        (struct CMUnitTest)cmocka_unit_test(cpu_is_throttled_for_as_long_as_the_cgroup_says);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
