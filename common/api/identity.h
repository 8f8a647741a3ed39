/* api/identity.h - what two jobs must have in common for one to go on from the other's checkpoints.
 *
 * The model and the optimizer, since a checkpoint has their parameters and moments; and what the
 * order of the data follows from, so that it goes on where it stopped. Everything else may differ:
 * how long the job trains, at which rate, on which nodes.
 * Layer: api (may use base). Threads: any; pure.
 */
#ifndef API_IDENTITY_H
#define API_IDENTITY_H

#include "api/spec.h"

#define IDENTITY_FACTS_MAX   16
#define IDENTITY_FIELD_BYTES 48
#define IDENTITY_VALUE_BYTES 96

struct identity {
    int n; /* 0: not known */
    struct identity_fact {
        char field[IDENTITY_FIELD_BYTES]; /* below spec: "training.seed" */
        char value[IDENTITY_VALUE_BYTES]; /* as text; a longer one is cut off */
    } list[IDENTITY_FACTS_MAX];
};

/* For the documents that contain one: the fields of an entry. */
extern const struct field identity_fact_fields[];

/* Of a spec with the sizes of its model. */
void identity_of(const struct spec *s, struct identity *out);

/* Do they differ? Then the fields are in `out`: "spec.training.seed is 42 there and 7 here, ...".
 * One that is not known differs from none. */
bool identity_differs(const struct identity *there, const struct identity *here, char *out,
                      size_t bytes);

#endif
