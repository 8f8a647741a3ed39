/* train/credentials.h - the worker's certificate, in a folder whose files are renewed meanwhile.
 *
 * The folder has ca.crt, tls.crt and tls.key, as a Secret of Kubernetes for TLS has them. The
 * certificate names this worker (api/names.h), and with it the job: so the operator of that very
 * job is the only one that may call. Beside them may be metrics.crt and metrics.key, of the metrics
 * port.
 * Layer: train (may use tls api base). Threads: any, but only one in credentials_refresh().
 */
#ifndef TRAIN_CREDENTIALS_H
#define TRAIN_CREDENTIALS_H

#include "api/names.h"
#include "tls/tls.h"

struct credentials; /* on the heap; all fields private */

/* Read the files, for the worker of this slot and incarnation. The caller owns *out:
 * credentials_close(). As file_read(); ERR_INVALID when a file cannot be used, or the certificate
 * names another worker; ERR_NO_MEMORY. */
MUST_CHECK enum err_code credentials_open(const char *folder, int slot, int incarnation,
                                          struct credentials **out, struct err *err);
/* Likewise, for the metrics port. */
MUST_CHECK enum err_code credentials_open_metrics(const char *folder, struct credentials **out,
                                                  struct err *err);
/* NULL is allowed, here and below. */
void credentials_close(struct credentials *c);

/* What the files hold now, shared: tls_identity_free(). NULL without credentials. */
struct tls_identity *credentials_identity(struct credentials *c);

/* The name of the job's operator, and of a worker. "" without credentials, and of no use for those
 * of the metrics port. */
void credentials_operator_name(const struct credentials *c, char out[static NAMES_DNS_BYTES]);
void credentials_worker_name(const struct credentials *c, int slot, int incarnation,
                             char out[static NAMES_DNS_BYTES]);

/* Read the files again if they have changed. Returns ERR_OK with *out_changed; the codes of
 * credentials_open() when the new ones cannot be used: the old ones are kept, and they are read
 * again at the next call. */
MUST_CHECK enum err_code credentials_refresh(struct credentials *c, bool *out_changed,
                                             struct err *err);

#endif
