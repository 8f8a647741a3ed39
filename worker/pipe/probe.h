/* pipe/probe.h - how fast this machine trains BERT, under the limits it has right now.
 *
 * Times forward and backward of one attention and one feed-forward unit at the job's own shapes
 * (not a convolution, not the peak of a matrix product), long enough that a CPU quota, which acts
 * in periods of 100 ms, shows as what it is. In the job's precision where this processor can do
 * it, else in fp32 (the stage itself refuses); without training.recompute, whose arithmetic the
 * cost model adds.
 * Layer: pipe (may use nn api base). Threads: one caller.
 */
#ifndef PIPE_PROBE_H
#define PIPE_PROBE_H

#include "api/node.h"
#include "api/spec.h"

/* Measure for about `duration_ms` of wall time after a warm-up. ERR_NO_MEMORY. gemm_precision() is
 * the job's afterwards. */
MUST_CHECK enum err_code probe_run(const struct spec *spec, int duration_ms, struct node_probe *out,
                                   struct err *err);

#endif
