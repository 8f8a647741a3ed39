#include "kube/page.h"

#include "base/jsonw.h"

#define IDENTITY_MAX_BYTES 4096

/* The object with this text; NULL when it has no name. */
static struct json *parse_identity(const struct buf *text)
{
    struct json *object = NULL;

    if (json_parse_tolerant(buf_text(text), text->len, &object, NULL) != ERR_OK)
        return NULL;
    if (*json_string(json_path(object, "metadata.name"), ""))
        return object;
    json_free(object);
    return NULL;
}

struct json *page_identity(const char *namespace, const char *name, const char *uid)
{
    const struct jsont_value values[] = {
        JSONT_S("namespace", *namespace ? namespace : NULL),
        JSONT_S("name", name),
        JSONT_S("uid", uid),
    };
    struct buf text = {.max = IDENTITY_MAX_BYTES};
    struct json *object = NULL;
    struct jsonw w;

    jsonw_init(&w, &text);
    jsont_write(&w, NULL, "{'metadata': {'namespace': $namespace, 'name': $name, 'uid': $uid}}",
                values, sizeof values / sizeof *values);
    if (jsonw_finish(&w, NULL) == ERR_OK)
        object = parse_identity(&text);
    buf_deinit(&text);
    return object;
}

struct json *page_identify(struct jsonraw object)
{
    static const char *const keys[] = {"namespace", "name", "uid", "resourceVersion"};
    struct buf text = {.max = IDENTITY_MAX_BYTES};
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
    if (rc == ERR_OK && buf_add(&text, "}}", 2, NULL) == ERR_OK)
        identity = parse_identity(&text);
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
