#include "api/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const state_names[] = {"Starting", "Waiting", "Training", "Evaluating",
                                          "Saving",   "Done",    "Failed"};
static const char *const cause_names[] = {"",         "Config", "DataMissing",
                                          "PeerLost", "Other",  "Output"};

#define N_STATES ((int)(sizeof state_names / sizeof state_names[0]))
#define N_CAUSES ((int)(sizeof cause_names / sizeof cause_names[0]))

const char *progress_state_name(enum progress_state state)
{
    return state_names[state];
}

const char *progress_cause_name(enum progress_cause cause)
{
    return cause_names[cause];
}

static int index_of(const char *const *names, int n, const char *s)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], s) == 0)
            return i;
    return -1;
}

/* A loss that is not finite must not cost the rest of the document. */
static void write_double(struct jsonw *w, const char *key, double value)
{
    if (isfinite(value))
        jsonw_double(w, key, value);
    else
        jsonw_null(w, key);
}

/* Six digits are more than anybody measures, and 64 stages of them fit. */
static void write_measured(struct jsonw *w, const char *key, double value)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%.6g", value);
    write_double(w, key, strtod(text, NULL));
}

static void write_figures(struct jsonw *w, const struct progress *p)
{
    jsonw_int(w, "step", p->step);
    jsonw_int(w, "totalSteps", p->total_steps);
    jsonw_int(w, "skippedSteps", p->skipped_steps);
    jsonw_int(w, "epoch", p->epoch);
    write_double(w, "loss", p->loss);
    write_measured(w, "tokensPerSecond", p->tokens_per_second);
    write_measured(w, "etaSeconds", p->eta_seconds);
    write_measured(w, "stepMs", p->step_ms);
    write_measured(w, "bestStepMs", p->best_step_ms);
    jsonw_open_array(w, "stageMs");
    for (int i = 0; i < p->n_stage_ms; i++)
        write_measured(w, NULL, p->stage_ms[i]);
    jsonw_close(w);
    jsonw_open_array(w, "metrics");
    for (int i = 0; i < p->n_metrics; i++) {
        jsonw_open_object(w, NULL);
        jsonw_line(w, "name", p->metrics[i].name);
        write_double(w, "value", p->metrics[i].value);
        jsonw_close(w);
    }
    jsonw_close(w);
}

enum err_code progress_write(const struct progress *p, struct buf *out, struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "state", state_names[p->state]);
    jsonw_string(&w, "cause", cause_names[p->cause]);
    jsonw_int(&w, "stage", p->stage);
    jsonw_int(&w, "attempt", p->attempt);
    jsonw_bool(&w, "hasPeers", p->has_peers);
    write_figures(&w, p);
    jsonw_line(&w, "initialised", p->initialised);
    jsonw_line(&w, "blas", p->blas);
    jsonw_line(&w, "error", p->error);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

static void read_text(const struct json *root, const char *key, char *out, size_t bytes)
{
    (void)snprintf(out, bytes, "%s", json_string(json_get(root, key), ""));
}

/* 0, "not known", for what no clock can have measured. */
static double read_ms(const struct json *v)
{
    double ms = json_double(v, 0);

    return ms >= 0 && ms <= PROGRESS_MS_MAX ? ms : 0;
}

static bool has_metric(const struct progress *p, const char *name)
{
    for (int i = 0; i < p->n_metrics; i++)
        if (strcmp(p->metrics[i].name, name) == 0)
            return true;
    return false;
}

static void read_lists(const struct json *root, struct progress *p)
{
    for (const struct json *v = json_first(json_get(root, "stageMs")); v; v = json_next(v))
        if (p->n_stage_ms < SPEC_STAGES_MAX)
            p->stage_ms[p->n_stage_ms++] = read_ms(v);
    for (const struct json *v = json_first(json_get(root, "metrics")); v; v = json_next(v)) {
        struct progress_metric m;

        if (p->n_metrics == PROGRESS_METRICS_MAX)
            break;
        read_text(v, "name", m.name, sizeof m.name);
        m.value = json_double(json_get(v, "value"), NAN);
        if (!has_metric(p, m.name)) /* the status keeps them in a list keyed by name */
            p->metrics[p->n_metrics++] = m;
    }
}

static enum err_code read_progress(const struct json *root, struct progress *p, struct err *err)
{
    int state = index_of(state_names, N_STATES, json_string(json_get(root, "state"), ""));
    int cause = index_of(cause_names, N_CAUSES, json_string(json_get(root, "cause"), ""));

    if (state < 0 || cause < 0)
        return err_set(err, ERR_INVALID, "state or cause is missing or unknown");
    p->state = (enum progress_state)state;
    p->cause = (enum progress_cause)cause;
    p->stage = json_int(json_get(root, "stage"), 0);
    p->attempt = json_int(json_get(root, "attempt"), 0);
    p->has_peers = json_bool(json_get(root, "hasPeers"), false);
    p->step = json_i64(json_get(root, "step"), 0);
    p->total_steps = json_i64(json_get(root, "totalSteps"), 0);
    p->skipped_steps = json_i64(json_get(root, "skippedSteps"), 0);
    p->epoch = json_int(json_get(root, "epoch"), 0);
    p->loss = json_double(json_get(root, "loss"), NAN);
    p->tokens_per_second = json_double(json_get(root, "tokensPerSecond"), 0);
    p->eta_seconds = json_double(json_get(root, "etaSeconds"), -1);
    p->step_ms = read_ms(json_get(root, "stepMs"));
    p->best_step_ms = read_ms(json_get(root, "bestStepMs"));
    read_text(root, "initialised", p->initialised, sizeof p->initialised);
    read_text(root, "blas", p->blas, sizeof p->blas);
    read_text(root, "error", p->error, sizeof p->error);
    read_lists(root, p);
    return ERR_OK;
}

enum err_code progress_parse(const char *text, size_t len, struct progress *out, struct err *err)
{
    struct progress p = {0};
    struct json *root;
    enum err_code rc = json_parse(text, len, &root, err);

    if (rc == ERR_OK) {
        rc = read_progress(root, &p, err);
        json_free(root);
    }
    if (rc != ERR_OK)
        return err_wrap(err, rc, "progress document");
    *out = p;
    return ERR_OK;
}

enum err_code peers_write(const struct peers *p, struct buf *out, struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_int(&w, "attempt", p->attempt);
    jsonw_open_array(&w, "stages");
    for (int i = 0; i < p->n_stages; i++) {
        jsonw_open_object(&w, NULL);
        jsonw_string(&w, "host", p->stages[i].host);
        jsonw_int(&w, "port", p->stages[i].port);
        if (p->stages[i].node[0])
            jsonw_line(&w, "node", p->stages[i].node);
        jsonw_close(&w);
    }
    jsonw_close(&w);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

static enum err_code read_peers(const struct json *root, struct peers *p, struct err *err)
{
    p->attempt = json_int(json_get(root, "attempt"), 0);
    for (const struct json *v = json_first(json_get(root, "stages")); v; v = json_next(v)) {
        const char *host = json_string(json_get(v, "host"), "");
        const char *node = json_string(json_get(v, "node"), "");
        int64_t port = json_i64(json_get(v, "port"), 0);

        if (p->n_stages == SPEC_STAGES_MAX)
            return err_set(err, ERR_LIMIT, "more than %d stages", SPEC_STAGES_MAX);
        if (*host == '\0' || strlen(host) >= PEERS_HOST_BYTES || port < 1 || port > 65535 ||
            strlen(node) >= NODE_NAME_BYTES)
            return err_set(err, ERR_INVALID, "stage %d: no host and port", p->n_stages);
        memcpy(p->stages[p->n_stages].host, host, strlen(host) + 1);
        memcpy(p->stages[p->n_stages].node, node, strlen(node) + 1);
        p->stages[p->n_stages++].port = (int)port;
    }
    return ERR_OK;
}

enum err_code peers_parse(const char *text, size_t len, struct peers *out, struct err *err)
{
    struct peers p = {0};
    struct json *root;
    enum err_code rc = json_parse(text, len, &root, err);

    if (rc == ERR_OK) {
        rc = read_peers(root, &p, err);
        json_free(root);
    }
    if (rc != ERR_OK)
        return err_wrap(err, rc, "peer table");
    *out = p;
    return ERR_OK;
}
