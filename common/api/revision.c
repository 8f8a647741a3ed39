#include "api/revision.h"

#include <string.h>

#include "base/hash.h"

static const char *const kind_names[] = {"Random",     "Pretrained",     "Worker",
                                         "Checkpoint", "PeerCheckpoint", NULL};

#define SOURCE(member) FIELD_AT(struct resume_source, member)
static const struct field source_fields[] = {
    {"firstUnit", FIELD_INT, SOURCE(first_unit), .flags = FIELD_REQUIRED},
    {"unitCount", FIELD_INT, SOURCE(n_units), .flags = FIELD_REQUIRED},
    {"from", FIELD_ENUM, SOURCE(kind), .words = kind_names, .flags = FIELD_REQUIRED},
    {"slot", FIELD_INT, SOURCE(slot), .max = PLAN_SLOT_MAX, .flags = FIELD_OMIT},
    {0}};

#define LEAVING(member) FIELD_AT(struct revision_worker, member)
static const struct field leaving_fields[] = {
    {"slot", FIELD_INT, LEAVING(slot), .max = PLAN_SLOT_MAX, .flags = FIELD_REQUIRED},
    {"incarnation", FIELD_INT, LEAVING(incarnation), .min = 1, .max = PLAN_REVISION_MAX,
     .flags = FIELD_REQUIRED},
    {0}};

/* The version and the plan are not in the table. */
#define AT(member) FIELD_AT(struct revision, member)
static const struct field fields[] = {
    {"lineage", FIELD_INT64, AT(resume.lineage), .min = 1, .max = RESUME_STEP_MAX,
     .flags = FIELD_REQUIRED},
    {"origins", FIELD_LIST, FIELD_ITEMS(struct revision, resume.origins.list, resume.origins.n),
     .fields = resume_origin_fields, .flags = FIELD_OMIT},
    {"step", FIELD_INT64, AT(resume.step), .max = RESUME_STEP_MAX, .flags = FIELD_REQUIRED},
    {"end", FIELD_OBJECT, AT(resume.end), .fields = step_end_fields, .flags = FIELD_OMIT},
    {"evaluated", FIELD_INT64, AT(resume.evaluated), .max = RESUME_STEP_MAX, .flags = FIELD_OMIT},
    {"until", FIELD_INT64, AT(until), .max = RESUME_STEP_MAX, .flags = FIELD_OMIT},
    {"sources", FIELD_LIST, FIELD_ITEMS(struct revision, resume.sources, resume.n_sources),
     .fields = source_fields, .flags = FIELD_REQUIRED},
    {"leaving", FIELD_LIST, FIELD_ITEMS(struct revision, leaving, n_leaving),
     .fields = leaving_fields, .flags = FIELD_OMIT},
    {0}};

void revision_make(const struct plan *next, const struct report *const reports[], int n_reports,
                   enum source_kind start, const struct resume *last, struct revision *out)
{
    *out = (struct revision){.plan = *next};
    resume_point(next, reports, n_reports, start, last, &out->resume);
    for (int i = 0; i < n_reports && out->n_leaving < SPEC_STAGES_MAX; i++) {
        const struct report *r = reports[i];
        bool is_source = false;

        for (int s = 0; s < out->resume.n_sources; s++)
            is_source = is_source || (resume_is_worker(&out->resume.sources[s]) &&
                                      out->resume.sources[s].slot == r->slot);
        if (is_source && revision_find(out, r->slot) < 0)
            out->leaving[out->n_leaving++] = (struct revision_worker){r->slot, r->incarnation};
    }
}

enum err_code revision_write(const struct revision *r, const struct json *spec, struct buf *out,
                             struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_int(&w, "version", REVISION_VERSION);
    fields_write(fields, r, &w);
    plan_add(&r->plan, "plan", spec, &w);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

static enum err_code check_sources(const struct revision *r, struct err *err)
{
    int n_units = model_units(&r->plan.spec.model);
    int next = 0;

    for (int i = 0; i < r->resume.n_sources; i++) {
        const struct resume_source *s = &r->resume.sources[i];
        bool is_start = s->kind == SOURCE_RANDOM || s->kind == SOURCE_PRETRAINED;

        if (s->first_unit != next || s->n_units < 1 || s->n_units > n_units - next)
            return err_set(err, ERR_INVALID,
                           "sources[%d]: has %d units from unit %d; must have 1 to %d from unit %d",
                           i, s->n_units, s->first_unit, n_units - next, next);
        if (resume_is_worker(s) && revision_find(r, s->slot) < 0)
            return err_set(err, ERR_INVALID, "sources[%d].slot: there is no worker %d", i, s->slot);
        if (s->kind != SOURCE_WORKER && is_start != (r->resume.step == 0))
            return err_set(err, ERR_INVALID, "sources[%d].from: %s units cannot be at step %lld", i,
                           kind_names[s->kind], (long long)r->resume.step);
        next += s->n_units;
    }
    if (next != n_units)
        return err_set(err, ERR_INVALID, "sources: cover %d of %d units", next, n_units);
    return ERR_OK;
}

static enum err_code check_point(const struct revision *r, struct err *err)
{
    const struct resume *at = &r->resume;
    enum err_code rc = resume_origins_check(&at->origins, at->lineage, err);

    if (rc != ERR_OK)
        return rc;
    if (at->origins.n > 0 && at->origins.list[at->origins.n - 1].step > at->step)
        return err_set(err, ERR_INVALID,
                       "origins: lead to step %lld, but the job goes on from %lld",
                       (long long)at->origins.list[at->origins.n - 1].step, (long long)at->step);
    if (at->end.step != at->step)
        return err_set(err, ERR_INVALID, "end.step: %lld, but the job goes on from step %lld",
                       (long long)at->end.step, (long long)at->step);
    if (at->evaluated > at->step)
        return err_set(err, ERR_INVALID, "evaluated: %lld, but the job goes on from step %lld",
                       (long long)at->evaluated, (long long)at->step);
    if (r->until != 0 && r->until <= at->step)
        return err_set(err, ERR_INVALID, "until: %lld, but the job goes on from step %lld",
                       (long long)r->until, (long long)at->step);
    return ERR_OK;
}

static enum err_code read_revision(const struct json *root, struct revision *r, struct err *err)
{
    enum err_code rc;

    if (json_i64(json_get(root, "version"), 0) != REVISION_VERSION)
        return err_set(err, ERR_INVALID, "version: must be %d", REVISION_VERSION);
    rc = fields_read(fields, root, FIELDS_STRICT, "", r, err);
    if (rc == ERR_OK)
        rc = plan_read(json_get(root, "plan"), &r->plan, err);
    if (rc != ERR_OK)
        return rc;
    for (int i = 0; i < r->n_leaving; i++)
        if (revision_find(r, r->leaving[i].slot) != r->plan.n_workers + i)
            return err_set(err, ERR_INVALID, "leaving[%d].slot: %d is given twice", i,
                           r->leaving[i].slot);
    rc = check_point(r, err);
    return rc == ERR_OK ? check_sources(r, err) : rc;
}

enum err_code revision_parse(const char *text, size_t len, struct revision *out, struct err *err)
{
    struct revision r = {.hash = hash_bytes(HASH_START, text, len)};
    struct json *root = NULL;
    enum err_code rc = json_parse(text, len, &root, err);

    if (rc == ERR_OK)
        rc = read_revision(root, &r, err);
    json_free(root);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "revision");
    *out = r;
    return ERR_OK;
}

int revision_n_workers(const struct revision *r)
{
    return r->plan.n_workers + r->n_leaving;
}

struct revision_worker revision_worker(const struct revision *r, int i)
{
    if (i >= r->plan.n_workers)
        return r->leaving[i - r->plan.n_workers];
    return (struct revision_worker){r->plan.workers[i].slot, r->plan.workers[i].incarnation};
}

int revision_find(const struct revision *r, int slot)
{
    for (int i = 0; i < revision_n_workers(r); i++)
        if (revision_worker(r, i).slot == slot)
            return i;
    return -1;
}

const struct resume_source *revision_source(const struct revision *r, int unit)
{
    const struct resume_source *s = r->resume.sources;

    while (unit >= s->first_unit + s->n_units)
        s++;
    return s;
}

enum err_code revision_compare(const struct revision *current, const struct revision *posted,
                               const struct revision_worker *self, struct err *err)
{
    int number = posted->plan.revision;
    int i = revision_find(posted, self->slot);

    if (i < 0)
        return err_set(err, ERR_CONFLICT, "revision %d has no worker %d", number, self->slot);
    if (revision_worker(posted, i).incarnation != self->incarnation)
        return err_set(err, ERR_CONFLICT,
                       "revision %d is for incarnation %d of worker %d, but this is %d", number,
                       revision_worker(posted, i).incarnation, self->slot, self->incarnation);
    if (!current)
        return ERR_OK;
    if (strcmp(current->plan.uid, posted->plan.uid) != 0)
        return err_set(err, ERR_CONFLICT, "revision %d is of job %s, but this worker is of job %s",
                       number, posted->plan.uid, current->plan.uid);
    if (number < current->plan.revision)
        return err_set(err, ERR_CONFLICT, "revision %d is older than %d, which this worker has",
                       number, current->plan.revision);
    if (number > current->plan.revision)
        return ERR_OK;
    if (posted->hash != current->hash)
        return err_set(err, ERR_CONFLICT, "this worker has a different revision %d", number);
    return ERR_AGAIN;
}

/* --- on the control port --- */

enum err_code revision_post_write(const char *text, size_t len, const struct peers *peers,
                                  struct buf *out, struct err *err)
{
    enum err_code rc = buf_addf(out, err, "{\"revision\":");

    if (rc == ERR_OK)
        rc = buf_add(out, text, len, err);
    if (rc == ERR_OK)
        rc = buf_addf(out, err, ",\"addresses\":");
    if (rc == ERR_OK)
        rc = peers_write(peers, out, err);
    return rc == ERR_OK ? buf_addf(out, err, "}") : rc;
}

enum err_code revision_post_parse(const char *text, size_t len, struct revision *out,
                                  struct peers *out_peers, struct err *err)
{
    const struct jsonraw whole = {text, len};
    struct jsonraw part = {.text = NULL};
    struct revision r = {.hash = 0};
    struct peers peers = {.n = 0};
    enum err_code rc;

    if (!jsonraw_member(whole, "addresses", &part))
        return err_set(err, ERR_INVALID, "a revision without addresses");
    rc = peers_parse(part.text, part.len, &peers, err);
    if (rc == ERR_OK && !jsonraw_member(whole, "revision", &part))
        rc = err_set(err, ERR_INVALID, "addresses without a revision");
    if (rc == ERR_OK)
        rc = revision_parse(part.text, part.len, &r, err);
    if (rc == ERR_OK && peers.n != revision_n_workers(&r))
        rc = err_set(err, ERR_INVALID, "%d addresses for %d workers", peers.n,
                     revision_n_workers(&r));
    if (rc != ERR_OK)
        return rc;
    *out = r;
    *out_peers = peers;
    return ERR_OK;
}

static const struct field order_fields[] = {{"revision", FIELD_INT, FIELD_ENTRY(int), .min = 1,
                                             .max = PLAN_REVISION_MAX, .flags = FIELD_REQUIRED},
                                            {0}};

enum err_code revision_order_write(int revision, struct buf *out, struct err *err)
{
    return fields_print(order_fields, &revision, out, err);
}

enum err_code revision_order_parse(const char *text, size_t len, int *out_revision, struct err *err)
{
    int revision = 0;
    enum err_code rc = fields_parse(order_fields, text, len, FIELDS_STRICT, &revision, err);

    if (rc != ERR_OK)
        return err_wrap(err, rc, "order");
    *out_revision = revision;
    return ERR_OK;
}
