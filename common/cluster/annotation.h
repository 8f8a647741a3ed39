/* cluster/annotation.h - a node's labels and annotations that describe its machine.
 *
 * Labels (or annotations, where there is no such label) that an administrator declares figures
 * with; one annotation with what our own probe found, and what it was measured for; and labels of
 * Node Feature Discovery. Read in this one place for the operator and for files of nodes.
 * Layer: cluster (may use api, base). Threads: any; everything here is pure.
 */
#ifndef CLUSTER_ANNOTATION_H
#define CLUSTER_ANNOTATION_H

#include "api/node.h"
#include "api/spec.h"

#define ANNOTATION_BAD_BYTES    160
#define ANNOTATION_DIGEST_BYTES 80
#define ANNOTATION_WORK_BYTES   20
#define ANNOTATION_TEXT_MAX_BYTES                                                                  \
    (NODE_PROBE_MAX_BYTES + 4096) /* of the annotation; a node may have 256 KiB of them */

/* An older measurement is repeated: firmware and neighbours on the same hardware change without a
 * sign in the Node. */
#define ANNOTATION_FRESH_MS (INT64_C(30) * 24 * 60 * 60 * 1000)

/* What a measurement holds for. An empty text is not known, and then no reason to measure again. */
struct annotation_subject {
    int64_t cpu_milli; /* allocatable */
    int64_t memory_bytes;
    char cpu[NODE_TEXT_BYTES]; /* NFD's vendor, family and model: "Intel-6-143" */
    char image[SPEC_IMAGE_BYTES];
    char digest[ANNOTATION_DIGEST_BYTES]; /* what the image's name stood for: "sha256:..." */
    char work[ANNOTATION_WORK_BYTES];     /* annotation_work() */
};

/* A probe's result with all that is needed to judge later whether it still holds. */
struct annotation_probe {
    struct node_probe found;
    int cpu_milli; /* the limit that it ran with */
    struct annotation_subject subject;
    int64_t time_ms;
    bool is_contradicted; /* by a training run since, in an annotation of its own */
};

struct annotations {
    /* Declared; 0: not. gflops, like struct node's, but with all allocatable CPU. */
    double gflops;
    double unit_ms;
    double link_bytes_per_s; /* of the machine's network */
    double link_latency_ms;
    bool has_latency;
    /* The first figure that cannot be read, and is not used: "skyjob.dev/gflops: "inf" is not a
     * number in 0..1e+09"; "" when all can. */
    char bad[ANNOTATION_BAD_BYTES];
    enum node_answer has_bf16; /* as NFD reports it */
    char cpu[NODE_TEXT_BYTES]; /* as in struct annotation_subject */
    bool has_probe;
    struct annotation_probe probe;
};

/* Never fails: see `bad`. */
void annotations_read(const struct json *node, struct annotations *out);

/* The annotation's text. */
MUST_CHECK enum err_code annotation_probe_write(const struct annotation_probe *p, struct buf *out,
                                                struct err *err);
/* The reason why the measurement does not hold for `now` ("measured on another processor"); NULL if
 * it holds. */
const char *annotation_stale(const struct annotation_probe *p, const struct annotation_subject *now,
                             int64_t now_ms);

/* Do two measurements of the same work on the same processor contradict each other: less CPU, but
 * more speed, by more than ANNOTATION_NOISE? One of the machines was busy. Symmetrical. */
#define ANNOTATION_NOISE 0.15
bool annotation_contradict(const struct annotation_probe *a, const struct annotation_probe *b);

/* Speed with all allocatable CPU, from what a probe found with less. */
double annotation_gflops(const struct annotation_probe *p);

/* Identity of what is measured: shapes, precision and data of a job in `namespace`. */
void annotation_work(const struct spec *spec, const char *namespace,
                     char out[static ANNOTATION_WORK_BYTES]);
/* "sha256:..." of a container's imageID; "" when it has none. */
void annotation_digest(const char *image_id, char out[static ANNOTATION_DIGEST_BYTES]);

#endif
