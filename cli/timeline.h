/* cli/timeline.h - what every stage of a pipeline does in a step, and when.
 *
 * It is no recording: the passes are in the order of api/schedule.h, and each takes what the stage
 * takes for a micro-batch, as measured (a median) or, before that, as predicted. A pass begins when
 * its stage has ended the one before and its input is there; messages take no time. Of what is
 * measured as one time, forward and backward, a third is forward, or a quarter where the backward
 * pass computes the activations again. Layer: cli (may use api base). Threads: any; pure.
 */
#ifndef CLI_TIMELINE_H
#define CLI_TIMELINE_H

#include "api/schedule.h"

#define TIMELINE_SPANS_MAX ((size_t)100000)

enum timeline_kind {
    TIMELINE_FORWARD,
    TIMELINE_BACKWARD,
    TIMELINE_IDLE,     /* waits for others */
    TIMELINE_EXCHANGE, /* what of the measured step is left: gradients and weights travel, and the
                          update, with the waiting in between */
};
#define TIMELINE_KINDS (TIMELINE_EXCHANGE + 1)

extern const char *const timeline_kind_names[TIMELINE_KINDS];

struct timeline_stage {
    int replica; /* 0 first, then 1, and so on */
    char node[NODE_NAME_BYTES];
    double ms; /* forward and backward of one micro-batch; above 0 */
    bool is_measured;
};

struct timeline_params {
    int n_stages; /* of all replicas */
    struct timeline_stage stages[SPEC_STAGES_MAX];
    int micro_batches[PLAN_REPLICAS_MAX]; /* of a step, for each replica */
    bool is_serial;
    bool recomputes; /* activations */
    double step_ms;  /* as measured; 0: not known, so no exchange is shown */
};

struct timeline_span {
    enum timeline_kind kind;
    int stage;      /* its place in `stages` */
    int microbatch; /* of the step; -1: it is no pass */
    double from_ms;
    double ms;
};

struct timeline {
    struct timeline_params params;
    double passes_end_ms; /* when the last pass of all ends */
    double end_ms; /* of the step: as measured, or when the last pass ends, whichever is later */
    struct timeline_span *spans; /* stage by stage, without gaps */
    size_t n_spans, max_spans;
};

/* ERR_INVALID without stages, or where one has no time; ERR_LIMIT for too many passes;
 * ERR_NO_MEMORY. On ERR_OK the caller owns *out: timeline_deinit(). */
MUST_CHECK enum err_code timeline_make(const struct timeline_params *params, struct timeline *out,
                                       struct err *err);
void timeline_deinit(struct timeline *t); /* a zeroed one is fine */

/* The place of a stage in its replica. */
int timeline_place(const struct timeline_params *p, int stage);

/* Append it as a trace in Chrome's JSON, which Perfetto opens: a process for each replica, a thread
 * for each stage. `job` is for people. Fails where jsonw_finish() does. */
MUST_CHECK enum err_code timeline_trace(const struct timeline *t, const char *job, struct buf *out,
                                        struct err *err);

#endif
