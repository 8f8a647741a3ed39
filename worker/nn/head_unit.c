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

struct unit_sizes head_unit_sizes(const struct unit_shape *shape, const struct unit_room *room)
{
    (void)room;
    return (struct unit_sizes){.params = bias_at(shape) + (size_t)shape->labels};
}

void head_unit_forward(const struct unit_call *call, const float *in, float *logits)
{
    linear_forward(logits, in, call->params, call->params + bias_at(&call->shape),
                   classifier(call));
}

void head_unit_backward(const struct unit_call *call, const float *in, const float *dlogits,
                        float *din)
{
    linear_backward_weight(call->grads, dlogits, in, classifier(call));
    linear_backward_bias(call->grads + bias_at(&call->shape), dlogits, classifier(call));
    linear_backward_input(din, dlogits, call->params, classifier(call), 0);
}
