/* kubectl-skyjob plan: which node would run which layers, and why, without running them.
 *
 * Exit codes: 0 there is a plan, 1 nothing fits (with what is missing), 2 wrong input.
 */
#include <getopt.h> /* optind */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "cli/cluster.h"
#include "cli/command.h"
#include "cli/local.h"
#include "cli/view.h"

struct arguments {
    struct local_params params; /* workers: NULL unless they are given */
    const char *nodes;          /* a file; without it and without workers: those of the cluster */
    const char *kubeconfig;
    const char *context;
    const char *format; /* "text", "json" or "yaml" */
    bool wants_plan;    /* the document that workers read */
};

static enum err_code print(const struct arguments *a, const struct local *l,
                           const struct cluster *cluster, struct err *err)
{
    struct whatif whatif = {.n_fewer = 0};
    struct view view = {.local = l, .cluster = cluster, .whatif = &whatif};
    struct buf text = {.max = VIEW_MAX_BYTES};
    struct jsonw w;
    enum err_code rc = ERR_OK;

    if (a->wants_plan) {
        rc = plan_write(&l->plan, l->job.spec_json, &text, err);
    } else {
        if (l->replicas.n == 1)
            rc = whatif_solve(&l->request, &l->placement, &whatif, err);
        if (rc != ERR_OK)
            return rc;
        if (strcmp(a->format, "text") == 0) {
            view_text(&view, stdout);
            return ERR_OK;
        }
        jsonw_init(&w, &text);
        jsonw_open_object(&w, NULL);
        view_write(&view, &w);
        jsonw_close(&w);
        rc = jsonw_finish(&w, err);
    }
    if (rc == ERR_OK && !a->wants_plan && strcmp(a->format, "yaml") == 0)
        rc = view_yaml(&text, stdout, err);
    else if (rc == ERR_OK)
        (void)printf("%s\n", buf_text(&text));
    buf_deinit(&text);
    return rc;
}

static bool read_arguments(int argc, char **argv, struct arguments *a)
{
    const struct command_option options[] = {
        {"file", 'f', .value = &a->params.job_path},
        {"workers", .value = &a->params.workers},
        {"nodes", .value = &a->nodes},
        {"data", .value = &a->params.data},
        {"model", .value = &a->params.model},
        {"output", 'o', .value = &a->format},
        {"strategy", .value = &a->params.strategy},
        {"json", .is_set = &a->wants_plan},
        {"kubeconfig", .value = &a->kubeconfig},
        {"context", .value = &a->context},
        {.name = NULL},
    };

    if (!command_options(argc, argv, options))
        return false;
    if (strcmp(a->format, "text") != 0 && strcmp(a->format, "json") != 0 &&
        strcmp(a->format, "yaml") != 0) {
        (void)fprintf(stderr, "kubectl-skyjob: -o must be json or yaml, not \"%.40s\"\n",
                      a->format);
        return false;
    }
    if (a->params.workers && a->nodes) {
        (void)fprintf(stderr, "kubectl-skyjob: use --workers or --nodes, not both\n");
        return false;
    }
    return optind == argc && a->params.job_path;
}

/* The sizes that the operator has read from the model of the same job. */
static enum err_code take_status(struct kube_client *client, struct job *job, struct err *err)
{
    struct kube_ref ref = {
        .resource = &cluster_skyjobs, .namespace = job->namespace, .name = job->name};
    struct json *object = NULL;
    enum err_code rc = kube_get(client, &ref, &object, err);

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc == ERR_OK &&
        json_equal(json_path(object, "spec.model.from"), json_path(job->spec_json, "model.from")))
        rc = job_take_status(job, json_get(object, "status"), err);
    json_free(object);
    return rc;
}

static enum err_code ask_cluster(const struct arguments *a, struct job *job, struct cluster *out,
                                 struct err *err)
{
    struct connection c;
    enum err_code rc = connection_open(a->kubeconfig, a->context, &c, err);

    if (rc == ERR_OK && !spec_has_sizes(&job->spec))
        rc = take_status(c.client, job, err);
    if (rc == ERR_OK)
        rc = cluster_load(c.client, out, err);
    connection_close(&c);
    return rc == ERR_OK ? ERR_OK
                        : err_wrap(err, rc, "query the cluster (or use --workers or --nodes)");
}

static enum err_code make_plan(const struct arguments *a, struct cluster *cluster,
                               struct local *out, struct err *err)
{
    enum err_code rc = local_read(out, &a->params, err);

    if (rc == ERR_OK && !a->params.workers)
        rc = a->nodes ? cluster_load_file(a->nodes, cluster, err)
                      : ask_cluster(a, &out->job, cluster, err);
    if (rc == ERR_OK)
        rc = job_check_sizes(&out->job, err);
    if (rc == ERR_OK && a->params.workers)
        return local_measure(out, &a->params, err);
    if (rc == ERR_OK)
        rc = cluster_survey(cluster, clock_wall_ms(), err);
    return rc == ERR_OK ? local_plan(out, &a->params, &cluster->survey, err) : rc;
}

int command_plan(int argc, char **argv)
{
    static struct local local;
    struct arguments a = {.params = {.messages = stderr}, .format = "text"};
    struct cluster cluster = {.job = &local.job};
    struct err err;
    enum err_code rc;
    int code;

    if (!read_arguments(argc, argv, &a))
        return command_usage(argv[0]);
    interrupt_catch();
    rc = make_plan(&a, &cluster, &local, &err);
    if (rc == ERR_NOT_FOUND && local.is_solved) {
        /* Nothing fits: that is an answer, and the excluded nodes are part of it. */
        (void)fprintf(stderr, "kubectl-skyjob: %s\n", err.text);
        view_nodes(&cluster, stderr);
        code = EXIT_FAILED;
    } else {
        if (rc == ERR_OK)
            rc = print(&a, &local, &cluster, &err);
        code = rc == ERR_OK ? EXIT_DONE : command_failed(&err);
    }
    local_deinit(&local, false);
    cluster_deinit(&cluster);
    return code;
}
