/* train/worker.h - the life of one stage's process, from plan file to exit code.
 *
 * Read the plan, open the ports, take the memory, read the data (the leader), wait for the peer
 * table and the neighbours, train, write the weights, close the link. The last progress document
 * becomes the termination message; it has the cause of a failure, which is also logged.
 * Layer: train. Threads: one caller.
 */
#ifndef TRAIN_WORKER_H
#define TRAIN_WORKER_H

#include "base/err.h"

struct worker_params {
    const char *plan_path;
    int stage;
    const char *data_dir;    /* the leader's; NULL for the others */
    const char *model_dir;   /* a trained model to start from; NULL: random weights */
    const char *output_dir;  /* NULL: weights are not kept */
    const char *key_path;    /* the key that the job's workers and its operator share */
    const char *health_host; /* NULL: no health port */
    int health_port;
    const char *control_host;
    int control_port;
    const char *tensor_host;
    int tensor_port;
    const char *termination_path; /* NULL: none */
    const char *history_path;     /* NULL: only beside the weights */
};

/* Run to the end and return the exit code, see base/err.h. */
int worker_run(const struct worker_params *params);

#endif
