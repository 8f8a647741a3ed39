#include "train/best.h"

#include <math.h>

bool best_is_wanted(const struct spec *spec)
{
    return spec->training.keeps_best || spec->training.patience > 0;
}

bool best_take(struct progress_best *b, const struct spec *spec, double value, int64_t lineage,
               int64_t step)
{
    bool is_less_better = spec->training.best_by == TASK_EVAL_LOSS;
    bool is_better = b->step == 0 || (is_less_better ? value < b->value : value > b->value);

    if (!isfinite(value) || !is_better) {
        b->n_since++;
        return false;
    }
    *b = (struct progress_best){.value = value, .lineage = lineage, .step = step};
    return true;
}

bool best_ends(const struct progress_best *b, const struct spec *spec)
{
    return spec->training.patience > 0 && b->n_since >= spec->training.patience;
}
