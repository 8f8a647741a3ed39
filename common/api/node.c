#include "api/node.h"

#include <math.h>
#include <stddef.h>
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

/* --- figures: what is written, and within which bounds it is believed --- */

struct figure {
    const char *key;
    size_t at; /* of the double, in the struct */
    double below;
    enum { ABOVE_0, FROM_0, OR_NONE } least; /* OR_NONE: from 0, which it is when it is missing */
};

#define FOUND(field) offsetof(struct node_probe, field)
static const struct figure found_figures[] = {
    {"gflops", FOUND(gflops), 1e9, ABOVE_0},
    {"unitMs", FOUND(unit_ms), 1e6, FROM_0},
    {"blockMs", FOUND(block_ms), 1e9, OR_NONE},
    {"memoryBytesPerSecond", FOUND(memory_bytes_per_s), 1e15, OR_NONE},
    {NULL, 0, 0, OR_NONE},
};

#define MESSAGE(field) offsetof(struct node_message, field)
static const struct figure message_figures[] = {
    {"ms", MESSAGE(ms), 1e4, ABOVE_0},
    {"byteNs", MESSAGE(byte_ns), 1e6, FROM_0},
    {NULL, 0, 0, OR_NONE},
};

#define LENGTHS(field) offsetof(struct spec_lengths, field)
static const struct figure length_figures[] = {
    {"mean", LENGTHS(mean), 65537, OR_NONE},
    {"meanSquare", LENGTHS(mean_square), 65536.0 * 65536.0 + 1, OR_NONE},
    {NULL, 0, 0, OR_NONE},
};

#define LINK(field) offsetof(struct node_link, field)
static const struct figure link_figures[] = {
    {"bytesPerSecond", LINK(bytes_per_s), 1e13, ABOVE_0},
    {"latencyMs", LINK(latency_ms), 1e5, FROM_0},
    {NULL, 0, 0, OR_NONE},
};

#define PACE(field) offsetof(struct spec_pace, field)
static const struct figure pace_figures[] = {
    {"attention", PACE(attention), 1e6, ABOVE_0},
    {"feedForward", PACE(ffn), 1e6, ABOVE_0},
    {"parameter", PACE(parameter), 1e9, FROM_0},
    {"element", PACE(element), 1e9, FROM_0},
    {"update", PACE(update), 1e9, FROM_0},
    {"sequence", PACE(sequence), 1e15, OR_NONE},
    {NULL, 0, 0, OR_NONE},
};

static void write_figures(struct jsonw *w, const struct figure *figures, const void *from)
{
    for (const struct figure *f = figures; f->key; f++) {
        double d;

        memcpy(&d, (const char *)from + f->at, sizeof d);
        jsonw_double(w, f->key, d);
    }
}

static enum err_code read_figures(const struct json *json, const struct figure *figures, void *to,
                                  struct err *err)
{
    for (const struct figure *f = figures; f->key; f++) {
        double d = json_double(json_get(json, f->key), f->least == OR_NONE ? 0 : NAN);

        if (!(d >= 0 && d < f->below) || (f->least == ABOVE_0 && d == 0))
            return err_set(err, ERR_INVALID, "probe result: %s: %g is not a number %s 0 below %g",
                           f->key, d, f->least == ABOVE_0 ? "above" : "from", f->below);
        memcpy((char *)to + f->at, &d, sizeof d);
    }
    return ERR_OK;
}

/* --- to JSON --- */

static void write_links(struct jsonw *w, const struct node_probe *p)
{
    jsonw_open_array(w, "links");
    for (int i = 0; i < p->n_links && i < NODE_LINKS_MAX; i++) {
        jsonw_open_object(w, NULL);
        jsonw_line(w, "node", p->links[i].node);
        write_figures(w, link_figures, &p->links[i]);
        jsonw_close(w);
    }
    jsonw_close(w);
}

static void write_group(struct jsonw *w, const char *key, const struct figure *figures,
                        const void *from)
{
    jsonw_open_object(w, key);
    write_figures(w, figures, from);
    jsonw_close(w);
}

enum err_code node_probe_write(const struct node_probe *p, struct buf *out, struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    write_figures(&w, found_figures, p);
    write_group(&w, "lengths", length_figures, &p->lengths);
    if (p->pace.attention > 0)
        write_group(&w, "pace", pace_figures, &p->pace);
    if (p->message.ms > 0)
        write_group(&w, "message", message_figures, &p->message);
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

/* --- from JSON --- */

/* As the API server has them: a name that needs escapes would not fit a termination message. */
static bool is_node_name(const char *s)
{
    size_t n = strlen(s);

    return n > 0 && n < NODE_NAME_BYTES && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == n;
}

static enum err_code read_links(const struct json *links, struct node_probe *out, struct err *err)
{
    if (json_count(links) > NODE_LINKS_MAX)
        return err_set(err, ERR_INVALID, "probe result: %zu links, more than %d", json_count(links),
                       NODE_LINKS_MAX);
    for (const struct json *v = json_first(links); v; v = json_next(v)) {
        struct node_link *to = &out->links[out->n_links++];
        const char *node = json_string(json_get(v, "node"), "");
        enum err_code rc = read_figures(v, link_figures, to, err);

        if (rc != ERR_OK)
            return rc;
        if (!is_node_name(node))
            return err_set(err, ERR_INVALID, "probe result: a link to \"%.60s\", which is no node",
                           node);
        memcpy(to->node, node, strlen(node) + 1);
    }
    return ERR_OK;
}

/* The mean square is at least the square of the mean, but for rounding. */
static bool are_lengths(const struct spec_lengths *l)
{
    if (l->mean == 0 && l->mean_square == 0)
        return true;
    return l->mean >= 1 && l->mean_square >= 0.999 * l->mean * l->mean;
}

static enum err_code read_found(const struct json *root, struct node_probe *p, struct err *err)
{
    enum err_code rc = read_figures(root, found_figures, p, err);

    p->threads = json_int(json_get(root, "threads"), 0);
    (void)snprintf(p->blas_core, sizeof p->blas_core, "%s",
                   json_string(json_get(root, "blasCore"), ""));
    (void)snprintf(p->cpu_model, sizeof p->cpu_model, "%s",
                   json_string(json_get(root, "cpuModel"), ""));
    if (json_kind_of(json_get(root, "bf16")) == JSON_BOOL)
        p->has_bf16 = json_bool(json_get(root, "bf16"), false) ? NODE_YES : NODE_NO;
    if (rc == ERR_OK && p->threads < 1)
        rc = err_set(err, ERR_INVALID, "probe result: threads: missing or not above 0");
    if (rc == ERR_OK)
        rc = read_figures(json_get(root, "lengths"), length_figures, &p->lengths, err);
    if (rc == ERR_OK && !are_lengths(&p->lengths))
        rc = err_set(err, ERR_INVALID,
                     "probe result: lengths: a mean of %g with a mean square of %g makes no sense",
                     p->lengths.mean, p->lengths.mean_square);
    if (rc == ERR_OK && json_get(root, "pace"))
        rc = read_figures(json_get(root, "pace"), pace_figures, &p->pace, err);
    if (rc == ERR_OK && json_get(root, "message"))
        rc = read_figures(json_get(root, "message"), message_figures, &p->message, err);
    if (rc == ERR_OK)
        rc = read_links(json_get(root, "links"), p, err);
    return rc;
}

enum err_code node_probe_read(const char *text, struct node_probe *out, struct err *err)
{
    struct node_probe p = {0};
    struct json *root;
    enum err_code rc = json_parse(text, strlen(text), &root, err);

    if (rc != ERR_OK)
        return err_wrap(err, rc, "probe result");
    rc = read_found(root, &p, err);
    json_free(root);
    if (rc == ERR_OK)
        *out = p;
    return rc;
}
