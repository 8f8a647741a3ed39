#include "api/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/node.h"
#include "api/plan.h"

#define UID "0123abcd-4567-89ab-cdef-0123456789ab"

static void names_are_those_that_the_manual_promises(void **state)
{
    char out[NAMES_BYTES];

    (void)state;
    names_worker_pod("mnli", "0b7d3f52-1", 2, 1, out);
    assert_string_equal(out, "mnli-0b7d3-w2-1");
    names_revision("mnli", "0b7d3f52-1", 4, out);
    assert_string_equal(out, "mnli-0b7d3-r4");
    names_model_pod("mnli", "0b7d3f52-1", out);
    assert_string_equal(out, "mnli-0b7d3-model");
    names_checkpoints("mnli", "0b7d3f52-1", out);
    assert_string_equal(out, "mnli-0b7d3");
    names_child("mnli", NAMES_POLICY, out);
    assert_string_equal(out, "mnli-workers");
    names_child("mnli", NAMES_KEY, out);
    assert_string_equal(out, "mnli-key");
}

static void names_of_children_fit_for_the_longest_job(void **state)
{
    char job[NAMES_JOB_MAX + 1];
    char out[NAMES_BYTES];

    (void)state;
    memset(job, 'j', NAMES_JOB_MAX);
    job[NAMES_JOB_MAX] = '\0';
    names_worker_pod(job, "0b7d3f52", PLAN_SLOT_MAX, PLAN_REVISION_MAX, out);
    assert_string_equal(out + NAMES_JOB_MAX, "-0b7d3-w999-999999999");
    assert_true(spec_is_name(out, 63));
    names_revision(job, "0b7d3f52", PLAN_REVISION_MAX, out);
    assert_string_equal(out + NAMES_JOB_MAX, "-0b7d3-r999999999");
    names_child(job, NAMES_POLICY, out);
    assert_string_equal(out + NAMES_JOB_MAX, "-workers");
    names_probe_pod(job, "0b7d3f52", "node", out);
    assert_int_equal(strlen(out), NAMES_JOB_MAX + 6 + 7 + 8);
    assert_true(spec_is_name(out, 63));
}

static void names_of_probes_differ_by_node(void **state)
{
    char a[NAMES_BYTES];
    char b[NAMES_BYTES];

    (void)state;
    names_probe_pod("mnli", "0b7d3f52", "node-1", a);
    names_probe_pod("mnli", "0b7d3f52", "node-2", b);
    assert_string_not_equal(a, b);
    names_probe_pod("mnli", "0b7d3f52", "node-1", b);
    assert_string_equal(a, b);
}

static void names_in_certificates_lead_back_to_the_job(void **state)
{
    static const char *const others[] = {
        "",
        "w0-1",
        "w0-1.u",
        "w0-1..skyjob.internal",
        "w0-1.u.example.com",
        "u.skyjob.internal",
        NAMES_METRICS_DNS,
        "a.w0-1.u.skyjob.internal",
        NAMES_OPERATOR_METRICS_DNS,
        NAMES_READER_DNS,
        "w0-1.01234567890123456789012345678901234567890.skyjob.internal"};
    char name[NAMES_DNS_BYTES];
    char uid[NAMES_UID_BYTES];

    (void)state;
    names_worker_dns(UID, 383, 12, name);
    assert_string_equal(name, "w383-12." UID ".skyjob.internal");
    assert_true(names_dns_uid(name, uid));
    assert_string_equal(uid, UID);
    names_operator_dns(UID, name);
    assert_string_equal(name, "operator." UID ".skyjob.internal");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(names_dns_uid(others[i], uid));
}

static void node_probe_reads_back_what_was_written(void **state)
{
    struct node_probe p = {.gflops = 100.0 / 3,
                           .unit_ms = 0,
                           .memory_bytes_per_s = 1e11 / 7,
                           .message = {.ms = 0.1 / 3, .byte_ns = 1.25},
                           .lengths = {.mean = 17.25, .mean_square = 333.5},
                           .pace = {1.5, 0.75, 40, 200.5, 100, 1e6},
                           .threads = 2,
                           .blas_core = "SkylakeX",
                           .has_bf16 = NODE_NO,
                           .cpu_model = "Some \"CPU\" @ 3 GHz"};
    struct node_probe back;
    struct buf out = {.max = NODE_PROBE_MAX_BYTES};

    (void)state;
    assert_int_equal(node_probe_write(&p, &out, NULL), ERR_OK);
    assert_int_equal(node_probe_read(buf_text(&out), &back, NULL), ERR_OK);
    assert_true(back.gflops == p.gflops);
    assert_true(back.memory_bytes_per_s == p.memory_bytes_per_s);
    assert_memory_equal(&back.message, &p.message, sizeof p.message);
    assert_true(back.lengths.mean == 17.25);
    assert_true(back.lengths.mean_square == 333.5);
    assert_memory_equal(&back.pace, &p.pace, sizeof p.pace);
    assert_int_equal(back.threads, 2);
    assert_int_equal(back.has_bf16, NODE_NO);
    assert_string_equal(back.blas_core, p.blas_core);
    assert_string_equal(back.cpu_model, p.cpu_model);
    buf_deinit(&out);
}

/* A cost that is too small to measure is 0, which is a result and no reason to lose the others. */
static void node_probe_keeps_costs_that_are_zero(void **state)
{
    struct node_probe p = {
        .gflops = 1, .threads = 1, .pace = {.attention = 1.5, .ffn = 0.75}, .message = {.ms = 2}};
    struct buf out = {.max = NODE_PROBE_MAX_BYTES};
    struct node_probe back;

    (void)state;
    assert_int_equal(node_probe_write(&p, &out, NULL), ERR_OK);
    assert_int_equal(node_probe_read(buf_text(&out), &back, NULL), ERR_OK);
    assert_memory_equal(&back.pace, &p.pace, sizeof p.pace);
    assert_true(back.message.ms == 2);
    buf_deinit(&out);
}

static void node_probe_may_know_neither_memory_nor_data(void **state)
{
    struct node_probe p;

    (void)state;
    assert_int_equal(node_probe_read("{\"gflops\": 1, \"unitMs\": 0, \"threads\": 1}", &p, NULL),
                     ERR_OK);
    assert_true(p.memory_bytes_per_s == 0);
    assert_true(p.lengths.mean == 0);
}

static void node_probe_fits_a_termination_message(void **state)
{
    struct node_probe p = {
        .gflops = 100.0 / 3, .unit_ms = 1.0 / 3, .threads = 1000000, .n_links = NODE_LINKS_MAX};
    struct node_probe back;
    struct buf out = {.max = NODE_PROBE_MAX_BYTES};

    (void)state;
    p.has_bf16 = NODE_NO;
    p.pace = (struct node_pace){.attention = 1.0 / 3,
                                .ffn = 2.0 / 3,
                                .parameter = 100.0 / 3,
                                .element = 200.0 / 3,
                                .sequence = 1e6 / 3,
                                .update = 400.0 / 3};
    p.memory_bytes_per_s = 1e12 / 3;
    p.message = (struct node_message){1e4 / 3, 1e6 / 3};
    p.lengths = (struct node_lengths){.mean = 100.0 / 3, .mean_square = 1e5 / 3};
    memset(p.blas_core, '\n', sizeof p.blas_core - 1);
    memset(p.cpu_model, '"', sizeof p.cpu_model - 1);
    for (int i = 0; i < p.n_links; i++) {
        memset(p.links[i].node, 'a' + i, sizeof p.links[i].node - 1);
        p.links[i].bytes_per_s = 1e12 / 3;
        p.links[i].latency_ms = 1e5 / 3;
    }
    assert_int_equal(node_probe_write(&p, &out, NULL), ERR_OK);
    assert_int_equal(node_probe_read(buf_text(&out), &back, NULL), ERR_OK);
    assert_int_equal(back.n_links, NODE_LINKS_MAX);
    assert_memory_equal(back.links, p.links, sizeof p.links);
    buf_deinit(&out);
}

#define GOOD "{\"gflops\": 1, \"unitMs\": 0, \"threads\": 1, "
#define LINK "{\"node\": \"b\", \"bytesPerSecond\": 1, \"latencyMs\": 0}"

static void node_probe_refuses_figures_that_make_no_sense(void **state)
{
    static const char *const bad[] = {
        "",
        "{}",
        "{\"gflops\": 1, \"unitMs\": 0}",
        "{\"gflops\": 0, \"unitMs\": 0, \"threads\": 1}",
        "{\"gflops\": -1, \"unitMs\": 0, \"threads\": 1}",
        "{\"gflops\": 1e999, \"unitMs\": 0, \"threads\": 1}",
        "{\"gflops\": 1, \"unitMs\": -1, \"threads\": 1}",
        "{\"gflops\": \"1\", \"unitMs\": 0, \"threads\": 1}",
        "{\"gflops\": 1, \"unitMs\": 0, \"threads\": 0}",
        "{\"gflops\": 1, \"unitMs\": 0, \"threads\": 1, \"memoryBytesPerSecond\": -1}",
        "{\"gflops\": 1, \"unitMs\": 0, \"threads\": 1, \"lengths\": {\"mean\": 9}}",
        "{\"gflops\": 1, \"unitMs\": 0, \"threads\": 1, \"pace\": {\"attention\": 1}}",
        "{\"gflops\": 1, \"unitMs\": 0, \"threads\": 1, "
        "\"lengths\": {\"mean\": 1e9, \"meanSquare\": 1e18}}",
        GOOD "\"links\": [{}]}",
        GOOD "\"links\": [{\"node\": \"\", \"bytesPerSecond\": 1, \"latencyMs\": 1}]}",
        GOOD "\"links\": [{\"node\": \"\\\"\", \"bytesPerSecond\": 1, \"latencyMs\": 1}]}",
        GOOD "\"links\": [{\"node\": \"b\", \"bytesPerSecond\": 0, \"latencyMs\": 1}]}",
        GOOD "\"links\": [{\"node\": \"b\", \"bytesPerSecond\": 1e999, \"latencyMs\": 1}]}",
        GOOD "\"links\": [{\"node\": \"b\", \"bytesPerSecond\": 1, \"latencyMs\": -1}]}",
        GOOD "\"links\": [{\"node\": \"b\", \"bytesPerSecond\": 1}]}",
        GOOD "\"links\": [" LINK "," LINK "," LINK "," LINK "," LINK "," LINK "," LINK "," LINK
             "," LINK "]}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct node_probe p;

        assert_int_equal(node_probe_read(bad[i], &p, NULL), ERR_INVALID);
    }
    assert_int_equal(node_probe_read(GOOD "\"links\": [" LINK "]}", &(struct node_probe){0}, NULL),
                     ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_that_the_manual_promises),
        cmocka_unit_test(names_of_children_fit_for_the_longest_job),
        cmocka_unit_test(names_of_probes_differ_by_node),
        cmocka_unit_test(names_in_certificates_lead_back_to_the_job),
        cmocka_unit_test(node_probe_reads_back_what_was_written),
        cmocka_unit_test(node_probe_keeps_costs_that_are_zero),
        cmocka_unit_test(node_probe_may_know_neither_memory_nor_data),
        cmocka_unit_test(node_probe_fits_a_termination_message),
        cmocka_unit_test(node_probe_refuses_figures_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
