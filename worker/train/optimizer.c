#include "train/optimizer.h"

#include <math.h>

double optimizer_rate(const struct spec *spec, int64_t step, int64_t total)
{
    double rate = spec->training.learning_rate;
    double warmup = ceil(spec->training.warmup_ratio * (double)total);
    double at = (double)step;

    if (at < warmup)
        return rate * at / warmup;
    if (spec->training.schedule == SPEC_SCHEDULE_CONSTANT)
        return rate;
    return rate * fmax(0, ((double)total - at) / fmax(1, (double)total - warmup));
}

double optimizer_scale(double square_sum, double max_grad_norm)
{
    double norm = sqrt(square_sum);

    if (max_grad_norm <= 0)
        return 1;
    return fmin(1, max_grad_norm / (norm + 1e-6));
}
