/* nn/room.h - lay out arrays in an area, or only add up what they would take.
 *
 * The same function that hands out a unit's arrays with a start also sizes the area without one
 * (start NULL: every pointer is NULL), so a size cannot differ from its use. Layer: nn.
 */
#ifndef NN_ROOM_H
#define NN_ROOM_H

#include <stddef.h>

#define ROOM_ALIGN_FLOATS 16

struct room {
    float *start;
    size_t used; /* floats */
};

/* The next `n` floats, rounded up to 64 bytes. */
static inline float *room_take_floats(struct room *room, size_t n)
{
    float *at = room->start ? room->start + room->used : NULL;

    room->used += (n + ROOM_ALIGN_FLOATS - 1) / ROOM_ALIGN_FLOATS * ROOM_ALIGN_FLOATS;
    return at;
}

static inline float *room_take(struct room *room, int rows, int columns)
{
    return room_take_floats(room, (size_t)rows * (size_t)columns);
}

#endif
