/* http/s3.h - objects in a bucket of any S3-compatible server.
 *
 * Requests are signed by libcurl. Everything large travels in pieces of S3_PIECE_BYTES, each with a
 * deadline and repeated by itself: a file is uploaded in parts and fetched by ranges. What may pass
 * is tried again with growing pauses: a server that is busy, restarts, does not answer or cuts the
 * connection. Errors are sentences that name the bucket, the reason and the server's word for it:
 * "s3://runs/a/b: the secret access key is wrong (SignatureDoesNotMatch, 403)".
 *
 *   ERR_DENIED     the credentials are wrong or not enough, or a certificate was not accepted
 *   ERR_NOT_FOUND  no such object, or no such bucket
 *   ERR_INVALID    the bucket, region or endpoint cannot be used
 *   ERR_LIMIT      the bucket is full, or a limit of this header
 *   ERR_IO, ERR_TIMEOUT  also after all tries
 *   ERR_PROTOCOL   the answer cannot be read
 *   ERR_GONE       stopped: s3_stop_at()
 *
 * Layer: http (may use base). Threads: one at a time per struct s3.
 */
#ifndef HTTP_S3_H
#define HTTP_S3_H

#include <limits.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "http/http.h"

#define S3_SCHEME       "s3://"
#define S3_BUCKET_BYTES 64
#define S3_PREFIX_BYTES 512
#define S3_KEY_BYTES    1025
#define S3_PIECE_BYTES  ((size_t)8 << 20) /* S3 wants 5 MiB at least ... */
#define S3_PARTS_MAX    10000             /* ... and no more parts of an object */
#define S3_OBJECTS_MAX  100000            /* of a listing */
#define S3_TRIES        8                 /* of a request: 15 s of pauses */
#define S3_DEADLINE_MS  60000             /* of a request: a piece needs 140 KB/s */

/* Where a bucket is, and who may use it. All texts are borrowed. */
struct s3_access {
    char bucket[S3_BUCKET_BYTES];
    char prefix[S3_PREFIX_BYTES]; /* of all keys; without slashes at its ends; may be "" */
    const char *endpoint; /* https://host[:port]; with "{bucket}" in it the bucket stands there, and
                             not in the path; NULL: AWS's for the region */
    const char *region;   /* NULL: us-east-1 */
    const char *key_id;
    const char *secret;
    const char *session_token; /* NULL: none */
    const char *ca_pem;        /* trust only these; NULL: as ca_path has it ... */
    const char *ca_path;       /* ... or, for NULL too, the system's */
};

/* Is it "s3://..."? */
bool s3_is_url(const char *text);

/* Read "s3://bucket/prefix" and the variables that AWS's own tools read: AWS_ACCESS_KEY_ID,
 * AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or
 * AWS_DEFAULT_REGION, AWS_CA_BUNDLE; and S3_CA_PEM_VARIABLE, with the certificates themselves.
 * ERR_INVALID for what is wrong or missing. */
#define S3_CA_PEM_VARIABLE "SKYJOB_S3_CA"
MUST_CHECK enum err_code s3_access_load(const char *url, struct s3_access *out, struct err *err);

struct s3;

/* Nothing is sent yet. On ERR_OK the caller owns *out: s3_free(). ERR_INVALID for an endpoint that
 * is none, and for a file with certificates that cannot be read; ERR_NO_MEMORY. */
MUST_CHECK enum err_code s3_new(const struct s3_access *access, struct s3 **out, struct err *err);
void s3_free(struct s3 *s); /* NULL is fine */

/* From now on calls end soon, with ERR_GONE, once *stops is true; NULL: they do not. */
void s3_stop_at(struct s3 *s, const atomic_bool *stops);
/* From now on a request is sent so often at most, and may take so long each time. */
void s3_set_patience(struct s3 *s, int n_tries, int64_t deadline_ms);

/* --- objects; keys count from the prefix --- */

struct s3_object {
    const char *key;
    const char *etag;
    int64_t bytes;
};
/* Any code but ERR_OK ends the listing with that error. */
typedef enum err_code s3_object_fn(void *ctx, const struct s3_object *object, struct err *err);

/* Call `fn` for every object, in the order of their keys; what it is given is good during the call.
 * ERR_LIMIT above S3_OBJECTS_MAX. */
MUST_CHECK enum err_code s3_list(struct s3 *s, s3_object_fn *fn, void *ctx, struct err *err);

/* Any code but ERR_OK ends the listing with that error. */
typedef enum err_code s3_folder_fn(void *ctx, const char *name, struct err *err);

/* Call `fn` for every folder whose name begins with `start`, in order: a folder is what keys have
 * before their first slash. ERR_LIMIT above S3_OBJECTS_MAX. */
MUST_CHECK enum err_code s3_list_folders(struct s3 *s, const char *start, s3_folder_fn *fn,
                                         void *ctx, struct err *err);

/* Append `n` bytes of an object from byte `from` on. ERR_PROTOCOL when there are fewer. */
MUST_CHECK enum err_code s3_get(struct s3 *s, const char *key, int64_t from, size_t n,
                                struct buf *out, struct err *err);

MUST_CHECK enum err_code s3_put(struct s3 *s, const char *key, const void *bytes, size_t n,
                                struct err *err);
/* Upload a file that does not change meanwhile. An upload in parts that fails is aborted. Errors of
 * reading it too: ERR_NOT_FOUND, ERR_DENIED, ERR_IO with its path. */
MUST_CHECK enum err_code s3_put_file(struct s3 *s, const char *key, const char *path,
                                     struct err *err);

/* Copy an object of `bytes` bytes within the bucket; `from` is another client of it, and `from_key`
 * counts from its prefix. The server copies it; where it refuses that, as Amazon does above 5 GiB,
 * the object is fetched and uploaded in pieces. */
MUST_CHECK enum err_code s3_copy(struct s3 *s, const char *key, struct s3 *from,
                                 const char *from_key, int64_t bytes, struct err *err);

/* One that is not there is fine. */
MUST_CHECK enum err_code s3_delete(struct s3 *s, const char *key, struct err *err);

#endif
