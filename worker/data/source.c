#include "data/source.h"

static enum err_code load_text(const struct corpus_params *p, const char *folder,
                               const struct layout_split *split, struct source *out,
                               struct err *err)
{
    struct source s = {0};
    enum err_code rc = corpus_load(p, folder, split, &s.text, err);

    if (rc != ERR_OK)
        return rc;
    s.n_samples = s.text.n_samples;
    *out = s;
    return ERR_OK;
}

enum err_code source_load(const struct corpus_params *p, const char *folder,
                          const struct layout_split *split, struct source *out, struct err *err)
{
    enum model_head head = p->layout->task->head;
    struct dataset_params params = {.layout = p->layout,
                                    .vocab = p->vocab,
                                    .max_length = p->max_length,
                                    .keep_case = p->keep_case,
                                    .most_bytes = p->most_bytes};
    struct source s = {0};
    enum err_code rc;

    if (head == MODEL_HEAD_MASKED_LM || head == MODEL_HEAD_PRETRAINING)
        return load_text(p, folder, split, out, err);
    rc = dataset_load(&params, folder, split, &s.rows, err);
    if (rc != ERR_OK)
        return rc;
    s.n_samples = s.rows.n_samples;
    *out = s;
    return ERR_OK;
}

enum err_code source_get(struct source *s, size_t i, uint64_t epoch, struct sequence *out,
                         struct err *err)
{
    if (s->text.n_samples > 0)
        return corpus_get(&s->text, i, epoch, out, err);
    return dataset_get(&s->rows, i, out, err);
}

void source_deinit(struct source *s)
{
    dataset_deinit(&s->rows);
    corpus_deinit(&s->text);
    *s = (struct source){0};
}
