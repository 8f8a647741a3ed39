/* CAs and identities for tests. */
#ifndef TEST_CERTIFICATES_H
#define TEST_CERTIFICATES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "base/file.h"
#include "tls/authority.h"
#include "tls/tls.h"

#define CERTIFICATES_DAY_S 86400

static inline struct authority_pair certificates_authority(void)
{
    struct authority_pair ca = AUTHORITY_PAIR;

    assert_int_equal(authority_make((int64_t)time(NULL), &ca, NULL), ERR_OK);
    return ca;
}

/* A certificate by `ca` for `name`, made at `now_s`. The caller frees it. */
static inline struct authority_pair certificates_pair(const struct authority_pair *ca,
                                                      const char *name, int64_t now_s)
{
    struct authority_pair pair = AUTHORITY_PAIR;
    struct authority *a = NULL;

    assert_int_equal(authority_parse(buf_text(&ca->certificate), buf_text(&ca->key), &a, NULL),
                     ERR_OK);
    assert_int_equal(authority_issue(a, name, now_s, CERTIFICATES_DAY_S, &pair, NULL), ERR_OK);
    authority_free(a);
    return pair;
}

/* The same as an identity that trusts `trusted`. */
static inline struct tls_identity *certificates_at(const struct authority_pair *ca,
                                                   const char *trusted, const char *name,
                                                   int64_t now_s)
{
    struct authority_pair pair = certificates_pair(ca, name, now_s);
    struct tls_end end = {trusted, buf_text(&pair.certificate), buf_text(&pair.key)};
    struct tls_identity *id = NULL;

    assert_int_equal(tls_identity_new(&end, &id, NULL), ERR_OK);
    authority_pair_deinit(&pair);
    return id;
}

/* One that trusts only `trusted`. */
static inline struct tls_identity *certificates_identity(const struct authority_pair *ca,
                                                         const struct authority_pair *trusted,
                                                         const char *name)
{
    return certificates_at(ca, buf_text(&trusted->certificate), name, (int64_t)time(NULL));
}

/* ca.crt, and a pair of files such as "tls", in a folder that exists; each replaced whole. */
static inline void certificates_write_pair(const char *folder, const struct authority_pair *ca,
                                           const char *name, const char *file)
{
    struct authority_pair pair = certificates_pair(ca, name, (int64_t)time(NULL));
    char crt[32], key[32];
    const struct {
        const char *file;
        const struct buf *text;
    } files[] = {{"ca.crt", &ca->certificate}, {crt, &pair.certificate}, {key, &pair.key}};
    char path[PATH_MAX];

    (void)snprintf(crt, sizeof crt, "%s.crt", file);
    (void)snprintf(key, sizeof key, "%s.key", file);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        assert_int_equal(folder_path(folder, files[i].file, path, NULL), ERR_OK);
        assert_int_equal(file_write(path, files[i].text->data, files[i].text->len, NULL), ERR_OK);
    }
    authority_pair_deinit(&pair);
}

/* The files of a worker. */
static inline void certificates_write(const char *folder, const struct authority_pair *ca,
                                      const char *name)
{
    certificates_write_pair(folder, ca, name, "tls");
}

#endif
