#include "run/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "control/manifest.h"
#include "run/parse.h"

#define BASE64_MAX_BYTES 256

enum err_code secret_write(const struct observed *seen, struct buf *out, struct err *err)
{
    char text[HMAC_TEXT_BYTES];
    struct hmac_key key;
    enum err_code rc = hmac_key_make(&key, err);

    if (rc != ERR_OK)
        return rc;
    hmac_to_text(key.bytes, text);
    rc = manifest_key(seen, text, out, err);
    OPENSSL_cleanse(&key, sizeof key);
    OPENSSL_cleanse(text, sizeof text);
    return rc;
}

/* What a Secret holds comes as base64. */
static enum err_code read_key(const char *base64, struct hmac_key *out, struct err *err)
{
    unsigned char text[BASE64_MAX_BYTES];
    size_t n = strlen(base64);
    int n_text;

    if (n > BASE64_MAX_BYTES)
        return err_set(err, ERR_INVALID, "the key is too long");
    n_text = EVP_DecodeBlock(text, (const unsigned char *)base64, (int)n);
    if (n_text <= 0)
        return err_set(err, ERR_INVALID, "the key is not base64");
    for (size_t i = n; i > 0 && base64[i - 1] == '='; i--)
        n_text--; /* which EVP_DecodeBlock() counts as zeros */
    return hmac_key_parse((const char *)text, (size_t)n_text, out, err);
}

enum err_code secret_take(struct store *s, enum kube_change change, const struct json *object,
                          struct err *err)
{
    const char *base64 = json_string(json_path(object, "data." MANIFEST_KEY_KEY), "");
    char uid[OBSERVED_UID_BYTES];
    char job_key[QUEUE_KEY_BYTES];
    struct store_job *job;
    struct hmac_key key;
    enum err_code rc;

    if (change != KUBE_ADDED || !parse_owner(object, uid, job_key))
        return err_set(err, ERR_INVALID, "not a Secret of a SkyJob");
    job = store_find_job(s, job_key);
    if (!job || strcmp(job->uid, uid) != 0)
        return ERR_OK; /* gone meanwhile */
    rc = read_key(base64, &key, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "Secret %s is invalid: delete it and a new one is created",
                        json_string(json_path(object, "metadata.name"), ""));
    job->secret = key;
    job->has_secret = true;
    return ERR_OK;
}
