/* kube/plugin.h - credentials from a program that a kubeconfig names: `users[].user.exec`, as cloud
 * providers use it (Kubernetes' "client-go credential plugins", client.authentication.k8s.io v1 and
 * v1beta1).
 *
 * The program gets the cluster's address in $KUBERNETES_EXEC_INFO where it asks for it, our stderr,
 * and our stdin if that is a terminal and it may use it. Its stdout is an ExecCredential.
 * Layer: kube (may use http, base). Threads: any.
 */
#ifndef KUBE_PLUGIN_H
#define KUBE_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

#define PLUGIN_ARGUMENTS_MAX 64 /* with the program's name; as many variables */

/* What it may ask for. NULL: not set. */
struct plugin_cluster {
    const char *server;
    const char *ca_pem;
    const char *tls_server_name;
    bool insecure;
};

/* What it gives: a token, or a certificate with its key, or both; the rest is NULL. Owned:
 * plugin_credentials_deinit(). */
struct plugin_credentials {
    char *token;
    char *cert_pem;
    char *key_pem;
    int64_t expires_ms; /* wall clock; 0: they are good until they are refused */
};

void plugin_credentials_deinit(struct plugin_credentials *c);

/* Run the program of an `exec` object; a relative path to it is relative to `folder`, a plain name
 * is looked up in $PATH. Waits until it ends, which takes minutes where someone has to log in.
 *
 * ERR_INVALID names a field that is missing or wrong, or what the program wrote that is no
 * ExecCredential; ERR_NOT_FOUND that there is no such program, with the installHint; ERR_DENIED
 * that it has failed, or needs a terminal; ERR_IO, ERR_NO_MEMORY. */
MUST_CHECK enum err_code plugin_run(const struct json *exec, const char *folder,
                                    const struct plugin_cluster *cluster,
                                    struct plugin_credentials *out, struct err *err);

#endif
