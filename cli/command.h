/* cli/command.h - the subcommands of kubectl-skyjob, and what they share.
 *
 * Layer: cli. Threads: one, but any may call interrupt_seen().
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "kube/client.h"

/* argv[0] is the subcommand's own name. Returns the exit code, after reporting any error. */
int command_run(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_tune(int argc, char **argv);
int command_status(int argc, char **argv);
int command_checkpoint(int argc, char **argv);
int command_replan(int argc, char **argv);
int command_suspend(int argc, char **argv);
int command_resume(int argc, char **argv);
int command_delete(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_logs(int argc, char **argv);
int command_report(int argc, char **argv);
int command_nodes(int argc, char **argv);
int command_init(int argc, char **argv);
int command_check(int argc, char **argv);

/* A row of the table in main.c. */
struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *usage; /* " NAME [OPTION]...": what follows the name; more lines for other forms */
    const char *help;  /* in whole lines; each option that `usage` has not, with its value */
};

#define COMMAND_OPTIONS_MAX 16
#define COMMAND_REPEATS_MAX 16

struct command_option {
    const char *name; /* NULL closes a list */
    char letter;      /* 0: only the long name */
    const char **value;
    bool *is_set; /* in place of `value`, for one without argument */
    int *n;       /* of an option that may be repeated: how many of `value` are set so far */
};

/* Read the options; optind is then the index of the first other argument. Returns false after
 * reporting an invalid one. */
bool command_options(int argc, char **argv, const struct command_option *options);
/* The value of --option, a number from `min` to `max`; without one (NULL) *inout stays.
 * ERR_INVALID.
 */
MUST_CHECK enum err_code command_number(const char *option, const char *text, double min,
                                        double max, double *inout, struct err *err);
MUST_CHECK enum err_code command_count(const char *option, const char *text, int min, int max,
                                       int *inout, struct err *err);
/* Print the error and return its exit code. */
int command_failed(const struct err *err);
/* After a usage error. */
int command_usage(const char *name);

/* From now on SIGINT, SIGTERM and SIGHUP are only recorded; a second one has its usual effect. */
void interrupt_catch(void);
bool interrupt_seen(void);
/* Wait a second, or less if one comes; returns interrupt_seen(). */
bool interrupt_pause(void);

/* From now on SIGUSR1 is only recorded: it asks for a checkpoint. */
void checkpoint_catch(void);
/* Was one asked for since the last call? */
bool checkpoint_take(void);

/* A connection to the cluster of the user's kubeconfig. */
struct connection {
    struct http *http;
    struct kube_client *client;
};

/* `kubeconfig` and `context` as kube_config_load() takes them. Call connection_close() whatever it
 * returns: the errors of kube_config_load(), http_new() and kube_client_new(). */
MUST_CHECK enum err_code connection_open(const char *kubeconfig, const char *context,
                                         struct connection *out, struct err *err);
void connection_close(struct connection *c);

#endif
