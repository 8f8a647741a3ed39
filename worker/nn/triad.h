/* nn/triad.h - how fast memory is, as STREAM's triad asks it (McCalpin 1995).
 *
 * Layer: nn. Threads: threads_count() share the rows; one caller.
 */
#ifndef NN_TRIAD_H
#define NN_TRIAD_H

#include <stddef.h>

#define TRIAD_BYTES 12 /* read and written, of an element */

/* a[i] = b[i] + factor * c[i], 0 <= i < n. */
void triad(float *a, const float *b, const float *c, float factor, size_t n);

#endif
