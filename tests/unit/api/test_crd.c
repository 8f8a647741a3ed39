/* The CRD's schema and the parser's table of fields must say the same thing, field by field. */
#include "api/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/status.h"
#include "base/fields.h"
#include "base/file.h"
#include "base/yaml.h"

#define CRD_PATH     "manifests/crd/skyjob.dev_skyjobs.yaml"
#define CRD_BYTES    200000 /* a plain `kubectl apply` keeps a copy in an annotation of 256 KiB */
#define FIELDS_MAX   128
#define DEPTH_MAX    12
#define SCHEMA_BYTES 512

static struct json *crd;

static const struct json *schema(void)
{
    return json_path(json_first(json_path(crd, "spec.versions")), "schema.openAPIV3Schema");
}

/* The schema of "training.batchSize" inside that of spec. */
static const struct json *schema_of(const char *path)
{
    const struct json *v = json_path(schema(), "properties.spec");
    char part[64];

    while (*path) {
        size_t n = strcspn(path, ".");

        (void)snprintf(part, sizeof part, "%.*s", (int)n, path);
        v = json_get(json_get(v, "properties"), part);
        path += n + (path[n] == '.');
    }
    return v;
}

static void assert_same_words(const struct json *v, const char *const *words)
{
    const struct json *word = json_first(json_get(v, "enum"));

    for (int i = 0; words[i]; i++, word = json_next(word))
        assert_string_equal(json_string(word, "(missing)"), words[i]);
    assert_null(word);
}

static void assert_same_bounds(const struct json *v, const struct field *f)
{
    if (f->kind == FIELD_TEXT) {
        assert_int_equal(json_i64(json_get(v, "minLength"), 0), (int64_t)f->min);
        assert_int_equal(json_i64(json_get(v, "maxLength"), -1), (int64_t)f->max);
    } else if (f->kind == FIELD_INT || f->kind == FIELD_INT64) {
        assert_int_equal(json_i64(json_get(v, "minimum"), -1), (int64_t)f->min);
        assert_int_equal(json_i64(json_get(v, "maximum"), -1), (int64_t)f->max);
        if (!f->words)
            assert_string_equal(json_text(v, "format"), f->kind == FIELD_INT ? "int32" : "int64");
    }
}

/* A decimal's bounds are a CEL rule; the pattern has no sign, so none is below 0. */
static void assert_same_decimal(const struct json *v, const struct field *f)
{
    const struct json *rule = json_first(json_get(v, "x-kubernetes-validations"));
    const char *text = json_text(rule, "rule");
    const char *bound = strstr(text, "double(self) <= ");

    assert_non_null(json_get(v, "pattern"));
    assert_int_equal(json_i64(json_get(v, "maxLength"), -1), 24);
    assert_non_null(bound);
    assert_true(strtod(bound + strlen("double(self) <= "), NULL) == f->max);
    bound = strstr(text, "double(self) >= ");
    assert_true((bound ? strtod(bound + strlen("double(self) >= "), NULL) : 0) == f->min);
}

static void assert_same_default(const struct json *v, const struct field *f)
{
    const struct json *given = json_get(v, "default");
    char *text;

    if (!f->fallback) {
        assert_null(given);
        return;
    }
    assert_non_null(given);
    if (json_kind_of(given) == JSON_STRING) {
        assert_string_equal(json_string(given, ""), f->fallback);
        return;
    }
    text = json_print(given);
    assert_string_equal(text, f->fallback);
    free(text);
}

static void assert_same_list(const struct json *v, const struct field *f)
{
    assert_string_equal(json_text(v, "type"), "array");
    assert_string_equal(json_text(v, "x-kubernetes-list-type"), "atomic");
    assert_int_equal(json_i64(json_get(v, "minItems"), -1), (int64_t)f->min);
    assert_int_equal(json_i64(json_get(v, "maxItems"), -1), (int64_t)f->max);
    assert_int_equal(json_i64(json_path(v, "items.minLength"), -1), 1);
    assert_int_equal(json_i64(json_path(v, "items.maxLength"), -1), TASK_LABEL_BYTES - 1);
}

/* The list of replicas, and in each the list of stages. */
static void assert_same_stages(const struct json *v, const struct field *f)
{
    static const struct {
        const char *name;
        int max;
    } counts[] = {{"layers", MODEL_LAYERS_MAX}, {"units", MODEL_UNITS_MAX}};
    const struct json *stages = json_path(v, "items.properties.stages");
    const struct json *items = json_path(stages, "items.properties");

    assert_string_equal(json_text(v, "type"), "array");
    assert_int_equal(json_i64(json_get(v, "minItems"), -1), (int64_t)f->min);
    assert_int_equal(json_i64(json_get(v, "maxItems"), -1), (int64_t)f->max);
    assert_int_equal(json_count(json_path(v, "items.properties")), 1);
    assert_string_equal(json_text(stages, "type"), "array");
    assert_int_equal(json_i64(json_get(stages, "minItems"), -1), 1);
    assert_int_equal(json_i64(json_get(stages, "maxItems"), -1), SPEC_STAGES_MAX);
    assert_int_equal(json_count(items), 3);
    assert_int_equal(json_i64(json_path(items, "node.minLength"), -1), 1);
    assert_int_equal(json_i64(json_path(items, "node.maxLength"), -1), SPEC_NAME_BYTES - 1);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const struct json *count = json_get(items, counts[i].name);

        assert_string_equal(json_text(count, "type"), "integer");
        assert_int_equal(json_i64(json_get(count, "minimum"), -1), 1);
        assert_int_equal(json_i64(json_get(count, "maximum"), -1), counts[i].max);
    }
}

static void check_field(void **state)
{
    const struct field *f = *state;
    const struct json *v = schema_of(f->key);
    bool is_integer = f->kind == FIELD_INT || f->kind == FIELD_INT64;

    assert_non_null(v);
    if (f->kind == FIELD_LIST && f->fields[0].key[0] == '\0') {
        assert_same_list(v, f);
        return;
    }
    if (f->kind == FIELD_LIST) {
        assert_same_stages(v, f);
        return;
    }
    if (f->kind == FIELD_HASH) { /* test_pods.c has the rest */
        assert_string_equal(json_text(v, "type"), json_get(v, "items") ? "array" : "object");
        return;
    }
    if (f->kind == FIELD_OBJECT) { /* that only has to be there */
        assert_string_equal(json_text(v, "type"), "object");
        assert_int_equal(f->fields[0].kind, FIELD_END);
        assert_null(json_get(v, "properties"));
        return;
    }
    if (is_integer && f->words) {
        assert_true(json_bool(json_get(v, "x-kubernetes-int-or-string"), false));
        assert_string_equal(json_text(v, "pattern"), "^Auto$");
        assert_string_equal(f->words[0], "Auto");
        assert_null(f->words[1]);
    } else {
        assert_string_equal(json_text(v, "type"), is_integer              ? "integer"
                                                  : f->kind == FIELD_BOOL ? "boolean"
                                                                          : "string");
    }
    assert_same_bounds(v, f);
    assert_same_default(v, f);
    if (f->words && !is_integer)
        assert_same_words(v, f->words);
    if (f->kind == FIELD_DECIMAL)
        assert_same_decimal(v, f);
}

static bool is_in_table(const char *path)
{
    for (const struct field *f = spec_fields; f->kind != FIELD_END; f++)
        if (strcmp(f->key, path) == 0)
            return true;
    return false;
}

/* Walk all properties below `v`; every one has a description, and leaves are in the table. */
static void walk(const struct json *v, const char *prefix, bool check_table, int depth)
{
    assert_true(depth < DEPTH_MAX);
    for (const struct json *p = json_first(json_get(v, "properties")); p; p = json_next(p)) {
        char path[160];
        const struct json *inner = json_get(p, "items") ? json_get(p, "items") : p;

        (void)snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", json_key(p));
        if (strlen(json_text(p, "description")) < 10)
            fail_msg("%s has no description", path);
        if (json_get(inner, "properties") && !is_in_table(path))
            walk(inner, path, check_table, depth + 1);
        else if (check_table && !is_in_table(path))
            fail_msg("%s is in the CRD but the programs do not read it", path);
    }
}

static void crd_has_no_field_that_the_programs_do_not_read(void **state)
{
    (void)state;
    walk(schema_of(""), "", true, 0);
}

static void assert_same_number(const struct field *f, const struct json *v)
{
    const struct json *max = json_get(v, "maximum");

    assert_string_equal(json_text(v, "type"), "integer");
    assert_string_equal(json_text(v, "format"), f->kind == FIELD_INT ? "int32" : "int64");
    assert_int_equal(json_i64(json_get(v, "minimum"), -1), (int64_t)f->min);
    if (max) /* the others have the bounds of their type */
        assert_int_equal(json_i64(max, -1), (int64_t)f->max);
}

/* Every row of the table is a property with room for all that is written, and the other way round
 * but for what is derived (stagesReady) or kept by index (conditions). */
static void assert_same_status(const struct field *fields, const struct json *object)
{
    const struct json *properties = json_get(object, "properties");
    size_t n = 0;

    for (const struct field *f = fields; f->kind != FIELD_END; f++, n++) {
        const struct json *v = f->key[0] ? json_get(properties, f->key) : object;
        const char *type = json_text(v, "type");

        if (!v)
            fail_msg("status has %s, the CRD does not", f->key);
        switch (f->kind) {
        case FIELD_TEXT:
            assert_string_equal(type, "string");
            assert_true(json_i64(json_get(v, "maxLength"), 0) >= (int64_t)f->bytes - 1);
            assert_int_equal(json_i64(json_get(v, "minLength"), 0), (int64_t)f->min);
            break;
        case FIELD_TIME:
            assert_string_equal(json_text(v, "format"), "date-time");
            break;
        case FIELD_BOOL:
            assert_string_equal(type, "boolean");
            break;
        case FIELD_OBJECT:
            assert_string_equal(type, "object");
            assert_same_status(f->fields, v);
            break;
        case FIELD_LIST:
            assert_string_equal(type, "array");
            assert_true(json_i64(json_get(v, "maxItems"), 0) >=
                        (int64_t)(f->bytes / f->entry_bytes));
            assert_same_status(f->fields, json_get(v, "items"));
            break;
        default:
            assert_same_number(f, v);
        }
    }
    if (fields == status_fields)
        n += 2;
    if (properties)
        assert_int_equal(json_count(properties), n);
}

static void crd_has_the_fields_of_the_status_with_their_bounds(void **state)
{
    const struct json *status = json_path(schema(), "properties.status");

    (void)state;
    walk(status, "", false, 0);
    assert_same_status(status_fields, status);
}

static void crd_names_the_states_of_a_job(void **state)
{
    const struct json *v = json_path(schema(), "properties.status.properties.state");
    char words[400] = "";

    (void)state;
    for (int i = 0; i < STATUS_STATES; i++)
        text_add(words, sizeof words, "%s%s",
                 i == 0                   ? ""
                 : i == STATUS_STATES - 1 ? " or "
                                          : ", ",
                 status_states[i]);
    assert_non_null(strstr(json_text(v, "description"), words));
}

/* A column over a path that does not exist is empty for ever. */
static void crd_columns_show_fields_of_their_type(void **state)
{
    const struct json *version = json_first(json_path(crd, "spec.versions"));
    const struct json *column = json_first(json_get(version, "additionalPrinterColumns"));
    int n = 0;

    (void)state;
    for (; column; column = json_next(column), n++) {
        const char *path = json_text(column, "jsonPath");
        const struct json *v = schema();

        if (strncmp(path, ".metadata.", strlen(".metadata.")) == 0)
            continue;
        while (*path == '.') {
            char part[64];

            (void)snprintf(part, sizeof part, "%.*s", (int)strcspn(path + 1, "."), path + 1);
            path += 1 + strlen(part);
            v = json_get(json_get(v, "properties"), part);
        }
        assert_string_equal(json_string(json_get(v, "type"), "(missing)"),
                            json_text(column, "type"));
    }
    assert_int_equal(n, 11);
}

/* Objects around a default need one of their own, or the API server never gets to it. */
static void crd_defaults_reach_through_every_object_above_them(void **state)
{
    (void)state;
    for (const struct field *f = spec_fields; f->kind != FIELD_END; f++) {
        char path[96];
        char *dot;

        if (!f->fallback)
            continue;
        (void)snprintf(path, sizeof path, "%s", f->key);
        for (dot = strrchr(path, '.'); dot; dot = strrchr(path, '.')) {
            *dot = '\0';
            if (strcmp(path, "data") != 0) /* required, so always there */
                assert_non_null(json_get(schema_of(path), "default"));
        }
    }
}

/* Everything but what people read. */
static void assert_same_shape(const struct json *a, const struct json *b)
{
    assert_int_equal(json_kind_of(a), json_kind_of(b));
    if (json_kind_of(a) == JSON_OBJECT || json_kind_of(a) == JSON_ARRAY) {
        assert_int_equal(json_count(a), json_count(b));
        for (a = json_first(a), b = json_first(b); a; a = json_next(a), b = json_next(b)) {
            assert_string_equal(json_key(a), json_key(b));
            if (strcmp(json_key(a), "description") != 0 && strcmp(json_key(a), "message") != 0)
                assert_same_shape(a, b);
        }
        return;
    }
    assert_string_equal(json_string(a, ""), json_string(b, ""));
    assert_true(json_i64(a, 0) == json_i64(b, 0));
}

static void crd_has_one_type_of_volume(void **state)
{
    const struct json *data = schema_of("data.source.persistentVolumeClaim");

    (void)state;
    assert_non_null(data);
    assert_same_shape(schema_of("model.from.persistentVolumeClaim"), data);
    assert_same_shape(schema_of("output.persistentVolumeClaim"), data);
    assert_same_shape(schema_of("checkpoint.store.persistentVolumeClaim"), data);
}

static void crd_defaults_make_a_spec_that_the_parser_accepts(void **state)
{
    static const char text[] = "{\"data\":{\"source\":{\"sample\":\"MNLI\"}}}";
    struct json *json;
    struct spec spec;
    struct err err;

    (void)state;
    assert_int_equal(json_parse(text, sizeof text - 1, &json, &err), ERR_OK);
    assert_int_equal(spec_parse(json, &spec, &err), ERR_OK);
    json_free(json);
}

static int load_crd(void)
{
    struct buf yaml = {.max = CRD_BYTES};
    struct buf text = {.max = 4 * CRD_BYTES};
    struct err err = {0};
    enum err_code rc = file_read(CRD_PATH, &yaml, &err);

    if (rc == ERR_OK)
        rc = yaml_to_json(yaml.data, yaml.len, 0, &text, &err);
    if (rc == ERR_OK)
        rc = json_parse(text.data, text.len, &crd, &err);
    if (rc != ERR_OK)
        (void)fprintf(stderr, "%s\n", err.text);
    buf_deinit(&yaml);
    buf_deinit(&text);
    return rc == ERR_OK ? 0 : 1;
}

int main(void)
{
    static char names[FIELDS_MAX][96];
    enum { N_FIXED = 6 };
    struct CMUnitTest tests[FIELDS_MAX + N_FIXED] = {
        cmocka_unit_test(crd_has_no_field_that_the_programs_do_not_read),
        cmocka_unit_test(crd_has_the_fields_of_the_status_with_their_bounds),
        cmocka_unit_test(crd_names_the_states_of_a_job),
        cmocka_unit_test(crd_columns_show_fields_of_their_type),
        cmocka_unit_test(crd_defaults_reach_through_every_object_above_them),
        cmocka_unit_test(crd_defaults_make_a_spec_that_the_parser_accepts),
        cmocka_unit_test(crd_has_one_type_of_volume),
    };
    size_t n = N_FIXED;
    int rc;

    if (load_crd() != 0)
        return 1;
    for (const struct field *f = spec_fields; f->kind != FIELD_END; f++, n++) {
        if (n == FIELDS_MAX + N_FIXED) {
            (void)fprintf(stderr, "FIELDS_MAX is below the number of fields of the table\n");
            return 1;
        }
        struct field *row = malloc(sizeof *row);

        if (!row)
            return 1;
        *row = *f;
        (void)snprintf(names[n - N_FIXED], sizeof names[0], "crd_and_parser_agree_on_%s", f->key);
        tests[n] = (struct CMUnitTest){
            .name = names[n - N_FIXED], .test_func = check_field, .initial_state = row};
    }
    rc = _cmocka_run_group_tests("crd", tests, n, NULL, NULL);
    for (size_t i = N_FIXED; i < n; i++)
        free(tests[i].initial_state);
    json_free(crd);
    return rc;
}
