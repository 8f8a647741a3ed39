#include "kube/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static const char *value_of(const struct json *secret, const char *key)
{
    return json_string(json_get(json_get(secret, "data"), key), NULL);
}

bool kube_secret_has(const struct json *secret, const char *key)
{
    return value_of(secret, key) != NULL;
}

enum err_code kube_secret_text(const struct json *secret, const char *key, struct buf *out,
                               struct err *err)
{
    const char *base64 = value_of(secret, key);
    size_t n = base64 ? strlen(base64) : 0;
    unsigned char *bytes;
    enum err_code rc;
    int n_bytes;

    if (!base64)
        return err_set(err, ERR_NOT_FOUND, "%s is missing", key);
    if (n > 2 * out->max + 4) /* four for three */
        return err_set(err, ERR_LIMIT, "%s is too long", key);
    bytes = malloc(n + 1);
    if (!bytes)
        return err_set(err, ERR_NO_MEMORY, "no memory for %s", key);
    n_bytes = n > 0 ? EVP_DecodeBlock(bytes, (const unsigned char *)base64, (int)n) : 0;
    /* The library counts the padding as zeros. */
    for (size_t i = n; i > 0 && base64[i - 1] == '=' && n_bytes > 0; i--)
        n_bytes--;
    if (n_bytes < 0 || memchr(bytes, '\0', (size_t)n_bytes))
        rc = err_set(err, ERR_INVALID, "%s is not base64 of a text", key);
    else
        rc = buf_add(out, bytes, (size_t)n_bytes, err);
    OPENSSL_cleanse(bytes, n + 1);
    free(bytes);
    return rc;
}
