/* run/reader.h - the certificate by which Prometheus reads the metrics of workers, in a Secret.
 *
 * The Secret lies beside that of the CA (run/issuer.h) and has ca.crt, tls.crt and tls.key, of the
 * name NAMES_READER_DNS. The operator makes it, and issues it again before it ends, or when the CA
 * changes. One of the same name that it has not made is left alone.
 * Layer: run. Threads: one. Waits for the API server; callbacks of watches run meanwhile.
 */
#ifndef RUN_READER_H
#define RUN_READER_H

#include "run/issuer.h"

struct reader { /* borrowed, but for the last one */
    struct kube_client *client;
    const struct issuer *issuer;
    const char *namespace;
    const char *name; /* NULL: there is none, and reader_tend() does nothing */
    int64_t look_at_ms;
};

/* Look at the Secret if that is due, and make or change it: only an operator that leads may, with a
 * CA. ERR_CONFLICT for one that is not ours; errors of calls to the API server and of
 * issuer_issue(). Then it is looked at again after ISSUER_RETRY_MS. */
MUST_CHECK enum err_code reader_tend(struct reader *r, int64_t now_ms, int64_t now_s,
                                     struct err *err);

#endif
