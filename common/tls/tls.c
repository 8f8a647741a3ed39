#include "tls/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tls/pem.h"

/* The first one is the fastest on processors that have AES. */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"

struct tls_identity {
    _Atomic int n_owners;
    uint64_t number;
    char name[TLS_NAME_BYTES];
    X509_STORE *trusted;
    X509 *certificate;
    STACK_OF(X509) * chain; /* what is sent behind the certificate */
    EVP_PKEY *key;
};

/* The only name of a certificate, which is a DNS name. */
static bool read_name(const X509 *certificate, char out[static TLS_NAME_BYTES])
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const GENERAL_NAME *one =
        sk_GENERAL_NAME_num(names) == 1 ? sk_GENERAL_NAME_value(names, 0) : NULL;
    const unsigned char *text = NULL;
    int n = 0;

    if (one && one->type == GEN_DNS) {
        text = ASN1_STRING_get0_data(one->d.dNSName);
        n = ASN1_STRING_length(one->d.dNSName);
    }
    if (n < 1 || n >= TLS_NAME_BYTES || memchr(text, '\0', (size_t)n))
        n = 0;
    if (n > 0)
        memcpy(out, text, (size_t)n);
    out[n] = '\0';
    GENERAL_NAMES_free(names);
    return n > 0;
}

/* All certificates of a text. NULL when one cannot be read, or there is none. */
static STACK_OF(X509) * read_certificates(const char *text)
{
    STACK_OF(X509) *all = sk_X509_new_null();
    BIO *bio = BIO_new_mem_buf(text, -1);
    bool is_good = all && bio;
    X509 *one;

    while (is_good && (one = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        is_good = sk_X509_push(all, one) > 0;
        if (!is_good)
            X509_free(one);
    }
    /* The end of the text is reported as a text without a beginning. */
    if (is_good)
        is_good = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    if (is_good)
        ERR_clear_error();
    BIO_free(bio);
    if (is_good && sk_X509_num(all) > 0)
        return all;
    sk_X509_pop_free(all, X509_free);
    return NULL;
}

static enum err_code read_trusted(struct tls_identity *id, const char *text, struct err *err)
{
    STACK_OF(X509) *all = read_certificates(text);
    bool is_good = all != NULL;

    if (!all)
        return pem_error(err, ERR_INVALID, "the CA's certificate cannot be read");
    id->trusted = X509_STORE_new();
    is_good = id->trusted != NULL;
    for (int i = 0; is_good && i < sk_X509_num(all); i++)
        is_good = X509_STORE_add_cert(id->trusted, sk_X509_value(all, i)) == 1;
    sk_X509_pop_free(all, X509_free);
    return is_good ? ERR_OK : pem_error(err, ERR_NO_MEMORY, "cannot keep the CA's certificate");
}

static enum err_code read_own(struct tls_identity *id, const struct tls_end *end, struct err *err)
{
    id->key = pem_read_key(end->key);
    if (!id->key)
        return pem_error(err, ERR_INVALID, "the key cannot be read");
    id->chain = read_certificates(end->certificate);
    id->certificate = id->chain ? sk_X509_shift(id->chain) : NULL;
    if (!id->certificate)
        return pem_error(err, ERR_INVALID, "the certificate cannot be read");
    if (X509_check_private_key(id->certificate, id->key) != 1)
        return pem_error(err, ERR_INVALID, "the key is that of another certificate");
    if (!read_name(id->certificate, id->name))
        return err_set(err, ERR_INVALID, "the certificate does not have exactly one DNS name");
    return ERR_OK;
}

enum err_code tls_identity_new_like(const struct tls_identity *like, const struct tls_end *end,
                                    struct tls_identity **out, struct err *err)
{
    static _Atomic uint64_t last_number;
    struct tls_identity *id = calloc(1, sizeof *id);
    enum err_code rc = ERR_OK;

    if (!id)
        return err_set(err, ERR_NO_MEMORY, "no memory for an identity");
    atomic_store(&id->n_owners, 1);
    id->number = atomic_fetch_add(&last_number, 1) + 1;
    if (!like)
        rc = read_trusted(id, end->ca, err);
    else if (X509_STORE_up_ref(like->trusted) == 1)
        id->trusted = like->trusted;
    else
        rc = err_set(err, ERR_NO_MEMORY, "the CA's certificate cannot be shared");
    if (rc == ERR_OK)
        rc = read_own(id, end, err);
    if (rc == ERR_OK)
        *out = id;
    else
        tls_identity_free(id);
    return rc;
}

enum err_code tls_identity_new(const struct tls_end *end, struct tls_identity **out,
                               struct err *err)
{
    return tls_identity_new_like(NULL, end, out, err);
}

struct tls_identity *tls_identity_share(struct tls_identity *identity)
{
    if (identity)
        (void)atomic_fetch_add(&identity->n_owners, 1);
    return identity;
}

void tls_identity_free(struct tls_identity *identity)
{
    if (!identity || atomic_fetch_sub(&identity->n_owners, 1) > 1)
        return;
    X509_STORE_free(identity->trusted);
    X509_free(identity->certificate);
    sk_X509_pop_free(identity->chain, X509_free);
    EVP_PKEY_free(identity->key);
    free(identity);
}

const char *tls_identity_name(const struct tls_identity *identity)
{
    return identity->name;
}

uint64_t tls_identity_number(const struct tls_identity *identity)
{
    return identity ? identity->number : 0;
}

enum err_code tls_context_set(const struct tls_identity *identity, SSL_CTX *context,
                              struct err *err)
{
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set1_cert_store(context, identity->trusted);
    if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(context, SUITES) != 1 ||
        SSL_CTX_set_num_tickets(context, 0) != 1 ||
        SSL_CTX_use_cert_and_key(context, identity->certificate, identity->key, identity->chain,
                                 1) != 1)
        return pem_error(err, ERR_IO, "cannot set up TLS");
    return ERR_OK;
}

enum err_code tls_context_new(const struct tls_identity *identity, enum tls_role role,
                              SSL_CTX **out, struct err *err)
{
    SSL_CTX *context = SSL_CTX_new(role == TLS_CLIENT ? TLS_client_method() : TLS_server_method());
    enum err_code rc;

    if (!context)
        return pem_error(err, ERR_NO_MEMORY, "no memory for TLS");
    rc = tls_context_set(identity, context, err);
    if (rc == ERR_OK && role == TLS_OPEN_SERVER)
        SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
    if (rc == ERR_OK)
        *out = context;
    else
        SSL_CTX_free(context);
    return rc;
}

bool tls_peer_name(const SSL *ssl, char out[static TLS_NAME_BYTES])
{
    X509 *certificate = SSL_get1_peer_certificate(ssl);
    bool has_name =
        certificate && SSL_get_verify_result(ssl) == X509_V_OK && read_name(certificate, out);

    X509_free(certificate);
    return has_name;
}

bool tls_peer_is(const SSL *ssl, const char *name)
{
    char its[TLS_NAME_BYTES];

    return tls_peer_name(ssl, its) && strcmp(its, name) == 0;
}
