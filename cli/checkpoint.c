/* kubectl-skyjob checkpoint: have a job in the cluster write one, and wait until it is written. */
#include <getopt.h> /* optind */
#include <stdio.h>
#include <string.h>

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

static enum err_code read_job(struct kube_client *client, const struct kube_ref *ref,
                              struct status *status, int64_t *out_asked_ms, struct err *err)
{
    struct json *object = NULL;
    enum err_code rc = kube_get(client, ref, &object, err);
    const struct json *annotations = json_path(object, "metadata.annotations");

    if (rc != ERR_OK)
        return rc;
    status_read(json_get(object, "status"), status);
    if (clock_parse(json_string(json_get(annotations, ANNOTATION_CHECKPOINT), ""), out_asked_ms,
                    NULL) != ERR_OK)
        *out_asked_ms = 0;
    json_free(object);
    return ERR_OK;
}

/* The time of this request: later than those before, whatever the clocks of those who asked. */
static enum err_code ask(struct kube_client *client, const struct kube_ref *ref, int64_t *out_ms,
                         struct err *err)
{
    struct buf body = {.max = 256};
    char text[CLOCK_TEXT_BYTES];
    struct status status;
    int64_t last_ms;
    int64_t now_ms = clock_wall_ms();
    enum err_code rc = read_job(client, ref, &status, &last_ms, err);

    if (rc == ERR_OK && status_is_final(&status))
        rc = err_set(err, ERR_INVALID, "SkyJob %s is %s: there is nothing to write any more",
                     ref->name, status.state);
    if (rc != ERR_OK)
        return rc;
    if (last_ms < status.checkpoint.request_ms)
        last_ms = status.checkpoint.request_ms;
    *out_ms =
        now_ms - now_ms % 1000 > last_ms ? now_ms - now_ms % 1000 : last_ms - last_ms % 1000 + 1000;
    clock_format(*out_ms, text);
    rc = buf_addf(&body, err,
                  "{\"metadata\":{\"annotations\":{\"" ANNOTATION_CHECKPOINT "\":\"%s\"}}}", text);
    if (rc == ERR_OK)
        rc = kube_merge(client, ref, buf_text(&body), NULL, err);
    buf_deinit(&body);
    return rc;
}

/* Until the operator has dealt with the request of `asked_ms`, or a later one. */
static enum err_code wait_for(struct kube_client *client, const struct kube_ref *ref,
                              int64_t asked_ms, struct err *err)
{
    char last[STATUS_WORD_BYTES] = "";
    struct status status;
    int64_t newest_ms;
    enum err_code rc;

    for (;;) {
        rc = read_job(client, ref, &status, &newest_ms, err);
        if (rc != ERR_OK && !err_is_transient(rc))
            return rc;
        if (rc == ERR_OK && status.checkpoint.request_ms >= asked_ms) {
            if (status.checkpoint.step == 0)
                return err_set(err, ERR_IO, "%s", status.checkpoint.message);
            (void)printf("%s\n", status.checkpoint.message);
            return ERR_OK;
        }
        if (rc == ERR_OK && status_is_final(&status)) {
            (void)printf("The job is %s: its last checkpoint is that of its last step.\n",
                         status.state);
            return ERR_OK;
        }
        if (rc == ERR_OK && strcmp(last, status.state) != 0) {
            (void)fprintf(stderr, "waiting for the end of a step (%s) ...\n", status.state);
            (void)snprintf(last, sizeof last, "%s", status.state);
        }
        if (interrupt_pause())
            return err_set(err, ERR_GONE, "interrupted; the checkpoint is written nevertheless");
    }
}

int command_checkpoint(int argc, char **argv)
{
    struct arguments a = {.name = NULL};
    struct connection c;
    struct err err;
    int64_t asked_ms = 0;
    enum err_code rc;

    if (!read_arguments(argc, argv, &a))
        return command_usage(argv[0]);
    interrupt_catch();
    rc = connection_open(a.kubeconfig, a.context, &c, &err);
    if (rc == ERR_OK) {
        const struct kube_ref ref = cluster_job(c.client, a.namespace, a.name);

        rc = ask(c.client, &ref, &asked_ms, &err);
        if (rc == ERR_OK)
            rc = wait_for(c.client, &ref, asked_ms, &err);
    }
    connection_close(&c);
    return rc == ERR_OK ? EXIT_DONE : command_failed(&err);
}
