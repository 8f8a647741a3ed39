#include "cli/markup.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

#define TEXT_BYTES 1024

void markup_init(struct markup *m, struct buf *out)
{
    *m = (struct markup){.out = out};
}

static void add(struct markup *m, const char *bytes, size_t n)
{
    if (m->err.code == ERR_OK)
        m->err.code = buf_add(m->out, bytes, n, &m->err);
}

void markup_add(struct markup *m, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    /* Markup that is cut off would be broken. */
    if (n < 0 || (size_t)n >= sizeof text)
        (void)(m->err.code == ERR_OK && err_set(&m->err, ERR_LIMIT, "a tag of %d bytes", n));
    else
        add(m, text, (size_t)n);
}

static const char *entity(unsigned char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return (c < ' ' && c != '\n' && c != '\t') || c == 0x7f ? " " : NULL;
    }
}

void markup_text(struct markup *m, const char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        size_t n = utf8_step(text, left);
        const char *instead = n == 0 ? "\xef\xbf\xbd" : entity((unsigned char)*text);

        n = n == 0 ? 1 : n;
        if (instead)
            add(m, instead, strlen(instead));
        else
            add(m, text, n);
        text += n;
        left -= n;
    }
}

void markup_textf(struct markup *m, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    markup_text(m, text);
}

enum err_code markup_finish(struct markup *m, struct err *err)
{
    if (m->err.code == ERR_OK)
        return ERR_OK;
    return err_set(err, m->err.code, "%s", m->err.text);
}
