/* nn/linear.h - y = x w^T + b, with the weight stored [out,in] as PyTorch stores it.
 *
 * Letters: T rows, I inputs, O outputs; x[T,I], w[O,I], b[O], y[T,O]. Gradients of w and b are
 * added to, so that they sum up over micro-batches. Layer: nn. Threads: one caller.
 */
#ifndef NN_LINEAR_H
#define NN_LINEAR_H

struct linear {
    int T, I, O;
};

/* y = x w^T + b */
void linear_forward(float *y, const float *x, const float *w, const float *b, struct linear n);

/* dx = dy w, or dx += dy w when `add` is 1 (else 0). */
void linear_backward_input(float *dx, const float *dy, const float *w, struct linear n, int add);

/* dw += dy^T x */
void linear_backward_weight(float *dw, const float *dy, const float *x, struct linear n);

/* db += the column sums of dy, rows added in their order. */
void linear_backward_bias(float *db, const float *dy, struct linear n);

#endif
