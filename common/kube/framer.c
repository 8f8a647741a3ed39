#include "kube/framer.h"

#include <string.h>

enum err_code framer_feed(struct framer *f, const char *bytes, size_t n, struct framer_sink sink,
                          struct err *err)
{
    enum err_code rc = ERR_OK;

    while (n > 0 && rc == ERR_OK) {
        const char *end = memchr(bytes, '\n', n);
        size_t part = end ? (size_t)(end - bytes) : n;

        if (f->is_skipping) {
            f->is_skipping = !end;
        } else if (part > f->partial.max - f->partial.len) {
            buf_deinit(&f->partial);
            f->is_skipping = !end;
            sink.on_long(sink.ctx);
        } else if (end && f->partial.len == 0) { /* the usual case: nothing is copied */
            rc = part > 0 ? sink.on_line(sink.ctx, bytes, part, err) : ERR_OK;
        } else {
            rc = buf_add(&f->partial, bytes, part, err);
            if (rc == ERR_OK && end)
                rc = sink.on_line(sink.ctx, f->partial.data, f->partial.len, err);
            if (rc == ERR_OK && end)
                buf_reset(&f->partial);
        }
        bytes += part + (end ? 1 : 0);
        n -= part + (end ? 1 : 0);
    }
    return rc;
}

void framer_reset(struct framer *f)
{
    buf_deinit(&f->partial); /* return the memory of a long line */
    f->is_skipping = false;
}
