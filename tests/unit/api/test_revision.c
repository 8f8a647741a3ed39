#include "api/revision.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

#define SPEC                                                                                       \
    "{\"model\": {\"preset\": \"BertTiny\"}, \"data\": {\"source\": {\"sample\": \"MNLI\"}}}"

/* Worker 4 takes over what worker 1 had, which leaves. */
static struct revision third(void)
{
    return (struct revision){
        .plan = {.namespace = "default",
                 .job = "mnli",
                 .uid = "6f1c",
                 .revision = 3,
                 .micro_batches = 8,
                 .n_workers = 2,
                 .workers = {{0, 1, 0, 0, 3, "a", 500, 1 << 28, 1.25, "the first three"},
                             {4, 3, 0, 3, 4, "b", 2000, 1 << 28, 0.1, "the rest"}},
                 .summary = {.explanation = "because"}},
        .resume = {.lineage = 4,
                   .origins = {2, {{1, 3}, {3, 7}}},
                   .step = 7,
                   .end = {.revision = 2, .step = 7, .scale = 0.1, .rate = 1e-5 / 3, .updates = 6},
                   .evaluated = 5,
                   .n_sources = 2,
                   .sources = {{0, 3, SOURCE_WORKER, 0}, {3, 4, SOURCE_WORKER, 1}}},
        .until = 15,
        .n_leaving = 1,
        .leaving = {{1, 2}}};
}

static void write_revision(const struct revision *r, struct buf *out)
{
    struct json *spec = NULL;

    assert_int_equal(json_parse(SPEC, strlen(SPEC), &spec, NULL), ERR_OK);
    assert_int_equal(revision_write(r, spec, out, NULL), ERR_OK);
    json_free(spec);
}

static struct revision read_back(const struct revision *r)
{
    struct buf first = {.max = REVISION_TEXT_MAX_BYTES}, second = {.max = REVISION_TEXT_MAX_BYTES};
    struct revision back;

    write_revision(r, &first);
    assert_int_equal(revision_parse(first.data, first.len, &back, NULL), ERR_OK);
    assert_true(back.hash == hash_bytes(HASH_START, first.data, first.len));
    write_revision(&back, &second);
    assert_string_equal(buf_text(&first), buf_text(&second));
    buf_deinit(&first);
    buf_deinit(&second);
    return back;
}

static void revision_reads_back_what_was_written(void **state)
{
    struct revision r = third();
    struct revision back = read_back(&r);

    (void)state;
    assert_int_equal(back.plan.revision, 3);
    assert_string_equal(back.plan.uid, "6f1c");
    assert_int_equal(back.plan.workers[1].incarnation, 3);
    assert_int_equal(back.plan.spec.model.layers, 2);
    assert_int_equal(back.resume.lineage, 4);
    assert_int_equal(back.resume.origins.n, 2);
    assert_int_equal(back.resume.origins.list[1].lineage, 3);
    assert_int_equal(back.resume.origins.list[1].step, 7);
    assert_int_equal(back.resume.step, 7);
    assert_int_equal(back.resume.end.revision, 2);
    assert_int_equal(back.resume.end.step, 7);
    assert_true(back.resume.end.rate == 1e-5 / 3);
    assert_int_equal(back.resume.end.updates, 6);
    assert_int_equal(back.resume.evaluated, 5);
    assert_int_equal(back.resume.n_sources, 2);
    assert_int_equal(back.resume.sources[1].slot, 1);
    assert_int_equal(back.until, 15);
    assert_int_equal(back.n_leaving, 1);
    r.resume.sources[0] = (struct resume_source){0, 3, SOURCE_CHECKPOINT, 0};
    assert_int_equal(read_back(&r).resume.sources[0].kind, SOURCE_CHECKPOINT);
}

static void revision_lists_workers_of_the_plan_and_those_that_leave(void **state)
{
    struct revision r = third();

    (void)state;
    assert_int_equal(revision_n_workers(&r), 3);
    assert_int_equal(revision_worker(&r, 1).slot, 4);
    assert_int_equal(revision_worker(&r, 1).incarnation, 3);
    assert_int_equal(revision_worker(&r, 2).slot, 1);
    assert_int_equal(revision_worker(&r, 2).incarnation, 2);
    assert_int_equal(revision_find(&r, 0), 0);
    assert_int_equal(revision_find(&r, 4), 1);
    assert_int_equal(revision_find(&r, 1), 2);
    assert_int_equal(revision_find(&r, 2), -1);
    assert_int_equal(revision_source(&r, 2)->slot, 0);
    assert_int_equal(revision_source(&r, 3)->slot, 1);
    assert_int_equal(revision_source(&r, 6)->slot, 1);
}

static void revision_with_a_source_per_unit_fits(void **state)
{
    struct revision r = third();
    struct buf out = {.max = REVISION_TEXT_MAX_BYTES};
    struct json *spec = NULL;
    static const char deep[] = "{\"model\": {\"hiddenSize\": 8, \"attentionHeads\": 1, "
                               "\"feedForwardSize\": 8, \"layers\": 512}, "
                               "\"data\": {\"source\": {\"sample\": \"MNLI\"}}}";

    (void)state;
    assert_int_equal(json_parse(deep, sizeof deep - 1, &spec, NULL), ERR_OK);
    r.plan.n_workers = SPEC_STAGES_MAX;
    r.n_leaving = SPEC_STAGES_MAX;
    for (int i = 0; i < SPEC_STAGES_MAX; i++) {
        struct plan_worker *w = &r.plan.workers[i];

        *w = (struct plan_worker){.slot = i,
                                  .incarnation = PLAN_REVISION_MAX,
                                  .first_unit = 16 * i,
                                  .n_units = i < SPEC_STAGES_MAX - 1 ? 16 : 19,
                                  .memory_bytes = INT64_C(1) << 50};
        memset(w->node, 'n', sizeof w->node - 1);
        memset(w->units, 'u', sizeof w->units - 1);
        r.leaving[i] = (struct revision_worker){PLAN_SLOT_MAX - i, PLAN_REVISION_MAX};
    }
    r.resume.n_sources = MODEL_UNITS_MAX;
    for (int u = 0; u < MODEL_UNITS_MAX; u++)
        r.resume.sources[u] = (struct resume_source){u, 1, SOURCE_WORKER, PLAN_SLOT_MAX - u % 2};
    assert_int_equal(revision_write(&r, spec, &out, NULL), ERR_OK);
    assert_int_equal(revision_parse(out.data, out.len, &r, NULL), ERR_OK);
    json_free(spec);
    buf_deinit(&out);
}

static void refuse(const struct revision *r, const char *says)
{
    struct revision back = {.hash = 99};
    struct buf out = {.max = REVISION_TEXT_MAX_BYTES};
    struct err err = {0};

    write_revision(r, &out);
    assert_int_equal(revision_parse(out.data, out.len, &back, &err), ERR_INVALID);
    if (!strstr(err.text, says))
        fail_msg("said \"%s\"", err.text);
    assert_int_equal(back.hash, 99);
    buf_deinit(&out);
}

static void revision_is_refused_when_its_parts_contradict(void **state)
{
    struct revision r = third();

    (void)state;
    r.resume.lineage = 0;
    refuse(&r, "lineage: 0 is not in 1..");
    r = third();
    r.resume.sources[0].n_units = 2;
    refuse(&r, "sources[1]: has 4 units from unit 3; must have 1 to 5 from unit 2");
    r = third();
    r.resume.n_sources = 1;
    refuse(&r, "sources: cover 3 of 7 units");
    r = third();
    r.resume.sources[1].slot = 2;
    refuse(&r, "sources[1].slot: there is no worker 2");
    r = third();
    r.resume.sources[1].kind = SOURCE_RANDOM;
    refuse(&r, "sources[1].from: Random units cannot be at step 7");
    r = third();
    r.leaving[0].slot = 4;
    refuse(&r, "leaving[0].slot: 4 is given twice");
    r = third();
    r.resume.end.step = 6;
    refuse(&r, "end.step: 6, but the job goes on from step 7");
    r = third();
    r.resume.end = (struct step_end){.step = 0};
    refuse(&r, "end.step: 0, but the job goes on from step 7");
    r = third();
    r.resume.evaluated = 8;
    refuse(&r, "evaluated: 8, but the job goes on from step 7");
    r = third();
    r.resume.origins.list[1].lineage = 4;
    refuse(&r, "origins[1]: step 7 of lineage 4; lineages must rise up to 4");
    r = third();
    r.resume.origins.list[1].step = 8;
    refuse(&r, "origins: lead to step 8, but the job goes on from 7");
    r = third();
    r.resume =
        (struct resume){.lineage = 1, .n_sources = 1, .sources = {{0, 7, SOURCE_CHECKPOINT, 0}}};
    refuse(&r, "sources[0].from: Checkpoint units cannot be at step 0");
    r = third();
    r.until = 7;
    refuse(&r, "until: 7, but the job goes on from step 7");
    r = third();
    r.plan.workers[1].n_units = 3;
    refuse(&r, "plan: workers: replica 0 has 6 of 7 units");
}

static void revision_survives_every_cut_and_flip_of_its_text(void **state)
{
    struct revision r = third();
    struct revision back;
    struct buf out = {.max = REVISION_TEXT_MAX_BYTES};

    (void)state;
    write_revision(&r, &out);
    for (size_t n = 0; n < out.len; n++)
        assert_int_not_equal(revision_parse(out.data, n, &back, NULL), ERR_OK);
    for (size_t i = 0; i < out.len; i++) {
        char was = out.data[i];

        out.data[i] = (char)(was ^ 1);
        (void)!revision_parse(out.data, out.len, &back, NULL);
        out.data[i] = was;
    }
    buf_deinit(&out);
}

/* --- what a worker does with it --- */

struct row {
    const char *name;
    int current; /* revision; 0: none */
    uint64_t current_hash;
    const char *uid;
    struct revision_worker self;
    enum err_code want;
    const char *says; /* NULL: nothing */
};

/* Revision 3 of job 6f1c with hash 7 is posted to ... */
static struct row rows[] = {
    {"revision_is_taken_by_a_new_worker", 0, 0, "", {4, 3}, ERR_OK, NULL},
    {"revision_is_taken_by_a_worker_with_an_older_one", 2, 5, "6f1c", {0, 1}, ERR_OK, NULL},
    {"revision_is_taken_by_a_worker_that_leaves", 2, 5, "6f1c", {1, 2}, ERR_OK, NULL},
    {"revision_that_is_repeated_changes_nothing", 3, 7, "6f1c", {0, 1}, ERR_AGAIN, NULL},
    {"revision_is_refused_by_a_worker_with_a_newer_one",
     4,
     8,
     "6f1c",
     {0, 1},
     ERR_CONFLICT,
     "revision 3 is older than 4, which this worker has"},
    {"revision_is_refused_when_another_has_its_number",
     3,
     8,
     "6f1c",
     {0, 1},
     ERR_CONFLICT,
     "this worker has a different revision 3"},
    {"revision_of_another_job_is_refused", 2, 5, "ffff", {0, 1}, ERR_CONFLICT, "is of job 6f1c"},
    {"revision_is_refused_by_a_worker_that_it_does_not_have",
     0,
     0,
     "",
     {2, 1},
     ERR_CONFLICT,
     "revision 3 has no worker 2"},
    {"revision_is_refused_by_an_older_incarnation",
     2,
     5,
     "6f1c",
     {4, 2},
     ERR_CONFLICT,
     "revision 3 is for incarnation 3 of worker 4, but this is 2"},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct revision posted = third();
    struct revision current = third();
    struct err err = {0};
    enum err_code rc;

    posted.hash = 7;
    current.hash = row->current_hash;
    current.plan.revision = row->current;
    (void)snprintf(current.plan.uid, sizeof current.plan.uid, "%s", row->uid);
    rc = revision_compare(row->current > 0 ? &current : NULL, &posted, &row->self, &err);
    assert_int_equal(rc, row->want);
    if (row->says && !strstr(err.text, row->says))
        fail_msg("said \"%s\"", err.text);
}

/* --- on the control port --- */

static void add_address(struct peers *p, const char *host)
{
    (void)snprintf(p->list[p->n].host, PEERS_HOST_BYTES, "%s", host);
    p->list[p->n++].port = 7071;
}

static void revision_is_posted_as_it_was_written(void **state)
{
    struct revision r = third();
    struct revision back;
    struct buf text = {.max = REVISION_TEXT_MAX_BYTES}, post = {.max = REVISION_POST_MAX_BYTES};
    struct peers peers = {.revision = 3};
    struct peers got;
    struct err err;

    (void)state;
    write_revision(&r, &text);
    add_address(&peers, "10.0.0.1");
    add_address(&peers, "10.0.0.2");
    assert_int_equal(revision_post_write(text.data, text.len, &peers, &post, NULL), ERR_OK);
    assert_int_equal(revision_post_parse(post.data, post.len, &back, &got, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "2 addresses for 3 workers"));
    buf_reset(&post);
    add_address(&peers, "fd00::3");
    assert_int_equal(revision_post_write(text.data, text.len, &peers, &post, NULL), ERR_OK);
    assert_int_equal(revision_post_parse(post.data, post.len, &back, &got, NULL), ERR_OK);
    assert_true(back.hash == hash_bytes(HASH_START, text.data, text.len));
    assert_int_equal(back.resume.step, 7);
    assert_string_equal(got.list[2].host, "fd00::3");
    for (size_t n = 0; n < post.len - 1; n++) /* the last brace closes nothing that is read */
        assert_int_not_equal(revision_post_parse(post.data, n, &back, &got, NULL), ERR_OK);
    buf_deinit(&text);
    buf_deinit(&post);
}

static void revision_order_names_its_revision(void **state)
{
    struct buf out = {.max = REVISION_ORDER_MAX_BYTES};
    int revision = 0;

    (void)state;
    assert_int_equal(revision_order_write(PLAN_REVISION_MAX, &out, NULL), ERR_OK);
    assert_int_equal(revision_order_parse(out.data, out.len, &revision, NULL), ERR_OK);
    assert_int_equal(revision, PLAN_REVISION_MAX);
    assert_int_equal(revision_order_parse("{}", 2, &revision, NULL), ERR_INVALID);
    assert_int_equal(revision_order_parse("{\"revision\":0}", 14, &revision, NULL), ERR_INVALID);
    assert_int_equal(revision, PLAN_REVISION_MAX);
    buf_deinit(&out);
}

int main(void)
{
    struct CMUnitTest tests[7 + sizeof rows / sizeof rows[0]] = {
        cmocka_unit_test(revision_reads_back_what_was_written),
        cmocka_unit_test(revision_lists_workers_of_the_plan_and_those_that_leave),
        cmocka_unit_test(revision_with_a_source_per_unit_fits),
        cmocka_unit_test(revision_is_refused_when_its_parts_contradict),
        cmocka_unit_test(revision_survives_every_cut_and_flip_of_its_text),
        cmocka_unit_test(revision_is_posted_as_it_was_written),
        cmocka_unit_test(revision_order_names_its_revision),
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        tests[7 + i] = (struct CMUnitTest){rows[i].name, check_row, NULL, NULL, &rows[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
