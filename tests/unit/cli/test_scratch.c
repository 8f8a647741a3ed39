#include "cli/scratch.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

static char place[] = "/tmp/test_scratch-XXXXXX";
static char parent[SCRATCH_PATH_BYTES];

static int make(void **state)
{
    (void)state;
    memcpy(place + sizeof place - 7, "XXXXXX", 6);
    if (!mkdtemp(place))
        return -1;
    (void)snprintf(parent, sizeof parent, "%s/skyjob-%lu", place, (unsigned long)geteuid());
    return setenv("TMPDIR", place, 1);
}

static int clean(void **state)
{
    char command[SCRATCH_PATH_BYTES];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", place);
    return system(command);
}

static int count_runs(void)
{
    DIR *folder = opendir(parent);
    int n = 0;

    assert_non_null(folder);
    for (struct dirent *e = readdir(folder); e; e = readdir(folder))
        n += e->d_name[0] != '.';
    (void)closedir(folder);
    return n;
}

static void start(struct scratch *s)
{
    char file[SCRATCH_PATH_BYTES + 16];

    assert_int_equal(scratch_make(s, NULL), ERR_OK);
    (void)snprintf(file, sizeof file, "%s/stage-0.log", s->path);
    assert_int_equal(file_write(file, "a", 1, NULL), ERR_OK);
}

static void scratch_is_removed_when_it_is_not_kept(void **state)
{
    struct scratch s;

    (void)state;
    start(&s);
    assert_int_equal(count_runs(), 1);
    scratch_end(&s, false);
    assert_int_equal(count_runs(), 0);
}

static void scratch_keeps_a_bounded_number_of_old_ones(void **state)
{
    struct scratch s = {.lock = -1};
    char last[SCRATCH_PATH_BYTES] = "";

    (void)state;
    for (int i = 0; i < 3 * SCRATCH_KEPT_MAX; i++) {
        start(&s);
        memcpy(last, s.path, sizeof last);
        scratch_end(&s, true);
    }
    start(&s);
    assert_int_equal(count_runs(), SCRATCH_KEPT_MAX + 1);
    assert_int_equal(access(last, F_OK), 0);
    scratch_end(&s, false);
}

static void scratch_leaves_alone_what_is_in_use(void **state)
{
    struct scratch running;
    struct scratch s;

    (void)state;
    start(&running);
    for (int i = 0; i < 2 * SCRATCH_KEPT_MAX; i++) {
        start(&s);
        scratch_end(&s, true);
    }
    assert_int_equal(access(running.path, F_OK), 0);
    scratch_end(&running, false);
}

static void scratch_is_for_its_user_only(void **state)
{
    struct scratch s;
    struct stat st;

    (void)state;
    start(&s);
    assert_int_equal(stat(parent, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    scratch_end(&s, false);
}

static void scratch_refuses_a_folder_that_others_can_read(void **state)
{
    struct scratch s;
    struct err err;

    (void)state;
    assert_int_equal(mkdir(parent, 0755), 0);
    assert_int_equal(chmod(parent, 0755), 0);
    assert_int_equal(scratch_make(&s, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "TMPDIR"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(scratch_is_removed_when_it_is_not_kept),
        TEST(scratch_keeps_a_bounded_number_of_old_ones),
        TEST(scratch_leaves_alone_what_is_in_use),
        TEST(scratch_is_for_its_user_only),
        TEST(scratch_refuses_a_folder_that_others_can_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
