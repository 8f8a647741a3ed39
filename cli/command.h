/* cli/command.h - the subcommands of kubectl-skyjob, and what they share.
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "base/err.h"

/* argv[0] is the subcommand's own name. Returns the exit code; prints what went wrong. */
int command_run(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_status(int argc, char **argv);

/* Print the error and return the exit code that goes with it. */
int command_failed(const struct err *err);
/* After getopt has complained. */
int command_usage(const char *name);

#endif
