#include "cli/target.h"

#include <getopt.h> /* optind */

#include "base/buf.h"
#include "cli/cluster.h"

static bool read_arguments(int argc, char **argv, const struct command_option *more,
                           struct target *t)
{
    const struct command_option own[] = {
        {"namespace", 'n', .value = &t->namespace},
        {"kubeconfig", .value = &t->kubeconfig},
        {"context", .value = &t->context},
    };
    struct command_option all[COMMAND_OPTIONS_MAX + 1] = {{.name = NULL}};
    size_t n = 0;

    for (; n < sizeof own / sizeof own[0]; n++)
        all[n] = own[n];
    for (; more && more->name; more++)
        all[n++] = *more;
    if (!command_options(argc, argv, all) || optind < argc - 1)
        return false;
    t->name = argv[optind]; /* NULL behind the last */
    return true;
}

static int run(int argc, char **argv, const struct command_option *more, bool needs_name,
               struct target_action action)
{
    struct target t = {.name = NULL};
    struct err err;
    enum err_code rc;

    if (!read_arguments(argc, argv, more, &t) || (needs_name && !t.name))
        return command_usage(argv[0]);
    rc = connection_open(t.kubeconfig, t.context, &t.connection, &err);
    if (rc == ERR_OK) {
        if (!t.namespace)
            t.namespace = kube_client_config(t.connection.client)->namespace;
        t.ref = (struct kube_ref){
            .resource = &cluster_skyjobs, .namespace = t.namespace, .name = t.name};
        rc = action.run(action.ctx, &t, &err);
    }
    connection_close(&t.connection);
    return rc == ERR_OK ? EXIT_DONE : command_failed(&err);
}

int target_run(int argc, char **argv, const struct command_option *more,
               struct target_action action)
{
    return run(argc, argv, more, true, action);
}

int target_run_any(int argc, char **argv, const struct command_option *more,
                   struct target_action action)
{
    return run(argc, argv, more, false, action);
}

enum err_code target_get(struct target *t, struct status *out_status, struct json **out,
                         struct err *err)
{
    struct json *object = NULL;
    enum err_code rc = kube_get(t->connection.client, &t->ref, &object, err);

    if (rc != ERR_OK)
        return rc;
    status_read(json_get(object, "status"), out_status);
    if (out)
        *out = object;
    else
        json_free(object);
    return ERR_OK;
}

enum err_code target_annotate(struct target *t, const char *key, const char *value, struct err *err)
{
    struct buf body = {.max = 256};
    enum err_code rc =
        buf_addf(&body, err, "{\"metadata\":{\"annotations\":{\"%s\":\"%s\"}}}", key, value);

    if (rc == ERR_OK)
        rc = kube_merge(t->connection.client, &t->ref, buf_text(&body), NULL, err);
    buf_deinit(&body);
    return rc;
}
