#include "run/reader.h"

#include <openssl/crypto.h>
#include <string.h>

#include "api/names.h"
#include "base/log.h"
#include "kube/secret.h"

#define TRUSTED     "ca.crt"
#define CERTIFICATE "tls.crt"
#define KEY         "tls.key"
#define COMPONENT   "metrics-reader" /* by this label we know that it is ours */

#define SECRET_MAX_BYTES ((size_t)1 << 17)

static const char secret_template[] =
    "{'apiVersion': 'v1', 'kind': 'Secret', 'type': 'Opaque',"
    " 'metadata': {'name': $name, 'namespace': $namespace, 'labels': {"
    "   'app.kubernetes.io/name': 'skyjob', 'app.kubernetes.io/component': '" COMPONENT "',"
    "   'app.kubernetes.io/managed-by': 'skyjob-operator'}},"
    " 'stringData': {'" TRUSTED "': $trusted, '" CERTIFICATE "': $certificate, '" KEY "': $key}}";

static bool is_ours(const struct json *secret)
{
    const struct json *labels = json_path(secret, "metadata.labels");

    return strcmp(json_string(json_get(labels, "app.kubernetes.io/component"), ""), COMPONENT) == 0;
}

/* What cannot be read is as good as none. */
static bool is_good(const struct reader *r, const struct json *secret, int64_t now_s)
{
    struct buf trusted = {.max = AUTHORITY_PEM_MAX_BYTES};
    struct buf certificate = {.max = AUTHORITY_PEM_MAX_BYTES};
    int64_t from_s, until_s;
    bool is_it = kube_secret_text(secret, TRUSTED, &trusted, NULL) == ERR_OK &&
                 strcmp(buf_text(&trusted), issuer_trusted(r->issuer)) == 0 &&
                 kube_secret_text(secret, CERTIFICATE, &certificate, NULL) == ERR_OK &&
                 authority_times(buf_text(&certificate), &from_s, &until_s, NULL) == ERR_OK &&
                 until_s - now_s >= ISSUER_RENEW_S && kube_secret_has(secret, KEY);

    buf_deinit(&trusted);
    buf_deinit(&certificate);
    return is_it;
}

static enum err_code write_secret(const struct reader *r, const struct authority_pair *pair,
                                  struct buf *out, struct err *err)
{
    const struct jsont_value values[] = {
        JSONT_S("name", r->name),
        JSONT_S("namespace", r->namespace),
        JSONT_S("trusted", issuer_trusted(r->issuer)),
        JSONT_S("certificate", buf_text(&pair->certificate)),
        JSONT_S("key", buf_text(&pair->key)),
    };
    struct jsonw w;

    jsonw_init(&w, out);
    jsont_write(&w, NULL, secret_template, values, sizeof values / sizeof *values);
    return jsonw_finish(&w, err);
}

static enum err_code issue(const struct reader *r, const struct kube_ref *ref, bool is_there,
                           int64_t now_s, struct err *err)
{
    struct authority_pair pair = AUTHORITY_PAIR;
    struct buf body = {.max = SECRET_MAX_BYTES};
    enum err_code rc = issuer_issue(r->issuer, NAMES_READER_DNS, now_s, &pair, err);

    if (rc == ERR_OK)
        rc = write_secret(r, &pair, &body, err);
    if (rc == ERR_OK)
        rc = is_there ? kube_merge(r->client, ref, buf_text(&body), NULL, err)
                      : kube_create(r->client, ref, buf_text(&body), NULL, err);
    if (rc == ERR_OK)
        LOG(LOG_INFO, "certificate for readers of metrics issued", LOG_S("namespace", r->namespace),
            LOG_S("secret", r->name));
    if (body.data)
        OPENSSL_cleanse(body.data, body.cap);
    buf_deinit(&body);
    authority_pair_deinit(&pair);
    return rc;
}

enum err_code reader_tend(struct reader *r, int64_t now_ms, int64_t now_s, struct err *err)
{
    struct kube_ref ref = {.resource = &kube_secrets, .namespace = r->namespace, .name = r->name};
    struct json *secret = NULL;
    enum err_code rc;

    if (!r->name || now_ms < r->look_at_ms)
        return ERR_OK;
    rc = kube_get(r->client, &ref, &secret, err);
    if (rc == ERR_NOT_FOUND)
        rc = issue(r, &ref, false, now_s, err);
    else if (rc == ERR_OK && !is_ours(secret))
        rc = err_set(err, ERR_CONFLICT, "it exists and was not made for readers of metrics");
    else if (rc == ERR_OK && !is_good(r, secret, now_s))
        rc = issue(r, &ref, true, now_s, err);
    json_free(secret);
    r->look_at_ms = now_ms + (rc == ERR_OK ? ISSUER_LOOK_MS : ISSUER_RETRY_MS);
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "Secret %s/%s", r->namespace, r->name);
}
