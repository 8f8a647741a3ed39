#include "api/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static const char *const type_names[CONDITION_COUNT] = {
    "Accepted", "Placed", "Running", "UpToDate", "Stalled", "Complete", "Failed"};
static const char *const value_names[] = {"", "Unknown", "False", "True"};

const char *condition_name(enum condition_type type)
{
    return type_names[type];
}

bool status_is(const struct status *s, enum condition_type type)
{
    return s->conditions[type].value == CONDITION_TRUE;
}

bool status_is_final(const struct status *s)
{
    return status_is(s, CONDITION_COMPLETE) || status_is(s, CONDITION_FAILED);
}

bool status_set(struct status *s, const struct condition_set *set, int64_t now_ms)
{
    struct condition *c = &s->conditions[set->type];
    bool changed = c->value != set->value || strcmp(c->reason, set->reason) != 0;

    if (c->value != set->value)
        c->changed_ms = now_ms - now_ms % 1000;
    c->value = set->value;
    c->generation = s->generation;
    (void)snprintf(c->reason, sizeof c->reason, "%s", set->reason);
    (void)snprintf(c->message, sizeof c->message, "%s", set->message);
    return changed;
}

/* --- from JSON --- */

#define COPY(array, json, key)                                                                     \
    (void)snprintf((array), sizeof(array), "%s", json_string(json_get((json), (key)), ""))

static int64_t read_time(const struct json *v)
{
    int64_t ms;

    return clock_parse(json_string(v, ""), &ms, NULL) == ERR_OK ? ms : 0;
}

static void read_condition(const struct json *v, struct status *s)
{
    const char *type = json_string(json_get(v, "type"), "");
    const char *value = json_string(json_get(v, "status"), "");

    for (int t = 0; t < CONDITION_COUNT; t++) {
        struct condition *c = &s->conditions[t];

        if (strcmp(type, type_names[t]) != 0)
            continue;
        for (int i = CONDITION_UNKNOWN; i <= CONDITION_TRUE; i++)
            if (strcmp(value, value_names[i]) == 0)
                c->value = (enum condition_value)i;
        COPY(c->reason, v, "reason");
        COPY(c->message, v, "message");
        c->generation = json_i64(json_get(v, "observedGeneration"), 0);
        c->changed_ms = read_time(json_get(v, "lastTransitionTime"));
    }
}

static void read_progress(const struct json *v, struct status_progress *p)
{
    if (json_kind_of(v) != JSON_OBJECT)
        return;
    p->is_set = true;
    p->step = json_i64(json_get(v, "step"), 0);
    p->total_steps = json_i64(json_get(v, "totalSteps"), 0);
    p->skipped_steps = json_i64(json_get(v, "skippedSteps"), 0);
    p->epoch = json_int(json_get(v, "epoch"), 0);
    COPY(p->loss, v, "loss");
    COPY(p->initialised, v, "initialised");
    p->tokens_per_second = json_i64(json_get(v, "tokensPerSecond"), 0);
    p->step_ms = json_double(json_get(v, "stepMs"), 0);
    p->percentage = json_int(json_get(v, "percentage"), 0);
    p->remaining_seconds = json_i64(json_get(v, "estimatedRemainingSeconds"), -1);
    p->updated_ms = read_time(json_get(v, "lastUpdatedTime"));
    for (const struct json *m = json_first(json_get(v, "metrics")); m; m = json_next(m)) {
        if (p->n_metrics == PROGRESS_METRICS_MAX)
            break;
        COPY(p->metrics[p->n_metrics].name, m, "name");
        COPY(p->metrics[p->n_metrics].value, m, "value");
        p->n_metrics++;
    }
}

static void read_stages(const struct json *list, struct status *s)
{
    for (const struct json *v = json_first(list); v; v = json_next(v)) {
        int64_t stage = json_i64(json_get(v, "stage"), -1);
        struct status_stage *to;

        if (stage < 0 || stage >= SPEC_STAGES_MAX)
            continue;
        to = &s->stages[stage];
        COPY(to->pod, v, "pod");
        COPY(to->pod_uid, v, "podUID");
        COPY(to->node, v, "node");
        COPY(to->units, v, "units");
        to->predicted_ms = json_double(json_get(v, "predictedMs"), 0);
        to->measured_ms = json_double(json_get(v, "measuredMs"), 0);
        to->busy_percent = json_int(json_get(v, "busyPercent"), 0);
        to->off_since_step = json_i64(json_get(v, "offSinceStep"), 0);
        to->is_off_told = json_bool(json_get(v, "offReported"), false);
        to->is_ready = json_bool(json_get(v, "ready"), false);
        COPY(to->state, v, "state");
        if (s->n_stages < stage + 1)
            s->n_stages = (int)stage + 1;
    }
}

/* The list, and how many there are in all. */
static const struct field left_out_fields[] = {
    {"leftOut", FIELD_LIST, FIELD_ITEMS(struct status_placement, left_out, n_left_out),
     .fields = plan_left_out_fields, .flags = FIELD_NULL},
    {"leftOutCount", FIELD_INT, FIELD_AT(struct status_placement, n_left_out), .flags = FIELD_NULL},
    {0}};

static void read_placement(const struct json *v, struct status_placement *p)
{
    COPY(p->strategy, v, "strategy");
    COPY(p->nodes, v, "nodes");
    p->predicted_step_ms = json_double(json_get(v, "predictedStepMs"), 0);
    p->bound_ms = json_double(json_get(v, "boundMs"), 0);
    p->even_step_ms = json_double(json_get(v, "evenStepMs"), 0);
    p->dynamic_step_ms = json_double(json_get(v, "dynamicStepMs"), 0);
    p->bottleneck = json_int(json_get(v, "bottleneck"), 0);
    COPY(p->reason, v, "reason");
    (void)!fields_read(left_out_fields, v, FIELDS_TOLERANT, "", p, NULL);
}

void status_read(const struct json *json, struct status *out)
{
    struct status s = {0};

    COPY(s.state, json, "state");
    COPY(s.message, json, "message");
    s.generation = json_i64(json_get(json, "observedGeneration"), 0);
    for (const struct json *v = json_first(json_get(json, "conditions")); v; v = json_next(v))
        read_condition(v, &s);
    s.attempt = json_int(json_get(json, "attempt"), 0);
    if (s.attempt > NAMES_ATTEMPT_MAX)
        s.attempt = NAMES_ATTEMPT_MAX;
    s.restarts = json_int(json_get(json, "restarts"), 0);
    s.restarts_in_a_row = json_int(json_get(json, "restartsInARow"), 0);
    s.next_attempt_ms = read_time(json_get(json, "nextAttemptTime"));
    s.memory_percent = json_int(json_get(json, "memoryPercent"), 0);
    s.start_ms = read_time(json_get(json, "startTime"));
    s.completion_ms = read_time(json_get(json, "completionTime"));
    read_progress(json_get(json, "progress"), &s.progress);
    read_stages(json_get(json, "stages"), &s);
    read_placement(json_get(json, "placement"), &s.placement);
    *out = s;
}

/* --- to JSON --- */

static void write_text(struct jsonw *w, const char *key, const char *text)
{
    if (*text)
        jsonw_string(w, key, text);
    else
        jsonw_null(w, key);
}

static void write_time(struct jsonw *w, const char *key, int64_t ms)
{
    char text[CLOCK_TEXT_BYTES];

    if (ms == 0) {
        jsonw_null(w, key);
        return;
    }
    clock_format(ms, text);
    jsonw_string(w, key, text);
}

static void write_count(struct jsonw *w, const char *key, int64_t n)
{
    if (n > 0)
        jsonw_int(w, key, n);
    else
        jsonw_null(w, key);
}

/* Three decimals are more than anybody measures. Left out, not null, when not known: inside a list
 * a merge patch does not take nulls away. */
static void write_ms(struct jsonw *w, const char *key, double ms)
{
    if (isfinite(ms) && ms > 0)
        jsonw_double(w, key, round(ms * 1000) / 1000);
}

/* Outside of lists, where it does. */
static void write_ms_or_null(struct jsonw *w, const char *key, double ms)
{
    if (isfinite(ms) && ms > 0)
        write_ms(w, key, ms);
    else
        jsonw_null(w, key);
}

static void write_conditions(const struct status *s, struct jsonw *w)
{
    jsonw_open_array(w, "conditions");
    for (int t = 0; t < CONDITION_COUNT; t++) {
        const struct condition *c = &s->conditions[t];

        if (c->value == CONDITION_UNSET)
            continue;
        jsonw_open_object(w, NULL);
        jsonw_string(w, "type", type_names[t]);
        jsonw_string(w, "status", value_names[c->value]);
        jsonw_string(w, "reason", c->reason);
        jsonw_string(w, "message", c->message);
        jsonw_int(w, "observedGeneration", c->generation);
        write_time(w, "lastTransitionTime", c->changed_ms);
        jsonw_close(w);
    }
    jsonw_close(w);
}

static void write_progress(const struct status_progress *p, struct jsonw *w)
{
    if (!p->is_set) {
        jsonw_null(w, "progress");
        return;
    }
    jsonw_open_object(w, "progress");
    jsonw_int(w, "step", p->step);
    jsonw_int(w, "totalSteps", p->total_steps);
    write_count(w, "skippedSteps", p->skipped_steps);
    jsonw_int(w, "epoch", p->epoch);
    write_text(w, "loss", p->loss);
    jsonw_int(w, "tokensPerSecond", p->tokens_per_second);
    write_ms_or_null(w, "stepMs", p->step_ms);
    jsonw_int(w, "percentage", p->percentage);
    if (p->remaining_seconds >= 0)
        jsonw_int(w, "estimatedRemainingSeconds", p->remaining_seconds);
    else
        jsonw_null(w, "estimatedRemainingSeconds");
    write_time(w, "lastUpdatedTime", p->updated_ms);
    write_text(w, "initialised", p->initialised);
    jsonw_open_array(w, "metrics");
    for (int i = 0; i < p->n_metrics; i++) {
        jsonw_open_object(w, NULL);
        jsonw_string(w, "name", p->metrics[i].name);
        jsonw_string(w, "value", p->metrics[i].value);
        jsonw_close(w);
    }
    jsonw_close(w);
    jsonw_close(w);
}

static void write_times(const struct status_stage *s, struct jsonw *w)
{
    write_ms(w, "predictedMs", s->predicted_ms);
    write_ms(w, "measuredMs", s->measured_ms);
    if (s->busy_percent > 0)
        jsonw_int(w, "busyPercent", s->busy_percent);
    if (s->off_since_step > 0)
        jsonw_int(w, "offSinceStep", s->off_since_step);
    if (s->is_off_told)
        jsonw_bool(w, "offReported", true);
}

static void write_stages(const struct status *s, struct jsonw *w)
{
    int n_ready = 0;

    jsonw_open_array(w, "stages");
    for (int i = 0; i < s->n_stages; i++) {
        const struct status_stage *t = &s->stages[i];

        n_ready += t->is_ready || strcmp(t->state, "Succeeded") == 0;
        jsonw_open_object(w, NULL);
        jsonw_int(w, "stage", i);
        jsonw_string(w, "pod", t->pod);
        if (t->pod_uid[0])
            jsonw_string(w, "podUID", t->pod_uid);
        jsonw_string(w, "node", t->node);
        jsonw_string(w, "units", t->units);
        write_times(t, w);
        jsonw_bool(w, "ready", t->is_ready);
        jsonw_string(w, "state", t->state);
        jsonw_close(w);
    }
    jsonw_close(w);
    if (s->n_stages > 0)
        jsonw_stringf(w, "stagesReady", "%d/%d", n_ready, s->n_stages);
    else
        jsonw_null(w, "stagesReady");
}

static void write_placement(const struct status_placement *p, struct jsonw *w)
{
    if (p->strategy[0] == '\0') {
        jsonw_null(w, "placement");
        return;
    }
    jsonw_open_object(w, "placement");
    jsonw_string(w, "strategy", p->strategy);
    jsonw_string(w, "nodes", p->nodes);
    write_ms_or_null(w, "predictedStepMs", p->predicted_step_ms);
    write_ms_or_null(w, "boundMs", p->bound_ms);
    write_ms_or_null(w, "evenStepMs", p->even_step_ms);
    write_ms_or_null(w, "dynamicStepMs", p->dynamic_step_ms);
    jsonw_int(w, "bottleneck", p->bottleneck);
    fields_write(left_out_fields, p, w);
    jsonw_string(w, "reason", p->reason);
    jsonw_close(w);
}

void status_write(const struct status *s, struct jsonw *w, const char *key)
{
    jsonw_open_object(w, key);
    write_text(w, "state", s->state);
    write_text(w, "message", s->message);
    jsonw_int(w, "observedGeneration", s->generation);
    write_conditions(s, w);
    write_count(w, "attempt", s->attempt);
    jsonw_int(w, "restarts", s->restarts);
    write_count(w, "restartsInARow", s->restarts_in_a_row);
    write_time(w, "nextAttemptTime", s->next_attempt_ms);
    write_count(w, "memoryPercent", s->memory_percent);
    write_time(w, "startTime", s->start_ms);
    write_time(w, "completionTime", s->completion_ms);
    write_progress(&s->progress, w);
    write_stages(s, w);
    write_placement(&s->placement, w);
    jsonw_close(w);
}

/* --- progress --- */

/* Loss and metrics for people: four digits say all that a step's noise leaves. */
static void write_figure(double value, char out[static STATUS_WORD_BYTES])
{
    if (isfinite(value))
        (void)snprintf(out, STATUS_WORD_BYTES, fabs(value) < 1e15 ? "%.4f" : "%.4e", value);
    else
        (void)snprintf(out, STATUS_WORD_BYTES, "NaN");
}

static int64_t whole(double value)
{
    return isfinite(value) && value > 0 && value < 9e15 ? (int64_t)(value + 0.5) : 0;
}

void status_take_progress(struct status *s, const struct progress *p, int64_t now_ms)
{
    struct status_progress *to = &s->progress;

    *to = (struct status_progress){.is_set = true, .remaining_seconds = -1};
    to->step = p->step > 0 ? p->step : 0;
    to->total_steps = p->total_steps > 0 ? p->total_steps : 0;
    to->skipped_steps = p->skipped_steps;
    to->epoch = p->epoch > 0 ? p->epoch : 0;
    if (p->step > 0)
        write_figure(p->loss, to->loss);
    to->tokens_per_second = whole(p->tokens_per_second);
    to->step_ms = p->step_ms > 0 ? p->step_ms : 0;
    if (to->total_steps > 0)
        to->percentage = to->step >= to->total_steps
                             ? 100
                             : (int)((double)to->step * 100 / (double)to->total_steps);
    if (p->eta_seconds >= 0)
        to->remaining_seconds = whole(p->eta_seconds);
    to->updated_ms = now_ms - now_ms % 1000;
    memcpy(to->initialised, p->initialised, sizeof to->initialised);
    for (int i = 0; i < p->n_metrics && i < PROGRESS_METRICS_MAX; i++) {
        if (p->metrics[i].name[0] == '\0')
            continue; /* a list keyed by name has no place for it */
        (void)snprintf(to->metrics[to->n_metrics].name, sizeof to->metrics[0].name, "%s",
                       p->metrics[i].name);
        write_figure(p->metrics[i].value, to->metrics[to->n_metrics].value);
        to->n_metrics++;
    }
    for (int i = 0; i < p->n_stage_ms && i < s->n_stages; i++)
        if (isfinite(p->stage_ms[i]) && p->stage_ms[i] > 0)
            s->stages[i].measured_ms = p->stage_ms[i];
}
