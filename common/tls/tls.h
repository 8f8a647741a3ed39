/* tls/tls.h - mutual TLS between the programs of a job: who we are, and who the peer is.
 *
 * TLS 1.3 only. Both ends show a certificate, and both check that the peer's is from a trusted CA;
 * that alone admits every program with a certificate of that CA, so the owner of a connection also
 * asks tls_peer_is(). There are no sessions to resume: each connection proves both ends anew.
 * The exception is a TLS_OPEN_SERVER, for clients that prove who they are in another way.
 *
 * Reading the texts of a certificate takes longer than a handshake, so that is done once: an
 * identity is shared by all connections that use it, and lives as long as the last of them.
 * Layer: tls (may use base). Threads: any.
 */
#ifndef TLS_TLS_H
#define TLS_TLS_H

#include <openssl/types.h>
#include <stdint.h>

#include "base/buf.h"

/* One end of connections, as PEM. Borrowed. */
struct tls_end {
    const char *ca; /* all that are trusted */
    const char *certificate;
    const char *key;
};

struct tls_identity; /* on the heap; all fields private */

#define TLS_NAME_BYTES 254 /* of a DNS name, with the NUL */

/* Read the texts. The caller owns *out: tls_identity_free(). ERR_INVALID for a text that cannot be
 * used, a certificate without exactly one name, or a key of another certificate, quoting nothing of
 * it; ERR_NO_MEMORY. */
MUST_CHECK enum err_code tls_identity_new(const struct tls_end *end, struct tls_identity **out,
                                          struct err *err);
/* The same with the CAs that `like` trusts, which both keep, instead of the end's. NULL: with the
 * end's. */
MUST_CHECK enum err_code tls_identity_new_like(const struct tls_identity *like,
                                               const struct tls_end *end, struct tls_identity **out,
                                               struct err *err);
/* One more owner; returns the same identity. NULL is allowed, here and below. */
struct tls_identity *tls_identity_share(struct tls_identity *identity);
void tls_identity_free(struct tls_identity *identity);

/* The DNS name in its certificate. Borrowed from the identity. */
const char *tls_identity_name(const struct tls_identity *identity);
/* No two identities of a process ever have the same number. */
uint64_t tls_identity_number(const struct tls_identity *identity);

enum tls_role {
    TLS_CLIENT,
    TLS_SERVER,
    TLS_OPEN_SERVER, /* asks clients for no certificate: tls_peer_name() is false for all of them */
};

/* What all connections of one kind share. The caller owns *out: SSL_CTX_free(). It keeps what it
 * needs of the identity. ERR_NO_MEMORY; ERR_IO when the library refuses. */
MUST_CHECK enum err_code tls_context_new(const struct tls_identity *identity, enum tls_role role,
                                         SSL_CTX **out, struct err *err);
/* The same for a context that another library has made. */
MUST_CHECK enum err_code tls_context_set(const struct tls_identity *identity, SSL_CTX *context,
                                         struct err *err);

/* The only DNS name in the certificate of a trusted CA that the peer has shown. False when there is
 * none. Ask after the handshake. */
bool tls_peer_name(const SSL *ssl, char out[static TLS_NAME_BYTES]);
/* Is it this one? */
bool tls_peer_is(const SSL *ssl, const char *name);

#endif
