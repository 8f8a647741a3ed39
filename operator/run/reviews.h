/* run/reviews.h - who may read the metrics: bearer tokens, and what the API server says of them.
 *
 * A token goes to the API server in a TokenReview, and the user whose it is in a
 * SubjectAccessReview: may this one `get` the path? Verdicts are kept by the SHA-256 of the token,
 * so that most requests take no call; a right that is taken away ends as much later.
 *
 * Tokens of strangers cost REVIEWS_BURST calls at once and then one per REVIEWS_REFILL_MS, however
 * many are sent, and after a call that failed there is none for REVIEWS_PAUSE_MS. A token that was
 * allowed before does not count: strangers keep out nobody who reads the metrics already.
 * Layer: run (may use base). Threads: one. Pure but for memory; time is handed in.
 */
#ifndef RUN_REVIEWS_H
#define RUN_REVIEWS_H

#include "base/clock.h"
#include "base/hmac.h"
#include "base/json.h"

#define REVIEWS_MAX             64 /* tokens that are remembered */
#define REVIEWS_ALLOWED_MS      60000
#define REVIEWS_REFUSED_MS      10000
#define REVIEWS_BURST           10
#define REVIEWS_REFILL_MS       200
#define REVIEWS_PAUSE_MS        5000
#define REVIEWS_TOKEN_MAX_BYTES 3072            /* with the NUL; an account's has about 1,000 */
#define REVIEWS_BODY_MAX_BYTES  ((size_t)65536) /* of what is sent to the API server */

enum reviews_verdict {
    REVIEWS_ASK,     /* the API server */
    REVIEWS_LATER,   /* it is not to be asked now */
    REVIEWS_ALLOWED, /* the rest are its verdicts */
    REVIEWS_UNKNOWN, /* the token is nobody's */
    REVIEWS_FORBIDDEN,
};

/* --- questions and answers --- */

/* The token in the value of an Authorization header: its end. NULL when there is none, for another
 * scheme, and for one that is too long or has characters that do not print. */
const char *reviews_token(const char *authorization);

/* Append a TokenReview. ERR_LIMIT; ERR_NO_MEMORY. */
MUST_CHECK enum err_code reviews_write_token(const char *token, struct buf *out, struct err *err);

/* Whose token is it, by the answer? *out_user is borrowed from it; NULL: nobody's. ERR_PROTOCOL
 * when the answer does not say. */
MUST_CHECK enum err_code reviews_read_token(const struct json *answer, const struct json **out_user,
                                            struct err *err);

/* Append a SubjectAccessReview for such a user, with all that the API server has said of it. As
 * reviews_write_token(). */
MUST_CHECK enum err_code reviews_write_access(const struct json *user, const char *path,
                                              struct buf *out, struct err *err);

/* May the user, by the answer? ERR_PROTOCOL when it does not say. */
MUST_CHECK enum err_code reviews_read_access(const struct json *answer, bool *out_may,
                                             struct err *err);

/* --- verdicts --- */

struct reviews { /* all fields private */
    struct reviews_entry {
        uint8_t key[HMAC_BYTES];
        enum reviews_verdict verdict;
        int64_t until_ms;
    } entries[REVIEWS_MAX];
    struct bucket strangers;
    int64_t quiet_until_ms;
};

void reviews_init(struct reviews *r);

/* The verdict on the token with the digest `key`. After REVIEWS_ASK, say what came of asking:
 * reviews_put() or reviews_pause(). */
enum reviews_verdict reviews_find(struct reviews *r, const uint8_t key[static HMAC_BYTES],
                                  int64_t now_ms);

/* Keep a verdict of the API server. One that is refused goes first when there is no room. */
void reviews_put(struct reviews *r, const uint8_t key[static HMAC_BYTES],
                 enum reviews_verdict verdict, int64_t now_ms);

/* It could not be asked. */
void reviews_pause(struct reviews *r, int64_t now_ms);

#endif
