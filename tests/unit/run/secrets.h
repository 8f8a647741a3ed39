/* Secrets as an API server answers with them. */
#ifndef TESTS_RUN_SECRETS_H
#define TESTS_RUN_SECRETS_H

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "certificates.h"
#include "kube/client.h"
#include "loopback.h"

/* What an API server answers, until its threads have ended. */
static struct loopback_reply secret_replies[8];
static char *secret_texts[8];
static int n_secret_texts;

static inline struct loopback *secrets_serve(const struct loopback_reply *replies, size_t n)
{
    assert_true(n <= sizeof secret_replies / sizeof secret_replies[0]);
    if (n > 0)
        memcpy(secret_replies, replies, n * sizeof *replies);
    return loopback_start(secret_replies, n);
}

/* A client of it, with a loop of its own. */
static inline void secrets_connect(struct loopback *server, struct http **out_loop,
                                   struct kube_client **out)
{
    struct kube_config config = {.namespace = strdup("default")};

    assert_non_null(server);
    assert_true(asprintf(&config.server, "http://127.0.0.1:%d", loopback_port(server)) > 0);
    assert_int_equal(http_new(out_loop, NULL), ERR_OK);
    assert_int_equal(kube_client_new(*out_loop, &config, NULL, out, NULL), ERR_OK);
}

/* Free what it was given. */
static inline void secrets_stop(struct loopback *l)
{
    loopback_stop(l);
    while (n_secret_texts > 0)
        free(secret_texts[--n_secret_texts]);
}

struct secret_member {
    const char *key;
    const char *text; /* NULL: the last one */
};

/* A Secret whose metadata are `metadata`, members of a JSON object; good until secrets_stop(). */
static inline const char *secret_json(const char *type, const char *metadata,
                                      const struct secret_member *members)
{
    struct buf out = {.max = (size_t)1 << 20};
    unsigned char *base64;

    assert_int_equal(
        buf_addf(&out, NULL, "{\"type\":\"%s\",\"metadata\":{%s},\"data\":{", type, metadata),
        ERR_OK);
    for (int i = 0; members[i].text; i++) {
        base64 = malloc(2 * strlen(members[i].text) + 8);
        assert_non_null(base64);
        (void)EVP_EncodeBlock(base64, (const unsigned char *)members[i].text,
                              (int)strlen(members[i].text));
        assert_int_equal(buf_addf(&out, NULL, "%s\"%s\":\"%s\"", i ? "," : "", members[i].key,
                                  (const char *)base64),
                         ERR_OK);
        free(base64);
    }
    assert_int_equal(buf_addf(&out, NULL, "}}"), ERR_OK);
    assert_true(n_secret_texts < 8);
    return secret_texts[n_secret_texts++] = buf_take(&out);
}

/* That of the operator's CA. */
static inline const char *secret_of_ca(const struct authority_pair *ca)
{
    const struct secret_member members[] = {{"tls.crt", buf_text(&ca->certificate)},
                                            {"tls.key", buf_text(&ca->key)},
                                            {"ca.crt", buf_text(&ca->certificate)},
                                            {NULL, NULL}};

    return secret_json("Opaque", "\"name\":\"ca\"", members);
}

#endif
