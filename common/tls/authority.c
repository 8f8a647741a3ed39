#include "tls/authority.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tls/pem.h"

#define SERIAL_BYTES 16

struct authority {
    X509 *certificate;
    EVP_PKEY *key;
};

/* --- texts --- */

void authority_pair_deinit(struct authority_pair *pair)
{
    if (pair->key.data)
        OPENSSL_cleanse(pair->key.data, pair->key.cap);
    buf_deinit(&pair->key);
    buf_deinit(&pair->certificate);
}

static X509 *read_certificate(const char *text)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    return certificate;
}

static enum err_code add_bio(struct buf *out, BIO *bio, struct err *err)
{
    char *bytes = NULL;
    long n = BIO_get_mem_data(bio, &bytes);

    return buf_add(out, bytes, (size_t)n, err);
}

static enum err_code write_pair(X509 *certificate, EVP_PKEY *key, struct authority_pair *out,
                                struct err *err)
{
    BIO *texts[] = {BIO_new(BIO_s_mem()), BIO_new(BIO_s_secmem())};
    size_t n_before = out->certificate.len;
    enum err_code rc;

    if (!texts[0] || !texts[1] || !PEM_write_bio_X509(texts[0], certificate) ||
        !PEM_write_bio_PrivateKey(texts[1], key, NULL, NULL, 0, NULL, NULL))
        rc = pem_error(err, ERR_NO_MEMORY, "cannot write a certificate");
    else
        rc = add_bio(&out->certificate, texts[0], err);
    if (rc == ERR_OK) {
        rc = add_bio(&out->key, texts[1], err);
        if (rc != ERR_OK) { /* both or none */
            out->certificate.len = n_before;
            out->certificate.data[n_before] = '\0';
        }
    }
    BIO_free(texts[0]);
    BIO_free(texts[1]);
    return rc;
}

/* --- certificates --- */

static bool add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *extension;
    bool is_added;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, certificate, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    is_added = extension && X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    return is_added;
}

static bool set_serial(X509 *certificate, char out_text[static 2 * SERIAL_BYTES + 1])
{
    unsigned char bytes[SERIAL_BYTES];
    BIGNUM *number;
    bool is_set;

    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40); /* positive, and all of one length */
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(out_text + 2 * i, 3, "%02x", bytes[i]);
    number = BN_bin2bn(bytes, sizeof bytes, NULL);
    is_set = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
    BN_free(number);
    return is_set;
}

static bool set_times(X509 *certificate, int64_t now_s, int64_t valid_s)
{
    return ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)(now_s - AUTHORITY_MARGIN_S)) &&
           ASN1_TIME_set(X509_getm_notAfter(certificate),
                         (time_t)(now_s + valid_s + AUTHORITY_MARGIN_S));
}

static bool set_subject(X509 *certificate, const char *text)
{
    return X509_NAME_add_entry_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                      MBSTRING_ASC, (const unsigned char *)text, -1, -1, 0);
}

/* Two CAs are told apart by their subject and by the identifier of their key. */
static bool build_authority(X509 *certificate, EVP_PKEY *key, int64_t now_s)
{
    char serial[2 * SERIAL_BYTES + 1];
    char subject[sizeof serial + 16];

    if (!X509_set_version(certificate, X509_VERSION_3) || !set_serial(certificate, serial) ||
        !set_times(certificate, now_s, AUTHORITY_VALID_S))
        return false;
    (void)snprintf(subject, sizeof subject, "skyjob %.16s", serial);
    return set_subject(certificate, subject) &&
           X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) &&
           X509_set_pubkey(certificate, key) &&
           add_extension(certificate, certificate, NID_basic_constraints,
                         "critical,CA:TRUE,pathlen:0") &&
           add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign") &&
           add_extension(certificate, certificate, NID_subject_key_identifier, "hash") &&
           X509_sign(certificate, key, EVP_sha256()) > 0;
}

/* Without a subject: only the DNS name counts, which may be longer, and a subject that is also the
 * CA's would make it look signed by itself. */
static bool build_end(const struct authority *a, X509 *certificate, EVP_PKEY *key, const char *name,
                      int64_t now_s, int64_t valid_s)
{
    char serial[2 * SERIAL_BYTES + 1];
    char names[AUTHORITY_NAME_BYTES + 16];

    (void)snprintf(names, sizeof names, "critical,DNS:%s", name);
    return X509_set_version(certificate, X509_VERSION_3) && set_serial(certificate, serial) &&
           set_times(certificate, now_s, valid_s) &&
           X509_set_issuer_name(certificate, X509_get_subject_name(a->certificate)) &&
           X509_set_pubkey(certificate, key) &&
           add_extension(certificate, a->certificate, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(certificate, a->certificate, NID_key_usage, "critical,digitalSignature") &&
           add_extension(certificate, a->certificate, NID_ext_key_usage, "serverAuth,clientAuth") &&
           add_extension(certificate, a->certificate, NID_authority_key_identifier, "keyid") &&
           add_extension(certificate, a->certificate, NID_subject_alt_name, names) &&
           X509_sign(certificate, a->key, EVP_sha256()) > 0;
}

/* Without a CA the certificate is that of one. */
static enum err_code make(const struct authority *authority, const char *name, int64_t now_s,
                          int64_t valid_s, struct authority_pair *out, struct err *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    enum err_code rc;

    if (!key || !certificate ||
        !(authority ? build_end(authority, certificate, key, name, now_s, valid_s)
                    : build_authority(certificate, key, now_s)))
        rc = pem_error(err, ERR_IO, "cannot make a certificate");
    else
        rc = write_pair(certificate, key, out, err);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return rc;
}

enum err_code authority_make(int64_t now_s, struct authority_pair *out, struct err *err)
{
    return make(NULL, NULL, now_s, AUTHORITY_VALID_S, out, err);
}

enum err_code authority_parse(const char *certificate, const char *key, struct authority **out,
                              struct err *err)
{
    struct authority *a = calloc(1, sizeof *a);
    enum err_code rc = ERR_OK;

    if (!a)
        return err_set(err, ERR_NO_MEMORY, "no memory for a CA");
    a->certificate = read_certificate(certificate);
    a->key = a->certificate ? pem_read_key(key) : NULL;
    if (!a->certificate)
        rc = pem_error(err, ERR_INVALID, "the CA's certificate cannot be read");
    else if (!a->key)
        rc = pem_error(err, ERR_INVALID, "the CA's key cannot be read");
    else if (X509_check_ca(a->certificate) != 1 ||
             !(X509_get_key_usage(a->certificate) & KU_KEY_CERT_SIGN))
        rc = err_set(err, ERR_INVALID, "the certificate is not that of a CA");
    else if (X509_check_private_key(a->certificate, a->key) != 1)
        rc = pem_error(err, ERR_INVALID, "the CA's key is that of another certificate");
    if (rc == ERR_OK)
        *out = a;
    else
        authority_free(a);
    return rc;
}

void authority_free(struct authority *authority)
{
    if (!authority)
        return;
    X509_free(authority->certificate);
    EVP_PKEY_free(authority->key);
    free(authority);
}

/* Above all without a comma, which would begin another name. */
static bool is_name(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n < AUTHORITY_NAME_BYTES &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == n;
}

enum err_code authority_issue(const struct authority *authority, const char *name, int64_t now_s,
                              int64_t valid_s, struct authority_pair *out, struct err *err)
{
    if (!is_name(name))
        return err_set(err, ERR_INVALID, "\"%.80s\" is not a name for a certificate", name);
    return make(authority, name, now_s, valid_s, out, err);
}

static bool read_time(const ASN1_TIME *time, int64_t *out_s)
{
    struct tm tm;

    if (ASN1_TIME_to_tm(time, &tm) != 1)
        return false;
    *out_s = (int64_t)timegm(&tm);
    return true;
}

enum err_code authority_times(const char *certificate, int64_t *out_from_s, int64_t *out_until_s,
                              struct err *err)
{
    X509 *x509 = read_certificate(certificate);
    enum err_code rc = ERR_OK;
    int64_t from_s, until_s;

    if (!x509 || !read_time(X509_get0_notBefore(x509), &from_s) ||
        !read_time(X509_get0_notAfter(x509), &until_s)) {
        rc = pem_error(err, ERR_INVALID, "the certificate cannot be read");
    } else {
        *out_from_s = from_s + AUTHORITY_MARGIN_S;
        *out_until_s = until_s - AUTHORITY_MARGIN_S;
    }
    X509_free(x509);
    return rc;
}
