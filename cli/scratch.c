#include "cli/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define RUN_PREFIX "run-"

/* It has only files; folders in it are left. */
static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);

    if (folder) {
        for (struct dirent *e = readdir(folder); e; e = readdir(folder))
            (void)unlinkat(dirfd(folder), e->d_name, 0);
        (void)closedir(folder);
    }
    (void)rmdir(path);
}

/* The folder of all runs. Any user may write to /tmp, so its owner is checked. */
static enum err_code make_parent(char out[static SCRATCH_PATH_BYTES], struct err *err)
{
    const char *place = getenv("TMPDIR");
    struct stat st;

    if ((size_t)snprintf(out, SCRATCH_PATH_BYTES, "%s/skyjob-%lu", place && *place ? place : "/tmp",
                         (unsigned long)geteuid()) >= SCRATCH_PATH_BYTES - sizeof "/run-XXXXXX")
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

/* --- old ones --- */

struct old_run {
    char name[32];
    struct timespec at;
};

static int compare_age(const void *a, const void *b) /* the newest first */
{
    const struct timespec *x = &((const struct old_run *)a)->at;
    const struct timespec *y = &((const struct old_run *)b)->at;

    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? 1 : -1;
    return (x->tv_nsec < y->tv_nsec) - (x->tv_nsec > y->tv_nsec);
}

static struct old_run *list_runs(DIR *folder, size_t *out_n)
{
    struct old_run *runs = NULL;
    size_t n = 0;

    for (struct dirent *e = readdir(folder); e; e = readdir(folder)) {
        struct old_run *more;
        struct stat st;

        if (strncmp(e->d_name, RUN_PREFIX, sizeof RUN_PREFIX - 1) != 0 ||
            strlen(e->d_name) >= sizeof runs->name ||
            fstatat(dirfd(folder), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        more = realloc(runs, (n + 1) * sizeof *runs);
        if (!more)
            break;
        runs = more;
        (void)snprintf(runs[n].name, sizeof runs[n].name, "%s", e->d_name);
        runs[n++].at = st.st_mtim;
    }
    *out_n = n;
    return runs;
}

/* What cannot be removed stays. */
static void remove_old(const char *parent)
{
    DIR *folder = opendir(parent);
    struct old_run *runs = NULL;
    size_t n = 0;

    if (folder)
        runs = list_runs(folder, &n);
    if (runs)
        qsort(runs, n, sizeof *runs, compare_age);
    for (size_t i = SCRATCH_KEPT_MAX; i < n; i++) {
        char path[SCRATCH_PATH_BYTES + sizeof runs->name];
        int fd;

        (void)snprintf(path, sizeof path, "%s/%s", parent, runs[i].name);
        fd = lock_folder(path);
        if (fd < 0)
            continue; /* in use */
        remove_folder(path);
        (void)close(fd);
    }
    free(runs);
    if (folder)
        (void)closedir(folder);
}

enum err_code scratch_make(struct scratch *out, struct err *err)
{
    char parent[SCRATCH_PATH_BYTES];
    struct scratch s = {.lock = -1};
    enum err_code rc = make_parent(parent, err);

    if (rc != ERR_OK)
        return rc;
    remove_old(parent);
    (void)snprintf(s.path, sizeof s.path, "%.490s/" RUN_PREFIX "XXXXXX", parent);
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

void scratch_end(struct scratch *s, bool is_kept)
{
    if (s->path[0] && !is_kept)
        remove_folder(s->path);
    if (s->path[0] && s->lock >= 0)
        (void)close(s->lock);
    *s = (struct scratch){.lock = -1};
}
