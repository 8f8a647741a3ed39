#include "text/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "text/chars.h"

#define RUNS 64 /* that a thinned file is read in */

struct lines {
    char *path;
    char *data; /* the file, mapped; NULL when it is empty */
    size_t n;
    size_t from;    /* the line that was read last begins here ... */
    size_t to;      /* ... and the next one here */
    int64_t number; /* of the line that was read last */
    int64_t extra;  /* line ends within it */
    bool is_quoted; /* see lines_quote() */
    size_t each;    /* bytes of a run; 0: not thinned */
    size_t run;
    bool skipped;
};

static enum err_code map(struct lines *l, int fd, struct err *err)
{
    struct stat st;
    void *data;

    if (fstat(fd, &st) != 0)
        return file_error(err, "look at", l->path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_IO, "%s is not a file", l->path);
    if (st.st_size == 0)
        return ERR_OK;
    data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return file_error(err, "map", l->path);
    l->data = data;
    l->n = (size_t)st.st_size;
    (void)madvise(data, l->n, MADV_SEQUENTIAL);
    return ERR_OK;
}

enum err_code lines_open(const char *path, struct lines **out, struct err *err)
{
    struct lines *l = calloc(1, sizeof *l);
    enum err_code rc;
    int fd;

    if (!l || !(l->path = strdup(path))) {
        free(l);
        return err_set(err, ERR_NO_MEMORY, "no memory to read %s", path);
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not block */
    rc = fd < 0 ? file_error(err, "open", path) : map(l, fd, err);
    if (fd >= 0)
        close(fd);
    if (rc != ERR_OK) {
        lines_close(l);
        return rc;
    }
    if (l->n >= 3 && memcmp(l->data, "\xef\xbb\xbf", 3) == 0)
        l->to = 3;
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

static size_t line_length(const char *text, size_t look)
{
    const char *end = memchr(text, '\n', look);

    return end ? (size_t)(end - text) : look;
}

uint64_t lines_at(const struct lines *l, uint64_t offset, const char **out_text, size_t *out_len)
{
    const char *text = l->data + offset;
    size_t left = l->n - (size_t)offset;
    size_t look = left < LINES_MAX_BYTES + 2 ? left : LINES_MAX_BYTES + 2;
    size_t len = l->is_quoted ? csv_length(text, look) : line_length(text, look);
    bool has_end = len < look;
    size_t next = (size_t)offset + len + has_end;

    if (has_end && len > 0 && text[len - 1] == '\r')
        len--;
    *out_text = text;
    *out_len = len;
    return next;
}

void lines_quote(struct lines *l)
{
    l->is_quoted = true;
}

void lines_thin(struct lines *l, size_t most_bytes)
{
    if (most_bytes < l->n)
        l->each = (most_bytes + RUNS - 1) / RUNS;
}

/* From behind the lines that begin in a run to the first one that begins in the next. */
static void leave_out(struct lines *l)
{
    size_t begin = l->n * l->run / RUNS;
    const char *end;

    if (l->to < begin + l->each)
        return;
    while (l->run < RUNS && l->to >= begin + l->each)
        begin = l->n * ++l->run / RUNS;
    if (l->to >= begin)
        return;
    end = memchr(l->data + begin - 1, '\n', l->n - begin + 1);
    l->to = end ? (size_t)(end - l->data) + 1 : l->n;
    l->skipped = true;
}

enum err_code lines_next(struct lines *l, const char **out_text, size_t *out_len, bool *out_end,
                         struct err *err)
{
    const char *text;
    size_t len;
    size_t bad;

    l->skipped = false;
    if (l->each > 0)
        leave_out(l);
    *out_end = l->to == l->n;
    if (*out_end)
        return ERR_OK;
    l->from = l->to;
    l->number += 1 + l->extra;
    l->to = (size_t)lines_at(l, l->from, &text, &len);
    if (len > LINES_MAX_BYTES)
        return err_set(err, ERR_INVALID,
                       "%s line %lld: longer than %zu bytes; is a line end%s missing?", l->path,
                       (long long)lines_number(l), LINES_MAX_BYTES,
                       l->is_quoted ? " or a quote" : "");
    l->extra = 0;
    for (size_t i = 0; l->is_quoted && i < len; i++)
        l->extra += text[i] == '\n';
    bad = chars_check(text, len);
    if (bad < len)
        return err_set(err, ERR_INVALID,
                       "%s line %lld: byte %zu is not UTF-8; convert the file to UTF-8", l->path,
                       (long long)lines_number(l), bad + 1);
    *out_text = text;
    *out_len = len;
    return ERR_OK;
}

bool lines_skipped(const struct lines *l)
{
    return l->skipped;
}

int64_t lines_number(const struct lines *l)
{
    int64_t n = 1;

    if (l->each == 0)
        return l->number;
    for (size_t i = 0; i < l->from; i++) /* those that were left out count, too */
        n += l->data[i] == '\n';
    return n;
}

uint64_t lines_offset(const struct lines *l)
{
    return l->from;
}

const char *lines_path(const struct lines *l)
{
    return l->path;
}

void lines_settle(const struct lines *l)
{
    if (l->data)
        (void)madvise(l->data, l->n, MADV_RANDOM);
}

void lines_close(struct lines *l)
{
    if (!l)
        return;
    if (l->data)
        (void)munmap(l->data, l->n);
    free(l->path);
    free(l);
}
