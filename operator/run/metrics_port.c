#include "run/metrics_port.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "base/clock.h"
#include "base/families.h"
#include "base/log.h"
#include "base/process.h"
#include "http/server.h"
#include "run/reviews.h"

#define PATH "/metrics"

_Static_assert(METRICS_BYTES + PROCESS_FAMILIES_BYTES <= SERVER_ANSWER_BYTES,
               "the metrics fit an answer");

struct metrics_port {
    struct server *server;
    struct kube_client *client; /* this and the next are of the server's thread */
    struct reviews reviews;
    uint64_t generation;  /* of the CA that has issued the certificate; 0: one of its own */
    int64_t renew_s;      /* when it is to be renewed */
    pthread_mutex_t lock; /* of the next */
    bool is_published;
    struct metrics metrics;
};

/* --- reviews --- */

static enum err_code create(struct metrics_port *p, const char *group, const char *plural,
                            const struct buf *body, struct json **out, struct err *err)
{
    const struct kube_resource resource = {group, "v1", plural, false};
    const struct kube_ref ref = {.resource = &resource};

    return kube_create(p->client, &ref, buf_text(body), out, err);
}

static enum err_code ask_access(struct metrics_port *p, const struct json *user,
                                enum reviews_verdict *out, struct err *err)
{
    struct buf body = {.max = REVIEWS_BODY_MAX_BYTES};
    struct json *answer = NULL;
    bool may = false;
    enum err_code rc = reviews_write_access(user, PATH, &body, err);

    if (rc == ERR_OK)
        rc = create(p, "authorization.k8s.io", "subjectaccessreviews", &body, &answer, err);
    if (rc == ERR_OK)
        rc = reviews_read_access(answer, &may, err);
    if (rc == ERR_OK)
        *out = may ? REVIEWS_ALLOWED : REVIEWS_FORBIDDEN;
    json_free(answer);
    buf_deinit(&body);
    return rc;
}

static enum err_code ask(struct metrics_port *p, const char *token, enum reviews_verdict *out,
                         struct err *err)
{
    struct buf body = {.max = REVIEWS_BODY_MAX_BYTES};
    struct json *answer = NULL;
    const struct json *user = NULL;
    enum err_code rc = reviews_write_token(token, &body, err);

    if (rc == ERR_OK)
        rc = create(p, "authentication.k8s.io", "tokenreviews", &body, &answer, err);
    if (rc == ERR_OK)
        rc = reviews_read_token(answer, &user, err);
    if (rc == ERR_OK && !user)
        *out = REVIEWS_UNKNOWN;
    else if (rc == ERR_OK)
        rc = ask_access(p, user, out, err);
    json_free(answer);
    buf_deinit(&body);
    return rc;
}

/* What is known about the token, or else what the API server says. */
static enum reviews_verdict review(struct metrics_port *p, const char *token)
{
    enum reviews_verdict verdict = REVIEWS_LATER;
    uint8_t key[HMAC_BYTES];
    struct err err;

    if (hmac_digest(token, strlen(token), key, &err) != ERR_OK)
        return REVIEWS_LATER;
    verdict = reviews_find(&p->reviews, key, clock_now_ms());
    if (verdict != REVIEWS_ASK)
        return verdict;
    if (ask(p, token, &verdict, &err) == ERR_OK) {
        reviews_put(&p->reviews, key, verdict, clock_now_ms());
        return verdict;
    }
    LOG(LOG_WARN, "caller of metrics not reviewed", LOG_S("error", err.text));
    reviews_pause(&p->reviews, clock_now_ms());
    return REVIEWS_LATER;
}

/* --- requests --- */

static void refuse(struct server_answer *out, int status, const char *text)
{
    out->status = status;
    (void)!buf_addf(&out->body, NULL, "%s\n", text); /* without memory, the status has to do */
}

/* What the loop has published and, since a loop that hangs publishes nothing, what the process uses
 * now. The loop may want the lock, so nothing is written with it. */
static enum err_code add_metrics(struct metrics_port *p, struct buf *out)
{
    struct process process;
    struct metrics metrics;
    bool is_published;
    enum err_code rc = process_read(&process, NULL);

    pthread_mutex_lock(&p->lock);
    is_published = p->is_published;
    metrics = p->metrics;
    pthread_mutex_unlock(&p->lock);
    if (rc == ERR_OK && is_published)
        rc = metrics_write(&metrics, out, NULL);
    return rc == ERR_OK ? process_write(&process, out, NULL) : rc;
}

static void answer(struct metrics_port *p, const char *token, struct server_answer *out)
{
    switch (token ? review(p, token) : REVIEWS_UNKNOWN) {
    case REVIEWS_ALLOWED:
        out->type = FAMILIES_TYPE;
        if (add_metrics(p, &out->body) != ERR_OK) {
            buf_reset(&out->body);
            refuse(out, 503, "no memory for the metrics");
        }
        break;
    case REVIEWS_UNKNOWN:
        refuse(out, 401, "send a bearer token that the API server accepts");
        break;
    case REVIEWS_FORBIDDEN:
        refuse(out, 403, "this user may not get the non-resource URL " PATH);
        break;
    case REVIEWS_ASK:
    case REVIEWS_LATER:
        refuse(out, 503, "the API server cannot be asked about this token now: try again soon");
        break;
    }
}

static void on_request(void *ctx, const struct server_request *r, struct server_answer *out)
{
    size_t n = strcspn(r->path, "?");

    if (n != strlen(PATH) || strncmp(r->path, PATH, n) != 0)
        refuse(out, 404, "try " PATH);
    else if (strcmp(r->method, "GET") != 0)
        refuse(out, 405, "only GET is allowed");
    else
        answer(ctx, reviews_token(server_header(r, "Authorization")), out);
}

/* --- the certificate --- */

static enum err_code issue_alone(struct authority_pair *ca, int64_t now_s,
                                 struct authority_pair *out, struct err *err)
{
    struct authority *authority = NULL;
    enum err_code rc = authority_make(now_s, ca, err);

    if (rc == ERR_OK)
        rc = authority_parse(buf_text(&ca->certificate), buf_text(&ca->key), &authority, err);
    if (rc == ERR_OK)
        rc =
            authority_issue(authority, NAMES_OPERATOR_METRICS_DNS, now_s, ISSUER_VALID_S, out, err);
    authority_free(authority);
    return rc;
}

/* Without an issuer, or as long as it has no CA, of a CA of its own. */
static enum err_code make_identity(const struct issuer *issuer, int64_t now_s,
                                   struct tls_identity **out, struct err *err)
{
    struct authority_pair ca = AUTHORITY_PAIR, pair = AUTHORITY_PAIR;
    bool has_ca = issuer && issuer_generation(issuer) != 0;
    enum err_code rc = has_ca ? issuer_issue(issuer, NAMES_OPERATOR_METRICS_DNS, now_s, &pair, err)
                              : issue_alone(&ca, now_s, &pair, err);
    struct tls_end end = {has_ca ? issuer_trusted(issuer) : buf_text(&ca.certificate),
                          buf_text(&pair.certificate), buf_text(&pair.key)};

    if (rc == ERR_OK)
        rc = tls_identity_new(&end, out, err);
    authority_pair_deinit(&ca);
    authority_pair_deinit(&pair);
    return rc;
}

enum err_code metrics_port_tend(struct metrics_port *p, const struct issuer *issuer, int64_t now_s,
                                struct err *err)
{
    uint64_t generation = issuer ? issuer_generation(issuer) : 0;
    struct tls_identity *identity = NULL;
    enum err_code rc;

    if (generation == p->generation && now_s < p->renew_s)
        return ERR_OK;
    rc = make_identity(issuer, now_s, &identity, err);
    if (rc == ERR_OK)
        rc = server_renew(p->server, identity, err);
    tls_identity_free(identity);
    p->generation = generation;
    p->renew_s = now_s + (rc == ERR_OK ? ISSUER_VALID_S - ISSUER_RENEW_S : METRICS_PORT_RETRY_S);
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "the metrics' certificate");
}

/* --- life --- */

enum err_code metrics_port_open(const char *address, struct kube_client *client, int64_t now_s,
                                struct metrics_port **out, struct err *err)
{
    struct metrics_port *p = calloc(1, sizeof *p);
    struct tls_identity *identity = NULL;
    enum err_code rc;

    if (!p)
        return err_set(err, ERR_NO_MEMORY, "no memory for the metrics' port");
    p->client = client;
    p->renew_s = now_s + ISSUER_VALID_S - ISSUER_RENEW_S;
    reviews_init(&p->reviews);
    (void)pthread_mutex_init(&p->lock, NULL);
    rc = make_identity(NULL, now_s, &identity, err);
    if (rc == ERR_OK) {
        const struct server_handler handler = {
            .ctx = p, .on_request = on_request, .identity = identity, .is_open = true};

        rc = server_open_at(address, handler, &p->server, err);
    }
    tls_identity_free(identity);
    if (rc != ERR_OK) {
        metrics_port_close(p);
        return err_wrap(err, rc, "metrics address");
    }
    *out = p;
    return ERR_OK;
}

void metrics_port_close(struct metrics_port *p)
{
    if (!p)
        return;
    http_stop(kube_client_http(p->client));
    server_close(p->server);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

void metrics_port_publish(struct metrics_port *p, const struct metrics *metrics)
{
    pthread_mutex_lock(&p->lock);
    p->metrics = *metrics;
    p->is_published = true;
    pthread_mutex_unlock(&p->lock);
}
