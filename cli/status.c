/* kubectl-skyjob status: how far a job in the cluster is, once or until it is over. */
#include <getopt.h>
#include <stdio.h>
#include <time.h>

#include "api/names.h"
#include "api/spec.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/connect.h"
#include "cli/interrupt.h"
#include "cli/watched.h"

#define LOOK_MS 1000

static const struct kube_resource skyjobs = {NAMES_SKYJOBS, true};

static const struct option options[] = {
    {"namespace", required_argument, NULL, 'n'},
    {"follow", no_argument, NULL, 'f'},
    {"kubeconfig", required_argument, NULL, 'k'},
    {"context", required_argument, NULL, 'c'},
    {NULL, 0, NULL, 0},
};

struct arguments {
    const char *name;
    const char *namespace;
    const char *kubeconfig;
    const char *context;
    bool follows;
};

static bool read_arguments(int argc, char **argv, struct arguments *a)
{
    int c;

    while ((c = getopt_long(argc, argv, "n:f", options, NULL)) != -1) {
        switch (c) {
        case 'n':
            a->namespace = optarg;
            break;
        case 'f':
            a->follows = true;
            break;
        case 'k':
            a->kubeconfig = optarg;
            break;
        case 'c':
            a->context = optarg;
            break;
        default:
            return false;
        }
    }
    if (optind != argc - 1)
        return false;
    a->name = argv[optind];
    return true;
}

/* Sleep, but not through a Ctrl-C. */
static void wait_ms(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    if (!interrupt_seen())
        (void)nanosleep(&t, NULL);
}

/* Tell what is new; true when there is nothing more to wait for. */
static bool tell(const struct json *object, struct show *show, int *attempt)
{
    enum watched_end end = watched_end(object);
    char line[SHOW_LINE_BYTES];

    if (watched_attempt(object) != *attempt && end == WATCHED_GOES_ON) {
        *attempt = watched_attempt(object);
        show_end(show);
        if (*attempt > 1)
            (void)printf("attempt %d\n", *attempt);
        watched_print_stages(stdout, object);
        watched_print_reason(stdout, object);
        (void)printf("\n");
    }
    if (end == WATCHED_GOES_ON) {
        watched_line(object, line);
        show_line(show, line, false, clock_now_ms());
        return false;
    }
    show_end(show);
    if (watched_attempt(object) > 0) {
        watched_print_stages(stdout, object);
        (void)printf("\n");
    }
    watched_print_end(stdout, object);
    return true;
}

static enum err_code follow(struct kube_client *client, const struct kube_ref *ref,
                            enum watched_end *out_end, struct err *err)
{
    struct show show;
    int attempt = 0;
    bool was_seen = false;
    bool is_over = false;

    show_init(&show, stdout);
    while (!is_over) {
        struct json *object = NULL;
        enum err_code rc = kube_get(client, ref, &object, err);

        if (rc == ERR_OK) {
            was_seen = true;
            is_over = tell(object, &show, &attempt);
            *out_end = watched_end(object);
        } else if (!was_seen || !err_is_transient(rc)) {
            show_end(&show);
            return rc;
        } else {
            show_line(&show, err->text, true, clock_now_ms());
        }
        json_free(object);
        if (!is_over)
            wait_ms(LOOK_MS);
        if (!is_over && interrupt_seen()) {
            show_end(&show);
            return err_set(err, ERR_GONE, "interrupted; the job goes on");
        }
    }
    return ERR_OK;
}

static enum err_code look_once(struct kube_client *client, const struct kube_ref *ref,
                               enum watched_end *out_end, struct err *err)
{
    struct json *object = NULL;
    char line[SHOW_LINE_BYTES];
    enum err_code rc = kube_get(client, ref, &object, err);

    if (rc != ERR_OK)
        return rc;
    *out_end = watched_end(object);
    if (watched_attempt(object) > 0) {
        watched_print_stages(stdout, object);
        watched_print_reason(stdout, object);
        (void)printf("\n");
    }
    watched_line(object, line);
    if (*out_end == WATCHED_GOES_ON)
        (void)printf("%s\n", line);
    else
        watched_print_end(stdout, object);
    json_free(object);
    return ERR_OK;
}

int command_status(int argc, char **argv)
{
    struct arguments a = {.name = NULL};
    struct connection c;
    enum watched_end end = WATCHED_GOES_ON;
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

        rc = a.follows ? follow(c.client, &ref, &end, &err) : look_once(c.client, &ref, &end, &err);
    }
    connection_close(&c);
    if (rc != ERR_OK)
        return command_failed(&err);
    return end == WATCHED_FAILED ? EXIT_FAILED : EXIT_DONE;
}
