#include "files/alias.h"

#include <stdio.h>
#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);

    return n >= strlen(end) && strcmp(text + n - strlen(end), end) == 0;
}

/* Put `by` in the place of `end`. */
static bool change_end(char text[static MODEL_NAME_BYTES], const char *end, const char *by)
{
    size_t at = strlen(text) - strlen(end);

    if (!ends_with(text, end))
        return false;
    (void)snprintf(text + at, MODEL_NAME_BYTES - at, "%s", by);
    return true;
}

bool alias_make(const char *name, int i, char out[static MODEL_NAME_BYTES])
{
    enum { OLD_NORM = 1, NO_PREFIX = 2, DECODER = 4 };
    static const char prefix[] = "bert.";
    bool has_prefix = strncmp(name, prefix, strlen(prefix)) == 0;

    if (i & NO_PREFIX && !has_prefix)
        return false;
    (void)snprintf(out, MODEL_NAME_BYTES, "%s", i & NO_PREFIX ? name + strlen(prefix) : name);
    if (i & OLD_NORM)
        return change_end(out, "LayerNorm.weight", "LayerNorm.gamma") ||
               change_end(out, "LayerNorm.bias", "LayerNorm.beta");
    if (i & DECODER)
        return change_end(out, "cls.predictions.bias", "cls.predictions.decoder.bias");
    return true;
}
