#include "text/chars.h"

#include <string.h>

#include <utf8proc.h>

#define CAPITAL_SIGMA 0x3a3
#define FINAL_SIGMA   0x3c2

bool chars_is_whitespace(int32_t c)
{
    utf8proc_category_t k;

    if (c < 0x80)
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
    k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
}

bool chars_is_control(int32_t c)
{
    utf8proc_category_t k;

    if (c == '\t' || c == '\n' || c == '\r')
        return false;
    k = utf8proc_category(c);
    return c == 0xfffd || k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF;
}

bool chars_is_punctuation(int32_t c)
{
    utf8proc_category_t k;

    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
               (c >= 123 && c <= 126);
    k = utf8proc_category(c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool chars_is_cjk(int32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b820 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

bool chars_is_accent(int32_t c)
{
    return c >= 0x300 && utf8proc_category(c) == UTF8PROC_CATEGORY_MN;
}

size_t chars_decode(const char *text, size_t len, int32_t *out)
{
    utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len, out);

    return n > 0 ? (size_t)n : 0;
}

size_t chars_encode(int32_t c, char *out)
{
    return (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)out);
}

/* Bytes of ASCII at the front, in eights: most text is, and files are checked whole. */
static size_t skip_ascii(const char *text, size_t len)
{
    size_t i = 0;
    uint64_t eight;

    for (; i + sizeof eight <= len; i += sizeof eight) {
        memcpy(&eight, text + i, sizeof eight);
        if (eight & UINT64_C(0x8080808080808080))
            break;
    }
    return i;
}

size_t chars_check(const char *text, size_t len)
{
    size_t i = skip_ascii(text, len);
    size_t n;
    int32_t c;

    while (i < len && (n = chars_decode(text + i, len - i, &c)) > 0) {
        i += n;
        if (n > 1)
            i += skip_ascii(text + i, len - i);
    }
    return i;
}

/* --- the final sigma --- */

/* Unicode's Case_Ignorable: marks, modifiers, and what stands inside words (Word_Break MidLetter,
 * MidNumLet and Single_Quote). What the tokenizer drops is ignored too. */
static bool is_case_ignorable(int32_t c)
{
    static const int32_t inside_words[] = {
        '\'',   '.',    ':',    0xb7,   0x387,  0x55f,  0x5f4,  0x2018, 0x2019,
        0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a,
    };

    for (size_t i = 0; i < sizeof inside_words / sizeof inside_words[0]; i++) {
        if (c == inside_words[i])
            return true;
    }
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        return chars_is_control(c);
    }
}

/* Unicode's Cased, without those that are Case_Ignorable as well. */
static bool is_cased(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
        return true;
    default: /* ordinal signs, Roman numerals, letters in circles and squares */
        return c == 0xaa || c == 0xba || (c >= 0x2160 && c <= 0x217f) ||
               (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
               (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
    }
}

static bool is_cased_before(const char *text, size_t at)
{
    int32_t c = 0;
    size_t end;

    do {
        if (at == 0)
            return false;
        end = at--;
        while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
            at--;
        (void)chars_decode(text + at, end - at, &c);
    } while (is_case_ignorable(c));
    return is_cased(c);
}

static bool is_cased_after(const char *text, size_t len, size_t at)
{
    int32_t c;
    size_t n;

    for (; at < len && (n = chars_decode(text + at, len - at, &c)) > 0; at += n) {
        if (!is_case_ignorable(c))
            return is_cased(c);
    }
    return false;
}

/* --- lower case and NFD --- */

size_t chars_lower(int32_t c, const char *text, size_t len, size_t at,
                   int32_t out[static CHARS_PARTS_MAX])
{
    utf8proc_ssize_t n;
    int last = 0;

    if (c < 0x80) {
        out[0] = c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
        return 1;
    }
    if (c == CAPITAL_SIGMA && is_cased_before(text, at) && !is_cased_after(text, len, at + 2)) {
        out[0] = FINAL_SIGMA;
        return 1;
    }
    n = utf8proc_decompose_char(utf8proc_tolower(c), out, CHARS_PARTS_MAX,
                                UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &last);
    return n > 0 && n <= CHARS_PARTS_MAX ? (size_t)n : 0;
}

static int mark_class(int32_t c)
{
    return c < 0x300 ? 0 : utf8proc_get_property(c)->combining_class;
}

void chars_order(int32_t *chars, size_t n, size_t run_max)
{
    size_t end;

    for (size_t from = 0; from < n; from = end + 1) {
        for (end = from; end < n && mark_class(chars[end]) != 0;)
            end++;
        for (size_t i = from + 1; i < end && end - from <= run_max; i++) {
            int32_t c = chars[i];
            size_t j = i;

            for (; j > from && mark_class(chars[j - 1]) > mark_class(c); j--)
                chars[j] = chars[j - 1];
            chars[j] = c;
        }
    }
}
