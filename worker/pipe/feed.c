#include "pipe/feed.h"

#include <stdlib.h>

static enum err_code load(struct feed *f, const struct spec *spec, const char *folder,
                          struct err *err)
{
    struct dataset_params params = {.vocab = &f->vocab, .max_length = spec->training.max_length};
    enum err_code rc = dataset_vocab(folder, &f->vocab, err);

    if (rc == ERR_OK && (int64_t)f->vocab.n_tokens > spec->model.vocab)
        rc = err_set(err, ERR_INVALID,
                     "%s/%s has %lld tokens but spec.model.vocabSize is %d: set it to at least "
                     "%lld",
                     folder, DATASET_VOCAB_FILE, (long long)f->vocab.n_tokens, spec->model.vocab,
                     (long long)f->vocab.n_tokens);
    if (rc == ERR_OK)
        rc = dataset_load(&params, folder, DATASET_TRAIN_FILE, &f->train, err);
    if (rc == ERR_OK)
        rc = dataset_load(&params, folder, DATASET_DEV_FILE, &f->dev, err);
    return rc;
}

static enum err_code reserve(struct feed *f, const struct spec *spec, struct err *err)
{
    size_t batch_size = (size_t)spec->training.batch_size;
    size_t bytes = batch_bytes(f->n_seqs, spec->training.max_length);

    f->memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    f->order = calloc(batch_size, sizeof *f->order);
    f->scratch = calloc(batch_size, sizeof *f->scratch);
    f->samples = calloc((size_t)f->n_seqs, sizeof *f->samples);
    if (!f->memory || !f->order || !f->scratch || !f->samples)
        return err_set(err, ERR_NO_MEMORY, "no memory for batches of %zu sequences", batch_size);
    batch_init(&f->batch, f->memory, f->n_seqs, spec->training.max_length);
    return ERR_OK;
}

enum err_code feed_init(struct feed *f, const struct spec *spec, const char *folder,
                        struct err *err)
{
    enum err_code rc;

    *f = (struct feed){.order_step = -1,
                       .n_micro = spec->training.micro_batches,
                       .n_seqs = spec->training.batch_size / spec->training.micro_batches};
    rc = load(f, spec, folder, err);
    if (rc == ERR_OK)
        rc = sampler_init(&f->sampler, (uint64_t)spec->training.seed, f->train.n_samples,
                          (uint32_t)spec->training.batch_size, err);
    if (rc == ERR_OK)
        rc = reserve(f, spec, err);
    if (rc != ERR_OK)
        feed_deinit(f);
    return rc;
}

void feed_deinit(struct feed *f)
{
    vocab_deinit(&f->vocab);
    dataset_deinit(&f->train);
    dataset_deinit(&f->dev);
    free(f->memory);
    free(f->order);
    free(f->scratch);
    free(f->samples);
    *f = (struct feed){0};
}

void feed_facts(const struct feed *f, const struct spec *spec, struct message_facts *out)
{
    int64_t per_epoch = (int64_t)sampler_steps_per_epoch(&f->sampler);
    int64_t n_dev = (int64_t)f->dev.n_samples;

    *out = (struct message_facts){
        .steps_per_epoch = per_epoch,
        .total_steps =
            spec->training.steps > 0 ? spec->training.steps : spec->training.epochs * per_epoch,
        .n_splits = 1,
        .splits = {{.n_samples = n_dev, .n_batches = (n_dev + f->n_seqs - 1) / f->n_seqs}},
    };
}

static enum err_code pack(struct feed *f, const struct dataset *d, const uint64_t *samples, int n,
                          struct feed_batch *out, struct err *err)
{
    enum err_code rc = batch_pack(&f->batch, d, samples, n, err);

    if (rc != ERR_OK)
        return rc;
    for (int i = 0; i < n; i++)
        f->samples[i] = (uint32_t)samples[i];
    *out = (struct feed_batch){
        .batch = {.n_seqs = n,
                  .n_tokens = f->batch.n_tokens,
                  .starts = f->batch.starts,
                  .labels = f->batch.labels,
                  .samples = f->samples},
        .ids = f->batch.ids,
        .types = f->batch.types,
        .positions = f->batch.positions,
    };
    return ERR_OK;
}

enum err_code feed_train(struct feed *f, int64_t step, int microbatch, struct feed_batch *out,
                         struct err *err)
{
    if (f->order_step != step) {
        sampler_step(&f->sampler, (uint64_t)step, f->order);
        batch_balance(&f->train, f->order, f->scratch, f->n_seqs * f->n_micro, f->n_micro);
        f->order_step = step;
    }
    return pack(f, &f->train, f->order + (size_t)microbatch * (size_t)f->n_seqs, f->n_seqs, out,
                err);
}

enum err_code feed_eval(struct feed *f, int64_t index, struct feed_batch *out, struct err *err)
{
    uint64_t first = (uint64_t)index * (uint64_t)f->n_seqs;
    uint64_t left = f->dev.n_samples - first;
    int n = left < (uint64_t)f->n_seqs ? (int)left : f->n_seqs;

    for (int i = 0; i < n; i++)
        f->scratch[i] = first + (uint64_t)i;
    return pack(f, &f->dev, f->scratch, n, out, err);
}
