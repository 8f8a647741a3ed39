/* train/cpu.h - how much CPU this process may use.
 *
 * A pod sees every core of its machine whatever its limit is, so the numbers come from the cgroup
 * (v1 and v2) and the affinity mask, or from SKYJOB_CPU_MILLI where neither shows the limit (a
 * process that is throttled from outside). A quota on the node itself cannot be seen from inside;
 * the probe measures its effect. Layer: train (may use nn api base). Threads: any.
 */
#ifndef TRAIN_CPU_H
#define TRAIN_CPU_H

#include <stdint.h>

/* Thousandths of a core: the smallest of environment, cgroup quota and affinity. At least 1. */
int cpu_allowed_milli(void);
/* Threads worth starting: whole cores, 1..THREADS_MAX. A thread beyond the quota would only make
 * the others wait for it. */
int cpu_threads(void);
/* How long the cgroup has kept this container from running because of its quota; 0 where it does
 * not say. */
int64_t cpu_throttled_ns(void);
/* "model name" of /proc/cpuinfo, cut to fit. */
void cpu_model(char *out, int bytes);

#endif
