#include "api/signature.h"

#include <string.h>

#define PURPOSE "skyjob control request"
#define N_PARTS 4

static void list_parts(const struct signature_request *r, struct hmac_part out[static N_PARTS])
{
    out[0] = (struct hmac_part){PURPOSE, strlen(PURPOSE)};
    out[1] = (struct hmac_part){r->method, strlen(r->method)};
    out[2] = (struct hmac_part){r->path, strlen(r->path)};
    out[3] = (struct hmac_part){r->body, r->n_body};
}

enum err_code signature_make(const struct hmac_key *key, const struct signature_request *request,
                             char out[static HMAC_TEXT_BYTES], struct err *err)
{
    struct hmac_part parts[N_PARTS];
    uint8_t mac[HMAC_BYTES];
    enum err_code rc;

    list_parts(request, parts);
    rc = hmac_sign(key, parts, N_PARTS, mac, err);
    if (rc == ERR_OK)
        hmac_to_text(mac, out);
    return rc;
}

bool signature_check(const struct hmac_key *key, const struct signature_request *request,
                     const char *text)
{
    struct hmac_part parts[N_PARTS];
    uint8_t mac[HMAC_BYTES];

    list_parts(request, parts);
    return hmac_from_text(text, strlen(text), mac) && hmac_check(key, parts, N_PARTS, mac);
}
