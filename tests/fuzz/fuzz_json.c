/* JSON: what json_parse() accepts is JSON, prints and reads back as the same value. Its tolerant
 * twin accepts the same and strings with \u0000; base/json.h finds the same members without
 * parsing, and ends in any text. */
#include "base/json.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "fuzz.h"

/* --- RFC 8259 once more, to be read beside its grammar: each function takes something from the
 * front and returns what is behind it, or NULL. The callers have checked that depth is bounded. */

static const char *take_value(const char *p, const char *end);

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && strchr(" \t\r\n", *p))
        p++;
    return p;
}

static const char *take_char(const char *p, const char *end, const char *any_of)
{
    return p && p < end && *p != '\0' && strchr(any_of, *p) ? p + 1 : NULL;
}

static const char *take_digits(const char *p, const char *end)
{
    const char *from = p;

    while (p && p < end && isdigit((unsigned char)*p))
        p++;
    return p == from ? NULL : p;
}

static const char *take_number(const char *p, const char *end)
{
    const char *next;

    if ((next = take_char(p, end, "-")))
        p = next;
    next = take_char(p, end, "0");
    p = next ? next : take_digits(p, end);
    if ((next = take_char(p, end, ".")))
        p = take_digits(next, end);
    if ((next = take_char(p, end, "eE"))) {
        p = next;
        if ((next = take_char(p, end, "+-")))
            p = next;
        p = take_digits(p, end);
    }
    return p;
}

static const char *take_hex(const char *p, const char *end, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, p++) {
        if (p >= end || !isxdigit((unsigned char)*p))
            return NULL;
        *out = *out << 4 | (unsigned)(isdigit((unsigned char)*p) ? *p - '0' : (*p & 0xf) + 9);
    }
    return p;
}

/* What follows a backslash. Half a pair of surrogates is no character. */
static const char *take_escape(const char *p, const char *end)
{
    unsigned code;

    if (p >= end || *p != 'u')
        return take_char(p, end, "\"\\/bfnrt");
    p = take_hex(p + 1, end, &code);
    if (!p || (code & 0xf800) != 0xd800)
        return p;
    if (code >= 0xdc00 || end - p < 2 || memcmp(p, "\\u", 2) != 0)
        return NULL;
    p = take_hex(p + 2, end, &code);
    return (code & 0xfc00) == 0xdc00 ? p : NULL;
}

static const char *take_string(const char *p, const char *end)
{
    p = take_char(p, end, "\"");
    while (p && p < end && *p != '"') {
        if ((unsigned char)*p < 0x20)
            return NULL;
        p = *p == '\\' ? take_escape(p + 1, end) : p + 1;
    }
    return take_char(p, end, "\"");
}

static const char *take_members(const char *p, const char *end, bool is_object)
{
    const char *closer = is_object ? "}" : "]";
    const char *done = take_char(skip_space(p, end), end, closer);

    while (!done) {
        if (is_object) {
            p = take_string(skip_space(p, end), end);
            p = p ? take_char(skip_space(p, end), end, ":") : NULL;
        }
        p = p ? take_value(p, end) : NULL;
        if (!p)
            return NULL;
        done = take_char(p, end, closer);
        if (!done && !(p = take_char(p, end, ",")))
            return NULL;
    }
    return done;
}

/* With the space around it. */
static const char *take_value(const char *p, const char *end)
{
    static const char *const words[] = {"true", "false", "null"};

    p = skip_space(p, end);
    if (p == end)
        return NULL;
    if (*p == '{' || *p == '[')
        p = take_members(p + 1, end, *p == '{');
    else if (*p == '"')
        p = take_string(p, end);
    else if (*p == '-' || isdigit((unsigned char)*p))
        p = take_number(p, end);
    else
        for (size_t i = 0; i < 3; i++)
            if ((size_t)(end - p) >= strlen(words[i]) && memcmp(p, words[i], strlen(words[i])) == 0)
                return skip_space(p + strlen(words[i]), end);
            else if (i == 2)
                return NULL;
    return p ? skip_space(p, end) : NULL;
}

/* A byte order mark may stand in front (section 8.1). */
static bool is_json(const char *text, size_t n)
{
    const char *end = text + n;

    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    return take_value(text, end) == end;
}

/* --- what was accepted --- */

static void check_value(const struct json *v, int depth)
{
    size_t n = 0;

    MUST(depth <= JSON_DEPTH_MAX);
    MUST(json_kind_of(v) != JSON_ABSENT);
    MUST(json_kind_of(v) != JSON_NUMBER || isfinite(json_double(v, NAN)));
    MUST(!json_is_i64(v) || (double)json_i64(v, 0) == json_double(v, NAN));
    for (const struct json *c = json_first(v); c; c = json_next(c), n++) {
        MUST(json_kind_of(v) != JSON_OBJECT || json_get(v, json_key(c)) == c);
        MUST(json_kind_of(v) == JSON_OBJECT || *json_key(c) == '\0');
        check_value(c, depth + 1);
    }
    MUST(json_count(v) == n);
    MUST(n == 0 || json_kind_of(v) == JSON_OBJECT || json_kind_of(v) == JSON_ARRAY);
}

static void check_print(const struct json *v)
{
    char *text = json_print(v);
    struct json *back = NULL;

    MUST(text);
    MUST(json_parse(text, strlen(text), &back, NULL) == ERR_OK);
    MUST(json_equal(v, back));
    json_free(back);
    free(text);
}

/* Strict or tolerant: the same promises. */
static struct json *parse(const char *text, size_t n, bool is_tolerant)
{
    struct json *root = NULL;
    struct err err = {0};
    enum err_code rc =
        is_tolerant ? json_parse_tolerant(text, n, &root, &err) : json_parse(text, n, &root, &err);

    MUST(rc == err.code);
    MUST((root != NULL) == (rc == ERR_OK));
    if (rc == ERR_OK) {
        MUST(is_json(text, n));
        check_value(root, 0);
        check_print(root);
    } else {
        MUST(rc == ERR_INVALID || rc == ERR_LIMIT);
        MUST(err.text[0] != '\0');
        MUST(strncmp(err.text, "not JSON", 8) != 0 || !is_json(text, n));
    }
    return root;
}

/* What is found without parsing lies inside of the text. */
static void check_inside(struct jsonraw whole, struct jsonraw part)
{
    MUST(part.len > 0 && part.text >= whole.text);
    MUST(part.text + part.len <= whole.text + whole.len);
}

static void check_raw(struct jsonraw whole, const struct json *root)
{
    struct jsonraw part;
    size_t place = 0;
    size_t n = 0;

    while (jsonraw_next(whole, &place, &part)) {
        check_inside(whole, part);
        n++;
    }
    MUST(json_kind_of(root) != JSON_ARRAY || n == json_count(root));
    if (jsonraw_member(whole, "a", &part))
        check_inside(whole, part);
    for (const struct json *c = json_first(root); c; c = json_next(c)) {
        struct json *found = NULL;

        if (strchr(json_key(c), '\\') || !jsonraw_member(whole, json_key(c), &part))
            continue; /* its key is written with an escape, or there are no keys */
        check_inside(whole, part);
        MUST(json_parse_tolerant(part.text, part.len, &found, NULL) == ERR_OK);
        MUST(json_equal(found, c));
        json_free(found);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *text = (const char *)bytes;
    struct json *strict = parse(text, n, false);
    struct json *tolerant = parse(text, n, true);

    MUST(!strict || json_equal(strict, tolerant));
    if (n == 0 || *bytes != 0xef) /* jsonraw knows no byte order mark */
        check_raw((struct jsonraw){text, n}, tolerant);
    json_free(strict);
    json_free(tolerant);
    return 0;
}
