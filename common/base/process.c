#include "base/process.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/families.h"
#include "base/file.h"

#define PROC_MAX_BYTES ((size_t)1 << 20) /* /proc/stat has a number for each interrupt */

/* The number after `word`, and after as many more fields as `n_before`, in a file of /proc. */
static enum err_code read_number(const char *path, const char *word, int n_before, int64_t *out,
                                 struct err *err)
{
    struct buf text = {.max = PROC_MAX_BYTES};
    const char *at = NULL;
    char *end = NULL;
    enum err_code rc = file_read(path, &text, err);

    if (rc == ERR_OK)
        at = strstr(buf_text(&text), word);
    if (at)
        at += strlen(word);
    for (int i = 0; at && i < n_before; i++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    if (at)
        *out = strtoll(at, &end, 10);
    if (rc == ERR_OK && (!at || end == at))
        rc = err_set(err, ERR_PROTOCOL, "%s: no number %d after \"%s\"", path, n_before, word);
    buf_deinit(&text);
    return rc;
}

static enum err_code count_fds(int *out, struct err *err)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = -3; /* ".", ".." and the folder's own */

    if (!folder)
        return err_set(err, ERR_IO, "cannot list /proc/self/fd");
    while (readdir(folder))
        n++;
    (void)closedir(folder);
    *out = n;
    return ERR_OK;
}

enum err_code process_read(struct process *out, struct err *err)
{
    struct process p = {.cpu_seconds = (double)clock_cpu_ns() / 1e9};
    int64_t boot_s = 0;
    int64_t start_ticks = 0; /* since the machine was started */
    int64_t pages = 0;
    enum err_code rc = read_number("/proc/stat", "btime ", 0, &boot_s, err);

    if (rc == ERR_OK) /* the 22nd field; the second is in parentheses and may contain blanks */
        rc = read_number("/proc/self/stat", ") ", 19, &start_ticks, err);
    if (rc == ERR_OK)
        rc = read_number("/proc/self/statm", "", 1, &pages, err);
    if (rc == ERR_OK)
        rc = count_fds(&p.n_fds, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "process metrics");
    p.start_seconds = (double)boot_s + (double)start_ticks / (double)sysconf(_SC_CLK_TCK);
    p.resident_bytes = pages * sysconf(_SC_PAGESIZE);
    *out = p;
    return ERR_OK;
}

enum err_code process_write(const struct process *p, struct buf *out, struct err *err)
{
    struct families f = {.out = out, .err = err};

    families_one(&f, "process_cpu_seconds_total", "counter", "CPU time, of user and system.",
                 p->cpu_seconds);
    families_one(&f, "process_resident_memory_bytes", "gauge", "Resident memory.",
                 (double)p->resident_bytes);
    families_one(&f, "process_open_fds", "gauge", "Open file descriptors.", p->n_fds);
    families_one(&f, "process_start_time_seconds", "gauge", "When the process began, since 1970.",
                 p->start_seconds);
    return f.rc;
}
