/* kubectl-skyjob status: the progress of a job in the cluster, once or until it has ended. */
#include <getopt.h> /* optind */
#include <stdio.h>

#include "base/clock.h"
#include "cli/cluster.h"
#include "cli/command.h"
#include "cli/show.h"

struct arguments {
    const char *name;
    const char *namespace;
    const char *kubeconfig;
    const char *context;
    bool follows;
};

static bool read_arguments(int argc, char **argv, struct arguments *a)
{
    const struct command_option options[] = {
        {"namespace", 'n', .value = &a->namespace},
        {"follow", 'f', .is_set = &a->follows},
        {"kubeconfig", .value = &a->kubeconfig},
        {"context", .value = &a->context},
        {.name = NULL},
    };

    if (!command_options(argc, argv, options) || optind != argc - 1)
        return false;
    a->name = argv[optind];
    return true;
}

/* Print what has changed. */
static void print_news(const struct status *s, struct show *show, int *revision)
{
    bool is_over = status_is_final(s);
    bool is_new = s->revision != *revision;
    char line[SHOW_LINE_BYTES];

    if (is_over || (is_new && s->n_stages > 0))
        show_end(show);
    if (s->n_stages > 0 && (is_over || is_new)) {
        if (is_new && s->revision > 1)
            (void)printf("revision %d\n", s->revision);
        show_status_placement(stdout, s, is_new);
        (void)printf("\n");
        *revision = s->revision;
    }
    if (is_over) {
        show_status_end(stdout, s);
        return;
    }
    show_status_text(s, line);
    show_line(show, line, false, clock_now_ms());
}

/* Once, or until the job has ended or Ctrl-C. */
static enum err_code watch(struct kube_client *client, const struct kube_ref *ref, bool follows,
                           struct status *status, struct err *err)
{
    struct show show;
    int revision = 0;
    bool was_seen = false;
    enum err_code rc;

    show_init(&show, stdout);
    show.is_tty = show.is_tty && follows; /* else a line need not fit the width */
    for (;;) {
        struct json *object = NULL;

        rc = kube_get(client, ref, &object, err);
        if (rc == ERR_OK) {
            was_seen = true;
            status_read(json_get(object, "status"), status);
            json_free(object);
            print_news(status, &show, &revision);
            if (!follows || status_is_final(status))
                break;
        } else if (!was_seen || !err_is_transient(rc)) {
            break;
        } else {
            show_line(&show, err->text, true, clock_now_ms());
        }
        if (interrupt_pause()) {
            rc = err_set(err, ERR_GONE, "interrupted; the job continues");
            break;
        }
    }
    show_end(&show);
    return rc;
}

int command_status(int argc, char **argv)
{
    struct arguments a = {.name = NULL};
    struct status status = {.revision = 0};
    struct connection c;
    struct err err;
    enum err_code rc;

    if (!read_arguments(argc, argv, &a))
        return command_usage(argv[0]);
    interrupt_catch();
    rc = connection_open(a.kubeconfig, a.context, &c, &err);
    if (rc == ERR_OK) {
        const struct kube_ref ref = cluster_job(c.client, a.namespace, a.name);

        rc = watch(c.client, &ref, a.follows, &status, &err);
    }
    connection_close(&c);
    if (rc != ERR_OK)
        return command_failed(&err);
    return status_is(&status, CONDITION_FAILED) ? EXIT_FAILED : EXIT_DONE;
}
