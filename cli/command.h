/* cli/command.h - the subcommands of kubectl-skyjob, and what they share.
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "base/err.h"

#define EXIT_DONE   0
#define EXIT_FAILED 1 /* trying again may help */
#define EXIT_CONFIG 2 /* wrong usage or configuration: trying again is useless */

/* argv[0] is the subcommand's own name. Returns the exit code; says itself what went wrong. */
int command_run(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_status(int argc, char **argv);

/* Say it and return the exit code that belongs to it. */
int command_failed(const struct err *err);
/* After getopt has complained. */
int command_usage(const char *name);

#endif
