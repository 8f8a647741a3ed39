/* cluster/mark.h - what a Node object says about the machine behind it.
 *
 * Labels (or annotations, where there is no such label) that an administrator declares figures
 * with; one annotation with what our own probe found, and what it was measured for; and labels of
 * Node Feature Discovery. Read in this one place for the operator and for files of nodes.
 * Layer: cluster (may use api, base). Threads: any; everything here is pure.
 */
#ifndef CLUSTER_MARK_H
#define CLUSTER_MARK_H

#include "api/node.h"
#include "api/spec.h"

#define MARK_BAD_BYTES    160
#define MARK_DIGEST_BYTES 80
#define MARK_WORK_BYTES   20
#define MARK_TEXT_MAX_BYTES                                                                        \
    (NODE_PROBE_MAX_BYTES + 4096) /* of the annotation; a node may have 256 KiB of them */

/* A figure that is older is measured again, whatever else is the same: firmware and neighbours on
 * the same hardware change without a sign in the Node. */
#define MARK_FRESH_MS (INT64_C(30) * 24 * 60 * 60 * 1000)

/* What a measurement holds for. An empty text is not known, and then no reason to measure again. */
struct mark_subject {
    int64_t cpu_milli; /* allocatable */
    int64_t memory_bytes;
    char cpu[NODE_TEXT_BYTES]; /* NFD's vendor, family and model: "Intel-6-143" */
    char image[SPEC_IMAGE_BYTES];
    char digest[MARK_DIGEST_BYTES]; /* what the image's name stood for: "sha256:..." */
    char work[MARK_WORK_BYTES];     /* mark_work() */
};

/* A probe's result with all that is needed to judge later whether it still holds. */
struct mark_probe {
    struct node_probe found;
    int cpu_milli; /* the limit that it ran with */
    struct mark_subject subject;
    int64_t time_ms;
    bool is_contradicted; /* by a training since, in an annotation of its own */
};

struct mark {
    /* Declared; 0: not. gflops, like struct node's, but with all allocatable CPU. */
    double gflops;
    double unit_ms;
    double link_bytes_per_s; /* of the machine's network */
    double link_latency_ms;
    bool has_latency;
    /* The first mark that cannot be read, and is not used: "skyjob.dev/gflops: "inf" is not a
     * number in 0..1e+09"; "" when all can. */
    char bad[MARK_BAD_BYTES];
    enum node_answer has_bf16; /* as NFD says */
    char cpu[NODE_TEXT_BYTES]; /* as in struct mark_subject */
    bool has_probe;
    struct mark_probe probe;
};

/* Read all marks of a Node. Never fails: see `bad`. */
void mark_read(const struct json *node, struct mark *out);

/* The annotation's text. */
MUST_CHECK enum err_code mark_probe_write(const struct mark_probe *p, struct buf *out,
                                          struct err *err);
/* Why this measurement does not hold (any more) for `now`, in words ("of other allocatable CPU");
 * NULL: it does. */
const char *mark_stale(const struct mark_probe *p, const struct mark_subject *now, int64_t now_ms);

/* Do two measurements of the same work on the same processor contradict each other: less CPU, but
 * more speed, by more than MARK_NOISE? One of the machines was busy. Symmetrical. */
#define MARK_NOISE 0.15
bool mark_contradict(const struct mark_probe *a, const struct mark_probe *b);

/* Speed with all allocatable CPU, from what a probe found with less. */
double mark_gflops(const struct mark_probe *p);

/* Identity of what is measured: shapes, precision and data of a job in `namespace`. */
void mark_work(const struct spec *spec, const char *namespace, char out[static MARK_WORK_BYTES]);
/* "sha256:..." of a container's imageID; "" when it has none. */
void mark_digest(const char *image_id, char out[static MARK_DIGEST_BYTES]);

/* Can a worker on this machine do BF16? A probe that holds knows better than NFD. */
enum node_answer mark_bf16(const struct mark *m, const struct node_probe *probe);

#endif
