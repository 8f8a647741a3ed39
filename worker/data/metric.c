#include "data/metric.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum err_code metric_init(struct metric *m, const struct task *task, int n_labels, size_t n_max,
                          struct err *err)
{
    *m = (struct metric){.task = task, .n_labels = n_labels};
    if (task->head != MODEL_HEAD_REGRESSION)
        return ERR_OK;
    m->sorted = calloc(n_max, sizeof *m->sorted + 4 * sizeof(double));
    if (!m->sorted)
        return err_set(err, ERR_NO_MEMORY, "no memory to score %zu samples", n_max);
    for (size_t i = 0; i < 2; i++) {
        m->values[i] = (double *)(m->sorted + n_max) + 2 * i * n_max;
        m->ranks[i] = m->values[i] + n_max;
    }
    m->pairs_max = n_max;
    return ERR_OK;
}

void metric_deinit(struct metric *m)
{
    free(m->sorted);
    *m = (struct metric){0};
}

void metric_reset(struct metric *m)
{
    memset(m->counts, 0, sizeof m->counts);
    m->n_words = m->n_right_words = 0;
    m->n_pairs = 0;
}

void metric_add_class(struct metric *m, int answer, int truth)
{
    m->counts[truth][answer]++;
}

void metric_add_score(struct metric *m, float answer, float truth)
{
    if (m->n_pairs == m->pairs_max)
        return;
    m->values[0][m->n_pairs] = (double)answer;
    m->values[1][m->n_pairs++] = (double)truth;
}

void metric_add_word(struct metric *m, int32_t answer, int32_t truth)
{
    m->n_words++;
    m->n_right_words += answer == truth;
}

/* --- classes --- */

/* Totals of the table: all, right, of every truth, of every answer. */
struct totals {
    double all, right;
    double truths[TASK_LABELS_MAX], answers[TASK_LABELS_MAX];
};

static void add_up(const struct metric *m, struct totals *t)
{
    *t = (struct totals){0};
    for (int i = 0; i < TASK_LABELS_MAX; i++) {
        for (int j = 0; j < TASK_LABELS_MAX; j++) {
            double n = (double)m->counts[i][j];

            t->all += n;
            t->right += i == j ? n : 0;
            t->truths[i] += n;
            t->answers[j] += n;
        }
    }
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* Harmonic mean of precision and recall: 2 TP / (2 TP + FP + FN). */
static double f1_of_label(const struct metric *m, const struct totals *t, int label)
{
    return ratio(2 * (double)m->counts[label][label], t->truths[label] + t->answers[label]);
}

/* Of two labels the second is the positive one; of more, the mean over all that occur. */
static double f1_of(const struct metric *m, const struct totals *t)
{
    double sum = 0;
    int n = 0;

    if (m->n_labels <= 2)
        return f1_of_label(m, t, 1);
    for (int i = 0; i < m->n_labels; i++) {
        sum += f1_of_label(m, t, i);
        n += t->truths[i] + t->answers[i] > 0;
    }
    return ratio(sum, n);
}

/* The correlation of the two indicator variables of each label, over all labels. */
static double matthews_of(const struct totals *t)
{
    double truths = t->all * t->all; /* variances, times all^2 */
    double answers = t->all * t->all;
    double both = t->right * t->all;

    for (int i = 0; i < TASK_LABELS_MAX; i++) {
        truths -= t->truths[i] * t->truths[i];
        answers -= t->answers[i] * t->answers[i];
        both -= t->truths[i] * t->answers[i];
    }
    return ratio(both, sqrt(truths) * sqrt(answers));
}

/* --- scores --- */

/* Of two columns; two passes, so that large means do no harm. */
static double correlation(double *const columns[2], size_t n)
{
    double means[2] = {0, 0};
    double squares[2] = {0, 0};
    double both = 0;
    double r;

    for (size_t i = 0; i < n; i++)
        for (int w = 0; w < 2; w++)
            means[w] += columns[w][i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        double a = columns[0][i] - means[0];
        double b = columns[1][i] - means[1];

        squares[0] += a * a;
        squares[1] += b * b;
        both += a * b;
    }
    r = ratio(both, sqrt(squares[0]) * sqrt(squares[1]));
    return isfinite(r) ? fmax(-1, fmin(1, r)) : 0;
}

/* NaN counts as the least, so that there is an order. */
static int compare(const void *a, const void *b)
{
    double x = ((const struct metric_value *)a)->value;
    double y = ((const struct metric_value *)b)->value;

    return isnan(x) || isnan(y) ? isnan(y) - isnan(x) : (x > y) - (x < y);
}

/* Ranks count from 1; equal values share the mean of theirs. */
static void rank(struct metric *m, int which)
{
    struct metric_value *sorted = m->sorted;
    size_t end;

    for (size_t i = 0; i < m->n_pairs; i++)
        sorted[i] = (struct metric_value){m->values[which][i], i};
    qsort(sorted, m->n_pairs, sizeof *sorted, compare);
    for (size_t i = 0; i < m->n_pairs; i = end) {
        for (end = i + 1; end < m->n_pairs && compare(&sorted[i], &sorted[end]) == 0;)
            end++;
        for (size_t k = i; k < end; k++)
            m->ranks[which][sorted[k].i] = (double)(i + 1 + end) / 2;
    }
}

/* --- all of them --- */

int metric_values(struct metric *m, double loss, double out[static TASK_METRICS])
{
    enum task_metric list[TASK_METRICS];
    struct totals t;
    int n = task_metric_list(m->task, list);
    bool has_words =
        m->task->head == MODEL_HEAD_MASKED_LM || m->task->head == MODEL_HEAD_PRETRAINING;

    add_up(m, &t);
    for (int i = 0; i < n; i++) {
        out[i] = ratio(t.right, t.all); /* an accuracy */
        if (list[i] == TASK_ACCURACY && has_words)
            out[i] = ratio((double)m->n_right_words, (double)m->n_words);
        if (list[i] == TASK_F1)
            out[i] = f1_of(m, &t);
        if (list[i] == TASK_MATTHEWS)
            out[i] = matthews_of(&t);
        if (list[i] == TASK_PEARSON)
            out[i] = correlation(m->values, m->n_pairs);
        if (list[i] == TASK_SPEARMAN) {
            rank(m, 0);
            rank(m, 1);
            out[i] = correlation(m->ranks, m->n_pairs);
        }
        if (list[i] == TASK_EVAL_LOSS)
            out[i] = loss;
    }
    return n;
}

void metric_name(enum task_metric kind, const char *suffix, char out[static METRIC_NAME_BYTES])
{
    (void)snprintf(out, METRIC_NAME_BYTES, "%s%s", task_metric_names[kind], suffix);
}
