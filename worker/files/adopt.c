#include "files/adopt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

#define UID_CHARS   5 /* of names_checkpoints() */
#define PIECE_BYTES ((size_t)1 << 16)
#define NAMES_SHOWN 200

/* --- which folder --- */

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Both exist. */
static bool is_same_folder(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool has_checkpoint(const char *folder)
{
    struct store_point point;
    struct store s = {.folder = ""};

    (void)snprintf(s.folder, sizeof s.folder, "%s", folder);
    return store_list(&s, &point, 1) > 0;
}

/* "job-0b7d3", for "job". */
static bool is_of_job(const char *name, const char *job)
{
    size_t n = strlen(job);

    return strncmp(name, job, n) == 0 && name[n] == '-' && strlen(name) == n + 1 + UID_CHARS &&
           !strchr(name + n + 1, '-');
}

/* Look through the folders beside `path`. */
static enum err_code find_beside(const char *path, const char *own, char out[static PATH_MAX],
                                 struct err *err)
{
    char parent_text[PATH_MAX], name_text[PATH_MAX];
    char found[PATH_MAX];
    char names[NAMES_SHOWN] = "";
    const char *parent, *job;
    struct dirent *entry;
    enum err_code rc = ERR_OK;
    int n = 0;
    DIR *dir;

    (void)snprintf(parent_text, sizeof parent_text, "%s", path);
    (void)snprintf(name_text, sizeof name_text, "%s", path);
    parent = dirname(parent_text);
    job = basename(name_text);
    dir = opendir(parent);
    while (dir && rc == ERR_OK && (entry = readdir(dir))) {
        if (!is_of_job(entry->d_name, job))
            continue;
        rc = folder_path(parent, entry->d_name, found, err);
        if (rc != ERR_OK || is_same_folder(found, own) || !has_checkpoint(found))
            continue;
        text_add(names, sizeof names, "%s%s", n++ > 0 ? ", " : "", entry->d_name);
        memcpy(out, found, PATH_MAX);
    }
    if (dir)
        (void)closedir(dir);
    if (rc == ERR_OK && n == 0)
        rc = err_set(err, ERR_NOT_FOUND, "%s: has no checkpoints of a job %s", parent, job);
    if (rc == ERR_OK && n > 1)
        rc = err_set(err, ERR_INVALID,
                     "%s: has checkpoints of several jobs of this name, of which one must be "
                     "named: %s",
                     parent, names);
    return rc;
}

enum err_code adopt_find(const char *path, const char *own, char out[static PATH_MAX],
                         struct err *err)
{
    if (!is_folder(path))
        return find_beside(path, own, out, err);
    if (is_same_folder(path, own))
        return err_set(err, ERR_INVALID, "%s: is where this job itself keeps its checkpoints",
                       path);
    if (snprintf(out, PATH_MAX, "%s", path) >= PATH_MAX)
        return err_set(err, ERR_INVALID, "path too long: %.80s", path);
    return ERR_OK;
}

/* --- files --- */

/* Beside it first, where no other worker writes. */
static enum err_code copy_file(const char *from, const char *to, int slot, struct err *err)
{
    struct file_writer w;
    char aside[PATH_MAX];
    char piece[PIECE_BYTES];
    ssize_t n = 0;
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    enum err_code rc;

    if (fd < 0)
        return file_error(err, "open", from);
    rc = snprintf(aside, sizeof aside, "%s.w%d", to, slot) < (int)sizeof aside
             ? file_begin(&w, aside, err)
             : err_set(err, ERR_INVALID, "path too long: %.80s", to);
    if (rc != ERR_OK) {
        (void)close(fd);
        return rc;
    }
    while (rc == ERR_OK && (n = read(fd, piece, sizeof piece)) > 0)
        rc = file_add(&w, piece, (size_t)n, err);
    if (rc == ERR_OK && n < 0)
        rc = file_error(err, "read", from);
    (void)close(fd);
    if (rc != ERR_OK) {
        file_abandon(&w);
        return rc;
    }
    rc = file_finish(&w, err);
    return rc == ERR_OK && rename(aside, to) != 0 ? file_error(err, "rename to", to) : rc;
}

static enum err_code take_file(const char *from, const char *to, int slot, struct err *err)
{
    if (link(from, to) == 0 || errno == EEXIST)
        return ERR_OK;
    if (errno == ENOENT)
        return file_error(err, "link", from);
    return copy_file(from, to, slot, err); /* other file systems, and those without links */
}

/* Manifests, or all that comes before them (store.h). */
static enum err_code take_files(const char *from, const char *to, bool are_manifests, int slot,
                                struct err *err)
{
    DIR *dir = opendir(from);
    struct dirent *entry;
    enum err_code rc = ERR_OK;

    if (!dir)
        return file_error(err, "open", from);
    while (rc == ERR_OK && (entry = readdir(dir))) {
        char a[PATH_MAX], b[PATH_MAX];

        if (entry->d_name[0] == '.' || store_is_manifest(entry->d_name) != are_manifests)
            continue;
        rc = folder_path(from, entry->d_name, a, err);
        if (rc == ERR_OK)
            rc = folder_path(to, entry->d_name, b, err);
        if (rc == ERR_OK)
            rc = take_file(a, b, slot, err);
    }
    (void)closedir(dir);
    return rc == ERR_OK ? file_sync_folder(to, err) : rc;
}

/* --- checkpoints --- */

static enum err_code check_job(const char *folder, const struct store_point *point,
                               const struct identity *here, struct err *err)
{
    char fields[ERR_TEXT_BYTES] = "";

    if (!identity_differs(&point->identity, here, fields, sizeof fields))
        return ERR_OK;
    return err_set(err, ERR_CONFLICT, "%.80s: cannot go on from these checkpoints: %s", folder,
                   fields);
}

/* Can it be read as one of a job like `spec`? */
static enum err_code check(const struct store *from, const struct store_point *point,
                           const struct spec *spec, struct err *err)
{
    struct store_reader *reader = NULL;
    struct identity here;
    enum err_code rc;

    identity_of(spec, &here);
    rc = check_job(from->folder, point, &here, err);
    if (rc == ERR_OK)
        rc = store_read(from, &point->at, &spec->model,
                        spec->training.optimizer == SPEC_OPTIMIZER_ADAMW, &reader, err);
    store_close(reader);
    return rc;
}

static enum err_code take(const struct store *own, const struct store *from,
                          const struct resume_checkpoint *c, int slot, struct err *err)
{
    char a[PATH_MAX], b[PATH_MAX];
    enum err_code rc = store_folder(from, c, a, err);

    if (rc == ERR_OK)
        rc = store_folder(own, c, b, err);
    if (rc == ERR_OK)
        rc = folder_make(b, err);
    if (rc == ERR_OK)
        rc = file_sync_folder(own->folder, err);
    if (rc == ERR_OK)
        rc = take_files(a, b, false, slot, err);
    return rc == ERR_OK ? take_files(a, b, true, slot, err) : rc;
}

enum err_code adopt_checkpoints(const struct store *own, const char *from, const struct spec *spec,
                                int slot, struct err *err)
{
    struct store other = {.is_own = false};
    struct store_point points[RESUME_POINTS_MAX];
    int n;

    if (store_list(own, points, 1) > 0)
        return ERR_OK;
    (void)snprintf(other.folder, sizeof other.folder, "%s", from);
    n = store_list(&other, points, RESUME_POINTS_MAX);
    for (int i = 0; i < n; i++) {
        struct err why = {.text = ""};
        enum err_code rc = check(&other, &points[i], spec, &why);

        if (rc == ERR_OK && store_is_refused(own, &points[i].at))
            continue;
        if (rc == ERR_OK)
            rc = take(own, &other, &points[i].at, slot, &why);
        if (rc == ERR_INVALID || rc == ERR_NOT_FOUND) /* damaged, or removed meanwhile */
            LOG(LOG_WARN, "checkpoint not taken over", LOG_S("error", why.text));
        else if (rc != ERR_OK)
            return err_set(err, rc, "%s", why.text);
    }
    n = store_list(own, points, 1);
    if (n == 0)
        return err_set(err, ERR_NOT_FOUND, "%.160s: has no complete checkpoint that can be used",
                       from);
    LOG(LOG_INFO, "goes on from the checkpoints of another job", LOG_S("folder", from),
        LOG_I("step", points[0].at.end.step));
    return ERR_OK;
}
