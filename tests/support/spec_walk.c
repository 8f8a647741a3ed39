/* Do the API server and our parser say the same of every field of the spec? Each gets values at,
 * within and beyond its bounds and of other kinds, in several jobs that are new, and in one that is
 * there, whose immutable parts have to stay. Nothing is kept (dryRun).
 *
 *     spec-walk --kubeconfig FILE JOB     JOB has the first of the specs below
 *
 * Prints where they differ, and at the end how often. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "api/spec.h"
#include "cli/variant.h"
#include "http/http.h"
#include "kube/client.h"

#define VALUE_BYTES 800
#define PATH        "/apis/" NAMES_GROUP "/" NAMES_VERSION "/namespaces/default/skyjobs"
#define QUERY       "?dryRun=All&fieldValidation=Strict"
#define BODY                                                                                       \
    "{\"apiVersion\":\"" NAMES_GROUP "/" NAMES_VERSION                                             \
    "\",\"kind\":\"SkyJob\",\"metadata\":{\"name\":\"another\"},\"spec\":%s}"

static struct http *http;
static struct kube_client *client;
static const char *job; /* that is there */
static int n_asked, n_accepted, n_differ;

/* Together they have a place for every field to count. */
static const char *const specs[] = {
    "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"managedBy\":\"example.com/nobody\"}",
    "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"replicas\":2,\"sync\":{\"protocol\":\"Switch\","
    "\"switchAfterSteps\":5}}",
    "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"replicas\":2,\"sync\":{\"protocol\":\"Local\"},"
    "\"training\":{\"steps\":50,\"evaluateEverySteps\":10,\"optimizer\":{\"type\":\"SGD\"}}}",
    "{\"data\":{\"task\":\"Classification\",\"columns\":{\"text\":\"a\",\"label\":\"b\"},"
    "\"labels\":["
    "\"x\",\"y\"],\"source\":{\"persistentVolumeClaim\":{\"claimName\":\"c\"}}},\"model\":{"
    "\"from\":{"
    "\"persistentVolumeClaim\":{\"claimName\":\"c\"}}},\"output\":{\"persistentVolumeClaim\":{"
    "\"claimName\":\"c\"}},\"checkpoint\":{\"store\":{\"persistentVolumeClaim\":{\"claimName\":"
    "\"c\"}}},"
    "\"resumeFrom\":{\"job\":\"j\"}}",
    "{\"data\":{\"source\":{\"configMap\":{\"name\":\"c\"}}},\"checkpoint\":{\"store\":{\"s3\":{"
    "\"bucket\":\"abc\",\"credentialsSecret\":\"s\"}}},\"placement\":{\"strategy\":\"Manual\","
    "\"manual\":{\"replicas\":[{\"stages\":[{\"layers\":4}]}]}}}",
};
#define N_SPECS (sizeof specs / sizeof *specs)

/* What the CRD has as immutable. */
static bool is_fixed(const char *field)
{
    static const char *const prefixes[] = {"model.", "data.",       "training.",
                                           "wire.",  "resumeFrom.", "managedBy"};

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(field, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

_Noreturn static void die(const char *why, const char *what)
{
    (void)fprintf(stderr, "spec-walk: %s %s\n", why, what);
    exit(2);
}

static struct json *parsed(const char *text)
{
    struct json *json = NULL;
    struct err err;

    if (json_parse(text, strlen(text), &json, &err) != ERR_OK)
        die(err.text, text);
    return json;
}

static bool is_same(const struct field *f, const struct spec *a, const struct spec *b)
{
    return memcmp((const char *)a + f->offset, (const char *)b + f->offset, f->bytes) == 0;
}

/* {"a": {"b": VALUE}} for the field a.b. */
static void write_patch(const char *field, const char *value, char out[static 2 * VALUE_BYTES])
{
    int depth = 1;
    size_t n;

    n = (size_t)snprintf(out, 2 * VALUE_BYTES, "{\"");
    for (const char *c = field; *c; c++) {
        if (*c == '.')
            n += (size_t)snprintf(out + n, 2 * VALUE_BYTES - n, "\":{\"");
        else
            out[n++] = *c;
        depth += *c == '.';
    }
    n += (size_t)snprintf(out + n, 2 * VALUE_BYTES - n, "\":%s", value);
    while (depth-- > 0)
        out[n++] = '}';
    out[n] = '\0';
}

/* --- the API server's answer --- */

struct answer {
    bool is_there;
    bool is_accepted;
    char why[600];
};

static void on_done(void *ctx, struct http_response *response, const struct err *failed)
{
    struct answer *a = ctx;
    struct err err = {.text = ""};

    if (failed->code != ERR_OK)
        die(failed->text, "");
    a->is_accepted = response->status < 300;
    if (!a->is_accepted)
        (void)!kube_status_error(response->status, buf_text(&response->body), response->body.len,
                                 &err);
    (void)snprintf(a->why, sizeof a->why, "%s", err.text);
    a->is_there = true;
}

/* A new job or, with `changes`, a change to the one that is there. */
static struct answer ask(bool changes, const char *path, const char *body)
{
    const struct http_request request = {.method = changes ? "PATCH" : "POST",
                                         .url = path,
                                         .content_type = changes ? "application/merge-patch+json"
                                                                 : "application/json",
                                         .body = body,
                                         .body_bytes = strlen(body)};
    struct answer a = {.is_there = false};
    struct err err;
    uint64_t id;

    if (kube_start(client, &request, (struct http_handler){.ctx = &a, .on_done = on_done}, &id,
                   &err) != ERR_OK)
        die(err.text, body);
    while (!a.is_there)
        if (http_poll(http, 1000, &err) != ERR_OK)
            die(err.text, body);
    return a;
}

/* --- the comparison --- */

static void show(const struct field *f, const char *value, const char *what, const struct answer *a,
                 const char *parser)
{
    (void)printf("%s of a job with %s %s: the API server %s %s, the parser says \"%s\"\n", what,
                 f->key, value, a->is_accepted ? "accepts it" : "refuses it:", a->why, parser);
    n_differ++;
}

/* `spec` with another value of the field, as a new job or as a change. */
static void compare(const struct field *f, const char *value, const char *spec, bool changes)
{
    struct json *before = parsed(spec), *patch, *after = NULL;
    char patch_text[2 * VALUE_BYTES], body[4 * VALUE_BYTES], path[200];
    struct err err = {.text = ""};
    struct spec was, is;
    struct answer a;
    char *whole;
    bool is_valid, may_differ;

    write_patch(f->key, value, patch_text);
    patch = parsed(patch_text);
    if (spec_parse(before, &was, &err) != ERR_OK ||
        variant_apply(before, patch, &after, &err) != ERR_OK)
        die(err.text, spec);
    whole = json_print(after);
    is_valid = spec_parse(after, &is, &err) == ERR_OK &&
               spec_check_best(&is, is.output.claim[0], &err) == ERR_OK;
    (void)snprintf(path, sizeof path, PATH "%s%s" QUERY, changes ? "/" : "", changes ? job : "");
    (void)snprintf(body, sizeof body, changes ? "{\"spec\":%s}" : BODY,
                   changes ? patch_text : whole);
    a = ask(changes, path, body);
    n_asked++;
    n_accepted += a.is_accepted;
    /* A default that is spelled out is a change to the API server. */
    may_differ = changes && is_fixed(f->key);
    if (a.is_accepted && !is_valid)
        show(f, value, changes ? "change" : "creation", &a, err.text);
    else if (a.is_accepted && may_differ && !is_same(f, &was, &is))
        show(f, value, "change", &a, "it is immutable");
    else if (!a.is_accepted && is_valid && !may_differ)
        show(f, value, changes ? "change" : "creation", &a, "it is valid");
    free(whole);
    json_free(before);
    json_free(patch);
    json_free(after);
}

/* A text of n bytes. */
static const char *text_of(size_t n)
{
    static char out[VALUE_BYTES];

    memset(out, 'a', sizeof out);
    out[0] = out[n + 1] = '"';
    out[n + 2] = '\0';
    return out;
}

static void walk(const struct field *f, const char *text, bool changes)
{
    static const char *const any[] = {"null", "{}", "[]", "true", "\"\"", "7", "\"x\"", "1.5"};
    bool is_number = f->kind == FIELD_INT || f->kind == FIELD_INT64;
    char value[VALUE_BYTES];

    for (size_t i = 0; i < sizeof any / sizeof *any; i++)
        compare(f, any[i], text, changes);
    for (int i = 0; f->words && f->words[i]; i++) {
        (void)snprintf(value, sizeof value, "\"%s\"", f->words[i]);
        compare(f, value, text, changes);
    }
    for (int i = 0; i < 4 && (is_number || f->kind == FIELD_DECIMAL); i++) {
        const double step = is_number ? 1 : 0.001;
        const double values[] = {f->min, f->max, f->min - step, f->max + step};

        (void)snprintf(value, sizeof value, is_number ? "%.0f" : "\"%.17g\"", values[i]);
        compare(f, value, text, changes);
    }
    for (size_t n = 1; n <= 2 && f->kind == FIELD_TEXT; n++)
        compare(f, text_of((size_t)f->max - 1 + n), text, changes);
}

int main(int argc, char **argv)
{
    const struct kube_options options = {.user_agent = "spec-walk"};
    struct kube_config config = {0};
    struct err err;

    if (argc != 4 || strcmp(argv[1], "--kubeconfig") != 0)
        die("see the comment at the top of its source", "");
    job = argv[3];
    if (kube_config_load(argv[2], NULL, &config, &err) != ERR_OK ||
        http_new(&http, &err) != ERR_OK ||
        kube_client_new(http, &config, &options, &client, &err) != ERR_OK)
        die(err.text, "");
    for (const struct field *f = spec_fields; f->kind != FIELD_END; f++) {
        for (size_t i = 0; i < N_SPECS; i++)
            walk(f, specs[i], false);
        walk(f, specs[0], true);
    }
    (void)printf("%d asked, %d accepted, %d differ\n", n_asked, n_accepted, n_differ);
    kube_client_free(client);
    http_free(http);
    kube_config_deinit(&config);
    return n_differ > 0;
}
