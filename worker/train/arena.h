/* train/arena.h - one piece of memory for all tensors of a stage, taken before the first step.
 *
 * The layout is written once, as code that takes areas in order. Run on an arena without memory it
 * only counts; run again on one of that size it hands out the areas. So size and layout cannot
 * drift apart. Areas are ARENA_ALIGN_BYTES aligned and start as zeros.
 * Layer: train (may use base). Threads: one while laying out.
 */
#ifndef TRAIN_ARENA_H
#define TRAIN_ARENA_H

#include <stddef.h>

#include "base/err.h"

#define ARENA_ALIGN_BYTES 64

struct arena {
    char *base;  /* NULL: only count */
    size_t used; /* bytes handed out so far */
    size_t size;
};

/* Take memory for `bytes`. ERR_NO_MEMORY says how much was wanted. */
MUST_CHECK enum err_code arena_init(struct arena *s, size_t bytes, struct err *err);
void arena_deinit(struct arena *s);

/* The next area; NULL while counting. More than was counted is our own mistake: asserted. */
void *arena_take(struct arena *s, size_t bytes);
float *arena_floats(struct arena *s, size_t count);

#endif
