/* Requests to the ports of workers and operator: whatever comes is refused, waited for, or cut
 * apart in place, and a request is the same whether its last bytes come later or at once. */
#include "http/server.h"

#include <string.h>

#include "fuzz.h"

/* A copy with a NUL behind it, in memory that ends there. */
static char *copy_of(const uint8_t *bytes, size_t n)
{
    char *text = malloc(n + 1);

    MUST(text);
    memcpy(text, bytes, n);
    text[n] = '\0';
    return text;
}

static bool is_inside(const char *part, size_t n_part, const char *text, size_t n)
{
    return part >= text && part + n_part <= text + n;
}

static void check_request(const struct server_request *r, const char *text, size_t n)
{
    MUST(is_inside(r->method, strlen(r->method), text, n) && r->method[0] != '\0');
    MUST(is_inside(r->path, strlen(r->path), text, n) && r->path[0] == '/');
    MUST(strchr(r->method, ' ') == NULL && strstr(r->method, "\r\n") == NULL);
    MUST(strchr(r->path, ' ') == NULL && strstr(r->path, "\r\n") == NULL);
    for (const char *line = r->headers; *line; line += strlen(line) + 2)
        MUST(is_inside(line, strlen(line), text, n) && strstr(line, "\r\n") == NULL);
    MUST(strstr(server_header(r, "Skyjob-Signature"), "\r\n") == NULL);
    MUST(r->n_body <= SERVER_BODY_ADMITTED_MAX_BYTES && is_inside(r->body, r->n_body, text, n));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = copy_of(bytes, n);
    struct server_request request;
    struct err err = {0};
    enum err_code rc = server_parse(text, n, &request, &err);

    MUST(rc == ERR_OK ||
         (rc == err.code && (rc == ERR_AGAIN || rc == ERR_LIMIT || rc == ERR_PROTOCOL)));
    if (rc == ERR_OK)
        check_request(&request, text, n);
    if (rc == ERR_AGAIN)
        MUST(memcmp(text, bytes, n) == 0);
    for (size_t part = 0; rc == ERR_OK && part < n; part++) {
        char *begin = copy_of(bytes, part);
        struct server_request early;
        enum err_code early_rc = server_parse(begin, part, &early, NULL);

        MUST(early_rc == ERR_AGAIN ||
             (early_rc == ERR_OK && (size_t)(early.body - begin) + early.n_body <= part));
        free(begin);
    }
    free(text);
    return 0;
}
