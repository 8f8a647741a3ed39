#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum err_code err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    va_list args;

    if (!err)
        return code;
    err->code = code;
    va_start(args, fmt);
    (void)vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    return code;
}

enum err_code err_wrap(struct err *err, enum err_code code, const char *fmt, ...)
{
    char inner[ERR_TEXT_BYTES];
    size_t used;
    va_list args;
    int n;

    if (!err)
        return code;
    memcpy(inner, err->text, sizeof inner);
    va_start(args, fmt);
    n = vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    err->code = code;
    used = n < 0 ? 0 : (size_t)n;
    if (used < sizeof err->text)
        (void)snprintf(err->text + used, sizeof err->text - used, ": %s", inner);
    return code;
}

bool err_is_transient(enum err_code code)
{
    return code == ERR_AGAIN || code == ERR_TIMEOUT || code == ERR_IO || code == ERR_CONFLICT ||
           code == ERR_NO_MEMORY;
}
