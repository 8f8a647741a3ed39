#include "pipe/score.h"

#include <string.h>

_Static_assert((int)METRIC_KINDS <= (int)MESSAGE_METRICS_MAX, "an evaluation fits its message");

enum err_code score_init(struct score *s, const struct spec *spec,
                         const struct message_facts *facts, const char *folder, struct err *err)
{
    int64_t most = 0;

    memset(s, 0, sizeof *s);
    layout_init(&s->layout, spec);
    predictions_init(&s->predictions, &s->layout);
    s->folder = folder;
    for (int i = 0; i < facts->n_splits; i++)
        if (facts->splits[i].n_samples > most)
            most = facts->splits[i].n_samples;
    return metric_init(&s->metric, s->layout.task, s->layout.n_labels, (size_t)most, err);
}

void score_deinit(struct score *s)
{
    metric_deinit(&s->metric);
    predictions_deinit(&s->predictions);
}

void score_reset(struct score *s)
{
    metric_reset(&s->metric);
    predictions_deinit(&s->predictions);
    predictions_init(&s->predictions, &s->layout);
}

static enum err_code add_prediction(struct score *s, const struct stage_result *result, int i,
                                    struct err *err)
{
    if (result->values)
        return predictions_add_score(&s->predictions, result->values[i], err);
    return predictions_add_label(&s->predictions, result->predictions[i], err);
}

static void add_sequence(struct score *s, const struct message_batch *batch,
                         const struct stage_result *result, int i)
{
    if (result->values)
        metric_add_score(&s->metric, result->values[i], batch->scores[i]);
    else if (result->next_predictions)
        metric_add_class(&s->metric, result->next_predictions[i], batch->labels[i]);
    else if (batch->n_targets == 0)
        metric_add_class(&s->metric, result->predictions[i], batch->labels[i]);
}

enum err_code score_add(struct score *s, bool is_test, const struct message_batch *batch,
                        const struct stage_result *result, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK && i < batch->n_seqs; i++) {
        if (is_test)
            rc = add_prediction(s, result, i, err);
        else
            add_sequence(s, batch, result, i);
    }
    for (int i = 0; i < batch->n_targets; i++)
        metric_add_word(&s->metric, result->predictions[i], batch->target_ids[i]);
    return rc;
}

enum err_code score_finish(struct score *s, const struct message_split *split,
                           struct message_end *end, struct err *err)
{
    if (!split->is_test) {
        end->n_metrics = metric_values(&s->metric, message_loss_mean(&end->loss), end->metrics);
        return ERR_OK;
    }
    if (!s->folder)
        return ERR_OK;
    return predictions_write(&s->predictions, s->folder, &s->layout.test[split->place],
                             split->n_samples, err);
}
