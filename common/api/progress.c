#include "api/progress.h"

#include <math.h>

#include "base/fields.h"

const char *const progress_state_names[] = {
    "Starting", "Waiting", "Training", "Evaluating", "Saving", "Done", "Failed", "Halted", NULL};
const char *const progress_cause_names[] = {"",      "Config", "DataMissing", "PeerLost",
                                            "Other", "Output", NULL};

#define AT(member) FIELD_AT(struct progress, member)

#define STEP_MAX  1e12               /* as in api/resume.h */
#define ORDER_MAX 9007199254740991.0 /* any time, as a whole number */

/* Six digits are more than a measurement has, and 64 stages of them fit. */
#define MEASURED (FIELD_NULL | FIELD_SHORT)

static const struct field stage_fields[] = {
    {"", FIELD_DOUBLE, FIELD_ENTRY(double), .max = PROGRESS_MS_MAX, .flags = MEASURED}, {0}};

static const struct field metric_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct progress_metric, name),
     .flags = FIELD_UNIQUE | FIELD_LINE},
    {"value", FIELD_DOUBLE, FIELD_AT(struct progress_metric, value), .fallback = "nan",
     .flags = FIELD_NULL},
    {0}};

static const struct field fields[] = {
    {"state", FIELD_ENUM, AT(state), .words = progress_state_names, .flags = FIELD_REQUIRED},
    {"cause", FIELD_ENUM, AT(cause), .words = progress_cause_names, .flags = FIELD_REQUIRED},
    {"slot", FIELD_INT, AT(slot)},
    {"revision", FIELD_INT, AT(revision)},
    {"hasPeers", FIELD_BOOL, AT(has_peers)},
    {"step", FIELD_INT64, AT(step)},
    {"totalSteps", FIELD_INT64, AT(total_steps)},
    {"skippedSteps", FIELD_INT64, AT(skipped_steps)},
    {"epoch", FIELD_INT, AT(epoch)},
    {"loss", FIELD_DOUBLE, AT(loss), .fallback = "nan", .flags = FIELD_NULL},
    {"tokensPerSecond", FIELD_DOUBLE, AT(tokens_per_second), .flags = MEASURED},
    {"estimatedRemainingSeconds", FIELD_DOUBLE, AT(eta_seconds), .fallback = "-1",
     .flags = MEASURED},
    {"stepMilliseconds", FIELD_DOUBLE, AT(step_ms), .max = PROGRESS_MS_MAX, .flags = MEASURED},
    {"bestStepMilliseconds", FIELD_DOUBLE, AT(best_step_ms), .max = PROGRESS_MS_MAX,
     .flags = MEASURED},
    {"stageMilliseconds", FIELD_LIST, FIELD_ITEMS(struct progress, stage_ms, n_stage_ms),
     .fields = stage_fields},
    {"samples", FIELD_INT, AT(window.n_samples), .flags = FIELD_OMIT},
    {"stepMedian", FIELD_DOUBLE, AT(window.step_ms), .max = PROGRESS_MS_MAX,
     .flags = MEASURED | FIELD_OMIT},
    {"mad", FIELD_DOUBLE, AT(window.mad_ms), .max = PROGRESS_MS_MAX,
     .flags = MEASURED | FIELD_OMIT},
    {"protocol", FIELD_TEXT, AT(sync.protocol), .flags = FIELD_LINE | FIELD_OMIT},
    {"staleness", FIELD_DOUBLE, AT(sync.staleness), .flags = MEASURED | FIELD_OMIT},
    {"stalenessMax", FIELD_INT64, AT(sync.staleness_max), .max = STEP_MAX, .flags = FIELD_OMIT},
    {"lagging", FIELD_TEXT, AT(sync.lagging), .flags = FIELD_LINE | FIELD_OMIT},
    {"metrics", FIELD_LIST, FIELD_ITEMS(struct progress, metrics, n_metrics),
     .fields = metric_fields},
    {"bestMetric", FIELD_TEXT, AT(best_metric), .flags = FIELD_LINE | FIELD_OMIT},
    {"bestValue", FIELD_DOUBLE, AT(best.value), .flags = FIELD_OMIT},
    {"bestLineage", FIELD_INT64, AT(best.lineage), .max = STEP_MAX, .flags = FIELD_OMIT},
    {"bestStep", FIELD_INT64, AT(best.step), .max = STEP_MAX, .flags = FIELD_OMIT},
    {"evaluationsSinceBest", FIELD_INT64, AT(best.n_since), .max = STEP_MAX, .flags = FIELD_OMIT},
    {"endedEarly", FIELD_BOOL, AT(has_ended_early), .flags = FIELD_OMIT},
    {"order", FIELD_INT64, AT(ordered.order), .max = ORDER_MAX, .flags = FIELD_OMIT},
    {"orderedStep", FIELD_INT64, AT(ordered.step), .max = STEP_MAX, .flags = FIELD_OMIT},
    {"checkpointStep", FIELD_INT64, AT(saved.step), .max = STEP_MAX, .flags = FIELD_OMIT},
    {"checkpointFailed", FIELD_BOOL, AT(saved.has_failed), .flags = FIELD_OMIT},
    {"randomlyInitialized", FIELD_TEXT, AT(randomly_initialized), .flags = FIELD_LINE},
    {"blas", FIELD_TEXT, AT(blas), .flags = FIELD_LINE},
    {"error", FIELD_TEXT, AT(error), .flags = FIELD_LINE},
    {0}};

enum err_code progress_write(const struct progress *p, struct buf *out, struct err *err)
{
    struct progress q = *p;

    /* Digits that no time has would take the room of others. */
    for (int i = 0; i < q.n_stage_ms; i++)
        if (!(q.stage_ms[i] >= 0 && q.stage_ms[i] <= PROGRESS_MS_MAX))
            q.stage_ms[i] = (double)NAN;
    return fields_print(fields, &q, out, err);
}

enum err_code progress_parse(const char *text, size_t len, struct progress *out, struct err *err)
{
    struct progress p = {0};
    enum err_code rc = fields_parse(fields, text, len, FIELDS_TOLERANT, &p, err);

    if (rc != ERR_OK)
        return err_wrap(err, rc, "progress document");
    *out = p;
    return ERR_OK;
}

static const struct field order_fields[] = {{"order", FIELD_INT64, FIELD_ENTRY(int64_t), .min = 1,
                                             .max = ORDER_MAX, .flags = FIELD_REQUIRED},
                                            {0}};

enum err_code progress_order_write(int64_t order, struct buf *out, struct err *err)
{
    return fields_print(order_fields, &order, out, err);
}

enum err_code progress_order_parse(const char *text, size_t len, int64_t *out_order,
                                   struct err *err)
{
    int64_t order = 0;
    enum err_code rc = fields_parse(order_fields, text, len, FIELDS_STRICT, &order, err);

    if (rc != ERR_OK)
        return err_wrap(err, rc, "order");
    *out_order = order;
    return ERR_OK;
}

/* --- peers --- */

#define PEER_AT(member) FIELD_AT(struct peer, member)

static const struct field peer_fields[] = {
    {"host", FIELD_TEXT, PEER_AT(host), .min = 1, .flags = FIELD_REQUIRED},
    {"port", FIELD_INT, PEER_AT(port), .min = 1, .max = 65535, .flags = FIELD_REQUIRED},
    {"node", FIELD_TEXT, PEER_AT(node), .flags = FIELD_OMIT | FIELD_LINE},
    {0}};

static const struct field table_fields[] = {
    {"revision", FIELD_INT, FIELD_AT(struct peers, revision)},
    {"peers", FIELD_LIST, FIELD_ITEMS(struct peers, list, n), .fields = peer_fields},
    {0}};

enum err_code peers_write(const struct peers *p, struct buf *out, struct err *err)
{
    return fields_print(table_fields, p, out, err);
}

enum err_code peers_parse(const char *text, size_t len, struct peers *out, struct err *err)
{
    struct peers p = {0};
    enum err_code rc = fields_parse(table_fields, text, len, FIELDS_STRICT, &p, err);

    if (rc != ERR_OK)
        return err_wrap(err, rc, "peer table");
    *out = p;
    return ERR_OK;
}
