#include "kube/status.h"

#include <string.h>

enum err_code kube_status_code(int status)
{
    if (status >= 200 && status <= 299)
        return ERR_OK;
    switch (status) {
    case 401:
    case 403:
        return ERR_DENIED;
    case 404:
        return ERR_NOT_FOUND;
    case 409:
        return ERR_CONFLICT;
    case 410:
        return ERR_GONE;
    case 408:
    case 504:
        return ERR_TIMEOUT;
    case 413:
        return ERR_LIMIT;
    case 429:
        return ERR_AGAIN;
    default:
        break;
    }
    if (status >= 400 && status <= 499)
        return ERR_INVALID;
    return status >= 500 && status <= 599 ? ERR_IO : ERR_PROTOCOL;
}

/* The text of a body that is no Status: its first line, without what does not print. */
static void first_line(const char *body, size_t n, char *out, size_t out_bytes)
{
    size_t used = 0;

    for (size_t i = 0; i < n && used + 1 < out_bytes && body[i] != '\n'; i++)
        if ((unsigned char)body[i] >= 0x20 && (unsigned char)body[i] < 0x7f)
            out[used++] = body[i];
    out[used] = '\0';
}

static enum err_code error_of(int status, const char *message, struct err *err)
{
    enum err_code code = kube_status_code(status);

    if (code == ERR_OK) /* somebody calls a success an error */
        code = ERR_PROTOCOL;
    if (message[0])
        return err_set(err, code, "%s (%d)", message, status);
    return err_set(err, code, "the API server answered with status %d", status);
}

enum err_code kube_status_error(int status, const char *body, size_t n, struct err *err)
{
    struct json *object = NULL;
    char line[200];
    enum err_code rc;

    if (n > 0 && json_parse_tolerant(body, n, &object, NULL) == ERR_OK) {
        rc = error_of(status, json_string(json_get(object, "message"), ""), err);
        json_free(object);
        return rc;
    }
    first_line(body, n, line, sizeof line);
    return error_of(status, line, err);
}

enum err_code kube_status_object(const struct json *status, struct err *err)
{
    int64_t code = json_i64(json_get(status, "code"), 0);

    if (code < 100 || code > 599)
        code = 500; /* an ERROR event without a code is the server's failure */
    return error_of((int)code, json_string(json_get(status, "message"), ""), err);
}
