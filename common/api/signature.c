#include "api/signature.h"

#include <string.h>

#include "base/bytes.h"

#define N_PARTS 4

static void list_parts(const struct signature_request *r, struct hmac_part out[static N_PARTS])
{
    static const char purpose[] = "skyjob control request";

    out[0] = (struct hmac_part){purpose, strlen(purpose)};
    out[1] = (struct hmac_part){r->method, strlen(r->method)};
    out[2] = (struct hmac_part){r->path, strlen(r->path)};
    out[3] = (struct hmac_part){r->body, r->n_body};
}

/* `length` is room for what `out` points into. */
static void list_head_parts(const struct signature_request *r, uint8_t length[static 8],
                            struct hmac_part out[static N_PARTS])
{
    static const char purpose[] = "skyjob control request head";

    bytes_put(length, r->n_body, 8);
    list_parts(r, out);
    out[0] = (struct hmac_part){purpose, strlen(purpose)};
    out[3] = (struct hmac_part){length, 8};
}

static enum err_code make(const struct hmac_key *key, const struct hmac_part parts[N_PARTS],
                          char out[static HMAC_TEXT_BYTES], struct err *err)
{
    uint8_t mac[HMAC_BYTES];
    enum err_code rc = hmac_sign(key, parts, N_PARTS, mac, err);

    if (rc == ERR_OK)
        hmac_to_text(mac, out);
    return rc;
}

static bool check(const struct hmac_key *key, const struct hmac_part parts[N_PARTS],
                  const char *text)
{
    uint8_t mac[HMAC_BYTES];

    return hmac_from_text(text, strlen(text), mac) && hmac_check(key, parts, N_PARTS, mac);
}

enum err_code signature_make(const struct hmac_key *key, const struct signature_request *request,
                             char out[static HMAC_TEXT_BYTES], struct err *err)
{
    struct hmac_part parts[N_PARTS];

    list_parts(request, parts);
    return make(key, parts, out, err);
}

bool signature_check(const struct hmac_key *key, const struct signature_request *request,
                     const char *text)
{
    struct hmac_part parts[N_PARTS];

    list_parts(request, parts);
    return check(key, parts, text);
}

enum err_code signature_make_head(const struct hmac_key *key,
                                  const struct signature_request *request,
                                  char out[static HMAC_TEXT_BYTES], struct err *err)
{
    struct hmac_part parts[N_PARTS];
    uint8_t length[8];

    list_head_parts(request, length, parts);
    return make(key, parts, out, err);
}

bool signature_check_head(const struct hmac_key *key, const struct signature_request *request,
                          const char *text)
{
    struct hmac_part parts[N_PARTS];
    uint8_t length[8];

    list_head_parts(request, length, parts);
    return check(key, parts, text);
}
