#include "cluster/pod_requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define C(cpu, memory) "{\"resources\": {\"requests\": {\"cpu\": " cpu ", \"memory\": " memory "}}}"

static struct json *pod(const char *text)
{
    struct json *json = NULL;

    assert_int_equal(json_parse(text, strlen(text), &json, NULL), ERR_OK);
    return json;
}

static void pod_requests_are_what_the_scheduler_counts(void **state)
{
    static const struct {
        const char *pod;
        int64_t cpu_milli, memory_bytes;
    } rows[] = {
        {"{}", 0, 0},
        {"{\"spec\": {\"containers\": [{}, " C("\"1\"", "\"1Ki\"") ", " C("\"250m\"",
                                                                          "\"24\"") "]}}",
         1250, 1048},
        {"{\"spec\": {\"initContainers\": [" C("\"3\"", "\"1\"") "], \"containers\": [" C(
             "\"2\"", "\"1Mi\"") "], \"overhead\": {\"cpu\": \"10m\"}}}",
         3010, 1 << 20},
        {"{\"spec\": {\"containers\": [" C("\"fast\"", "7") ", " C("\"-1\"", "null") "]}}", 0, 7},
        {"{\"spec\": 3}", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct json *json = pod(rows[i].pod);

        struct pod_requests requests = pod_requests_read(json);

        assert_int_equal(requests.cpu_milli, rows[i].cpu_milli);
        assert_int_equal(requests.memory_bytes, rows[i].memory_bytes);
        json_free(json);
    }
}

static void pod_has_ended_when_it_succeeded_or_failed(void **state)
{
    struct json *json = pod("[{\"status\": {\"phase\": \"Failed\"}}, {\"status\": {\"phase\": "
                            "\"Running\"}}, {}, {\"status\": {\"phase\": \"Succeeded\"}}]");
    const bool want[] = {true, false, false, true};
    int i = 0;

    (void)state;
    for (const struct json *v = json_first(json); v; v = json_next(v))
        assert_int_equal(pod_has_ended(v), want[i++]);
    assert_int_equal(i, 4);
    json_free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pod_requests_are_what_the_scheduler_counts),
        cmocka_unit_test(pod_has_ended_when_it_succeeded_or_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
