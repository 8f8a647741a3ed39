/* train/optimizer.h - learning rate and gradient scale of a step: pure functions of the spec.
 *
 * Layer: train (may use api). Threads: any.
 */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "api/spec.h"

/* Learning rate of step `step` (0-based) of `total`: rises linearly over the first
 * warmup_ratio * total steps, rounded up, to the full rate, then falls linearly to 0
 * (SPEC_SCHEDULE_LINEAR) or stays. As in Hugging Face's get_linear_schedule_with_warmup and
 * Trainer. */
double optimizer_rate(const struct spec *spec, int64_t step, int64_t total);

/* What gradients are multiplied with so that their norm is at most max_grad_norm; 1 when that is 0.
 * As torch.nn.utils.clip_grad_norm_: max / (norm + 1e-6), never above 1. */
double optimizer_scale(double square_sum, double max_grad_norm);

#endif
