/* What API objects mean for us. */
#include "run/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"

#define CLAIM(mode, phase)                                                                         \
    "{\"spec\":{\"accessModes\":[\"ReadWriteOnce\"," mode "]},\"status\":{\"phase\":\"" phase "\"" \
    "}}"
#define MANY "\"ReadWriteMany\""
#define FREE "{\"spec\":{}}"
#define TIED "{\"spec\":{\"nodeAffinity\":{\"required\":{}}}}"

struct row {
    const char *name, *claim, *volume;
    bool want;
};

static struct row rows[] = {
    {"parse_lets_any_node_read_what_many_may_write", CLAIM(MANY, "Bound"), FREE, true},
    {"parse_lets_any_node_read_what_many_may_read", CLAIM("\"ReadOnlyMany\"", "Bound"), FREE, true},
    {"parse_keeps_a_volume_for_one_node_there", CLAIM("\"ReadWriteOncePod\"", "Bound"), FREE,
     false},
    {"parse_does_not_decide_where_a_claim_is_bound", CLAIM(MANY, "Pending"), FREE, false},
    {"parse_keeps_a_volume_that_is_tied_to_nodes_there", CLAIM(MANY, "Bound"), TIED, false},
    {"parse_reads_no_claim_without_its_volume", CLAIM(MANY, "Bound"), NULL, false},
    {"parse_reads_no_claim_that_is_not_there", NULL, NULL, false},
    {"parse_reads_no_claim_of_nonsense", "{\"spec\":{\"accessModes\":7},\"status\":[]}", FREE,
     false},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

static struct json *parse(const char *text)
{
    struct json *json = NULL;

    if (text)
        assert_int_equal(json_parse(text, strlen(text), &json, NULL), ERR_OK);
    return json;
}

static void check_row(void **state)
{
    const struct row *row = *state;
    struct json *claim = parse(row->claim);
    struct json *volume = parse(row->volume);

    assert_int_equal(parse_is_everywhere(claim, volume), row->want);
    json_free(claim);
    json_free(volume);
}

/* --- is a pod what we would have made? --- */

#define POD(labels, spec)                                                                          \
    "{\"metadata\":{\"name\":\"a\",\"labels\":{" labels "}},\"spec\":{" spec "}}"
#define MINE "\"r\":\"stage\""
#define BOX(more)                                                                                  \
    "\"containers\":[{\"image\":\"w:1\",\"command\":[\"a\",\"b\"],"                                \
    "\"resources\":{\"limits\":{\"cpu\":\"1000m\"}}" more "}]"

#define TOLERATES "\"tolerations\":[{\"key\":\"a\"}],"

static const char *const made = POD(MINE, TOLERATES BOX(""));

struct pod_row {
    const char *name, *pod;
    bool want;
};

static struct pod_row pod_rows[] = {
    {"parse_takes_a_pod_for_ours_that_is_just_as_we_make_it", POD(MINE, TOLERATES BOX("")), true},
    {"parse_does_not_mind_what_the_api_server_fills_in",
     "{\"metadata\":{\"name\":\"a\",\"uid\":\"7\",\"labels\":{" MINE
     ",\"x\":\"y\"}},\"spec\":{" TOLERATES
     "\"priority\":0,\"dnsPolicy\":\"ClusterFirst\",\"nodeName\":\"n\",\"containers\":[{\"image\":"
     "\"w:1\",\"command\":[\"a\",\"b\"],\"resources\":{\"limits\":{\"cpu\":\"1\"}}}]}}",
     true},
    {"parse_sees_another_image",
     POD(MINE, TOLERATES "\"containers\":[{\"image\":\"w:2\",\"command\":[\"a\",\"b\"],"
                         "\"resources\":{\"limits\":{\"cpu\":\"1\"}}}]"),
     false},
    {"parse_sees_arguments_that_we_do_not_give", POD(MINE, TOLERATES BOX(",\"args\":[\"c\"]")),
     false},
    {"parse_sees_another_command",
     POD(MINE, TOLERATES "\"containers\":[{\"image\":\"w:1\",\"command\":[\"a\"],"
                         "\"resources\":{\"limits\":{\"cpu\":\"1\"}}}]"),
     false},
    {"parse_sees_a_container_that_is_not_there", POD(MINE, TOLERATES "\"containers\":[]"), false},
    {"parse_sees_an_init_container", POD(MINE, TOLERATES BOX("") ",\"initContainers\":[{}]"),
     false},
    {"parse_sees_a_taint_that_is_not_tolerated", POD(MINE, BOX("")), false},
    {"parse_sees_a_node_that_is_not_selected",
     POD(MINE, TOLERATES BOX("") ",\"nodeSelector\":{\"a\":\"b\"}"), false},
    {"parse_sees_another_label", POD("\"r\":\"probe\"", TOLERATES BOX("")), false},
    {"parse_sees_a_spec_of_nonsense",
     "{\"metadata\":{\"name\":\"a\",\"labels\":{" MINE "}},\"spec\":7}", false},
    {"parse_sees_that_there_is_no_pod", "{}", false},
};
#define N_POD_ROWS (sizeof pod_rows / sizeof pod_rows[0])

static void check_pod_row(void **state)
{
    const struct pod_row *row = *state;
    struct json *object = parse(row->pod);
    struct json *body = parse(made);

    assert_int_equal(parse_is_as_made(object, body), row->want);
    json_free(object);
    json_free(body);
}

#define SECURE(pod, more)                                                                          \
    POD(MINE, "\"securityContext\":{\"runAsNonRoot\":true" pod                                     \
              "}," BOX(",\"securityContext\":{\"readOnlyRootFilesystem\":true" more "}"))

/* As OpenShift does. */
static void parse_takes_a_user_from_the_platform_only_if_we_give_none(void **state)
{
    static const char of_pod[] =
        SECURE(",\"fsGroup\":7,\"seLinuxOptions\":{\"level\":\"s0\"}", ",\"runAsUser\":7");
    static const struct {
        const char *made, *pod;
        bool want;
    } cases[] = {
        {SECURE("", ""), of_pod, true},
        {SECURE("", ""), SECURE("", ",\"privileged\":true"), false},
        {SECURE("", ""), SECURE("", ",\"runAsNonRoot\":false"), false},
        {SECURE(",\"runAsUser\":5", ""), of_pod, false},
        {SECURE(",\"runAsUser\":5", ""), SECURE(",\"runAsUser\":5", ",\"runAsUser\":7"), false},
        {SECURE(",\"runAsUser\":5", ""), SECURE(",\"runAsUser\":5", ""), true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json *body = parse(cases[i].made);
        struct json *object = parse(cases[i].pod);

        assert_int_equal(parse_is_as_made(object, body), cases[i].want);
        json_free(object);
        json_free(body);
    }
}

static struct json *parse_file(const char *path)
{
    struct buf text = {.max = 65536};
    struct json *json = NULL;
    struct err err;

    if (file_read(path, &text, &err) != ERR_OK ||
        json_parse(buf_text(&text), text.len, &json, &err) != ERR_OK)
        fail_msg("%s: %s", path, err.text);
    buf_deinit(&text);
    return json;
}

/* stored/ has what a real API server made of the golden pods, with all of its defaults. */
static void parse_knows_its_pods_as_an_api_server_stores_them(void **state)
{
    static const char *const names[][2] = {
        {"tests/golden/manifest/stage-0-with-claims.json",
         "tests/golden/manifest/stored/stage-0-with-claims.json"},
        {"tests/golden/manifest/probe-of-claims.json",
         "tests/golden/manifest/stored/probe-of-claims.json"}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct json *body = parse_file(names[i][0]);
        struct json *stored = parse_file(names[i][1]);
        struct json *other = parse_file(names[1 - i][1]);

        assert_true(parse_is_as_made(stored, body));
        assert_false(parse_is_as_made(other, body));
        json_free(body);
        json_free(stored);
        json_free(other);
    }
}

static void parse_finds_the_certificates_that_a_pod_has(void **state)
{
    static const struct {
        const char *golden;
        bool has_any;
    } pods[] = {{"tests/golden/manifest/stage-0-with-metrics.json", true},
                {"tests/golden/manifest/stage-0-of-sample.json", false}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct json *object = parse_file(pods[i].golden);
        struct store_pod pod = {.node = NULL};

        assert_int_equal(parse_pod(object, &pod, NULL), ERR_OK);
        assert_non_null(pod.own);
        assert_int_equal(pod.own->seen.has_tls, pods[i].has_any);
        assert_int_equal(pod.own->seen.has_metrics, pods[i].has_any);
        free(pod.own);
        json_free(object);
    }
}

int main(void)
{
    struct CMUnitTest tests[N_ROWS + N_POD_ROWS + 3];

    for (size_t i = 0; i < N_ROWS; i++)
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name, .test_func = check_row, .initial_state = &rows[i]};
    for (size_t i = 0; i < N_POD_ROWS; i++)
        tests[N_ROWS + i] = (struct CMUnitTest){
            .name = pod_rows[i].name, .test_func = check_pod_row, .initial_state = &pod_rows[i]};
    tests[N_ROWS + N_POD_ROWS] =
        (struct CMUnitTest)cmocka_unit_test(parse_knows_its_pods_as_an_api_server_stores_them);
    tests[N_ROWS + N_POD_ROWS + 1] = (struct CMUnitTest)cmocka_unit_test(
        parse_takes_a_user_from_the_platform_only_if_we_give_none);
    tests[N_ROWS + N_POD_ROWS + 2] =
        (struct CMUnitTest)cmocka_unit_test(parse_finds_the_certificates_that_a_pod_has);
    return _cmocka_run_group_tests("parse", tests, N_ROWS + N_POD_ROWS + 3, NULL, NULL);
}
