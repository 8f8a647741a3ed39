#include "data/sequence.h"

void sequence_truncate(size_t *n_a, size_t *n_b, size_t room)
{
    size_t half = room / 2;

    if (*n_a + *n_b <= room)
        return;
    if (*n_a <= half) {
        *n_b = room - *n_a;
    } else if (*n_b <= half) {
        *n_a = room - *n_b;
    } else {
        *n_a = room - half;
        *n_b = half;
    }
}
