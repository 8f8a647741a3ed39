/* cli/target.h - the SkyJob in the cluster that a command is about: the arguments that name it, the
 * connection to its API server, and the calls that several commands make.
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_TARGET_H
#define CLI_TARGET_H

#include "api/status.h"
#include "cli/command.h"

/* Texts are borrowed from the arguments and the connection. */
struct target {
    const char *name;      /* NULL: none was given, see target_run_any() */
    const char *namespace; /* once it is connected: that of the kubeconfig, unless it was given */
    const char *kubeconfig;
    const char *context;
    struct connection connection;
    struct kube_ref ref; /* of the SkyJob, once it is connected */
};

/* What a command does with its SkyJob, which need not exist. Any error is reported by the caller.
 */
struct target_action {
    void *ctx;
    enum err_code (*run)(void *ctx, struct target *t, struct err *err);
};

/* Read the arguments NAME, -n, --kubeconfig and --context, and `more` options (NULL: none), connect
 * and act. Returns the exit code, after reporting any error. */
int target_run(int argc, char **argv, const struct command_option *more,
               struct target_action action);
/* The same where NAME may be left out: then `t->name` is NULL, and `t->ref` all of the namespace.
 */
int target_run_any(int argc, char **argv, const struct command_option *more,
                   struct target_action action);

/* Get the SkyJob and read its status. `out` may be NULL; else the caller owns the object on ERR_OK:
 * json_free(). The errors of kube_get(). */
MUST_CHECK enum err_code target_get(struct target *t, struct status *out_status, struct json **out,
                                    struct err *err);

/* Set an annotation of the SkyJob. `value` is a plain word. The errors of kube_merge(). */
MUST_CHECK enum err_code target_annotate(struct target *t, const char *key, const char *value,
                                         struct err *err);

#endif
