/* cli/pipeline.h - the stages of a plan as processes on this machine, from start to end.
 *
 * One `skyjob-worker stage` per stage, on 127.0.0.1 with ports of its own, held to its CPU share.
 * When one fails, all are ended; no process is left running, whatever happens.
 * Layer: cli. Threads: one.
 */
#ifndef CLI_PIPELINE_H
#define CLI_PIPELINE_H

#include "api/progress.h"
#include "cli/local.h"

struct pipeline_params {
    const struct local *local; /* planned; logs and reports go to its folder: stage-N.log, ... */
    const char *data_dir;      /* for the first stage */
    const char *model_dir;     /* to start from, for all; NULL: random weights */
    const char *output_dir;    /* NULL: weights are not kept */
    void *ctx;                 /* of the two */
    /* What the leader reports, at most a few times per second. */
    void (*on_progress)(void *ctx, const struct progress *leader);
    /* Every evaluation: the step and its "metrics", see train/history.h. */
    void (*on_evaluation)(void *ctx, const struct json *evaluation);
};

/* Run until every stage is done.
 *
 * Returns ERR_OK with the leader's last report in *out_leader; ERR_INVALID when a worker found the
 * job itself wrong (exit code 2), ERR_IO when one failed otherwise, both with its own message;
 * ERR_CONFLICT when the peer table was refused; ERR_GONE when interrupted; ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code pipeline_run(const struct pipeline_params *params,
                                      struct progress *out_leader, struct err *err);

#endif
