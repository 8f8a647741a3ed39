/* kubectl-skyjob plan: who would run what, and why, without running it.
 *
 * Exit codes: 0 there is a plan, 1 nothing fits (and what is missing), 2 wrong input.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/local.h"
#include "cli/nodefile.h"
#include "cli/report.h"

static const struct option options[] = {
    {"file", required_argument, NULL, 'f'},
    {"workers", required_argument, NULL, 'w'},
    {"nodes", required_argument, NULL, 'n'},
    {"output", required_argument, NULL, 'o'},
    {"strategy", required_argument, NULL, 's'},
    {"json", no_argument, NULL, 'j'},
    {NULL, 0, NULL, 0},
};

struct arguments {
    struct local_params params; /* workers: NULL with --nodes */
    const char *nodes;
    const char *format; /* "text", "json", "yaml", or "plan" for what workers read */
};

static enum err_code print_plan(const struct local *l, struct err *err)
{
    struct buf text = {.max = PLAN_TEXT_MAX_BYTES};
    enum err_code rc = plan_write(&l->plan, l->job.spec_json, &text, err);

    if (rc == ERR_OK)
        (void)printf("%s\n", buf_text(&text));
    buf_deinit(&text);
    return rc;
}

static enum err_code print_report(const struct local *l, const struct nodefile *nodes,
                                  const char *format, struct err *err)
{
    struct whatif whatif;
    struct report report = {.request = &l->request,
                            .placement = &l->placement,
                            .whatif = &whatif,
                            .n_closed = nodes->n_closed};
    struct buf json = {.max = REPORT_MAX_BYTES};
    enum err_code rc = whatif_solve(&l->request, &l->placement, &whatif, err);

    if (rc == ERR_OK && strcmp(format, "text") == 0)
        report_text(&report, stdout);
    else if (rc == ERR_OK)
        rc = report_json(&report, &json, err);
    if (rc == ERR_OK && strcmp(format, "json") == 0)
        (void)printf("%s\n", buf_text(&json));
    if (rc == ERR_OK && strcmp(format, "yaml") == 0)
        rc = report_yaml(&json, stdout, err);
    buf_deinit(&json);
    return rc;
}

static bool read_arguments(int argc, char **argv, struct arguments *a)
{
    int c;

    while ((c = getopt_long(argc, argv, "f:o:", options, NULL)) != -1) {
        if (c == 'f')
            a->params.job_path = optarg;
        else if (c == 'w')
            a->params.workers = optarg;
        else if (c == 'n')
            a->nodes = optarg;
        else if (c == 'o')
            a->format = optarg;
        else if (c == 's')
            a->params.strategy = optarg;
        else if (c == 'j')
            a->format = "plan";
        else
            return false;
    }
    if (strcmp(a->format, "text") != 0 && strcmp(a->format, "json") != 0 &&
        strcmp(a->format, "yaml") != 0 && strcmp(a->format, "plan") != 0) {
        (void)fprintf(stderr, "kubectl-skyjob: -o is json or yaml, not \"%.40s\"\n", a->format);
        return false;
    }
    if ((a->params.workers != NULL) == (a->nodes != NULL))
        (void)fprintf(stderr, "kubectl-skyjob: name either --workers or --nodes\n");
    return optind == argc && a->params.job_path &&
           (a->params.workers != NULL) != (a->nodes != NULL);
}

int command_plan(int argc, char **argv)
{
    static struct local local;
    struct arguments a = {.params = {.talk = stderr}, .format = "text"};
    struct nodefile nodes = {.nodes = NULL};
    struct err err;
    bool is_infeasible;
    int n_closed;
    enum err_code rc = ERR_OK;

    if (!read_arguments(argc, argv, &a))
        return command_usage(argv[0]);
    interrupt_catch();
    if (a.nodes)
        rc = nodefile_load(a.nodes, &nodes, &err);
    if (rc == ERR_OK && a.nodes)
        rc = local_plan(&local, &a.params, nodes.nodes, nodes.n_nodes, &err);
    else if (rc == ERR_OK)
        rc = local_init(&local, &a.params, &err);
    is_infeasible = rc == ERR_NOT_FOUND && local.request.spec;
    if (rc == ERR_OK)
        rc = strcmp(a.format, "plan") == 0 ? print_plan(&local, &err)
                                           : print_report(&local, &nodes, a.format, &err);
    n_closed = nodes.n_closed;
    local_deinit(&local, false);
    nodefile_deinit(&nodes);
    if (is_infeasible) {
        (void)fprintf(stderr, "kubectl-skyjob: %s%s\n", err.text,
                      n_closed > 0 ? "; nodes that are cordoned or tainted were not asked" : "");
        return EXIT_FAILED;
    }
    return rc == ERR_OK ? EXIT_DONE : command_failed(&err);
}
