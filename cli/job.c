#include "cli/job.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/bert_config.h"
#include "api/names.h"
#include "base/file.h"
#include "base/yaml.h"

#define API_VERSION NAMES_GROUP "/" NAMES_VERSION

static enum err_code read_head(const struct json *root, struct job *job, struct err *err)
{
    static const char *const known[] = {"apiVersion", "kind", "metadata", "spec", "status"};
    const char *version = json_text(root, "apiVersion");
    const char *name = json_text(root, "metadata.name");
    const char *namespace = json_string(json_path(root, "metadata.namespace"), "default");

    if (strcmp(version, API_VERSION) != 0)
        return err_set(err, ERR_INVALID, "apiVersion: must be %s, found \"%.60s\"", API_VERSION,
                       version);
    for (const struct json *v = json_first(root); v; v = json_next(v)) {
        bool is_known = false;

        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            is_known = is_known || strcmp(json_key(v), known[i]) == 0;
        if (!is_known)
            return err_set(err, ERR_INVALID, "%.60s: there is no such field", json_key(v));
    }
    if (!spec_is_name(name, NAMES_JOB_MAX))
        return err_set(err, ERR_INVALID,
                       "metadata.name: \"%.60s\" must be 1 to %d lower-case letters, digits or "
                       "'-', and start and end with a letter or digit",
                       name, NAMES_JOB_MAX);
    if (!spec_is_name(namespace, sizeof job->namespace - 1))
        return err_set(err, ERR_INVALID, "metadata.namespace: \"%.70s\" is not a valid name",
                       namespace);
    (void)snprintf(job->name, sizeof job->name, "%s", name);
    (void)snprintf(job->namespace, sizeof job->namespace, "%s", namespace);
    return ERR_OK;
}

/* --- the sizes of a model --- */

/* Give the spec the sizes in the configuration of the model in `folder`. */
static enum err_code fill_sizes(const char *folder, struct job *job, struct err *err)
{
    const char *file = folder_has(folder, "config.json") ? "config.json" : "bert_config.json";
    const struct json *model = json_get(job->spec_json, "model");
    struct bert_config config;
    struct json *root = NULL;
    char path[PATH_MAX];
    enum err_code rc;

    if (json_kind_of(job->spec_json) != JSON_OBJECT ||
        (json_kind_of(model) > JSON_NULL && json_kind_of(model) != JSON_OBJECT))
        return ERR_OK; /* refused by spec_parse() */
    if (access(folder, R_OK | X_OK) != 0)
        return err_set(err, ERR_NOT_FOUND, "--model: %.300s: %s", folder, strerror(errno));
    if (!folder_has(folder, file))
        return err_set(err, ERR_NOT_FOUND,
                       "--model: %.300s has neither config.json nor bert_config.json", folder);
    rc = folder_path(folder, file, path, err);
    if (rc == ERR_OK)
        rc = folder_json(folder, file, &root, err);
    if (rc == ERR_OK)
        rc = bert_config_parse(path, root, &config, err);
    if (rc == ERR_OK)
        rc = bert_config_fill(path, &config.model, job->spec_json, &job->filled, err);
    if (rc == ERR_OK)
        job->spec_json = job->filled;
    json_free(root);
    return rc;
}

enum err_code job_take_status(struct job *job, const struct json *status, struct err *err)
{
    struct model sizes = {0};
    enum err_code rc;

    if (spec_has_sizes(&job->spec) || fields_read(bert_config_sizes, json_get(status, "model"),
                                                  FIELDS_STRICT, "", &sizes, NULL) != ERR_OK)
        return ERR_OK;
    rc = bert_config_fill("status.model", &sizes, job->spec_json, &job->filled, err);
    if (rc == ERR_OK)
        job->spec_json = job->filled;
    return rc == ERR_OK ? spec_parse(job->spec_json, &job->spec, err) : rc;
}

enum err_code job_check_sizes(const struct job *job, struct err *err)
{
    if (spec_has_sizes(&job->spec))
        return ERR_OK;
    return err_set(err, ERR_INVALID,
                   "spec.model: the sizes of the model in spec.model.from are not known: name a "
                   "copy of its folder with --model DIR, set preset or sizes, or create the job: "
                   "its status.model will have them");
}

/* --- the file --- */

static enum err_code each_in(const char *text, size_t len, size_t max_bytes,
                             struct document_taker taker, struct err *err)
{
    bool is_over = false;
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK; i++) {
        struct buf json = {.max = 4 * max_bytes};
        struct json *root = NULL;

        rc = yaml_to_json(text, len, i, &json, err);
        is_over = rc == ERR_NOT_FOUND;
        if (rc == ERR_OK)
            rc = json_parse(buf_text(&json), json.len, &root, err);
        if (rc == ERR_OK)
            rc = taker.take(taker.ctx, &root, err);
        json_free(root);
        buf_deinit(&json);
    }
    return is_over ? ERR_OK : rc;
}

enum err_code document_each(const char *path, size_t max_bytes, struct document_taker taker,
                            struct err *err)
{
    struct buf text = {.max = max_bytes};
    enum err_code rc = file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, &text, err);

    if (rc == ERR_OK) {
        rc = each_in(buf_text(&text), text.len, max_bytes, taker, err);
        if (rc != ERR_OK)
            (void)err_wrap(err, rc, "%s", path);
    }
    buf_deinit(&text);
    return rc;
}

struct reading {
    const char *model;
    struct job job;
};

static enum err_code take_job(void *ctx, struct json **root, struct err *err)
{
    struct reading *r = ctx;
    struct job *job = &r->job;
    enum err_code rc;

    if (strcmp(json_text(*root, "kind"), "SkyJob") != 0)
        return ERR_OK;
    if (job->document)
        return err_set(err, ERR_INVALID, "contains more than one SkyJob");
    job->document = *root;
    *root = NULL;
    rc = read_head(job->document, job, err);
    job->spec_json = json_get(job->document, "spec");
    if (rc == ERR_OK && r->model)
        rc = fill_sizes(r->model, job, err);
    if (rc == ERR_OK)
        rc = spec_parse(job->spec_json, &job->spec, err);
    return rc == ERR_OK ? job_take_status(job, json_get(job->document, "status"), err) : rc;
}

enum err_code job_load(const char *path, const char *model, struct job *out, struct err *err)
{
    struct reading r = {.model = model};
    enum err_code rc =
        document_each(path, JOB_FILE_MAX_BYTES, (struct document_taker){&r, take_job}, err);

    if (rc == ERR_OK && !r.job.document)
        rc = err_set(err, ERR_NOT_FOUND, "%s: contains no document of kind SkyJob", path);
    if (rc == ERR_OK)
        *out = r.job;
    else
        job_deinit(&r.job);
    return rc;
}

enum err_code job_check(const char *text, size_t len, struct err *err)
{
    struct reading r = {.model = NULL};
    enum err_code rc =
        each_in(text, len, JOB_FILE_MAX_BYTES, (struct document_taker){&r, take_job}, err);

    if (rc == ERR_OK && !r.job.document)
        rc = err_set(err, ERR_NOT_FOUND, "contains no document of kind SkyJob");
    job_deinit(&r.job);
    return rc;
}

void job_deinit(struct job *job)
{
    json_free(job->filled);
    json_free(job->document);
    *job = (struct job){.document = NULL};
}
