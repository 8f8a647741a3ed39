#include "base/file.h"

#include <sys/stat.h>

#include "scratch.h"

static char path[64];

static int make_folder(void **state)
{
    int failed = scratch_make(state);

    (void)snprintf(path, sizeof path, "%s/a", scratch);
    return failed;
}

static void file_write_replaces_the_whole_file(void **state)
{
    struct buf b = {.max = 100};

    (void)state;
    assert_int_equal(file_write(path, "a longer text", 13, NULL), ERR_OK);
    assert_int_equal(file_write(path, "short", 5, NULL), ERR_OK);
    assert_int_equal(file_read(path, &b, NULL), ERR_OK);
    assert_string_equal(b.data, "short");
    buf_deinit(&b);
}

static void file_read_appends(void **state)
{
    struct buf b = {.max = 100};

    (void)state;
    assert_int_equal(file_write(path, "b", 1, NULL), ERR_OK);
    assert_int_equal(buf_add(&b, "a", 1, NULL), ERR_OK);
    assert_int_equal(file_read(path, &b, NULL), ERR_OK);
    assert_string_equal(b.data, "ab");
    buf_deinit(&b);
}

static void file_read_takes_a_file_larger_than_one_read(void **state)
{
    static char big[200000];
    struct buf b = {.max = sizeof big};

    (void)state;
    memset(big, 'x', sizeof big);
    assert_int_equal(file_write(path, big, sizeof big, NULL), ERR_OK);
    assert_int_equal(file_read(path, &b, NULL), ERR_OK);
    assert_int_equal(b.len, sizeof big);
    buf_deinit(&b);
}

static void file_read_refuses_a_file_above_the_ceiling(void **state)
{
    struct buf b = {.max = 3};
    struct err err;

    (void)state;
    assert_int_equal(file_write(path, "1234", 4, NULL), ERR_OK);
    assert_int_equal(file_read(path, &b, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(file_read(path, &b, NULL), ERR_LIMIT);
    buf_deinit(&b);
}

static void file_read_names_the_file_that_is_missing(void **state)
{
    struct buf b = {.max = 3};
    struct err err;

    (void)state;
    assert_int_equal(file_read("/nowhere/file", &b, &err), ERR_NOT_FOUND);
    assert_string_equal(err.text, "open /nowhere/file: No such file or directory");
    assert_int_equal(file_read(scratch, &b, &err), ERR_IO); /* a folder */
    buf_deinit(&b);
}

static void file_write_that_fails_leaves_the_old_file_and_no_other(void **state)
{
    char part[80];
    struct buf b = {.max = 100};

    (void)state;
    (void)snprintf(part, sizeof part, "%s.part", path);
    assert_int_equal(file_write(path, "old", 3, NULL), ERR_OK);
    assert_int_equal(mkdir(part, 0700), 0); /* in the way of the new one */
    assert_int_not_equal(file_write(path, "new", 3, NULL), ERR_OK);
    assert_int_equal(rmdir(part), 0);
    assert_int_equal(file_read(path, &b, NULL), ERR_OK);
    assert_string_equal(b.data, "old");
    assert_int_equal(file_write("/nowhere/file", "x", 1, NULL), ERR_NOT_FOUND);
    buf_deinit(&b);
}

static void folder_remove_takes_plain_files_only(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(folder_make(scratch_path("full"), NULL), ERR_OK);
    assert_int_equal(folder_make(scratch_path("full/inner"), NULL), ERR_OK);
    scratch_text("full/file", "x");
    assert_int_equal(folder_remove(scratch_path("full"), &err), ERR_IO);
    assert_non_null(strstr(err.text, "/full: "));
    assert_int_not_equal(access(scratch_path("full/file"), F_OK), 0);
    assert_int_equal(folder_remove(scratch_path("full/inner"), NULL), ERR_OK);
    assert_int_equal(folder_remove(scratch_path("full"), NULL), ERR_OK);
    assert_int_equal(folder_remove(scratch_path("full"), NULL), ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_write_replaces_the_whole_file),
        cmocka_unit_test(file_read_appends),
        cmocka_unit_test(file_read_takes_a_file_larger_than_one_read),
        cmocka_unit_test(file_read_refuses_a_file_above_the_ceiling),
        cmocka_unit_test(file_read_names_the_file_that_is_missing),
        cmocka_unit_test(file_write_that_fails_leaves_the_old_file_and_no_other),
        cmocka_unit_test(folder_remove_takes_plain_files_only),
    };
    return cmocka_run_group_tests(tests, make_folder, scratch_remove);
}
