/* Families in Prometheus' text format, read line by line as Prometheus does. */
#ifndef EXPOSITION_H
#define EXPOSITION_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

#define EXPOSITION_LINES_MAX   200
#define EXPOSITION_LINE_BYTES  200
#define EXPOSITION_NAME_BYTES  64
#define EXPOSITION_NAME_CHARS  "abcdefghijklmnopqrstuvwxyz_"
#define EXPOSITION_LABEL_CHARS EXPOSITION_NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=\"+."

static inline bool exposition_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Is it a sample of the family? */
static inline bool exposition_belongs_to(const char *name, const char *family, const char *type)
{
    size_t n = strlen(family);
    const char *suffix = name + n;

    if (strncmp(name, family, n) != 0)
        return false;
    return strcmp(type, "histogram") != 0
               ? *suffix == '\0'
               : strcmp(suffix, "_bucket") == 0 || strcmp(suffix, "_sum") == 0 ||
                     strcmp(suffix, "_count") == 0;
}

/* "name{label="value"} number": checked, and cut off before the number. */
static inline void exposition_check_sample(char *line, const char *family, const char *type)
{
    char name[EXPOSITION_NAME_BYTES];
    char *blank = strchr(line, ' ');
    char *brace;
    char *end;

    assert_non_null(blank);
    (void)strtod(blank + 1, &end);
    assert_true(end > blank + 1 && *end == '\0');
    *blank = '\0';
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(line, "{"), line);
    if (!exposition_belongs_to(name, family, type))
        fail_msg("%s is among the samples of %s", line, family);
    brace = strchr(line, '{');
    if (brace) {
        assert_int_equal(strspn(brace + 1, EXPOSITION_LABEL_CHARS), strlen(brace) - 2);
        assert_true(exposition_ends_with(brace, "\"}"));
    }
}

static inline void exposition_check_family(const char *name, const char *type)
{
    assert_int_equal(strspn(name, EXPOSITION_NAME_CHARS), strlen(name));
    assert_true(strncmp(name, "skyjob_", 7) == 0 || strncmp(name, "process_", 8) == 0);
    assert_true(strcmp(type, "counter") == 0 || strcmp(type, "gauge") == 0 ||
                strcmp(type, "histogram") == 0);
    assert_int_equal(exposition_ends_with(name, "_total"), strcmp(type, "counter") == 0);
    assert_false(exposition_ends_with(name, "_ms") || exposition_ends_with(name, "_kb"));
}

/* HELP, TYPE, samples; no family and no sample twice. */
static inline void exposition_check(const struct buf *text)
{
    static char lines[EXPOSITION_LINES_MAX][EXPOSITION_LINE_BYTES];
    char family[EXPOSITION_NAME_BYTES] = "", type[EXPOSITION_NAME_BYTES] = "";
    bool has_type = true;
    int n = 0;

    for (const char *at = buf_text(text); *at; at += strcspn(at, "\n") + 1) {
        char *line = lines[n++];
        int used = 0;

        assert_true(n < EXPOSITION_LINES_MAX);
        assert_int_equal(at[strcspn(at, "\n")], '\n');
        assert_true(strcspn(at, "\n") < EXPOSITION_LINE_BYTES);
        (void)snprintf(line, EXPOSITION_LINE_BYTES, "%.*s", (int)strcspn(at, "\n"), at);
        if (sscanf(line, "# HELP %63s %n", family, &used) == 1) {
            assert_true(has_type); /* of the family before */
            assert_true(exposition_ends_with(line, "."));
            has_type = false;
            line[used] = '\0';
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            char name[EXPOSITION_NAME_BYTES];

            assert_false(has_type);
            assert_int_equal(sscanf(line, "# TYPE %63s %63s", name, type), 2);
            assert_string_equal(name, family);
            exposition_check_family(family, type);
            has_type = true;
        } else {
            assert_true(has_type);
            exposition_check_sample(line, family, type);
        }
        for (int i = 0; i < n - 1; i++)
            assert_string_not_equal(lines[i], line);
    }
    assert_true(n > 0 && has_type);
}

#endif
