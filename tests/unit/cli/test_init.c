#include "cli/command.h"

#include <getopt.h>

#include "cli/job.h"
#include "scratch.h"

static int init(const char *option, const char *value)
{
    static char name[] = "init";
    char *argv[] = {name, (char *)(uintptr_t)option, (char *)(uintptr_t)value, NULL};

    optind = 0; /* start anew */
    return command_init(3, argv);
}

static void init_writes_a_file_that_plan_and_run_take(void **state)
{
    struct job job;

    (void)state;
    assert_int_equal(init("-o", scratch_path("new.yaml")), EXIT_DONE);
    assert_int_equal(job_load(scratch_path("new.yaml"), NULL, &job, NULL), ERR_OK);
    assert_string_equal(job.name, "mnli");
    assert_string_equal(job.spec.data.sample, "MNLI");
    job_deinit(&job);
}

static void init_leaves_a_file_that_exists_alone(void **state)
{
    struct buf text = {.max = 64};

    (void)state;
    assert_int_equal(init("--file", scratch_text("old.yaml", "mine")), EXIT_CONFIG);
    assert_int_equal(file_read(scratch_path("old.yaml"), &text, NULL), ERR_OK);
    assert_string_equal(buf_text(&text), "mine");
    buf_deinit(&text);
}

static void init_with_a_wrong_option_fails(void **state)
{
    (void)state;
    assert_int_equal(init("--task", "NLI"), EXIT_CONFIG);
    assert_int_equal(init("--replicas=2", "mnli"), EXIT_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_writes_a_file_that_plan_and_run_take),
        cmocka_unit_test(init_leaves_a_file_that_exists_alone),
        cmocka_unit_test(init_with_a_wrong_option_fails),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
