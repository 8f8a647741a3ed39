/* probe/probe.h - how fast this machine trains the job's model, under the limits it has right now.
 *
 * Times what training does, at the job's own shapes, with sequences as long as its own: forward and
 * backward of embeddings, attention and feed-forward with whole micro-batches and with a quarter of
 * one, and the optimizer. From that follow the speed and how the parts of a step compare (struct
 * spec_pace). In the job's precision where this processor can do it, else in fp32 (the stage itself
 * refuses).
 *
 * Machines are disturbed for seconds, by whoever else is on the same host, and then take a third
 * more time; right after a rest they have not come up to their speed yet. So it warms up, looks at
 * windows of two periods of a quota, in turn for whole and small micro-batches, and leaves out
 * those that took much longer than the middle one: the mean of the others has the cold caches that
 * a turn under a quota begins with.
 *
 * One thread's work is timed on the clock of its CPU and divided by the share of a core that it
 * gets. Without a quota below a core that is what it got. A quota lets it run and stops it by turns
 * of 100 ms, which a wall clock sees as noise in so short a time: there the limit's share counts,
 * unless others take even that away.
 * Layer: probe (may use train nn data api base). Threads: one caller.
 */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include "api/node.h"
#include "probe/sequences.h"

#define PROBE_MS 2500 /* of a worker's */

/* Measure for about `duration_ms` of wall time. ERR_NO_MEMORY. gemm_precision() is the job's
 * afterwards. */
MUST_CHECK enum err_code probe_run(const struct spec *spec, const struct sequences *sequences,
                                   int duration_ms, struct node_probe *out, struct err *err);

#endif
