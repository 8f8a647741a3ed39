#include "train/health.h"

#include <string.h>

static void on_request(void *ctx, const struct server_request *r, struct server_answer *out)
{
    bool is_health = strcmp(r->path, "/healthz") == 0;
    bool is_ready = strcmp(r->path, "/readyz") == 0;
    const char *text = "ok";

    if (strcmp(r->method, "GET") != 0) {
        out->status = 405;
        text = "method not allowed";
    } else if (!is_health && !is_ready) {
        out->status = 404;
        text = "no such page";
    } else if (is_ready && !mailbox_is_ready(ctx)) {
        out->status = 503;
        text = "not connected to the neighbours yet";
    }
    (void)!buf_addf(&out->body, NULL, "%s\n", text); /* the status alone will do */
}

enum err_code health_open(const char *host, int port, struct mailbox *mailbox, struct server **out,
                          struct err *err)
{
    enum err_code rc = server_open(
        host, port, (struct server_handler){.ctx = mailbox, .on_request = on_request}, out, err);

    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "health port");
}
