#include "run/certificates.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "control/manifest.h"
#include "kube/secret.h"
#include "run/parse.h"

#define SECRET_MAX_BYTES ((size_t)2 << 20) /* as JSON; the API server takes 1 MiB of values */

/* Who needs a certificate: pods that were seen and those to be created, and their metrics ports. */
struct wanted {
    int n;
    struct revision_worker *list; /* has room for all */
};

/* --- what is wanted --- */

static void want(struct wanted *all, int slot, int incarnation)
{
    for (int i = 0; i < all->n; i++)
        if (all->list[i].slot == slot && all->list[i].incarnation == incarnation)
            return;
    all->list[all->n++] = (struct revision_worker){slot, incarnation};
}

static void want_new(const struct observed *seen, const struct action *a, struct wanted *out)
{
    const struct plan_worker *worker = &seen->revision.plan.workers[a->stage];
    bool is_worker = a->kind == ACTION_CREATE_WORKER_POD || a->kind == ACTION_CREATE_SUBSTITUTE;

    if (a->kind == ACTION_CREATE_PROBE_POD && manifest_has_tls(seen, POD_PROBE))
        want(out, NAMES_PROBE_DNS);
    if (!is_worker || !manifest_has_tls(seen, POD_WORKER))
        return;
    if (a->kind == ACTION_CREATE_WORKER_POD)
        want(out, worker->slot, worker->incarnation);
    else
        want(out, a->slot, seen->revision.plan.revision);
    if (seen->settings.has_worker_metrics)
        want(out, MANIFEST_METRICS);
}

static enum err_code find_wanted(const struct observed *seen, const struct decision *d,
                                 struct wanted *out, struct err *err)
{
    size_t n_max = 0;
    enum err_code rc = array_reserve(&out->list, sizeof *out->list, &n_max,
                                     (size_t)(seen->n_pods + d->n_actions + 1), err);

    out->n = 0;
    for (int i = 0; i < seen->n_pods && rc == ERR_OK; i++) {
        const struct seen_pod *p = &seen->pods[i];

        if (!p->has_tls || p->is_deleting || p->phase == POD_SUCCEEDED || p->phase == POD_FAILED)
            continue;
        want(out, p->slot, p->incarnation);
        if (p->has_metrics)
            want(out, MANIFEST_METRICS);
    }
    for (int i = 0; i < d->n_actions && rc == ERR_OK; i++)
        want_new(seen, &d->actions[i], out);
    return rc;
}

/* --- what there is --- */

static struct store_certificate *find(struct store_certificates *all, int slot, int incarnation)
{
    for (int i = 0; i < all->n; i++)
        if (all->list[i].slot == slot && all->list[i].incarnation == incarnation)
            return &all->list[i];
    return NULL;
}

static enum err_code note(struct store_certificates *all, int slot, int incarnation,
                          int64_t until_s, struct err *err)
{
    struct store_certificate *known = find(all, slot, incarnation);

    if (!known) {
        enum err_code rc =
            array_reserve(&all->list, sizeof *all->list, &all->n_max, (size_t)all->n + 1, err);

        if (rc != ERR_OK)
            return rc;
        known = &all->list[all->n++];
    }
    *known = (struct store_certificate){slot, incarnation, until_s};
    return ERR_OK;
}

/* Whose certificate has this name? See manifest_certificate_file(). */
static bool read_file_name(const char *key, struct revision_worker *out)
{
    struct revision_worker id = {MANIFEST_METRICS};
    char metrics[NAMES_BYTES];
    int n = 0;

    manifest_certificate_file(MANIFEST_METRICS, "crt", metrics);
    if (strcmp(key, metrics) != 0 &&
        (sscanf(key, "w%d-%d.crt%n", &id.slot, &id.incarnation, &n) != 2 || n == 0 ||
         key[n] != '\0'))
        return false;
    *out = id;
    return true;
}

/* One that cannot be read is as good as none. */
static enum err_code read_one(struct store_certificates *all, const struct json *secret,
                              const char *key, struct err *err)
{
    struct buf text = {.max = AUTHORITY_PEM_MAX_BYTES};
    struct revision_worker id;
    int64_t from_s, until_s;
    enum err_code rc = ERR_OK;

    if (read_file_name(key, &id) && kube_secret_text(secret, key, &text, NULL) == ERR_OK &&
        authority_times(buf_text(&text), &from_s, &until_s, NULL) == ERR_OK)
        rc = note(all, id.slot, id.incarnation, until_s, err);
    buf_deinit(&text);
    return rc;
}

static enum err_code read_secret(const struct json *secret, struct store_certificates *out,
                                 struct err *err)
{
    struct buf trusted = {.max = AUTHORITY_PEM_MAX_BYTES};
    enum err_code rc = ERR_OK;

    out->n = 0;
    for (const struct json *v = json_first(json_get(secret, "data")); v && rc == ERR_OK;
         v = json_next(v))
        rc = read_one(out, secret, json_key(v), err);
    out->generation = kube_secret_text(secret, MANIFEST_CA_FILE, &trusted, NULL) == ERR_OK
                          ? hash_text(buf_text(&trusted))
                          : 0;
    out->is_there = rc == ERR_OK;
    buf_deinit(&trusted);
    return rc;
}

/* Of a new operator; a Secret that is not there is not an error. */
static enum err_code look(struct kube_client *client, const struct kube_ref *ref,
                          const struct observed *seen, struct store_certificates *out,
                          struct err *err)
{
    char uid[OBSERVED_UID_BYTES];
    char key[QUEUE_KEY_BYTES];
    struct json *object = NULL;
    enum err_code rc = kube_get(client, ref, &object, err);

    if (rc == ERR_NOT_FOUND)
        rc = ERR_OK;
    else if (rc == ERR_OK && (!parse_owner(object, uid, key) || strcmp(uid, seen->uid) != 0))
        rc = err_set(err, ERR_CONFLICT, "secrets %s/%s exists and does not belong to this SkyJob",
                     ref->namespace, ref->name);
    else if (rc == ERR_OK)
        rc = read_secret(object, out, err);
    out->was_read = rc == ERR_OK;
    json_free(object);
    return rc;
}

/* --- changing it --- */

static enum err_code add_issued(const struct issuer *issuer, const struct observed *seen,
                                const struct revision_worker *id, int64_t now_s, struct jsonw *w,
                                struct err *err)
{
    struct authority_pair pair = AUTHORITY_PAIR;
    char name[NAMES_DNS_BYTES] = NAMES_METRICS_DNS;
    char file[NAMES_BYTES];
    enum err_code rc;

    if (id->slot >= 0)
        names_worker_dns(seen->uid, id->slot, id->incarnation, name);
    rc = issuer_issue(issuer, name, now_s, &pair, err);
    if (rc == ERR_OK) {
        manifest_certificate_file(id->slot, id->incarnation, "crt", file);
        jsonw_string(w, file, buf_text(&pair.certificate));
        manifest_certificate_file(id->slot, id->incarnation, "key", file);
        jsonw_string(w, file, buf_text(&pair.key));
    }
    authority_pair_deinit(&pair);
    return rc;
}

static bool is_good(struct store_certificates *known, const struct issuer *issuer,
                    const struct revision_worker *id, int64_t now_s)
{
    const struct store_certificate *c = find(known, id->slot, id->incarnation);

    return c && known->generation == issuer_generation(issuer) &&
           c->until_s - now_s >= ISSUER_RENEW_S;
}

/* A pod of a newer incarnation has come in its place, and this one is wanted no more. */
static bool is_replaced(const struct store_certificate *c, const struct wanted *wanted)
{
    bool has_newer = false;

    for (int i = 0; i < wanted->n; i++) {
        const struct revision_worker *id = &wanted->list[i];

        if (id->slot == c->slot && id->incarnation == c->incarnation)
            return false;
        has_newer = has_newer || (id->slot == c->slot && id->incarnation > c->incarnation);
    }
    return has_newer;
}

/* The members that the Secret is to get, as an object. */
static enum err_code write_texts(const struct issuer *issuer, const struct observed *seen,
                                 struct store_certificates *known, const struct wanted *wanted,
                                 int64_t now_s, struct buf *out, struct err *err)
{
    enum err_code rc = ERR_OK;
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, MANIFEST_CA_FILE, issuer_trusted(issuer));
    for (int i = 0; i < wanted->n && rc == ERR_OK; i++)
        if (!known->is_there || !is_good(known, issuer, &wanted->list[i], now_s))
            rc = add_issued(issuer, seen, &wanted->list[i], now_s, &w, err);
    jsonw_close(&w);
    return rc == ERR_OK ? jsonw_finish(&w, err) : rc;
}

static void write_removal(struct jsonw *w, const struct store_certificate *c)
{
    char file[NAMES_BYTES];

    manifest_certificate_file(c->slot, c->incarnation, "crt", file);
    jsonw_null(w, file);
    manifest_certificate_file(c->slot, c->incarnation, "key", file);
    jsonw_null(w, file);
}

static enum err_code write_patch(struct store_certificates *known, const struct wanted *wanted,
                                 const struct json *texts, struct buf *out, struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_open_object(&w, "data");
    for (int i = 0; i < known->n; i++)
        if (is_replaced(&known->list[i], wanted))
            write_removal(&w, &known->list[i]);
    jsonw_close(&w);
    jsonw_value(&w, "stringData", texts);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

static void wipe(struct buf *text)
{
    if (text->data)
        OPENSSL_cleanse(text->data, text->cap);
    buf_deinit(text);
}

/* Write what is missing, and note it. */
static enum err_code change(struct kube_client *client, const struct issuer *issuer,
                            const struct kube_ref *ref, const struct observed *seen,
                            struct store_certificates *known, const struct wanted *wanted,
                            int64_t now_s, struct err *err)
{
    struct buf texts = {.max = SECRET_MAX_BYTES};
    struct buf body = {.max = SECRET_MAX_BYTES};
    uint64_t generation = issuer_generation(issuer);
    struct json *parsed = NULL;
    struct json *object = NULL;
    enum err_code rc = write_texts(issuer, seen, known, wanted, now_s, &texts, err);

    if (rc == ERR_OK)
        rc = json_parse(buf_text(&texts), texts.len, &parsed, err);
    if (rc == ERR_OK)
        rc = known->is_there ? write_patch(known, wanted, parsed, &body, err)
                             : manifest_certificates(seen, parsed, &body, err);
    if (rc == ERR_OK)
        rc = known->is_there ? kube_merge(client, ref, buf_text(&body), &object, err)
                             : kube_create(client, ref, buf_text(&body), &object, err);
    if (rc == ERR_OK)
        rc = read_secret(object, known, err);
    if (rc == ERR_OK)
        LOG(LOG_INFO, "certificates issued", LOG_S("job", seen->name),
            LOG_I("certificates", wanted->n));
    /* The answer has what was written; were it not so, each decision would write again. */
    if (rc == ERR_OK && known->generation != generation)
        rc = err_set(err, ERR_CONFLICT, "Secret %s has been changed meanwhile", ref->name);
    json_free(object);
    json_free(parsed);
    wipe(&texts);
    wipe(&body);
    return rc;
}

/* A Secret that was deleted, or is there after all, is looked at again with the next decision. */
static enum err_code ensure(struct kube_client *client, const struct issuer *issuer,
                            const struct observed *seen, struct store_certificates *known,
                            const struct wanted *wanted, struct err *err)
{
    char name[NAMES_BYTES];
    struct kube_ref ref = {.resource = &kube_secrets, .namespace = seen->namespace, .name = name};
    int64_t now_s = clock_wall_ms() / 1000;
    bool is_complete = true;
    enum err_code rc = ERR_OK;

    if (issuer_generation(issuer) == 0)
        return err_set(err, ERR_AGAIN, "there is no CA yet");
    names_child(seen->name, NAMES_TLS, name);
    if (!known->was_read && seen->n_pods > 0) /* before the first pods there will be none */
        rc = look(client, &ref, seen, known, err);
    if (rc != ERR_OK)
        return rc;
    for (int i = 0; i < wanted->n; i++)
        is_complete = is_complete && is_good(known, issuer, &wanted->list[i], now_s);
    if (is_complete && known->is_there)
        return ERR_OK;
    rc = change(client, issuer, &ref, seen, known, wanted, now_s, err);
    if (rc == ERR_CONFLICT && !known->was_read) { /* there is one after all */
        rc = look(client, &ref, seen, known, err);
        if (rc == ERR_OK)
            rc = change(client, issuer, &ref, seen, known, wanted, now_s, err);
    }
    known->was_read = rc == ERR_OK;
    if (rc != ERR_OK)
        store_forget_certificates(known);
    return rc == ERR_NOT_FOUND ? err_wrap(err, ERR_CONFLICT, "deleted meanwhile") : rc;
}

enum err_code certificates_ensure(struct kube_client *client, struct issuer *issuer,
                                  struct store *store, const struct observed *seen,
                                  const struct decision *d, struct err *err)
{
    struct store_job *job = store_job_of(store, seen);
    struct store_certificates known;
    struct wanted wanted = {.n = 0};
    enum err_code rc = find_wanted(seen, d, &wanted, err);

    if (rc == ERR_OK && wanted.n > 0 && !issuer)
        rc = err_set(err, ERR_INVALID,
                     "the job's workers speak TLS: the operator needs --authority");
    if (rc != ERR_OK || !job || wanted.n == 0) {
        free(wanted.list);
        return rc;
    }
    known = job->certificates; /* the job may be gone with the next call */
    job->certificates = (struct store_certificates){.n = 0};
    rc = ensure(client, issuer, seen, &known, &wanted, err);
    job = store_job_of(store, seen);
    if (job && !job->is_final)
        job->certificates = known;
    else
        free(known.list);
    free(wanted.list);
    return rc;
}
