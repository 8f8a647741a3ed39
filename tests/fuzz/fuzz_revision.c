/* The documents by which a running job changes: revisions, as they are kept and as they are posted,
 * reports, and orders. What a reader accepts lies within its bounds, is written again and reads
 * back as the same; and a job can go on from every report. */
#include <stdlib.h>
#include <string.h>

#include "api/revision.h"
#include "fuzz.h"

#define TEXT_MAX_BYTES ((size_t)1 << 20)

static void check_end(const struct step_end *end)
{
    MUST(end->step >= 0 && end->step <= RESUME_STEP_MAX);
    MUST(end->outcome <= STEP_FAIL && end->updates >= 0);
}

/* All units once, in order, and every source is a worker that there is. */
static void check_resume(const struct revision *r)
{
    int next = 0;

    MUST(r->resume.lineage >= 1 && r->resume.end.step == r->resume.step);
    check_end(&r->resume.end);
    MUST(resume_origins_check(&r->resume.origins, r->resume.lineage, NULL) == ERR_OK);
    for (int i = 0; i < r->resume.origins.n; i++) {
        const struct resume_origin *o = &r->resume.origins.list[i];

        MUST(o->step <= r->resume.step && resume_counts(&r->resume, o->lineage, o->step));
        MUST(!resume_counts(&r->resume, o->lineage, o->step + 1));
    }
    for (int i = 0; i < r->resume.n_sources; i++) {
        const struct resume_source *s = &r->resume.sources[i];

        MUST(s->first_unit == next && s->n_units >= 1);
        MUST(!resume_is_worker(s) || revision_find(r, s->slot) >= 0);
        MUST(!resume_is_saved(s) || r->resume.step > 0);
        MUST(revision_source(r, next) == s);
        next += s->n_units;
    }
    MUST(next == model_units(&r->plan.spec.model));
}

static void check_revision(const struct json *root, const char *text, size_t n)
{
    static struct revision r, back;
    const struct json *spec = json_path(root, "plan.spec");
    struct buf first = {.max = TEXT_MAX_BYTES}, second = {.max = TEXT_MAX_BYTES};

    if (revision_parse(text, n, &r, NULL) != ERR_OK)
        return;
    check_resume(&r);
    MUST(r.until == 0 || r.until > r.resume.step);
    for (int i = 0; i < revision_n_workers(&r); i++) {
        struct revision_worker w = revision_worker(&r, i);

        MUST(revision_find(&r, w.slot) == i && w.incarnation >= 1);
        MUST(revision_compare(NULL, &r, &w, NULL) == ERR_OK);
        MUST(revision_compare(&r, &r, &w, NULL) == ERR_AGAIN);
    }
    MUST(revision_write(&r, spec, &first, NULL) == ERR_OK);
    MUST(revision_parse(buf_text(&first), first.len, &back, NULL) == ERR_OK);
    MUST(revision_write(&back, spec, &second, NULL) == ERR_OK);
    MUST(strcmp(buf_text(&first), buf_text(&second)) == 0);
    buf_deinit(&first);
    buf_deinit(&second);
}

static void check_post(const char *text, size_t n)
{
    static struct revision r;
    static struct peers peers;

    if (revision_post_parse(text, n, &r, &peers, NULL) != ERR_OK)
        return;
    MUST(peers.n == revision_n_workers(&r));
    check_resume(&r);
}

static void check_report(const char *text, size_t n)
{
    static struct revision next;
    static struct plan plan;
    struct buf first = {.max = TEXT_MAX_BYTES}, second = {.max = TEXT_MAX_BYTES};
    struct report r, back;
    const struct report *reports[] = {&r};
    int unit = 0;

    if (report_parse(text, n, &r, NULL) != ERR_OK)
        return;
    MUST(r.n_runs <= REPORT_RUNS_MAX && r.session <= REPORT_FAILED);
    MUST(r.n_checkpoints <= RESUME_POINTS_MAX);
    check_end(&r.end);
    for (int i = 0; i < r.n_runs; i++) {
        MUST(r.runs[i].first_unit >= unit && r.runs[i].n_units >= 1);
        unit = r.runs[i].first_unit + r.runs[i].n_units;
        MUST(unit <= MODEL_UNITS_MAX && report_find(&r, unit - 1) == &r.runs[i]);
    }
    MUST(report_write(&r, &first, NULL) == ERR_OK);
    MUST(report_parse(buf_text(&first), first.len, &back, NULL) == ERR_OK);
    MUST(report_write(&back, &second, NULL) == ERR_OK);
    MUST(strcmp(buf_text(&first), buf_text(&second)) == 0);
    buf_deinit(&first);
    buf_deinit(&second);

    MUST(model_preset("BertTiny", &plan.spec.model, NULL) == ERR_OK);
    plan.revision = 2;
    plan.n_workers = 2;
    plan.workers[0] = (struct plan_worker){.slot = 2, .incarnation = 1, .n_units = 5};
    plan.workers[1] =
        (struct plan_worker){.slot = 0, .incarnation = 2, .first_unit = 5, .n_units = 2};
    revision_make(&plan, reports, 1, SOURCE_RANDOM, NULL, &next);
    check_resume(&next);
    MUST(next.resume.step == 0 || next.resume.lineage == r.lineage ||
         (next.resume.lineage > r.lineage && resume_is_saved(&next.resume.sources[0])));
}

static void check_order(const char *text, size_t n)
{
    struct buf out = {.max = TEXT_MAX_BYTES};
    int revision, back;

    if (revision_order_parse(text, n, &revision, NULL) != ERR_OK)
        return;
    MUST(revision >= 1 && revision <= PLAN_REVISION_MAX);
    MUST(revision_order_write(revision, &out, NULL) == ERR_OK);
    MUST(revision_order_parse(buf_text(&out), out.len, &back, NULL) == ERR_OK && back == revision);
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *text = (const char *)bytes;
    struct json *root = NULL;

    check_post(text, n); /* finds its parts without parsing the whole */
    if (json_parse(text, n, &root, NULL) != ERR_OK)
        return 0;
    check_revision(root, text, n);
    check_report(text, n);
    check_order(text, n);
    json_free(root);
    return 0;
}
