/* run/issuer.h - the CA of all jobs, in a Secret, and what it issues.
 *
 * The Secret has ca.crt, the CAs that are trusted, and the one that issues, tls.crt and tls.key.
 * The operator makes it, and replaces the CA before it ends, in phases (issuer_phase()): the next
 * one is trusted by all before it issues, and the old one until nothing of it is left. A Secret of
 * type kubernetes.io/tls belongs to another program, such as cert-manager, and is only read.
 *
 * The CA's key is in that Secret and in the operators' memory, and nowhere else.
 * Layer: run. Threads: one. issuer_tend() waits for the API server; callbacks of watches run
 * meanwhile.
 */
#ifndef RUN_ISSUER_H
#define RUN_ISSUER_H

#include "kube/client.h"
#include "tls/authority.h"
#include "tls/tls.h"

#define ISSUER_VALID_S  ((int64_t)30 * 86400)  /* of a pod's certificate, and of the operator's */
#define ISSUER_RENEW_S  ((int64_t)10 * 86400)  /* before its end another one is issued */
#define ISSUER_ROTATE_S ((int64_t)365 * 86400) /* before the CA's end another one is made */
#define ISSUER_SPREAD_S ((int64_t)7 * 86400)   /* until all pods trust it, or have theirs of it */
#define ISSUER_LOOK_MS  60000                  /* between two looks at the Secret */
#define ISSUER_RETRY_MS 5000

struct issuer; /* on the heap; all fields private */

/* What is to be done about the CA. */
enum issuer_phase {
    ISSUER_STEADY,
    ISSUER_MAKE_NEXT, /* and trust both */
    ISSUER_SWITCH,    /* issue by the next one, and still trust both */
    ISSUER_DROP,      /* trust only the one that issues */
};

/* Pure. Times in seconds since 1970; `next_from_s` is when the next CA was made, 0: there is none;
 * `from_s` and `until_s` are of the one that issues. */
enum issuer_phase issuer_phase(int64_t now_s, int64_t from_s, int64_t until_s, int64_t next_from_s,
                               bool trusts_old);

/* `client` and the texts are borrowed. ERR_NO_MEMORY. */
MUST_CHECK enum err_code issuer_new(struct kube_client *client, const char *namespace,
                                    const char *name, struct issuer **out, struct err *err);
void issuer_free(struct issuer *i); /* NULL is allowed */

/* Look at the Secret if that is due, and make or change it: only an operator that leads may. Any
 * other only reads it, and ERR_OK may mean that there is none yet; when it begins to lead, a look
 * is due. Errors of calls to the API server, or ERR_INVALID for a Secret that cannot be used; then
 * it is looked at again after ISSUER_RETRY_MS, and what is known goes on. */
MUST_CHECK enum err_code issuer_tend(struct issuer *i, bool leads, int64_t now_ms, int64_t now_s,
                                     struct err *err);

/* The CAs that are trusted, as PEM: the first one issues. "" as long as there is none. Borrowed. */
const char *issuer_trusted(const struct issuer *i);
/* Changes with them; 0 as long as there is none. */
uint64_t issuer_generation(const struct issuer *i);

/* Issue a certificate. Appends to *out. ERR_AGAIN as long as there is no CA; otherwise as
 * authority_issue(). */
MUST_CHECK enum err_code issuer_issue(const struct issuer *i, const char *name, int64_t now_s,
                                      struct authority_pair *out, struct err *err);

/* The operator's identity for calls to workers of the job with this uid: made when it is needed,
 * kept while it is used. Borrowed until the next call or issuer_tend(). As issuer_issue(). */
MUST_CHECK enum err_code issuer_caller(struct issuer *i, const char *uid, int64_t now_s,
                                       struct tls_identity **out, struct err *err);

#endif
