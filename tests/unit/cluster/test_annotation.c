/* What a Node's labels and annotations mean, and when a measurement is out of date. */
#include "cluster/annotation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "suite.h"

#define NOW_MS INT64_C(1795000000000)
#define NFD    "\"feature.node.kubernetes.io/"

static void read_text(const char *text, struct annotations *out)
{
    struct json *json = NULL;
    struct err err = {0};

    if (json_parse(text, strlen(text), &json, &err) != ERR_OK)
        fail_msg("%s", err.text);
    memset(out, 0x5a, sizeof *out);
    annotations_read(json, out);
    json_free(json);
}

static void read_labels(const char *labels, struct annotations *out)
{
    char text[2048];

    (void)snprintf(text, sizeof text, "{\"metadata\":{\"labels\":{%s}}}", labels);
    read_text(text, out);
}

static void annotation_reads_what_was_declared(void **state)
{
    struct annotations m;

    (void)state;
    read_labels("\"skyjob.dev/gflops\":\"85.5\",\"skyjob.dev/unit-ms\":\"2e-1\","
                "\"skyjob.dev/link-mbit\":\"1000\","
                "\"skyjob.dev/link-latency-ms\":\"0\"",
                &m);
    assert_true(m.gflops == 85.5);
    assert_true(m.unit_ms == 0.2);
    assert_true(m.link_bytes_per_s == 125e6);
    assert_true(m.has_latency && m.link_latency_ms == 0);
    assert_string_equal(m.bad, "");
    assert_false(m.has_probe);
}

static void annotation_reads_an_annotation_where_there_is_no_label(void **state)
{
    struct annotations m;

    (void)state;
    read_text("{\"metadata\":{\"labels\":{\"skyjob.dev/gflops\":\"1\"},\"annotations\":{"
              "\"skyjob.dev/gflops\":\"2\",\"skyjob.dev/unit-ms\":\"3\"}}}",
              &m);
    assert_true(m.gflops == 1);
    assert_true(m.unit_ms == 3);
}

static void annotation_of_an_empty_node_says_nothing(void **state)
{
    static const char *const nodes[] = {"{}", "[]", "null", "{\"metadata\":{}}",
                                        "{\"metadata\":{\"labels\":7,\"annotations\":[]}}"};

    (void)state;
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        struct annotations m;

        read_text(nodes[i], &m);
        assert_true(m.gflops == 0 && !m.has_probe && !m.has_latency);
        assert_int_equal(m.has_bf16, NODE_UNKNOWN);
        assert_string_equal(m.bad, "");
    }
}

struct bad {
    const char *name;
    const char *label;
    const char *says;
};

static struct bad bad[] = {
    {"annotation_refuses_inf", "\"skyjob.dev/gflops\":\"inf\"",
     "skyjob.dev/gflops: \"inf\" is not a number in 0..1e+09"},
    {"annotation_refuses_nan", "\"skyjob.dev/gflops\":\"nan\"", "\"nan\" is not"},
    {"annotation_refuses_a_huge_number", "\"skyjob.dev/gflops\":\"1e300\"", "\"1e300\" is not"},
    {"annotation_refuses_more_than_a_double", "\"skyjob.dev/gflops\":\"1e999\"",
     "\"1e999\" is not"},
    {"annotation_refuses_a_negative_number", "\"skyjob.dev/gflops\":\"-3\"", "\"-3\" is not"},
    {"annotation_refuses_a_unit", "\"skyjob.dev/gflops\":\"12 GFLOPS\"", "\"12 GFLOPS\" is not"},
    {"annotation_refuses_an_empty_text", "\"skyjob.dev/gflops\":\"\"", "\"\" is not"},
    {"annotation_refuses_zero", "\"skyjob.dev/gflops\":\"0\"",
     "skyjob.dev/gflops: must be above 0"},
    {"annotation_refuses_hexadecimals", "\"skyjob.dev/gflops\":\"0x1\"", "\"0x1\" is not"},
    {"annotation_refuses_two_points", "\"skyjob.dev/gflops\":\"1.2.3\"", "\"1.2.3\" is not"},
    {"annotation_refuses_what_is_no_text", "\"skyjob.dev/gflops\":12", "\"\" is not"},
    {"annotation_refuses_a_wrong_fixed_cost", "\"skyjob.dev/unit-ms\":\"0.2ms\"",
     "skyjob.dev/unit-ms: \"0.2ms\""},
    {"annotation_refuses_a_wrong_link", "\"skyjob.dev/link-mbit\":\"1G\"", "skyjob.dev/link-mbit"},
    {"annotation_refuses_a_wrong_latency", "\"skyjob.dev/link-latency-ms\":\"-1\"",
     "latency-ms: \"-1\""},
};

static void check_bad(void **state)
{
    const struct bad *row = *state;
    struct annotations m;

    read_labels(row->label, &m);
    if (!strstr(m.bad, row->says))
        fail_msg("says \"%s\"", m.bad);
    assert_true(m.gflops == 0 && m.unit_ms == 0 && m.link_bytes_per_s == 0 && !m.has_latency);
}

static void annotation_reads_what_nfd_knows(void **state)
{
    struct annotations m;

    (void)state;
    read_labels(NFD "cpu-model.vendor_id\":\"Intel\"," NFD "cpu-model.family\":\"6\"," NFD
                    "cpu-model.id\":\"143\"," NFD "cpu-cpuid.AVX512BF16\":\"true\"",
                &m);
    assert_string_equal(m.cpu, "Intel-6-143");
    assert_int_equal(m.has_bf16, NODE_YES);
    read_labels(NFD "cpu-cpuid.AMXBF16\":\"true\"", &m);
    assert_int_equal(m.has_bf16, NODE_YES);
    read_labels(NFD "cpu-cpuid.AVX2\":\"true\"", &m);
    assert_int_equal(m.has_bf16, NODE_NO);
    read_labels(NFD "cpu-model.vendor_id\":\"AMD\"", &m); /* flags are not labelled there */
    assert_int_equal(m.has_bf16, NODE_UNKNOWN);
}

static struct annotation_probe sample(void)
{
    struct annotation_probe p = {.found = {.gflops = 10,
                                           .unit_ms = 0.5,
                                           .threads = 1,
                                           .has_bf16 = NODE_YES,
                                           .lengths = {.mean = 30, .mean_square = 1000},
                                           .n_links = 1,
                                           .links = {{"other", 1e8, 0.2}}},
                                 .cpu_milli = 500,
                                 .subject = {.cpu_milli = 2000, .memory_bytes = (int64_t)4 << 30},
                                 .time_ms = NOW_MS};

    (void)snprintf(p.subject.cpu, sizeof p.subject.cpu, "Intel-6-143");
    (void)snprintf(p.subject.image, sizeof p.subject.image, "worker:1");
    (void)snprintf(p.subject.digest, sizeof p.subject.digest, "sha256:12");
    (void)snprintf(p.subject.work, sizeof p.subject.work, "0123456789abcdef");
    return p;
}

static void read_annotation(const char *text, struct annotations *out)
{
    struct buf node = {.max = 100000};
    struct jsonw w;

    jsonw_init(&w, &node);
    jsonw_open_object(&w, NULL);
    jsonw_open_object(&w, "metadata");
    jsonw_open_object(&w, "annotations");
    jsonw_string(&w, "skyjob.dev/probe", text);
    for (int i = 0; i < 3; i++)
        jsonw_close(&w);
    assert_int_equal(jsonw_finish(&w, NULL), ERR_OK);
    read_text(buf_text(&node), out);
    buf_deinit(&node);
}

/* As long as there is a measurement; the time is for people. */
static void annotation_reads_that_training_contradicts_it(void **state)
{
    struct annotation_probe p = sample();
    struct buf text = {.max = ANNOTATION_TEXT_MAX_BYTES};
    struct buf node = {.max = 100000};
    struct jsonw w;
    struct annotations m;

    (void)state;
    assert_int_equal(annotation_probe_write(&p, &text, NULL), ERR_OK);
    jsonw_init(&w, &node);
    jsonw_open_object(&w, NULL);
    jsonw_open_object(&w, "metadata");
    jsonw_open_object(&w, "annotations");
    jsonw_string(&w, "skyjob.dev/probe", buf_text(&text));
    jsonw_string(&w, "skyjob.dev/probe-contradicted", "2026-11-22T08:00:00Z");
    for (int i = 0; i < 3; i++)
        jsonw_close(&w);
    assert_int_equal(jsonw_finish(&w, NULL), ERR_OK);
    read_text(buf_text(&node), &m);
    assert_true(m.has_probe && m.probe.is_contradicted);
    buf_deinit(&node);
    buf_deinit(&text);
}

static void annotation_reads_back_what_was_measured(void **state)
{
    struct annotation_probe p = sample();
    struct buf text = {.max = ANNOTATION_TEXT_MAX_BYTES};
    struct annotations m;

    (void)state;
    assert_int_equal(annotation_probe_write(&p, &text, NULL), ERR_OK);
    read_annotation(buf_text(&text), &m);
    assert_true(m.has_probe);
    assert_true(m.gflops == 0);
    assert_true(annotation_gflops(&m.probe) == 40);
    assert_true(m.probe.time_ms == NOW_MS);
    assert_true(m.probe.found.lengths.mean == 30);
    assert_string_equal(m.probe.found.links[0].node, "other");
    assert_int_equal(m.probe.found.has_bf16, NODE_YES);
    assert_memory_equal(&m.probe.subject, &p.subject, sizeof p.subject);
    assert_null(annotation_stale(&m.probe, &p.subject, NOW_MS));
    buf_deinit(&text);
}

/* Whatever the texts are: an annotation that is refused would be measured again for ever. */
static void annotation_writes_texts_of_any_length(void **state)
{
    struct annotation_probe p = sample();
    struct buf text = {.max = ANNOTATION_TEXT_MAX_BYTES};
    struct annotations m;

    (void)state;
    memset(p.subject.image, '"', sizeof p.subject.image - 1);
    memset(p.subject.cpu, '\n', sizeof p.subject.cpu - 1);
    memset(p.found.cpu_model, '\\', sizeof p.found.cpu_model - 1);
    p.found.n_links = NODE_LINKS_MAX;
    for (int i = 0; i < NODE_LINKS_MAX; i++) {
        memset(p.found.links[i].node, 'n', NODE_NAME_BYTES - 1);
        p.found.links[i].bytes_per_s = 1e9 / 7;
    }
    assert_int_equal(annotation_probe_write(&p, &text, NULL), ERR_OK);
    read_annotation(buf_text(&text), &m);
    assert_true(m.has_probe);
    assert_int_equal(m.probe.found.n_links, NODE_LINKS_MAX);
    buf_deinit(&text);
}

static void annotation_passes_over_an_annotation_that_makes_no_sense(void **state)
{
    static const char found[] = "{\"gflops\":1,\"unitMs\":0,\"threads\":1}";
    char no_time[200];
    char no_cpu[200];
    char no_memory[200];
    char too_fast[200];
    const char *const texts[] = {"",      "{",    "[]",      "{}",    "{\"found\":{}}",
                                 no_time, no_cpu, no_memory, too_fast};

    (void)state;
    (void)snprintf(no_time, sizeof no_time, "{\"found\":%s,\"cpuMilli\":1}", found);
    (void)snprintf(no_cpu, sizeof no_cpu,
                   "{\"found\":%s,\"time\":\"2026-11-21T08:00:00Z\",\"cpuMilli\":1,"
                   "\"for\":{\"cpuMilli\":-4}}",
                   found);
    (void)snprintf(no_memory, sizeof no_memory,
                   "{\"found\":%s,\"time\":\"2026-11-21T08:00:00Z\",\"cpuMilli\":1,"
                   "\"for\":{\"cpuMilli\":1,\"memoryBytes\":-1}}",
                   found);
    (void)snprintf(too_fast, sizeof too_fast,
                   "{\"found\":{\"gflops\":9e8,\"unitMs\":0,\"threads\":1},"
                   "\"time\":\"2026-11-21T08:00:00Z\",\"cpuMilli\":1,"
                   "\"for\":{\"cpuMilli\":9000000000000000}}");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct annotations m;

        read_annotation(texts[i], &m);
        assert_false(m.has_probe);
        assert_non_null(strstr(m.bad, "skyjob.dev/probe: "));
    }
}

static void annotation_is_stale_when_something_is_another(void **state)
{
    struct annotation_probe p = sample();
    struct annotation_subject now;

    (void)state;
    now = p.subject;
    now.cpu_milli++;
    assert_string_equal(annotation_stale(&p, &now, NOW_MS),
                        "measured with other allocatable CPU or memory");
    now = p.subject;
    now.memory_bytes--;
    assert_non_null(annotation_stale(&p, &now, NOW_MS));
    now = p.subject;
    now.image[0] = 'W';
    assert_string_equal(annotation_stale(&p, &now, NOW_MS), "measured with another worker image");
    now = p.subject;
    now.digest[8] = '3';
    assert_string_equal(annotation_stale(&p, &now, NOW_MS), "measured with another worker image");
    now.digest[0] = '\0'; /* not known: no reason to doubt */
    assert_null(annotation_stale(&p, &now, NOW_MS));
    now.cpu[0] = '\0';
    assert_null(annotation_stale(&p, &now, NOW_MS));
    now.cpu[0] = 'A';
    assert_string_equal(annotation_stale(&p, &now, NOW_MS), "measured on another processor");
    now = p.subject;
    now.work[0] = 'f';
    assert_string_equal(annotation_stale(&p, &now, NOW_MS), "measured for other shapes or data");
    p.is_contradicted = true;
    assert_string_equal(annotation_stale(&p, &p.subject, NOW_MS),
                        "contradicted by a training run since then");
    p.is_contradicted = false;
    assert_null(annotation_stale(&p, &p.subject, NOW_MS + ANNOTATION_FRESH_MS));
    assert_string_equal(annotation_stale(&p, &p.subject, NOW_MS + ANNOTATION_FRESH_MS + 1),
                        "measured more than 30 days ago");
    assert_non_null(annotation_stale(&p, &p.subject, NOW_MS - ANNOTATION_FRESH_MS));
}

static void annotation_contradicts_less_cpu_with_more_speed_of_the_same_processor(void **state)
{
    struct annotation_probe half = sample();
    struct annotation_probe whole = sample();

    (void)state;
    (void)snprintf(half.found.cpu_model, NODE_TEXT_BYTES, "EPYC");
    (void)snprintf(whole.found.cpu_model, NODE_TEXT_BYTES, "EPYC");
    half.cpu_milli = 500;
    whole.cpu_milli = 1000;
    whole.found.gflops = 40;
    half.found.gflops = 45; /* noise */
    assert_false(annotation_contradict(&half, &whole));
    half.found.gflops = 47;
    assert_true(annotation_contradict(&half, &whole));
    assert_true(annotation_contradict(&whole, &half));
    whole.subject.work[0] = 'f'; /* at other shapes */
    assert_false(annotation_contradict(&half, &whole));
    whole = half;
    whole.cpu_milli = 1000;
    whole.found.gflops = 40;
    whole.found.cpu_model[0] = 'x';
    assert_false(annotation_contradict(&half, &whole));
}

static void work_of(const char *text, const char *namespace, char out[static ANNOTATION_WORK_BYTES])
{
    struct json *json = NULL;
    struct spec spec;

    assert_int_equal(json_parse(text, strlen(text), &json, NULL), ERR_OK);
    assert_int_equal(spec_parse(json, &spec, NULL), ERR_OK);
    annotation_work(&spec, namespace, out);
    json_free(json);
}

static void annotation_work_tells_apart_what_is_measured(void **state)
{
    static const char *const specs[] = {
        "{\"data\":{\"source\":{\"sample\":\"MNLI\"}}}",
        "{\"data\":{\"source\":{\"configMap\":{\"name\": \"a\"}}}}",
        "{\"data\":{\"source\":{\"configMap\":{\"name\": \"b\"}}}}",
        "{\"data\":{\"source\":{\"persistentVolumeClaim\":{\"claimName\":\"a\"}}}}",
        "{\"data\":{\"task\":\"RTE\",\"source\":{\"configMap\":{\"name\": \"a\"}}}}",
        "{\"data\":{\"source\":{\"configMap\":{\"name\": \"a\"}},\"files\":{\"train\":\"t.tsv\"}}}",
        "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"training\":{\"maxSequenceLength\":64}}",
        "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"training\":{\"precision\":\"Auto\"}}",
        "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"model\":{\"preset\":\"BertTiny\"}}",
    };
    enum { N = sizeof specs / sizeof specs[0] };
    char works[N][ANNOTATION_WORK_BYTES];
    char other[ANNOTATION_WORK_BYTES];

    (void)state;
    for (int i = 0; i < N; i++) {
        work_of(specs[i], "team", works[i]);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(works[i], works[k]);
    }
    work_of(specs[0], "others", other); /* the sample is the same everywhere ... */
    assert_string_equal(other, works[0]);
    work_of(specs[1], "others", other); /* ... a ConfigMap is not */
    assert_string_not_equal(other, works[1]);
    work_of("{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"training\":{\"epochs\":9}}", "team",
            other);
    assert_string_equal(other, works[0]);
}

static void annotation_digest_is_what_follows_the_name(void **state)
{
    char digest[ANNOTATION_DIGEST_BYTES];

    (void)state;
    annotation_digest("registry/skyjob-worker@sha256:12", digest);
    assert_string_equal(digest, "sha256:12");
    annotation_digest("sha256:34", digest);
    assert_string_equal(digest, "sha256:34");
    annotation_digest("docker-pullable://x:1", digest);
    assert_string_equal(digest, "");
    annotation_digest("", digest);
    assert_string_equal(digest, "");
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(annotation_reads_what_was_declared),
        cmocka_unit_test(annotation_reads_an_annotation_where_there_is_no_label),
        cmocka_unit_test(annotation_of_an_empty_node_says_nothing),
        cmocka_unit_test(annotation_reads_what_nfd_knows),
        cmocka_unit_test(annotation_reads_that_training_contradicts_it),
        cmocka_unit_test(annotation_reads_back_what_was_measured),
        cmocka_unit_test(annotation_writes_texts_of_any_length),
        cmocka_unit_test(annotation_passes_over_an_annotation_that_makes_no_sense),
        cmocka_unit_test(annotation_is_stale_when_something_is_another),
        cmocka_unit_test(annotation_contradicts_less_cpu_with_more_speed_of_the_same_processor),
        cmocka_unit_test(annotation_work_tells_apart_what_is_measured),
        cmocka_unit_test(annotation_digest_is_what_follows_the_name),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, others);
    SUITE_ROWS(&suite, bad, check_bad);
    return suite_run(&suite, "annotations", NULL, NULL);
}
