/* cli/pipeline.h - the workers of a job as processes on this machine, from start to end.
 *
 * One `skyjob-worker stage` per stage, on 127.0.0.1 with ports of its own, held to its CPU share.
 * A link that breaks, a cut that is to change, and a process that is killed, is another revision of
 * the plan: a killed one is started again, and all go on from the newest checkpoint. When a process
 * fails by itself, all are ended; no process is left running, whatever happens.
 * Layer: cli. Threads: one.
 */
#ifndef CLI_PIPELINE_H
#define CLI_PIPELINE_H

#include "api/progress.h"
#include "cli/cut.h"
#include "cli/local.h"
#include "cli/show.h"

struct pipeline_params {
    const struct local *local; /* planned; logs and reports go to its folder: worker-0-1.log, ... */
    const char *model_dir;     /* to start from, for all; NULL: random weights */
    const char *output_dir;    /* NULL: weights are not kept */
    const char *checkpoints_dir; /* that all share, or s3://...; NULL: each has its own, where
                                    the job has the store `peers` */
    const char *resume_from;     /* another run's checkpoints to go on from, or NULL */
    int n_cuts;
    const struct cut *cuts; /* by step */
    struct show *show;      /* gets the leader's progress and evaluations */
};

/* Run until every stage is done.
 *
 * Returns ERR_OK with the leader's last report in *out_leader; ERR_INVALID when a worker found the
 * job itself invalid (exit code 2), ERR_IO when one failed otherwise, both with its own message;
 * or was killed again and again; ERR_CONFLICT when a revision was refused; ERR_GONE when
 * interrupted; ERR_NO_MEMORY. ERR_INVALID also when the job ended before a cut was due.
 */
MUST_CHECK enum err_code pipeline_run(const struct pipeline_params *params,
                                      struct progress *out_leader, struct err *err);

#endif
