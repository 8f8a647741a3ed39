#include "train/pass.h"

static enum err_code pass_on(struct train *t, const struct exchange_key *key,
                             const struct message_batch *batch, const struct stage_result *result,
                             struct err *err)
{
    size_t n = message_batch_write(batch, t->meta);

    return exchange_send_tensor(&t->exchange, key, t->meta, n, result->tensor, result->floats, err);
}

static enum err_code add_result(struct train *t, const struct stage_input *in,
                                const struct stage_result *result, struct err *err)
{
    t->loss.sum += result->loss.sum;
    t->loss.n += result->loss.n;
    t->loss.next_sum += result->loss.next_sum;
    t->loss.n_seqs += result->loss.n_seqs;
    if (t->split == TRAIN_STEP)
        return ERR_OK;
    return score_add(&t->score, t->facts.splits[t->split].is_test, &in->batch, result, err);
}

/* Run `in` through the stage and hand the result on, or score it. */
static enum err_code compute(struct train *t, struct exchange_key key, struct stage_input *in,
                             struct err *err)
{
    struct stage_result result = {0};
    int slot = in->is_eval ? 0 : key.microbatch % t->stage->n_slots;
    enum err_code rc;

    in->step = key.step;
    stopwatch_start(&t->compute);
    rc = stage_forward(t->stage, slot, in, &result, err);
    stopwatch_stop(&t->compute);
    if (rc != ERR_OK)
        return rc;
    t->tokens += in->batch.n_tokens;
    if (t->stage->is_last)
        return add_result(t, in, &result, err);
    key.edge = LINK_FORWARD_OUT;
    return pass_on(t, &key, &in->batch, &result, err);
}

static enum err_code forward_from_feed(struct train *t, const struct exchange_key *key,
                                       struct err *err)
{
    bool is_eval = t->split != TRAIN_STEP;
    struct stage_input in = {.is_eval = is_eval};
    struct loader_batch batch;
    enum err_code rc;

    stopwatch_start(&t->compute);
    rc = is_eval ? loader_eval(t->loader, t->split, key->microbatch, &batch, err)
                 : loader_train(t->loader, key->step, key->microbatch, &batch, err);
    stopwatch_stop(&t->compute);
    if (rc != ERR_OK)
        return rc;
    in.batch = batch.batch;
    in.ids = batch.ids;
    in.types = batch.types;
    in.positions = batch.positions;
    return compute(t, *key, &in, err);
}

static enum err_code forward_from_peer(struct train *t, const struct exchange_key *key,
                                       struct err *err)
{
    const struct message_limits limits = message_limits_of(&t->plan->spec);
    struct stage_input in = {.is_eval = key->flags & FRAME_EVAL};
    struct link_message msg;
    enum err_code rc = exchange_recv(&t->exchange, key, &msg, err);

    if (rc != ERR_OK)
        return rc;
    rc = message_batch_read(msg.meta, msg.meta_bytes, &limits, &in.batch, err);
    if (rc == ERR_OK)
        rc = exchange_tensor(&t->exchange, &msg, stage_input_floats(t->stage, &in.batch),
                             &in.tensor, err);
    if (rc == ERR_OK)
        rc = compute(t, *key, &in, err);
    exchange_release(&t->exchange, key, &msg);
    return rc;
}

enum err_code pass_forward(struct train *t, int64_t step, int64_t index, struct err *err)
{
    struct exchange_key key = exchange_key(LINK_FORWARD_IN, FRAME_FORWARD, step, (int)index);

    key.flags = t->split == TRAIN_STEP ? 0 : FRAME_EVAL;
    return t->stage->is_first ? forward_from_feed(t, &key, err) : forward_from_peer(t, &key, err);
}

/* Back through the stage, and the gradient of the input to the stage before. */
static enum err_code push_back(struct train *t, int64_t step, int microbatch, const float *dout,
                               struct err *err)
{
    int slot = microbatch % t->stage->n_slots;
    struct exchange_key key = exchange_key(LINK_BACKWARD_OUT, FRAME_BACKWARD, step, microbatch);
    const float *din;

    stopwatch_start(&t->compute);
    din = stage_backward(t->stage, slot, dout);
    stopwatch_stop(&t->compute);
    if (!din)
        return ERR_OK;
    return exchange_send_tensor(&t->exchange, &key, NULL, 0, din,
                                stage_input_floats(t->stage, stage_batch(t->stage, slot)), err);
}

enum err_code pass_backward(struct train *t, int64_t step, int index, struct err *err)
{
    struct exchange_key key = exchange_key(LINK_BACKWARD_IN, FRAME_BACKWARD, step, index);
    int slot = index % t->stage->n_slots;
    struct link_message msg;
    const float *dout;
    enum err_code rc;

    if (t->stage->is_last)
        return push_back(t, step, index, NULL, err);
    rc = exchange_recv(&t->exchange, &key, &msg, err);
    if (rc != ERR_OK)
        return rc;
    rc = exchange_tensor(&t->exchange, &msg,
                         stage_output_floats(t->stage, stage_batch(t->stage, slot)), &dout, err);
    if (rc == ERR_OK)
        rc = push_back(t, step, index, dout, err);
    exchange_release(&t->exchange, &key, &msg);
    return rc;
}
