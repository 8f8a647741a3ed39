#include "files/output.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fields.h"
#include "base/file.h"
#include "base/hash.h"
#include "files/export.h"

#define NAME_BYTES      64
#define CLAIM_FILE      ".skyjob-revision"
#define CLAIM_MAX_BYTES 4096
/* Besides the weights: vocabulary, configuration, predictions, and what the file system needs. */
#define EXTRA_BYTES(weights) (((int64_t)16 << 20) + (weights) / 20)

static void folder_name(const char *uid, int revision, char out[static NAME_BYTES])
{
    (void)snprintf(out, NAME_BYTES, ".skyjob-%08x-r%d", (unsigned)hash_text(uid), revision);
}

/* --- folders of revisions --- */

/* What cannot be removed stays: it only takes space. */
static void remove_earlier_revisions(const struct output *o)
{
    DIR *dir = opendir(o->folder);
    struct dirent *entry;
    char prefix[NAME_BYTES];
    size_t n;

    folder_name(o->uid, 0, prefix);
    n = strlen(prefix) - 1; /* without the number of the revision */
    while (dir && (entry = readdir(dir))) {
        const char *number = entry->d_name + n;
        char path[PATH_MAX];
        char *end;

        if (strncmp(entry->d_name, prefix, n) == 0 && strtol(number, &end, 10) < o->revision &&
            end != number && *end == '\0' &&
            folder_path(o->folder, entry->d_name, path, NULL) == ERR_OK)
            (void)!folder_remove(path, NULL);
    }
    if (dir)
        (void)closedir(dir);
}

/* --- the claim --- */

struct claim {
    char uid[64];
    int revision;
};

static const struct field claim_fields[] = {
    {"uid", FIELD_TEXT, FIELD_AT(struct claim, uid)},
    {"revision", FIELD_INT, FIELD_AT(struct claim, revision)},
    {.kind = FIELD_END},
};

static enum err_code write_claim(const struct output *o, struct err *err)
{
    struct claim claim = {.revision = o->revision};
    struct buf text = {.max = CLAIM_MAX_BYTES};
    char path[PATH_MAX];
    enum err_code rc = folder_path(o->folder, CLAIM_FILE, path, err);

    (void)snprintf(claim.uid, sizeof claim.uid, "%s", o->uid);
    if (rc == ERR_OK)
        rc = fields_print(claim_fields, &claim, &text, err);
    if (rc == ERR_OK)
        rc = file_write(path, text.data, text.len, err);
    buf_deinit(&text);
    return rc;
}

/* What is not a claim leaves *out without a uid. */
static enum err_code read_claim(const struct output *o, struct claim *out, struct err *err)
{
    struct json *json = NULL;
    enum err_code rc = folder_json(o->folder, CLAIM_FILE, &json, err);

    *out = (struct claim){.revision = 0};
    if (rc == ERR_OK)
        rc = fields_read(claim_fields, json, FIELDS_TOLERANT, "", out, err);
    json_free(json);
    return rc;
}

enum err_code output_find_claim(const struct output *o, struct err *err)
{
    struct claim claim;

    if (read_claim(o, &claim, err) == ERR_OK && strcmp(claim.uid, o->uid) == 0 &&
        claim.revision >= o->revision)
        return ERR_OK;
    return err_set(
        err, ERR_AGAIN,
        "output folder %.200s is not the one that stage 0 writes to; all stages need the "
        "same volume (ReadWriteMany)",
        o->folder);
}

/* ERR_CONFLICT when a newer revision of the job has claimed the folder, or another job, which began
 * later if this one has left its claim before (`is_ours`). */
static enum err_code check_claim(const struct output *o, bool is_ours, struct err *err)
{
    struct claim claim;
    enum err_code rc = read_claim(o, &claim, err);
    bool is_same = strcmp(claim.uid, o->uid) == 0;

    if (rc == ERR_NOT_FOUND || rc == ERR_INVALID)
        return ERR_OK;
    if (rc == ERR_OK && is_same && claim.revision > o->revision)
        return err_set(
            err, ERR_CONFLICT,
            "revision %d of this job has taken over output folder %.200s from revision %d",
            claim.revision, o->folder, o->revision);
    if (rc == ERR_OK && is_ours && !is_same)
        return err_set(err, ERR_CONFLICT, "another job (%.63s) now uses output folder %.200s",
                       claim.uid, o->folder);
    return rc;
}

/* --- the check --- */

static enum err_code check_space(const struct output *o, int64_t bytes, struct err *err)
{
    int64_t need = bytes + EXTRA_BYTES(bytes);
    struct statvfs fs;
    int64_t free_bytes;

    if (statvfs(o->folder, &fs) != 0)
        return file_error(err, "look up the free space of", o->folder);
    free_bytes = (int64_t)(fs.f_bavail * fs.f_frsize);
    if (fs.f_blocks == 0 || free_bytes >= need) /* some file systems do not report their size */
        return ERR_OK;
    return err_set(err, ERR_LIMIT,
                   "output folder %.200s: %lld MiB are free, %lld MiB are needed; free some space "
                   "or use a larger volume",
                   o->folder, (long long)(free_bytes / MIB), (long long)(need / MIB));
}

static enum err_code check_writing(const struct output *o, int stage, struct err *err)
{
    char name[NAME_BYTES];
    char path[PATH_MAX];
    enum err_code rc = folder_make(o->folder, err);

    (void)snprintf(name, sizeof name, ".skyjob-check-%08x-%d", (unsigned)hash_text(o->uid), stage);
    if (rc == ERR_OK)
        rc = folder_path(o->folder, name, path, err);
    if (rc == ERR_OK)
        rc = file_write(path, "x", 1, err);
    if (rc == ERR_OK && unlink(path) != 0)
        rc = file_error(err, "remove", path);
    return rc;
}

enum err_code output_open(struct output *o, int stage, int64_t bytes, struct err *err)
{
    struct err why = {.text = ""};
    char name[NAME_BYTES];
    enum err_code rc = check_writing(o, stage, &why);

    folder_name(o->uid, o->revision, name);
    if (rc == ERR_OK)
        rc = folder_path(o->folder, name, o->aside, &why);
    if (rc != ERR_OK)
        return err_set(err, rc,
                       "output folder %.100s cannot be written: %.200s; make it writable for user "
                       "%u or choose another one",
                       o->folder, why.text, (unsigned)geteuid());
    rc = check_claim(o, false, err);
    if (rc == ERR_OK && stage == 0)
        rc = write_claim(o, err);
    remove_earlier_revisions(o);
    return rc == ERR_OK ? check_space(o, bytes, err) : rc;
}

/* --- publishing --- */

static enum err_code move_file(const struct output *o, const char *file, struct err *err)
{
    char from[PATH_MAX];
    char to[PATH_MAX];
    enum err_code rc = folder_path(o->aside, file, from, err);

    if (rc == ERR_OK)
        rc = folder_path(o->folder, file, to, err);
    if (rc == ERR_OK && rename(from, to) != 0)
        rc = file_error(err, "rename to", to);
    return rc;
}

/* Names are collected first: reading a folder that changes may skip some. */
static enum err_code move_all_but(const struct output *o, const char *last, struct err *err)
{
    struct dirent **entries;
    int n = scandir(o->aside, &entries, NULL, alphasort);
    enum err_code rc = n >= 0 ? ERR_OK : file_error(err, "open", o->aside);

    for (int i = 0; i < n; i++) {
        const char *file = entries[i]->d_name;
        const char *end = strrchr(file, '.');
        bool is_unfinished = file[0] == '.' || (end && strcmp(end, ".part") == 0);

        if (rc == ERR_OK && !is_unfinished && strcmp(file, last) != 0)
            rc = move_file(o, file, err);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return rc;
}

/* Shards of an older model with other stages. No index names them and they only take space, so what
 * cannot be removed stays. */
static void remove_stale_shards(const struct output *o, int n_stages)
{
    DIR *dir = opendir(o->folder);
    struct dirent *entry;
    char name[EXPORT_SHARD_BYTES];
    int i;
    int n;

    while (dir && (entry = readdir(dir))) {
        if (sscanf(entry->d_name, "model-%d-of-%d.safetensors", &i, &n) != 2 || i < 1 || n < 1 ||
            (n == n_stages && n > 1))
            continue;
        (void)snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", i, n);
        if (strcmp(name, entry->d_name) == 0)
            (void)!export_remove(o->folder, name, NULL);
    }
    if (dir)
        (void)closedir(dir);
}

enum err_code output_publish(struct output *o, int n_stages, struct err *err)
{
    /* What loaders open first: a model that has it is complete. */
    const char *entry = n_stages > 1 ? EXPORT_INDEX_FILE : EXPORT_WHOLE_FILE;
    enum err_code rc = check_claim(o, true, err);

    for (int s = 0; s <= n_stages && rc == ERR_OK && !o->is_complete; s++) {
        char file[EXPORT_SHARD_BYTES];

        (void)snprintf(file, sizeof file, "%s", entry);
        if (s > 0)
            export_shard_name(s - 1, n_stages, file);
        if (!folder_has(o->aside, file))
            rc = err_set(err, ERR_NOT_FOUND, "%s/%s is missing", o->aside, file);
    }
    if (rc != ERR_OK)
        return rc;
    o->is_complete = true;
    if (folder_has(o->aside, entry)) { /* not yet, if it is called again */
        rc = export_remove(o->folder, EXPORT_INDEX_FILE, err);
        if (rc == ERR_OK)
            rc = export_remove(o->folder, EXPORT_WHOLE_FILE, err);
        /* Synced between the steps, so that a power cut keeps their order. */
        if (rc == ERR_OK)
            rc = file_sync_folder(o->folder, err);
        if (rc == ERR_OK)
            rc = move_all_but(o, entry, err);
        if (rc == ERR_OK)
            rc = file_sync_folder(o->folder, err);
        if (rc == ERR_OK)
            rc = move_file(o, entry, err);
    }
    if (rc == ERR_OK)
        rc = file_sync_folder(o->folder, err);
    if (rc != ERR_OK)
        return rc;
    remove_stale_shards(o, n_stages);
    (void)!folder_remove(o->aside, NULL);
    return ERR_OK;
}
