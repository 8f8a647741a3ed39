#include "files/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "files/manifest.h"
#include "files/name.h"

#define REFUSED_FILE        "refused"
#define KEY_BYTES           (NAME_BYTES + EXPORT_SHARD_BYTES)
#define LIST_TRIES          4 /* where an older listing would do */
#define LIST_DEADLINE_MS    5000
#define HEADER_LENGTH_BYTES 8 /* in front of the header of a shard */

struct object {
    struct name name;
    char file[EXPORT_SHARD_BYTES];
    char etag[HTTP_ETAG_BYTES];
    int64_t bytes;
};

/* What the bucket has, by name. */
struct listing {
    struct object *objects;
    size_t n, cap;
};

/* A manifest that was read. */
struct known {
    char etag[HTTP_ETAG_BYTES];
    struct manifest manifest;
};

struct remote {
    struct s3 *s3;
    struct listing listing; /* the last one that succeeded */
    struct map manifests;   /* by "<name>/<file>": struct known */
};

static void make_key(struct name name, const char *file, char out[static KEY_BYTES])
{
    char folder[NAME_BYTES];

    name_print(name, folder);
    (void)snprintf(out, KEY_BYTES, "%s/%.*s", folder, EXPORT_SHARD_BYTES - 1, file);
}

/* --- the listing --- */

/* Objects that are no checkpoint's are passed over. */
static enum err_code add_object(void *ctx, const struct s3_object *found, struct err *err)
{
    struct listing *l = ctx;
    struct object o = {.bytes = found->bytes};
    const char *slash = strchr(found->key, '/');
    char folder[NAME_BYTES];
    enum err_code rc;

    if (!slash || slash - found->key >= NAME_BYTES || strlen(slash + 1) >= sizeof o.file ||
        strlen(found->etag) >= sizeof o.etag)
        return ERR_OK;
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - found->key), found->key);
    if (!name_parse(folder, &o.name))
        return ERR_OK;
    (void)snprintf(o.file, sizeof o.file, "%s", slash + 1);
    (void)snprintf(o.etag, sizeof o.etag, "%s", found->etag);
    rc = array_reserve(&l->objects, sizeof *l->objects, &l->cap, l->n + 1, err);
    if (rc == ERR_OK)
        l->objects[l->n++] = o;
    return rc;
}

static int compare_objects(const void *a, const void *b)
{
    const struct object *x = a;
    const struct object *y = b;
    int order = name_compare(&x->name, &y->name);

    return order != 0 ? order : strcmp(x->file, y->file);
}

static enum err_code list_objects(struct remote *r, struct err *err)
{
    struct listing l = {.n = 0};
    enum err_code rc = s3_list(r->s3, add_object, &l, err);

    if (rc != ERR_OK) {
        free(l.objects);
        return rc;
    }
    if (l.n > 0)
        qsort(l.objects, l.n, sizeof *l.objects, compare_objects);
    free(r->listing.objects);
    r->listing = l;
    return ERR_OK;
}

/* With little patience: an older listing stands when there is no new one. */
static void refresh(struct remote *r)
{
    struct err err = {.text = ""};

    s3_stop_at(r->s3, NULL);
    s3_set_patience(r->s3, LIST_TRIES, LIST_DEADLINE_MS);
    if (list_objects(r, &err) != ERR_OK)
        LOG(LOG_WARN, "checkpoints cannot be listed", LOG_S("error", err.text));
}

/* For what has to succeed; calls end early once *stops is true, unless it is NULL. */
static void be_patient(struct remote *r, const atomic_bool *stops)
{
    s3_stop_at(r->s3, stops);
    s3_set_patience(r->s3, S3_TRIES, S3_DEADLINE_MS);
}

static const struct object *find_object(const struct remote *r, struct name name, const char *file)
{
    struct object key = {.name = name};

    (void)snprintf(key.file, sizeof key.file, "%s", file);
    return r->listing.n == 0
               ? NULL
               : bsearch(&key, r->listing.objects, r->listing.n, sizeof key, compare_objects);
}

/* The names in the listing, the newest first. The caller frees *out, also after an error. */
static enum err_code list_names(const struct remote *r, struct name **out, int *out_n,
                                struct err *err)
{
    const struct listing *l = &r->listing;
    enum err_code rc = ERR_OK;
    size_t cap = 0;
    size_t n = 0;

    *out = NULL;
    for (size_t i = 0; i < l->n && rc == ERR_OK; i++) {
        if (n > 0 && name_compare(&(*out)[n - 1], &l->objects[i].name) == 0)
            continue;
        rc = array_reserve(out, sizeof **out, &cap, n + 1, err);
        if (rc == ERR_OK)
            (*out)[n++] = l->objects[i].name;
    }
    *out_n = (int)n;
    return rc;
}

/* --- what is there --- */

struct checkpoint {
    int n_shards;
    const struct manifest *shards[SPEC_STAGES_MAX]; /* of all stages in order; borrowed */
};

static enum err_code read_manifest(struct remote *r, const struct object *o, struct manifest *out,
                                   struct err *err)
{
    struct buf text = {.max = MANIFEST_TEXT_MAX_BYTES};
    char key[KEY_BYTES];
    enum err_code rc;

    make_key(o->name, o->file, key);
    if (o->bytes > (int64_t)MANIFEST_TEXT_MAX_BYTES)
        return err_set(err, ERR_INVALID, "%s: too long for a manifest: it is damaged", key);
    rc = s3_get(r->s3, key, 0, (size_t)o->bytes, &text, err);
    if (rc == ERR_OK) {
        rc = manifest_parse(buf_text(&text), text.len, out, err);
        if (rc != ERR_OK)
            err_wrap(err, rc, "%s", key);
    }
    buf_deinit(&text);
    return rc;
}

/* Get a manifest, read now or before; ERR_NOT_FOUND when it is not in the listing. Borrowed until
 * the next listing. */
static enum err_code get_manifest(struct remote *r, struct name name, int stage, int n_stages,
                                  const struct manifest **out, struct err *err)
{
    char file[EXPORT_SHARD_BYTES];
    char key[KEY_BYTES];
    const struct object *o;
    struct known *known;
    enum err_code rc;

    name_manifest(stage, n_stages, file);
    make_key(name, file, key);
    o = find_object(r, name, file);
    if (!o)
        return err_set(err, ERR_NOT_FOUND, "%s is not in the bucket", key);
    known = map_get(&r->manifests, key);
    if (known && strcmp(known->etag, o->etag) == 0) {
        *out = &known->manifest;
        return ERR_OK;
    }
    free(map_take(&r->manifests, key));
    known = calloc(1, sizeof *known);
    if (!known)
        return err_set(err, ERR_NO_MEMORY, "no memory for a manifest");
    rc = read_manifest(r, o, &known->manifest, err);
    (void)snprintf(known->etag, sizeof known->etag, "%s", o->etag);
    if (rc == ERR_OK)
        rc = map_put(&r->manifests, key, known, err);
    if (rc == ERR_OK)
        *out = &known->manifest;
    else
        free(known);
    return rc;
}

/* Remember no manifests of checkpoints that are gone. */
static void forget_manifests(struct remote *r)
{
    const char *key;
    size_t place = 0;
    struct known *known;

    while ((known = map_next(&r->manifests, &place, &key))) {
        const char *slash = strchr(key, '/');
        char folder[NAME_BYTES];
        struct name name;

        (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - key), key);
        if (name_parse(folder, &name) && find_object(r, name, slash + 1))
            continue;
        (void)map_take(&r->manifests, key);
        free(known);
    }
}

/* Is the file beside the manifest, with the size that it says? */
static enum err_code check_size(const struct remote *r, struct name name, const char *file,
                                int64_t bytes, struct err *err)
{
    const struct object *o = find_object(r, name, file);
    char key[KEY_BYTES];

    make_key(name, file, key);
    if (!o)
        return err_set(err, ERR_NOT_FOUND, "%s is not in the bucket", key);
    if (o->bytes != bytes)
        return err_set(err, ERR_INVALID,
                       "%s: has %lld bytes, its manifest says %lld: it is damaged", key,
                       (long long)o->bytes, (long long)bytes);
    return ERR_OK;
}

static enum err_code check_stage(const struct remote *r, struct name name,
                                 const struct checkpoint *c, int stage, int first_unit,
                                 struct err *err)
{
    const struct manifest *m = c->shards[stage];
    const struct store_shard own = {
        .lineage = name.lineage, .step = name.step, .stage = stage, .n_stages = c->n_shards};
    char file[EXPORT_SHARD_BYTES];
    enum err_code rc;

    if (!manifest_is_of(m, &own) || m->first_unit != first_unit ||
        !manifest_same_point(&m->point, &c->shards[0]->point))
        return err_set(
            err, ERR_INVALID,
            "checkpoint %lld-%lld: the manifest of stage %d of %d is that of another, or "
            "does not agree with the others",
            (long long)name.lineage, (long long)name.step, stage, c->n_shards);
    export_shard_name(stage, c->n_shards, file);
    rc = check_size(r, name, file, m->shard_bytes, err);
    if (rc == ERR_OK && stage == 0)
        rc = check_size(r, name, HISTORY_FILE, m->history.bytes, err);
    if (rc == ERR_OK && stage == 0)
        rc = check_size(r, name, PROGRESS_FILE, m->progress.bytes, err);
    return rc;
}

/* Load the checkpoint as one of `n_stages`. */
static enum err_code load_cut(struct remote *r, struct name name, int n_stages,
                              struct checkpoint *out, struct err *err)
{
    struct checkpoint c = {.n_shards = n_stages};
    enum err_code rc = ERR_OK;
    int first = 0;

    for (int i = 0; i < n_stages && rc == ERR_OK; i++) {
        rc = get_manifest(r, name, i, n_stages, &c.shards[i], err);
        if (rc == ERR_OK)
            rc = check_stage(r, name, &c, i, first, err);
        if (rc == ERR_OK)
            first += c.shards[i]->n_units;
    }
    if (rc == ERR_OK)
        *out = c;
    return rc;
}

/* Load the manifests of a checkpoint, which stay the remote's. ERR_NOT_FOUND when it is not
 * complete or was refused; ERR_INVALID when it is damaged. */
static enum err_code load_checkpoint(struct remote *r, struct name name, struct checkpoint *out,
                                     struct err *err)
{
    enum err_code rc = err_set(err, ERR_NOT_FOUND, "checkpoint %lld-%lld is not complete",
                               (long long)name.lineage, (long long)name.step);

    if (find_object(r, name, REFUSED_FILE))
        return rc;
    for (size_t i = 0; i < r->listing.n && rc != ERR_OK; i++) {
        const struct object *o = &r->listing.objects[i];
        struct err why = {.text = ""};
        enum err_code rc_cut;
        int stage, n_stages;

        if (name_compare(&o->name, &name) != 0 ||
            !name_parse_manifest(o->file, &stage, &n_stages) || stage != 0)
            continue;
        rc_cut = load_cut(r, name, n_stages, out, &why);
        if (rc_cut == ERR_OK)
            rc = ERR_OK;
        else if (rc_cut != ERR_NOT_FOUND)
            rc = err_set(err, rc_cut, "%s", why.text);
    }
    return rc;
}

/* Is there such a checkpoint? Damage is logged. */
static bool find_point(struct remote *r, struct name name, struct store_point *out)
{
    struct checkpoint c;
    struct err err = {.text = ""};
    enum err_code rc = load_checkpoint(r, name, &c, &err);

    if (rc == ERR_OK)
        *out = c.shards[0]->point;
    else if (rc != ERR_NOT_FOUND)
        LOG(LOG_WARN, "checkpoint skipped", LOG_S("error", err.text));
    return rc == ERR_OK;
}

int remote_list(struct remote *r, struct store_point *out, int max)
{
    struct err err = {.text = ""};
    struct name *names;
    int n_names;
    int n = 0;

    refresh(r);
    forget_manifests(r);
    if (list_names(r, &names, &n_names, &err) != ERR_OK)
        LOG(LOG_WARN, "checkpoints cannot be listed", LOG_S("error", err.text));
    for (int i = 0; i < n_names && n < max; i++)
        n += find_point(r, names[i], &out[n]);
    free(names);
    return n;
}

/* Read the manifests that will be reported: one that cannot be read now must not look like one that
 * is not there. */
static enum err_code read_newest(struct remote *r, struct err *err)
{
    struct name *names;
    int n;
    enum err_code rc = list_names(r, &names, &n, err);

    for (int i = 0; i < n && i < RESUME_POINTS_MAX && !err_is_transient(rc); i++) {
        struct checkpoint c;

        rc = load_checkpoint(r, names[i], &c, err);
    }
    free(names);
    return err_is_transient(rc) || rc == ERR_NO_MEMORY ? rc : ERR_OK;
}

enum err_code remote_open(const struct s3_access *access, struct remote **out, struct err *err)
{
    struct remote *r = calloc(1, sizeof *r);
    enum err_code rc;

    if (!r)
        return err_set(err, ERR_NO_MEMORY, "no memory for a store");
    rc = s3_new(access, &r->s3, err);
    if (rc == ERR_OK)
        rc = list_objects(r, err);
    if (rc == ERR_OK)
        rc = read_newest(r, err);
    if (rc == ERR_OK)
        *out = r;
    else
        remote_close(r);
    return rc;
}

void remote_close(struct remote *r)
{
    size_t place = 0;
    struct known *known;

    if (!r)
        return;
    while ((known = map_next(&r->manifests, &place, NULL)))
        free(known);
    map_deinit(&r->manifests);
    free(r->listing.objects);
    s3_free(r->s3);
    free(r);
}

/* --- what goes --- */

static enum err_code delete_file(struct remote *r, const struct object *o, struct err *err)
{
    char key[KEY_BYTES];

    make_key(o->name, o->file, key);
    return s3_delete(r->s3, key, err);
}

/* Manifests first, and the mark of one that was refused last: it is never taken for complete. */
static enum err_code remove_checkpoint(struct remote *r, struct name name, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < r->listing.n && rc == ERR_OK; i++) {
            const struct object *o = &r->listing.objects[i];
            int turn = store_is_manifest(o->file) ? 0 : strcmp(o->file, REFUSED_FILE) == 0 ? 2 : 1;

            if (name_compare(&o->name, &name) == 0 && turn == round)
                rc = delete_file(r, o, err);
        }
    return rc;
}

static bool find_best(void *ctx, struct name name, struct resume_origin *out_best)
{
    struct store_point point;
    bool is_there = find_point(ctx, name, &point);

    if (is_there)
        *out_best = point.best;
    return is_there;
}

void remote_clean(struct remote *r, const struct resume *at, int keep)
{
    const struct name_rule rule = {.at = at, .keep = keep, .find = find_best, .ctx = r};
    struct err err = {.text = ""};
    struct name *names;
    int n;

    refresh(r);
    if (list_names(r, &names, &n, &err) != ERR_OK)
        LOG(LOG_WARN, "checkpoints cannot be listed", LOG_S("error", err.text));
    name_choose(names, n, &rule);
    for (int i = 0; i < n; i++)
        if (names[i].goes && remove_checkpoint(r, names[i], &err) != ERR_OK)
            LOG(LOG_WARN, "an old checkpoint cannot be removed", LOG_S("error", err.text));
    free(names);
}

void remote_refuse(struct remote *r, const struct resume_checkpoint *c)
{
    struct err err = {.text = ""};
    char key[KEY_BYTES];

    make_key(name_of(c), REFUSED_FILE, key);
    be_patient(r, NULL);
    if (s3_put(r->s3, key, "", 0, &err) != ERR_OK)
        LOG(LOG_WARN, "a damaged checkpoint cannot be set aside", LOG_S("error", err.text));
}

bool remote_is_refused(const struct remote *r, const struct resume_checkpoint *c)
{
    return find_object(r, name_of(c), REFUSED_FILE) != NULL;
}

/* --- there --- */

static enum err_code push_file(struct remote *r, const char *folder, struct name name,
                               const char *file, struct err *err)
{
    char path[PATH_MAX];
    char key[KEY_BYTES];
    enum err_code rc = folder_path(folder, file, path, err);

    make_key(name, file, key);
    return rc == ERR_OK ? s3_put_file(r->s3, key, path, err) : rc;
}

/* The leader's: its records, and what makes a model of the checkpoint. */
static enum err_code push_rest(struct remote *r, const char *folder, struct name name,
                               struct err *err)
{
    static const char *const files[] = {HISTORY_FILE, PROGRESS_FILE, "config.json",
                                        "tokenizer_config.json", EXPORT_INDEX_FILE};
    enum err_code rc = ERR_OK;

    for (size_t i = 0; i < sizeof files / sizeof *files && rc == ERR_OK; i++)
        if (folder_has(folder, files[i]))
            rc = push_file(r, folder, name, files[i], err);
    return rc;
}

enum err_code remote_push(struct remote *r, const struct store *s, const struct store_shard *shard,
                          const atomic_bool *stops, struct err *err)
{
    const struct name name = {.lineage = shard->lineage, .step = shard->step};
    char folder[PATH_MAX];
    char shard_file[EXPORT_SHARD_BYTES];
    char manifest[EXPORT_SHARD_BYTES];
    char text[NAME_BYTES];
    char key[KEY_BYTES];
    enum err_code rc;

    name_print(name, text);
    export_shard_name(shard->stage, shard->n_stages, shard_file);
    name_manifest(shard->stage, shard->n_stages, manifest);
    make_key(name, manifest, key);
    be_patient(r, stops);
    rc = folder_path(s->folder, text, folder, err);
    if (rc == ERR_OK) /* one that an earlier attempt has left does not go with this shard */
        rc = s3_delete(r->s3, key, err);
    if (rc == ERR_OK)
        rc = push_file(r, folder, name, shard_file, err);
    if (rc == ERR_OK && shard->stage == 0)
        rc = push_rest(r, folder, name, err);
    if (rc == ERR_OK)
        rc = push_file(r, folder, name, manifest, err);
    s3_stop_at(r->s3, NULL);
    return rc;
}

/* --- and back --- */

/* Does the folder have the shard of this manifest, with all that goes with it? */
static bool is_here(const struct store *s, const struct store_shard *shard,
                    const struct manifest *m)
{
    struct buf text = {.max = MANIFEST_TEXT_MAX_BYTES};
    char path[PATH_MAX];
    struct manifest own = {.crc = -1};
    bool is_same = store_file_path(s, shard, STORE_MANIFEST, path, NULL) == ERR_OK &&
                   file_read(path, &text, NULL) == ERR_OK &&
                   manifest_parse(buf_text(&text), text.len, &own, NULL) == ERR_OK &&
                   own.crc == m->crc;

    buf_deinit(&text);
    return is_same && store_file_path(s, shard, STORE_SHARD, path, NULL) == ERR_OK &&
           access(path, F_OK) == 0;
}

/* Receive one of the shard's files, piece by piece. */
static enum err_code fetch_file(struct remote *r, struct store_receiver *to, struct name name,
                                enum store_file file, const char *as, int64_t bytes,
                                struct err *err)
{
    struct buf piece = {.max = S3_PIECE_BYTES};
    char key[KEY_BYTES];
    enum err_code rc = ERR_OK;

    make_key(name, as, key);
    if (bytes == 0)
        rc = store_receive(to, file, "", 0, err);
    for (int64_t at = 0; rc == ERR_OK && at < bytes; at += (int64_t)S3_PIECE_BYTES) {
        size_t n = bytes - at < (int64_t)S3_PIECE_BYTES ? (size_t)(bytes - at) : S3_PIECE_BYTES;

        buf_reset(&piece);
        rc = s3_get(r->s3, key, at, n, &piece, err);
        if (rc == ERR_OK)
            rc = store_receive(to, file, piece.data, n, err);
    }
    buf_deinit(&piece);
    return rc;
}

static enum err_code fetch_shard(struct remote *r, const struct store *s,
                                 const struct store_shard *shard, const struct manifest *m,
                                 struct err *err)
{
    const struct name name = {.lineage = shard->lineage, .step = shard->step};
    struct store_receiver *to = NULL;
    const struct object *manifest;
    char file[EXPORT_SHARD_BYTES];
    enum err_code rc = store_receive_begin(s, shard, &to, err);

    if (rc != ERR_OK)
        return rc;
    export_shard_name(shard->stage, shard->n_stages, file);
    rc = fetch_file(r, to, name, STORE_SHARD, file, m->shard_bytes, err);
    if (rc == ERR_OK && shard->stage == 0)
        rc = fetch_file(r, to, name, STORE_HISTORY, HISTORY_FILE, m->history.bytes, err);
    if (rc == ERR_OK && shard->stage == 0)
        rc = fetch_file(r, to, name, STORE_PROGRESS, PROGRESS_FILE, m->progress.bytes, err);
    name_manifest(shard->stage, shard->n_stages, file);
    manifest = find_object(r, name, file);
    if (rc == ERR_OK && !manifest)
        rc = err_set(err, ERR_NOT_FOUND, "%s is gone", file);
    if (rc == ERR_OK)
        rc = fetch_file(r, to, name, STORE_MANIFEST, file, manifest->bytes, err);
    if (rc == ERR_OK)
        return store_receive_finish(to, err);
    store_receive_abandon(to);
    return rc;
}

enum err_code remote_fetch(struct remote *r, const struct store *s,
                           const struct resume_checkpoint *c, const struct resume_part *units,
                           const atomic_bool *stops, struct err *err)
{
    struct checkpoint from;
    enum err_code rc;

    be_patient(r, stops);
    rc = load_checkpoint(r, name_of(c), &from, err);
    for (int i = 0; rc == ERR_OK && i < from.n_shards; i++) {
        const struct manifest *m = from.shards[i];
        const struct store_shard shard = {
            .lineage = c->lineage, .step = c->end.step, .stage = m->stage, .n_stages = m->n_stages};

        if (m->first_unit >= units->first_unit + units->n_units ||
            units->first_unit >= m->first_unit + m->n_units || is_here(s, &shard, m))
            continue;
        rc = fetch_shard(r, s, &shard, m, err);
        if (rc == ERR_OK)
            LOG(LOG_INFO, "shard fetched", LOG_I("lineage", c->lineage), LOG_I("step", c->end.step),
                LOG_I("stage", m->stage), LOG_I("bytes", m->shard_bytes));
    }
    s3_stop_at(r->s3, NULL);
    return rc;
}

/* --- from one job to another --- */

/* Get what is in front of a shard's data. A length that cannot be is a damaged file's. */
static enum err_code get_header(struct remote *r, const char *key, const struct manifest *m,
                                struct buf *out, struct err *err)
{
    uint8_t length[HEADER_LENGTH_BYTES];
    uint64_t n = 0;
    enum err_code rc = m->shard_bytes < HEADER_LENGTH_BYTES
                           ? ERR_OK
                           : s3_get(r->s3, key, 0, HEADER_LENGTH_BYTES, out, err);

    if (rc != ERR_OK)
        return rc;
    if (out->len == sizeof length) {
        memcpy(length, out->data, sizeof length);
        for (int i = HEADER_LENGTH_BYTES - 1; i >= 0; i--)
            n = n << 8 | length[i];
    }
    if (n == 0 || n > S3_PIECE_BYTES - HEADER_LENGTH_BYTES ||
        n > (uint64_t)m->shard_bytes - HEADER_LENGTH_BYTES)
        return err_set(err, ERR_INVALID, "%s: has no header: it is damaged", key);
    return s3_get(r->s3, key, HEADER_LENGTH_BYTES, (size_t)n, out, err);
}

/* Write a file of `bytes` bytes: the first ones, and a hole. */
static enum err_code write_sparse(const struct store *to, const struct store_shard *shard,
                                  enum store_file file, const struct buf *first, int64_t bytes,
                                  struct err *err)
{
    char path[PATH_MAX];
    enum err_code rc = store_file_path(to, shard, file, path, err);

    if (rc == ERR_OK)
        rc = file_write(path, buf_text(first), first->len, err);
    return rc == ERR_OK && truncate(path, bytes) != 0 ? file_error(err, "extend", path) : rc;
}

static enum err_code fetch_header(struct remote *r, const struct store *to, struct name name,
                                  const struct manifest *m, struct err *err)
{
    const struct store_shard shard = {
        .lineage = name.lineage, .step = name.step, .stage = m->stage, .n_stages = m->n_stages};
    struct buf header = {.max = S3_PIECE_BYTES};
    struct buf text = {.max = MANIFEST_TEXT_MAX_BYTES};
    const struct buf nothing = {.max = 0};
    char file[EXPORT_SHARD_BYTES];
    char key[KEY_BYTES];
    enum err_code rc;

    export_shard_name(m->stage, m->n_stages, file);
    make_key(name, file, key);
    rc = get_header(r, key, m, &header, err);
    if (rc == ERR_OK)
        rc = write_sparse(to, &shard, STORE_SHARD, &header, m->shard_bytes, err);
    if (rc == ERR_OK && m->stage == 0)
        rc = write_sparse(to, &shard, STORE_HISTORY, &nothing, m->history.bytes, err);
    if (rc == ERR_OK && m->stage == 0)
        rc = write_sparse(to, &shard, STORE_PROGRESS, &nothing, m->progress.bytes, err);
    if (rc == ERR_OK)
        rc = manifest_write(m, &text, err);
    if (rc == ERR_OK)
        rc = write_sparse(to, &shard, STORE_MANIFEST, &text, (int64_t)text.len, err);
    buf_deinit(&header);
    buf_deinit(&text);
    return rc;
}

enum err_code remote_fetch_headers(struct remote *r, const struct store *to,
                                   const struct resume_checkpoint *c, struct err *err)
{
    struct checkpoint from;
    char folder[PATH_MAX];
    enum err_code rc = store_folder(to, c, folder, err);

    be_patient(r, NULL);
    if (rc == ERR_OK)
        rc = folder_make(folder, err);
    if (rc == ERR_OK)
        rc = load_checkpoint(r, name_of(c), &from, err);
    for (int i = 0; rc == ERR_OK && i < from.n_shards; i++)
        rc = fetch_header(r, to, name_of(c), from.shards[i], err);
    return rc;
}

enum err_code remote_copy(struct remote *r, struct remote *from, const struct resume_checkpoint *c,
                          struct err *err)
{
    const struct name name = name_of(c);
    enum err_code rc = ERR_OK;

    be_patient(r, NULL);
    be_patient(from, NULL);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < from->listing.n && rc == ERR_OK; i++) {
            const struct object *o = &from->listing.objects[i];
            char key[KEY_BYTES];

            if (name_compare(&o->name, &name) != 0 || store_is_manifest(o->file) != (round == 1))
                continue;
            make_key(name, o->file, key);
            rc = s3_copy(r->s3, key, from->s3, key, o->bytes, err);
        }
    return rc;
}
