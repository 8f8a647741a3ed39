/* cluster/survey.h - which nodes can take a stage of a job, how fast they are, and why not.
 *
 * The one answer for the operator, for `kubectl skyjob plan` and for files of nodes. A node's speed
 * is what an administrator declared, else what this job's own probe found, else what an earlier
 * probe left on the node as long as that holds. With spec.placement.probePolicy Always only what
 * was measured since the job was created counts; with Never whatever is there does, and the others
 * are judged by their CPU. An annotation that cannot be read is ignored and reported.
 *
 * Layer: cluster (may use api, base). Threads: any; pure but for the memory of the result.
 */
#ifndef CLUSTER_SURVEY_H
#define CLUSTER_SURVEY_H

#include "base/err.h"
#include "cluster/network.h"
#include "cluster/node_object.h"

/* With more candidates all links count as alike: a table for them would take more memory than it is
 * worth. */
#define SURVEY_LINKS_MAX 1024

/* The result of this job's own probe of a node. */
struct survey_own {
    const struct node_probe *found; /* NULL: no result */
    int cpu_milli;                  /* limit that the probe ran with */
    bool has_failed;                /* there will be no result */
    bool is_silent;                 /* a worker there has stopped responding */
    const char *digest; /* that the worker image's name stands for now; NULL or "": not known */
};

struct survey_request {
    const struct spec *spec;
    const char *namespace;
    const char *image;  /* that would measure; "": not known */
    int64_t created_ms; /* of the job, wall clock */
    int64_t now_ms;
    const struct json *worker; /* spec.worker, for api/pods.h; NULL: none */
    const struct node_object *nodes;
    int n_nodes;
    /* Fills in *out, which is zeroed. NULL: nothing can be measured, and figures that do not hold
     * are better than none. */
    void (*own)(void *ctx, const struct node_object *node, struct survey_own *out);
    void *ctx;
};

struct survey_node {
    const struct node_object *object;
    enum exclusion excluded; /* EXCLUDED_NOT: a candidate */
    const char *stale;       /* why its measurement does not hold for this job; NULL: it does, or
                                it does not matter */
    bool is_assumed;         /* its speed is neither declared nor measured */
    /* Of a candidate: */
    double gflops; /* with all allocatable CPU; 0: to be assumed */
    double unit_ms;
    const struct node_probe *probe;  /* the measurement that counts; NULL: none */
    bool is_same_work;               /* it was made with this job's shapes and data */
    const struct node_object *rival; /* a node whose measurement contradicts this one; NULL: none */
};

struct survey {
    int n_nodes;
    struct survey_node *nodes; /* all of the request's, by name */
    int n_candidates;
    struct node *candidates;            /* by name, with what is free of them */
    const struct survey_node **entries; /* of each candidate, in `nodes` */
    struct cost_link *links;            /* [n_candidates][n_candidates]; NULL: all alike */
    /* Of the job's data and shapes, as measured on the fastest candidate that has them, the first
     * by name among equals; zeros: not measured. */
    struct node_lengths lengths;
    struct node_pace pace;
    int n_excluded[EXCLUSIONS];
    int n_assumed;
    int n_bad; /* nodes with an annotation that cannot be read */
};

/* The nodes of the request must outlive `out`, which the caller owns: survey_deinit().
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code survey_make(const struct survey_request *request, struct survey *out,
                                     struct err *err);
/* Fill in out->links, which only planning needs. ERR_NO_MEMORY. */
MUST_CHECK enum err_code survey_link(struct survey *s, struct err *err);
void survey_deinit(struct survey *s);

/* Append to a message for users; nothing where there is nothing to report. */
/* "2 not ready, 1 cordoned" */
void survey_add_excluded(const struct survey *s, char *text, size_t bytes);
/* "Invalid annotation on node n1: skyjob.dev/gflops: "inf" is not a number in 0..1e+09; it is
 * ignored." */
void survey_add_bad(const struct survey *s, char *text, size_t bytes);
/* "1 of 3 nodes was never measured (spec.placement.probePolicy is Never): ..." */
void survey_add_assumed(const struct survey *s, char *text, size_t bytes);

#endif
