/* cli/readiness.h - is a cluster ready for SkyJobs? What was read of it, and what follows.
 *
 * Reading notes facts only; readiness_judge() decides, and everything it knows is in the struct.
 * Layer: cli. Threads: one; pure but for the output.
 */
#ifndef CLI_READINESS_H
#define CLI_READINESS_H

#include <stdio.h>

#include "api/names.h"
#include "cluster/node_object.h"

#define READINESS_LEASE        "skyjob-operator" /* its usual name, see readiness_add_lease() */
#define READINESS_FIELD_BYTES  128
#define READINESS_TEXT_BYTES   400
#define READINESS_FINDINGS_MAX 16

enum readiness_right { RIGHT_CREATE, RIGHT_LOGS, RIGHT_NODES, RIGHTS };

/* Of each thing first how its reading ended: ERR_OK, ERR_DENIED (the user may not), or
 * ERR_NOT_FOUND (the API server has no such kind of object, or no such object). */
struct readiness {
    const char *version;   /* of kubectl-skyjob; borrowed, like the next */
    const char *namespace; /* of the user's jobs */
    struct {
        enum err_code read;
        bool is_served;      /* in NAMES_VERSION */
        bool is_established; /* the API server has taken it up */
        int n_missing;       /* fields of the spec that it has not, and the first ... */
        char missing[READINESS_FIELD_BYTES];
        int n_unknown; /* ... and fields that we do not know */
        char unknown[READINESS_FIELD_BYTES];
    } crd;
    enum err_code jobs_read; /* the list of SkyJobs in `namespace` */
    struct {
        enum err_code read;
        char name[SPEC_NAME_BYTES]; /* of the one that was renewed last; "": there is none */
        char namespace[64];
        char version[128];
        char holder[SPEC_NAME_BYTES]; /* "": it was released */
        int64_t renewed_ms, duration_ms;
        bool has_changed; /* between two readings */
    } lease;
    struct {
        enum err_code read;
        int n;                        /* Deployments of an operator */
        char image[SPEC_IMAGE_BYTES]; /* of the first */
        int n_ready, n_wanted;        /* its pods */
    } deployment;
    struct {
        enum err_code read;
        bool is_given;
    } rights[RIGHTS];
    struct {
        enum err_code read;
        int n, n_usable, n_measured; /* those that are usable, and of these with a known speed */
    } nodes;
    struct {
        enum err_code read;
        int n;
    } network_policies, admission_policies, admission_bindings;
};

/* Take what was read. Those with a `void *readiness` are for kube_lister; always ERR_OK. */
void readiness_read_crd(struct readiness *r, const struct json *crd);
enum err_code readiness_add_lease(void *readiness, const struct json *lease, struct err *err);
enum err_code readiness_add_operator(void *readiness, const struct json *deployment,
                                     struct err *err);
void readiness_read_nodes(struct readiness *r, const struct node_object *nodes, size_t n,
                          int64_t now_ms);

/* Has the Lease a holder, who has renewed it just now by this machine's clock, or between the last
 * two readings? Else it is worth another one: a clock that is wrong must not look like an operator
 * that is gone. */
bool readiness_has_leader(const struct readiness *r, int64_t now_ms);

enum readiness_level { LEVEL_OK, LEVEL_UNKNOWN, LEVEL_WARNING, LEVEL_PROBLEM };

struct finding {
    enum readiness_level level;
    const char *subject;
    char text[READINESS_TEXT_BYTES]; /* with what to do, unless it is ok */
};

/* Returns how many. */
int readiness_judge(const struct readiness *r, int64_t now_ms,
                    struct finding out[static READINESS_FINDINGS_MAX]);

/* A line for each. Returns whether there is a problem. */
bool readiness_print(const struct finding *findings, int n, FILE *out);

#endif
