/* kubectl-skyjob nodes: what is known of each node, and have it measured again. */
#include "cli/nodes.h"

#include <getopt.h> /* optind */
#include <string.h>

#include "api/names.h"
#include "base/clock.h"
#include "cli/cluster.h"
#include "cli/command.h"
#include "cli/show.h"

#define NOTE_BYTES 400

struct arguments {
    const char *kubeconfig;
    const char *context;
    bool measures;
    bool has_all;
    char *const *names; /* those to measure again */
    int n_names;
};

/* --- the table --- */

const char *nodes_stale(const struct node_object *node, int64_t now_ms)
{
    const struct annotations *a = &node->annotations;
    struct annotation_subject now = a->probe.subject;

    now.cpu_milli = node->cpu_milli;
    now.memory_bytes = node->memory_bytes;
    memcpy(now.cpu, a->cpu, sizeof now.cpu);
    return a->has_probe ? annotation_stale(&a->probe, &now, now_ms) : NULL;
}

static void add_note(const char *text, char out[static NOTE_BYTES])
{
    text_add(out, NOTE_BYTES, "%s%s", out[0] ? "; " : "", text);
}

static void print_node(const struct node_object *node, int width, int64_t now_ms, FILE *out)
{
    const struct annotations *a = &node->annotations;
    enum exclusion excluded = node_object_exclusion(node, NULL);
    const char *why = nodes_stale(node, now_ms);
    char name[SHOW_NAME_CHARS + 1];
    char note[NOTE_BYTES] = "";
    char speed[32] = "unknown";
    char age[32] = "-";

    (void)show_name(node->name, name);
    if (a->gflops > 0 || a->has_probe)
        (void)snprintf(speed, sizeof speed, "%.1f",
                       a->gflops > 0 ? a->gflops : annotation_gflops(&a->probe));
    if (a->has_probe)
        show_age(now_ms - a->probe.time_ms, age);
    if (excluded != EXCLUDED_NOT && excluded != EXCLUDED_NOT_READY)
        add_note(exclusion_text(excluded), note);
    if (a->gflops > 0)
        add_note("speed declared", note);
    else if (why)
        add_note(why, note);
    if (a->bad[0])
        add_note(a->bad, note);
    (void)fprintf(out, "%-*s %-5s %9s %7.1fGi %6.6g  %-8s  %s\n", width, name,
                  excluded == EXCLUDED_NOT_READY ? "no" : "yes", speed,
                  (double)node->memory_bytes / (1 << 30), (double)node->cpu_milli / 1000, age,
                  note);
}

void nodes_print(const struct node_object *nodes, size_t n, int64_t now_ms, FILE *out)
{
    int width = (int)strlen("NODE");

    for (size_t i = 0; i < n; i++)
        width = show_widen(width, nodes[i].name);
    (void)fprintf(out, "%-*s %-5s %9s %9s %6s  %-8s  %s\n", width, "NODE", "READY", "GFLOP/S",
                  "MEMORY", "CORES", "MEASURED", "NOTE");
    for (size_t i = 0; i < n; i++)
        print_node(&nodes[i], width, now_ms, out);
}

/* --- measuring again --- */

static const struct node_object *find(const struct cluster *c, const char *name)
{
    for (size_t i = 0; i < c->n_nodes; i++)
        if (strcmp(c->nodes[i].name, name) == 0)
            return &c->nodes[i];
    return NULL;
}

/* A node without a measurement is measured before the next plan that may use it. */
static enum err_code forget(struct kube_client *client, const struct node_object *node,
                            struct err *err)
{
    const struct kube_ref ref = {.resource = &kube_nodes, .name = node->name};
    enum err_code rc = kube_merge(client, &ref,
                                  "{\"metadata\":{\"annotations\":{\"" ANNOTATION_PROBE
                                  "\":null,\"" ANNOTATION_CONTRADICTED
                                  "\":null},\"labels\":{\"" LABEL_MEASURED_GFLOPS "\":null}}}",
                                  NULL, err);

    if (rc != ERR_OK)
        return rc;
    if (node->annotations.gflops > 0)
        (void)printf("%s: its speed is declared in " LABEL_GFLOPS
                     "; only a job with spec.placement.probePolicy Always measures it\n",
                     node->name);
    else
        (void)printf("%s: is measured for the next job to be planned\n", node->name);
    return ERR_OK;
}

static enum err_code measure(struct kube_client *client, const struct arguments *a,
                             const struct cluster *c, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (int i = 0; i < a->n_names; i++)
        if (!find(c, a->names[i]))
            return err_set(err, ERR_NOT_FOUND, "there is no node %.100s", a->names[i]);
    for (size_t i = 0; a->has_all && i < c->n_nodes && rc == ERR_OK; i++)
        rc = forget(client, &c->nodes[i], err);
    for (int i = 0; i < a->n_names && rc == ERR_OK; i++)
        rc = forget(client, find(c, a->names[i]), err);
    return rc;
}

/* --- the command --- */

static bool read_arguments(int argc, char **argv, struct arguments *a)
{
    const struct command_option options[] = {
        {"measure", .is_set = &a->measures},
        {"all", .is_set = &a->has_all},
        {"kubeconfig", .value = &a->kubeconfig},
        {"context", .value = &a->context},
        {.name = NULL},
    };

    if (!command_options(argc, argv, options))
        return false;
    a->names = argv + optind;
    a->n_names = argc - optind;
    return a->measures ? a->has_all == (a->n_names == 0) : !a->has_all && a->n_names == 0;
}

static enum err_code run(struct kube_client *client, const struct arguments *a, struct cluster *c,
                         struct err *err)
{
    const struct kube_ref nodes = {.resource = &kube_nodes};
    enum err_code rc = kube_list(client, &nodes, (struct kube_lister){c, cluster_add_node}, err);

    cluster_close_nodes(c);
    if (rc == ERR_OK && a->measures)
        return measure(client, a, c, err);
    if (rc == ERR_OK)
        nodes_print(c->nodes, c->n_nodes, clock_wall_ms(), stdout);
    return rc;
}

int command_nodes(int argc, char **argv)
{
    struct arguments a = {.names = NULL};
    struct cluster cluster = {.job = NULL};
    struct connection c;
    struct err err;
    enum err_code rc;

    if (!read_arguments(argc, argv, &a))
        return command_usage(argv[0]);
    rc = connection_open(a.kubeconfig, a.context, &c, &err);
    if (rc == ERR_OK)
        rc = run(c.client, &a, &cluster, &err);
    cluster_deinit(&cluster);
    connection_close(&c);
    return rc == ERR_OK ? EXIT_DONE : command_failed(&err);
}
