/* cli/pipeline.h - the stages of a plan as processes on this machine, from start to end.
 *
 * One `skyjob-worker stage` for each stage, on 127.0.0.1 with ports of its own, held to its CPU
 * share. When one fails all are ended; nothing is left running, whatever happens.
 * Layer: cli. Threads: one.
 */
#ifndef CLI_PIPELINE_H
#define CLI_PIPELINE_H

#include "api/plan.h"
#include "api/progress.h"
#include "base/json.h"

#define PIPELINE_PATH_BYTES 512

struct pipeline_params {
    const struct plan *plan;
    const char *plan_path;
    const char *worker;     /* path of skyjob-worker */
    const char *data_dir;   /* for the head */
    const char *model_dir;  /* to start from, for all; NULL: random weights */
    const char *output_dir; /* NULL: weights are not kept */
    const char *folder;     /* for logs and last words: stage-N.log, stage-N.json, history.jsonl */
    struct throttle *throttle;
    void *ctx; /* of the two */
    /* What the head says, at most a few times a second. */
    void (*on_progress)(void *ctx, const struct progress *head);
    /* Every evaluation: the step and its "metrics" as train/history.h has them. */
    void (*on_evaluation)(void *ctx, const struct json *evaluation);
};

/* Run until every stage is done.
 *
 * Returns ERR_OK with the head's last word in *out_head; ERR_INVALID when a worker found the job
 * itself wrong (exit 2), ERR_IO when one failed otherwise, both with its own sentence; ERR_GONE
 * when interrupted; ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code pipeline_run(const struct pipeline_params *params,
                                      struct progress *out_head, struct err *err);

#endif
