#include "run/issuer.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "kube/secret.h"

#define TRUSTED   "ca.crt"
#define CURRENT   "tls.crt"
#define KEY       "tls.key"
#define NEXT      "next.crt"
#define NEXT_KEY  "next.key"
#define PEM_BEGIN "-----BEGIN CERTIFICATE-----"

#define SECRET_MAX_BYTES ((size_t)1 << 20)
#define CALLER_IDLE_S    600 /* since its last call, after which an identity is dropped */

/* What the Secret holds. */
struct contents {
    struct buf trusted, current, key, next, next_key;
    bool is_foreign;
};

/* The operator towards one job. */
struct caller {
    struct tls_identity *identity;
    uint64_t generation;
    int64_t until_s;
    int64_t used_s;
};

struct issuer {
    struct kube_client *client;
    const char *namespace;
    const char *name;
    struct buf trusted;
    uint64_t generation;
    struct authority *authority; /* NULL: not known yet */
    int64_t look_at_ms;
    bool led;                  /* at the last look */
    struct map callers;        /* uid to struct caller */
    struct tls_identity *like; /* any of this generation; NULL: there is none yet */
};

/* --- the Secret --- */

static void contents_deinit(struct contents *c)
{
    struct buf *all[] = {&c->trusted, &c->current, &c->key, &c->next, &c->next_key};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i]->data)
            OPENSSL_cleanse(all[i]->data, all[i]->cap);
        buf_deinit(all[i]);
    }
}

static void contents_init(struct contents *c)
{
    *c = (struct contents){.trusted = {.max = AUTHORITY_PEM_MAX_BYTES},
                           .current = {.max = AUTHORITY_PEM_MAX_BYTES},
                           .key = {.max = AUTHORITY_PEM_MAX_BYTES},
                           .next = {.max = AUTHORITY_PEM_MAX_BYTES},
                           .next_key = {.max = AUTHORITY_PEM_MAX_BYTES}};
}

/* Another program's ca.crt may be absent, and is that of its own CA otherwise. */
static enum err_code read_contents(const struct json *object, struct contents *out, struct err *err)
{
    enum err_code rc = kube_secret_text(object, CURRENT, &out->current, err);
    struct buf more = {.max = AUTHORITY_PEM_MAX_BYTES};

    out->is_foreign = strcmp(json_text(object, "type"), "kubernetes.io/tls") == 0;
    if (rc == ERR_OK)
        rc = kube_secret_text(object, KEY, &out->key, err);
    if (rc == ERR_OK && kube_secret_has(object, TRUSTED))
        rc = kube_secret_text(object, TRUSTED, &more, err);
    if (rc == ERR_OK && out->is_foreign)
        rc = buf_addf(&out->trusted, err, "%s", buf_text(&out->current));
    if (rc == ERR_OK && strcmp(buf_text(&more), buf_text(&out->trusted)) != 0)
        rc = buf_addf(&out->trusted, err, "%s", buf_text(&more));
    if (rc == ERR_OK && !out->is_foreign && kube_secret_has(object, NEXT)) {
        rc = kube_secret_text(object, NEXT, &out->next, err);
        if (rc == ERR_OK)
            rc = kube_secret_text(object, NEXT_KEY, &out->next_key, err);
    }
    buf_deinit(&more);
    return rc;
}

static void add_text(struct jsonw *w, const char *key, const struct buf *text)
{
    if (text->len > 0)
        jsonw_string(w, key, buf_text(text));
}

/* As a whole object or, with the version of the one that is there, as a merge patch. */
static enum err_code write_secret(const struct issuer *i, const struct contents *c,
                                  const char *version, struct buf *out, struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_open_object(&w, "metadata");
    if (version) {
        jsonw_string(&w, "resourceVersion", version);
    } else {
        jsonw_string(&w, "name", i->name);
        jsonw_string(&w, "namespace", i->namespace);
        jsonw_open_object(&w, "labels");
        jsonw_string(&w, "app.kubernetes.io/name", "skyjob");
        jsonw_string(&w, "app.kubernetes.io/managed-by", "skyjob-operator");
        jsonw_close(&w);
    }
    jsonw_close(&w);
    if (!version) {
        jsonw_string(&w, "apiVersion", "v1");
        jsonw_string(&w, "kind", "Secret");
        jsonw_string(&w, "type", "Opaque");
    } else if (c->next.len == 0) {
        jsonw_open_object(&w, "data");
        jsonw_null(&w, NEXT);
        jsonw_null(&w, NEXT_KEY);
        jsonw_close(&w);
    }
    jsonw_open_object(&w, "stringData");
    add_text(&w, TRUSTED, &c->trusted);
    add_text(&w, CURRENT, &c->current);
    add_text(&w, KEY, &c->key);
    add_text(&w, NEXT, &c->next);
    add_text(&w, NEXT_KEY, &c->next_key);
    jsonw_close(&w);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

/* --- phases --- */

enum issuer_phase issuer_phase(int64_t now_s, int64_t from_s, int64_t until_s, int64_t next_from_s,
                               bool trusts_old)
{
    if (next_from_s > 0)
        return now_s >= next_from_s + ISSUER_SPREAD_S ? ISSUER_SWITCH : ISSUER_STEADY;
    if (now_s >= until_s - ISSUER_ROTATE_S)
        return ISSUER_MAKE_NEXT;
    /* It was made ISSUER_SPREAD_S before it began to issue. */
    if (trusts_old && now_s >= from_s + 2 * ISSUER_SPREAD_S)
        return ISSUER_DROP;
    return ISSUER_STEADY;
}

/* Move a text; what was in `to` is gone. */
static void move(struct buf *to, struct buf *from)
{
    struct buf empty = {.max = from->max};

    if (to->data)
        OPENSSL_cleanse(to->data, to->cap);
    buf_deinit(to);
    *to = *from;
    *from = empty;
}

/* The CA that issues is the first. */
static enum err_code trust(struct contents *c, const struct buf *first, const struct buf *second,
                           struct err *err)
{
    buf_reset(&c->trusted);
    return buf_addf(&c->trusted, err, "%s%s", buf_text(first), second ? buf_text(second) : "");
}

static enum err_code make_pair(struct buf *certificate, struct buf *key, int64_t now_s,
                               struct err *err)
{
    struct authority_pair pair = AUTHORITY_PAIR;
    enum err_code rc = authority_make(now_s, &pair, err);

    if (rc == ERR_OK) {
        move(certificate, &pair.certificate);
        move(key, &pair.key);
    }
    authority_pair_deinit(&pair);
    return rc;
}

static enum err_code find_phase(const struct contents *c, int64_t now_s, enum issuer_phase *out,
                                struct err *err)
{
    int64_t from_s = 0, until_s = 0, next_from_s = 0, next_until_s;
    enum err_code rc = authority_times(buf_text(&c->current), &from_s, &until_s, err);

    if (rc == ERR_OK && c->next.len > 0)
        rc = authority_times(buf_text(&c->next), &next_from_s, &next_until_s, err);
    if (rc == ERR_OK)
        *out = issuer_phase(now_s, from_s, until_s, next_from_s,
                            strcmp(buf_text(&c->trusted), buf_text(&c->current)) != 0);
    return rc;
}

static enum err_code take_phase(struct contents *c, enum issuer_phase phase, int64_t now_s,
                                struct err *err)
{
    enum err_code rc = ERR_OK;

    if (phase == ISSUER_MAKE_NEXT) {
        rc = make_pair(&c->next, &c->next_key, now_s, err);
        return rc == ERR_OK ? trust(c, &c->current, &c->next, err) : rc;
    }
    if (phase == ISSUER_DROP)
        return trust(c, &c->current, NULL, err);
    rc = trust(c, &c->next, &c->current, err);
    move(&c->current, &c->next);
    move(&c->key, &c->next_key);
    return rc;
}

/* --- looking --- */

static struct kube_ref ref_of(const struct issuer *i)
{
    return (struct kube_ref){.resource = &kube_secrets, .namespace = i->namespace, .name = i->name};
}

static enum err_code make_secret(struct issuer *i, int64_t now_s, struct json **out,
                                 struct err *err)
{
    struct kube_ref ref = ref_of(i);
    struct buf body = {.max = SECRET_MAX_BYTES};
    struct contents c;
    enum err_code rc;

    contents_init(&c);
    rc = make_pair(&c.current, &c.key, now_s, err);
    if (rc == ERR_OK)
        rc = trust(&c, &c.current, NULL, err);
    if (rc == ERR_OK)
        rc = write_secret(i, &c, NULL, &body, err);
    if (rc == ERR_OK)
        rc = kube_create(i->client, &ref, buf_text(&body), out, err);
    if (rc == ERR_OK)
        LOG(LOG_INFO, "CA made", LOG_S("namespace", i->namespace), LOG_S("secret", i->name));
    if (body.data)
        OPENSSL_cleanse(body.data, body.cap);
    buf_deinit(&body);
    contents_deinit(&c);
    return rc;
}

/* Take the phase that is due, if any: *object is then what has become of it. */
static enum err_code rotate(struct issuer *i, struct json **object, int64_t now_s, struct err *err)
{
    static const char *const whats[] = {"", "next CA made", "next CA issues", "old CA dropped"};
    struct kube_ref ref = ref_of(i);
    struct buf body = {.max = SECRET_MAX_BYTES};
    enum issuer_phase phase = ISSUER_STEADY;
    struct json *changed = NULL;
    struct contents c;
    enum err_code rc;

    contents_init(&c);
    rc = read_contents(*object, &c, err);
    if (rc == ERR_OK && !c.is_foreign)
        rc = find_phase(&c, now_s, &phase, err);
    if (rc == ERR_OK && phase != ISSUER_STEADY) {
        rc = take_phase(&c, phase, now_s, err);
        if (rc == ERR_OK)
            rc = write_secret(i, &c, json_text(*object, "metadata.resourceVersion"), &body, err);
        if (rc == ERR_OK)
            rc = kube_merge(i->client, &ref, buf_text(&body), &changed, err);
        if (rc == ERR_OK) {
            LOG(LOG_INFO, whats[phase], LOG_S("secret", i->name));
            json_free(*object);
            *object = changed;
        }
    }
    if (body.data)
        OPENSSL_cleanse(body.data, body.cap);
    buf_deinit(&body);
    contents_deinit(&c);
    return rc;
}

/* Use what the Secret holds. */
static enum err_code take(struct issuer *i, const struct json *object, struct err *err)
{
    struct authority *authority = NULL;
    struct contents c;
    enum err_code rc;

    contents_init(&c);
    rc = read_contents(object, &c, err);
    if (rc == ERR_OK && strstr(buf_text(&c.trusted), PEM_BEGIN) != buf_text(&c.trusted))
        rc = err_set(err, ERR_INVALID, TRUSTED " does not begin with a certificate");
    if (rc == ERR_OK && hash_text(buf_text(&c.trusted)) != i->generation) {
        rc = authority_parse(buf_text(&c.current), buf_text(&c.key), &authority, err);
        if (rc == ERR_OK) {
            authority_free(i->authority);
            i->authority = authority;
            i->generation = hash_text(buf_text(&c.trusted));
            move(&i->trusted, &c.trusted);
            tls_identity_free(i->like);
            i->like = NULL;
        }
    }
    contents_deinit(&c);
    return rc;
}

static void free_caller(struct caller *c)
{
    tls_identity_free(c->identity);
    free(c);
}

static void drop_idle_callers(struct issuer *i, int64_t now_s)
{
    const char *uid;
    size_t place = 0;
    struct caller *c;

    while ((c = map_next(&i->callers, &place, &uid)))
        if (now_s - c->used_s > CALLER_IDLE_S)
            free_caller(map_take(&i->callers, uid));
}

enum err_code issuer_tend(struct issuer *i, bool leads, int64_t now_ms, int64_t now_s,
                          struct err *err)
{
    struct kube_ref ref = ref_of(i);
    struct json *object = NULL;
    bool is_awaited; /* the one that leads is to make it */
    enum err_code rc;

    if (now_ms < i->look_at_ms && (i->led || !leads))
        return ERR_OK;
    i->led = leads;
    drop_idle_callers(i, now_s);
    rc = kube_get(i->client, &ref, &object, err);
    is_awaited = rc == ERR_NOT_FOUND && !leads;
    if (rc == ERR_NOT_FOUND && leads)
        rc = make_secret(i, now_s, &object, err);
    if (rc == ERR_OK && leads)
        rc = rotate(i, &object, now_s, err);
    if (rc == ERR_OK)
        rc = take(i, object, err);
    json_free(object);
    i->look_at_ms = now_ms + (rc == ERR_OK ? ISSUER_LOOK_MS : ISSUER_RETRY_MS);
    return rc == ERR_OK || is_awaited
               ? ERR_OK
               : err_wrap(err, rc, "the CA in Secret %s/%s", i->namespace, i->name);
}

/* --- issuing --- */

enum err_code issuer_new(struct kube_client *client, const char *namespace, const char *name,
                         struct issuer **out, struct err *err)
{
    struct issuer *i = calloc(1, sizeof *i);

    if (!i)
        return err_set(err, ERR_NO_MEMORY, "no memory for a CA");
    i->client = client;
    i->namespace = namespace;
    i->name = name;
    i->trusted.max = AUTHORITY_PEM_MAX_BYTES;
    *out = i;
    return ERR_OK;
}

void issuer_free(struct issuer *i)
{
    size_t place = 0;
    struct caller *c;

    if (!i)
        return;
    while ((c = map_next(&i->callers, &place, NULL)))
        free_caller(c);
    map_deinit(&i->callers);
    tls_identity_free(i->like);
    authority_free(i->authority);
    buf_deinit(&i->trusted);
    free(i);
}

const char *issuer_trusted(const struct issuer *i)
{
    return buf_text(&i->trusted);
}

uint64_t issuer_generation(const struct issuer *i)
{
    return i->generation;
}

enum err_code issuer_issue(const struct issuer *i, const char *name, int64_t now_s,
                           struct authority_pair *out, struct err *err)
{
    if (!i->authority)
        return err_set(err, ERR_AGAIN, "there is no CA yet");
    return authority_issue(i->authority, name, now_s, ISSUER_VALID_S, out, err);
}

static enum err_code make_identity(struct issuer *i, const char *uid, int64_t now_s,
                                   struct tls_identity **out, struct err *err)
{
    struct authority_pair pair = AUTHORITY_PAIR;
    char name[NAMES_DNS_BYTES];
    struct tls_end end;
    enum err_code rc;

    names_operator_dns(uid, name);
    rc = issuer_issue(i, name, now_s, &pair, err);
    end = (struct tls_end){issuer_trusted(i), buf_text(&pair.certificate), buf_text(&pair.key)};
    if (rc == ERR_OK)
        rc = tls_identity_new_like(i->like, &end, out, err);
    if (rc == ERR_OK && !i->like)
        i->like = tls_identity_share(*out);
    authority_pair_deinit(&pair);
    return rc;
}

enum err_code issuer_caller(struct issuer *i, const char *uid, int64_t now_s,
                            struct tls_identity **out, struct err *err)
{
    struct caller *c = map_get(&i->callers, uid);
    struct tls_identity *identity = NULL;
    enum err_code rc = ERR_OK;

    if (!c) {
        c = calloc(1, sizeof *c);
        rc = c ? map_put(&i->callers, uid, c, err)
               : err_set(err, ERR_NO_MEMORY, "no memory for an identity");
        if (rc != ERR_OK) {
            free(c);
            return rc;
        }
    }
    if (c->generation != i->generation || c->until_s - now_s < ISSUER_RENEW_S) {
        rc = make_identity(i, uid, now_s, &identity, err);
        if (rc != ERR_OK)
            return rc;
        tls_identity_free(c->identity);
        c->identity = identity;
        c->generation = i->generation;
        c->until_s = now_s + ISSUER_VALID_S;
    }
    c->used_s = now_s;
    *out = c->identity;
    return ERR_OK;
}
