#include "cli/connect.h"

enum err_code connection_open(const char *kubeconfig, const char *context, struct connection *out,
                              struct err *err)
{
    struct kube_options how = {.user_agent = "kubectl-skyjob"};
    struct kube_config config = {.server = NULL};
    enum err_code rc = kube_config_load(kubeconfig, context, &config, err);

    *out = (struct connection){.http = NULL};
    if (rc == ERR_OK)
        rc = http_new(&out->http, err);
    if (rc == ERR_OK)
        rc = kube_client_new(out->http, &config, &how, &out->client, err);
    kube_config_deinit(&config);
    return rc;
}

void connection_close(struct connection *c)
{
    kube_client_free(c->client);
    http_free(c->http);
    *c = (struct connection){.http = NULL};
}
