/* api/stages.h - spec.placement.manual: the cut that a user gives strategy Manual.
 *
 * A list of replicas, each a list of stages; for now there is one replica.
 * Layer: api (may use base). Threads: any.
 */
#ifndef API_STAGES_H
#define API_STAGES_H

#include "api/spec.h"

/* Does the list belong to the strategy, and do its counts make the whole model? ERR_INVALID. */
MUST_CHECK enum err_code stages_check(const struct spec *spec, struct err *err);

bool stages_equal(const struct spec_stages *a, const struct spec_stages *b);

/* Units of entry `s` of a list that has been checked. */
int stages_units(const struct spec *spec, int s);

#endif
