#include "data/predictions.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"

void predictions_init(struct predictions *p, const struct layout *layout)
{
    *p = (struct predictions){.layout = layout, .text = {.max = PREDICTIONS_MAX_BYTES}};
}

void predictions_deinit(struct predictions *p)
{
    buf_deinit(&p->text);
    *p = (struct predictions){0};
}

static enum err_code add(struct predictions *p, const char *answer, struct err *err)
{
    enum err_code rc = buf_addf(&p->text, err, "%s%lld\t%s\n",
                                p->n == 0 ? "index\tprediction\n" : "", (long long)p->n, answer);

    p->n += rc == ERR_OK;
    return rc;
}

enum err_code predictions_add_label(struct predictions *p, int label, struct err *err)
{
    return add(p, p->layout->labels[label], err);
}

enum err_code predictions_add_score(struct predictions *p, float score, struct err *err)
{
    char text[32];

    if (!isfinite(score))
        return err_set(err, ERR_INVALID,
                       "prediction of row %lld is not finite; lower "
                       "spec.training.optimizer.learningRate",
                       (long long)p->n);
    (void)snprintf(text, sizeof text, "%.6g", (double)score);
    return add(p, text, err);
}

enum err_code predictions_write(const struct predictions *p, const char *folder,
                                const struct layout_split *split, int64_t n_rows, struct err *err)
{
    char path[PATH_MAX];
    enum err_code rc;

    if (p->n != n_rows)
        return err_set(err, ERR_INVALID, "%s: %lld predictions for the %lld rows of %s",
                       split->submission, (long long)p->n, (long long)n_rows, split->file);
    rc = folder_path(folder, split->submission, path, err);
    if (rc == ERR_OK)
        rc = folder_make(folder, err);
    if (rc == ERR_OK)
        rc = file_write(path, p->text.data, p->text.len, err);
    return rc;
}
