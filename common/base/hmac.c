#include "base/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "base/file.h"

#define KEY_FILE_MAX_BYTES (2 * HMAC_TEXT_BYTES)
#define MESSAGE_MAX_BYTES  ((size_t)1 << 20)

enum err_code hmac_key_make(struct hmac_key *out, struct err *err)
{
    struct hmac_key key;

    if (getrandom(key.bytes, sizeof key.bytes, 0) != (ssize_t)sizeof key.bytes)
        return err_set(err, ERR_IO, "the system has no random numbers for a key");
    *out = key;
    return ERR_OK;
}

static const char digits[] = "0123456789abcdef";

bool hmac_from_text(const char *text, size_t n, uint8_t out[static HMAC_BYTES])
{
    uint8_t bytes[HMAC_BYTES] = {0};

    if (n != HMAC_TEXT_BYTES - 1)
        return false;
    for (size_t i = 0; i < n; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

        if (!digit)
            return false;
        bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | (digit - digits));
    }
    memcpy(out, bytes, sizeof bytes);
    return true;
}

void hmac_to_text(const uint8_t bytes[static HMAC_BYTES], char out[static HMAC_TEXT_BYTES])
{
    for (size_t i = 0; i < HMAC_BYTES; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
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

enum err_code hmac_sign(const struct hmac_key *key, const struct hmac_part *parts, int n_parts,
                        uint8_t out[static HMAC_BYTES], struct err *err)
{
    struct buf message = {.max = MESSAGE_MAX_BYTES};
    uint8_t signature[HMAC_BYTES];
    enum err_code rc = ERR_OK;

    for (int i = 0; i < n_parts && rc == ERR_OK; i++) {
        uint8_t length[8];

        bytes_put(length, parts[i].n, sizeof length);
        rc = buf_add(&message, length, sizeof length, err);
        if (rc == ERR_OK)
            rc = buf_add(&message, parts[i].bytes, parts[i].n, err);
    }
    if (rc == ERR_OK && !HMAC(EVP_sha256(), key->bytes, sizeof key->bytes,
                              (const unsigned char *)message.data, message.len, signature, NULL))
        rc = err_set(err, ERR_NO_MEMORY, "cannot compute a signature");
    buf_deinit(&message);
    if (rc == ERR_OK)
        memcpy(out, signature, sizeof signature);
    return rc;
}

bool hmac_check(const struct hmac_key *key, const struct hmac_part *parts, int n_parts,
                const uint8_t mac[static HMAC_BYTES])
{
    uint8_t expected[HMAC_BYTES];

    return hmac_sign(key, parts, n_parts, expected, NULL) == ERR_OK &&
           CRYPTO_memcmp(expected, mac, HMAC_BYTES) == 0;
}

enum err_code hmac_digest(const void *bytes, size_t n, uint8_t out[static HMAC_BYTES],
                          struct err *err)
{
    return EVP_Digest(bytes, n, out, NULL, EVP_sha256(), NULL) == 1
               ? ERR_OK
               : err_set(err, ERR_NO_MEMORY, "no memory for a digest");
}
