#include "cli/nodefile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/closed.h"
#include "api/mark.h"
#include "api/names.h"
#include "api/quantity.h"
#include "base/file.h"
#include "base/yaml.h"

/* An amount, which YAML may hold as a string ("4", "8Gi") or as a number. */
static enum err_code read_amount(const struct json *node, const char *name, const char *key,
                                 int64_t *out, struct err *err)
{
    const struct json *v = json_get(json_path(node, "status.allocatable"), key);
    bool is_cpu = strcmp(key, "cpu") == 0;
    char text[64];
    enum err_code rc;

    if (json_kind_of(v) == JSON_NUMBER)
        (void)snprintf(text, sizeof text, "%.15g", json_double(v, 0));
    else
        (void)snprintf(text, sizeof text, "%s", json_string(v, ""));
    rc = is_cpu ? quantity_milli(text, out, err) : quantity_units(text, out, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "node %.60s: status.allocatable.%s", name, key);
    if (*out < 1 || *out > (is_cpu ? 10000000 : INT64_MAX / 2))
        return err_set(err, ERR_INVALID, "node %.60s: status.allocatable.%s: \"%s\" makes no sense",
                       name, key, text);
    return ERR_OK;
}

/* What is declared, else what was measured there for whatever job, as that is better than nothing:
 * whether it holds is for cli/stale.h to say. */
static enum err_code read_speed(const struct mark *m, struct node *n, struct err *err)
{
    if (m->bad[0])
        return err_set(err, ERR_INVALID, "node %.60s: %s", n->name, m->bad);
    if (m->gflops <= 0 && !m->has_probe)
        return ERR_OK;
    if (m->has_probe)
        n->message = m->probe.found.message;
    n->gflops = m->gflops > 0 ? m->gflops
                              : m->probe.found.gflops * node_useful_milli(n->cpu_milli) /
                                    node_useful_milli(m->probe.cpu_milli);
    n->unit_ms = m->gflops > 0 ? m->unit_ms : m->probe.found.unit_ms;
    return ERR_OK;
}

enum err_code nodefile_read(const struct json *json, struct node *out, struct err *err)
{
    struct node n = {.unit_ms = 0};
    struct mark mark;
    const char *name = json_string(json_path(json, "metadata.name"), "");
    int64_t milli = 0;
    enum err_code rc;

    if (*name == '\0' || strlen(name) >= sizeof n.name)
        return err_set(err, ERR_INVALID, "a Node has no metadata.name");
    (void)snprintf(n.name, sizeof n.name, "%s", name);
    rc = read_amount(json, name, "cpu", &milli, err);
    if (rc == ERR_OK)
        rc = read_amount(json, name, "memory", &n.memory_bytes, err);
    n.cpu_milli = (int)milli;
    mark_read(json, &mark);
    if (rc == ERR_OK)
        rc = read_speed(&mark, &n, err);
    if (rc == ERR_OK)
        *out = n;
    return rc;
}

static enum err_code take_node(const struct json *json, struct nodefile *f, struct err *err)
{
    struct node n;
    enum err_code rc;

    if (closed_read(json, CLOSED_NOT) != CLOSED_NOT) {
        f->n_closed++;
        return ERR_OK;
    }
    rc = nodefile_read(json, &n, err);
    if (rc != ERR_OK)
        return rc;
    if (n.gflops <= 0)
        return err_set(err, ERR_INVALID,
                       "node %.60s: has no label or annotation %s, so its speed is not known; "
                       "measure it there with `skyjob-worker probe`",
                       n.name, LABEL_GFLOPS);
    for (int i = 0; i < f->n_nodes; i++)
        if (strcmp(f->nodes[i].name, n.name) == 0)
            return err_set(err, ERR_INVALID, "node %.60s is there twice", n.name);
    if (f->n_nodes == NODEFILE_NODES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d nodes", NODEFILE_NODES_MAX);
    mark_read(json, &f->marks[f->n_nodes]);
    f->nodes[f->n_nodes++] = n;
    return ERR_OK;
}

static enum err_code take_object(const struct json *json, struct nodefile *f, struct err *err)
{
    const char *kind = json_string(json_get(json, "kind"), "");
    enum err_code rc = ERR_OK;

    if (strcmp(kind, "Node") == 0)
        return take_node(json, f, err);
    if (strcmp(kind, "List") != 0 && strcmp(kind, "NodeList") != 0)
        return ERR_OK;
    /* Lists hold no lists, so one level is all there is to look into. */
    for (const struct json *v = json_first(json_get(json, "items")); v && rc == ERR_OK;
         v = json_next(v))
        if (strcmp(json_string(json_get(v, "kind"), "Node"), "Node") == 0)
            rc = take_node(v, f, err);
    return rc;
}

static enum err_code read_documents(const struct buf *text, struct nodefile *f, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK; i++) {
        struct buf json = {.max = NODEFILE_MAX_BYTES};
        struct json *root = NULL;

        rc = yaml_to_json(buf_text(text), text->len, i, &json, err);
        if (rc == ERR_OK)
            rc = json_parse(buf_text(&json), json.len, &root, err);
        if (rc == ERR_OK)
            rc = take_object(root, f, err);
        json_free(root);
        buf_deinit(&json);
    }
    if (rc != ERR_NOT_FOUND) /* which says that all documents have been read */
        return rc;
    if (f->n_nodes + f->n_closed == 0)
        return err_set(err, ERR_NOT_FOUND,
                       "holds no Node; `kubectl get nodes -o yaml` prints them");
    return ERR_OK;
}

enum err_code nodefile_load(const char *path, struct nodefile *out, struct err *err)
{
    struct buf text = {.max = NODEFILE_MAX_BYTES};
    struct nodefile f = {.nodes = calloc(NODEFILE_NODES_MAX, sizeof *f.nodes),
                         .marks = calloc(NODEFILE_NODES_MAX, sizeof *f.marks)};
    enum err_code rc = ERR_OK;

    if (!f.nodes || !f.marks)
        rc = err_set(err, ERR_NO_MEMORY, "reading %.300s", path);
    if (rc == ERR_OK)
        rc = file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, &text, err);
    if (rc == ERR_OK) {
        rc = read_documents(&text, &f, err);
        if (rc != ERR_OK)
            (void)err_wrap(err, rc, "%s", path);
    }
    buf_deinit(&text);
    if (rc == ERR_OK)
        *out = f;
    else
        nodefile_deinit(&f);
    return rc;
}

void nodefile_deinit(struct nodefile *f)
{
    free(f->nodes);
    free(f->marks);
    *f = (struct nodefile){.nodes = NULL};
}
