/* kubectl-skyjob status: the progress of a job in the cluster, once or until it has ended. */
#include <getopt.h> /* optind */
#include <stdio.h>
#include <time.h>

#include "api/names.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/show.h"

#define LOOK_MS 1000

static const struct kube_resource skyjobs = {NAMES_SKYJOBS, true};

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

/* Ctrl-C ends the wait. */
static void wait_ms(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    if (!interrupt_seen())
        (void)nanosleep(&t, NULL);
}

static enum err_code get_status(struct kube_client *client, const struct kube_ref *ref,
                                struct status *out, struct err *err)
{
    struct json *object = NULL;
    enum err_code rc = kube_get(client, ref, &object, err);

    if (rc == ERR_OK)
        status_read(json_get(object, "status"), out);
    json_free(object);
    return rc;
}

static void print_placement(const struct status *s)
{
    show_status_stages(stdout, s);
    show_explanation(stdout, s);
    (void)printf("\n");
}

/* Print what has changed. */
static void print_news(const struct status *s, struct show *show, int *attempt)
{
    char line[SHOW_LINE_BYTES];

    if (status_is_final(s)) {
        show_end(show);
        if (s->n_stages > 0) {
            show_status_stages(stdout, s);
            (void)printf("\n");
        }
        show_status_end(stdout, s);
        return;
    }
    if (s->n_stages > 0 && s->attempt != *attempt) {
        *attempt = s->attempt;
        show_end(show);
        if (*attempt > 1)
            (void)printf("attempt %d\n", *attempt);
        print_placement(s);
    }
    show_status_text(s, line);
    show_line(show, line, false, clock_now_ms());
}

static enum err_code follow(struct kube_client *client, const struct kube_ref *ref,
                            struct status *status, struct err *err)
{
    struct show show;
    int attempt = 0;
    bool was_seen = false;

    show_init(&show, stdout);
    for (;;) {
        enum err_code rc = get_status(client, ref, status, err);

        if (rc == ERR_OK) {
            was_seen = true;
            print_news(status, &show, &attempt);
            if (status_is_final(status))
                return ERR_OK;
        } else if (!was_seen || !err_is_transient(rc)) {
            show_end(&show);
            return rc;
        } else {
            show_line(&show, err->text, true, clock_now_ms());
        }
        wait_ms(LOOK_MS);
        if (interrupt_seen()) {
            show_end(&show);
            return err_set(err, ERR_GONE, "interrupted; the job continues");
        }
    }
}

static enum err_code look_once(struct kube_client *client, const struct kube_ref *ref,
                               struct status *status, struct err *err)
{
    char line[SHOW_LINE_BYTES];
    enum err_code rc = get_status(client, ref, status, err);

    if (rc != ERR_OK)
        return rc;
    if (status->n_stages > 0)
        print_placement(status);
    show_status_text(status, line);
    if (status_is_final(status))
        show_status_end(stdout, status);
    else
        (void)printf("%s\n", line);
    return ERR_OK;
}

int command_status(int argc, char **argv)
{
    struct arguments a = {.name = NULL};
    struct status status = {.attempt = 0};
    struct connection c;
    struct err err;
    enum err_code rc;

    if (!read_arguments(argc, argv, &a))
        return command_usage(argv[0]);
    interrupt_catch();
    rc = connection_open(a.kubeconfig, a.context, &c, &err);
    if (rc == ERR_OK) {
        struct kube_ref ref = {.resource = &skyjobs,
                               .namespace =
                                   a.namespace ? a.namespace : kube_client_namespace(c.client),
                               .name = a.name};

        rc = (a.follows ? follow : look_once)(c.client, &ref, &status, &err);
    }
    connection_close(&c);
    if (rc != ERR_OK)
        return command_failed(&err);
    return status_is(&status, CONDITION_FAILED) ? EXIT_FAILED : EXIT_DONE;
}
