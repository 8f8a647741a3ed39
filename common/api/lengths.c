#include "api/lengths.h"

#include <stdio.h>

static bool is_sample(const struct spec *spec)
{
    return spec->data.source == SPEC_SOURCE_SAMPLE && spec->data.sample[0];
}

struct node_lengths lengths_of(const struct spec *spec, const struct node_lengths *measured)
{
    double usual = is_sample(spec) ? LENGTHS_SAMPLE : LENGTHS_MEAN;
    double longest = spec->training.max_length;
    bool is_measured = measured->mean > 0;
    double mean = is_measured ? measured->mean : usual;
    double square;

    mean = longest < mean ? longest : mean;
    square = is_measured ? measured->mean_square : LENGTHS_SPREAD * mean * mean;
    return (struct node_lengths){
        .mean = mean, .mean_square = longest * longest < square ? longest * longest : square};
}

void lengths_guess(const struct spec *spec, const struct node_lengths *measured,
                   char out[static LENGTHS_TEXT_BYTES])
{
    out[0] = '\0';
    if (measured->mean == 0 && !is_sample(spec))
        (void)snprintf(out, LENGTHS_TEXT_BYTES,
                       "sequences are assumed to have %.0f tokens, since the data have not been "
                       "read",
                       lengths_of(spec, measured).mean);
}
