/* probe/probe.h - how fast this machine trains the job's model, under its present limits.
 *
 * It times what training does, at the job's own shapes and sequence lengths: forward and backward
 * of embeddings, attention and feed-forward with whole micro-batches and with a quarter of one, and
 * the optimizer. The speed and the relative cost of the parts of a step (struct node_pace) follow
 * from that. It uses the job's precision where this processor supports it, else fp32 (the stage
 * itself refuses).
 *
 * Other load on the host slows a machine down by a third for seconds, and right after a rest it is
 * not at full speed yet. So the probe warms up, takes windows of two quota periods, alternating
 * between whole and small micro-batches, and drops windows that took much longer than the median.
 * The mean of the rest includes the cold caches at the start of every quota period.
 *
 * With one thread, times are CPU times, divided by the share of a core that the process gets.
 * Without a quota below one core that is the measured share. A quota runs and throttles the process
 * in turns of 100 ms, which is noise to a wall clock in so short a time: then the share is that of
 * the limit, unless other processes take even more away.
 * Layer: probe (may use train nn data api base). Threads: one caller.
 */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include "api/node.h"
#include "probe/sequences.h"

#define PROBE_MS 2500 /* as the worker program runs it */

/* Measure for about `duration_ms` of wall time. Leaves gemm_precision() set for the job.
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code probe_run(const struct spec *spec, const struct sequences *sequences,
                                   int duration_ms, struct node_probe *out, struct err *err);

#endif
