/* tls/pem.h (private) - what both users of PEM texts need.
 *
 * Layer: tls (may use base). Threads: any.
 */
#ifndef TLS_PEM_H
#define TLS_PEM_H

#include <openssl/types.h>

#include "base/err.h"

/* An error with the library's newest reason, whose queue it empties. */
enum err_code pem_error(struct err *err, enum err_code code, const char *what);

/* A private key without a password; NULL when the text is none. The caller frees it. */
EVP_PKEY *pem_read_key(const char *text);

#endif
