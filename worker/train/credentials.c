#include "train/credentials.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tls/authority.h"

enum { FILE_CA, FILE_CERTIFICATE, FILE_KEY, N_FILES };

static const char *const worker_files[N_FILES] = {"ca.crt", "tls.crt", "tls.key"};
static const char *const metrics_files[N_FILES] = {"ca.crt", "metrics.crt", "metrics.key"};

/* Which version of a file has been read. A kubelet renews files by a link to another folder. */
struct version {
    ino_t inode;
    struct timespec changed;
};

struct credentials {
    char folder[PATH_MAX];
    const char *const *files;
    char name[NAMES_DNS_BYTES];
    char uid[NAMES_UID_BYTES];
    struct version versions[N_FILES];
    pthread_mutex_t lock; /* of the next */
    struct tls_identity *identity;
};

static enum err_code find_versions(const struct credentials *c, struct version out[N_FILES],
                                   struct err *err)
{
    char path[PATH_MAX];
    struct stat found;

    for (int i = 0; i < N_FILES; i++) {
        enum err_code rc = folder_path(c->folder, c->files[i], path, err);

        if (rc != ERR_OK)
            return rc;
        if (stat(path, &found) != 0)
            return file_error(err, "stat", path);
        out[i] = (struct version){found.st_ino, found.st_mtim};
    }
    return ERR_OK;
}

static bool is_same(const struct version a[N_FILES], const struct version b[N_FILES])
{
    for (int i = 0; i < N_FILES; i++)
        if (a[i].inode != b[i].inode || a[i].changed.tv_sec != b[i].changed.tv_sec ||
            a[i].changed.tv_nsec != b[i].changed.tv_nsec)
            return false;
    return true;
}

static enum err_code check_name(const struct credentials *c, const struct tls_identity *identity,
                                struct err *err)
{
    const char *name = tls_identity_name(identity);

    if (strcmp(name, c->name) == 0)
        return ERR_OK;
    return err_set(err, ERR_INVALID, "the certificate names %.96s, not %s", name, c->name);
}

static enum err_code read_identity(const struct credentials *c, struct tls_identity **out,
                                   struct err *err)
{
    struct buf texts[N_FILES] = {{.max = AUTHORITY_PEM_MAX_BYTES},
                                 {.max = AUTHORITY_PEM_MAX_BYTES},
                                 {.max = AUTHORITY_PEM_MAX_BYTES}};
    struct tls_end end;
    char path[PATH_MAX];
    enum err_code rc = ERR_OK;

    for (int i = 0; i < N_FILES && rc == ERR_OK; i++) {
        rc = folder_path(c->folder, c->files[i], path, err);
        if (rc == ERR_OK)
            rc = file_read(path, &texts[i], err);
    }
    end = (struct tls_end){buf_text(&texts[FILE_CA]), buf_text(&texts[FILE_CERTIFICATE]),
                           buf_text(&texts[FILE_KEY])};
    if (rc == ERR_OK)
        rc = tls_identity_new(&end, out, err);
    if (texts[FILE_KEY].data)
        OPENSSL_cleanse(texts[FILE_KEY].data, texts[FILE_KEY].cap);
    for (int i = 0; i < N_FILES; i++)
        buf_deinit(&texts[i]);
    return rc;
}

/* The job is that of the first certificate. */
static enum err_code take_name(struct credentials *c, int slot, int incarnation, struct err *err)
{
    const char *name = tls_identity_name(c->identity);

    if (c->files == metrics_files)
        (void)snprintf(c->name, sizeof c->name, "%s", NAMES_METRICS_DNS);
    else if (names_dns_uid(name, c->uid))
        names_worker_dns(c->uid, slot, incarnation, c->name);
    else
        return err_set(err, ERR_INVALID, "the certificate names %.96s, which is no worker", name);
    return check_name(c, c->identity, err);
}

static enum err_code open_files(const char *folder, const char *const files[N_FILES], int slot,
                                int incarnation, struct credentials **out, struct err *err)
{
    struct credentials *c = calloc(1, sizeof *c);
    enum err_code rc;

    if (!c)
        return err_set(err, ERR_NO_MEMORY, "no memory for credentials");
    pthread_mutex_init(&c->lock, NULL);
    (void)snprintf(c->folder, sizeof c->folder, "%s", folder);
    c->files = files;
    rc = find_versions(c, c->versions, err);
    if (rc == ERR_OK)
        rc = read_identity(c, &c->identity, err);
    if (rc == ERR_OK)
        rc = take_name(c, slot, incarnation, err);
    if (rc == ERR_OK) {
        *out = c;
        return ERR_OK;
    }
    credentials_close(c);
    return err_wrap(err, rc, "certificates in %.120s", folder);
}

enum err_code credentials_open(const char *folder, int slot, int incarnation,
                               struct credentials **out, struct err *err)
{
    return open_files(folder, worker_files, slot, incarnation, out, err);
}

enum err_code credentials_open_metrics(const char *folder, struct credentials **out,
                                       struct err *err)
{
    return open_files(folder, metrics_files, 0, 0, out, err);
}

void credentials_close(struct credentials *c)
{
    if (!c)
        return;
    tls_identity_free(c->identity);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

struct tls_identity *credentials_identity(struct credentials *c)
{
    struct tls_identity *identity;

    if (!c)
        return NULL;
    pthread_mutex_lock(&c->lock);
    identity = tls_identity_share(c->identity);
    pthread_mutex_unlock(&c->lock);
    return identity;
}

void credentials_operator_name(const struct credentials *c, char out[static NAMES_DNS_BYTES])
{
    out[0] = '\0';
    if (c)
        names_operator_dns(c->uid, out);
}

void credentials_worker_name(const struct credentials *c, int slot, int incarnation,
                             char out[static NAMES_DNS_BYTES])
{
    out[0] = '\0';
    if (c)
        names_worker_dns(c->uid, slot, incarnation, out);
}

enum err_code credentials_refresh(struct credentials *c, bool *out_changed, struct err *err)
{
    struct version versions[N_FILES];
    struct tls_identity *renewed = NULL;
    struct tls_identity *old = NULL;
    enum err_code rc;

    *out_changed = false;
    if (!c)
        return ERR_OK;
    rc = find_versions(c, versions, err);
    if (rc == ERR_OK && is_same(versions, c->versions))
        return ERR_OK;
    if (rc == ERR_OK)
        rc = read_identity(c, &renewed, err);
    if (rc == ERR_OK)
        rc = check_name(c, renewed, err);
    if (rc != ERR_OK) {
        tls_identity_free(renewed);
        return err_wrap(err, rc, "certificates in %.120s", c->folder);
    }
    memcpy(c->versions, versions, sizeof versions);
    pthread_mutex_lock(&c->lock);
    old = c->identity;
    c->identity = renewed;
    pthread_mutex_unlock(&c->lock);
    tls_identity_free(old);
    *out_changed = true;
    return ERR_OK;
}
