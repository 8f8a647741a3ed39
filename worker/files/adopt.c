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
#include "files/remote.h"

#define UID_CHARS      5 /* of names_checkpoints() */
#define PIECE_BYTES    ((size_t)1 << 16)
#define NAMES_SHOWN    200
#define HEADERS_FOLDER "headers" /* on this worker's disk, while they are looked at */

/* --- which job --- */

static enum err_code open_source(const char *place, struct adopt_source *out, struct err *err)
{
    struct adopt_source s = {.remote = NULL};
    struct s3_access access;
    enum err_code rc = ERR_OK;

    if (snprintf(s.place, sizeof s.place, "%s", place) >= (int)sizeof s.place)
        return err_set(err, ERR_INVALID, "path too long: %.80s", place);
    if (s3_is_url(place)) {
        rc = s3_access_load(place, &access, err);
        if (rc == ERR_OK)
            rc = remote_open(&access, &s.remote, err);
    }
    if (rc == ERR_OK)
        *out = s;
    return rc;
}

void adopt_close(struct adopt_source *s)
{
    remote_close(s->remote);
    *s = (struct adopt_source){.remote = NULL};
}

static struct store store_of(const struct adopt_source *from)
{
    struct store s = {.remote = from->remote};

    if (!from->remote)
        (void)snprintf(s.folder, sizeof s.folder, "%s", from->place);
    return s;
}

static bool has_checkpoint(const struct adopt_source *from)
{
    const struct store s = store_of(from);
    struct store_point point;

    return store_list(&s, &point, 1) > 0;
}

/* Is it there, whatever it has? */
static bool is_there(const struct adopt_source *from)
{
    struct stat st;

    return from->remote ? has_checkpoint(from) : stat(from->place, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_same_place(const char *a, const char *b)
{
    struct s3_access p, q;
    struct stat x, y;

    if (s3_is_url(a) && s3_access_load(a, &p, NULL) == ERR_OK &&
        s3_access_load(b, &q, NULL) == ERR_OK)
        return strcmp(p.bucket, q.bucket) == 0 && strcmp(p.prefix, q.prefix) == 0;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The jobs of a name that have checkpoints in one place. */
struct search {
    const char *parent, *job;
    const char *own; /* where this job has its own */
    char names[NAMES_SHOWN];
    int n;
    struct adopt_source found; /* the last one */
};

/* "job-0b7d3", for "job". */
static bool is_of_job(const char *name, const char *job)
{
    size_t n = strlen(job);

    return strncmp(name, job, n) == 0 && name[n] == '-' && strlen(name) == n + 1 + UID_CHARS &&
           !strchr(name + n + 1, '-');
}

static enum err_code consider(void *ctx, const char *name, struct err *err)
{
    struct search *s = ctx;
    struct adopt_source found;
    char place[PATH_MAX];
    enum err_code rc;

    if (!is_of_job(name, s->job))
        return ERR_OK;
    rc = folder_path(s->parent, name, place, err);
    if (rc != ERR_OK || is_same_place(place, s->own))
        return rc;
    rc = open_source(place, &found, err);
    if (rc != ERR_OK)
        return rc;
    if (has_checkpoint(&found)) {
        text_add(s->names, sizeof s->names, "%s%s", s->n++ > 0 ? ", " : "", name);
        adopt_close(&s->found);
        s->found = found;
    } else {
        adopt_close(&found);
    }
    return ERR_OK;
}

static enum err_code search_folder(struct search *s, struct err *err)
{
    DIR *dir = opendir(s->parent);
    struct dirent *entry;
    enum err_code rc = ERR_OK;

    while (dir && rc == ERR_OK && (entry = readdir(dir)))
        rc = consider(s, entry->d_name, err);
    if (dir)
        (void)closedir(dir);
    return rc;
}

static enum err_code search_bucket(struct search *s, struct err *err)
{
    struct s3_access access;
    struct s3 *s3 = NULL;
    enum err_code rc = s3_access_load(s->parent, &access, err);

    if (rc == ERR_OK)
        rc = s3_new(&access, &s3, err);
    if (rc == ERR_OK)
        rc = s3_list_folders(s3, s->job, consider, s, err);
    s3_free(s3);
    return rc;
}

/* Look at what is beside `from`. */
static enum err_code find_beside(const char *from, const char *own, struct adopt_source *out,
                                 struct err *err)
{
    char parent[PATH_MAX], name[PATH_MAX];
    struct search s = {.own = own, .n = 0};
    enum err_code rc;

    (void)snprintf(parent, sizeof parent, "%s", from);
    (void)snprintf(name, sizeof name, "%s", from);
    s.parent = dirname(parent);
    s.job = basename(name);
    if (s3_is_url(from) && !s3_is_url(s.parent)) /* a whole bucket */
        return err_set(err, ERR_NOT_FOUND, "%s: has no complete checkpoint", from);
    rc = s3_is_url(from) ? search_bucket(&s, err) : search_folder(&s, err);
    if (rc == ERR_OK && s.n == 0)
        rc = err_set(err, ERR_NOT_FOUND, "%s: has no checkpoints of a job %s", s.parent, s.job);
    if (rc == ERR_OK && s.n > 1)
        rc = err_set(err, ERR_INVALID,
                     "%s: has checkpoints of several jobs of this name, of which one must be "
                     "named: %s",
                     s.parent, s.names);
    if (rc == ERR_OK) {
        *out = s.found;
        s.found = (struct adopt_source){.remote = NULL};
    }
    adopt_close(&s.found);
    return rc;
}

/* s3_copy() is within a bucket. */
static enum err_code check_bucket(const char *from, const char *own, struct err *err)
{
    struct s3_access a, b;
    enum err_code rc = s3_access_load(from, &a, err);

    if (rc == ERR_OK)
        rc = s3_access_load(own, &b, err);
    if (rc == ERR_OK && strcmp(a.bucket, b.bucket) != 0)
        rc = err_set(err, ERR_INVALID,
                     "%.100s: must be in the bucket of the job's own checkpoints, %s", from,
                     b.bucket);
    return rc;
}

enum err_code adopt_find(const char *from, const char *own, struct adopt_source *out,
                         struct err *err)
{
    struct adopt_source found = {.remote = NULL};
    enum err_code rc = s3_is_url(from) ? check_bucket(from, own, err) : ERR_OK;

    if (rc == ERR_OK && is_same_place(from, own))
        rc = err_set(err, ERR_INVALID, "%s: is where this job itself keeps its checkpoints", from);
    if (rc == ERR_OK)
        rc = open_source(from, &found, err);
    if (rc != ERR_OK)
        return rc;
    if (is_there(&found)) {
        *out = found;
        return ERR_OK;
    }
    adopt_close(&found);
    return find_beside(from, own, out, err);
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

static enum err_code check_job(const char *place, const struct store_point *point,
                               const struct identity *here, struct err *err)
{
    char fields[ERR_TEXT_BYTES] = "";

    if (!identity_differs(&point->identity, here, fields, sizeof fields))
        return ERR_OK;
    return err_set(err, ERR_CONFLICT, "%.80s: cannot go on from these checkpoints: %s", place,
                   fields);
}

/* Are the shards those of the model and the optimizer? */
static enum err_code check_shards(const struct store *in, const struct resume_checkpoint *c,
                                  const struct spec *spec, struct err *err)
{
    struct store_reader *reader = NULL;
    enum err_code rc = store_read(in, c, &spec->model,
                                  spec->training.optimizer == SPEC_OPTIMIZER_ADAMW, &reader, err);

    store_close(reader);
    return rc;
}

/* The same in a bucket, of which only the headers are fetched. */
static enum err_code check_objects(const struct store *own, const struct adopt_source *from,
                                   const struct resume_checkpoint *c, const struct spec *spec,
                                   struct err *err)
{
    struct store headers = {.is_own = false};
    char folder[PATH_MAX];
    enum err_code rc = folder_path(own->folder, HEADERS_FOLDER, headers.folder, err);

    if (rc == ERR_OK)
        rc = folder_make(headers.folder, err);
    if (rc == ERR_OK)
        rc = store_folder(&headers, c, folder, err);
    if (rc != ERR_OK)
        return rc;
    rc = remote_fetch_headers(from->remote, &headers, c, err);
    if (rc == ERR_OK)
        rc = check_shards(&headers, c, spec, err);
    (void)!folder_remove(folder, NULL);
    (void)!folder_remove(headers.folder, NULL);
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "%.80s", from->place);
}

/* Can it be read as one of a job like `spec`? */
static enum err_code check(const struct store *own, const struct adopt_source *from,
                           const struct store_point *point, const struct spec *spec,
                           struct err *err)
{
    const struct store other = store_of(from);
    struct identity here;
    enum err_code rc;

    identity_of(spec, &here);
    rc = check_job(from->place, point, &here, err);
    if (rc != ERR_OK)
        return rc;
    return from->remote ? check_objects(own, from, &point->at, spec, err)
                        : check_shards(&other, &point->at, spec, err);
}

static enum err_code take_folder(const struct store *own, const struct store *from,
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

enum err_code adopt_checkpoints(const struct store *own, const struct adopt_source *from,
                                const struct spec *spec, int slot, struct err *err)
{
    const struct store other = store_of(from);
    struct store_point points[RESUME_POINTS_MAX];
    bool has_taken = false;
    int n;

    if (store_list(own, points, 1) > 0)
        return ERR_OK;
    n = store_list(&other, points, RESUME_POINTS_MAX);
    for (int i = 0; i < n; i++) {
        const struct resume_checkpoint *c = &points[i].at;
        struct err why = {.text = ""};
        enum err_code rc = check(own, from, &points[i], spec, &why);

        if (rc == ERR_OK && store_is_refused(own, c))
            continue;
        if (rc == ERR_OK)
            rc = own->remote ? remote_copy(own->remote, from->remote, c, &why)
                             : take_folder(own, &other, c, slot, &why);
        has_taken = has_taken || rc == ERR_OK;
        if (rc == ERR_INVALID || rc == ERR_NOT_FOUND) /* damaged, or removed meanwhile */
            LOG(LOG_WARN, "checkpoint not taken over", LOG_S("error", why.text));
        else if (rc != ERR_OK)
            return err_set(err, rc, "%s", why.text);
    }
    n = store_list(own, points, 1);
    if (n == 0 && has_taken)
        return err_set(err, ERR_IO, "%.160s: what was taken over of it cannot be listed",
                       from->place);
    if (n == 0)
        return err_set(err, ERR_NOT_FOUND, "%.160s: has no complete checkpoint that can be used",
                       from->place);
    LOG(LOG_INFO, "goes on from the checkpoints of another job", LOG_S("place", from->place),
        LOG_I("step", points[0].at.end.step));
    return ERR_OK;
}
