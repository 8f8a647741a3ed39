#include "train/score.h"

#include <string.h>

_Static_assert((int)TASK_METRICS <= (int)MESSAGE_METRICS_MAX, "an evaluation fits its message");
_Static_assert(LAYOUT_DEV_MAX == MESSAGE_SPLITS_MAX / 2, "every place of a split is in the layout");

enum err_code score_init(struct score *s, const struct spec *spec,
                         const struct message_facts *facts, struct err *err)
{
    int64_t most = 1; /* there may be no splits */

    memset(s, 0, sizeof *s);
    layout_init(&s->layout, spec);
    for (int i = 0; i < LAYOUT_DEV_MAX; i++)
        predictions_init(&s->predictions[i], &s->layout);
    for (int i = 0; i < facts->n_splits; i++)
        if (facts->splits[i].n_samples > most)
            most = facts->splits[i].n_samples;
    return metric_init(&s->metric, s->layout.task, s->layout.n_labels, (size_t)most, err);
}

void score_deinit(struct score *s)
{
    metric_deinit(&s->metric);
    for (int i = 0; i < LAYOUT_DEV_MAX; i++)
        predictions_deinit(&s->predictions[i]);
}

void score_reset(struct score *s, const struct message_split *split)
{
    metric_reset(&s->metric);
    if (!split->is_test)
        return;
    s->place = split->place;
    s->n_rows[s->place] = 0;
    predictions_deinit(&s->predictions[s->place]);
    predictions_init(&s->predictions[s->place], &s->layout);
}

static enum err_code add_prediction(struct score *s, const struct stage_result *result, int i,
                                    struct err *err)
{
    struct predictions *p = &s->predictions[s->place];

    if (result->values)
        return predictions_add_score(p, result->values[i], err);
    return predictions_add_label(p, result->predictions[i], err);
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

void score_finish(struct score *s, const struct message_split *split,
                  const struct message_loss *loss, struct message_eval *out)
{
    if (split->is_test)
        s->n_rows[split->place] = split->n_samples;
    else
        out->n_metrics = metric_values(&s->metric, message_loss_mean(loss), out->metrics);
}

enum err_code score_write(const struct score *s, const char *folder, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (int i = 0; i < LAYOUT_DEV_MAX && rc == ERR_OK; i++)
        if (s->n_rows[i] > 0)
            rc = predictions_write(&s->predictions[i], folder, &s->layout.test[i], s->n_rows[i],
                                   err);
    return rc;
}
