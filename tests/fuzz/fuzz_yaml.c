/* YAML: every document comes out as one JSON text, the same whatever stands before it. */
#include "base/yaml.h"

#include <string.h>

#include "base/json.h"
#include "fuzz.h"

#define DOCUMENTS_MAX 4

/* Only what yaml.h leaves to json_parse() may go wrong there: a duplicate key. */
static void check_json(const struct buf *text)
{
    struct json *root = NULL;
    struct err err = {0};
    enum err_code rc = json_parse(buf_text(text), text->len, &root, &err);

    MUST(rc == ERR_OK || strstr(err.text, "duplicate key"));
    json_free(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    enum err_code rc = ERR_OK;

    for (int i = 0; i < DOCUMENTS_MAX && rc == ERR_OK; i++) {
        struct buf out = {.max = 64 * n + 64};
        struct err err = {0};

        rc = yaml_to_json((const char *)bytes, n, i, &out, &err);
        MUST(rc == err.code);
        if (rc == ERR_OK)
            check_json(&out);
        else
            MUST(rc == ERR_INVALID || rc == ERR_NOT_FOUND);
        buf_deinit(&out);
    }
    return 0;
}
