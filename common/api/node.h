/* api/node.h - what a machine offers a stage: CPU, memory and measured speed.
 *
 * The planner sees machines only as these. In a cluster they are made from Node objects and probe
 * results, by the CLI from `--workers cpu=0.5,...` and the same probe.
 * Layer: api (may use base). Threads: any.
 */
#ifndef API_NODE_H
#define API_NODE_H

#include <stdint.h>

#include "api/spec.h"
#include "base/fields.h"

#define NODE_NAME_BYTES 254
#define NODE_TEXT_BYTES 128
#define NODE_LINKS_MAX  8 /* neighbours that a probe measures its links to */

#define NODE_PROBE_MAX_BYTES 4096 /* of the document: a termination message has no more */

/* A node with less than this free has no room for a stage. */
#define NODE_CPU_MIN_MILLI    100
#define NODE_MEMORY_MIN_BYTES ((int64_t)160 << 20)

/* A worker starts no more threads than this, so more CPU makes it no faster, and is not asked for.
 */
#define NODE_CPU_USEFUL_MILLI 64000

static inline int node_useful_milli(int64_t cpu_milli)
{
    return cpu_milli < NODE_CPU_USEFUL_MILLI ? (int)cpu_milli : NODE_CPU_USEFUL_MILLI;
}

/* CPU time that messages take at one end. */
struct node_message {
    double ms;      /* of each, whatever its size */
    double byte_ns; /* of a byte that is sent and one that is received, together */
};

struct node {
    char name[NODE_NAME_BYTES];
    int cpu_milli;               /* free for a stage, and its CPU limit */
    int64_t memory_bytes;        /* free for a stage, and its ceiling */
    double gflops;               /* of BERT training, forward and backward, with cpu_milli */
    double unit_ms;              /* fixed cost of a unit's forward and backward, beside its FLOPs */
    struct node_message message; /* zeros: not measured */
};

/* How long the sequences of a job's data are, in tokens, each cut to maxSequenceLength. */
struct node_lengths {
    double mean; /* 0 if not measured */
    double mean_square;
};

/* How the parts of a step compare on a machine, in FLOPs of the job's own block, which GFLOP/s
 * counts. */
struct node_pace {
    double attention; /* cost of an attention FLOP relative to a nominal one; 0 if not measured */
    double ffn;       /* likewise; with both, the block costs what was measured */
    double parameter; /* FLOPs per weight and micro-batch, to read and write it */
    double element;   /* per hidden element of a token in the embeddings */
    double update;    /* per parameter in the optimizer, once a step */
    double sequence;  /* per sequence that the first stage makes from its text */
};

enum node_answer {
    NODE_UNKNOWN,
    NODE_YES,
    NODE_NO,
};

/* What a message from this machine to another one takes. */
struct node_link {
    char node[NODE_NAME_BYTES];
    double bytes_per_s; /* of one large message after the other */
    double latency_ms;  /* half a round trip of a small one */
};

/* What `skyjob-worker probe` prints and leaves as its termination message. */
struct node_probe {
    double gflops; /* under the limit it ran with */
    double unit_ms;
    double block_ms; /* of a block, forward and backward of the mean micro-batch; 0: not reported */
    double memory_bytes_per_s;   /* read and written, by all threads together; 0: not measured */
    struct node_message message; /* zeros: not measured */
    struct node_lengths lengths; /* of the job's data; mean 0: the probe had no data */
    struct node_pace pace;       /* attention 0: an older probe, which did not measure it */
    int threads;
    char blas_core[NODE_TEXT_BYTES]; /* kernel family, "SkylakeX" */
    char cpu_model[NODE_TEXT_BYTES];
    enum node_answer has_bf16; /* of its processor, whatever precision was measured */
    int n_links;               /* 0: it had no neighbour, or none answered */
    struct node_link links[NODE_LINKS_MAX];
};

/* The document's table, for documents that contain one, and what the table cannot check. */
extern const struct field node_probe_fields[];
MUST_CHECK enum err_code node_probe_check(const struct node_probe *p, struct err *err);

/* Append as one JSON object of at most NODE_PROBE_MAX_BYTES, whatever is in `p` if links are to
 * names that a Node can have. */
MUST_CHECK enum err_code node_probe_write(const struct node_probe *p, struct buf *out,
                                          struct err *err);
/* ERR_INVALID when the speed is missing, a figure is out of its bounds, a link has no Node's name,
 * or there are more than NODE_LINKS_MAX links. Memory, lengths and links may be missing. */
MUST_CHECK enum err_code node_probe_read(const char *text, struct node_probe *out, struct err *err);

/* Tokens of a sequence of data that have not been read. */
#define LENGTHS_MEAN   39.0 /* MNLI */
#define LENGTHS_SAMPLE 17.0 /* the built-in sample */
#define LENGTHS_SPREAD 1.25 /* mean of the square over square of the mean; MNLI */

#define LENGTHS_TEXT_BYTES 160

/* Those of the job's data if they were measured, else a guess. Never above maxSequenceLength. */
struct node_lengths lengths_of(const struct spec *spec, const struct node_lengths *measured);

/* What people should know when a plan rests on a guess: "sequences are assumed to have 39 tokens,
 * since the data have not been read"; "" when they are measured, or those of the sample. */
void lengths_guess(const struct spec *spec, const struct node_lengths *measured,
                   char out[static LENGTHS_TEXT_BYTES]);

#endif
