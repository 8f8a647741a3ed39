#include "cli/variant.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PATIENCE_ENDLESS 100000 /* what spec.training.earlyStopping.patience may be at most */

void variant_name(struct variant_sync sync, char out[static VARIANT_NAME_BYTES])
{
    if (sync.percent == 100)
        (void)snprintf(out, VARIANT_NAME_BYTES, "BSP");
    else if (sync.percent == 0)
        (void)snprintf(out, VARIANT_NAME_BYTES, "%s", spec_protocol_names[sync.later]);
    else
        (void)snprintf(out, VARIANT_NAME_BYTES, "%d%% BSP, then %s", sync.percent,
                       spec_protocol_names[sync.later]);
}

/* --- merge patches --- */

/* Recurses as deep as the patch, whose depth the parser has bounded. */
static void write_merged(struct jsonw *w, const char *key, const struct json *target,
                         const struct json *patch)
{
    if (json_kind_of(patch) != JSON_OBJECT) {
        jsonw_value(w, key, patch);
        return;
    }
    if (json_kind_of(target) != JSON_OBJECT)
        target = NULL;
    jsonw_open_object(w, key);
    for (const struct json *v = json_first(target); v; v = json_next(v)) {
        const struct json *change = json_get(patch, json_key(v));

        if (!change)
            jsonw_value(w, json_key(v), v);
        else if (json_kind_of(change) != JSON_NULL)
            write_merged(w, json_key(v), v, change);
    }
    for (const struct json *v = json_first(patch); v; v = json_next(v))
        if (json_kind_of(v) != JSON_NULL && !json_get(target, json_key(v)))
            write_merged(w, json_key(v), NULL, v);
    jsonw_close(w);
}

static enum err_code parse_written(struct jsonw *w, struct json **out, struct err *err)
{
    enum err_code rc = jsonw_finish(w, err);

    return rc == ERR_OK ? json_parse(buf_text(w->out), w->out->len, out, err) : rc;
}

enum err_code variant_apply(const struct json *target, const struct json *patch, struct json **out,
                            struct err *err)
{
    struct buf text = {.max = VARIANT_MAX_BYTES};
    struct jsonw w;
    enum err_code rc;

    jsonw_init(&w, &text);
    write_merged(&w, NULL, target, patch);
    rc = parse_written(&w, out, err);
    buf_deinit(&text);
    return rc;
}

/* --- the patches --- */

void variant_sync(const struct spec *spec, const struct json *spec_json, struct variant_sync sync,
                  struct jsonw *w)
{
    bool is_switch = sync.percent > 0 && sync.percent < 100;
    bool is_greedy = spec_is_asynchronous_at_times(spec) && sync.percent > 0;
    bool is_local = sync.percent < 100 && sync.later == SPEC_PROTOCOL_LOCAL;
    bool is_free = (sync.percent < 100 && sync.later == SPEC_PROTOCOL_ASP) || is_greedy;
    const struct {
        const char *key;
        bool has_effect;
    } own[] = {{"switchAfterSteps", false},     {"switchAfterPercent", is_switch},
               {"switchTo", is_switch},         {"maxStaleness", is_free},
               {"localSteps", is_local},        {"outerRate", is_local},
               {"outerMomentum", is_local},     {"gradientPercent", !is_local || sync.percent > 0},
               {"stragglers", sync.percent > 0}};

    jsonw_open_object(w, "sync");
    jsonw_string(w, "protocol",
                 is_switch             ? "Switch"
                 : sync.percent == 100 ? "BSP"
                                       : spec_protocol_names[sync.later]);
    if (is_switch) {
        jsonw_int(w, "switchAfterPercent", sync.percent);
        jsonw_string(w, "switchTo", spec_protocol_names[sync.later]);
    }
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (!own[i].has_effect && json_get(json_get(spec_json, "sync"), own[i].key))
            jsonw_null(w, own[i].key);
    jsonw_close(w);
}

enum err_code variant_patch(const struct spec *spec, const struct json *spec_json,
                            struct variant_sync sync, struct json **out, struct err *err)
{
    struct buf text = {.max = VARIANT_MAX_BYTES};
    struct jsonw w;
    enum err_code rc;

    jsonw_init(&w, &text);
    jsonw_open_object(&w, NULL);
    jsonw_open_object(&w, "spec");
    variant_sync(spec, spec_json, sync, &w);
    jsonw_close(&w);
    jsonw_close(&w);
    rc = parse_written(&w, out, err);
    buf_deinit(&text);
    return rc;
}

static void write_training(const struct spec *spec, const struct variant_run *run, struct jsonw *w)
{
    jsonw_open_object(w, "training");
    jsonw_int(w, "seed", run->seed);
    if (run->steps > 0) {
        jsonw_int(w, "steps", run->steps);
        jsonw_null(w, "epochs");
    }
    if (spec->training.keeps_best) {
        jsonw_null(w, "keepBest");
        jsonw_open_object(w, "earlyStopping");
        jsonw_string(w, "metric", task_metric_names[spec->training.best_by]);
        jsonw_int(w, "patience",
                  spec->training.patience > 0 ? spec->training.patience : PATIENCE_ENDLESS);
        jsonw_close(w);
    }
    jsonw_close(w);
}

enum err_code variant_spec(const struct spec *spec, const struct json *spec_json,
                           const struct variant_run *run, struct json **out, struct err *err)
{
    static const char *const no_effect[] = {"store", "everySteps", "everySeconds", "keep"};
    struct buf text = {.max = VARIANT_MAX_BYTES};
    struct json *patch = NULL;
    struct jsonw w;
    enum err_code rc;

    jsonw_init(&w, &text);
    jsonw_open_object(&w, NULL);
    variant_sync(spec, spec_json, run->sync, &w);
    write_training(spec, run, &w);
    jsonw_open_object(&w, "checkpoint");
    jsonw_string(&w, "mode", "Never");
    for (size_t i = 0; i < sizeof no_effect / sizeof no_effect[0]; i++)
        jsonw_null(&w, no_effect[i]);
    jsonw_close(&w);
    jsonw_close(&w);
    rc = parse_written(&w, &patch, err);
    if (rc == ERR_OK)
        rc = variant_apply(spec_json, patch, out, err);
    json_free(patch);
    buf_deinit(&text);
    return rc;
}

/* --- YAML --- */

/* A word that no YAML reader takes for anything but itself, as all of the spec's are but "Off". */
static bool is_plain(const char *word)
{
    static const char *const special[] = {"on", "off", "yes", "no", "true", "false", "null"};
    bool is_word = *word != '\0';

    for (const char *c = word; *c; c++)
        is_word = is_word && isalpha((unsigned char)*c);
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        is_word = is_word && strcasecmp(word, special[i]) != 0;
    return is_word;
}

enum err_code variant_yaml(const struct json *value, struct buf *out, struct err *err)
{
    bool is_object = json_kind_of(value) == JSON_OBJECT;
    const char *word = json_string(value, "");
    char *text;
    enum err_code rc;

    if (is_plain(word))
        return buf_addf(out, err, "%s", word);
    if (!is_object) {
        text = json_print(value);
        rc = text ? buf_addf(out, err, "%s", text) : err_set(err, ERR_NO_MEMORY, "no memory");
        free(text);
        return rc;
    }
    rc = buf_addf(out, err, "{");
    for (const struct json *v = json_first(value); v && rc == ERR_OK; v = json_next(v)) {
        rc = buf_addf(out, err, "%s%s: ", v == json_first(value) ? "" : ", ", json_key(v));
        if (rc == ERR_OK)
            rc = variant_yaml(v, out, err);
    }
    return rc == ERR_OK ? buf_addf(out, err, "}") : rc;
}
