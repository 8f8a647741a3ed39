/* kube/status.h - what a refusal of the API server means for the caller.
 *
 * Pure. The server's own sentence (Status.message) ends up in the text.
 * Layer: kube (may use http, base). Threads: any.
 */
#ifndef KUBE_STATUS_H
#define KUBE_STATUS_H

#include "base/json.h"

/* The code for an HTTP status, or for the `code` of a Status object inside a watch:
 *   2xx OK; 401, 403 DENIED; 404 NOT_FOUND; 409 CONFLICT (changed meanwhile, or exists already);
 *   410 GONE; 408, 504 TIMEOUT; 413 LIMIT; 429 AGAIN; other 4xx INVALID; 5xx IO; others PROTOCOL.
 */
enum err_code kube_status_code(int status);

/* Set `err` from a response that is not 2xx; `body` may be a Status object, text or nothing.
 * Returns its code. */
enum err_code kube_status_error(int status, const char *body, size_t n, struct err *err);

/* The same from a Status object that has been parsed (the object of an ERROR event). */
enum err_code kube_status_object(const struct json *status, struct err *err);

#endif
