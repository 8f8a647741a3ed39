#include "pipe/schedule.h"

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

int schedule_in_flight(int stage, int n_stages, int n_microbatches)
{
    return min_int(n_microbatches, n_stages - stage);
}

int schedule_length(int n_microbatches)
{
    return 2 * n_microbatches;
}

struct schedule_op schedule_op(int stage, int n_stages, int n_microbatches, int i)
{
    int warm_up = min_int(n_microbatches, n_stages - 1 - stage);
    int steady = n_microbatches - warm_up; /* pairs of one forward and one backward */
    int in_steady = i - warm_up;

    if (i < warm_up)
        return (struct schedule_op){false, i};
    if (in_steady < 2 * steady && in_steady % 2 == 0)
        return (struct schedule_op){false, warm_up + in_steady / 2};
    if (in_steady < 2 * steady)
        return (struct schedule_op){true, in_steady / 2};
    return (struct schedule_op){true, in_steady - steady};
}
