#include "files/store.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "files/manifest.h"
#include "files/name.h"
#include "files/remote.h"

#define SCRATCH_FILE "scratch.XXXXXX" /* has its name only for a moment */

/* --- names --- */

static enum err_code name_path(const struct store *s, struct name name, char out[static PATH_MAX],
                               struct err *err)
{
    char file[NAME_BYTES];

    name_print(name, file);
    return folder_path(s->folder, file, out, err);
}

enum err_code store_folder(const struct store *s, const struct resume_checkpoint *c,
                           char out[static PATH_MAX], struct err *err)
{
    return name_path(s, name_of(c), out, err);
}

/* Also what is named so much like one that no checkpoint needs it. */
bool store_is_manifest(const char *file)
{
    const char *end = strrchr(file, '.');

    return strncmp(file, "model", strlen("model")) == 0 && end && strcmp(end, ".json") == 0;
}

/* The names in the store, the newest first. The caller frees *out, also after an error. */
static enum err_code list_names(const struct store *s, struct name **out, int *out_n,
                                struct err *err)
{
    DIR *dir = opendir(s->folder);
    struct dirent *entry;
    struct name name;
    size_t cap = 0;
    size_t n = 0;
    enum err_code rc = ERR_OK;

    *out = NULL;
    *out_n = 0;
    if (!dir)
        return file_error(err, "open", s->folder);
    while (rc == ERR_OK && (entry = readdir(dir))) {
        if (!name_parse(entry->d_name, &name))
            continue;
        rc = array_reserve(out, sizeof **out, &cap, n + 1, err);
        if (rc == ERR_OK)
            (*out)[n++] = name;
    }
    (void)closedir(dir);
    if (n > 0)
        qsort(*out, n, sizeof **out, name_compare);
    *out_n = (int)n;
    return rc;
}

enum err_code store_open(struct store *s, const char *folder, struct err *err)
{
    struct store own = {.is_own = false};
    char parent[PATH_MAX];
    char above[PATH_MAX];
    enum err_code rc = ERR_OK;

    if (snprintf(own.folder, sizeof own.folder, "%s", folder) >= (int)sizeof own.folder)
        return err_set(err, ERR_INVALID, "path too long: %.80s", folder);
    (void)snprintf(above, sizeof above, "%s", folder);
    (void)snprintf(parent, sizeof parent, "%s", dirname(above));
    (void)snprintf(above, sizeof above, "%s", parent);
    /* Synced, so that a power cut cannot take the whole store away. */
    if (access(parent, F_OK) != 0) {
        rc = folder_make(parent, err);
        if (rc == ERR_OK)
            rc = file_sync_folder(dirname(above), err);
    }
    if (rc == ERR_OK)
        rc = folder_make(folder, err);
    if (rc == ERR_OK)
        rc = file_sync_folder(parent, err);
    if (rc == ERR_OK)
        *s = own;
    return rc;
}

enum err_code store_open_own(struct store *s, const char *folder, struct err *err)
{
    enum err_code rc = store_open(s, folder, err);

    if (rc == ERR_OK)
        s->is_own = true;
    return rc;
}

enum err_code store_open_remote(struct store *s, const char *folder, struct remote *remote,
                                struct err *err)
{
    enum err_code rc = store_open(s, folder, err);

    if (rc == ERR_OK)
        s->remote = remote;
    return rc;
}

/* --- what is there --- */

/* Is the folder this worker's own, with parts of checkpoints? */
static bool has_parts(const struct store *s)
{
    return s->is_own || s->remote;
}

/* A checkpoint as its manifests have it. */
struct checkpoint {
    struct name name;
    char folder[PATH_MAX];
    int n_shards;
    struct manifest *shards; /* [n_shards]: of all stages in order, or in a worker's own store of
                                those that are there, at least one */
};

static void checkpoint_deinit(struct checkpoint *c)
{
    free(c->shards);
    *c = (struct checkpoint){.n_shards = 0};
}

static enum err_code check_size(const char *folder, const char *file, int64_t bytes,
                                struct err *err)
{
    char path[PATH_MAX];
    struct stat st;
    enum err_code rc = folder_path(folder, file, path, err);

    if (rc != ERR_OK)
        return rc;
    if (stat(path, &st) != 0)
        return file_error(err, "stat", path);
    if (!S_ISREG(st.st_mode) || st.st_size != bytes)
        return err_set(err, ERR_INVALID,
                       "%s: has %lld bytes, its manifest says %lld: it is damaged", path,
                       (long long)st.st_size, (long long)bytes);
    return ERR_OK;
}

static enum err_code load_manifest(const char *folder, int stage, int n_stages,
                                   struct manifest *out, struct err *err)
{
    struct buf text = {.max = MANIFEST_TEXT_MAX_BYTES};
    char file[EXPORT_SHARD_BYTES];
    char path[PATH_MAX];
    enum err_code rc;

    name_manifest(stage, n_stages, file);
    rc = folder_path(folder, file, path, err);
    if (rc == ERR_OK)
        rc = file_read(path, &text, err);
    if (rc == ERR_OK) {
        rc = manifest_parse(buf_text(&text), text.len, out, err);
        if (rc != ERR_OK)
            err_wrap(err, rc, "%s", path);
    } else if (rc == ERR_LIMIT) {
        rc = err_set(err, ERR_INVALID, "%s: too long for a manifest: it is damaged", path);
    }
    buf_deinit(&text);
    return rc;
}

/* Is the manifest that of this stage, and do the stage's files go with it? */
static enum err_code check_files(const struct checkpoint *c, const struct manifest *m, int stage,
                                 int n_stages, struct err *err)
{
    const struct store_shard own = {
        .lineage = c->name.lineage, .step = c->name.step, .stage = stage, .n_stages = n_stages};
    const struct resume_checkpoint *at = &m->point.at;
    char shard[EXPORT_SHARD_BYTES];
    enum err_code rc;

    if (!manifest_is_of(m, &own))
        return err_set(err, ERR_INVALID,
                       "%s: the manifest of stage %d is of stage %d of %d at step %lld of lineage "
                       "%lld",
                       c->folder, stage, m->stage, m->n_stages, (long long)at->end.step,
                       (long long)at->lineage);
    if (!manifest_same_point(&m->point, &c->shards[0].point))
        return err_set(err, ERR_INVALID, "%s: the manifests of stages %d and %d do not agree",
                       c->folder, c->shards[0].stage, stage);
    export_shard_name(stage, n_stages, shard);
    rc = check_size(c->folder, shard, m->shard_bytes, err);
    if (rc == ERR_OK && stage == 0)
        rc = check_size(c->folder, HISTORY_FILE, m->history.bytes, err);
    if (rc == ERR_OK && stage == 0)
        rc = check_size(c->folder, PROGRESS_FILE, m->progress.bytes, err);
    return rc;
}

/* Load the checkpoint as one of `n_stages`. */
static enum err_code load_cut(struct checkpoint *c, int n_stages, struct err *err)
{
    enum err_code rc = ERR_OK;
    int first = 0;

    free(c->shards);
    c->n_shards = n_stages;
    c->shards = calloc((size_t)n_stages, sizeof *c->shards);
    if (!c->shards)
        return err_set(err, ERR_NO_MEMORY, "no memory to read the manifests of %s", c->folder);
    for (int i = 0; i < n_stages && rc == ERR_OK; i++) {
        const struct manifest *m = &c->shards[i];

        rc = load_manifest(c->folder, i, n_stages, &c->shards[i], err);
        if (rc == ERR_OK)
            rc = check_files(c, m, i, n_stages, err);
        if (rc == ERR_OK && m->first_unit != first)
            rc = err_set(err, ERR_INVALID, "%s: stage %d begins with unit %d instead of %d",
                         c->folder, i, m->first_unit, first);
        first = m->first_unit + m->n_units;
    }
    return rc;
}

/* Find a cut of which all stages are there: whatever is left of another one does not matter then.
 */
static enum err_code load_complete(struct checkpoint *c, DIR *dir, struct err *err)
{
    enum err_code rc = err_set(err, ERR_NOT_FOUND, "%s: the checkpoint is not complete", c->folder);
    struct dirent *entry;

    while (rc != ERR_OK && (entry = readdir(dir))) {
        struct err why = {.text = ""};
        enum err_code rc_cut;
        int stage, n_stages;

        if (!name_parse_manifest(entry->d_name, &stage, &n_stages) || stage != 0)
            continue;
        rc_cut = load_cut(c, n_stages, &why);
        if (rc_cut == ERR_OK)
            rc = ERR_OK;
        else if (rc_cut != ERR_NOT_FOUND)
            rc = err_set(err, rc_cut, "%s", why.text);
    }
    return rc;
}

/* Load the shards that are there, of whatever cut. The others of a damaged one still count. */
static enum err_code load_parts(struct checkpoint *c, DIR *dir, struct err *err)
{
    enum err_code rc = ERR_OK;
    struct dirent *entry;
    size_t cap = 0;

    while (rc == ERR_OK && (entry = readdir(dir))) {
        struct err why = {.text = ""};
        int stage, n_stages;

        if (!name_parse_manifest(entry->d_name, &stage, &n_stages))
            continue;
        rc = array_reserve(&c->shards, sizeof *c->shards, &cap, (size_t)c->n_shards + 1, err);
        if (rc != ERR_OK)
            break;
        if (c->n_shards < SPEC_STAGES_MAX &&
            load_manifest(c->folder, stage, n_stages, &c->shards[c->n_shards], &why) == ERR_OK &&
            check_files(c, &c->shards[c->n_shards], stage, n_stages, &why) == ERR_OK)
            c->n_shards++;
        else if (why.code != ERR_NOT_FOUND)
            LOG(LOG_WARN, "part of a checkpoint skipped", LOG_S("error", why.text));
    }
    if (rc == ERR_OK && c->n_shards == 0)
        rc = err_set(err, ERR_NOT_FOUND, "%s: nothing of the checkpoint is there", c->folder);
    return rc;
}

/* Load the manifests of a checkpoint. On ERR_OK the caller owns *out: checkpoint_deinit().
 * ERR_NOT_FOUND when it is not complete, or in a worker's own store nothing of it is there;
 * ERR_INVALID when it is damaged. */
static enum err_code load_checkpoint(const struct store *s, struct name name,
                                     struct checkpoint *out, struct err *err)
{
    struct checkpoint c = {.name = name};
    DIR *dir;
    enum err_code rc = name_path(s, name, c.folder, err);

    if (rc != ERR_OK)
        return rc;
    dir = opendir(c.folder);
    if (!dir)
        return file_error(err, "open", c.folder);
    rc = has_parts(s) ? load_parts(&c, dir, err) : load_complete(&c, dir, err);
    (void)closedir(dir);
    if (rc == ERR_OK)
        *out = c;
    else
        checkpoint_deinit(&c);
    return rc;
}

/* The units that are there, as far as there is room to report them. */
static void add_parts(const struct checkpoint *c, struct resume_checkpoint *out)
{
    bool is_there[MODEL_UNITS_MAX] = {false};

    for (int i = 0; i < c->n_shards; i++)
        for (int k = 0; k < c->shards[i].n_units; k++)
            is_there[c->shards[i].first_unit + k] = true;
    for (int unit = 0; unit < MODEL_UNITS_MAX; unit++) {
        struct resume_part *last = out->n_parts > 0 ? &out->parts[out->n_parts - 1] : NULL;

        if (!is_there[unit])
            continue;
        if (last && last->first_unit + last->n_units == unit)
            last->n_units++;
        else if (out->n_parts < RESUME_PARTS_MAX)
            out->parts[out->n_parts++] = (struct resume_part){.first_unit = unit, .n_units = 1};
    }
}

/* Is there such a checkpoint? Damage is logged. */
static bool find_point(const struct store *s, struct name name, struct store_point *out)
{
    struct checkpoint c;
    struct err err = {.text = ""};
    enum err_code rc = load_checkpoint(s, name, &c, &err);

    if (rc == ERR_OK) {
        *out = c.shards[0].point;
        if (has_parts(s))
            add_parts(&c, &out->at);
        checkpoint_deinit(&c);
    } else if (rc != ERR_NOT_FOUND) {
        LOG(LOG_WARN, "checkpoint skipped", LOG_S("error", err.text));
    }
    return rc == ERR_OK;
}

int store_list(const struct store *s, struct store_point *out, int max)
{
    struct err err = {.text = ""};
    struct name *names;
    int n_names;
    int n = 0;

    if (s->remote)
        return remote_list(s->remote, out, max);
    if (list_names(s, &names, &n_names, &err) != ERR_OK)
        LOG(LOG_WARN, "checkpoints cannot be listed", LOG_S("error", err.text));
    for (int i = 0; i < n_names && n < max; i++)
        n += find_point(s, names[i], &out[n]);
    free(names);
    return n;
}

/* --- what goes --- */

/* Manifests first: a checkpoint without one is not complete, whatever else a power cut brings
 * back. */
static enum err_code remove_checkpoint(const struct store *s, struct name name, struct err *err)
{
    struct dirent *entry;
    char folder[PATH_MAX];
    enum err_code rc = name_path(s, name, folder, err);
    DIR *dir = rc == ERR_OK ? opendir(folder) : NULL;

    if (rc == ERR_OK && !dir)
        rc = file_error(err, "open", folder);
    while (rc == ERR_OK && (entry = readdir(dir)))
        if (store_is_manifest(entry->d_name))
            rc = export_remove(folder, entry->d_name, err);
    if (dir)
        (void)closedir(dir);
    if (rc == ERR_OK)
        rc = file_sync_folder(folder, err);
    return rc == ERR_OK ? folder_remove(folder, err) : rc;
}

/* Remove what the rule lets go. */
static void clean(const struct store *s, struct name_rule *rule)
{
    struct err err = {.text = ""};
    struct name *names;
    int n;

    if (list_names(s, &names, &n, &err) != ERR_OK)
        LOG(LOG_WARN, "checkpoints cannot be listed", LOG_S("error", err.text));
    name_choose(names, n, rule);
    for (int i = 0; i < n; i++)
        if (names[i].goes && remove_checkpoint(s, names[i], &err) != ERR_OK)
            LOG(LOG_WARN, "an old checkpoint cannot be removed", LOG_S("error", err.text));
    free(names);
}

static bool find_best(void *ctx, struct name name, struct resume_origin *out_best)
{
    struct store_point point;
    bool is_there = find_point(ctx, name, &point);

    if (is_there)
        *out_best = point.best;
    return is_there;
}

void store_clean(const struct store *s, const struct resume *at, int keep)
{
    struct store own = *s;
    struct name_rule rule = {.at = at, .keep = keep, .find = find_best, .ctx = &own};

    if (s->remote)
        remote_clean(s->remote, at, keep);
    else
        clean(s, &rule);
}

void store_clean_own(const struct store *s, const struct resume *at, int keep, int64_t step)
{
    struct store own = *s;
    struct name_rule rule = {
        .at = at, .keep = keep, .is_own = true, .step_max = step, .find = find_best, .ctx = &own};

    clean(s, &rule);
}

static enum err_code refused_path(const struct store *s, const struct resume_checkpoint *c,
                                  char out[static PATH_MAX], struct err *err)
{
    char path[PATH_MAX];
    enum err_code rc = store_folder(s, c, path, err);

    if (rc == ERR_OK && snprintf(out, PATH_MAX, "%s.refused", path) >= PATH_MAX)
        rc = err_set(err, ERR_INVALID, "path too long: %.80s", path);
    return rc;
}

bool store_is_refused(const struct store *s, const struct resume_checkpoint *c)
{
    char path[PATH_MAX];

    if (s->remote)
        return remote_is_refused(s->remote, c);
    return refused_path(s, c, path, NULL) == ERR_OK && access(path, F_OK) == 0;
}

void store_drop(const struct store *s, const struct resume_checkpoint *c)
{
    struct err err = {.text = ""};
    char from[PATH_MAX];
    char to[PATH_MAX];
    enum err_code rc = name_path(s, name_of(c), from, &err);

    if (rc == ERR_OK && access(from, F_OK) != 0)
        return; /* another worker has set it aside */
    if (rc == ERR_OK)
        rc = refused_path(s, c, to, &err);
    if (rc == ERR_OK) {
        rc = folder_remove(to, &err);
        if (rc == ERR_NOT_FOUND)
            rc = ERR_OK;
    }
    if (rc == ERR_OK && rename(from, to) != 0)
        rc = file_error(&err, "rename to", to);
    if (rc == ERR_OK)
        rc = file_sync_folder(s->folder, &err);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        LOG(LOG_WARN, "a damaged checkpoint cannot be set aside", LOG_S("error", err.text));
}

enum err_code store_fetch(const struct store *s, const struct resume_checkpoint *c,
                          const struct resume_part *units, const atomic_bool *stops,
                          struct err *err)
{
    return s->remote ? remote_fetch(s->remote, s, c, units, stops, err) : ERR_OK;
}

enum err_code store_push(const struct store *s, const struct store_shard *shard,
                         const atomic_bool *stops, struct err *err)
{
    return s->remote ? remote_push(s->remote, s, shard, stops, err) : ERR_OK;
}

void store_refuse(const struct store *s, const struct resume_checkpoint *c)
{
    store_drop(s, c);
    if (s->remote)
        remote_refuse(s->remote, c);
}

/* --- writing --- */

struct store_writer {
    struct export_params params;
    char folder[PATH_MAX];
    struct safetensors_writer shard;
    struct manifest manifest; /* checksums of units are complete up to `unit` */
    int unit;                 /* of the stage: the one whose floats are next */
    size_t left;              /* floats of that unit */
};

/* Floats of a unit in a shard. */
static size_t unit_floats(const struct export_params *p, int unit)
{
    return model_unit_params(p->model, unit) * (size_t)(1 + p->n_moments);
}

/* Remove the manifest that an earlier attempt may have left: it does not go with the shard that is
 * about to come. */
static enum err_code drop_manifest(const char *folder, int stage, int n_stages, struct err *err)
{
    char file[EXPORT_SHARD_BYTES];
    enum err_code rc;

    name_manifest(stage, n_stages, file);
    if (!folder_has(folder, file))
        return ERR_OK;
    rc = export_remove(folder, file, err);
    return rc == ERR_OK ? file_sync_folder(folder, err) : rc;
}

/* A node's kubelet evicts pods when its disk is nearly full, and ours may not be the ones at fault.
 */
static enum err_code check_room(const struct store *s, struct err *err)
{
    struct statvfs disk;

    if (s->spare_percent == 0)
        return ERR_OK;
    if (statvfs(s->folder, &disk) != 0)
        return file_error(err, "look for room in", s->folder);
    if (disk.f_bavail >= disk.f_blocks / 100 * (unsigned)s->spare_percent)
        return ERR_OK;
    return err_set(err, ERR_LIMIT, "%s: %d%% of the disk must stay free, and %d%% is", s->folder,
                   s->spare_percent, (int)(disk.f_bavail / (disk.f_blocks / 100 + 1)));
}

enum err_code store_begin(const struct store *s, const struct store_point *point,
                          const struct export_params *model, int stage, bool has_variance,
                          struct store_writer **out, struct err *err)
{
    const struct plan_home *own = &model->shards[stage];
    struct store_writer *w = calloc(1, sizeof *w);
    enum err_code rc;

    if (!w)
        return err_set(err, ERR_NO_MEMORY, "no memory to write a checkpoint");
    w->params = *model;
    w->params.folder = w->folder;
    w->params.n_moments = has_variance ? 2 : 1;
    w->manifest.point = *point;
    w->manifest.stage = stage;
    w->manifest.n_stages = model->n_shards;
    w->manifest.first_unit = own->first_unit;
    w->manifest.n_units = own->n_units;
    w->left = unit_floats(&w->params, own->first_unit);
    rc = check_room(s, err);
    if (rc == ERR_OK)
        rc = name_path(s, name_of(&point->at), w->folder, err);
    if (rc == ERR_OK)
        rc = export_begin(&w->params, stage, NULL, NULL, &w->shard, err);
    if (rc != ERR_OK) {
        free(w);
        return rc;
    }
    w->manifest.shard_bytes = (int64_t)w->shard.file_bytes;
    w->manifest.header_crc = w->shard.header_crc;
    rc = drop_manifest(w->folder, stage, model->n_shards, err);
    if (rc == ERR_OK)
        rc = file_sync_folder(s->folder, err); /* the folder itself is to survive a power cut */
    if (rc == ERR_OK)
        *out = w;
    else
        store_abandon(w);
    return rc;
}

enum err_code store_put(struct store_writer *w, const float *data, size_t count, struct err *err)
{
    struct manifest *m = &w->manifest;
    enum err_code rc = safetensors_put(&w->shard, data, count, err);

    while (rc == ERR_OK && count > 0) {
        size_t n = count < w->left ? count : w->left;

        m->unit_crcs[w->unit] = crc32c((uint32_t)m->unit_crcs[w->unit], data, n * sizeof *data);
        data += n;
        count -= n;
        w->left -= n;
        if (w->left == 0 && ++w->unit < m->n_units)
            w->left = unit_floats(&w->params, m->first_unit + w->unit);
    }
    return rc;
}

static enum err_code write_file(const struct store_writer *w, const char *file, const char *bytes,
                                size_t n, struct err *err)
{
    char path[PATH_MAX];
    enum err_code rc = folder_path(w->folder, file, path, err);

    return rc == ERR_OK ? file_write(path, bytes, n, err) : rc;
}

static enum err_code write_records(struct store_writer *w, const struct store_records *r,
                                   struct err *err)
{
    enum err_code rc = write_file(w, HISTORY_FILE, r->history, r->n_history, err);

    if (rc == ERR_OK)
        rc = write_file(w, PROGRESS_FILE, r->progress, r->n_progress, err);
    w->manifest.history = (struct manifest_file){.bytes = (int64_t)r->n_history,
                                                 .crc = crc32c(0, r->history, r->n_history)};
    w->manifest.progress = (struct manifest_file){.bytes = (int64_t)r->n_progress,
                                                  .crc = crc32c(0, r->progress, r->n_progress)};
    return rc == ERR_OK ? export_rest(&w->params, err) : rc;
}

static enum err_code write_manifest(const struct store_writer *w, struct err *err)
{
    struct buf text = {.max = MANIFEST_TEXT_MAX_BYTES};
    char file[EXPORT_SHARD_BYTES];
    enum err_code rc = manifest_write(&w->manifest, &text, err);

    name_manifest(w->manifest.stage, w->manifest.n_stages, file);
    if (rc == ERR_OK)
        rc = write_file(w, file, text.data, text.len, err);
    buf_deinit(&text);
    return rc;
}

enum err_code store_finish(struct store_writer *w, const struct store_records *records,
                           struct err *err)
{
    char shard[EXPORT_SHARD_BYTES];
    enum err_code rc = safetensors_finish(&w->shard, err);

    assert((w->manifest.stage == 0) == (records != NULL));
    if (rc == ERR_OK && records)
        rc = write_records(w, records, err);
    if (rc == ERR_OK)
        rc = write_manifest(w, err);
    if (rc != ERR_OK) { /* what cannot be synced is there none the less */
        (void)!drop_manifest(w->folder, w->manifest.stage, w->manifest.n_stages, NULL);
        export_shard_name(w->manifest.stage, w->manifest.n_stages, shard);
        (void)!export_remove(w->folder, shard, NULL);
    }
    free(w);
    return rc;
}

void store_abandon(struct store_writer *w)
{
    if (!w)
        return;
    safetensors_abandon(&w->shard);
    free(w);
}

/* --- copies --- */

enum err_code store_file_path(const struct store *s, const struct store_shard *shard,
                              enum store_file file, char out[static PATH_MAX], struct err *err)
{
    char folder[PATH_MAX];
    char name[EXPORT_SHARD_BYTES];
    enum err_code rc =
        name_path(s, (struct name){.lineage = shard->lineage, .step = shard->step}, folder, err);

    if (rc != ERR_OK)
        return rc;
    if (file == STORE_SHARD)
        export_shard_name(shard->stage, shard->n_stages, name);
    else if (file == STORE_MANIFEST)
        name_manifest(shard->stage, shard->n_stages, name);
    else
        (void)snprintf(name, sizeof name, "%s",
                       file == STORE_HISTORY ? HISTORY_FILE : PROGRESS_FILE);
    return folder_path(folder, name, out, err);
}

struct store_receiver {
    const struct store *store;
    struct store_shard shard;
    char folder[PATH_MAX];
    enum store_file file; /* that is being received ... */
    bool is_open;         /* ... into `writer`, unless it is the manifest, which comes last */
    struct file_writer writer;
    struct buf manifest;
};

enum err_code store_receive_begin(const struct store *s, const struct store_shard *shard,
                                  struct store_receiver **out, struct err *err)
{
    struct store_receiver *r;
    enum err_code rc;

    if (shard->lineage < 1 || shard->step < 1 || shard->n_stages < 1 ||
        shard->n_stages > SPEC_STAGES_MAX || shard->stage < 0 || shard->stage >= shard->n_stages)
        return err_set(err, ERR_INVALID, "shard %d of %d at step %lld of lineage %lld",
                       shard->stage, shard->n_stages, (long long)shard->step,
                       (long long)shard->lineage);
    r = calloc(1, sizeof *r);
    if (!r)
        return err_set(err, ERR_NO_MEMORY, "no memory for the copy of a shard");
    r->store = s;
    r->shard = *shard;
    r->manifest.max = MANIFEST_TEXT_MAX_BYTES;
    rc = check_room(s, err);
    if (rc == ERR_OK)
        rc = name_path(s, (struct name){.lineage = shard->lineage, .step = shard->step}, r->folder,
                       err);
    if (rc == ERR_OK)
        rc = folder_make(r->folder, err);
    if (rc == ERR_OK)
        rc = file_sync_folder(s->folder, err);
    if (rc == ERR_OK)
        rc = drop_manifest(r->folder, shard->stage, shard->n_stages, err);
    if (rc == ERR_OK)
        *out = r;
    else
        store_receive_abandon(r);
    return rc;
}

/* What has been received of a file is all of it. */
static enum err_code end_file(struct store_receiver *r, struct err *err)
{
    bool was_open = r->is_open;

    r->is_open = false;
    return was_open ? file_finish(&r->writer, err) : ERR_OK;
}

enum err_code store_receive(struct store_receiver *r, enum store_file file, const void *bytes,
                            size_t n, struct err *err)
{
    bool is_record = file == STORE_HISTORY || file == STORE_PROGRESS;
    char path[PATH_MAX];
    enum err_code rc = ERR_OK;

    if (file < r->file || file >= N_STORE_FILES || (is_record && r->shard.stage != 0))
        return err_set(err, ERR_INVALID, "file %d of shard %d comes after file %d", (int)file,
                       r->shard.stage, (int)r->file);
    if (file != r->file)
        rc = end_file(r, err);
    r->file = file;
    if (rc == ERR_OK && file == STORE_MANIFEST)
        return buf_add(&r->manifest, bytes, n, err);
    if (rc == ERR_OK && !r->is_open) {
        rc = store_file_path(r->store, &r->shard, file, path, err);
        if (rc == ERR_OK)
            rc = file_begin(&r->writer, path, err);
        r->is_open = rc == ERR_OK;
    }
    return rc == ERR_OK ? file_add(&r->writer, bytes, n, err) : rc;
}

/* Is it the manifest of this shard, whose files are there? */
static enum err_code check_received(const struct store_receiver *r, struct err *err)
{
    struct checkpoint c = {.name = {.lineage = r->shard.lineage, .step = r->shard.step}};
    struct manifest m;
    enum err_code rc = manifest_parse(buf_text(&r->manifest), r->manifest.len, &m, err);

    memcpy(c.folder, r->folder, sizeof c.folder);
    c.shards = &m;
    return rc == ERR_OK ? check_files(&c, &m, r->shard.stage, r->shard.n_stages, err) : rc;
}

enum err_code store_receive_finish(struct store_receiver *r, struct err *err)
{
    char path[PATH_MAX];
    enum err_code rc = end_file(r, err);

    if (rc == ERR_OK)
        rc = check_received(r, err);
    if (rc == ERR_OK)
        rc = store_file_path(r->store, &r->shard, STORE_MANIFEST, path, err);
    if (rc == ERR_OK)
        rc = file_write(path, r->manifest.data, r->manifest.len, err);
    store_receive_abandon(r);
    return rc;
}

void store_receive_abandon(struct store_receiver *r)
{
    if (!r)
        return;
    if (r->is_open)
        file_abandon(&r->writer);
    buf_deinit(&r->manifest);
    free(r);
}

/* --- reading --- */

struct store_reader {
    struct model model;
    int n_moments;
    struct checkpoint at;
    struct safetensors *files[SPEC_STAGES_MAX]; /* [at.n_shards] */
    bool is_own;
};

#define REMEDY "the checkpoint is of another model; give the job a checkpoint folder of its own"

/* The tensor is the next that the model has there. */
static enum err_code check_tensor(const char *file, const struct weight *has,
                                  const struct model_tensor *needed, struct err *err)
{
    struct weight shape = {.n_dims = needed->n_dims, .dims = {needed->dims[0], needed->dims[1]}};
    char has_text[WEIGHT_SHAPE_BYTES];
    char needed_text[WEIGHT_SHAPE_BYTES];

    if (strcmp(has->name, needed->name) != 0)
        return err_set(err, ERR_CONFLICT,
                       "%.160s: has tensor \"%.60s\" where the job's model has \"%.60s\": " REMEDY,
                       file, has->name, needed->name);
    weight_shape(has, has_text);
    weight_shape(&shape, needed_text);
    if (has->type != WEIGHT_F32 || strcmp(has_text, needed_text) != 0)
        return err_set(
            err, ERR_CONFLICT,
            "%.160s: tensor \"%.60s\" is %.4s %.24s, the job's model has F32 %.24s: " REMEDY, file,
            has->name, has->type_name, has_text, needed_text);
    return ERR_OK;
}

/* Does the shard consist of the stage's units, in the model's order? */
static enum err_code check_shard(const struct store_reader *r, int i, struct err *err)
{
    const struct manifest *m = &r->at.shards[i];
    const struct safetensors *shard = r->files[i];
    struct model_tensor tensors[EXPORT_UNIT_TENSORS_MAX];
    char file[EXPORT_SHARD_BYTES];
    char path[PATH_MAX];
    enum err_code rc;
    int next = 0;

    export_shard_name(m->stage, m->n_stages, file);
    rc = folder_path(r->at.folder, file, path, err);
    for (int unit = m->first_unit; unit < m->first_unit + m->n_units; unit++) {
        int n = export_unit_tensors(&r->model, r->n_moments, unit, tensors);

        for (int k = 0; k < n && rc == ERR_OK; k++, next++)
            rc = next < shard->n
                     ? check_tensor(path, &shard->tensors[next], &tensors[k], err)
                     : err_set(err, ERR_CONFLICT, "%.160s: has no tensor \"%.60s\": " REMEDY, path,
                               tensors[k].name);
    }
    if (rc == ERR_OK && next < shard->n)
        rc = err_set(err, ERR_CONFLICT,
                     "%.160s: has tensor \"%.60s\", which the job's model has not: " REMEDY, path,
                     shard->tensors[next].name);
    return rc;
}

static enum err_code open_shards(struct store_reader *r, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (int i = 0; i < r->at.n_shards && rc == ERR_OK; i++) {
        const struct manifest *m = &r->at.shards[i];
        char file[EXPORT_SHARD_BYTES];
        char path[PATH_MAX];

        export_shard_name(m->stage, m->n_stages, file);
        rc = folder_path(r->at.folder, file, path, err);
        if (rc == ERR_OK)
            rc = safetensors_open(path, &r->files[i], err);
        if (rc == ERR_OK && r->files[i]->header_crc != m->header_crc)
            rc = err_set(err, ERR_INVALID,
                         "%s: the header does not have its checksum: it is damaged", path);
    }
    return rc == ERR_LIMIT ? ERR_INVALID : rc; /* we do not write such files */
}

/* Is it a checkpoint of the reader's model and optimizer? */
static enum err_code check_model(const struct store_reader *r, struct err *err)
{
    static const char *const optimizers[] = {[1] = "SGD", [2] = "AdamW"};
    int first_unit = r->at.shards[0].first_unit;
    int n_units = 0; /* up to the last one that is there */
    struct model_tensor tensors[EXPORT_UNIT_TENSORS_MAX];
    const char *variance;
    int n_moments;
    enum err_code rc = ERR_OK;

    for (int i = 0; i < r->at.n_shards; i++) {
        const struct manifest *m = &r->at.shards[i];

        if (m->first_unit + m->n_units > n_units)
            n_units = m->first_unit + m->n_units;
    }
    if (r->is_own ? n_units > model_units(&r->model) : n_units != model_units(&r->model))
        return err_set(err, ERR_CONFLICT, "%.200s: has %d units, the job's model has %d: " REMEDY,
                       r->at.folder, n_units, model_units(&r->model));
    variance = tensors[export_unit_tensors(&r->model, 2, first_unit, tensors) - 1].name;
    n_moments = safetensors_find(r->files[0], variance) ? 2 : 1;
    if (n_moments != r->n_moments)
        return err_set(err, ERR_CONFLICT,
                       "%.200s: is a checkpoint of %s, but the job trains with %s; give the job a "
                       "checkpoint folder of its own",
                       r->at.folder, optimizers[n_moments], optimizers[r->n_moments]);
    for (int i = 0; i < r->at.n_shards && rc == ERR_OK; i++)
        rc = check_shard(r, i, err);
    return rc;
}

enum err_code store_read(const struct store *s, const struct resume_checkpoint *c,
                         const struct model *m, bool has_variance, struct store_reader **out,
                         struct err *err)
{
    struct store_reader *r = calloc(1, sizeof *r);
    enum err_code rc;

    if (!r)
        return err_set(err, ERR_NO_MEMORY, "no memory to read a checkpoint");
    r->model = *m;
    r->n_moments = has_variance ? 2 : 1;
    r->is_own = has_parts(s);
    rc = load_checkpoint(s, name_of(c), &r->at, err);
    if (rc == ERR_OK)
        rc = open_shards(r, err);
    if (rc == ERR_OK)
        rc = check_model(r, err);
    if (rc == ERR_OK)
        *out = r;
    else
        store_close(r);
    return rc;
}

/* The shard that has the unit; -1: it is not in this worker's part. */
static int find_shard(const struct store_reader *r, int unit)
{
    int i = r->at.n_shards - 1;

    while (i >= 0 && (unit < r->at.shards[i].first_unit ||
                      unit >= r->at.shards[i].first_unit + r->at.shards[i].n_units))
        i--;
    return i;
}

static enum err_code not_here(const struct store_reader *r, int unit, struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "%s: unit %d is not there", r->at.folder, unit);
}

enum err_code store_read_unit(const struct store_reader *r, int unit, float *params, float *moment,
                              float *variance, struct err *err)
{
    float *const moments[] = {moment, variance};
    size_t bytes = model_unit_params(&r->model, unit) * sizeof(float);
    int shard = find_shard(r, unit);
    const struct manifest *m = &r->at.shards[shard < 0 ? 0 : shard];
    struct model_tensor tensors[EXPORT_UNIT_TENSORS_MAX];
    int n = export_unit_tensors(&r->model, r->n_moments, unit, tensors);
    uint32_t crc;
    enum err_code rc = ERR_OK;

    if (shard < 0)
        return not_here(r, unit, err);
    for (int i = 0; i < n && rc == ERR_OK; i++) {
        int k = i - (n - r->n_moments); /* among the moments */
        float *place = k < 0 ? params + tensors[i].offset : moments[k];

        rc = weight_read(safetensors_find(r->files[shard], tensors[i].name), place, err);
    }
    if (rc != ERR_OK)
        return rc;
    /* Of what is handed out, so a file that changes meanwhile is noticed too. */
    crc = crc32c(0, params, bytes);
    for (int k = 0; k < r->n_moments; k++)
        crc = crc32c(crc, moments[k], bytes);
    if (crc != m->unit_crcs[unit - m->first_unit])
        return err_set(err, ERR_INVALID,
                       "%s: unit %d does not have its checksum: stage %d's shard is damaged",
                       r->at.folder, unit, m->stage);
    return ERR_OK;
}

/* Map a file of `bytes` that has no name. */
static enum err_code map_scratch(const char *folder, size_t bytes, void **out, struct err *err)
{
    char path[PATH_MAX];
    enum err_code rc = folder_path(folder, SCRATCH_FILE, path, err);
    int fd, rc_room;

    if (rc != ERR_OK)
        return rc;
    fd = mkstemp(path);
    if (fd < 0)
        return file_error(err, "create", path);
    (void)unlink(path);
    rc_room = posix_fallocate(fd, 0, (off_t)bytes); /* a disk that is full later is a SIGBUS */
    *out = rc_room == 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (*out == MAP_FAILED) {
        errno = rc_room != 0 ? rc_room : errno;
        rc = file_error(err, "map", path);
    }
    (void)close(fd);
    return rc;
}

enum err_code store_load_unit(const struct store_reader *r, int unit, struct store_unit *out,
                              struct err *err)
{
    size_t count = model_unit_params(&r->model, unit);
    struct store_unit u = {.bytes = (1 + (size_t)r->n_moments) * count * sizeof(float)};
    void *floats;
    enum err_code rc = map_scratch(r->at.folder, u.bytes, &floats, err);

    if (rc != ERR_OK)
        return rc;
    u.params = floats;
    u.moment = u.params + count;
    u.variance = r->n_moments > 1 ? u.moment + count : NULL;
    rc = store_read_unit(r, unit, u.params, u.moment, u.variance, err);
    if (rc == ERR_OK)
        *out = u;
    else
        store_free_unit(&u);
    return rc;
}

void store_free_unit(struct store_unit *u)
{
    (void)munmap(u->params, u->bytes);
    *u = (struct store_unit){.bytes = 0};
}

static enum err_code read_record(const struct store_reader *r, const char *file,
                                 const struct manifest_file *has, struct buf *out, struct err *err)
{
    size_t before = out->len;
    char path[PATH_MAX];
    enum err_code rc = folder_path(r->at.folder, file, path, err);

    if (rc == ERR_OK)
        rc = file_read(path, out, err);
    if (rc != ERR_OK)
        return rc;
    if ((int64_t)(out->len - before) != has->bytes ||
        crc32c(0, buf_text(out) + before, out->len - before) != has->crc)
        return err_set(err, ERR_INVALID, "%s: does not have its checksum: it is damaged", path);
    return ERR_OK;
}

enum err_code store_read_records(const struct store_reader *r, struct buf *out_history,
                                 struct buf *out_progress, struct err *err)
{
    int shard = find_shard(r, 0);
    const struct manifest *m = &r->at.shards[shard < 0 ? 0 : shard];
    enum err_code rc = shard < 0 ? not_here(r, 0, err)
                                 : read_record(r, HISTORY_FILE, &m->history, out_history, err);

    return rc == ERR_OK ? read_record(r, PROGRESS_FILE, &m->progress, out_progress, err) : rc;
}

void store_close(struct store_reader *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->at.n_shards; i++)
        safetensors_close(r->files[i]);
    checkpoint_deinit(&r->at);
    free(r);
}
