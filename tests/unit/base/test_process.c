#include "base/process.h"

#include <time.h>
#include <unistd.h>

#include "exposition.h"

static void process_figures_are_those_of_this_one(void **state)
{
    struct process p, more;
    struct buf text = {.max = PROCESS_FAMILIES_BYTES};
    struct err err = {0};
    int fd;

    (void)state;
    if (process_read(&p, &err) != ERR_OK)
        fail_msg("%s", err.text);
    fd = dup(1);
    assert_int_equal(process_read(&more, NULL), ERR_OK);
    (void)close(fd);
    assert_int_equal(more.n_fds, p.n_fds + 1);
    assert_true(more.cpu_seconds >= p.cpu_seconds && p.cpu_seconds > 0);
    assert_true(p.resident_bytes > 100000);
    assert_true(p.start_seconds > (double)time(NULL) - 600 &&
                p.start_seconds < (double)time(NULL) + 2);
    assert_int_equal(process_write(&p, &text, NULL), ERR_OK);
    exposition_check(&text);
    p = (struct process){1e12 / 3, 1e12 / 3, INT64_MAX, 1000000};
    buf_reset(&text);
    assert_int_equal(process_write(&p, &text, NULL), ERR_OK);
    buf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process_figures_are_those_of_this_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
