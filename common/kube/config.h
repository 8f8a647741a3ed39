/* kube/config.h - the API server's address and our credentials.
 *
 * From the pod's service account or kubeconfig files. Unsupported logins (auth providers,
 * passwords) are errors that name an alternative: ignored, they would show up as "forbidden" much
 * later. Of several files in $KUBECONFIG those that exist count, and of what two of them have under
 * the same name, that of the first, as with kubectl. Layer: kube (may use http, base). Threads:
 * one.
 */
#ifndef KUBE_CONFIG_H
#define KUBE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define KUBE_CONFIG_MAX_BYTES ((size_t)1 << 20) /* of each file read */
#define KUBE_CONFIG_FILES_MAX 16
#define KUBE_ACCOUNT_FOLDER   "/var/run/secrets/kubernetes.io/serviceaccount"

/* All texts are owned; kube_config_deinit(). NULL means "not set". */
struct kube_config {
    char *server;     /* "https://10.0.0.1:6443", without a slash at the end */
    char *namespace;  /* never NULL: "default" unless set */
    char *token;      /* the newest one read */
    char *token_file; /* where newer ones come from */
    char *ca_pem;
    char *ca_file; /* where newer ones come from */
    char *cert_pem;
    char *key_pem;
    char *cert_file; /* where newer ones come from */
    char *key_file;
    char *plugin; /* JSON: the program that gives token and certificate (kube/plugin.h) ... */
    char *plugin_folder;   /* ... of the file that names it */
    int64_t expires_ms;    /* of what it gave last; 0: never */
    char *tls_server_name; /* the name that the certificate must carry, if not the server's */
    bool insecure;         /* insecure-skip-tls-verify */
    bool in_cluster;
};

void kube_config_deinit(struct kube_config *c);

/* Find and read the configuration, and run the plugin if there is one: `path` if not NULL, else
 * $KUBECONFIG, else the pod's service account if there is one, else ~/.kube/config. `context` NULL
 * is the file's current-context.
 *
 * Returns ERR_NOT_FOUND when there is none, ERR_INVALID with the file and the reason, or the errors
 * of file_read() and plugin_run(). */
MUST_CHECK enum err_code kube_config_load(const char *path, const char *context,
                                          struct kube_config *out, struct err *err);

/* Read a kubeconfig text with paths relative to `folder`. Codes as above. */
MUST_CHECK enum err_code kube_config_parse(const struct buf *yaml, const char *folder,
                                           const char *context, struct kube_config *out,
                                           struct err *err);

/* The service account in `folder` (KUBE_ACCOUNT_FOLDER); `host` and `port` are the values of
 * KUBERNETES_SERVICE_HOST and _PORT. An IPv6 host gets its brackets. */
MUST_CHECK enum err_code kube_config_in_cluster(const char *folder, const char *host,
                                                const char *port, struct kube_config *out,
                                                struct err *err);

/* Read the files again. An old text stays if a newer one cannot be read or is empty, as it may be
 * during a rotation. The plugin is run again when what it gave has expired, or `is_refused` by the
 * server. */
void kube_config_refresh(struct kube_config *c, bool is_refused);

#endif
