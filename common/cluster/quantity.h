/* cluster/quantity.h - Kubernetes' way to write amounts: "500m", "1.5", "3Gi", "1e3".
 *
 * Grammar: apimachinery's resource.Quantity. What does not fit an int64 is refused, as is anything
 * that is not a quantity; negative amounts too, since none that we read may be negative.
 * Layer: cluster (may use api, base). Threads: any.
 */
#ifndef CLUSTER_QUANTITY_H
#define CLUSTER_QUANTITY_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

/* In thousandths, rounded up as Kubernetes does: "0.5" is 500, "100m" is 100. */
MUST_CHECK enum err_code quantity_milli(const char *text, int64_t *out_milli, struct err *err);
/* In whole units, rounded up: "1Ki" is 1024, "1500m" is 2. */
MUST_CHECK enum err_code quantity_units(const char *text, int64_t *out_units, struct err *err);

/* The same from a JSON value, which is a string, or in a file of nodes a plain number. 0 when it is
 * missing or cannot be read. */
int64_t quantity_read(const struct json *v, bool is_milli);

#endif
