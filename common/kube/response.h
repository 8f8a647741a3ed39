/* kube/response.h - cut the response to a list or a watch into objects.
 *
 * The objects of a page are parsed one by one, so an invalid one does not affect the others, and
 * only one tree is in memory at a time. The events of a watch are lines; empty ones are skipped,
 * and so are lines above `partial.max`. Layer: kube (may use base). Threads: any.
 */
#ifndef KUBE_RESPONSE_H
#define KUBE_RESPONSE_H

#include "base/json.h"

/* --- a page of a list --- */

#define PAGE_IDENTITY_BYTES 4096

struct page_sink {
    void *ctx;
    /* Any code but ERR_OK ends the page with that error. */
    enum err_code (*on_object)(void *ctx, const struct json *object, struct err *err);
    /* An object cannot be parsed; `identity` is page_identify()'s result. May be NULL. */
    void (*on_skipped)(void *ctx, const struct json *identity, const struct err *err);
};

/* Hand over the objects in order, then their list's metadata: json_free() it.
 * Returns ERR_PROTOCOL when the text is not a list, ERR_NO_MEMORY, or what on_object returned. */
MUST_CHECK enum err_code page_read(const char *text, size_t len, struct page_sink sink,
                                   struct json **out_metadata, struct err *err);

/* {"metadata": {namespace, name, uid, resourceVersion}} of an object that cannot be parsed as a
 * whole, as far as it has them. NULL when they cannot be read or there is no name. The caller frees
 * it. */
struct json *page_identify(struct jsonraw object);

/* --- lines of a watch --- */

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
