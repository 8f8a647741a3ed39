/* kubectl-skyjob replan: have the operator look for a better cut of a running job. */
#include <getopt.h> /* optind */
#include <stdio.h>

#include "api/names.h"
#include "api/status.h"
#include "base/clock.h"
#include "cli/cluster.h"
#include "cli/command.h"

struct arguments {
    const char *name;
    const char *namespace;
    const char *kubeconfig;
    const char *context;
};

static bool read_arguments(int argc, char **argv, struct arguments *a)
{
    const struct command_option options[] = {
        {"namespace", 'n', .value = &a->namespace},
        {"kubeconfig", .value = &a->kubeconfig},
        {"context", .value = &a->context},
        {.name = NULL},
    };

    if (!command_options(argc, argv, options) || optind != argc - 1)
        return false;
    a->name = argv[optind];
    return true;
}

/* As `kubectl rollout restart` does it: a new value of an annotation asks. */
static enum err_code ask(struct kube_client *client, const struct kube_ref *ref, struct err *err)
{
    struct buf body = {.max = 256};
    struct json *object = NULL;
    char now[CLOCK_TEXT_BYTES];
    struct status status;
    enum err_code rc = kube_get(client, ref, &object, err);

    if (rc != ERR_OK)
        return rc;
    status_read(json_get(object, "status"), &status);
    json_free(object);
    if (status_is_final(&status))
        return err_set(err, ERR_INVALID, "SkyJob %s is %s: no unit moves any more", ref->name,
                       status.state);
    clock_format(clock_wall_ms(), now);
    rc = buf_addf(&body, err, "{\"metadata\":{\"annotations\":{\"" ANNOTATION_REPLAN "\":\"%s\"}}}",
                  now);
    if (rc == ERR_OK)
        rc = kube_merge(client, ref, buf_text(&body), NULL, err);
    buf_deinit(&body);
    return rc;
}

int command_replan(int argc, char **argv)
{
    struct arguments a = {.name = NULL};
    struct connection c;
    struct err err;
    enum err_code rc;

    if (!read_arguments(argc, argv, &a))
        return command_usage(argv[0]);
    rc = connection_open(a.kubeconfig, a.context, &c, &err);
    if (rc == ERR_OK) {
        const struct kube_ref ref = cluster_job(c.client, a.namespace, a.name);

        rc = ask(c.client, &ref, &err);
        if (rc == ERR_OK)
            (void)printf("replan of %s requested; the answer is an Event of the job\n", a.name);
    }
    connection_close(&c);
    return rc == ERR_OK ? EXIT_DONE : command_failed(&err);
}
