#include "cluster/annotation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "base/hash.h"

#define ANNOTATION_AHEAD_MS (INT64_C(24) * 60 * 60 * 1000) /* clocks of nodes may be so far off */

#define ANNOTATION_GFLOPS_MAX 1e9 /* of one machine; the fastest has a thousandth of it */

#define NFD     "feature.node.kubernetes.io/"
#define NFD_CPU NFD "cpu-cpuid."

/* --- declared --- */

static const struct json *labels_of(const struct json *node)
{
    return json_path(node, "metadata.labels");
}

/* A label, or an annotation where there is no such label; NULL: neither. */
static const char *text_of(const struct json *node, const char *key)
{
    const struct json *label = json_get(labels_of(node), key);
    const struct json *v = label ? label : json_get(json_path(node, "metadata.annotations"), key);

    return v ? json_string(v, "") : NULL;
}

/* Read a figure into *out: digits, a point, an exponent; nothing that only strtod likes ("inf",
 * "0x1"). A speed must be above 0: a machine of speed 0 would never get done. Returns whether there
 * is a valid figure. */
static bool read_figure(const struct json *node, const char *key, double most, bool is_speed,
                        double *out, struct annotations *m)
{
    const char *text = text_of(node, key);
    char *end = NULL;
    double d;

    if (!text)
        return false;
    d = *text && strspn(text, "0123456789.eE+-") == strlen(text) ? strtod(text, &end) : NAN;
    if (end && *end == '\0' && d >= 0 && d <= most && (d > 0 || !is_speed)) {
        *out = d;
        return true;
    }
    if (m->bad[0] == '\0' && d == 0 && end && *end == '\0')
        (void)snprintf(m->bad, sizeof m->bad, "%s: must be above 0", key);
    else if (m->bad[0] == '\0')
        (void)snprintf(m->bad, sizeof m->bad, "%s: \"%.40s\" is not a number in 0..%g", key, text,
                       most);
    return false;
}

/* --- Node Feature Discovery --- */

/* Without any flag of that kind NFD does not report CPU features here. */
static enum node_answer read_bf16(const struct json *node)
{
    bool has_avx_flag = false;

    for (const struct json *v = json_first(labels_of(node)); v; v = json_next(v)) {
        const char *key = json_key(v);

        if (strcmp(key, NFD_CPU "AVX512BF16") == 0 || strcmp(key, NFD_CPU "AMXBF16") == 0)
            return NODE_YES;
        has_avx_flag = has_avx_flag || strncmp(key, NFD_CPU "AVX", strlen(NFD_CPU "AVX")) == 0;
    }
    return has_avx_flag ? NODE_NO : NODE_UNKNOWN;
}

/* --- measured --- */

#define SUBJECT(member) FIELD_AT(struct annotation_subject, member)
static const struct field subject_fields[] = {
    {"cpuMilli", FIELD_INT64, SUBJECT(cpu_milli), .min = 1, .max = 9e15, .flags = FIELD_REQUIRED},
    {"memoryBytes", FIELD_INT64, SUBJECT(memory_bytes), .max = 9e15},
    {"cpu", FIELD_TEXT, SUBJECT(cpu), .flags = FIELD_LINE},
    {"image", FIELD_TEXT, SUBJECT(image), .flags = FIELD_LINE},
    {"digest", FIELD_TEXT, SUBJECT(digest), .flags = FIELD_LINE},
    {"work", FIELD_TEXT, SUBJECT(work), .flags = FIELD_LINE},
    {0}};

#define AT(member) FIELD_AT(struct annotation_probe, member)
static const struct field probe_fields[] = {
    {"time", FIELD_TIME, AT(time_ms), .flags = FIELD_REQUIRED},
    {"cpuMilli", FIELD_INT, AT(cpu_milli), .min = 1, .max = INT32_MAX, .flags = FIELD_REQUIRED},
    {"for", FIELD_OBJECT, AT(subject), .fields = subject_fields, .flags = FIELD_REQUIRED},
    {"found", FIELD_OBJECT, AT(found), .fields = node_probe_fields, .flags = FIELD_REQUIRED},
    {0}};

enum err_code annotation_probe_write(const struct annotation_probe *p, struct buf *out,
                                     struct err *err)
{
    return fields_print(probe_fields, p, out, err);
}

static void read_probe(const struct json *node, struct annotations *m)
{
    const struct json *annotations = json_path(node, "metadata.annotations");
    const char *text = json_string(json_get(annotations, ANNOTATION_PROBE), NULL);
    struct annotation_probe p = {.cpu_milli = 0};
    struct err err = {0};
    enum err_code rc;

    if (!text)
        return;
    rc = fields_parse(probe_fields, text, strlen(text), FIELDS_STRICT, &p, &err);
    if (rc == ERR_OK)
        rc = node_probe_check(&p.found, &err);
    if (rc == ERR_OK && annotation_gflops(&p) > ANNOTATION_GFLOPS_MAX)
        rc = err_set(&err, ERR_INVALID, "found.gflops: %g with all CPU is above %g",
                     annotation_gflops(&p), ANNOTATION_GFLOPS_MAX);
    if (rc == ERR_OK) {
        m->has_probe = true;
        m->probe = p;
        m->probe.is_contradicted =
            json_string(json_get(annotations, ANNOTATION_CONTRADICTED), NULL);
    } else if (m->bad[0] == '\0') {
        (void)snprintf(m->bad, sizeof m->bad, "%s: %.100s", ANNOTATION_PROBE, err.text);
    }
}

void annotations_read(const struct json *node, struct annotations *out)
{
    const struct json *labels = labels_of(node);
    const char *vendor = json_string(json_get(labels, NFD "cpu-model.vendor_id"), "");

    memset(out, 0, sizeof *out); /* padding too: the struct is compared as a whole */
    (void)read_figure(node, LABEL_GFLOPS, ANNOTATION_GFLOPS_MAX, true, &out->gflops, out);
    (void)read_figure(node, LABEL_UNIT_MS, 1e6, false, &out->unit_ms, out);
    if (read_figure(node, LABEL_LINK_MBIT, 1e8, true, &out->link_bytes_per_s, out))
        out->link_bytes_per_s *= 1e6 / 8;
    out->has_latency =
        read_figure(node, LABEL_LINK_LATENCY_MS, 1e5, false, &out->link_latency_ms, out);
    out->has_bf16 = read_bf16(node);
    if (*vendor)
        (void)snprintf(out->cpu, sizeof out->cpu, "%.40s-%.20s-%.20s", vendor,
                       json_string(json_get(labels, NFD "cpu-model.family"), ""),
                       json_string(json_get(labels, NFD "cpu-model.id"), ""));
    read_probe(node, out);
}

/* --- what it is worth --- */

static bool differ(const char *then, const char *now)
{
    return *then && *now && strcmp(then, now) != 0;
}

const char *annotation_stale(const struct annotation_probe *p, const struct annotation_subject *now,
                             int64_t now_ms)
{
    const struct annotation_subject *then = &p->subject;

    if (strcmp(then->work, now->work) != 0)
        return "measured for other shapes or data";
    if (then->cpu_milli != now->cpu_milli || then->memory_bytes != now->memory_bytes)
        return "measured with other allocatable CPU or memory";
    if (differ(then->cpu, now->cpu))
        return "measured on another processor";
    if (differ(then->image, now->image) || differ(then->digest, now->digest))
        return "measured with another worker image";
    if (p->is_contradicted)
        return "contradicted by a training run since then";
    if (p->time_ms - now_ms > ANNOTATION_AHEAD_MS)
        return "measured at a time in the future";
    if (now_ms - p->time_ms > ANNOTATION_FRESH_MS)
        return "measured more than 30 days ago";
    return NULL;
}

bool annotation_contradict(const struct annotation_probe *a, const struct annotation_probe *b)
{
    const char *model = a->found.cpu_model;
    bool has_a_more = node_useful_milli(a->cpu_milli) > node_useful_milli(b->cpu_milli);
    bool has_b_more = node_useful_milli(b->cpu_milli) > node_useful_milli(a->cpu_milli);
    double noise = 1 + ANNOTATION_NOISE;

    return model[0] && strcmp(model, "unknown") != 0 && strcmp(model, b->found.cpu_model) == 0 &&
           strcmp(a->subject.work, b->subject.work) == 0 &&
           ((has_a_more && b->found.gflops > noise * a->found.gflops) ||
            (has_b_more && a->found.gflops > noise * b->found.gflops));
}

double annotation_gflops(const struct annotation_probe *p)
{
    return p->found.gflops * node_useful_milli(p->subject.cpu_milli) /
           node_useful_milli(p->cpu_milli);
}

void annotation_work(const struct spec *spec, const char *namespace,
                     char out[static ANNOTATION_WORK_BYTES])
{
    const struct model *m = &spec->model;
    int shapes[] = {m->hidden,
                    m->heads,
                    m->ffn,
                    m->positions,
                    spec->training.max_length,
                    spec->training.batch_size,
                    spec->training.micro_batches,
                    (int)spec->training.precision,
                    (int)spec->data.source};
    uint64_t h = hash_bytes(HASH_START, shapes, sizeof shapes);

    if (spec->data.source != SPEC_SOURCE_SAMPLE)
        h = hash_add(h, namespace);
    h = hash_add(h, spec->data.task);
    h = hash_add(h, spec->data.sample);
    h = hash_add(h, spec->data.config_map);
    h = hash_add(h, spec->data.volume.claim);
    h = hash_add(h, spec->data.volume.path);
    h = hash_add(h, spec->data.files.train);
    h = hash_add(h, spec->data.columns.text);
    h = hash_add(h, spec->data.columns.pair);
    (void)snprintf(out, ANNOTATION_WORK_BYTES, "%016llx", (unsigned long long)h);
}

void annotation_digest(const char *image_id, char out[static ANNOTATION_DIGEST_BYTES])
{
    const char *at = strrchr(image_id, '@');
    const char *digest = at ? at + 1 : image_id;
    bool is_digest = strncmp(digest, "sha256:", 7) == 0;

    (void)snprintf(out, ANNOTATION_DIGEST_BYTES, "%s", is_digest ? digest : "");
}
