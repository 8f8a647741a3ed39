/* tls/authority.h - a certificate authority (CA) of our own, and the certificates that it issues.
 *
 * Keys are on the curve P-256, texts are PEM. Clocks of nodes differ, so every certificate is valid
 * from AUTHORITY_MARGIN_S before it was made to as long after the end that was asked for. A CA
 * signs certificates of ends only: there are no intermediate CAs.
 * Layer: tls (may use base). Threads: any; an authority belongs to one.
 */
#ifndef TLS_AUTHORITY_H
#define TLS_AUTHORITY_H

#include <stdint.h>

#include "base/buf.h"

#define AUTHORITY_VALID_S       ((int64_t)3653 * 86400) /* ten years */
#define AUTHORITY_MARGIN_S      7200            /* twice of what clocks of nodes may be off */
#define AUTHORITY_PEM_MAX_BYTES ((size_t)16384) /* of all CAs that are trusted, or of one text */
#define AUTHORITY_NAME_BYTES    254             /* of a DNS name, with the NUL */

struct authority; /* on the heap; all fields private */

/* The texts of a certificate and its key, with `max` set before: AUTHORITY_PEM_MAX_BYTES do.
 * Owned: authority_pair_deinit(), which wipes the key. */
struct authority_pair {
    struct buf certificate;
    struct buf key;
};

#define AUTHORITY_PAIR                                                                             \
    (struct authority_pair)                                                                        \
    {                                                                                              \
        {.max = AUTHORITY_PEM_MAX_BYTES},                                                          \
        {                                                                                          \
            .max = AUTHORITY_PEM_MAX_BYTES                                                         \
        }                                                                                          \
    }

void authority_pair_deinit(struct authority_pair *pair);

/* Make a CA that is valid from `now_s`, in seconds since 1970. Appends to *out, which is untouched
 * on failure. ERR_IO when the system's library refuses, as without random numbers; ERR_LIMIT;
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code authority_make(int64_t now_s, struct authority_pair *out, struct err *err);

/* Read a CA. Of several certificates the first one is meant. The caller owns *out:
 * authority_free(). ERR_INVALID for a text that is none, a certificate that is no CA's, or the
 * wrong key, with a text that quotes nothing of it; ERR_NO_MEMORY. */
MUST_CHECK enum err_code authority_parse(const char *certificate, const char *key,
                                         struct authority **out, struct err *err);
/* NULL is allowed. */
void authority_free(struct authority *authority);

/* Issue a certificate for the DNS name, for both ends of connections, to be used from `now_s` until
 * `valid_s` later. Appends to *out, which is untouched on failure. ERR_INVALID for a name that is
 * none; otherwise as authority_make(). */
MUST_CHECK enum err_code authority_issue(const struct authority *authority, const char *name,
                                         int64_t now_s, int64_t valid_s, struct authority_pair *out,
                                         struct err *err);

/* When the first certificate in the text was made, and when it ends, without the margins, in
 * seconds since 1970. ERR_INVALID when it has none. */
MUST_CHECK enum err_code authority_times(const char *certificate, int64_t *out_from_s,
                                         int64_t *out_until_s, struct err *err);

#endif
