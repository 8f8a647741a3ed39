#include "api/node.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonw.h"

void node_probes_tell(const struct node_probe *probes, int n, struct spec *spec)
{
    double gflops = 0;

    for (int i = 0; i < n; i++) {
        if (!(probes[i].gflops > gflops))
            continue;
        gflops = probes[i].gflops;
        if (probes[i].lengths.mean > 0)
            spec->data.lengths = probes[i].lengths;
        if (probes[i].pace.attention > 0)
            spec->pace = probes[i].pace;
    }
}

static void write_links(struct jsonw *w, const struct node_probe *p)
{
    jsonw_open_array(w, "links");
    for (int i = 0; i < p->n_links && i < NODE_LINKS_MAX; i++) {
        jsonw_open_object(w, NULL);
        jsonw_line(w, "node", p->links[i].node);
        jsonw_double(w, "bytesPerSecond", p->links[i].bytes_per_s);
        jsonw_double(w, "latencyMs", p->links[i].latency_ms);
        jsonw_close(w);
    }
    jsonw_close(w);
}

static void write_pace(struct jsonw *w, const struct spec_pace *p)
{
    jsonw_open_object(w, "pace");
    jsonw_double(w, "attention", p->attention);
    jsonw_double(w, "feedForward", p->ffn);
    jsonw_double(w, "parameter", p->parameter);
    jsonw_double(w, "element", p->element);
    jsonw_double(w, "update", p->update);
    jsonw_double(w, "sequence", p->sequence);
    jsonw_close(w);
}

enum err_code node_probe_write(const struct node_probe *p, struct buf *out, struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_double(&w, "gflops", p->gflops);
    jsonw_double(&w, "unitMs", p->unit_ms);
    jsonw_double(&w, "memoryBytesPerSecond", p->memory_bytes_per_s);
    jsonw_open_object(&w, "lengths");
    jsonw_double(&w, "mean", p->lengths.mean);
    jsonw_double(&w, "meanSquare", p->lengths.mean_square);
    jsonw_close(&w);
    if (p->pace.attention > 0)
        write_pace(&w, &p->pace);
    jsonw_int(&w, "threads", p->threads);
    jsonw_line(&w, "blasCore", p->blas_core);
    jsonw_line(&w, "cpuModel", p->cpu_model);
    if (p->has_bf16 != NODE_UNKNOWN)
        jsonw_bool(&w, "bf16", p->has_bf16 == NODE_YES);
    if (p->n_links > 0)
        write_links(&w, p);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

/* As the API server has them: a name that needs escapes would not fit a termination message. */
static bool is_node_name(const char *s)
{
    size_t n = strlen(s);

    return n > 0 && n < NODE_NAME_BYTES && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == n;
}

/* The mean square is at least the square of the mean, but for rounding. */
static bool are_lengths(const struct spec_lengths *l)
{
    if (l->mean == 0 && l->mean_square == 0)
        return true;
    return l->mean >= 1 && l->mean <= 65536 && l->mean_square >= 0.999 * l->mean * l->mean &&
           l->mean_square <= 65536.0 * 65536.0;
}

static enum err_code read_links(const struct json *links, struct node_probe *out, struct err *err)
{
    if (json_count(links) > NODE_LINKS_MAX)
        return err_set(err, ERR_INVALID, "probe result: %zu links, more than %d", json_count(links),
                       NODE_LINKS_MAX);
    for (const struct json *v = json_first(links); v; v = json_next(v)) {
        struct node_link *to = &out->links[out->n_links++];
        const char *node = json_string(json_get(v, "node"), "");

        to->bytes_per_s = json_double(json_get(v, "bytesPerSecond"), -1);
        to->latency_ms = json_double(json_get(v, "latencyMs"), -1);
        if (!is_node_name(node) || !(to->bytes_per_s > 0 && to->bytes_per_s < 1e13) ||
            !(to->latency_ms >= 0 && to->latency_ms < 1e5))
            return err_set(err, ERR_INVALID,
                           "probe result: a link to \"%.60s\" with %g bytes/s and %g ms makes no "
                           "sense",
                           node, to->bytes_per_s, to->latency_ms);
        memcpy(to->node, node, strlen(node) + 1);
    }
    return ERR_OK;
}

static enum err_code read_pace(const struct json *json, struct spec_pace *out, struct err *err)
{
    struct spec_pace p = {.attention = json_double(json_get(json, "attention"), -1),
                          .ffn = json_double(json_get(json, "feedForward"), -1),
                          .parameter = json_double(json_get(json, "parameter"), -1),
                          .element = json_double(json_get(json, "element"), -1),
                          .update = json_double(json_get(json, "update"), -1),
                          .sequence = json_double(json_get(json, "sequence"), 0)};

    if (!json)
        return ERR_OK;
    if (!(p.attention > 0 && p.attention < 1e6) || !(p.ffn > 0 && p.ffn < 1e6) ||
        !(p.parameter >= 0 && p.parameter < 1e9) || !(p.element >= 0 && p.element < 1e9) ||
        !(p.update >= 0 && p.update < 1e9) || !(p.sequence >= 0 && p.sequence < 1e15))
        return err_set(err, ERR_INVALID,
                       "probe result: a pace of %g, %g, %g, %g, %g, %g makes no sense", p.attention,
                       p.ffn, p.parameter, p.element, p.update, p.sequence);
    *out = p;
    return ERR_OK;
}

enum err_code node_probe_read(const char *text, struct node_probe *out, struct err *err)
{
    struct node_probe p = {0};
    struct json *root;
    enum err_code rc = json_parse(text, strlen(text), &root, err);

    if (rc != ERR_OK)
        return err_wrap(err, rc, "probe result");
    p.gflops = json_double(json_get(root, "gflops"), -1);
    p.unit_ms = json_double(json_get(root, "unitMs"), -1);
    p.memory_bytes_per_s = json_double(json_get(root, "memoryBytesPerSecond"), 0);
    p.lengths.mean = json_double(json_path(root, "lengths.mean"), 0);
    p.lengths.mean_square = json_double(json_path(root, "lengths.meanSquare"), 0);
    p.threads = json_int(json_get(root, "threads"), 0);
    (void)snprintf(p.blas_core, sizeof p.blas_core, "%s",
                   json_string(json_get(root, "blasCore"), ""));
    (void)snprintf(p.cpu_model, sizeof p.cpu_model, "%s",
                   json_string(json_get(root, "cpuModel"), ""));
    if (json_kind_of(json_get(root, "bf16")) == JSON_BOOL)
        p.has_bf16 = json_bool(json_get(root, "bf16"), false) ? NODE_YES : NODE_NO;
    rc = read_links(json_get(root, "links"), &p, err);
    if (rc == ERR_OK)
        rc = read_pace(json_get(root, "pace"), &p.pace, err);
    json_free(root);
    if (rc != ERR_OK)
        return rc;
    if (!(p.gflops > 0 && p.gflops < 1e9) || !(p.unit_ms >= 0 && p.unit_ms < 1e6) || p.threads < 1)
        return err_set(err, ERR_INVALID,
                       "probe result: %g GFLOP/s, %g ms, %d threads make no sense", p.gflops,
                       p.unit_ms, p.threads);
    if (!(p.memory_bytes_per_s >= 0 && p.memory_bytes_per_s < 1e15) || !are_lengths(&p.lengths))
        return err_set(err, ERR_INVALID,
                       "probe result: %g bytes/s of memory, sequences of %g tokens with a mean "
                       "square of %g make no sense",
                       p.memory_bytes_per_s, p.lengths.mean, p.lengths.mean_square);
    *out = p;
    return ERR_OK;
}
