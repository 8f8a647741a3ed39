#include "base/log.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"

static char captured[20000];

/* Point stderr to a pipe, log, and read what came out. */
static size_t capture(void (*act)(void))
{
    int ends[2];
    int saved = dup(STDERR_FILENO);
    ssize_t n;

    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    act();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    close(ends[1]);
    n = read(ends[0], captured, sizeof captured - 1);
    close(ends[0]);
    assert_true(n >= 0);
    captured[n] = '\0';
    return (size_t)n;
}

static struct json *captured_line(void)
{
    struct json *line = NULL;
    struct err err = {0};

    assert_int_equal(captured[strlen(captured) - 1], '\n');
    if (json_parse(captured, strlen(captured), &line, &err) != ERR_OK)
        fail_msg("%s: %s", err.text, captured);
    return line;
}

static void log_fields(void)
{
    LOG(LOG_WARN, "it \"happened\"", LOG_S("job", "a/b\n"), LOG_I("stage", 3), LOG_F("loss", 0.25),
        LOG_F("bad", (double)NAN), LOG_S("none", NULL));
}

static void log_line_is_one_json_object_with_its_fields(void **state)
{
    struct json *line;

    (void)state;
    capture(log_fields);
    assert_ptr_equal(strchr(captured, '\n'), captured + strlen(captured) - 1);
    line = captured_line();
    assert_string_equal(json_text(line, "level"), "warn");
    assert_string_equal(json_text(line, "msg"), "it \"happened\"");
    assert_string_equal(json_text(line, "job"), "a/b\n");
    assert_int_equal(json_i64(json_get(line, "stage"), 0), 3);
    assert_true(json_double(json_get(line, "loss"), 0) == 0.25);
    assert_string_equal(json_text(line, "bad"), "nan");
    assert_string_equal(json_string(json_get(line, "none"), "x"), "");
    assert_int_equal(strlen(json_text(line, "time")), 20);
    json_free(line);
}

static void log_bare(void)
{
    LOG(LOG_INFO, "started");
    LOG(LOG_DEBUG, "not shown");
}

static void log_below_the_level_is_not_written(void **state)
{
    struct json *line;

    (void)state;
    capture(log_bare);
    line = captured_line();
    assert_string_equal(json_text(line, "msg"), "started");
    json_free(line);
    log_set_level(LOG_ERROR);
    assert_int_equal(capture(log_bare), 0);
    log_set_level(LOG_INFO);
}

static void log_much(void)
{
    static char much[10000];

    memset(much, 'x', sizeof much - 1);
    LOG(LOG_ERROR, "a lot", LOG_S("text", much));
}

static void log_line_that_is_too_long_keeps_its_message(void **state)
{
    struct json *line;

    (void)state;
    capture(log_much);
    line = captured_line();
    assert_string_equal(json_text(line, "msg"), "a lot");
    assert_null(json_get(line, "text"));
    json_free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_line_is_one_json_object_with_its_fields),
        cmocka_unit_test(log_below_the_level_is_not_written),
        cmocka_unit_test(log_line_that_is_too_long_keeps_its_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
