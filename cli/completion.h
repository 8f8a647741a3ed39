/* cli/completion.h - a script for a shell that completes command lines.
 *
 * Commands, options, which of them take a value and what a command is about are read from the texts
 * that --help prints, so there is no second list. Layer: cli. Threads: any; pure but for the
 * output.
 */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include <stdio.h>

#include "cli/command.h"

/* Print the script for `shell`, bash or zsh. ERR_INVALID for another one, ERR_IO. */
MUST_CHECK enum err_code completion_print(const char *shell, const struct command *commands, int n,
                                          FILE *out, struct err *err);

#endif
