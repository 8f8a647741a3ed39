#include "api/resume.h"

const char *const step_outcome_names[] = {"Apply", "Skip", "Fail", NULL};
const char *const report_session_names[] = {"None", "Running", "Halted", "Done", "Failed", NULL};

#define COUNT .min = 0, .max = RESUME_STEP_MAX

#define END(member) FIELD_AT(struct step_end, member)
const struct field step_end_fields[] = {
    {"revision", FIELD_INT, END(revision), .min = 1, .max = PLAN_REVISION_MAX,
     .flags = FIELD_REQUIRED},
    {"step", FIELD_INT64, END(step), .min = 1, .max = RESUME_STEP_MAX, .flags = FIELD_REQUIRED},
    {"outcome", FIELD_ENUM, END(outcome), .words = step_outcome_names, .flags = FIELD_REQUIRED},
    {"scale", FIELD_DOUBLE, END(scale)},
    {"rate", FIELD_DOUBLE, END(rate)},
    {"updates", FIELD_INT64, END(updates), COUNT},
    {"loss", FIELD_DOUBLE, END(loss), .fallback = "nan", .flags = FIELD_NULL},
    {0}};

#define RUN(member) FIELD_AT(struct report_run, member)
static const struct field run_fields[] = {
    {"firstUnit", FIELD_INT, RUN(first_unit), .max = MODEL_UNITS_MAX - 1, .flags = FIELD_REQUIRED},
    {"unitCount", FIELD_INT, RUN(n_units), .min = 1, .max = MODEL_UNITS_MAX,
     .flags = FIELD_REQUIRED},
    {"step", FIELD_INT64, RUN(step), COUNT, .flags = FIELD_REQUIRED},
    {"finished", FIELD_BOOL, RUN(is_finished), .flags = FIELD_OMIT},
    {0}};

#define AT(member) FIELD_AT(struct report, member)
static const struct field report_fields[] = {
    {"slot", FIELD_INT, AT(slot), .max = PLAN_SLOT_MAX, .flags = FIELD_REQUIRED},
    {"incarnation", FIELD_INT, AT(incarnation), .min = 1, .max = PLAN_REVISION_MAX,
     .flags = FIELD_REQUIRED},
    {"revision", FIELD_INT, AT(revision), .max = PLAN_REVISION_MAX, .flags = FIELD_REQUIRED},
    {"session", FIELD_ENUM, AT(session), .words = report_session_names, .flags = FIELD_REQUIRED},
    {"cause", FIELD_ENUM, AT(cause), .words = progress_cause_names, .flags = FIELD_OMIT},
    {"error", FIELD_TEXT, AT(error), .flags = FIELD_LINE | FIELD_OMIT},
    {"lineage", FIELD_INT64, AT(lineage), COUNT},
    {"end", FIELD_OBJECT, AT(end), .fields = step_end_fields, .flags = FIELD_OMIT},
    {"evaluated", FIELD_INT64, AT(evaluated), COUNT, .flags = FIELD_OMIT},
    {"runs", FIELD_LIST, FIELD_ITEMS(struct report, runs, n_runs), .fields = run_fields},
    {0}};

enum err_code report_write(const struct report *r, struct buf *out, struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_int(&w, "version", REPORT_VERSION);
    fields_write(report_fields, r, &w);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

static enum err_code read_report(const struct json *root, struct report *r, struct err *err)
{
    enum err_code rc;
    int next = 0;

    if (json_i64(json_get(root, "version"), 0) != REPORT_VERSION)
        return err_set(err, ERR_INVALID, "version: must be %d", REPORT_VERSION);
    rc = fields_read(report_fields, root, FIELDS_STRICT, "", r, err);
    for (int i = 0; i < r->n_runs && rc == ERR_OK; i++) {
        const struct report_run *run = &r->runs[i];

        if (run->first_unit < next || run->n_units > MODEL_UNITS_MAX - run->first_unit)
            return err_set(err, ERR_INVALID,
                           "runs[%d]: %d units from unit %d; must begin at %d or later", i,
                           run->n_units, run->first_unit, next);
        next = run->first_unit + run->n_units;
    }
    return rc;
}

enum err_code report_parse(const char *text, size_t len, struct report *out, struct err *err)
{
    struct report r = {0};
    struct json *root = NULL;
    enum err_code rc = json_parse(text, len, &root, err);

    if (rc == ERR_OK)
        rc = read_report(root, &r, err);
    json_free(root);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "report");
    *out = r;
    return ERR_OK;
}

void report_add(struct report *r, const struct report_run *run)
{
    struct report_run *last = r->n_runs > 0 ? &r->runs[r->n_runs - 1] : NULL;

    if (last && last->first_unit + last->n_units == run->first_unit && last->step == run->step &&
        last->is_finished == run->is_finished)
        last->n_units += run->n_units;
    else if (r->n_runs < REPORT_RUNS_MAX)
        r->runs[r->n_runs++] = *run;
}

const struct report_run *report_find(const struct report *r, int unit)
{
    for (int i = 0; i < r->n_runs; i++)
        if (unit >= r->runs[i].first_unit && unit < r->runs[i].first_unit + r->runs[i].n_units)
            return &r->runs[i];
    return NULL;
}

/* --- where to go on from --- */

/* Can the worker bring the unit to the end of `step` with that STEP_END? */
static bool reaches(const struct report *r, int unit, int64_t step)
{
    const struct report_run *run = report_find(r, unit);

    return run && (run->step == step || (run->is_finished && run->step == step - 1));
}

static void add_source(struct resume *out, int unit, enum source_kind kind, int slot)
{
    struct resume_source *last = out->n_sources > 0 ? &out->sources[out->n_sources - 1] : NULL;

    if (last && last->kind == kind && last->slot == slot)
        last->n_units++;
    else
        out->sources[out->n_sources++] =
            (struct resume_source){.first_unit = unit, .n_units = 1, .kind = kind, .slot = slot};
}

/* The slot that holds `unit`, preferably its own worker's; -1: it is lost. */
static int find_holder(const struct plan_worker *own, int unit,
                       const struct report *const reports[], int n_reports, const struct resume *at)
{
    int slot = -1;

    for (int i = 0; i < n_reports; i++) {
        const struct report *r = reports[i];
        bool is_own = r->slot == own->slot && r->incarnation == own->incarnation;

        if (r->lineage == at->lineage && (slot < 0 || is_own) && reaches(r, unit, at->step))
            slot = r->slot;
    }
    return slot;
}

/* Find a source at the step of `at` for every unit of `next`; false when one is lost. */
static bool find_sources(const struct plan *next, const struct report *const reports[],
                         int n_reports, struct resume *at)
{
    at->n_sources = 0;
    for (int w = 0; w < next->n_workers; w++) {
        const struct plan_worker *own = &next->workers[w];

        for (int unit = own->first_unit; unit < own->first_unit + own->n_units; unit++) {
            int slot = find_holder(own, unit, reports, n_reports, at);

            if (slot < 0)
                return false;
            add_source(at, unit, SOURCE_WORKER, slot);
        }
    }
    return true;
}

void resume_point(const struct plan *next, const struct report *const reports[], int n_reports,
                  enum source_kind start, int64_t lineage, struct resume *out)
{
    out->lineage = lineage;
    out->end = (struct step_end){.step = 0};
    out->evaluated = 0;
    for (int i = 0; i < n_reports; i++)
        if (reports[i]->lineage > out->lineage)
            out->lineage = reports[i]->lineage;
    for (int i = 0; i < n_reports; i++) {
        if (reports[i]->lineage != out->lineage)
            continue;
        if (reports[i]->end.step > out->end.step)
            out->end = reports[i]->end;
        if (reports[i]->evaluated > out->evaluated)
            out->evaluated = reports[i]->evaluated;
    }
    out->step = out->end.step;
    if (find_sources(next, reports, n_reports, out))
        return;
    *out = (struct resume){.lineage = out->lineage + 1, .n_sources = 1};
    out->sources[0] =
        (struct resume_source){.n_units = model_units(&next->spec.model), .kind = start};
}
