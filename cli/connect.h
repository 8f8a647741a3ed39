/* cli/connect.h - a connection to the cluster of the user's kubeconfig.
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_CONNECT_H
#define CLI_CONNECT_H

#include "kube/client.h"

struct connection {
    struct http *http;
    struct kube_client *client;
};

/* `kubeconfig` and `context` as kube_config_load() takes them. Call connection_close() whatever it
 * returns: the errors of kube_config_load(), http_new() and kube_client_new(). */
MUST_CHECK enum err_code connection_open(const char *kubeconfig, const char *context,
                                         struct connection *out, struct err *err);
void connection_close(struct connection *c);

#endif
