#include "base/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "base/file.h"

#define KEY_FILE_MAX_BYTES (2 * HMAC_TEXT_BYTES)

enum err_code hmac_key_make(struct hmac_key *out, struct err *err)
{
    struct hmac_key key;

    if (getrandom(key.bytes, sizeof key.bytes, 0) != (ssize_t)sizeof key.bytes)
        return err_set(err, ERR_IO, "the system has no random numbers for a key");
    *out = key;
    return ERR_OK;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hmac_from_text(const char *text, size_t n, uint8_t out[static HMAC_BYTES])
{
    uint8_t bytes[HMAC_BYTES];

    if (n != HMAC_TEXT_BYTES - 1)
        return false;
    for (size_t i = 0; i < HMAC_BYTES; i++) {
        int high = digit_of(text[2 * i]);
        int low = digit_of(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(out, bytes, sizeof bytes);
    return true;
}

void hmac_to_text(const uint8_t bytes[static HMAC_BYTES], char out[static HMAC_TEXT_BYTES])
{
    for (size_t i = 0; i < HMAC_BYTES; i++) {
        out[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    out[HMAC_TEXT_BYTES - 1] = '\0';
}

enum err_code hmac_key_parse(const char *text, size_t n, struct hmac_key *out, struct err *err)
{
    while (n > 0 && strchr(" \t\r\n", text[n - 1]))
        n--;
    if (!hmac_from_text(text, n, out->bytes))
        return err_set(err, ERR_INVALID, "a key must have %d hexadecimal digits", 2 * HMAC_BYTES);
    return ERR_OK;
}

enum err_code hmac_key_load(const char *path, struct hmac_key *out, struct err *err)
{
    struct buf text = {.max = KEY_FILE_MAX_BYTES};
    enum err_code rc = file_read(path, &text, err);

    if (rc == ERR_OK)
        rc = hmac_key_parse(buf_text(&text), text.len, out, err);
    buf_deinit(&text);
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "key file %s", path);
}

static bool add_part(EVP_MAC_CTX *ctx, const struct hmac_part *part)
{
    uint8_t length[8];

    bytes_put(length, part->n, sizeof length);
    return EVP_MAC_update(ctx, length, sizeof length) == 1 &&
           (part->n == 0 || EVP_MAC_update(ctx, part->bytes, part->n) == 1);
}

enum err_code hmac_sign(const struct hmac_key *key, const struct hmac_part *parts, int n_parts,
                        uint8_t out[static HMAC_BYTES], struct err *err)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_utf8_string("digest", digest, 0), OSSL_PARAM_END};
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
    uint8_t signature[HMAC_BYTES];
    size_t n = 0;
    bool is_done = ctx && EVP_MAC_init(ctx, key->bytes, sizeof key->bytes, params) == 1;

    for (int i = 0; i < n_parts && is_done; i++)
        is_done = add_part(ctx, &parts[i]);
    is_done = is_done && EVP_MAC_final(ctx, signature, &n, sizeof signature) == 1 &&
              n == sizeof signature;
    EVP_MAC_CTX_free(ctx);
    EVP_MAC_free(mac);
    if (!is_done)
        return err_set(err, ERR_NO_MEMORY, "cannot compute a signature");
    memcpy(out, signature, sizeof signature);
    return ERR_OK;
}

bool hmac_check(const struct hmac_key *key, const struct hmac_part *parts, int n_parts,
                const uint8_t mac[static HMAC_BYTES])
{
    uint8_t expected[HMAC_BYTES];

    return hmac_sign(key, parts, n_parts, expected, NULL) == ERR_OK &&
           CRYPTO_memcmp(expected, mac, HMAC_BYTES) == 0;
}
