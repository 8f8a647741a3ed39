/* kube/secret.h - the values of Secrets, which the API server encodes.
 *
 * Layer: kube (may use base). Threads: any; pure but for memory.
 */
#ifndef KUBE_SECRET_H
#define KUBE_SECRET_H

#include "base/json.h"

bool kube_secret_has(const struct json *secret, const char *key);

/* Append a value that is text. ERR_NOT_FOUND when there is none; ERR_INVALID for one that is not
 * base64, quoting nothing of it; ERR_LIMIT; ERR_NO_MEMORY. */
MUST_CHECK enum err_code kube_secret_text(const struct json *secret, const char *key,
                                          struct buf *out, struct err *err);

#endif
