#include "nn/linear.h"
#include "nn/unit.h"

static struct linear classifier(const struct unit_call *call)
{
    return (struct linear){call->batch.n_seqs, call->shape.hidden, call->shape.labels};
}

static size_t bias_at(const struct unit_shape *shape)
{
    return (size_t)shape->labels * (size_t)shape->hidden;
}

static struct unit_sizes sizes(const struct unit_shape *shape, const struct unit_limits *limits)
{
    (void)limits;
    return (struct unit_sizes){.params = bias_at(shape) + (size_t)shape->labels};
}

static void forward(const struct unit_call *call, const float *in, float *logits)
{
    linear_forward(logits, in, call->params, call->params + bias_at(&call->shape),
                   classifier(call));
}

static void backward(const struct unit_call *call, const float *in, const float *dlogits,
                     float *din)
{
    linear_backward_weight(call->grads, dlogits, in, classifier(call));
    linear_backward_bias(call->grads + bias_at(&call->shape), dlogits, classifier(call));
    linear_backward_input(din, dlogits, call->params, classifier(call), 0);
}

const struct unit head_unit = {
    .out = UNIT_OUT_LOGITS, .sizes = sizes, .forward = forward, .backward = backward};
