#include "api/plan.h"

#include "base/hash.h"

#define STAGE(member) FIELD_AT(struct plan_stage, member)
static const struct field stage_fields[] = {
    {"firstUnit", FIELD_INT, STAGE(first_unit), .flags = FIELD_REQUIRED},
    {"unitCount", FIELD_INT, STAGE(n_units), .flags = FIELD_REQUIRED},
    {"units", FIELD_TEXT, STAGE(units)},
    {"node", FIELD_TEXT, STAGE(node), .flags = FIELD_REQUIRED},
    {"cpuMilli", FIELD_INT, STAGE(cpu_milli)},
    {"memoryBytes", FIELD_INT64, STAGE(memory_bytes)},
    {"predictedMicroseconds", FIELD_MICROSECONDS, STAGE(predicted_ms)},
    {0}};

static const struct field excluded_fields[] = {
    {"node", FIELD_TEXT, FIELD_AT(struct plan_left_out, node)},
    {"explanation", FIELD_TEXT, FIELD_AT(struct plan_left_out, reason)},
    {0}};

static const struct field alternative_fields[] = {
    {"strategy", FIELD_TEXT, FIELD_AT(struct plan_alternative, strategy)},
    {"stepMilliseconds", FIELD_DOUBLE, FIELD_AT(struct plan_alternative, step_ms)},
    {0}};

#define SUMMARY(member) FIELD_AT(struct plan_summary, member)
static const struct field summary_fields[] = {
    {"predictedStepMilliseconds", FIELD_DOUBLE, SUMMARY(predicted_step_ms)},
    {"boundMilliseconds", FIELD_DOUBLE, SUMMARY(bound_ms)},
    {"alternatives", FIELD_LIST, FIELD_ITEMS(struct plan_summary, alternatives, n_alternatives),
     .fields = alternative_fields},
    {"bottleneck", FIELD_INT, SUMMARY(bottleneck)},
    {"excludedNodes", FIELD_LIST, FIELD_ITEMS(struct plan_summary, left_out, n_left_out),
     .fields = excluded_fields, .flags = FIELD_OMIT},
    {"excludedNodeCount", FIELD_INT, SUMMARY(n_left_out), .flags = FIELD_OMIT},
    {"explanation", FIELD_TEXT, SUMMARY(explanation), .flags = FIELD_REQUIRED},
    {0}};

/* The version, the summary and the spec are not in the table. */
#define AT(member) FIELD_AT(struct plan, member)
static const struct field fields[] = {
    {"namespace", FIELD_TEXT, AT(namespace), .flags = FIELD_REQUIRED},
    {"job", FIELD_TEXT, AT(job), .flags = FIELD_REQUIRED},
    {"uid", FIELD_TEXT, AT(uid), .flags = FIELD_REQUIRED},
    {"attempt", FIELD_INT, AT(attempt)},
    {"microBatches", FIELD_INT, AT(micro_batches), .flags = FIELD_REQUIRED},
    {"serial", FIELD_BOOL, AT(is_serial), .flags = FIELD_OMIT},
    {"stages", FIELD_LIST, FIELD_ITEMS(struct plan, stages, n_stages), .fields = stage_fields,
     .flags = FIELD_REQUIRED},
    {0}};

const struct field *plan_stage_fields(void)
{
    return stage_fields;
}

const struct field *plan_summary_fields(void)
{
    return summary_fields;
}

enum err_code plan_write(const struct plan *p, const struct json *spec, struct buf *out,
                         struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_int(&w, "version", PLAN_VERSION);
    fields_write(fields, p, &w);
    fields_write(summary_fields, &p->summary, &w);
    jsonw_value(&w, "spec", spec);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

/* The stages cover every unit once, in order. */
static enum err_code check_stages(const struct plan *p, struct err *err)
{
    int n_units = model_units(&p->spec.model);
    int next = 0;

    for (int i = 0; i < p->n_stages; i++) {
        const struct plan_stage *s = &p->stages[i];

        if (s->first_unit != next || s->n_units < 1 || s->n_units > n_units - next)
            return err_set(err, ERR_INVALID,
                           "stages[%d]: has %d units from unit %d; must have 1 to %d from unit %d",
                           i, s->n_units, s->first_unit, n_units - next, next);
        next += s->n_units;
    }
    if (next != n_units)
        return err_set(err, ERR_INVALID, "stages: cover %d of %d units", next, n_units);
    return ERR_OK;
}

static enum err_code read_plan(const struct json *root, struct plan *p, struct err *err)
{
    enum err_code rc;

    if (json_i64(json_get(root, "version"), 0) != PLAN_VERSION)
        return err_set(err, ERR_INVALID, "version: must be %d", PLAN_VERSION);
    rc = fields_read(fields, root, FIELDS_STRICT, "", p, err);
    if (rc == ERR_OK)
        rc = fields_read(summary_fields, root, FIELDS_STRICT, "", &p->summary, err);
    if (rc == ERR_OK)
        rc = spec_parse(json_get(root, "spec"), &p->spec, err);
    if (rc == ERR_OK && !spec_has_sizes(&p->spec))
        rc = err_set(err, ERR_INVALID, "spec.model: must have the sizes of the model");
    if (rc == ERR_OK &&
        (p->micro_batches < 1 || p->spec.training.batch_size % p->micro_batches != 0))
        rc = err_set(err, ERR_INVALID, "microBatches: %d does not divide a batch of %d",
                     p->micro_batches, p->spec.training.batch_size);
    return rc == ERR_OK ? check_stages(p, err) : rc;
}

enum err_code plan_parse(const char *text, size_t len, struct plan *out, struct err *err)
{
    struct plan p = {0};
    struct json *root = NULL;
    enum err_code rc = json_parse(text, len, &root, err);

    if (rc == ERR_OK)
        rc = read_plan(root, &p, err);
    json_free(root);
    if (rc == ERR_OK)
        *out = p;
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "plan");
}

uint64_t plan_hash(const struct plan *p)
{
    uint64_t h = hash_text(p->uid);

    h = hash_bytes(h, &p->attempt, sizeof p->attempt);
    for (int s = 0; s < p->n_stages; s++)
        h = hash_bytes(h, &p->stages[s].n_units, sizeof p->stages[s].n_units);
    return h;
}
