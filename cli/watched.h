/* cli/watched.h - what a SkyJob's status says, in words for a terminal.
 *
 * Layer: cli. Threads: any; pure.
 */
#ifndef CLI_WATCHED_H
#define CLI_WATCHED_H

#include <stdio.h>

#include "base/json.h"
#include "cli/show.h"

enum watched_end {
    WATCHED_GOES_ON,
    WATCHED_COMPLETE,
    WATCHED_FAILED,
};

/* `object` is the whole SkyJob as the API server has it. */
enum watched_end watched_end(const struct json *object);

/* One line: how far training is, or what the job waits for. */
void watched_line(const struct json *object, char out[static SHOW_LINE_BYTES]);

/* Which attempt at which placement; 0 before there is one. Changes when a new table is worth it. */
int watched_attempt(const struct json *object);

/* The stages with predicted and measured times; and why they are where they are. */
void watched_print_stages(FILE *out, const struct json *object);
void watched_print_reason(FILE *out, const struct json *object);
/* Metrics of a job that is over, or why it failed. */
void watched_print_end(FILE *out, const struct json *object);

#endif
