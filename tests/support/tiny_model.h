/* The smallest classifier: embeddings, attention, feed-forward, pooler, head. */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include "api/model.h"

#define TINY_MODEL                                                                                 \
    {                                                                                              \
        .vocab = 7, .hidden = 2, .layers = 1, .heads = 1, .ffn = 3, .positions = 4, .labels = 2,   \
        .norm_eps = 1e-12                                                                          \
    }
#define TINY_UNITS      5
#define TINY_FLOATS_MAX 64 /* of a unit */

#endif
