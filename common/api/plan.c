#include "api/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

static void write_stage(struct jsonw *w, const struct plan *p, int s)
{
    const struct plan_stage *stage = &p->stages[s];
    char units[MODEL_NAME_BYTES];

    model_range_name(&p->spec.model, stage->first_unit, stage->n_units, units);
    jsonw_open_object(w, NULL);
    jsonw_int(w, "firstUnit", stage->first_unit);
    jsonw_int(w, "units", stage->n_units);
    jsonw_string(w, "description", units);
    jsonw_string(w, "node", stage->node);
    jsonw_int(w, "cpuMilli", stage->cpu_milli);
    jsonw_int(w, "memoryBytes", stage->memory_bytes);
    jsonw_double(w, "predictedMs", stage->predicted_ms);
    jsonw_close(w);
}

void plan_left_out_write(const struct plan_left_out list[static PLAN_LEFT_OUT_MAX], int n,
                         struct jsonw *w)
{
    if (n <= 0) { /* in a merge patch that also removes what was there */
        jsonw_null(w, "leftOutCount");
        jsonw_null(w, "leftOut");
        return;
    }
    jsonw_int(w, "leftOutCount", n);
    jsonw_open_array(w, "leftOut");
    for (int i = 0; i < n && i < PLAN_LEFT_OUT_MAX; i++) {
        jsonw_open_object(w, NULL);
        jsonw_string(w, "node", list[i].node);
        jsonw_string(w, "reason", list[i].reason);
        jsonw_close(w);
    }
    jsonw_close(w);
}

int plan_left_out_read(const struct json *root, struct plan_left_out out[static PLAN_LEFT_OUT_MAX])
{
    int n = json_int(json_get(root, "leftOutCount"), 0);
    int n_listed = 0;

    for (const struct json *v = json_first(json_get(root, "leftOut"));
         v && n_listed < PLAN_LEFT_OUT_MAX; v = json_next(v)) {
        struct plan_left_out *to = &out[n_listed++];

        (void)snprintf(to->node, sizeof to->node, "%s", json_string(json_get(v, "node"), ""));
        (void)snprintf(to->reason, sizeof to->reason, "%s", json_string(json_get(v, "reason"), ""));
    }
    return n_listed < PLAN_LEFT_OUT_MAX || n < n_listed ? n_listed : n;
}

enum err_code plan_write(const struct plan *p, const struct json *spec, struct buf *out,
                         struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_int(&w, "version", PLAN_VERSION);
    jsonw_string(&w, "namespace", p->namespace);
    jsonw_string(&w, "job", p->job);
    jsonw_string(&w, "uid", p->uid);
    jsonw_int(&w, "attempt", p->attempt);
    jsonw_int(&w, "microBatches", p->spec.training.micro_batches);
    if (p->is_serial)
        jsonw_bool(&w, "serial", true);
    jsonw_double(&w, "predictedStepMs", p->predicted_step_ms);
    jsonw_double(&w, "boundMs", p->bound_ms);
    jsonw_double(&w, "evenStepMs", p->even_step_ms);
    jsonw_double(&w, "dynamicStepMs", p->dynamic_step_ms);
    jsonw_int(&w, "bottleneck", p->bottleneck);
    plan_left_out_write(p->left_out, p->n_left_out, &w);
    jsonw_string(&w, "reason", p->reason);
    jsonw_open_array(&w, "stages");
    for (int s = 0; s < p->n_stages; s++)
        write_stage(&w, p, s);
    jsonw_close(&w);
    jsonw_value(&w, "spec", spec);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

static enum err_code copy_text(const struct json *root, const char *key, char *out, size_t bytes,
                               struct err *err)
{
    const char *s = json_string(json_get(root, key), NULL);

    if (!s || strlen(s) >= bytes)
        return err_set(err, ERR_INVALID, "%s: missing or longer than %zu bytes", key, bytes - 1);
    memcpy(out, s, strlen(s) + 1);
    return ERR_OK;
}

static enum err_code read_stage(const struct json *v, struct plan *p, int next_unit,
                                struct err *err)
{
    struct plan_stage *s = &p->stages[p->n_stages];
    int left = model_units(&p->spec.model) - next_unit;
    enum err_code rc = copy_text(v, "node", s->node, sizeof s->node, err);

    if (rc != ERR_OK)
        return err_wrap(err, rc, "stage %d", p->n_stages);
    s->first_unit = json_int(json_get(v, "firstUnit"), -1);
    s->n_units = json_int(json_get(v, "units"), -1);
    s->cpu_milli = json_int(json_get(v, "cpuMilli"), 0);
    s->memory_bytes = json_i64(json_get(v, "memoryBytes"), 0);
    s->predicted_ms = json_double(json_get(v, "predictedMs"), 0);
    if (s->first_unit != next_unit || s->n_units < 1 || s->n_units > left)
        return err_set(err, ERR_INVALID,
                       "stage %d: has %d units from unit %d; must start at unit %d and leave none "
                       "over",
                       p->n_stages, s->n_units, s->first_unit, next_unit);
    return ERR_OK;
}

static enum err_code read_stages(const struct json *root, struct plan *p, struct err *err)
{
    int next_unit = 0;

    for (const struct json *v = json_first(json_get(root, "stages")); v; v = json_next(v)) {
        enum err_code rc;

        if (p->n_stages == SPEC_STAGES_MAX)
            return err_set(err, ERR_LIMIT, "more than %d stages", SPEC_STAGES_MAX);
        rc = read_stage(v, p, next_unit, err);
        if (rc != ERR_OK)
            return rc;
        next_unit += p->stages[p->n_stages++].n_units;
    }
    if (next_unit != model_units(&p->spec.model))
        return err_set(err, ERR_INVALID, "stages: cover %d of %d units", next_unit,
                       model_units(&p->spec.model));
    return ERR_OK;
}

/* M as it was planned, which the spec need not say. */
static enum err_code read_micro_batches(const struct json *root, struct spec *spec, struct err *err)
{
    int m = json_int(json_get(root, "microBatches"), spec->training.micro_batches);

    if (m < 1 || spec->training.batch_size % m != 0)
        return err_set(err, ERR_INVALID, "microBatches: %d does not divide a batch of %d", m,
                       spec->training.batch_size);
    spec->training.micro_batches = m;
    return ERR_OK;
}

/* Only shown to people, so what is not there or not right does no harm. */
static void read_comparison(const struct json *root, struct plan *p)
{
    p->even_step_ms = json_double(json_get(root, "evenStepMs"), 0);
    p->dynamic_step_ms = json_double(json_get(root, "dynamicStepMs"), 0);
    p->bottleneck = json_int(json_get(root, "bottleneck"), 0);
    p->n_left_out = plan_left_out_read(root, p->left_out);
}

static enum err_code read_plan(const struct json *root, struct plan *p, struct err *err)
{
    enum err_code rc;

    if (json_i64(json_get(root, "version"), 0) != PLAN_VERSION)
        return err_set(err, ERR_INVALID, "version: must be %d", PLAN_VERSION);
    p->attempt = json_int(json_get(root, "attempt"), 0);
    p->is_serial = json_bool(json_get(root, "serial"), false);
    p->predicted_step_ms = json_double(json_get(root, "predictedStepMs"), 0);
    p->bound_ms = json_double(json_get(root, "boundMs"), 0);
    read_comparison(root, p);
    rc = copy_text(root, "namespace", p->namespace, sizeof p->namespace, err);
    if (rc == ERR_OK)
        rc = copy_text(root, "job", p->job, sizeof p->job, err);
    if (rc == ERR_OK)
        rc = copy_text(root, "uid", p->uid, sizeof p->uid, err);
    if (rc == ERR_OK)
        rc = copy_text(root, "reason", p->reason, sizeof p->reason, err);
    if (rc == ERR_OK)
        rc = spec_parse(json_get(root, "spec"), &p->spec, err);
    if (rc == ERR_OK)
        rc = read_micro_batches(root, &p->spec, err);
    if (rc == ERR_OK)
        rc = read_stages(root, p, err);
    return rc;
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
