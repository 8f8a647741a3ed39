#include "data/output.h"

#include <sys/stat.h>

#include "scratch.h"

#define UID "8a1f2c3d-0000-4000-8000-000000000001"

static struct output_params params_of(const char *folder)
{
    return (struct output_params){.folder = folder, .uid = UID, .attempt = 3, .bytes = 1000};
}

static bool exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

static void output_makes_a_folder_of_the_attempt(void **state)
{
    char folder[PATH_MAX];
    struct output_params p = params_of(folder);
    struct output o;

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", scratch_path("model"));
    assert_int_equal(output_open(&o, &p, NULL), ERR_OK);
    assert_string_equal(o.folder, folder);
    assert_memory_equal(o.aside, folder, strlen(folder));
    assert_string_equal(o.aside + strlen(o.aside) - 3, "-a3");
    assert_int_equal(rmdir(o.aside), 0); /* it is empty */
    /* Stages come in any order. */
    p.stage = 1;
    assert_int_equal(output_open(&o, &p, NULL), ERR_OK);
    p.stage = 0;
    assert_int_equal(output_open(&o, &p, NULL), ERR_OK);
}

static void output_removes_what_earlier_attempts_of_the_job_left(void **state)
{
    struct output_params p = params_of(scratch);
    struct output earlier, later, other, o;
    char path[2 * PATH_MAX];

    (void)state;
    p.attempt = 2;
    assert_int_equal(output_open(&earlier, &p, NULL), ERR_OK);
    (void)snprintf(path, sizeof path, "%s/model.safetensors.part", earlier.aside);
    assert_int_equal(file_write(path, "half", 4, NULL), ERR_OK);
    p.attempt = 11;
    p.uid = "another job";
    assert_int_equal(output_open(&other, &p, NULL), ERR_OK);
    p.uid = UID;
    p.attempt = 4;
    assert_int_equal(output_open(&later, &p, NULL), ERR_OK);
    p.attempt = 3;
    assert_int_equal(output_open(&o, &p, NULL), ERR_OK);
    assert_false(exists(earlier.aside));
    assert_true(exists(later.aside));
    assert_true(exists(other.aside));
    assert_true(exists(o.aside));
}

static void output_that_cannot_be_written_says_what_to_do(void **state)
{
    char folder[PATH_MAX];
    struct output_params p = params_of(folder);
    struct output o;
    struct err err = {0};

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", scratch_text("file", "not a folder"));
    assert_int_equal(output_open(&o, &p, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "/file cannot be written: create folder"));
    assert_non_null(strstr(err.text, "make it writable for user"));
    (void)snprintf(folder, sizeof folder, "%s", scratch_path("no/parent"));
    assert_int_equal(output_open(&o, &p, &err), ERR_NOT_FOUND);
    (void)snprintf(folder, sizeof folder, "%s", "/proc");
    assert_int_not_equal(output_open(&o, &p, &err), ERR_OK);
}

static void output_without_enough_space_says_how_much_is_missing(void **state)
{
    struct output_params p = params_of(scratch);
    struct output o;
    struct err err = {0};

    (void)state;
    p.bytes = (int64_t)1 << 60;
    assert_int_equal(output_open(&o, &p, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, "MiB are free, 1154487209180 MiB are needed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_makes_a_folder_of_the_attempt),
        cmocka_unit_test(output_removes_what_earlier_attempts_of_the_job_left),
        cmocka_unit_test(output_that_cannot_be_written_says_what_to_do),
        cmocka_unit_test(output_without_enough_space_says_how_much_is_missing),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
