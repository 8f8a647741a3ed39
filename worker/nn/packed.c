#include "nn/packed.h"

int packed_longest(const struct packed *p)
{
    int longest = 0;

    for (int s = 0; s < p->n_seqs; s++) {
        int len = p->starts[s + 1] - p->starts[s];
        longest = len > longest ? len : longest;
    }
    return longest;
}

int packed_seq_of(const struct packed *p, int token)
{
    int low = 0, high = p->n_seqs - 1;

    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (p->starts[middle] <= token)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}
