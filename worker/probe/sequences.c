#include "probe/sequences.h"

#include <math.h>
#include <stdlib.h>

#include "api/lengths.h"
#include "base/clock.h"
#include "data/batch.h"
#include "data/source.h"
#include "text/tokenizer.h"

#define BYTES ((size_t)4 << 20) /* of the file */

/* A step that visits each of `n` once, and any part of them soon. */
static size_t stride_of(size_t n)
{
    size_t stride = (size_t)(0.618 * (double)n) + 1; /* the golden section */

    for (;; stride++) {
        size_t a = n;
        size_t b = stride;

        while (b > 0) {
            size_t rest = a % b;

            a = b;
            b = rest;
        }
        if (a == 1)
            return stride;
    }
}

static enum err_code read_all(struct source *source, struct sequences *out, struct err *err)
{
    int64_t until_ms = clock_now_ms() + SEQUENCES_READ_MS;
    int64_t start_ns = clock_cpu_ns();
    size_t stride = stride_of(source->n_samples);
    enum err_code rc = ERR_OK;

    for (size_t i = 0; rc == ERR_OK && i < source->n_samples && i < SEQUENCES_MAX; i++) {
        struct sequence s;

        rc = source_get(source, i * stride % source->n_samples, 0, &s, err);
        if (rc == ERR_OK)
            out->tokens[out->n++] = s.length;
        if (clock_now_ms() > until_ms)
            break;
    }
    if (out->n > 0)
        out->make_ms = (double)(clock_cpu_ns() - start_ns) / 1e6 / out->n;
    return rc;
}

enum err_code sequences_read(const struct spec *spec, const char *folder, const char *model_folder,
                             struct sequences *out, struct err *err)
{
    struct sequences s = {.are_read = true};
    struct layout layout;
    struct tokenizer tokenizer = {0};
    struct source source = {0};
    struct source_params params = {.layout = &layout,
                                   .tokenizer = &tokenizer,
                                   .max_length = spec->training.max_length,
                                   .mask_probability = spec->data.mask_probability,
                                   .seed = (uint64_t)spec->training.seed,
                                   .most_bytes = BYTES};
    enum err_code rc = tokenizer_load(folder, model_folder, spec->letters, &tokenizer, err);

    layout_init(&layout, spec);
    if (rc == ERR_OK)
        rc = source_load(&params, folder, &layout.train, &source, err);
    if (rc == ERR_OK)
        rc = read_all(&source, &s, err);
    if (rc == ERR_OK)
        *out = s;
    source_deinit(&source);
    tokenizer_deinit(&tokenizer);
    return rc;
}

/* Two lengths in turn, as far above and below the mean as its square demands. */
void sequences_make(const struct spec *spec, struct sequences *out)
{
    struct node_lengths l = lengths_of(spec, &(struct node_lengths){.mean = 0});
    double away = sqrt(fmax(l.mean_square - l.mean * l.mean, 0));
    double longest = spec->training.max_length;

    *out = (struct sequences){.n = 2};
    out->tokens[0] = (int)fmax(1, round(l.mean - away));
    out->tokens[1] = (int)fmin(longest, round(l.mean + away));
}

struct node_lengths sequences_lengths(const struct sequences *s)
{
    struct node_lengths l = {.mean = 0};

    for (int i = 0; s->are_read && i < s->n; i++) {
        l.mean += (double)s->tokens[i] / s->n;
        l.mean_square += (double)s->tokens[i] * s->tokens[i] / s->n;
    }
    return l;
}

/* Files are often sorted by something, so take them from all over. */
static int pick(const struct sequences *s, int i, int n)
{
    return s->tokens[n < s->n ? (int)((int64_t)i * s->n / n) : i % s->n];
}

enum err_code sequences_deal(const struct sequences *s, int m, int each, int32_t *starts,
                             struct err *err)
{
    int n = m * each;
    int32_t *memory = calloc((size_t)(3 * n + 1), sizeof *memory);
    uint32_t *samples = calloc((size_t)n, sizeof *samples);
    struct batch step = {.n_seqs = n, .starts = memory, .samples = samples};
    int32_t *order = memory ? memory + n + 1 : NULL;

    if (!memory || !samples) {
        free(memory);
        free(samples);
        return err_set(err, ERR_NO_MEMORY, "no memory for the lengths of %d sequences", n);
    }
    for (int i = 0; i < n; i++) {
        samples[i] = (uint32_t)i;
        step.starts[i + 1] = step.starts[i] + pick(s, i, n);
    }
    batch_balance(&step, order, order + n, m);
    for (int k = 0; k < m; k++) {
        int32_t *to = starts + (size_t)k * (size_t)(each + 1);

        to[0] = 0;
        for (int i = 0; i < each; i++) {
            int32_t q = order[k * each + i];

            to[i + 1] = to[i] + step.starts[q + 1] - step.starts[q];
        }
    }
    free(memory);
    free(samples);
    return ERR_OK;
}
