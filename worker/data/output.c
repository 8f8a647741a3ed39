#include "data/output.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "data/folder.h"

#define NAME_BYTES 64
/* Besides the weights: vocabulary, configuration, predictions, and what the file system needs. */
#define EXTRA_BYTES(weights) (((int64_t)16 << 20) + (weights) / 20)

static void folder_name(const char *uid, int attempt, char out[static NAME_BYTES])
{
    (void)snprintf(out, NAME_BYTES, ".skyjob-%08x-a%d", (unsigned)hash_text(uid), attempt);
}

/* --- folders of attempts --- */

/* A folder of plain files. What cannot be removed stays: it only takes space. */
static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[PATH_MAX];

    while (dir && (entry = readdir(dir)))
        if (folder_path(folder, entry->d_name, path, NULL) == ERR_OK)
            (void)unlink(path);
    if (dir)
        (void)closedir(dir);
    (void)rmdir(folder);
}

static void remove_earlier_attempts(const struct output_params *p)
{
    DIR *dir = opendir(p->folder);
    struct dirent *entry;
    char prefix[NAME_BYTES];
    size_t n;

    folder_name(p->uid, 0, prefix);
    n = strlen(prefix) - 1; /* without the number of the attempt */
    while (dir && (entry = readdir(dir))) {
        const char *number = entry->d_name + n;
        char path[PATH_MAX];
        char *end;
        long attempt;

        if (strncmp(entry->d_name, prefix, n) != 0)
            continue;
        attempt = strtol(number, &end, 10);
        if (end != number && *end == '\0' && attempt < p->attempt &&
            folder_path(p->folder, entry->d_name, path, NULL) == ERR_OK)
            remove_folder(path);
    }
    if (dir)
        (void)closedir(dir);
}

/* --- the check --- */

static enum err_code check_space(const struct output *o, const struct output_params *p,
                                 struct err *err)
{
    int64_t need = p->bytes + EXTRA_BYTES(p->bytes);
    struct statvfs fs;
    int64_t free_bytes;

    if (statvfs(o->aside, &fs) != 0)
        return file_error(err, "look up the free space of", o->aside);
    if (fs.f_blocks == 0)
        return ERR_OK; /* a file system that does not report its size */
    free_bytes = (int64_t)(fs.f_bavail * fs.f_frsize);
    if (free_bytes >= need)
        return ERR_OK;
    return err_set(err, ERR_LIMIT,
                   "output folder %.200s: %lld MiB are free, %lld MiB are needed; free some space "
                   "or use a larger volume",
                   p->folder, (long long)(free_bytes >> 20), (long long)(need >> 20));
}

static enum err_code check_writing(const struct output *o, int stage, struct err *err)
{
    char name[NAME_BYTES];
    char path[PATH_MAX];
    enum err_code rc;

    (void)snprintf(name, sizeof name, ".check-%d", stage);
    rc = folder_path(o->aside, name, path, err);
    if (rc == ERR_OK)
        rc = file_write(path, "x", 1, err);
    if (rc == ERR_OK && unlink(path) != 0)
        rc = file_error(err, "remove", path);
    return rc;
}

static enum err_code make_folders(struct output *o, const struct output_params *p, struct err *err)
{
    char name[NAME_BYTES];
    enum err_code rc = folder_make(p->folder, err);

    (void)snprintf(o->folder, sizeof o->folder, "%s", p->folder);
    folder_name(p->uid, p->attempt, name);
    if (rc == ERR_OK)
        rc = folder_path(p->folder, name, o->aside, err);
    if (rc == ERR_OK)
        rc = folder_make(o->aside, err);
    return rc;
}

enum err_code output_open(struct output *out, const struct output_params *params, struct err *err)
{
    struct err why = {.text = ""};
    struct output o;
    enum err_code rc = make_folders(&o, params, &why);

    if (rc == ERR_OK)
        rc = check_writing(&o, params->stage, &why);
    if (rc != ERR_OK)
        return err_set(err, rc,
                       "output folder %.100s cannot be written: %.200s; make it writable for user "
                       "%u or choose another one",
                       params->folder, why.text, (unsigned)geteuid());
    remove_earlier_attempts(params);
    rc = check_space(&o, params, err);
    if (rc == ERR_OK)
        *out = o;
    return rc;
}
