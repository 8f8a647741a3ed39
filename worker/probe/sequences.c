#include "probe/sequences.h"

#include <math.h>
#include <stdlib.h>

#include "api/node.h"
#include "base/clock.h"
#include "data/batch.h"
#include "data/sampler.h"
#include "data/source.h"
#include "text/tokenizer.h"

#define BYTES ((size_t)4 << 20) /* of the file */

enum err_code sequences_read(const struct spec *spec, const char *folder, const char *model_folder,
                             struct sequences *out, struct err *err)
{
    struct sequences read = {.are_read = true};
    struct layout layout;
    struct tokenizer tokenizer = {0};
    struct source source = {0};
    struct sampler sampler;
    int64_t until_ms, start_ns;
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
    until_ms = clock_now_ms() + SEQUENCES_READ_MS;
    start_ns = clock_cpu_ns();
    /* In the order in which training reads them: a file is often sorted by something. */
    if (rc == ERR_OK)
        rc = sampler_init(&sampler, params.seed, source.n_samples, 1, err);
    for (size_t i = 0; rc == ERR_OK && i < source.n_samples && i < SEQUENCES_MAX; i++) {
        struct sequence s;

        rc = source_get(&source, (size_t)sampler_at(&sampler, 0, i), 0, &s, err);
        if (rc == ERR_OK)
            read.tokens[read.n++] = s.length;
        if (clock_now_ms() > until_ms)
            break;
    }
    if (rc == ERR_OK) {
        read.make_ms = (double)(clock_cpu_ns() - start_ns) / 1e6 / read.n;
        *out = read;
    }
    source_deinit(&source);
    tokenizer_deinit(&tokenizer);
    return rc;
}

/* Two lengths in turn, as far above and below the mean as the mean square demands. */
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

enum err_code sequences_deal(const struct sequences *s, int m, int each, int32_t *starts,
                             struct err *err)
{
    int n = m * each;
    int32_t *memory = calloc((size_t)(4 * n + 1), sizeof *memory);
    struct batch step = {.n_seqs = n, .starts = memory};
    int32_t *order;

    if (!memory)
        return err_set(err, ERR_NO_MEMORY, "no memory for the lengths of %d sequences", n);
    order = memory + n + 1;
    step.samples = (uint32_t *)order + n;
    for (int i = 0; i < n; i++) {
        step.samples[i] = (uint32_t)i;
        step.starts[i + 1] = step.starts[i] + s->tokens[i % s->n];
    }
    batch_balance(&step, order, order + 2 * (ptrdiff_t)n, m);
    for (int k = 0; k < m; k++, starts++) {
        *starts = 0;
        for (int i = 0; i < each; i++, starts++) {
            int32_t q = order[k * each + i];

            starts[1] = starts[0] + step.starts[q + 1] - step.starts[q];
        }
    }
    free(memory);
    return ERR_OK;
}
