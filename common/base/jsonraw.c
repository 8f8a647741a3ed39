#include "base/jsonraw.h"

#include <string.h>

static bool is_at(struct jsonraw v, size_t i, const char *any_of)
{
    return i < v.len && v.text[i] != '\0' && strchr(any_of, v.text[i]);
}

static size_t skip_space(struct jsonraw v, size_t i)
{
    while (is_at(v, i, " \t\r\n"))
        i++;
    return i;
}

/* From an opening quote to the byte after the closing one. */
static bool skip_string(struct jsonraw v, size_t *i)
{
    for (size_t k = *i + 1; k < v.len; k += v.text[k] == '\\' ? 2 : 1) {
        if (v.text[k] == '"') {
            *i = k + 1;
            return true;
        }
    }
    return false;
}

static bool skip_word(struct jsonraw v, size_t *i)
{
    size_t start = *i;

    while (*i < v.len && !is_at(v, *i, " \t\r\n,:]}[{\""))
        ++*i;
    return *i > start;
}

/* From the first byte of a value to the byte after its last one. */
static bool skip_value(struct jsonraw v, size_t *i)
{
    size_t depth = 0;

    do {
        if (is_at(v, *i, "{[")) {
            depth++;
            ++*i;
        } else if (is_at(v, *i, "}]") && depth > 0) {
            depth--;
            ++*i;
        } else if (is_at(v, *i, "\"")) {
            if (!skip_string(v, i))
                return false;
        } else if (depth > 0 && is_at(v, *i, ",: \t\r\n")) {
            ++*i;
        } else if (!skip_word(v, i)) {
            return false;
        }
    } while (depth > 0);
    return true;
}

/* The value at `*i`; moves `*i` to the next byte that is not white space. */
static bool take_value(struct jsonraw v, size_t *i, struct jsonraw *out)
{
    size_t start = *i;

    if (!skip_value(v, i))
        return false;
    *out = (struct jsonraw){v.text + start, *i - start};
    *i = skip_space(v, *i);
    return true;
}

static bool is_key(struct jsonraw v, const char *key)
{
    size_t n = strlen(key);

    return v.len == n + 2 && v.text[0] == '"' && memcmp(v.text + 1, key, n) == 0;
}

bool jsonraw_member(struct jsonraw v, const char *key, struct jsonraw *out)
{
    size_t i = skip_space(v, 0);
    struct jsonraw name;
    struct jsonraw value;

    if (!is_at(v, i, "{"))
        return false;
    do {
        i = skip_space(v, i + 1);
        if (!take_value(v, &i, &name) || !is_at(v, i, ":"))
            return false;
        i = skip_space(v, i + 1);
        if (!take_value(v, &i, &value))
            return false;
        if (is_key(name, key)) {
            *out = value;
            return true;
        }
    } while (is_at(v, i, ","));
    return false;
}

bool jsonraw_next(struct jsonraw v, size_t *place, struct jsonraw *out)
{
    size_t i = *place > 0 ? *place : skip_space(v, 0);

    if (!is_at(v, i, *place > 0 ? "," : "["))
        return false;
    i = skip_space(v, i + 1);
    if (!take_value(v, &i, out))
        return false;
    *place = i;
    return true;
}
