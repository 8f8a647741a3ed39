/* cli/machine.h - the workers that `--workers` describes, and how fast this machine lets them be.
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include "api/node.h"
#include "cli/job.h"
#include "cli/throttle.h"

#define MACHINE_WORKERS_MAX 64
#define MACHINE_HELP        "cpu=CORES[:memory=BYTES],..."

struct machine {
    int n_workers;
    struct node workers[MACHINE_WORKERS_MAX];
    struct node_probe probes[MACHINE_WORKERS_MAX];
};

/* Read "cpu=0.5,cpu=1:memory=2Gi": amounts as Kubernetes writes them. Workers without memory share
 * what `free_bytes` leaves. ERR_INVALID. */
MUST_CHECK enum err_code machine_parse(const char *text, int64_t free_bytes, struct machine *out,
                                       struct err *err);

/* Memory that new processes may take, from /proc/meminfo and the cgroup. */
int64_t machine_free_bytes(void);
/* Thousandths of a core that this process may use. */
int machine_cpu_milli(void);

struct machine_measure {
    const struct job *job;
    const char *worker; /* the binary */
    const char *folder; /* takes the files */
    const char *data;   /* folder of the job's data; NULL: nobody knows */
    const char *model;  /* folder of the model to start from, or NULL */
};

/* Measure all workers at the same time, as they will run, with `skyjob-worker probe` under their
 * limits; fills in probes, gflops and unit_ms. */
MUST_CHECK enum err_code machine_probe(struct machine *m, const struct machine_measure *how,
                                       struct throttle *t, struct err *err);

#endif
