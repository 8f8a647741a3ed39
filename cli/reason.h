/* cli/reason.h - why a job in the cluster is as it is, and what to do next.
 *
 * What the API server has about the job is read into one struct; what is said of it follows from
 * that alone. Layer: cli. Threads: one.
 */
#ifndef CLI_REASON_H
#define CLI_REASON_H

#include <stdio.h>

#include "api/status.h"

#define REASON_PODS_MAX   16 /* that do not run; more are only counted */
#define REASON_EVENTS_MAX 10 /* the newest */
#define REASON_TEXT_BYTES 1025
#define REASON_WORD_BYTES 64

/* A pod that neither runs nor has done its work. */
struct reason_pod {
    char name[NAMES_BYTES];
    char node[NODE_NAME_BYTES];
    char phase[STATUS_WORD_BYTES];
    char reason[REASON_WORD_BYTES]; /* "": none is reported */
    char message[REASON_TEXT_BYTES];
};

struct reason_event {
    int64_t time_ms;
    bool is_warning;
    int count;
    char reason[REASON_WORD_BYTES];
    char message[REASON_TEXT_BYTES];
};

struct reason {
    char name[NAMES_BYTES]; /* of the job, like the next two */
    char uid[STATUS_UID_BYTES];
    char manager[SPEC_MANAGER_BYTES];
    bool is_deleting;
    struct status status;
    int n_stuck; /* pods that neither run nor are done */
    struct reason_pod pods[REASON_PODS_MAX];
    int n_events;
    struct reason_event events[REASON_EVENTS_MAX]; /* by time */
};

/* Begin with the SkyJob. */
void reason_read(struct reason *r, const struct json *skyjob);
void reason_read_event(const struct json *event, struct reason_event *out);
/* Add one of its pods, or of its Events. `reason` is a struct reason. Always ERR_OK. */
enum err_code reason_add_pod(void *reason, const struct json *pod, struct err *err);
enum err_code reason_add_event(void *reason, const struct json *event, struct err *err);

/* Is the condition other than in a job that trains, or has ended well? */
bool reason_is_unusual(const struct status *s, enum condition_type type);

/* What to do next, a sentence or two; NULL: nothing, or it is not known. `out` holds a text that
 * has the job's name. */
const char *reason_next(const struct reason *r, char out[static REASON_TEXT_BYTES]);

/* State, unusual conditions, pods that do not run, Events and what to do next, a line each. */
void reason_print(const struct reason *r, int64_t now_ms, FILE *out);

#endif
