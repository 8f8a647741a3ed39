/* train/topk.h - only the largest entries of a gradient, for slow links.
 *
 * Of every piece (train/edges.h) the entries of the largest magnitude travel. The others wait where
 * they are and are added to the next gradient (error feedback: Stich et al. 2018, arXiv 1809.07599;
 * Lin et al. 2017, arXiv 1712.01887): they come late, but none is lost.
 *
 *   on the wire:   values  [k] floats, or bfloat16
 *                  gaps    a byte for each value: how many entries before it were left out; 255
 *                          stands for 255 of them and no value
 *
 * What rounding to bfloat16 loses waits too. An entry that is not finite is the largest of all, so
 * it arrives; it never waits.
 *
 * Layer: train (may use wire api base). Threads: any; pure.
 */
#ifndef TRAIN_TOPK_H
#define TRAIN_TOPK_H

#include <stdbool.h>
#include <stddef.h>

#include "api/spec.h"

/* How a gradient of n entries, at least 1, travels. */
struct topk {
    int percent;  /* of the entries, at least one: 1..SPEC_GRADIENT_PERCENT_MAX */
    bool is_bf16; /* their values as bfloat16 */
};

/* Most bytes that `n` entries take. Never more than 4 n + 8. */
size_t topk_max_bytes(const struct topk *t, size_t n);

/* Take the largest of the `n` sums of `grads` and `unsent`: what is not taken waits, and the
 * gradients are zero afterwards. Fills `out`, topk_max_bytes() large; returns the bytes used. */
size_t topk_take(const struct topk *t, float *grads, float *unsent, size_t n, void *out);

/* The `n` entries, zero where none has come. The bytes are untrusted: ERR_PROTOCOL. */
MUST_CHECK enum err_code topk_read(const struct topk *t, const void *in, size_t bytes, float *out,
                                   size_t n, struct err *err);

#endif
