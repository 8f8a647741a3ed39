#include "kube/page.h"

#include "base/jsonw.h"

#define IDENTITY_MAX_BYTES 4096

struct json *page_identity(const char *namespace, const char *name, const char *uid,
                           const char *version)
{
    const char *const members[] = {"namespace", namespace,         "name", name, "uid",
                                   uid,         "resourceVersion", version};
    struct buf text = {.max = IDENTITY_MAX_BYTES};
    struct json *object = NULL;
    struct jsonw out;

    jsonw_init(&out, &text);
    jsonw_open_object(&out, NULL);
    jsonw_open_object(&out, "metadata");
    for (int i = 0; i < 8; i += 2)
        if (*members[i + 1])
            jsonw_string(&out, members[i], members[i + 1]);
    jsonw_close(&out);
    jsonw_close(&out);
    if (jsonw_finish(&out, NULL) != ERR_OK ||
        json_parse(text.data, text.len, &object, NULL) != ERR_OK)
        object = NULL;
    buf_deinit(&text);
    return object;
}

/* The caller frees it; NULL when it is not there or cannot be parsed. */
static struct json *member_of(struct jsonraw v, const char *key)
{
    struct json *out = NULL;
    struct jsonraw found;

    if (jsonraw_member(v, key, &found) &&
        json_parse_tolerant(found.text, found.len, &out, NULL) != ERR_OK)
        out = NULL;
    return out;
}

struct json *page_identify(struct jsonraw object)
{
    static const char *const keys[] = {"namespace", "name", "uid", "resourceVersion"};
    struct json *found[4] = {NULL};
    struct json *identity = NULL;
    struct jsonraw metadata;

    if (!jsonraw_member(object, "metadata", &metadata))
        return NULL;
    for (int i = 0; i < 4; i++)
        found[i] = member_of(metadata, keys[i]);
    if (*json_string(found[1], ""))
        identity = page_identity(json_string(found[0], ""), json_string(found[1], ""),
                                 json_string(found[2], ""), json_string(found[3], ""));
    for (int i = 0; i < 4; i++)
        json_free(found[i]);
    return identity;
}

static enum err_code read_object(struct jsonraw text, struct page_sink sink, struct err *err)
{
    struct json *object = NULL;
    struct err why = {.code = ERR_OK};
    enum err_code rc = json_parse_tolerant(text.text, text.len, &object, &why);

    if (rc == ERR_OK) {
        rc = sink.on_object(sink.ctx, object, err);
        json_free(object);
        return rc;
    }
    if (rc == ERR_NO_MEMORY)
        return err_set(err, rc, "%s", why.text);
    object = page_identify(text);
    sink.on_skipped(sink.ctx, object, &why);
    json_free(object);
    return ERR_OK;
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
    while (rc == ERR_OK && jsonraw_next(items, &place, &item))
        rc = read_object(item, sink, err);
    if (rc != ERR_OK)
        return rc;
    if (json_parse_tolerant(metadata.text, metadata.len, out_metadata, err) != ERR_OK)
        return err_wrap(err, ERR_PROTOCOL, "metadata of the list");
    return ERR_OK;
}
