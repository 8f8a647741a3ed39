#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_add(char *text, size_t bytes, const char *fmt, ...)
{
    size_t n = strlen(text);
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text + n, bytes - n, fmt, args);
    va_end(args);
}
