/* agent - plays scheduler and kubelet for tests that have an API server but no nodes.
 *
 *   agent --kubeconfig F --worker PROGRAM --folder DIR --sample DIR --node
 * NAME,CPU,MEMORY[,GFLOPS]...
 *
 * It makes the Node objects, binds pods to the node that their affinity names, or those of jobs
 * without one to any, when there is room,
 * and runs each as a process of the real worker on a loopback address of its own. Pods that are
 * deleted get SIGTERM and, after their grace period, SIGKILL; a shorter one may follow, unless a
 * test has it that the container runtime has begun with the first. Tests meddle through files:
 *
 *   DIR/first-grace  while it exists, a pod's first grace period counts
 *   DIR/oom/POD    kill the pod as if it had used too much memory
 *   DIR/kill/POD   kill it with SIGKILL
 *   DIR/logs/POD.log is what it printed; DIR/claims/NAME is the volume of a claim
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent_pod.h"
#include "api/names.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/node_object.h"
#include "kube/watch.h"

#define NODES_MAX 64
#define NET_FIRST 64 /* of the second octets of pods' addresses, 127.NET.x.y */
#define N_NETS    128
#define TICK_MS   30
#define RETRY_MS  300
#define GONE_MS   1000 /* for a process whose pod is gone already */

struct agent_node {
    char name[64];
    char cpu[24];
    char memory[24];
    char gflops[24]; /* "": to be measured */
    int64_t cpu_milli;
};

struct agent {
    struct kube_client *client;
    struct agent_settings settings;
    int n_nodes;
    struct agent_node nodes[NODES_MAX];
    struct agent_pod *pods;
    int net;
    int n_addresses;
};

static volatile sig_atomic_t stops;

static void on_signal(int number)
{
    (void)number;
    stops = 1;
}

/* --- nodes --- */

static enum err_code make_node(struct agent *a, const struct agent_node *n, struct err *err)
{
    struct kube_ref ref = {.resource = &kube_nodes, .name = n->name};
    struct kube_ref status = {.resource = &kube_nodes, .name = n->name, .subresource = "status"};
    char body[1024];
    enum err_code rc;

    (void)snprintf(body, sizeof body,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\","
                   "\"labels\":{\"kubernetes.io/hostname\":\"%s\"%s%s%s}}}",
                   n->name, n->name, n->gflops[0] ? ",\"skyjob.dev/gflops\":\"" : "", n->gflops,
                   n->gflops[0] ? "\"" : "");
    rc = kube_create(a->client, &ref, body, NULL, err);
    if (rc != ERR_OK && rc != ERR_CONFLICT)
        return rc;
    (void)snprintf(body, sizeof body,
                   "{\"status\":{\"capacity\":{\"cpu\":\"%s\",\"memory\":\"%s\",\"pods\":\"110\"},"
                   "\"allocatable\":{\"cpu\":\"%s\",\"memory\":\"%s\",\"pods\":\"110\"},"
                   "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Up\","
                   "\"message\":\"\"}]}}",
                   n->cpu, n->memory, n->cpu, n->memory);
    rc = kube_merge(a->client, &status, body, NULL, err);
    if (rc == ERR_OK) /* the taint that every new node gets until it is ready */
        rc = kube_merge(a->client, &ref, "{\"spec\":{\"taints\":null}}", NULL, err);
    return rc;
}

static struct agent_node *find_node(struct agent *a, const char *name)
{
    for (int i = 0; i < a->n_nodes; i++)
        if (strcmp(a->nodes[i].name, name) == 0)
            return &a->nodes[i];
    return NULL;
}

/* --- what the watch says --- */

static int64_t cpu_of(const struct json *pod)
{
    const struct json *container = json_first(json_path(pod, "spec.containers"));
    int64_t milli;

    return quantity_parse(json_string(json_path(container, "resources.requests.cpu"), "0"), true,
                          &milli, NULL) == ERR_OK
               ? milli
               : 0;
}

static const char *affinity_of(const struct json *pod)
{
    const struct json *terms =
        json_path(pod, "spec.affinity.nodeAffinity."
                       "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    const struct json *field = json_first(json_get(json_first(terms), "matchFields"));

    return json_string(json_first(json_get(field, "values")), "");
}

static struct agent_pod *find_pod(struct agent *a, const char *uid)
{
    struct agent_pod *p = a->pods;

    while (p && strcmp(p->uid, uid) != 0)
        p = p->next;
    return p;
}

static void on_change(void *ctx, enum kube_change change, const struct json *object)
{
    struct agent *a = ctx;
    const struct json *metadata = json_get(object, "metadata");
    const char *uid = json_text(metadata, "uid");
    struct agent_pod *p = change == KUBE_SYNCED ? NULL : find_pod(a, uid);

    if (change == KUBE_SYNCED)
        return;
    if (change == KUBE_DELETED) {
        if (p)
            p->is_gone = true;
        return;
    }
    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p)
            abort();
        JSON_COPY(p->namespace, json_path(metadata, "namespace"));
        JSON_COPY(p->name, json_path(metadata, "name"));
        (void)snprintf(p->uid, sizeof p->uid, "%s", uid);
        (void)snprintf(p->wanted_node, sizeof p->wanted_node, "%s", affinity_of(object));
        p->is_for_any =
            p->wanted_node[0] == '\0' && json_get(json_get(metadata, "labels"), LABEL_ROLE) != NULL;
        p->cpu_milli = cpu_of(object);
        p->next = a->pods;
        a->pods = p;
    }
    JSON_COPY(p->node, json_path(object, "spec.nodeName"));
    p->is_gated = json_first(json_path(object, "spec.schedulingGates")) != NULL;
    p->is_deleting = json_get(metadata, "deletionTimestamp") != NULL;
    p->grace_ms = json_i64(json_get(metadata, "deletionGracePeriodSeconds"), 0) * 1000;
    free(p->object);
    p->object = json_print(object);
}

/* --- scheduler --- */

static bool has_room(struct agent *a, const struct agent_pod *p, const struct agent_node *node)
{
    int64_t left = node->cpu_milli - p->cpu_milli;

    for (const struct agent_pod *q = a->pods; q; q = q->next)
        if (q != p && !q->is_gone && q->phase != AGENT_ENDED && strcmp(q->node, node->name) == 0)
            left -= q->cpu_milli;
    return left >= 0;
}

static enum err_code bind_pod(struct agent *a, struct agent_pod *p, struct err *err)
{
    static const struct kube_resource bindings = {"", "v1", "bindings", true};
    const struct agent_node *node = find_node(a, p->wanted_node);
    struct kube_ref ref = {.resource = &bindings, .namespace = p->namespace, .name = p->name};
    char body[1024];
    enum err_code rc;

    for (int i = 0; p->is_for_any && !node && i < a->n_nodes; i++)
        if (has_room(a, p, &a->nodes[i]))
            node = &a->nodes[i];
    if (!node || !has_room(a, p, node))
        return agent_pod_block(p, a->client,
                               "{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\","
                               "\"reason\":\"Unschedulable\",\"message\":\"0/1 nodes are "
                               "available: 1 Insufficient cpu.\"}]}",
                               err);
    (void)snprintf(body, sizeof body,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"%s\"},"
                   "\"target\":{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"%s\"}}",
                   p->name, node->name);
    rc = kube_create(a->client, &ref, body, NULL, err);
    p->is_blocked = false;
    if (rc == ERR_OK) /* the watch will say so too, but not before the next pod is looked at */
        (void)snprintf(p->node, sizeof p->node, "%s", node->name);
    return rc == ERR_NOT_FOUND || rc == ERR_CONFLICT ? ERR_OK : rc;
}

/* --- kubelet --- */

/* Is there a file DIR/what/POD? Then it has had its effect and is removed. */
static bool is_asked_to(const struct agent *a, const char *what, const struct agent_pod *p)
{
    char path[POD_PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/%s/%s", a->settings.folder, what, p->name);
    return unlink(path) == 0;
}

static bool keeps_first_grace(const struct agent *a)
{
    char path[POD_PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/first-grace", a->settings.folder);
    return access(path, F_OK) == 0;
}

static enum err_code run_pod(struct agent *a, struct agent_pod *p, struct err *err)
{
    if (is_asked_to(a, "oom", p)) {
        p->is_killed_for_memory = true;
        (void)kill(p->pid, SIGKILL);
    }
    if (is_asked_to(a, "kill", p))
        (void)kill(p->pid, SIGKILL);
    if (!p->is_ready && clock_now_ms() >= p->next_ms) {
        enum err_code rc = agent_pod_check_ready(p, a->client, err);

        p->next_ms = clock_now_ms() + RETRY_MS;
        if (rc != ERR_OK)
            return rc;
    }
    return agent_pod_check(p, a->client, &a->settings, err);
}

static enum err_code stop_pod(struct agent *a, struct agent_pod *p, struct err *err)
{
    struct kube_ref ref = {.resource = &kube_pods, .namespace = p->namespace, .name = p->name};
    struct kube_delete how = {.uid = p->uid, .grace_seconds = 0};
    enum err_code rc;

    if (p->phase == AGENT_RUNNING) {
        int64_t grace_ms = p->is_gone ? GONE_MS : p->grace_ms;

        if (p->stop_ms == 0 || (p->stop_ms > clock_now_ms() + grace_ms && !keeps_first_grace(a))) {
            p->stop_ms = clock_now_ms() + grace_ms;
            (void)kill(p->pid, SIGTERM);
        } else if (clock_now_ms() > p->stop_ms) {
            (void)kill(p->pid, SIGKILL);
        }
        return agent_pod_check(p, a->client, &a->settings, err);
    }
    if (p->is_gone)
        return ERR_OK;
    rc = kube_delete(a->client, &ref, &how, err);
    p->is_gone = rc == ERR_OK || rc == ERR_NOT_FOUND || rc == ERR_CONFLICT;
    return p->is_gone ? ERR_OK : rc;
}

static enum err_code start_pod(struct agent *a, struct agent_pod *p, struct err *err)
{
    enum err_code rc;

    if (clock_now_ms() < p->next_ms)
        return ERR_OK;
    if (p->ip[0] == '\0') {
        int n = ++a->n_addresses;

        (void)snprintf(p->ip, sizeof p->ip, "127.%d.%d.%d", a->net, n / 250 % 250, 1 + n % 250);
    }
    rc = agent_pod_start(p, a->client, &a->settings, err);
    p->next_ms = clock_now_ms() + RETRY_MS;
    return rc == ERR_AGAIN ? ERR_OK : rc;
}

static void step_pod(struct agent *a, struct agent_pod *p)
{
    struct err err = {0};
    enum err_code rc = ERR_OK;

    if (p->is_gone || p->is_deleting)
        rc = stop_pod(a, p, &err);
    else if (p->phase == AGENT_RUNNING)
        rc = run_pod(a, p, &err);
    else if (p->phase == AGENT_NEW && p->node[0] == '\0' && !p->is_gated &&
             (p->wanted_node[0] || p->is_for_any))
        rc = bind_pod(a, p, &err);
    else if (p->phase == AGENT_NEW && find_node(a, p->node))
        rc = start_pod(a, p, &err);
    if (rc != ERR_OK)
        LOG(LOG_WARN, "pod", LOG_S("pod", p->name), LOG_S("error", err.text));
}

static void step_all(struct agent *a)
{
    struct agent_pod **place = &a->pods;

    for (struct agent_pod *p = a->pods; p; p = p->next)
        step_pod(a, p);
    while (*place) { /* no call in here, so no callback that adds pods */
        struct agent_pod *p = *place;

        if (p->is_gone && p->phase != AGENT_RUNNING) {
            *place = p->next;
            agent_pod_remove_volumes(p, &a->settings);
            agent_pod_free(p);
        } else {
            place = &p->next;
        }
    }
}

/* --- main --- */

/* Take a net that no other agent on this machine has: the abstract socket named after it is ours
 * for as long as we run. The next agent begins with another one, as peers may still ask for old
 * pods. */
static enum err_code claim_net(int *out, struct err *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    for (int i = 0; fd >= 0 && i < N_NETS; i++) {
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        int net = NET_FIRST + (int)((getpid() + i) % N_NETS);
        int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "skyjob-agent-%d", net);

        if (bind(fd, (struct sockaddr *)&name,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0) {
            *out = net;
            return ERR_OK;
        }
    }
    return err_set(err, ERR_IO, "a net for pods: %s", strerror(errno));
}

static bool add_node(struct agent *a, char *text)
{
    struct agent_node *n = &a->nodes[a->n_nodes];
    int found;

    if (a->n_nodes == NODES_MAX)
        return false;
    found = sscanf(text, "%63[^,],%23[^,],%23[^,],%23s", n->name, n->cpu, n->memory, n->gflops);
    a->n_nodes++;
    return found >= 3 && quantity_parse(n->cpu, true, &n->cpu_milli, NULL) == ERR_OK;
}

static bool read_options(int argc, char **argv, struct agent *a, const char **out_kubeconfig)
{
    static const struct option known[] = {
        {"kubeconfig", required_argument, NULL, 'k'}, {"worker", required_argument, NULL, 'w'},
        {"folder", required_argument, NULL, 'f'},     {"sample", required_argument, NULL, 's'},
        {"node", required_argument, NULL, 'n'},       {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (c == 'k')
            *out_kubeconfig = optarg;
        else if (c == 'w')
            a->settings.worker = optarg;
        else if (c == 'f')
            a->settings.folder = optarg;
        else if (c == 's')
            a->settings.sample = optarg;
        else if (c != 'n' || !add_node(a, optarg))
            return false;
    }
    return *out_kubeconfig && a->settings.worker && a->settings.folder && a->settings.sample;
}

static enum err_code run(struct agent *a, struct err *err)
{
    static const char *const folders[] = {"", "logs", "oom", "kill", "claims"};
    struct kube_watch watch = {.client = a->client,
                               .ref.resource = &kube_pods,
                               .watcher = {.ctx = a, .on_change = on_change}};
    enum err_code rc = claim_net(&a->net, err);

    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[POD_PATH_BYTES];

        (void)snprintf(path, sizeof path, "%s/%s", a->settings.folder, folders[i]);
        (void)mkdir(path, 0755);
    }
    for (int i = 0; i < a->n_nodes && rc == ERR_OK; i++)
        rc = make_node(a, &a->nodes[i], err);
    while (rc == ERR_OK && !stops) {
        (void)kube_watch_step(&watch, clock_now_ms());
        step_all(a);
        rc = http_poll(kube_client_http(a->client), TICK_MS, err);
    }
    kube_watch_deinit(&watch);
    return rc;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct kube_options options = {.user_agent = "agent"};
    struct kube_config config = {0};
    const char *kubeconfig = NULL;
    struct agent a = {0};
    struct http *http = NULL;
    struct err err = {0};
    enum err_code rc;

    if (!read_options(argc, argv, &a, &kubeconfig)) {
        (void)fprintf(stderr, "agent: see the comment at the top of tests/support/agent.c\n");
        return 2;
    }
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    rc = kube_config_load(kubeconfig, NULL, &config, &err);
    if (rc == ERR_OK)
        rc = http_new(&http, &err);
    if (rc == ERR_OK)
        rc = kube_client_new(http, &config, &options, &a.client, &err);
    if (rc == ERR_OK)
        rc = run(&a, &err);
    if (rc != ERR_OK)
        (void)fprintf(stderr, "agent: %s\n", err.text);
    while (a.pods) {
        struct agent_pod *p = a.pods;

        if (p->pid > 0)
            (void)kill(p->pid, SIGKILL);
        a.pods = p->next;
        agent_pod_free(p);
    }
    kube_client_free(a.client);
    http_free(http);
    kube_config_deinit(&config);
    return rc == ERR_OK ? 0 : 1;
}
