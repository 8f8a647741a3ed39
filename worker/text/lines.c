#include "text/lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "text/chars.h"

#define RUNS 64 /* that a thinned file is read in */

/* How it will be read: madvise() wants a pointer that is not const. */
static void advise(const struct lines *l, int advice)
{
    if (l->map.n > 0)
        (void)madvise((void *)(uintptr_t)l->map.bytes, l->map.n, advice);
}

enum err_code lines_open(const char *path, struct lines *out, struct err *err)
{
    struct lines l = {.path = strdup(path)};
    enum err_code rc = l.path ? mapping_open(path, &l.map, err)
                              : err_set(err, ERR_NO_MEMORY, "no memory to read %s", path);

    if (rc != ERR_OK) {
        lines_close(&l);
        return rc;
    }
    if (l.map.n >= 3 && memcmp(l.map.bytes, "\xef\xbb\xbf", 3) == 0)
        l.next = 3;
    advise(&l, MADV_SEQUENTIAL);
    *out = l;
    return ERR_OK;
}

/* Bytes in front of the line end, or all that may be looked at. A quote counts only where a field
 * begins; within a quoted one, two stand for one. */
static size_t csv_length(const char *text, size_t look)
{
    bool is_start = true; /* of a field */
    bool is_quoted = false;

    for (size_t i = 0; i < look; i++) {
        char c = text[i];

        if (is_quoted && c == '"' && i + 1 < look && text[i + 1] == '"') {
            i++;
        } else if (is_quoted) {
            is_quoted = c != '"';
        } else if (c == '\n') {
            return i;
        } else {
            is_quoted = c == '"' && is_start;
            is_start = c == ',';
        }
    }
    return look;
}

uint64_t lines_at(const struct lines *l, uint64_t offset, const char **out_text, size_t *out_len)
{
    const char *text = (const char *)l->map.bytes + offset;
    size_t left = l->map.n - (size_t)offset;
    size_t look = left < LINES_MAX_BYTES + 2 ? left : LINES_MAX_BYTES + 2;
    const char *end = l->is_quoted ? text + csv_length(text, look) : memchr(text, '\n', look);
    size_t len = end ? (size_t)(end - text) : look;
    bool has_end = len < look;
    size_t next = (size_t)offset + len + has_end;

    if (has_end && len > 0 && text[len - 1] == '\r')
        len--;
    *out_text = text;
    *out_len = len;
    return next;
}

void lines_thin(struct lines *l, size_t most_bytes)
{
    if (most_bytes < l->map.n)
        l->each = (most_bytes + RUNS - 1) / RUNS;
}

/* At the end of a run skip to the first line that begins in the next one. */
static void skip_to_run(struct lines *l)
{
    size_t n = l->map.n;
    size_t begin = n * l->run / RUNS;
    const unsigned char *end;

    if (l->next < begin + l->each)
        return;
    while (l->run < RUNS && l->next >= begin + l->each)
        begin = n * ++l->run / RUNS;
    if (l->next >= begin)
        return;
    end = memchr(l->map.bytes + begin - 1, '\n', n - begin + 1);
    l->next = end ? (size_t)(end - l->map.bytes) + 1 : n;
    l->skipped = true;
}

enum err_code lines_next(struct lines *l, const char **out_text, size_t *out_len, bool *out_end,
                         struct err *err)
{
    const char *text;
    size_t len;
    size_t bad;

    if (l->stops && atomic_load_explicit(l->stops, memory_order_relaxed))
        return err_set(err, ERR_GONE, "%s was not read to its end", l->path);
    l->skipped = false;
    if (l->each > 0)
        skip_to_run(l);
    *out_end = l->next == l->map.n;
    if (*out_end)
        return ERR_OK;
    l->offset = l->next;
    l->number += 1 + l->extra;
    l->next = (size_t)lines_at(l, l->offset, &text, &len);
    if (len > LINES_MAX_BYTES)
        return lines_refuse(l, err, "longer than %zu bytes; is a line end%s missing?",
                            LINES_MAX_BYTES, l->is_quoted ? " or a quote" : "");
    l->extra = 0;
    for (size_t i = 0; l->is_quoted && i < len; i++)
        l->extra += text[i] == '\n';
    bad = chars_check(text, len);
    if (bad < len)
        return lines_refuse(l, err, "byte %zu is not UTF-8; convert the file to UTF-8", bad + 1);
    *out_text = text;
    *out_len = len;
    return ERR_OK;
}

int64_t lines_number(const struct lines *l)
{
    int64_t n = 1;

    if (l->each == 0)
        return l->number;
    for (size_t i = 0; i < l->offset; i++) /* skipped ones count, too */
        n += l->map.bytes[i] == '\n';
    return n;
}

enum err_code lines_refuse(const struct lines *l, struct err *err, const char *fmt, ...)
{
    char why[ERR_TEXT_BYTES];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    return err_set(err, ERR_INVALID, "%s line %lld: %s", l->path, (long long)lines_number(l), why);
}

bool lines_is_blank(const char *text, size_t len)
{
    size_t i = 0;

    while (i < len && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r'))
        i++;
    return i == len;
}

enum err_code lines_changed(const struct lines *l, struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "%s changed since it was checked; do not change it while the job runs", l->path);
}

void lines_settle(const struct lines *l)
{
    advise(l, MADV_RANDOM);
}

void lines_close(struct lines *l)
{
    mapping_close(&l->map);
    free(l->path);
    *l = (struct lines){0};
}
