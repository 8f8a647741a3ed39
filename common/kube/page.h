/* kube/page.h - one page of a list, object by object.
 *
 * Each object is parsed alone, so an invalid one does not affect the others, and only one tree is
 * in memory at a time. Layer: kube (may use base). Threads: any.
 */
#ifndef KUBE_PAGE_H
#define KUBE_PAGE_H

#include "base/json.h"

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

/* The same without a version, from texts; NULL when there is no memory. */
struct json *page_identity(const char *namespace, const char *name, const char *uid);

#endif
