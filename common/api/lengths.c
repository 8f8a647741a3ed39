#include "api/lengths.h"

struct spec_lengths lengths_of(const struct spec *spec)
{
    bool is_sample = spec->data.source == SPEC_SOURCE_SAMPLE && spec->data.sample[0];
    double usual = is_sample ? LENGTHS_SAMPLE : LENGTHS_MEAN;
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
