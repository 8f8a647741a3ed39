#include "cli/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

#define RUN_PREFIX "run." /* then the time */
#define NAME_BYTES 96     /* of a run's folder and a file in it */
#define FILES_MAX  8      /* open at once, to remove a folder */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    (void)remove(path); /* what cannot be removed stays */
    return 0;
}

/* With all that is in it; links are not followed. */
static void remove_folder(const char *path)
{
    (void)nftw(path, remove_entry, FILES_MAX, FTW_DEPTH | FTW_PHYS);
}

/* The folder of all runs. Any user may write to /tmp, so its owner is checked. */
static enum err_code make_parent(char out[static SCRATCH_PATH_BYTES], struct err *err)
{
    const char *place = getenv("TMPDIR");
    struct stat st;

    if ((size_t)snprintf(out, SCRATCH_PATH_BYTES, "%s/skyjob-%lu", place && *place ? place : "/tmp",
                         (unsigned long)geteuid()) >= SCRATCH_PATH_BYTES - NAME_BYTES)
        return err_set(err, ERR_INVALID, "TMPDIR is too long");
    if (mkdir(out, 0700) != 0 && errno != EEXIST)
        return file_error(err, "make the folder", out);
    if (lstat(out, &st) != 0)
        return file_error(err, "stat", out);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        return err_set(err, ERR_INVALID,
                       "%.300s is not a folder that only this user can read: remove it, or set "
                       "TMPDIR to another place",
                       out);
    return ERR_OK;
}

/* Lock a folder; -1 when another process has the lock. */
static int lock_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* Their names begin with the time, so they sort by age. */
static int is_run(const struct dirent *e)
{
    return strncmp(e->d_name, RUN_PREFIX, sizeof RUN_PREFIX - 1) == 0;
}

/* What is in use or cannot be removed stays. */
static void remove_old(const char *parent)
{
    struct dirent **runs = NULL;
    int n = scandir(parent, &runs, is_run, alphasort);

    for (int i = 0; i < n; i++) {
        char path[SCRATCH_PATH_BYTES + sizeof runs[i]->d_name];
        int fd;

        (void)snprintf(path, sizeof path, "%s/%s", parent, runs[i]->d_name);
        free(runs[i]);
        fd = i < n - SCRATCH_KEPT_MAX ? lock_folder(path) : -1;
        if (fd < 0)
            continue;
        remove_folder(path);
        (void)close(fd);
    }
    free(runs);
}

enum err_code scratch_make(struct scratch *out, struct err *err)
{
    char parent[SCRATCH_PATH_BYTES];
    struct scratch s = {.lock = -1};
    struct timespec now = {.tv_sec = 0};
    enum err_code rc = make_parent(parent, err);

    if (rc != ERR_OK)
        return rc;
    remove_old(parent);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)snprintf(s.path, sizeof s.path, "%s/" RUN_PREFIX "%lld.%09ld-XXXXXX", parent,
                   (long long)now.tv_sec, now.tv_nsec);
    if (!mkdtemp(s.path))
        return file_error(err, "make the folder", s.path);
    s.lock = lock_folder(s.path);
    if (s.lock < 0) {
        rc = file_error(err, "lock the folder", s.path);
        (void)rmdir(s.path);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

void scratch_file(const struct scratch *s, char out[static SCRATCH_PATH_BYTES], const char *fmt,
                  ...)
{
    size_t n = (size_t)snprintf(out, SCRATCH_PATH_BYTES, "%s/", s->path);
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(out + n, SCRATCH_PATH_BYTES - n, fmt, args);
    va_end(args);
}

void scratch_end(struct scratch *s, bool is_kept)
{
    if (s->path[0] && !is_kept)
        remove_folder(s->path);
    if (s->path[0] && s->lock >= 0)
        (void)close(s->lock);
    *s = (struct scratch){.lock = -1};
}
