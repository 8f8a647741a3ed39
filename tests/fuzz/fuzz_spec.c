/* The JSON documents that our programs hand each other: spec, plan, progress, peer table. What a
 * reader accepts lies within its bounds, is written again and reads back as the same. */
#include <string.h>

#include "api/plan.h"
#include "api/progress.h"
#include "base/fields.h"
#include "fuzz.h"

#define TEXT_MAX_BYTES ((size_t)1 << 20)

/* A word without a default may be left out; what stands for that follows the last word. */
static bool is_absent(const struct field *f, const struct json *v)
{
    return !f->fallback && json_kind_of(v) != JSON_STRING;
}

/* The number that `json` has at this field's place, if it has one. */
static void check_field(const struct field *f, const struct json *json, const struct spec *s)
{
    const struct json *v = json_path(json, f->key);
    const char *place = (const char *)s + f->offset;
    int whole;
    int64_t wide;
    double real;

    memcpy(&whole, place, sizeof whole);
    switch (f->kind) {
    case FIELD_INT:
        MUST(!json_is_i64(v) || (whole == json_i64(v, 0) && whole >= f->min && whole <= f->max));
        break;
    case FIELD_INT64:
        memcpy(&wide, place, sizeof wide);
        MUST(!json_is_i64(v) || wide == json_i64(v, 0));
        break;
    case FIELD_DECIMAL:
        memcpy(&real, place, sizeof real);
        MUST(real >= f->min && real <= f->max);
        break;
    case FIELD_ENUM:
        MUST(whole >= 0 && (f->words[whole] || is_absent(f, v)));
        break;
    case FIELD_WORD:
    case FIELD_TEXT:
        MUST(memchr(place, '\0', f->bytes));
        MUST(json_kind_of(v) != JSON_STRING || strcmp(json_string(v, ""), place) == 0);
        break;
    default:
        break;
    }
}

static void check_spec(const struct json *root)
{
    struct spec s;
    struct err err = {0};
    enum err_code rc = spec_parse(root, &s, &err);

    if (rc != ERR_OK) {
        MUST(rc == ERR_INVALID && err.code == rc);
        return;
    }
    MUST(model_check(&s.model, NULL) == ERR_OK);
    MUST(s.training.micro_batches == 0 || s.training.batch_size % s.training.micro_batches == 0);
    MUST(s.training.max_length <= s.model.positions);
    MUST(s.placement.min_stages <= s.placement.max_stages);
    for (const struct field *f = spec_fields; f->kind != FIELD_END; f++)
        check_field(f, root, &s);
}

static void check_plan(const struct json *root, const char *text, size_t n)
{
    struct buf first = {.max = TEXT_MAX_BYTES}, second = {.max = TEXT_MAX_BYTES};
    const struct json *spec = json_get(root, "spec");
    const struct json *worker = json_first(json_get(root, "workers"));
    struct plan p, back;
    int next = 0;

    if (plan_parse(text, n, &p, NULL) != ERR_OK)
        return;
    for (int s = 0; s < p.n_workers; s++, worker = json_next(worker)) {
        MUST(p.workers[s].first_unit == next && p.workers[s].n_units >= 1);
        MUST(json_i64(json_get(worker, "firstUnit"), -1) == next);
        next += p.workers[s].n_units;
    }
    MUST(next == model_units(&p.spec.model));
    MUST(plan_write(&p, spec, &first, NULL) == ERR_OK);
    MUST(plan_parse(buf_text(&first), first.len, &back, NULL) == ERR_OK);
    MUST(plan_hash(&p) == plan_hash(&back));
    MUST(plan_write(&back, spec, &second, NULL) == ERR_OK);
    MUST(strcmp(buf_text(&first), buf_text(&second)) == 0);
    buf_deinit(&first);
    buf_deinit(&second);
}

static void check_progress(const char *text, size_t n)
{
    struct buf first = {.max = TEXT_MAX_BYTES}, second = {.max = TEXT_MAX_BYTES};
    struct progress p, back;

    if (progress_parse(text, n, &p, NULL) != ERR_OK)
        return;
    MUST(p.state <= PROGRESS_HALTED && p.cause <= PROGRESS_CAUSE_OUTPUT);
    MUST(p.n_stage_ms <= SPEC_STAGES_MAX && p.n_metrics <= PROGRESS_METRICS_MAX);
    MUST(progress_write(&p, &first, NULL) == ERR_OK);
    MUST(progress_parse(buf_text(&first), first.len, &back, NULL) == ERR_OK);
    MUST(progress_write(&back, &second, NULL) == ERR_OK);
    MUST(strcmp(buf_text(&first), buf_text(&second)) == 0);
    buf_deinit(&first);
    buf_deinit(&second);
}

static void check_peers(const char *text, size_t n)
{
    struct buf first = {.max = TEXT_MAX_BYTES};
    struct peers p, back;

    if (peers_parse(text, n, &p, NULL) != ERR_OK)
        return;
    MUST(p.n <= PEERS_MAX);
    MUST(peers_write(&p, &first, NULL) == ERR_OK);
    MUST(peers_parse(buf_text(&first), first.len, &back, NULL) == ERR_OK);
    MUST(back.n == p.n && back.revision == p.revision);
    for (int i = 0; i < p.n; i++) {
        MUST(strcmp(p.list[i].host, back.list[i].host) == 0);
        MUST(p.list[i].port == back.list[i].port && p.list[i].port > 0);
    }
    buf_deinit(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *text = (const char *)bytes;
    struct json *root = NULL;

    if (json_parse(text, n, &root, NULL) != ERR_OK)
        return 0; /* fuzz_json is about those */
    check_spec(root);
    check_plan(root, text, n);
    check_progress(text, n);
    check_peers(text, n);
    json_free(root);
    return 0;
}
