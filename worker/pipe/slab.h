/* pipe/slab.h - one piece of memory for all tensors of a stage, taken before the first step.
 *
 * The layout is written once, as code that takes areas in order. Run on a slab without memory it
 * only counts; run again on one of that size it hands out the areas. So size and layout cannot
 * drift apart. Areas are SLAB_ALIGN_BYTES aligned and start as zeros.
 * Layer: pipe (may use base). Threads: one while laying out.
 */
#ifndef PIPE_SLAB_H
#define PIPE_SLAB_H

#include <stddef.h>

#include "base/err.h"

#define SLAB_ALIGN_BYTES 64

struct slab {
    char *base;  /* NULL: only count */
    size_t used; /* bytes handed out so far */
    size_t size;
};

/* Take memory for `bytes`. ERR_NO_MEMORY says how much was wanted. */
MUST_CHECK enum err_code slab_init(struct slab *s, size_t bytes, struct err *err);
void slab_deinit(struct slab *s);

/* The next area; NULL while counting. More than was counted is our own mistake: asserted. */
void *slab_take(struct slab *s, size_t bytes);
float *slab_floats(struct slab *s, size_t count);

#endif
