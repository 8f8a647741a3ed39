#include "kube/framer.h"

#include <string.h>

static enum err_code hand_over(struct framer_sink sink, const char *line, size_t n, struct err *err)
{
    return n > 0 ? sink.on_line(sink.ctx, line, n, err) : ERR_OK;
}

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
        } else if (end && f->partial.len == 0) {
            rc = hand_over(sink, bytes, part, err); /* the usual case: nothing is copied */
        } else {
            rc = buf_add(&f->partial, bytes, part, err);
            if (rc == ERR_OK && end)
                rc = hand_over(sink, f->partial.data, f->partial.len, err);
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
    buf_deinit(&f->partial); /* a long line should not cost memory for ever */
    f->is_skipping = false;
}
