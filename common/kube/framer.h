/* kube/framer.h - split a stream into lines.
 *
 * A line ends in LF; empty ones are skipped. What follows the last LF waits in the buffer for the
 * rest. A line above `partial.max` is skipped whole.
 * Layer: kube. Threads: one.
 */
#ifndef KUBE_FRAMER_H
#define KUBE_FRAMER_H

#include "base/buf.h"

struct framer {
    struct buf partial; /* set .max before first use; buf_deinit() at the end */
    bool is_skipping;   /* in a line that is too long */
};

/* Called for each complete line, without its LF; not NUL-terminated; borrowed. */
struct framer_sink {
    void *ctx;
    enum err_code (*on_line)(void *ctx, const char *line, size_t n, struct err *err);
    void (*on_long)(void *ctx); /* a line is too long and will be skipped */
};

/* Add bytes. Returns ERR_NO_MEMORY, or what on_line returned, which ends it: the rest of `bytes` is
 * lost, so drop the stream. */
MUST_CHECK enum err_code framer_feed(struct framer *f, const char *bytes, size_t n,
                                     struct framer_sink sink, struct err *err);

/* Forget a line that was begun. */
void framer_reset(struct framer *f);

#endif
