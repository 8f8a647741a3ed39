/* cli/local.h - a job made ready to run on this machine: read, measured, planned.
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_LOCAL_H
#define CLI_LOCAL_H

#include <stdio.h>

#include "api/plan.h"
#include "balance/replicas.h"
#include "cli/child.h"
#include "cli/job.h"
#include "cli/scratch.h"
#include "cluster/survey.h"

#define LOCAL_PATH_BYTES  512
#define LOCAL_WORKERS_MAX 64
#define LOCAL_WORKERS     "cpu=CORES[:memory=BYTES],..."

struct local_params {
    const char *job_path;
    const char *workers;  /* as local_workers() reads it */
    const char *strategy; /* NULL: the job's own */
    bool is_serial;       /* one micro-batch at a time, for comparison */
    const char *data;     /* folder of the job's data; NULL: the sample, if the job uses it */
    const char *model;    /* folder of the model to start from, or NULL */
    FILE *messages;       /* where to print what happens */
};

struct local {
    struct job job;
    int n_workers;
    struct node workers[LOCAL_WORKERS_MAX];
    struct node_probe probes[LOCAL_WORKERS_MAX]; /* of the workers */
    struct partition_request request;            /* points into the above */
    bool is_solved; /* the planner has answered: ERR_NOT_FOUND then means that nothing fits */
    struct replicas replicas;
    struct placement placement; /* of the only replica, or of the lead */
    struct plan plan;
    struct throttle *throttle;
    char worker[LOCAL_PATH_BYTES]; /* the binary */
    char data[LOCAL_PATH_BYTES];   /* folder with the training files; "": not found */
    struct scratch scratch;
};

/* Read the job. `out` is zeroed and must stay where it is. Call local_deinit() whatever this and
 * the next three return: the errors of job_load(); ERR_INVALID. */
MUST_CHECK enum err_code local_read(struct local *out, const struct local_params *params,
                                    struct err *err);
/* The same for a job that is to run on this machine, which must have its data and the model that it
 * starts from: also the errors of local_find_data(). */
MUST_CHECK enum err_code local_read_to_run(struct local *out, const struct local_params *params,
                                           struct err *err);
/* Measure params->workers and plan for them, after local_read(). ERR_INVALID, ERR_NOT_FOUND (a
 * file, or no placement), ERR_IO, ERR_TIMEOUT, ERR_GONE when interrupted, ERR_NO_MEMORY. */
MUST_CHECK enum err_code local_measure(struct local *out, const struct local_params *params,
                                       struct err *err);
/* Plan for a survey's candidates, which `out` borrows, after local_read(). Nothing is measured but,
 * with params->data, how long the sequences are. Errors as above. */
MUST_CHECK enum err_code local_plan(struct local *out, const struct local_params *params,
                                    struct survey *survey, struct err *err);
/* Removes the folder unless it is kept for people to look at. */
void local_deinit(struct local *l, bool keeps_folder);
/* The same after the workers have run, with result `rc`: if they failed, says where their logs are,
 * and keeps them. */
void local_end(struct local *l, enum err_code rc);

/* Read workers such as "cpu=0.5,cpu=1:memory=2Gi": amounts as Kubernetes writes them. Workers
 * without memory share what `free_bytes` leaves. ERR_INVALID, ERR_NO_MEMORY. */
MUST_CHECK enum err_code local_workers(const char *text, int64_t free_bytes, struct local *out,
                                       struct err *err);
/* Between two of them. Over loopback a message takes its CPU time, as measured by the worker that
 * was disturbed least; COST_LINK_DEFAULT bounds it. */
struct cost_link local_link(const struct node *workers, int n);
/* Memory that new processes may take, from /proc/meminfo and the cgroup. */
int64_t local_free_bytes(void);

/* Set l->data, after local_read(): `given` if not NULL, else the sample that belongs to this
 * program. ERR_INVALID when the job's data are in a cluster and none was given; ERR_NOT_FOUND. */
MUST_CHECK enum err_code local_find_data(struct local *l, const char *given, struct err *err);

#endif
