#include "cluster/quantity.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 30

/* Multiplier of a suffix; 0 when there is no such suffix. */
static long double scale_of(const char *suffix)
{
    static const struct {
        const char *text;
        long double scale;
    } known[] = {
        {"", 1},
        {"n", 1e-9L},
        {"u", 1e-6L},
        {"m", 1e-3L},
        {"k", 1e3L},
        {"M", 1e6L},
        {"G", 1e9L},
        {"T", 1e12L},
        {"P", 1e15L},
        {"E", 1e18L},
        {"Ki", 1024.0L},
        {"Mi", 1048576.0L},
        {"Gi", 1073741824.0L},
        {"Ti", 1099511627776.0L},
        {"Pi", 1125899906842624.0L},
        {"Ei", 1152921504606846976.0L},
    };
    char *end;
    long exponent;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].text, suffix) == 0)
            return known[i].scale;
    if ((suffix[0] != 'e' && suffix[0] != 'E') || suffix[1] == '\0' || isspace(suffix[1]))
        return 0;
    exponent = strtol(suffix + 1, &end, 10);
    return *end == '\0' && exponent >= -9 && exponent <= 18 ? powl(10, (long double)exponent) : 0;
}

static enum err_code read_scaled(const char *text, long double factor, int64_t *out,
                                 struct err *err)
{
    size_t n = strspn(text, "0123456789.");
    char digits[DIGITS_MAX + 1];
    long double scale;
    long double value;
    char *end;

    if (n == 0 || n > DIGITS_MAX)
        return err_set(err, ERR_INVALID, "\"%.40s\" is not a quantity", text);
    memcpy(digits, text, n);
    digits[n] = '\0';
    value = strtold(digits, &end);
    scale = scale_of(text + n);
    if (*end != '\0' || scale == 0 || strpbrk(digits, "0123456789") == NULL)
        return err_set(err, ERR_INVALID, "\"%.40s\" is not a quantity", text);
    /* The nudge keeps 0.1 * 1000 from becoming 101; it is below the smallest amount, 1n. */
    value = ceill(value * scale * factor - 1e-12L);
    if (value > 9.2e18L)
        return err_set(err, ERR_LIMIT, "\"%.40s\" is too large", text);
    *out = (int64_t)value;
    return ERR_OK;
}

enum err_code quantity_milli(const char *text, int64_t *out_milli, struct err *err)
{
    return read_scaled(text, 1000, out_milli, err);
}

enum err_code quantity_units(const char *text, int64_t *out_units, struct err *err)
{
    return read_scaled(text, 1, out_units, err);
}

int64_t quantity_read(const struct json *v, bool is_milli)
{
    char number[32];
    const char *text = json_string(v, "0");
    int64_t n = 0;
    enum err_code rc;

    if (json_kind_of(v) == JSON_NUMBER) {
        (void)snprintf(number, sizeof number, "%.15g", json_double(v, 0));
        text = number;
    }
    rc = is_milli ? quantity_milli(text, &n, NULL) : quantity_units(text, &n, NULL);
    return rc == ERR_OK ? n : 0;
}
