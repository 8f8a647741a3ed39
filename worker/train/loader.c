#include "train/loader.h"

#include <stdlib.h>

#include "base/log.h"
#include "train/best.h"

static enum err_code load_tokenizer(struct loader *f, const struct loader_params *p,
                                    struct err *err)
{
    int model_vocab = p->spec->model.vocab;
    enum err_code rc =
        tokenizer_load(p->folder, p->model_folder, p->spec->letters, &f->tokenizer, err);
    int n_tokens = f->tokenizer.vocab.n_tokens;

    if (rc != ERR_OK)
        return rc;
    if (n_tokens > model_vocab)
        return err_set(
            err, ERR_INVALID,
            "the vocabulary has %d tokens but spec.model.vocabSize is %d: set it to at least %d",
            n_tokens, model_vocab, n_tokens);
    LOG(LOG_INFO, "vocabulary read", LOG_I("tokens", n_tokens),
        LOG_S("case", f->tokenizer.is_cased ? "Cased" : "Uncased"));
    return ERR_OK;
}

/* Evaluation masks the same tokens in every job, so that losses can be compared. */
static enum err_code load_split(struct loader *f, const struct loader_params *p,
                                const struct layout_split *split, struct source *out,
                                struct err *err)
{
    const struct spec *spec = p->spec;
    struct source_params params = {
        .layout = &f->layout,
        .tokenizer = &f->tokenizer,
        .max_length = spec->training.max_length,
        .mask_probability = spec->data.mask_probability,
        .seed = split == &f->layout.train ? (uint64_t)spec->training.seed : 0,
        .stops = p->stops,
    };
    enum err_code rc = source_load(&params, p->folder, split, out, err);

    if (rc == ERR_OK) /* rows that are skipped or cut are no error */
        LOG(LOG_INFO, "data read", LOG_S("file", split->file),
            LOG_I("samples", (int64_t)out->n_samples),
            LOG_I("rowsWithoutLabel", (int64_t)out->n_unlabelled),
            LOG_I("brokenRowsSkipped", (int64_t)out->n_broken),
            LOG_I("documents", (int64_t)out->n_documents),
            LOG_I("sentencesCut", (int64_t)out->n_cut));
    return rc;
}

/* Append a split to those that are evaluated or predicted, unless it is missing and may be.
 * Evaluations are compared by the first dev file. */
static enum err_code add_split(struct loader *f, const struct loader_params *p,
                               const struct layout_split *split, int place, struct err *err)
{
    bool is_needed = split->is_test
                         ? p->spec->data.files.test[0]
                         : p->spec->data.files.dev[0] || (place == 0 && best_is_wanted(p->spec));
    struct source *source = &f->splits[f->facts.n_splits];
    enum err_code rc = load_split(f, p, split, source, err);
    int64_t n = (int64_t)source->n_samples;

    if (rc == ERR_NOT_FOUND && !is_needed) {
        LOG(LOG_INFO, "no such data, skipped", LOG_S("file", split->file),
            LOG_S("means", split->is_test ? "no predictions" : "no evaluation"));
        return ERR_OK;
    }
    if (rc == ERR_OK)
        f->facts.splits[f->facts.n_splits++] =
            (struct message_split){.n_batches = (n + f->n_seqs - 1) / f->n_seqs,
                                   .n_samples = n,
                                   .is_test = split->is_test,
                                   .place = place};
    return rc;
}

static enum err_code load(struct loader *f, const struct loader_params *p, struct err *err)
{
    const struct spec *spec = p->spec;
    bool evaluates_only = spec->training.evaluates_only;
    enum err_code rc = load_tokenizer(f, p, err);

    f->facts =
        (struct message_facts){.version = MESSAGE_VERSION, .steps_per_epoch = 1, .last_seqs = 1};
    if (rc == ERR_OK && !evaluates_only)
        rc = load_split(f, p, &f->layout.train, &f->train, err);
    for (int i = 0; rc == ERR_OK && i < f->layout.n_dev; i++)
        rc = add_split(f, p, &f->layout.dev[i], i, err);
    for (int i = 0; rc == ERR_OK && p->wants_predictions && i < f->layout.n_test; i++)
        rc = add_split(f, p, &f->layout.test[i], i, err);
    if (rc == ERR_OK && evaluates_only && f->facts.n_splits == 0)
        rc =
            err_set(err, ERR_INVALID,
                    "spec.training.steps is 0, and there is nothing to evaluate or predict: name a "
                    "dev file in spec.data.files, or a test file and an output");
    if (rc == ERR_OK && !evaluates_only)
        rc = sampler_init(&f->sampler, (uint64_t)spec->training.seed, f->train.n_samples,
                          (uint32_t)spec->training.batch_size, err);
    if (rc == ERR_OK && !evaluates_only) {
        int64_t per_epoch = (int64_t)sampler_steps_per_epoch(&f->sampler);

        f->facts.steps_per_epoch = per_epoch;
        f->facts.last_seqs =
            (int64_t)(f->sampler.n_samples - (uint64_t)(per_epoch - 1) * f->sampler.batch_size);
        f->facts.total_steps =
            spec->training.steps > 0 ? spec->training.steps : spec->training.epochs * per_epoch;
    }
    return rc;
}

static enum err_code reserve(struct loader *f, const struct spec *spec, struct err *err)
{
    size_t batch_size = (size_t)spec->training.batch_size;
    struct batch_limits whole = {.n_seqs = spec->training.batch_size,
                                 .max_length = spec->training.max_length,
                                 .has_targets = model_is_tied(&spec->model)};
    struct batch_limits micro = whole;
    size_t whole_bytes = batch_bytes(&whole);

    micro.n_seqs = f->n_seqs;
    f->memory = aligned_alloc(64, whole_bytes + batch_bytes(&micro));
    f->samples = calloc(batch_size, sizeof *f->samples);
    f->order = calloc(batch_size, sizeof *f->order);
    f->scratch = calloc(batch_size, sizeof *f->scratch);
    if (!f->memory || !f->samples || !f->order || !f->scratch)
        return err_set(err, ERR_NO_MEMORY, "no memory for batches of %zu sequences", batch_size);
    batch_init(&f->step, f->memory, &whole);
    batch_init(&f->batch, (char *)f->memory + whole_bytes, &micro);
    return ERR_OK;
}

enum err_code loader_init(struct loader *f, const struct loader_params *p, struct err *err)
{
    const struct spec *spec = p->spec;
    enum err_code rc;

    *f = (struct loader){.order_step = -1,
                         .n_micro = p->micro_batches,
                         .n_seqs = spec->training.batch_size / p->micro_batches};
    layout_init(&f->layout, spec);
    rc = load(f, p, err);
    if (rc == ERR_OK)
        rc = reserve(f, spec, err);
    if (rc != ERR_OK)
        loader_deinit(f);
    return rc;
}

void loader_deinit(struct loader *f)
{
    tokenizer_deinit(&f->tokenizer);
    source_deinit(&f->train);
    for (int i = 0; i < f->facts.n_splits; i++)
        source_deinit(&f->splits[i]);
    free(f->memory);
    free(f->samples);
    free(f->order);
    free(f->scratch);
    *f = (struct loader){0};
}

/* The micro-batch that was packed last, as a part of `step`. */
static struct message_batch view(const struct loader *f, const struct batch *step)
{
    const struct batch *b = &f->batch;
    bool is_regression = f->layout.task->head == MODEL_HEAD_REGRESSION;

    return (struct message_batch){
        .n_seqs = b->n_seqs,
        .n_tokens = b->n_tokens,
        .n_targets = b->n_targets,
        .step_seqs = step->n_seqs,
        .step_targets = step->n_targets,
        .starts = b->starts,
        .labels = is_regression ? NULL : b->labels,
        .scores = is_regression ? b->scores : NULL,
        .samples = b->samples,
        .rows = b->rows,
        .target_ids = b->target_ids,
        .ids = b->ids,
        .types = b->types,
    };
}

/* Of the step that was made. */
static int micro_batches(const struct loader *f)
{
    return f->step.n_seqs < f->n_micro ? f->step.n_seqs : f->n_micro;
}

static enum err_code add_sample(struct batch *to, struct source *from, uint64_t i, uint64_t epoch,
                                struct err *err)
{
    struct sequence s;
    enum err_code rc = source_get(from, (size_t)i, epoch, &s, err);

    return rc == ERR_OK ? batch_add(to, &s, err) : rc;
}

/* Make all sequences of a step: how they are dealt out depends on all their lengths. */
static enum err_code make_step(struct loader *f, int64_t step, struct err *err)
{
    uint64_t epoch = (uint64_t)step / sampler_steps_per_epoch(&f->sampler);
    uint32_t n = sampler_step(&f->sampler, (uint64_t)step, f->samples);
    enum err_code rc = ERR_OK;

    f->order_step = -1;
    batch_reset(&f->step);
    for (uint32_t i = 0; rc == ERR_OK && i < n; i++)
        rc = add_sample(&f->step, &f->train, f->samples[i], epoch, err);
    if (rc != ERR_OK)
        return rc;
    batch_balance(&f->step, f->order, f->scratch, micro_batches(f));
    f->order_step = step;
    return ERR_OK;
}

enum err_code loader_train(struct loader *f, int64_t step, int microbatch,
                           struct message_batch *out, struct err *err)
{
    enum err_code rc = f->order_step == step ? ERR_OK : make_step(f, step, err);
    int m = micro_batches(f);
    int n = f->step.n_seqs;

    batch_reset(&f->batch);
    for (int i = batch_first(n, m, microbatch);
         rc == ERR_OK && i < batch_first(n, m, microbatch + 1); i++)
        rc = batch_copy(&f->batch, &f->step, f->order[i], err);
    if (rc != ERR_OK)
        return rc;
    *out = view(f, &f->step);
    out->step = step;
    return ERR_OK;
}

enum err_code loader_eval(struct loader *f, int split, int64_t index, struct message_batch *out,
                          struct err *err)
{
    struct source *source = &f->splits[split];
    size_t first = (size_t)index * (size_t)f->n_seqs;
    enum err_code rc = ERR_OK;

    batch_reset(&f->batch);
    for (size_t i = first; rc == ERR_OK && i < first + (size_t)f->n_seqs && i < source->n_samples;
         i++)
        rc = add_sample(&f->batch, source, i, 0, err);
    if (rc != ERR_OK)
        return rc;
    *out = view(f, &f->batch);
    out->is_eval = true;
    return ERR_OK;
}
