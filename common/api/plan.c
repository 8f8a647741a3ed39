#include "api/plan.h"

#include <string.h>

#include "base/hash.h"

#define WORKER(member) FIELD_AT(struct plan_worker, member)
const struct field plan_worker_fields[] = {
    {"slot", FIELD_INT, WORKER(slot), .max = PLAN_SLOT_MAX, .flags = FIELD_REQUIRED},
    {"incarnation", FIELD_INT, WORKER(incarnation), .min = 1, .max = PLAN_REVISION_MAX,
     .flags = FIELD_REQUIRED},
    {"replica", FIELD_INT, WORKER(replica), .max = SPEC_STAGES_MAX - 1},
    {"firstUnit", FIELD_INT, WORKER(first_unit), .flags = FIELD_REQUIRED},
    {"unitCount", FIELD_INT, WORKER(n_units), .flags = FIELD_REQUIRED},
    {"units", FIELD_TEXT, WORKER(units)},
    {"node", FIELD_TEXT, WORKER(node), .flags = FIELD_REQUIRED},
    {"cpuMilli", FIELD_INT, WORKER(cpu_milli)},
    {"memoryBytes", FIELD_INT64, WORKER(memory_bytes)},
    {"predictedMicroseconds", FIELD_MICROSECONDS, WORKER(predicted_ms)},
    {0}};

const struct field plan_excluded_fields[] = {
    {"node", FIELD_TEXT, FIELD_AT(struct plan_excluded, node), .min = 1, .flags = FIELD_REQUIRED},
    {"explanation", FIELD_TEXT, FIELD_AT(struct plan_excluded, reason)},
    {0}};

static const struct field alternative_fields[] = {
    {"strategy", FIELD_TEXT, FIELD_AT(struct plan_alternative, strategy)},
    {"stepMilliseconds", FIELD_DOUBLE, FIELD_AT(struct plan_alternative, step_ms)},
    {0}};

#define SUMMARY(member) FIELD_AT(struct plan_summary, member)
const struct field plan_summary_fields[] = {
    {"predictedStepMilliseconds", FIELD_DOUBLE, SUMMARY(predicted_step_ms)},
    {"boundMilliseconds", FIELD_DOUBLE, SUMMARY(bound_ms)},
    {"alternatives", FIELD_LIST, FIELD_ITEMS(struct plan_summary, alternatives, n_alternatives),
     .fields = alternative_fields},
    {"bottleneck", FIELD_INT, SUMMARY(bottleneck)},
    {"excludedNodes", FIELD_LIST, FIELD_ITEMS(struct plan_summary, excluded, n_excluded),
     .fields = plan_excluded_fields, .flags = FIELD_OMIT},
    {"excludedNodeCount", FIELD_INT, SUMMARY(n_excluded), .flags = FIELD_OMIT},
    {"explanation", FIELD_TEXT, SUMMARY(explanation), .flags = FIELD_REQUIRED},
    {0}};

/* The version, the summary and the spec are not in the table. */
#define AT(member) FIELD_AT(struct plan, member)
static const struct field fields[] = {
    {"namespace", FIELD_TEXT, AT(namespace), .flags = FIELD_REQUIRED},
    {"job", FIELD_TEXT, AT(job), .flags = FIELD_REQUIRED},
    {"uid", FIELD_TEXT, AT(uid), .flags = FIELD_REQUIRED},
    {"revision", FIELD_INT, AT(revision), .min = 1, .max = PLAN_REVISION_MAX,
     .flags = FIELD_REQUIRED},
    {"microBatches", FIELD_INT, AT(micro_batches), .flags = FIELD_REQUIRED},
    {"savesFromCopy", FIELD_BOOL, AT(saves_from_copy), .flags = FIELD_OMIT},
    {"serial", FIELD_BOOL, AT(is_serial), .flags = FIELD_OMIT},
    {"workers", FIELD_LIST, FIELD_ITEMS(struct plan, workers, n_workers),
     .fields = plan_worker_fields, .flags = FIELD_REQUIRED},
    {0}};

void plan_add(const struct plan *p, const char *key, const struct json *spec, struct jsonw *w)
{
    jsonw_open_object(w, key);
    jsonw_int(w, "version", PLAN_VERSION);
    fields_write(fields, p, w);
    fields_write(plan_summary_fields, &p->summary, w);
    jsonw_value(w, "spec", spec);
    jsonw_close(w);
}

enum err_code plan_write(const struct plan *p, const struct json *spec, struct buf *out,
                         struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    plan_add(p, NULL, spec, &w);
    return jsonw_finish(&w, err);
}

static enum err_code check_workers(const struct plan *p, struct err *err)
{
    int n_units = model_units(&p->spec.model);
    int next = 0;

    for (int i = 0; i < p->n_workers; i++) {
        const struct plan_worker *w = &p->workers[i];

        if (plan_find(p, w->slot) != i)
            return err_set(err, ERR_INVALID, "workers[%d].slot: %d is given twice", i, w->slot);
        if (w->replica != 0)
            return err_set(err, ERR_INVALID, "workers[%d].replica: %d, but there is one", i,
                           w->replica);
        if (w->first_unit != next || w->n_units < 1 || w->n_units > n_units - next)
            return err_set(err, ERR_INVALID,
                           "workers[%d]: has %d units from unit %d; must have 1 to %d from unit %d",
                           i, w->n_units, w->first_unit, n_units - next, next);
        next += w->n_units;
    }
    if (next != n_units)
        return err_set(err, ERR_INVALID, "workers: have %d of %d units", next, n_units);
    return ERR_OK;
}

static enum err_code read_plan(const struct json *json, struct plan *p, struct err *err)
{
    enum err_code rc;

    if (json_i64(json_get(json, "version"), 0) != PLAN_VERSION)
        return err_set(err, ERR_INVALID, "version: must be %d", PLAN_VERSION);
    rc = fields_read(fields, json, FIELDS_STRICT, "", p, err);
    if (rc == ERR_OK)
        rc = fields_read(plan_summary_fields, json, FIELDS_STRICT, "", &p->summary, err);
    if (rc == ERR_OK)
        rc = spec_parse(json_get(json, "spec"), &p->spec, err);
    if (rc != ERR_OK)
        return rc;
    if (!spec_has_sizes(&p->spec))
        return err_set(err, ERR_INVALID, "spec.model: must have the sizes of the model");
    if (p->micro_batches < 1 || p->spec.training.batch_size % p->micro_batches != 0)
        return err_set(err, ERR_INVALID, "microBatches: %d does not divide a batch of %d",
                       p->micro_batches, p->spec.training.batch_size);
    return check_workers(p, err);
}

enum err_code plan_read(const struct json *json, struct plan *out, struct err *err)
{
    struct plan p = {0};
    enum err_code rc = read_plan(json, &p, err);

    if (rc == ERR_OK)
        *out = p;
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "plan");
}

enum err_code plan_parse(const char *text, size_t len, struct plan *out, struct err *err)
{
    struct json *root = NULL;
    enum err_code rc = json_parse(text, len, &root, err);

    rc = rc == ERR_OK ? plan_read(root, out, err) : err_wrap(err, rc, "plan");
    json_free(root);
    return rc;
}

int plan_find(const struct plan *p, int slot)
{
    for (int i = 0; i < p->n_workers; i++)
        if (p->workers[i].slot == slot)
            return i;
    return -1;
}

void plan_keepers(const struct plan *p, int out[static SPEC_STAGES_MAX])
{
    int n_kept[SPEC_STAGES_MAX] = {0};

    for (int s = 0; s < p->n_workers; s++) {
        out[s] = -1;
        for (int i = 1; i < p->n_workers && out[s] < 0; i++) {
            int k = (s + i) % p->n_workers;

            if (strcmp(p->workers[k].node, p->workers[s].node) != 0 && n_kept[k] < PLAN_KEPT_MAX)
                out[s] = k;
        }
        if (out[s] >= 0)
            n_kept[out[s]]++;
    }
}

bool plan_has_keepers(const struct plan *p)
{
    int keepers[SPEC_STAGES_MAX];
    int s = 0;

    plan_keepers(p, keepers);
    while (s < p->n_workers && keepers[s] < 0)
        s++;
    return s < p->n_workers;
}

bool plan_saves(const struct plan *p)
{
    return p->spec.checkpoint.is_on && (!p->spec.checkpoint.is_peers || plan_has_keepers(p));
}

uint64_t plan_hash(const struct plan *p)
{
    uint64_t h = hash_text(p->uid);

    h = hash_bytes(h, &p->revision, sizeof p->revision);
    for (int i = 0; i < p->n_workers; i++) {
        const struct plan_worker *w = &p->workers[i];

        h = hash_bytes(h, &w->slot, sizeof w->slot);
        h = hash_bytes(h, &w->incarnation, sizeof w->incarnation);
        h = hash_bytes(h, &w->n_units, sizeof w->n_units);
    }
    return h;
}
