#include "data/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/chars.h"

struct lines {
    int fd;
    bool at_end; /* of the file; what is in `data` is all that is left */
    int64_t number;
    size_t from; /* data[from .. to) is not handed out yet */
    size_t to;
    char *path;
    char data[LINES_MAX_BYTES + 2]; /* the longest line and its line end */
};

static enum err_code refill(struct lines *l, struct err *err)
{
    ssize_t n;

    memmove(l->data, l->data + l->from, l->to - l->from);
    l->to -= l->from;
    l->from = 0;
    do
        n = read(l->fd, l->data + l->to, sizeof l->data - l->to);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return file_error(err, "read", l->path);
    l->at_end = n == 0;
    l->to += (size_t)n;
    return ERR_OK;
}

enum err_code lines_open(const char *path, struct lines **out, struct err *err)
{
    struct lines *l = malloc(sizeof *l);
    enum err_code rc;

    if (!l)
        return err_set(err, ERR_NO_MEMORY, "no memory to read %s", path);
    l->at_end = false;
    l->number = 0;
    l->from = l->to = 0;
    l->path = strdup(path);
    l->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (l->fd < 0)
        rc = file_error(err, "open", path);
    else if (!l->path)
        rc = err_set(err, ERR_NO_MEMORY, "no memory to read %s", path);
    else
        rc = refill(l, err);
    if (rc != ERR_OK) {
        lines_close(l);
        return rc;
    }
    if (l->to >= 3 && memcmp(l->data, "\xef\xbb\xbf", 3) == 0)
        l->from = 3;
    *out = l;
    return ERR_OK;
}

enum err_code lines_next(struct lines *l, const char **out_text, size_t *out_len, bool *out_end,
                         struct err *err)
{
    const char *text;
    const char *end;
    size_t len;
    size_t bad;
    enum err_code rc;

    while (!(end = memchr(l->data + l->from, '\n', l->to - l->from)) && !l->at_end) {
        if (l->to - l->from > LINES_MAX_BYTES)
            break;
        rc = refill(l, err);
        if (rc != ERR_OK)
            return rc;
    }
    text = l->data + l->from;
    len = end ? (size_t)(end - text) : l->to - l->from;
    *out_end = !end && len == 0;
    if (*out_end)
        return ERR_OK;
    l->number++;
    l->from += end ? len + 1 : len;
    if (end && len > 0 && text[len - 1] == '\r')
        len--;
    if (len > LINES_MAX_BYTES)
        return err_set(err, ERR_INVALID,
                       "%s line %lld: longer than %zu bytes; is a line end missing?", l->path,
                       (long long)l->number, LINES_MAX_BYTES);
    bad = chars_check(text, len);
    if (bad < len)
        return err_set(err, ERR_INVALID,
                       "%s line %lld: byte %zu is not UTF-8; convert the file to UTF-8", l->path,
                       (long long)l->number, bad + 1);
    *out_text = text;
    *out_len = len;
    return ERR_OK;
}

int64_t lines_number(const struct lines *l)
{
    return l->number;
}

const char *lines_path(const struct lines *l)
{
    return l->path;
}

void lines_close(struct lines *l)
{
    if (!l)
        return;
    if (l->fd >= 0)
        close(l->fd);
    free(l->path);
    free(l);
}
