#include "base/utf8.h"

#include <stdint.h>

size_t utf8_step(const char *text, size_t left)
{
    const unsigned char *s = (const unsigned char *)text;
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code;
    size_t n;

    if (s[0] < 0x80)
        return 1;
    n = s[0] >= 0xf0 && s[0] < 0xf8 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;
    if (n == 0 || n > left || s[0] >= 0xf8)
        return 0;
    code = s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = (code << 6) | (s[i] & 0x3fu);
    }
    if (code < lowest[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    return n;
}
