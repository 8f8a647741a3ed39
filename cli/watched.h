/* cli/watched.h - a SkyJob's status in words for a terminal.
 *
 * Layer: cli. Threads: any; pure.
 */
#ifndef CLI_WATCHED_H
#define CLI_WATCHED_H

#include <stdio.h>

#include "api/status.h"
#include "cli/show.h"

/* One line: how far training is, or what the job waits for. */
void watched_line(const struct status *s, char out[static SHOW_LINE_BYTES]);

/* The stages with predicted and measured times, and the explanation of the placement. */
void watched_print_stages(FILE *out, const struct status *s);
void watched_print_explanation(FILE *out, const struct status *s);
/* Metrics of a job that is over, or why it failed. */
void watched_print_end(FILE *out, const struct status *s);

#endif
