/* base/hmac.h - HMAC-SHA256 over a message of several parts, with a shared key; SHA-256 alone.
 *
 * Each part is preceded by its length, so different lists of parts have different signatures.
 * The first part should name the purpose, so that a signature is valid for that one only.
 * Layer: base. Threads: any.
 */
#ifndef BASE_HMAC_H
#define BASE_HMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define HMAC_BYTES      32
#define HMAC_TEXT_BYTES (2 * HMAC_BYTES + 1) /* as hexadecimal digits, with the NUL */

struct hmac_key {
    uint8_t bytes[HMAC_BYTES];
};

struct hmac_part {
    const void *bytes;
    size_t n;
};

/* A new key from the system's random numbers. ERR_IO. */
MUST_CHECK enum err_code hmac_key_make(struct hmac_key *out, struct err *err);
/* A key as text, as in files: HMAC_BYTES in hexadecimal. White space may follow. ERR_INVALID, with
 * a text that quotes nothing of it. */
MUST_CHECK enum err_code hmac_key_parse(const char *text, size_t n, struct hmac_key *out,
                                        struct err *err);
/* The key in a file. As file_read(), or ERR_INVALID. */
MUST_CHECK enum err_code hmac_key_load(const char *path, struct hmac_key *out, struct err *err);

/* ERR_NO_MEMORY; ERR_LIMIT above 1 MiB. */
MUST_CHECK enum err_code hmac_sign(const struct hmac_key *key, const struct hmac_part *parts,
                                   int n_parts, uint8_t out[static HMAC_BYTES], struct err *err);
/* Is `mac` the signature of these parts? In constant time. */
bool hmac_check(const struct hmac_key *key, const struct hmac_part *parts, int n_parts,
                const uint8_t mac[static HMAC_BYTES]);

/* SHA-256 of the bytes. ERR_NO_MEMORY. */
MUST_CHECK enum err_code hmac_digest(const void *bytes, size_t n, uint8_t out[static HMAC_BYTES],
                                     struct err *err);

/* Keys and signatures as text. */
void hmac_to_text(const uint8_t bytes[static HMAC_BYTES], char out[static HMAC_TEXT_BYTES]);
bool hmac_from_text(const char *text, size_t n, uint8_t out[static HMAC_BYTES]);

#endif
