/* api/signature.h - how a request to a worker's control port proves that it comes from its job.
 *
 * The operator (or `kubectl skyjob run`) and the workers of a job share a key. A request carries a
 * signature over its method, path and body, never the key itself:
 *
 *     Skyjob-Signature: <hexadecimal HMAC-SHA256>
 *
 * A server that has to take a large body before it can check that one looks at another signature
 * first, over method, path and the body's length:
 *
 *     Skyjob-Head-Signature: <hexadecimal HMAC-SHA256>
 *
 * A request that is repeated by a third party has the effect it had before: none.
 * Layer: api (may use base). Threads: any.
 */
#ifndef API_SIGNATURE_H
#define API_SIGNATURE_H

#include "base/hmac.h"

#define SIGNATURE_HEADER      "Skyjob-Signature"
#define SIGNATURE_HEAD_HEADER "Skyjob-Head-Signature"

/* A request as it is signed. The body may be NULL when it is empty. */
struct signature_request {
    const char *method;
    const char *path;
    const void *body;
    size_t n_body;
};

/* ERR_NO_MEMORY. */
MUST_CHECK enum err_code signature_make(const struct hmac_key *key,
                                        const struct signature_request *request,
                                        char out[static HMAC_TEXT_BYTES], struct err *err);
/* Is `text`, of any length, the signature of this request? */
bool signature_check(const struct hmac_key *key, const struct signature_request *request,
                     const char *text);

/* The same for the head of a request; its body is not looked at, only the length. */
MUST_CHECK enum err_code signature_make_head(const struct hmac_key *key,
                                             const struct signature_request *request,
                                             char out[static HMAC_TEXT_BYTES], struct err *err);
bool signature_check_head(const struct hmac_key *key, const struct signature_request *request,
                          const char *text);

#endif
