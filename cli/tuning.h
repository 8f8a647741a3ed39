/* cli/tuning.h - the tuning of a job's spec.sync, and what came out of it: for people, for
 * programs, for the cluster.
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_TUNING_H
#define CLI_TUNING_H

#include <stdio.h>

#include "cli/job.h"
#include "cli/tuner.h"
#include "cli/variant.h"

#define TUNING_POINT 0.01 /* of a metric */

struct tuning {
    const struct job *job;    /* its name and document; its spec may be that of a run */
    const struct spec *spec;  /* the job's own ... */
    const struct json *base;  /* ... and as JSON */
    enum spec_protocol later; /* what may follow BSP */
    enum task_metric metric;  /* what is compared */
    double points;            /* the margin */
    int steps;                /* of a run, as asked for; 0: those of the job */
    int64_t total_steps;      /* of a run */
    struct tuner tuner;
};

struct variant_sync tuning_sync(const struct tuning *t, int percent);
/* Of the pair `i`: the job's own and those above it, or below where there are none above. */
int64_t tuning_seed(const struct tuning *t, int i);

/* All that follow are for a tuning that has its answer. ERR_NO_MEMORY, ERR_LIMIT. */

/* The table of candidates, the one that is chosen, what it cost and saves, how to use it. */
MUST_CHECK enum err_code tuning_print(const struct tuning *t, FILE *out, struct err *err);
/* The same for programs. Differences and bounds are in units of the metric. */
MUST_CHECK enum err_code tuning_print_json(const struct tuning *t, FILE *out, struct err *err);
/* The user's manifest with the answer in spec.sync, as JSON. Also the errors of file_write(). */
MUST_CHECK enum err_code tuning_write(const struct tuning *t, const char *path, struct err *err);

#endif
