#include "api/lengths.h"

#include <stdio.h>

static bool is_sample(const struct spec *spec)
{
    return spec->data.source == SPEC_SOURCE_SAMPLE && spec->data.sample[0];
}

struct spec_lengths lengths_of(const struct spec *spec)
{
    double usual = is_sample(spec) ? LENGTHS_SAMPLE : LENGTHS_MEAN;
    double longest = spec->training.max_length;
    struct spec_lengths l = spec->data.lengths;
    bool is_measured = l.mean > 0;

    if (!is_measured)
        l.mean = usual;
    l.mean = longest < l.mean ? longest : l.mean;
    if (!is_measured)
        l.mean_square = LENGTHS_SPREAD * l.mean * l.mean;
    l.mean_square = longest * longest < l.mean_square ? longest * longest : l.mean_square;
    return l;
}

void lengths_guess(const struct spec *spec, char out[static LENGTHS_TEXT_BYTES])
{
    out[0] = '\0';
    if (spec->data.lengths.mean == 0 && !is_sample(spec))
        (void)snprintf(out, LENGTHS_TEXT_BYTES,
                       "sequences are taken to have %.0f tokens, as is usual, since nobody has "
                       "read the data",
                       lengths_of(spec).mean);
}
