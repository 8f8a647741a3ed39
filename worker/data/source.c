#include "data/source.h"

enum err_code source_load_tokenizer(const struct spec *spec, const char *folder,
                                    const char *model_folder, struct tokenizer *out,
                                    struct err *err)
{
    static const enum tokenizer_case cases[] = {
        [SPEC_CASE_ABSENT] = TOKENIZER_CASE_ABSENT,
        [SPEC_CASE_UNCASED] = TOKENIZER_CASE_UNCASED,
        [SPEC_CASE_CASED] = TOKENIZER_CASE_CASED,
    };

    return tokenizer_load(folder, model_folder, cases[spec->letters], out, err);
}

enum err_code source_load(const struct sequence_params *p, const char *folder,
                          const struct layout_split *split, struct source *out, struct err *err)
{
    enum model_head head = p->layout->task->head;
    bool is_text = head == MODEL_HEAD_MASKED_LM || head == MODEL_HEAD_PRETRAINING;
    struct source s = {0};
    enum err_code rc = is_text ? corpus_load(p, folder, split, &s.text, err)
                               : dataset_load(p, folder, split, &s.rows, err);

    if (rc != ERR_OK)
        return rc;
    s.n_samples = is_text ? s.text.n_samples : s.rows.n_samples;
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
