/* base/arena.h - memory that is first counted and then taken, by the same code.
 *
 * On an arena without memory arena_take() only counts; on one of the counted size it hands out the
 * areas, so size and layout cannot differ. Areas are aligned to ARENA_ALIGN_BYTES.
 * Layer: base. Threads: one while laying out.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define ARENA_ALIGN_BYTES 64

/* A zeroed struct counts. */
struct arena {
    char *base;  /* NULL: only count */
    size_t used; /* bytes handed out so far */
    size_t size;
};

/* An arena over memory that was counted before, or only a count for NULL: for one expression. */
#define ARENA_AT(start) (&(struct arena){.base = (char *)(start), .size = SIZE_MAX})

/* Take zeroed memory for `bytes`, in huge pages where available. ERR_NO_MEMORY. */
MUST_CHECK enum err_code arena_init(struct arena *a, size_t bytes, struct err *err);
void arena_deinit(struct arena *a);

/* The next area; NULL while counting. Asserts that it was counted. */
void *arena_take(struct arena *a, size_t bytes);
float *arena_floats(struct arena *a, size_t count);
float *arena_rows(struct arena *a, int rows, int columns);

#endif
