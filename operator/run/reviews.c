#include "run/reviews.h"

#include <string.h>
#include <strings.h>

#define SCHEME "Bearer "

/* --- questions and answers --- */

const char *reviews_token(const char *authorization)
{
    const char *token;
    size_t n = 0;

    if (strncasecmp(authorization, SCHEME, strlen(SCHEME)) != 0)
        return NULL;
    token = authorization + strlen(SCHEME);
    token += strspn(token, " ");
    while (token[n] > ' ' && token[n] < 0x7f)
        n++;
    return n > 0 && n < REVIEWS_TOKEN_MAX_BYTES && token[n] == '\0' ? token : NULL;
}

static enum err_code write_review(const char *text, const struct jsont_value *values,
                                  size_t n_values, struct buf *out, struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsont_write(&w, NULL, text, values, n_values);
    return jsonw_finish(&w, err);
}

enum err_code reviews_write_token(const char *token, struct buf *out, struct err *err)
{
    const struct jsont_value values[] = {JSONT_S("token", token)};

    return write_review("{'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenReview',"
                        " 'spec': {'token': $token}}",
                        values, sizeof values / sizeof values[0], out, err);
}

/* A verdict; absent means no. */
static enum err_code read_flag(const struct json *status, const char *name, bool *out,
                               struct err *err)
{
    enum json_kind kind = json_kind_of(json_get(status, name));

    if (json_kind_of(status) != JSON_OBJECT)
        return err_set(err, ERR_PROTOCOL, "a review without a status");
    if (kind != JSON_BOOL && kind != JSON_ABSENT)
        return err_set(err, ERR_PROTOCOL, "status.%s: %s instead of true or false", name,
                       json_kind_name(kind));
    *out = json_bool(json_get(status, name), false);
    return ERR_OK;
}

enum err_code reviews_read_token(const struct json *answer, const struct json **out_user,
                                 struct err *err)
{
    const struct json *status = json_get(answer, "status");
    const struct json *user = json_get(status, "user");
    const struct json *error = json_get(status, "error"); /* anything but an empty text is one */
    bool is_valid = false;
    enum err_code rc = read_flag(status, "authenticated", &is_valid, err);

    if (rc != ERR_OK)
        return rc;
    is_valid = is_valid && (!error || *json_string(error, "?") == '\0');
    if (is_valid && *json_text(user, "username") == '\0')
        return err_set(err, ERR_PROTOCOL, "status.user: a user without a name");
    *out_user = is_valid ? user : NULL;
    return ERR_OK;
}

enum err_code reviews_write_access(const struct json *user, const char *path, struct buf *out,
                                   struct err *err)
{
    const struct jsont_value values[] = {
        JSONT_V("user", json_get(user, "username")),
        JSONT_V("uid", json_get(user, "uid")),
        JSONT_V("groups", json_get(user, "groups")),
        JSONT_V("extra", json_get(user, "extra")),
        JSONT_S("path", path),
    };

    return write_review("{'apiVersion': 'authorization.k8s.io/v1', 'kind': 'SubjectAccessReview',"
                        " 'spec': {'user': $user, 'uid': $uid, 'groups': $groups, 'extra': $extra,"
                        " 'nonResourceAttributes': {'path': $path, 'verb': 'get'}}}",
                        values, sizeof values / sizeof values[0], out, err);
}

enum err_code reviews_read_access(const struct json *answer, bool *out_may, struct err *err)
{
    const struct json *status = json_get(answer, "status");
    bool is_allowed = false, is_denied = false;
    enum err_code rc = read_flag(status, "allowed", &is_allowed, err);

    if (rc == ERR_OK)
        rc = read_flag(status, "denied", &is_denied, err);
    if (rc == ERR_OK)
        *out_may = is_allowed && !is_denied;
    return rc;
}

/* --- verdicts --- */

void reviews_init(struct reviews *r)
{
    *r = (struct reviews){.strangers = {.burst = REVIEWS_BURST, .refill_ms = REVIEWS_REFILL_MS}};
}

/* NULL when it is not remembered. */
static struct reviews_entry *find_entry(struct reviews *r, const uint8_t key[static HMAC_BYTES])
{
    for (int i = 0; i < REVIEWS_MAX; i++)
        if (memcmp(r->entries[i].key, key, HMAC_BYTES) == 0)
            return &r->entries[i];
    return NULL;
}

enum reviews_verdict reviews_find(struct reviews *r, const uint8_t key[static HMAC_BYTES],
                                  int64_t now_ms)
{
    const struct reviews_entry *e = find_entry(r, key);

    if (e && now_ms < e->until_ms)
        return e->verdict;
    if (now_ms < r->quiet_until_ms)
        return REVIEWS_LATER;
    if (e && e->verdict == REVIEWS_ALLOWED)
        return REVIEWS_ASK;
    return bucket_take(&r->strangers, now_ms) ? REVIEWS_ASK : REVIEWS_LATER;
}

/* Which of two is forgotten first? A free one before all. */
static bool goes_first(const struct reviews_entry *a, const struct reviews_entry *b)
{
    bool is_a_allowed = a->verdict == REVIEWS_ALLOWED;
    bool is_b_allowed = b->verdict == REVIEWS_ALLOWED;

    return is_a_allowed != is_b_allowed ? is_b_allowed : a->until_ms < b->until_ms;
}

void reviews_put(struct reviews *r, const uint8_t key[static HMAC_BYTES],
                 enum reviews_verdict verdict, int64_t now_ms)
{
    struct reviews_entry *e = find_entry(r, key);

    if (!e) {
        e = &r->entries[0];
        for (int i = 1; i < REVIEWS_MAX; i++)
            if (goes_first(&r->entries[i], e))
                e = &r->entries[i];
    }
    memcpy(e->key, key, HMAC_BYTES);
    e->verdict = verdict;
    e->until_ms = now_ms + (verdict == REVIEWS_ALLOWED ? REVIEWS_ALLOWED_MS : REVIEWS_REFUSED_MS);
}

void reviews_pause(struct reviews *r, int64_t now_ms)
{
    r->quiet_until_ms = now_ms + REVIEWS_PAUSE_MS;
}
