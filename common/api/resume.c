#include "api/resume.h"

#include <string.h>

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

#define ORIGIN(member) FIELD_AT(struct resume_origin, member)
const struct field resume_origin_fields[] = {
    {"lineage", FIELD_INT64, ORIGIN(lineage), .min = 1, .max = RESUME_STEP_MAX,
     .flags = FIELD_REQUIRED},
    {"step", FIELD_INT64, ORIGIN(step), .min = 1, .max = RESUME_STEP_MAX, .flags = FIELD_REQUIRED},
    {0}};

#define PART(member) FIELD_AT(struct resume_part, member)
static const struct field part_fields[] = {
    {"firstUnit", FIELD_INT, PART(first_unit), .max = MODEL_UNITS_MAX - 1, .flags = FIELD_REQUIRED},
    {"unitCount", FIELD_INT, PART(n_units), .min = 1, .max = MODEL_UNITS_MAX,
     .flags = FIELD_REQUIRED},
    {0}};

#define POINT(member) FIELD_AT(struct resume_checkpoint, member)
const struct field resume_checkpoint_fields[] = {
    {"lineage", FIELD_INT64, POINT(lineage), .min = 1, .max = RESUME_STEP_MAX,
     .flags = FIELD_REQUIRED},
    {"end", FIELD_OBJECT, POINT(end), .fields = step_end_fields, .flags = FIELD_REQUIRED},
    {"evaluated", FIELD_INT64, POINT(evaluated), COUNT, .flags = FIELD_OMIT},
    {"parts", FIELD_LIST, FIELD_ITEMS(struct resume_checkpoint, parts, n_parts),
     .fields = part_fields, .flags = FIELD_OMIT},
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
    {"origins", FIELD_LIST, FIELD_ITEMS(struct report, origins.list, origins.n),
     .fields = resume_origin_fields, .flags = FIELD_OMIT},
    {"end", FIELD_OBJECT, AT(end), .fields = step_end_fields, .flags = FIELD_OMIT},
    {"evaluated", FIELD_INT64, AT(evaluated), COUNT, .flags = FIELD_OMIT},
    {"leaving", FIELD_BOOL, AT(is_leaving), .flags = FIELD_OMIT},
    {"saved", FIELD_BOOL, AT(has_saved), .flags = FIELD_OMIT},
    {"runs", FIELD_LIST, FIELD_ITEMS(struct report, runs, n_runs), .fields = run_fields},
    {"checkpoints", FIELD_LIST, FIELD_ITEMS(struct report, checkpoints, n_checkpoints),
     .fields = resume_checkpoint_fields, .flags = FIELD_OMIT},
    {0}};

enum err_code resume_origins_check(const struct resume_origins *o, int64_t lineage, struct err *err)
{
    for (int i = 0; i < o->n; i++) {
        const struct resume_origin *at = &o->list[i];
        int64_t limit = i + 1 < o->n ? o->list[i + 1].lineage : lineage;

        if (at->lineage >= limit || (i > 0 && at->step < o->list[i - 1].step))
            return err_set(err, ERR_INVALID,
                           "origins[%d]: step %lld of lineage %lld; lineages must rise up to %lld, "
                           "and steps must not fall",
                           i, (long long)at->step, (long long)at->lineage, (long long)lineage);
    }
    return ERR_OK;
}

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

/* Can this checkpoint be one in a store? */
static enum err_code check_checkpoint(const struct resume_checkpoint *c, int i, struct err *err)
{
    int next = 0;

    if (c->evaluated > c->end.step)
        return err_set(err, ERR_INVALID, "checkpoints[%d].evaluated: %lld is after its step %lld",
                       i, (long long)c->evaluated, (long long)c->end.step);
    for (int k = 0; k < c->n_parts; k++) {
        const struct resume_part *part = &c->parts[k];

        if (part->first_unit < next || part->n_units > MODEL_UNITS_MAX - part->first_unit)
            return err_set(err, ERR_INVALID,
                           "checkpoints[%d].parts[%d]: %d units from unit %d; must begin at %d or "
                           "later",
                           i, k, part->n_units, part->first_unit, next);
        next = part->first_unit + part->n_units;
    }
    return ERR_OK;
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
    if (rc == ERR_OK)
        rc = resume_origins_check(&r->origins, r->lineage, err);
    for (int i = 0; i < r->n_checkpoints && rc == ERR_OK; i++)
        rc = check_checkpoint(&r->checkpoints[i], i, err);
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

bool resume_is_worker(const struct resume_source *s)
{
    return s->kind == SOURCE_WORKER || s->kind == SOURCE_PEER;
}

bool resume_is_saved(const struct resume_source *s)
{
    return s->kind == SOURCE_CHECKPOINT || s->kind == SOURCE_PEER;
}

/* The step with which a lineage of these origins begins. */
static int64_t first_step(const struct resume_origins *o)
{
    return o->n > 0 ? o->list[o->n - 1].step : 0;
}

/* Does the step belong to the history of `newest`, which has these origins? */
static bool counts(const struct resume_origins *o, int64_t newest, int64_t lineage, int64_t step)
{
    int64_t first = 0;

    for (int i = 0; i < o->n; i++) {
        if (o->list[i].lineage == lineage)
            return step >= first && step <= o->list[i].step;
        first = o->list[i].step;
    }
    return lineage == newest && step >= first;
}

bool resume_counts(const struct resume *at, int64_t lineage, int64_t step)
{
    return counts(&at->origins, at->lineage, lineage, step);
}

/* Set the newest lineage of all, with its origins. */
static void find_lineage(const struct report *const reports[], int n_reports,
                         const struct resume *last, struct resume *out)
{
    out->lineage = last ? last->lineage : 0;
    out->origins = last ? last->origins : (struct resume_origins){.n = 0};
    for (int i = 0; i < n_reports; i++)
        if (reports[i]->lineage > out->lineage) {
            out->lineage = reports[i]->lineage;
            out->origins = reports[i]->origins;
        }
}

/* Set the newest step of that lineage. */
static void find_end(const struct report *const reports[], int n_reports, struct resume *out)
{
    out->end = (struct step_end){.step = 0};
    out->evaluated = 0;
    for (int i = 0; i < n_reports; i++) {
        if (reports[i]->lineage != out->lineage)
            continue;
        if (reports[i]->end.step > out->end.step)
            out->end = reports[i]->end;
        if (reports[i]->evaluated > out->evaluated)
            out->evaluated = reports[i]->evaluated;
    }
    out->step = out->end.step;
}

/* Is `c` better than `best`? Of two checkpoints of a step, that of the newer lineage. */
static bool is_newer(const struct resume_checkpoint *c, const struct resume_checkpoint *best)
{
    return !best || c->end.step > best->end.step ||
           (c->end.step == best->end.step && c->lineage > best->lineage);
}

/* Does the worker's own store have this unit of `c`? */
static bool has_saved(const struct report *r, const struct resume_checkpoint *c, int unit)
{
    for (int i = 0; i < r->n_checkpoints; i++) {
        const struct resume_checkpoint *own = &r->checkpoints[i];

        if (own->lineage != c->lineage || own->end.step != c->end.step)
            continue;
        for (int k = 0; k < own->n_parts; k++)
            if (unit >= own->parts[k].first_unit &&
                unit < own->parts[k].first_unit + own->parts[k].n_units)
                return true;
    }
    return false;
}

/* The slot whose store has this unit of `c`, preferably its own worker's; -1: there is none. */
static int find_saver(const struct plan_worker *own, int unit, const struct report *const reports[],
                      int n_reports, const struct resume_checkpoint *c)
{
    int slot = -1;

    for (int i = 0; i < n_reports; i++) {
        const struct report *r = reports[i];
        bool is_own = r->slot == own->slot && r->incarnation == own->incarnation;

        if ((slot < 0 || is_own) && has_saved(r, c, unit))
            slot = r->slot;
    }
    return slot;
}

/* Do the stores have all of the checkpoint? */
static bool is_complete(const struct plan *next, const struct report *const reports[],
                        int n_reports, const struct resume_checkpoint *c)
{
    int n_units = c->n_parts > 0 ? model_units(&next->spec.model) : 0;
    int unit = 0;

    while (unit < n_units && find_saver(&next->workers[0], unit, reports, n_reports, c) >= 0)
        unit++;
    return unit == n_units;
}

/* The newest checkpoint of the history of `at`; NULL: there is none. */
static const struct resume_checkpoint *find_checkpoint(const struct plan *next,
                                                       const struct report *const reports[],
                                                       int n_reports, const struct resume *at)
{
    const struct resume_checkpoint *best = NULL;

    for (int i = 0; i < n_reports; i++)
        for (int k = 0; k < reports[i]->n_checkpoints; k++) {
            const struct resume_checkpoint *c = &reports[i]->checkpoints[k];

            if (resume_counts(at, c->lineage, c->end.step) && is_newer(c, best) &&
                is_complete(next, reports, n_reports, c))
                best = c;
        }
    return best;
}

/* The newest checkpoint of the newest lineage that is reported and has one, or else the newest of
 * all, with the origins of that lineage as far as they are known; NULL: there is none. */
static const struct resume_checkpoint *find_reported(const struct plan *next,
                                                     const struct report *const reports[],
                                                     int n_reports, struct resume_origins *out)
{
    const struct resume_checkpoint *best = NULL;
    int64_t newest = 0;

    for (int i = 0; i < n_reports; i++)
        for (int k = 0; k < reports[i]->n_checkpoints; k++) {
            const struct report *r = reports[i];
            const struct resume_checkpoint *c = &r->checkpoints[k];
            bool is_known = counts(&r->origins, r->lineage, c->lineage, c->end.step);
            int64_t lineage = is_known ? r->lineage : 0;

            if (lineage < newest || (lineage == newest && !is_newer(c, best)) ||
                !is_complete(next, reports, n_reports, c))
                continue;
            best = c;
            newest = lineage;
            *out = is_known ? r->origins : (struct resume_origins){.n = 0};
        }
    return best;
}

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

/* The unit comes from checkpoint `c`. */
static void add_saved(struct resume *out, const struct plan_worker *own, int unit,
                      const struct report *const reports[], int n_reports,
                      const struct resume_checkpoint *c)
{
    if (c->n_parts == 0)
        add_source(out, unit, SOURCE_CHECKPOINT, 0);
    else
        add_source(out, unit, SOURCE_PEER, find_saver(own, unit, reports, n_reports, c));
}

/* Find a source at the step of `at` for every unit of `next`; false when one is lost. `c` is the
 * checkpoint of that step; NULL: there is none. */
static bool find_sources(const struct plan *next, const struct report *const reports[],
                         int n_reports, const struct resume_checkpoint *c, struct resume *at)
{
    struct plan_home homes[SPEC_STAGES_MAX];
    int n_homes = plan_homes(next, homes);

    at->n_sources = 0;
    for (int i = 0; i < n_homes; i++) {
        const struct plan_home *home = &homes[i];
        const struct plan_worker *own = &next->workers[home->worker];

        for (int unit = home->first_unit; unit < home->first_unit + home->n_units; unit++) {
            int slot = find_holder(own, unit, reports, n_reports, at);

            if (slot >= 0)
                add_source(at, unit, SOURCE_WORKER, slot);
            else if (c)
                add_saved(at, own, unit, reports, n_reports, c);
            else
                return false;
        }
    }
    return true;
}

/* All units come from checkpoint `c`. */
static void restore_all(const struct plan *next, const struct report *const reports[],
                        int n_reports, const struct resume_checkpoint *c, struct resume *out)
{
    struct plan_home homes[SPEC_STAGES_MAX];
    int n_homes = plan_homes(next, homes);

    out->n_sources = 0;
    for (int i = 0; i < n_homes; i++) {
        const struct plan_home *home = &homes[i];
        const struct plan_worker *own = &next->workers[home->worker];

        for (int unit = home->first_unit; unit < home->first_unit + home->n_units; unit++)
            add_saved(out, own, unit, reports, n_reports, c);
    }
}

/* A number that no lineage has had. */
static int64_t next_lineage(const struct report *const reports[], int n_reports,
                            const struct resume *at)
{
    int64_t newest = at->lineage;

    for (int i = 0; i < n_reports; i++)
        for (int k = 0; k < reports[i]->n_checkpoints; k++)
            if (reports[i]->checkpoints[k].lineage > newest)
                newest = reports[i]->checkpoints[k].lineage;
    return newest + 1;
}

/* The origins of a lineage that begins with this checkpoint, which counts in one with these. */
static struct resume_origins origins_from(const struct resume_origins *of,
                                          const struct resume_checkpoint *c)
{
    struct resume_origins o = {.n = 0};

    while (o.n < of->n && of->list[o.n].lineage < c->lineage) {
        o.list[o.n] = of->list[o.n];
        o.n++;
    }
    if (o.n == RESUME_ORIGINS_MAX)
        memmove(&o.list[0], &o.list[1], (size_t)--o.n * sizeof o.list[0]);
    o.list[o.n++] = (struct resume_origin){.lineage = c->lineage, .step = c->end.step};
    return o;
}

/* Set the sources of the newest step of the newest lineage; false when the job cannot go on from
 * there. `c` is the newest checkpoint. */
static bool stay(const struct plan *next, const struct report *const reports[], int n_reports,
                 const struct resume_checkpoint *c, struct resume *out)
{
    if (out->lineage == 0 || out->step < first_step(&out->origins) ||
        (c && c->end.step > out->step) ||
        !find_sources(next, reports, n_reports, c && c->end.step == out->step ? c : NULL, out))
        return false;
    if (out->sources[0].kind != SOURCE_WORKER)
        out->evaluated = c->evaluated; /* the leader's records come with the first unit */
    return true;
}

void resume_point(const struct plan *next, const struct report *const reports[], int n_reports,
                  enum source_kind start, const struct resume *last, struct resume *out)
{
    const struct resume_checkpoint *c;
    struct resume back;

    find_lineage(reports, n_reports, last, out);
    find_end(reports, n_reports, out);
    c = find_checkpoint(next, reports, n_reports, out);
    if (stay(next, reports, n_reports, c, out))
        return;
    if (!c)
        c = find_reported(next, reports, n_reports, &out->origins);
    back = (struct resume){.lineage = next_lineage(reports, n_reports, out), .n_sources = 1};
    back.sources[0] =
        (struct resume_source){.n_units = model_units(&next->spec.model), .kind = start};
    if (c) {
        back.origins = origins_from(&out->origins, c);
        back.step = c->end.step;
        back.end = c->end;
        back.evaluated = c->evaluated;
        restore_all(next, reports, n_reports, c, &back);
    }
    *out = back;
}
