/* A folder for the files of one group of tests, removed at its end. */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

__attribute__((unused)) static char scratch[] = "/tmp/skyjob-test-XXXXXX";

/* Good until the next call. */
static inline const char *scratch_path(const char *file)
{
    static char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/%s", scratch, file);
    return path;
}

static inline const char *scratch_write(const char *file, const void *bytes, size_t n)
{
    const char *path = scratch_path(file);

    assert_int_equal(file_write(path, bytes, n, NULL), ERR_OK);
    return path;
}

static inline const char *scratch_text(const char *file, const char *text)
{
    return scratch_write(file, text, strlen(text));
}

static inline int scratch_make(void **state)
{
    (void)state;
    memcpy(scratch + sizeof scratch - 7, "XXXXXX", 6); /* another group may have had one */
    return mkdtemp(scratch) ? 0 : -1;
}

static inline int scratch_remove(void **state)
{
    char command[64];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", scratch);
    return system(command);
}

#endif
