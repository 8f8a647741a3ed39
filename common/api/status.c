#include "api/status.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/bert_config.h"

const char *const status_states[STATUS_STATES] = {
    "Pending",    "Invalid",    "Waiting",   "Measuring", "Queued",   "Starting", "Running",
    "Recovering", "Restarting", "Suspended", "Failing",   "Complete", "Failed"};
const char *const condition_type_names[CONDITION_COUNT] = {
    "Accepted", "Placed", "Running", "UpToDate", "Suspended", "Stalled", "Complete", "Failed"};
const char *const condition_value_names[] = {"", "Unknown", "False", "True", NULL};

bool status_is(const struct status *s, enum condition_type type)
{
    return s->conditions[type].value == CONDITION_TRUE;
}

bool status_is_final(const struct status *s)
{
    return status_is(s, CONDITION_COMPLETE) || status_is(s, CONDITION_FAILED);
}

bool status_is_failing(const struct status *s)
{
    const struct condition *failed = &s->conditions[CONDITION_FAILED];

    return failed->value == CONDITION_FALSE && strcmp(failed->reason, STATUS_NOT_FAILED) != 0;
}

bool status_is_over(const struct status *s)
{
    return status_is_final(s) || status_is_failing(s);
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

/* --- the document --- */

#define WHOLE_MAX 9007199254740991.0

#define CONDITION(member) FIELD_AT(struct condition, member)
static const struct field condition_fields[] = {
    {"status", FIELD_ENUM, CONDITION(value), .words = condition_value_names,
     .flags = FIELD_REQUIRED},
    {"reason", FIELD_TEXT, CONDITION(reason)},
    {"message", FIELD_TEXT, CONDITION(message)},
    {"observedGeneration", FIELD_INT64, CONDITION(generation), .max = WHOLE_MAX},
    {"lastTransitionTime", FIELD_TIME, CONDITION(changed_ms)},
    {0}};

#define METRIC(member) FIELD_AT(struct status_metric, member)
static const struct field metric_fields[] = {
    {"name", FIELD_TEXT, METRIC(name), .min = 1, .flags = FIELD_REQUIRED | FIELD_UNIQUE},
    {"value", FIELD_TEXT, METRIC(value), .flags = FIELD_REQUIRED},
    {0}};

static const struct field random_fields[] = {
    {"", FIELD_TEXT, FIELD_ENTRY(char[PROGRESS_RANDOM_BYTES]), .min = 1, .flags = FIELD_REQUIRED},
    {0}};

#define BEST(member) FIELD_AT(struct status_best, member)
static const struct field best_fields[] = {
    {"metric", FIELD_TEXT, BEST(metric), .min = 1, .flags = FIELD_REQUIRED},
    {"value", FIELD_TEXT, BEST(value)},
    {"step", FIELD_INT64, BEST(step), .max = WHOLE_MAX},
    {0}};

#define PROGRESS(member) FIELD_AT(struct status_progress, member)
static const struct field progress_fields[] = {
    {"step", FIELD_INT64, PROGRESS(step), .max = WHOLE_MAX},
    {"totalSteps", FIELD_INT64, PROGRESS(total_steps), .max = WHOLE_MAX},
    {"skippedSteps", FIELD_INT64, PROGRESS(skipped_steps), .max = WHOLE_MAX, .flags = FIELD_NULL},
    {"epoch", FIELD_INT, PROGRESS(epoch), .max = INT_MAX},
    {"loss", FIELD_TEXT, PROGRESS(loss), .flags = FIELD_NULL},
    {"tokensPerSecond", FIELD_INT64, PROGRESS(tokens_per_second), .max = WHOLE_MAX},
    {"stepMilliseconds", FIELD_MILLISECONDS, PROGRESS(step_ms), .max = PROGRESS_MS_MAX,
     .flags = FIELD_NULL},
    {"protocol", FIELD_TEXT, PROGRESS(sync.protocol), .flags = FIELD_NULL},
    {"staleness", FIELD_TEXT, PROGRESS(sync.staleness), .flags = FIELD_NULL},
    {"stalenessMax", FIELD_INT64, PROGRESS(sync.staleness_max), .max = WHOLE_MAX,
     .flags = FIELD_NULL},
    {"lagging", FIELD_TEXT, PROGRESS(sync.lagging), .flags = FIELD_NULL},
    {"percentage", FIELD_INT, PROGRESS(percentage), .max = 100},
    {"estimatedRemainingSeconds", FIELD_INT64, PROGRESS(remaining_seconds), .max = WHOLE_MAX,
     .fallback = "-1", .flags = FIELD_NULL},
    {"lastUpdatedTime", FIELD_TIME, PROGRESS(updated_ms), .flags = FIELD_REQUIRED},
    {"randomlyInitialized", FIELD_LIST, FIELD_ITEMS(struct status_progress, random, n_random),
     .fields = random_fields, .flags = FIELD_NULL},
    {"metrics", FIELD_LIST, FIELD_ITEMS(struct status_progress, metrics, n_metrics),
     .fields = metric_fields},
    {"best", FIELD_OBJECT, PROGRESS(best), .fields = best_fields, .flags = FIELD_NULL},
    {"endedEarly", FIELD_BOOL, PROGRESS(has_ended_early), .flags = FIELD_NULL},
    {"checkpointStep", FIELD_INT64, PROGRESS(saved.step), .max = WHOLE_MAX, .flags = FIELD_NULL},
    {"checkpointFailed", FIELD_BOOL, PROGRESS(saved.has_failed), .flags = FIELD_NULL},
    {0}};

#define CHECKPOINT(member) FIELD_AT(struct status_checkpoint, member)
static const struct field checkpoint_fields[] = {
    {"time", FIELD_TIME, CHECKPOINT(request_ms), .flags = FIELD_NULL},
    {"step", FIELD_INT64, CHECKPOINT(step), .max = WHOLE_MAX, .flags = FIELD_NULL},
    {"message", FIELD_TEXT, CHECKPOINT(message), .flags = FIELD_REQUIRED},
    {0}};

#define DRIFT(member) FIELD_AT(struct status_drift, member)
static const struct field drift_fields[] = {
    {"sinceStep", FIELD_INT64, DRIFT(since_step), .max = WHOLE_MAX, .flags = FIELD_OMIT},
    {"reported", FIELD_BOOL, DRIFT(is_reported)},
    {0}};

/* What is not known is left out and not null: a merge patch replaces a list as a whole. */
#define STAGE(member) FIELD_AT(struct status_stage, member)
static const struct field stage_fields[] = {
    {"stage", FIELD_INT, STAGE(stage), .max = SPEC_STAGES_MAX - 1, .flags = FIELD_REQUIRED},
    {"pod", FIELD_TEXT, STAGE(pod)},
    {"podUID", FIELD_TEXT, STAGE(pod_uid), .flags = FIELD_OMIT},
    {"replica", FIELD_INT, STAGE(plan.replica), .max = SPEC_REPLICAS_MAX - 1, .flags = FIELD_OMIT},
    {"node", FIELD_TEXT, STAGE(plan.node)},
    {"units", FIELD_TEXT, STAGE(plan.units)},
    {"firstUnit", FIELD_INT, STAGE(plan.first_unit), .max = MODEL_UNITS_MAX},
    {"unitCount", FIELD_INT, STAGE(plan.n_units), .max = MODEL_UNITS_MAX},
    {"predictedMicroseconds", FIELD_MICROSECONDS, STAGE(plan.predicted_ms),
     .max = 1000 * PROGRESS_MS_MAX, .flags = FIELD_OMIT},
    {"measuredMicroseconds", FIELD_MICROSECONDS, STAGE(measured_ms), .max = 1000 * PROGRESS_MS_MAX,
     .flags = FIELD_OMIT},
    {"busyPercent", FIELD_INT, STAGE(busy_percent), .max = 100, .flags = FIELD_OMIT},
    {"drift", FIELD_OBJECT, STAGE(drift), .fields = drift_fields, .flags = FIELD_OMIT},
    {"ready", FIELD_BOOL, STAGE(is_ready)},
    {"state", FIELD_TEXT, STAGE(state)},
    {0}};

#define ALTERNATIVE(member) FIELD_AT(struct plan_alternative, member)
static const struct field alternative_fields[] = {
    {"strategy", FIELD_TEXT, ALTERNATIVE(strategy), .min = 1, .flags = FIELD_REQUIRED},
    {"stepMilliseconds", FIELD_MILLISECONDS, ALTERNATIVE(step_ms), .max = PROGRESS_MS_MAX},
    {0}};

#define PLACEMENT(member) FIELD_AT(struct status_placement, member)
static const struct field placement_fields[] = {
    {"strategy", FIELD_TEXT, PLACEMENT(strategy), .min = 1, .flags = FIELD_REQUIRED},
    {"nodes", FIELD_TEXT, PLACEMENT(nodes)},
    {"image", FIELD_TEXT, PLACEMENT(image), .min = 1, .flags = FIELD_NULL},
    {"microBatches", FIELD_INT, PLACEMENT(micro_batches), .max = INT_MAX, .flags = FIELD_NULL},
    {"predictedStepMilliseconds", FIELD_MILLISECONDS, PLACEMENT(summary.predicted_step_ms),
     .max = PROGRESS_MS_MAX, .flags = FIELD_NULL},
    {"boundMilliseconds", FIELD_MILLISECONDS, PLACEMENT(summary.bound_ms), .max = PROGRESS_MS_MAX,
     .flags = FIELD_NULL},
    {"alternatives", FIELD_LIST,
     FIELD_ITEMS(struct status_placement, summary.alternatives, summary.n_alternatives),
     .fields = alternative_fields, .flags = FIELD_NULL},
    {"bottleneck", FIELD_INT, PLACEMENT(summary.bottleneck), .max = SPEC_STAGES_MAX - 1},
    {"excludedNodes", FIELD_LIST,
     FIELD_ITEMS(struct status_placement, summary.excluded, summary.n_excluded),
     .fields = plan_excluded_fields, .flags = FIELD_NULL},
    /* After the list, which sets the number to that of its entries. */
    {"excludedNodeCount", FIELD_INT, PLACEMENT(summary.n_excluded), .max = INT_MAX,
     .flags = FIELD_NULL},
    {"explanation", FIELD_TEXT, PLACEMENT(summary.explanation)},
    {0}};

#define SHARE(member) FIELD_AT(struct status_share, member)
static const struct field share_fields[] = {
    {"slot", FIELD_INT, SHARE(slot), .max = PLAN_SLOT_MAX, .flags = FIELD_REQUIRED},
    {"unitCount", FIELD_INT, SHARE(n_units), .min = 1, .max = MODEL_UNITS_MAX,
     .flags = FIELD_REQUIRED},
    {"microBatches", FIELD_INT, SHARE(micro_batches), .min = 1, .max = INT_MAX,
     .flags = FIELD_OMIT},
    {"predictedMicroseconds", FIELD_MICROSECONDS, SHARE(predicted_ms),
     .max = 1000 * PROGRESS_MS_MAX, .flags = FIELD_OMIT},
    {"grows", FIELD_BOOL, SHARE(grows), .flags = FIELD_OMIT},
    {0}};

#define JOINING(member) FIELD_AT(struct status_joining, member)
static const struct field joining_fields[] = {
    {"slot", FIELD_INT, JOINING(slot), .max = PLAN_SLOT_MAX, .flags = FIELD_REQUIRED},
    {"node", FIELD_TEXT, JOINING(node), .min = 1, .flags = FIELD_REQUIRED},
    {"milliCPU", FIELD_INT, JOINING(cpu_milli), .min = 1, .max = INT_MAX, .flags = FIELD_REQUIRED},
    {"memoryBytes", FIELD_INT64, JOINING(memory_bytes), .min = 1, .max = WHOLE_MAX,
     .flags = FIELD_REQUIRED},
    {0}};

#define REBALANCE(member) FIELD_AT(struct status_rebalance, member)
static const struct field rebalance_fields[] = {
    {"decision", FIELD_TEXT, REBALANCE(decision), .min = 1, .flags = FIELD_REQUIRED},
    {"message", FIELD_TEXT, REBALANCE(message)},
    {"time", FIELD_TIME, REBALANCE(time_ms)},
    {"gainPercent", FIELD_INT, REBALANCE(gain_percent), .max = 100},
    {"moves", FIELD_INT, REBALANCE(n_moves), .max = INT_MAX},
    {"lastReplan", FIELD_TEXT, REBALANCE(asked), .flags = FIELD_NULL},
    {"revision", FIELD_INT, REBALANCE(revision), .max = PLAN_REVISION_MAX},
    {"samples", FIELD_INT64, REBALANCE(samples), .max = WHOLE_MAX},
    {"timesSeen", FIELD_INT, REBALANCE(n_seen), .max = INT_MAX},
    {"holdTime", FIELD_TIME, REBALANCE(hold_ms), .flags = FIELD_NULL},
    {"holdStep", FIELD_INT64, REBALANCE(hold_step), .max = WHOLE_MAX, .flags = FIELD_NULL},
    {"beforeMicroseconds", FIELD_MICROSECONDS, REBALANCE(before_ms), .max = 1000 * PROGRESS_MS_MAX,
     .flags = FIELD_NULL},
    {"expectedPercent", FIELD_INT, REBALANCE(expected_percent), .max = 100, .flags = FIELD_NULL},
    {"doubtPercent", FIELD_INT, REBALANCE(doubt_percent), .max = STATUS_DOUBT_PERCENT_MAX,
     .flags = FIELD_NULL},
    {"next", FIELD_LIST, FIELD_ITEMS(struct status_rebalance, next, n_next), .fields = share_fields,
     .flags = FIELD_NULL},
    {"joining", FIELD_LIST, FIELD_ITEMS(struct status_rebalance, joining, n_joining),
     .fields = joining_fields, .flags = FIELD_NULL},
    {"last", FIELD_LIST, FIELD_ITEMS(struct status_rebalance, last, n_last), .fields = share_fields,
     .flags = FIELD_NULL},
    {0}};

#define STATUS(member) FIELD_AT(struct status, member)
const struct field status_fields[] = {
    {"state", FIELD_TEXT, STATUS(state), .flags = FIELD_NULL},
    {"message", FIELD_TEXT, STATUS(message), .flags = FIELD_NULL},
    {"observedGeneration", FIELD_INT64, STATUS(generation), .max = WHOLE_MAX},
    {"revision", FIELD_INT, STATUS(revision), .max = PLAN_REVISION_MAX, .flags = FIELD_NULL},
    {"revisionTime", FIELD_TIME, STATUS(revision_ms), .flags = FIELD_NULL},
    {"revisionStep", FIELD_INT64, STATUS(revision_step), .max = WHOLE_MAX},
    {"revisionReason", FIELD_TEXT, STATUS(revision_reason), .flags = FIELD_NULL},
    {"restarts", FIELD_INT, STATUS(restarts), .max = INT_MAX},
    {"restartsInARow", FIELD_INT, STATUS(restarts_in_a_row), .max = INT_MAX, .flags = FIELD_NULL},
    {"nextRevisionTime", FIELD_TIME, STATUS(next_revision_ms), .flags = FIELD_NULL},
    {"memoryScalePercent", FIELD_INT, STATUS(memory_percent), 100, STATUS_MEMORY_PERCENT_MAX,
     .flags = FIELD_NULL},
    {"model", FIELD_OBJECT, STATUS(model), .fields = bert_config_sizes, .flags = FIELD_NULL},
    {"startTime", FIELD_TIME, STATUS(start_ms), .flags = FIELD_NULL},
    {"completionTime", FIELD_TIME, STATUS(completion_ms), .flags = FIELD_NULL},
    {"suspendTime", FIELD_TIME, STATUS(suspend_ms), .flags = FIELD_NULL},
    {"progress", FIELD_OBJECT, STATUS(progress), .fields = progress_fields, .flags = FIELD_NULL},
    {"requestedCheckpoint", FIELD_OBJECT, STATUS(checkpoint), .fields = checkpoint_fields,
     .flags = FIELD_NULL},
    {"stages", FIELD_LIST, FIELD_ITEMS(struct status, stages, n_stages), .fields = stage_fields},
    {"placement", FIELD_OBJECT, STATUS(placement), .fields = placement_fields, .flags = FIELD_NULL},
    {"rebalance", FIELD_OBJECT, STATUS(rebalance), .fields = rebalance_fields, .flags = FIELD_NULL},
    {0}};

void status_read(const struct json *json, struct status *out)
{
    *out = (struct status){.generation = 0};
    if (fields_read(status_fields, json, FIELDS_TOLERANT, "", out, NULL) != ERR_OK)
        *out = (struct status){.generation = 0};
    for (int i = 0; i < out->n_stages; i++)
        if (out->stages[i].stage != i) { /* not written by an operator: the rest is not known */
            memset(&out->stages[i], 0, (size_t)(out->n_stages - i) * sizeof out->stages[i]);
            out->n_stages = i;
        }
    for (const struct json *v = json_first(json_get(json, "conditions")); v; v = json_next(v))
        for (int t = 0; t < CONDITION_COUNT; t++) {
            struct condition c = {.value = CONDITION_UNSET};

            if (strcmp(json_text(v, "type"), condition_type_names[t]) == 0 &&
                fields_read(condition_fields, v, FIELDS_TOLERANT, "", &c, NULL) == ERR_OK)
                out->conditions[t] = c;
        }
}

void status_write(const struct status *s, struct jsonw *w, const char *key)
{
    char ready[STATUS_WORD_BYTES];
    int n_ready = 0;

    for (int i = 0; i < s->n_stages; i++)
        n_ready += s->stages[i].is_ready || strcmp(s->stages[i].state, "Succeeded") == 0;
    jsonw_open_object(w, key);
    fields_write(status_fields, s, w);
    jsonw_open_array(w, "conditions");
    for (int t = 0; t < CONDITION_COUNT; t++) {
        if (s->conditions[t].value == CONDITION_UNSET)
            continue;
        jsonw_open_object(w, NULL);
        jsonw_string(w, "type", condition_type_names[t]);
        fields_write(condition_fields, &s->conditions[t], w);
        jsonw_close(w);
    }
    jsonw_close(w);
    (void)snprintf(ready, sizeof ready, "%d/%d", n_ready, s->n_stages);
    if (s->n_stages > 0)
        jsonw_string(w, "stagesReady", ready);
    else
        jsonw_null(w, "stagesReady");
    jsonw_close(w);
}

/* --- progress --- */

/* Loss and metrics for people: more than four digits would be noise. */
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
    const char *parts = p->randomly_initialized;

    *to = (struct status_progress){.step = p->step > 0 ? p->step : 0,
                                   .total_steps = p->total_steps > 0 ? p->total_steps : 0,
                                   .skipped_steps = p->skipped_steps > 0 ? p->skipped_steps : 0,
                                   .epoch = p->epoch > 0 ? p->epoch : 0,
                                   .tokens_per_second = whole(p->tokens_per_second),
                                   .step_ms = p->step_ms > 0 ? p->step_ms : 0,
                                   .remaining_seconds =
                                       p->eta_seconds >= 0 ? whole(p->eta_seconds) : -1,
                                   .updated_ms = now_ms - now_ms % 1000};
    if (p->step > 0)
        write_figure(p->loss, to->loss);
    if (to->total_steps > 0)
        to->percentage = to->step >= to->total_steps
                             ? 100
                             : (int)((double)to->step * 100 / (double)to->total_steps);
    /* "pooler (...), classifier (...)", as a worker reports it, as a list. The last entry takes
     * what does not fit. */
    while (*parts && to->n_random < STATUS_RANDOM_MAX) {
        const char *end = to->n_random + 1 < STATUS_RANDOM_MAX ? strstr(parts, "), ") : NULL;
        int n = end ? (int)(end + 1 - parts) : (int)strlen(parts);

        (void)snprintf(to->random[to->n_random++], sizeof to->random[0], "%.*s", n, parts);
        parts += end ? n + 2 : n;
    }
    for (int i = 0; i < p->n_metrics && i < PROGRESS_METRICS_MAX; i++) {
        struct status_metric *metric = &to->metrics[to->n_metrics];

        if (p->metrics[i].name[0] == '\0')
            continue; /* the list is keyed by name */
        (void)snprintf(metric->name, sizeof metric->name, "%s", p->metrics[i].name);
        write_figure(p->metrics[i].value, metric->value);
        to->n_metrics++;
    }
    if (p->best.step > 0 && p->best_metric[0]) {
        memcpy(to->best.metric, p->best_metric, sizeof to->best.metric);
        write_figure(p->best.value, to->best.value);
        to->best.step = p->best.step;
    }
    memcpy(to->sync.protocol, p->sync.protocol, sizeof to->sync.protocol);
    memcpy(to->sync.lagging, p->sync.lagging, sizeof to->sync.lagging);
    if (p->sync.staleness_max > 0) {
        write_figure(p->sync.staleness, to->sync.staleness);
        to->sync.staleness_max = p->sync.staleness_max;
    }
    to->has_ended_early = p->has_ended_early;
    to->saved = p->saved;
    for (int i = 0; i < p->n_stage_ms && i < s->n_stages; i++)
        if (isfinite(p->stage_ms[i]) && p->stage_ms[i] > 0)
            s->stages[i].measured_ms = p->stage_ms[i];
}
