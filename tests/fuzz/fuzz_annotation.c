/* What a Node says of itself: everybody who may edit Nodes writes there, and other machines'
 * probes. The same bytes are taken as a whole Node, as the text of each label, as our annotation
 * and as what a probe has left. What is accepted lies within its bounds, reads the same every time,
 * and is written again as the same text. */
#include "cluster/annotation.h"

#include <math.h>
#include <string.h>

#include "api/names.h"
#include "base/json.h"
#include "fuzz.h"

#define TEXT_MAX_BYTES ((size_t)1 << 20)

static void check_found(const struct node_probe *p)
{
    MUST(p->gflops > 0 && p->gflops <= 1e9 && p->unit_ms >= 0 && p->unit_ms <= 1e6);
    MUST(p->threads >= 1);
    MUST(p->memory_bytes_per_s >= 0 && p->memory_bytes_per_s <= 1e15);
    MUST(p->message.ms >= 0 && p->message.ms <= 1e4);
    MUST(p->message.byte_ns >= 0 && p->message.byte_ns <= 1e6);
    MUST(p->lengths.mean >= 0 && p->lengths.mean_square >= 0);
    MUST(isfinite(p->lengths.mean) && isfinite(p->lengths.mean_square));
    MUST(p->pace.attention >= 0 && isfinite(p->pace.attention) && isfinite(p->pace.ffn));
    MUST(p->n_links >= 0 && p->n_links <= NODE_LINKS_MAX);
    for (int i = 0; i < p->n_links; i++) {
        MUST(memchr(p->links[i].node, '\0', NODE_NAME_BYTES) && p->links[i].node[0]);
        MUST(p->links[i].bytes_per_s > 0 && isfinite(p->links[i].bytes_per_s));
        MUST(p->links[i].latency_ms >= 0 && isfinite(p->links[i].latency_ms));
    }
}

static void check_probe(const struct annotation_probe *p)
{
    check_found(&p->found);
    MUST(p->cpu_milli >= 1 && p->subject.cpu_milli >= 1 && p->subject.memory_bytes >= 0);
    MUST(memchr(p->subject.image, '\0', sizeof p->subject.image));
    MUST(annotation_gflops(p) > 0 && annotation_gflops(p) <= 1e9);
    MUST(p->is_contradicted || !annotation_stale(p, &p->subject, p->time_ms));
    MUST(annotation_stale(p, &p->subject, p->time_ms + ANNOTATION_FRESH_MS + 1));
}

static void check_annotations(const struct annotations *m)
{
    MUST(isfinite(m->gflops) && m->gflops >= 0 && isfinite(m->unit_ms) && m->unit_ms >= 0);
    MUST(isfinite(m->link_bytes_per_s) && m->link_bytes_per_s >= 0);
    MUST(isfinite(m->link_latency_ms) && m->link_latency_ms >= 0);
    MUST(m->has_latency || m->link_latency_ms == 0);
    MUST(memchr(m->bad, '\0', sizeof m->bad) && memchr(m->cpu, '\0', sizeof m->cpu));
    if (m->has_probe)
        check_probe(&m->probe);
}

/* Marks are compared as a whole, so what was in the memory before must not be seen. */
static void read_node(const struct json *node, struct annotations *out)
{
    struct annotations again;

    memset(out, 0x5a, sizeof *out);
    memset(&again, 0xa5, sizeof again);
    annotations_read(node, out);
    annotations_read(node, &again);
    MUST(memcmp(out, &again, sizeof again) == 0);
    check_annotations(out);
}

/* A Node with this text as label, if key is one, and as annotation. */
static void read_with(const char *key, const char *text, struct annotations *out)
{
    struct buf node = {.max = TEXT_MAX_BYTES};
    struct json *root = NULL;
    struct jsonw w;

    jsonw_init(&w, &node);
    jsonw_open_object(&w, NULL);
    jsonw_open_object(&w, "metadata");
    jsonw_open_object(&w, strcmp(key, ANNOTATION_PROBE) == 0 ? "annotations" : "labels");
    jsonw_string(&w, key, text);
    for (int i = 0; i < 3; i++)
        jsonw_close(&w);
    MUST(jsonw_finish(&w, NULL) == ERR_OK);
    MUST(json_parse(buf_text(&node), node.len, &root, NULL) == ERR_OK);
    read_node(root, out);
    json_free(root);
    buf_deinit(&node);
}

/* A label is read or found bad, and never half read. */
static void check_labels(const char *text)
{
    static const char *const keys[] = {LABEL_GFLOPS, LABEL_UNIT_MS, LABEL_LINK_MBIT,
                                       LABEL_LINK_LATENCY_MS};
    struct annotations m;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        double sum;

        read_with(keys[i], text, &m);
        sum = m.gflops + m.unit_ms + m.link_bytes_per_s + m.link_latency_ms;
        MUST(m.bad[0] == '\0' || (sum == 0 && !m.has_latency));
        MUST(m.bad[0] == '\0' || strncmp(m.bad, keys[i], strlen(keys[i])) == 0);
        MUST(!m.has_probe);
    }
}

static void check_annotation(const char *text)
{
    struct buf first = {.max = ANNOTATION_TEXT_MAX_BYTES},
               second = {.max = ANNOTATION_TEXT_MAX_BYTES};
    struct annotations m, back;

    read_with(ANNOTATION_PROBE, text, &m);
    MUST(m.has_probe == (m.bad[0] == '\0'));
    if (m.has_probe) {
        MUST(annotation_probe_write(&m.probe, &first, NULL) == ERR_OK);
        read_with(ANNOTATION_PROBE, buf_text(&first), &back);
        MUST(back.has_probe);
        MUST(annotation_probe_write(&back.probe, &second, NULL) == ERR_OK);
        MUST(strcmp(buf_text(&first), buf_text(&second)) == 0);
    }
    buf_deinit(&first);
    buf_deinit(&second);
}

static void check_message(const char *text)
{
    struct buf first = {.max = NODE_PROBE_MAX_BYTES}, second = {.max = NODE_PROBE_MAX_BYTES};
    struct node_probe p, back;
    struct err err = {0};
    enum err_code rc = node_probe_read(text, &p, &err);

    if (rc != ERR_OK) {
        MUST(rc == err.code && err.text[0]);
        return;
    }
    check_found(&p);
    MUST(node_probe_write(&p, &first, NULL) == ERR_OK);
    MUST(node_probe_read(buf_text(&first), &back, NULL) == ERR_OK);
    MUST(node_probe_write(&back, &second, NULL) == ERR_OK);
    MUST(strcmp(buf_text(&first), buf_text(&second)) == 0);
    buf_deinit(&first);
    buf_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = malloc(n + 1);
    struct json *root = NULL;
    struct annotations m;

    MUST(text);
    memcpy(text, bytes, n);
    text[n] = '\0';
    if (json_parse(text, n, &root, NULL) == ERR_OK)
        read_node(root, &m);
    json_free(root);
    check_labels(text);
    check_annotation(text);
    check_message(text);
    free(text);
    return 0;
}
