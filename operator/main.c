/* skyjob-operator: watches SkyJobs and brings each one to its end. */
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/json.h"
#include "base/log.h"
#include "control/manifest.h"
#include "http/http.h"
#include "kube/client.h"
#include "run/loop.h"
#include "run/metrics_port.h"

#define NAMESPACES_MAX       64 /* each has three watches */
#define CALLS_MAX            1000
#define SECRETS_BYTES        4096 /* of their names, as JSON */
#define MMAP_THRESHOLD_BYTES (256 << 10)

struct options {
    const char *kubeconfig;
    const char *context;
    const char *namespaces[NAMESPACES_MAX + 1];
    int n_namespaces; /* 0: all */
    int calls_per_second, calls_burst;
    char secrets[SECRETS_BYTES]; /* "[{...},{...}", for struct settings; "": none */
    char authority_namespace[OBSERVED_WORD_BYTES];
    char reader_namespace[OBSERVED_WORD_BYTES];
    char lease_namespace[OBSERVED_WORD_BYTES];
    const char *lease_name; /* NULL: there is no other operator */
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
        to,
        "skyjob-operator " SKYJOB_VERSION " - trains SkyJobs on the nodes of a cluster\n\n"
        "  --worker-image IMAGE            the workers' image, unless the job names another\n"
        "  --worker-image-pull-policy P    Always, IfNotPresent or Never, for that image\n"
        "  --worker-user UID               user and group of workers; default 65532; \"none\"\n"
        "                                  where the platform gives pods a user and an fsGroup\n"
        "  --worker-pull-secret NAME       for images of jobs that name none; there may be more\n"
        "  --probe-priority-class NAME     of the pods that measure nodes; it should be lower\n"
        "                                  than that of all others\n"
        "  --network-policy on|off         a NetworkPolicy for each job; default on\n"
        "  --operator-pods NAMESPACE/KEY=VALUE,...  the labels of this operator's own pods:\n"
        "                                  NetworkPolicies let only these control the workers\n"
        "  --authority NAMESPACE/NAME      the Secret with the CA of the workers' certificates: "
        "it\n"
        "                                  is made unless it is there, or is cert-manager's;\n"
        "                                  without it workers' traffic is not encrypted\n"
        "  --worker-metrics on|off         new workers serve metrics, on port 7073; default off\n"
        "  --metrics-readers NAMESPACE[/KEY=VALUE,...]  the pods that may reach that port, by\n"
        "                                  their labels; without it all may\n"
        "  --metrics-secret NAMESPACE/NAME  a Secret that gets the certificate to read them with:\n"
        "                                  with --authority no other is let in\n"
        "  --leader-election NAMESPACE/NAME  the Lease by which one of several operators leads;\n"
        "                                  without it there may be only one\n"
        "  --namespace NAMESPACE           watch only this one, and those of further\n"
        "                                  --namespace; all of them by default\n"
        "  --kube-qps N, --kube-burst N    calls to the API server per second, and at once\n"
        "                                  after a pause; default 100 and 200, and as many\n"
        "                                  for Events\n"
        "  --kubeconfig FILE               default: $KUBECONFIG, the pod's service account,\n"
        "                                  ~/.kube/config, whichever there is first\n"
        "  --context NAME                  of the kubeconfig\n"
        "  --health-address HOST:PORT      /healthz and /readyz; default 0.0.0.0:8081,\n"
        "                                  \"none\" to turn it off\n"
        "  --metrics-address HOST:PORT     /metrics over HTTPS, to bearer tokens of users who\n"
        "                                  may get that URL; off by default\n"
        "  --log-level LEVEL               debug, info, warn or error\n"
        "  --version, --help\n");
}

static bool usage_error(const char *what, const char *value)
{
    (void)fprintf(stderr, "skyjob-operator: %s%s; see --help\n", what, value);
    return false;
}

/* The place of a word in a list; -1: it is not there. */
static int find_word(const char *const *words, const char *word)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

/* Returns whether there is room for all of it. */
static bool copy(const char *text, size_t n, char *out, size_t bytes)
{
    (void)snprintf(out, bytes, "%.*s", (int)n, text);
    return n < bytes;
}

static bool take_number(const char *text, long max, long *out)
{
    char *end;

    *out = strtol(text, &end, 10);
    return *text >= '1' && *text <= '9' && *end == '\0' && *out <= max;
}

/* Not root: pods are of the restricted standard. */
static bool take_user(const char *text, int64_t *out)
{
    long n = 0;
    bool is_valid = strcmp(text, "none") == 0 || take_number(text, INT32_MAX, &n);

    *out = n;
    return is_valid;
}

/* "NAMESPACE/NAME", of which the name is borrowed. */
static bool take_name(const char *text, char namespace[static OBSERVED_WORD_BYTES],
                      const char **out_name)
{
    size_t n = strcspn(text, "/");

    if (n == 0 || strlen(text) < n + 2 || strchr(text + n + 1, '/'))
        return false;
    *out_name = text + n + 1;
    return copy(text, n, namespace, OBSERVED_WORD_BYTES);
}

/* "NAMESPACE/KEY=VALUE,...", or only the namespace. */
static bool take_pods(const char *text, char namespace[static OBSERVED_WORD_BYTES],
                      char labels[static SETTINGS_LABELS_BYTES])
{
    size_t n = strcspn(text, "/");
    const char *rest = text[n] ? text + n + 1 : "";

    return n > 0 && copy(text, n, namespace, OBSERVED_WORD_BYTES) &&
           copy(rest, strlen(rest), labels, SETTINGS_LABELS_BYTES);
}

/* A name as Kubernetes has them needs no escapes. */
static bool add_secret(const char *name, char *out)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    size_t n = strlen(out);
    int added = snprintf(out + n, SECRETS_BYTES - n, "%c{\"name\":\"%s\"}", n ? ',' : '[', name);

    return *name && name[strspn(name, allowed)] == '\0' && (size_t)added < SECRETS_BYTES - n - 1;
}

static bool take_count(const char *text, int *out)
{
    long n;
    bool is_valid = take_number(text, CALLS_MAX, &n);

    *out = is_valid ? (int)n : 0;
    return is_valid;
}

/* Returns whether the value of an option is valid. */
static bool take_option(int c, const char *value, struct options *o)
{
    static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
    static const char *const policies[] = {"Always", "IfNotPresent", "Never", NULL};
    static const char *const on_off[] = {"off", "on", NULL};
    struct settings *s = &o->loop.settings;
    size_t n = strlen(value);
    int level;

    switch (c) {
    case 'k':
        o->kubeconfig = value;
        return true;
    case 'c':
        o->context = value;
        return true;
    case 'n':
        if (n == 0 || o->n_namespaces == NAMESPACES_MAX || find_word(o->namespaces, value) >= 0)
            return false;
        o->namespaces[o->n_namespaces++] = value;
        return true;
    case 'q':
        return take_count(value, &o->calls_per_second);
    case 't':
        return take_count(value, &o->calls_burst);
    case 'a':
        o->loop.health_address = strcmp(value, "none") == 0 ? NULL : value;
        return true;
    case 'x':
        o->loop.metrics_address = value;
        return true;
    case 'i':
        return n > 0 && copy(value, n, s->worker_image, sizeof s->worker_image);
    case 'p':
        return find_word(policies, value) >= 0 &&
               copy(value, n, s->pull_policy, sizeof s->pull_policy);
    case 'u':
        return take_user(value, &s->worker_user);
    case 's':
        return add_secret(value, o->secrets);
    case 'b':
        return copy(value, n, s->probe_priority_class, sizeof s->probe_priority_class);
    case 'y':
        s->has_network_policies = find_word(on_off, value) == 1;
        return find_word(on_off, value) >= 0;
    case 'o':
        return take_pods(value, s->operator_namespace, s->operator_labels) &&
               strchr(s->operator_labels, '=');
    case 'w':
        s->has_worker_metrics = find_word(on_off, value) == 1;
        return find_word(on_off, value) >= 0;
    case 'r':
        return take_pods(value, s->readers_namespace, s->readers_labels) &&
               (!strchr(value, '/') || strchr(s->readers_labels, '='));
    case 'm':
        o->loop.reader_namespace = o->reader_namespace;
        return take_name(value, o->reader_namespace, &o->loop.reader_name);
    case 'f':
        o->loop.authority_namespace = o->authority_namespace;
        s->has_tls = true;
        return take_name(value, o->authority_namespace, &o->loop.authority_name);
    case 'e':
        return take_name(value, o->lease_namespace, &o->lease_name);
    default:
        level = find_word(levels, value);
        if (level >= 0)
            log_set_level((enum log_level)level);
        return level >= 0;
    }
}

static bool read_options(int argc, char **argv, struct options *o)
{
    static const struct option known[] = {
        {"kubeconfig", required_argument, NULL, 'k'},
        {"context", required_argument, NULL, 'c'},
        {"namespace", required_argument, NULL, 'n'},
        {"kube-qps", required_argument, NULL, 'q'},
        {"kube-burst", required_argument, NULL, 't'},
        {"worker-image", required_argument, NULL, 'i'},
        {"worker-image-pull-policy", required_argument, NULL, 'p'},
        {"worker-user", required_argument, NULL, 'u'},
        {"worker-pull-secret", required_argument, NULL, 's'},
        {"probe-priority-class", required_argument, NULL, 'b'},
        {"network-policy", required_argument, NULL, 'y'},
        {"operator-pods", required_argument, NULL, 'o'},
        {"authority", required_argument, NULL, 'f'},
        {"worker-metrics", required_argument, NULL, 'w'},
        {"metrics-readers", required_argument, NULL, 'r'},
        {"metrics-secret", required_argument, NULL, 'm'},
        {"leader-election", required_argument, NULL, 'e'},
        {"health-address", required_argument, NULL, 'a'},
        {"metrics-address", required_argument, NULL, 'x'},
        {"log-level", required_argument, NULL, 'l'},
        {"version", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int at;
    int c;

    while ((c = getopt_long(argc, argv, "", known, &at)) != -1) {
        if (c == '?')
            return false; /* getopt_long() has printed the reason */
        if (c == 'v' || c == 'h') {
            c == 'v' ? (void)puts(SKYJOB_VERSION) : print_usage(stdout);
            exit(EXIT_DONE);
        }
        if (!take_option(c, optarg, o)) {
            (void)fprintf(stderr, "skyjob-operator: --%s: invalid value \"%s\"; see --help\n",
                          known[at].name, optarg);
            return false;
        }
    }
    if (optind < argc)
        return usage_error("not an option: ", argv[optind]);
    if (o->loop.settings.worker_image[0] == '\0')
        return usage_error("--worker-image is needed", "");
    if (o->loop.reader_name && (!o->loop.authority_name || !o->loop.settings.has_worker_metrics))
        return usage_error("--metrics-secret needs --authority and --worker-metrics on", "");
    return true;
}

/* Signals arrive only while the loop is there to be stopped. */
static enum err_code run_loop(struct kube_client *client, const struct options *o, struct err *err)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct loop_options options = o->loop;
    struct json *secrets = NULL;
    char text[SECRETS_BYTES + 1];
    enum err_code rc = ERR_OK;

    (void)snprintf(text, sizeof text, "%s]", o->secrets);
    if (o->secrets[0])
        rc = json_parse(text, strlen(text), &secrets, err);
    options.settings.pull_secrets = secrets;
    options.namespaces = o->n_namespaces > 0 ? o->namespaces : NULL;
    if (rc == ERR_OK)
        rc = loop_new(client, &options, &running, err);
    if (rc != ERR_OK) {
        json_free(secrets);
        return rc;
    }
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    LOG(LOG_INFO, "started", LOG_S("version", SKYJOB_VERSION),
        LOG_S("server", kube_client_config(client)->server),
        LOG_S("namespace", o->n_namespaces > 0 ? o->namespaces[0] : "(all)"),
        LOG_I("namespaces", o->n_namespaces), LOG_S("worker_image", o->loop.settings.worker_image));
    rc = loop_run(running, err);
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    loop_free(running);
    json_free(secrets);
    return rc;
}

/* What it takes to call the API server. The lease has its own, since it must not wait for others,
 * and so have the metrics, for which others must not wait. */
struct connection {
    struct http *http;
    struct kube_client *client;
};

static enum err_code connect_to(const struct options *o, struct kube_options *client_options,
                                struct connection *out, struct err *err)
{
    struct kube_config config = {0};
    enum err_code rc = kube_config_load(o->kubeconfig, o->context, &config, err);

    client_options->user_agent = "skyjob-operator/" SKYJOB_VERSION;
    if (rc == ERR_OK)
        rc = http_new(&out->http, err);
    if (rc == ERR_OK)
        rc = kube_client_new(out->http, &config, client_options, &out->client, err);
    kube_config_deinit(&config);
    return rc;
}

static void disconnect(struct connection *c)
{
    kube_client_free(c->client);
    http_free(c->http);
}

/* It may be stopped at any time, for any time, so it is asked for each call. */
static bool may_write(void *ctx)
{
    struct lease **lease = ctx;

    return *lease && lease_is_held(*lease);
}

static void on_lost(void *ctx)
{
    http_stop(ctx);
}

int main(int argc, char **argv)
{
    struct options o = {
        .calls_per_second = 100,
        .calls_burst = 200,
        .loop = {.health_address = "0.0.0.0:8081",
                 .settings = {.has_network_policies = true, .worker_user = MANIFEST_USER}}};
    struct lease *lease = NULL;
    struct kube_options client_options = {.ctx = &lease};
    struct kube_options lease_calls = {.call_ms = LEASE_CALL_MS};
    struct kube_options metrics_calls = {.call_ms = METRICS_PORT_CALL_MS};
    struct connection main_connection = {0}, lease_connection = {0}, metrics_connection = {0};
    char identity[LEASE_HOLDER_BYTES];
    struct err err = {0};
    enum err_code rc;

    if (!read_options(argc, argv, &o))
        return EXIT_CONFIG;
    (void)prctl(PR_SET_DUMPABLE, 0); /* it has keys in its memory */
    /* Threads have one lock as it is, so arenas of their own are only memory; and what a search for
     * a plan took goes back. */
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
    client_options.calls_per_second = o.calls_per_second;
    client_options.calls_burst = o.calls_burst;
    client_options.may_write = o.lease_name ? may_write : NULL;
    rc = connect_to(&o, &client_options, &main_connection, &err);
    if (rc == ERR_OK && o.lease_name) {
        const struct lease_options options = {.namespace = o.lease_namespace,
                                              .name = o.lease_name,
                                              .component = "skyjob-operator",
                                              .identity = identity,
                                              .on_lost = on_lost,
                                              .ctx = main_connection.http};

        rc = lease_identity(identity, &err);
        if (rc == ERR_OK)
            rc = connect_to(&o, &lease_calls, &lease_connection, &err);
        if (rc == ERR_OK)
            rc = lease_new(lease_connection.client, &options, &lease, &err);
    }
    o.loop.lease = lease;
    if (rc == ERR_OK && o.loop.metrics_address)
        rc = connect_to(&o, &metrics_calls, &metrics_connection, &err);
    o.loop.metrics_client = metrics_connection.client;
    if (rc == ERR_OK)
        rc = run_loop(main_connection.client, &o, &err);
    if (rc != ERR_OK)
        LOG(LOG_ERROR, "fatal", LOG_S("error", err.text));
    else
        LOG(LOG_INFO, "stopped");
    lease_free(lease);
    disconnect(&metrics_connection);
    disconnect(&lease_connection);
    disconnect(&main_connection);
    return rc == ERR_OK ? EXIT_DONE : EXIT_FAILED;
}
