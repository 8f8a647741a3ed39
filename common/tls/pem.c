#include "tls/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

enum err_code pem_error(struct err *err, enum err_code code, const char *what)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    ERR_clear_error();
    return err_set(err, code, "%s: %s", what, reason ? reason : "no reason reported");
}

/* Else the library would ask for one on the terminal. */
static int no_password(char *text, int bytes, int is_written, void *ctx)
{
    (void)text;
    (void)bytes;
    (void)is_written;
    (void)ctx;
    return -1;
}

EVP_PKEY *pem_read_key(const char *text)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;

    BIO_free(bio);
    return key;
}
