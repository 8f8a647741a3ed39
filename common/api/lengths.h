/* api/lengths.h - how long a job's sequences are, measured or assumed.
 *
 * The planner predicts with it, and a probe without the data measures with it.
 * Layer: api (may use base). Threads: any; pure.
 */
#ifndef API_LENGTHS_H
#define API_LENGTHS_H

#include "api/node.h"

/* Tokens of a sequence of data that have not been read. */
#define LENGTHS_MEAN   39.0 /* MNLI */
#define LENGTHS_SAMPLE 17.0 /* the built-in sample */
#define LENGTHS_SPREAD 1.25 /* mean of the square over square of the mean; MNLI */

#define LENGTHS_TEXT_BYTES 160

/* Those of the job's data if they were measured, else a guess. Never above maxSequenceLength. */
struct node_lengths lengths_of(const struct spec *spec, const struct node_lengths *measured);

/* What people should know when a plan rests on a guess: "sequences are assumed to have 39 tokens,
 * since the data have not been read"; "" when they are measured, or those of the sample. */
void lengths_guess(const struct spec *spec, const struct node_lengths *measured,
                   char out[static LENGTHS_TEXT_BYTES]);

#endif
