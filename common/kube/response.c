#include "kube/response.h"

#include <string.h>

struct json *page_identify(struct jsonraw object)
{
    static const char *const keys[] = {"namespace", "name", "uid", "resourceVersion"};
    struct buf text = {.max = PAGE_IDENTITY_BYTES};
    struct json *identity = NULL;
    struct jsonraw metadata;
    struct jsonraw value;
    const char *before = "{\"metadata\":{";
    enum err_code rc = ERR_OK;

    if (!jsonraw_member(object, "metadata", &metadata))
        return NULL;
    for (int i = 0; i < 4 && rc == ERR_OK; i++) {
        if (!jsonraw_member(metadata, keys[i], &value))
            continue;
        rc = buf_addf(&text, NULL, "%s\"%s\":%.*s", before, keys[i], (int)value.len, value.text);
        before = ",";
    }
    if (rc == ERR_OK && buf_add(&text, "}}", 2, NULL) == ERR_OK &&
        json_parse_tolerant(buf_text(&text), text.len, &identity, NULL) == ERR_OK &&
        !*json_text(identity, "metadata.name")) {
        json_free(identity);
        identity = NULL;
    }
    buf_deinit(&text);
    return identity;
}

enum err_code page_read(const char *text, size_t len, struct page_sink sink,
                        struct json **out_metadata, struct err *err)
{
    struct jsonraw page = {text, len};
    struct jsonraw metadata;
    struct jsonraw items = {"", 0};
    struct jsonraw item;
    size_t place = 0;
    enum err_code rc = ERR_OK;

    if (!jsonraw_member(page, "metadata", &metadata) || !jsonraw_member(page, "items", &items) ||
        (items.text[0] != '[' && items.text[0] != 'n'))
        return err_set(err, ERR_PROTOCOL, "the response is not a list");
    while (rc == ERR_OK && jsonraw_next(items, &place, &item)) {
        struct json *object = NULL;
        struct err why = {.code = ERR_OK};

        rc = json_parse_tolerant(item.text, item.len, &object, &why);
        if (rc == ERR_OK) {
            rc = sink.on_object(sink.ctx, object, err);
        } else if (rc == ERR_NO_MEMORY) {
            (void)err_set(err, rc, "%s", why.text);
        } else {
            rc = ERR_OK;
            object = sink.on_skipped ? page_identify(item) : NULL;
            if (sink.on_skipped)
                sink.on_skipped(sink.ctx, object, &why);
        }
        json_free(object);
    }
    if (rc != ERR_OK)
        return rc;
    if (json_parse_tolerant(metadata.text, metadata.len, out_metadata, err) != ERR_OK)
        return err_wrap(err, ERR_PROTOCOL, "metadata of the list");
    return ERR_OK;
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
