#include "http/xml.h"

#include <stdint.h>
#include <string.h>

static enum err_code broken(struct err *err, const char *why)
{
    return err_set(err, ERR_PROTOCOL, "the XML of the answer cannot be read: %s", why);
}

static bool starts_with(const struct xml *x, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(x->end - x->at) >= n && memcmp(x->at, text, n) == 0;
}

/* Skip up to and including `text`. */
static enum err_code skip_past(struct xml *x, const char *text, struct err *err)
{
    const char *found = memmem(x->at, (size_t)(x->end - x->at), text, strlen(text));

    if (!found)
        return broken(err, "it is cut short");
    x->at = found + strlen(text);
    return ERR_OK;
}

static enum err_code add_text(struct xml *x, const char *bytes, size_t n, struct err *err)
{
    if (n >= XML_TEXT_BYTES - x->text_bytes)
        return broken(err, "a text is too long");
    if (memchr(bytes, '\0', n))
        return broken(err, "a text contains a NUL");
    memcpy(x->text + x->text_bytes, bytes, n);
    x->text_bytes += n;
    return ERR_OK;
}

/* --- text --- */

static size_t write_utf8(uint32_t code, char out[static 4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

static int digit_of(char c, bool is_hex)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (is_hex && c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (is_hex && c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* The character of "#38" or "#x26"; 0: it is none. */
static uint32_t number_of(const char *name, size_t n)
{
    bool is_hex = n > 1 && name[1] == 'x';
    uint32_t code = 0;

    for (size_t i = is_hex ? 2 : 1; i < n; i++) {
        int digit = digit_of(name[i], is_hex);

        if (digit < 0 || code > 0x10ffff)
            return 0;
        code = code * (is_hex ? 16 : 10) + (uint32_t)digit;
    }
    return code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : code;
}

/* At a '&'. */
static enum err_code read_entity(struct xml *x, struct err *err)
{
    static const struct {
        const char *name;
        char is;
    } named[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    const char *name = x->at + 1;
    const char *end = memchr(name, ';', (size_t)(x->end - name));
    size_t n = end ? (size_t)(end - name) : 0;
    uint32_t code = n > 0 && name[0] == '#' ? number_of(name, n) : 0;
    char bytes[4];

    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (n == strlen(named[i].name) && memcmp(name, named[i].name, n) == 0)
            code = (unsigned char)named[i].is;
    if (code == 0)
        return broken(err, "an entity is not known");
    x->at = end + 1;
    return add_text(x, bytes, write_utf8(code, bytes), err);
}

/* --- tags --- */

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':';
}

static size_t name_bytes(const struct xml *x, const char *name)
{
    size_t n = 0;

    while (name + n < x->end && is_name(name[n]))
        n++;
    return n;
}

/* Open an element: its name goes behind the path. */
static enum err_code push(struct xml *x, const char *name, size_t n, struct err *err)
{
    size_t slash = x->path_bytes > 0;

    if (n == 0)
        return broken(err, "a tag has no name");
    if (x->path_bytes == 0 && x->has_root)
        return broken(err, "there is more than one root");
    if (n + slash >= XML_PATH_BYTES - x->path_bytes)
        return broken(err, "it is nested too deeply");
    if (slash)
        x->path[x->path_bytes] = '/';
    memcpy(x->path + x->path_bytes + slash, name, n);
    x->path_bytes += slash + n;
    x->path[x->path_bytes] = '\0';
    x->text_bytes = 0;
    x->has_root = true;
    return ERR_OK;
}

/* The element that is being read has ended, and is still to be seen. */
static void end_element(struct xml *x)
{
    x->text[x->text_bytes] = '\0';
    x->text_bytes = 0;
    x->has_ended = true;
}

/* Take the element that was seen off the path. */
static void pop(struct xml *x)
{
    const char *slash = memrchr(x->path, '/', x->path_bytes);

    x->path_bytes = slash ? (size_t)(slash - x->path) : 0;
    x->path[x->path_bytes] = '\0';
    x->has_ended = false;
}

/* Behind the name of an element: to its '>'. */
static enum err_code skip_attributes(struct xml *x, bool *out_is_empty, struct err *err)
{
    char last = '\0';
    char quote = '\0';

    while (x->at < x->end) {
        char c = *x->at++;

        if (c == '>' && !quote) {
            *out_is_empty = last == '/';
            return ERR_OK;
        }
        if (c == '<')
            return broken(err, "a tag stands within a tag");
        if (c == quote)
            quote = '\0';
        else if (!quote && (c == '"' || c == '\''))
            quote = c;
        last = c;
    }
    return broken(err, "it is cut short");
}

static enum err_code read_close(struct xml *x, struct err *err)
{
    const char *slash = memrchr(x->path, '/', x->path_bytes);
    const char *open = slash ? slash + 1 : x->path;
    size_t n;

    x->at += 2;
    n = name_bytes(x, x->at);
    if (n == 0 || strlen(open) != n || memcmp(open, x->at, n) != 0)
        return broken(err, "the tags do not match");
    x->at += n;
    while (x->at < x->end && strchr(" \t\r\n", *x->at) && *x->at)
        x->at++;
    if (x->at == x->end || *x->at++ != '>')
        return broken(err, "a tag does not end");
    end_element(x);
    return ERR_OK;
}

/* At a '<'. */
static enum err_code read_tag(struct xml *x, struct err *err)
{
    bool is_empty = false;
    enum err_code rc;
    size_t n;

    if (starts_with(x, "<?"))
        return skip_past(x, "?>", err);
    if (starts_with(x, "<!--"))
        return skip_past(x, "-->", err);
    if (starts_with(x, "<!"))
        return broken(err, "it has a declaration");
    if (starts_with(x, "</"))
        return read_close(x, err);
    x->at++;
    n = name_bytes(x, x->at);
    rc = push(x, x->at, n, err);
    x->at += n;
    if (rc == ERR_OK)
        rc = skip_attributes(x, &is_empty, err);
    if (rc == ERR_OK && is_empty)
        end_element(x);
    return rc;
}

void xml_init(struct xml *x, const char *bytes, size_t n)
{
    *x = (struct xml){.at = bytes, .end = bytes + n};
}

enum err_code xml_next(struct xml *x, struct err *err)
{
    enum err_code rc = ERR_OK;

    if (x->has_ended)
        pop(x);
    while (rc == ERR_OK && !x->has_ended && x->at < x->end) {
        if (*x->at == '<') {
            rc = read_tag(x, err);
        } else if (x->path_bytes == 0) { /* white space around the root */
            rc = strchr(" \t\r\n\xef\xbb\xbf", *x->at) && *x->at ? ERR_OK
                                                                 : broken(err, "it is not XML");
            x->at++;
        } else if (*x->at == '&') {
            rc = read_entity(x, err);
        } else {
            rc = add_text(x, x->at++, 1, err);
        }
    }
    if (rc != ERR_OK || x->has_ended)
        return rc;
    if (x->path_bytes > 0 || !x->has_root)
        return broken(err, "it is cut short");
    return err_set(err, ERR_GONE, "there are no more elements");
}
