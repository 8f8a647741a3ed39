/* skyjob-operator: watches SkyJobs and brings each one to its end. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "http/http.h"
#include "kube/client.h"
#include "run/loop.h"

struct options {
    const char *kubeconfig;
    const char *context;
    struct loop_options loop;
};

static struct loop *running;

static void on_signal(int number)
{
    (void)number;
    loop_stop(running);
}

static void print_usage(FILE *to)
{
    (void)fprintf(
        to, "skyjob-operator " SKYJOB_VERSION " - trains SkyJobs on the nodes of a cluster\n\n"
            "  --worker-image IMAGE            the workers' image, unless the job names another\n"
            "  --worker-image-pull-policy P    Always, IfNotPresent or Never, for that image\n"
            "  --probe-priority-class NAME     of the pods that measure nodes; it should be lower\n"
            "                                  than that of all others\n"
            "  --network-policy on|off         a NetworkPolicy for each job; default on\n"
            "  --operator-pods NAMESPACE/KEY=VALUE,...  the labels of this operator's own pods:\n"
            "                                  NetworkPolicies let only these control the workers\n"
            "  --namespace NAMESPACE           watch only this one; all of them by default\n"
            "  --kubeconfig FILE               default: $KUBECONFIG, the pod's service account,\n"
            "                                  ~/.kube/config, whichever there is first\n"
            "  --context NAME                  of the kubeconfig\n"
            "  --health-address HOST:PORT      /healthz, /readyz, /metrics; default 0.0.0.0:8081,\n"
            "                                  \"none\" to turn it off\n"
            "  --log-level LEVEL               debug, info, warn or error\n"
            "  --version, --help\n");
}

static bool set_log_level(const char *name)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};

    for (int i = 0; i < 4; i++) {
        if (strcmp(name, names[i]) == 0) {
            log_set_level((enum log_level)i);
            return true;
        }
    }
    return false;
}

static bool is_pull_policy(const char *s)
{
    return strcmp(s, "Always") == 0 || strcmp(s, "IfNotPresent") == 0 || strcmp(s, "Never") == 0;
}

static bool usage_error(const char *what, const char *value)
{
    (void)fprintf(stderr, "skyjob-operator: %s%s; see --help\n", what, value);
    return false;
}

/* "namespace/key=value,key=value" */
static bool read_operator_pods(const char *text, struct settings *s)
{
    size_t n = strcspn(text, "/");
    const char *labels = text[n] == '/' ? text + n + 1 : "";

    if (n == 0 || n >= sizeof s->operator_namespace || !strchr(labels, '=') ||
        strlen(labels) >= sizeof s->operator_labels)
        return false;
    (void)snprintf(s->operator_namespace, sizeof s->operator_namespace, "%.*s", (int)n, text);
    (void)snprintf(s->operator_labels, sizeof s->operator_labels, "%s", labels);
    return true;
}

static bool take_option(int c, struct options *o)
{
    struct settings *s = &o->loop.settings;

    switch (c) {
    case 'k':
        o->kubeconfig = optarg;
        return true;
    case 'c':
        o->context = optarg;
        return true;
    case 'n':
        o->loop.namespace = optarg;
        return true;
    case 'i':
        if (*optarg == '\0' || strlen(optarg) >= sizeof s->worker_image)
            return usage_error("--worker-image: not the name of an image: ", optarg);
        (void)snprintf(s->worker_image, sizeof s->worker_image, "%s", optarg);
        return true;
    case 'p':
        if (!is_pull_policy(optarg))
            return usage_error("--worker-image-pull-policy: not a policy: ", optarg);
        (void)snprintf(s->pull_policy, sizeof s->pull_policy, "%s", optarg);
        return true;
    case 'b':
        if (strlen(optarg) >= sizeof s->probe_priority_class)
            return usage_error("--probe-priority-class: not a name: ", optarg);
        (void)snprintf(s->probe_priority_class, sizeof s->probe_priority_class, "%s", optarg);
        return true;
    case 'y':
        s->has_network_policies = strcmp(optarg, "on") == 0;
        return s->has_network_policies || strcmp(optarg, "off") == 0 ||
               usage_error("--network-policy: neither on nor off: ", optarg);
    case 'o':
        return read_operator_pods(optarg, s) ||
               usage_error("--operator-pods: not a namespace and labels: ", optarg);
    case 'a':
        o->loop.health_address = strcmp(optarg, "none") == 0 ? NULL : optarg;
        return true;
    case 'l':
        return set_log_level(optarg) || usage_error("--log-level: not a level: ", optarg);
    case 'v':
        (void)puts(SKYJOB_VERSION);
        exit(EXIT_DONE);
    case 'h':
        print_usage(stdout);
        exit(EXIT_DONE);
    default:
        return usage_error("unknown option", "");
    }
}

static bool read_options(int argc, char **argv, struct options *o)
{
    static const struct option known[] = {
        {"kubeconfig", required_argument, NULL, 'k'},
        {"context", required_argument, NULL, 'c'},
        {"namespace", required_argument, NULL, 'n'},
        {"worker-image", required_argument, NULL, 'i'},
        {"worker-image-pull-policy", required_argument, NULL, 'p'},
        {"probe-priority-class", required_argument, NULL, 'b'},
        {"network-policy", required_argument, NULL, 'y'},
        {"operator-pods", required_argument, NULL, 'o'},
        {"health-address", required_argument, NULL, 'a'},
        {"log-level", required_argument, NULL, 'l'},
        {"version", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;

    opterr = 0;
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
        if (!take_option(c, o))
            return false;
    if (optind < argc)
        return usage_error("not an option: ", argv[optind]);
    if (o->loop.settings.worker_image[0] == '\0')
        return usage_error("--worker-image is needed", "");
    return true;
}

/* Signals arrive only while the loop is there to be stopped. */
static enum err_code run_loop(struct kube_client *client, const struct options *o, struct err *err)
{
    struct sigaction action = {.sa_handler = on_signal};
    enum err_code rc = loop_new(client, &o->loop, &running, err);

    if (rc != ERR_OK)
        return rc;
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    LOG(LOG_INFO, "started", LOG_S("version", SKYJOB_VERSION),
        LOG_S("server", kube_client_server(client)),
        LOG_S("namespace", o->loop.namespace ? o->loop.namespace : "(all)"),
        LOG_S("worker_image", o->loop.settings.worker_image));
    rc = loop_run(running, err);
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    loop_free(running);
    return rc;
}

int main(int argc, char **argv)
{
    struct options o = {
        .loop = {.health_address = "0.0.0.0:8081", .settings = {.has_network_policies = true}}};
    struct kube_options client_options = {.user_agent = "skyjob-operator/" SKYJOB_VERSION,
                                          .field_manager = "skyjob-operator",
                                          .calls_per_second = 50,
                                          .calls_burst = 100};
    struct kube_config config = {0};
    struct kube_client *client = NULL;
    struct http *http = NULL;
    struct err err = {0};
    enum err_code rc;

    if (!read_options(argc, argv, &o))
        return EXIT_CONFIG;
    rc = kube_config_load(o.kubeconfig, o.context, &config, &err);
    if (rc == ERR_OK)
        rc = http_new(&http, &err);
    if (rc == ERR_OK)
        rc = kube_client_new(http, &config, &client_options, &client, &err);
    if (rc == ERR_OK)
        rc = run_loop(client, &o, &err);
    if (rc != ERR_OK)
        LOG(LOG_ERROR, "fatal", LOG_S("error", err.text));
    else
        LOG(LOG_INFO, "stopped");
    kube_client_free(client);
    http_free(http);
    kube_config_deinit(&config);
    return rc == ERR_OK ? EXIT_DONE : EXIT_FAILED;
}
