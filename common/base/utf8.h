/* base/utf8.h - is this UTF-8? As Unicode has it: no overlong forms, no surrogates, no code point
 * above U+10FFFF. Layer: base. Threads: any; pure.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* Bytes of the character at text[0], `left` > 0 of them at most; 0 when they are not UTF-8. */
size_t utf8_step(const char *text, size_t left);

#endif
