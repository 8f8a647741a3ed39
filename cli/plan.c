/* kubectl-skyjob plan: who would run what, without running it. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/local.h"
#include "cli/show.h"

static const struct option options[] = {
    {"file", required_argument, NULL, 'f'},
    {"workers", required_argument, NULL, 'w'},
    {"strategy", required_argument, NULL, 's'},
    {"json", no_argument, NULL, 'j'},
    {NULL, 0, NULL, 0},
};

static enum err_code print_json(const struct local *l, struct err *err)
{
    struct buf text = {.max = PLAN_TEXT_MAX_BYTES};
    enum err_code rc = plan_write(&l->plan, l->job.spec_json, &text, err);

    if (rc == ERR_OK)
        (void)printf("%s\n", buf_text(&text));
    buf_deinit(&text);
    return rc;
}

int command_plan(int argc, char **argv)
{
    static struct local local;
    struct local_params params = {.talk = stderr};
    struct err err;
    bool wants_json = false;
    enum err_code rc;
    int c;

    while ((c = getopt_long(argc, argv, "f:", options, NULL)) != -1) {
        if (c == 'f')
            params.job_path = optarg;
        else if (c == 'w')
            params.workers = optarg;
        else if (c == 's')
            params.strategy = optarg;
        else if (c == 'j')
            wants_json = true;
        else
            return command_usage(argv[0]);
    }
    if (optind != argc || !params.job_path || !params.workers)
        return command_usage(argv[0]);
    interrupt_catch();
    rc = local_init(&local, &params, &err);
    if (rc == ERR_OK && wants_json) {
        rc = print_json(&local, &err);
    } else if (rc == ERR_OK) {
        show_plan(stdout, &local.request, &local.placement);
        (void)printf("\n%s\n", local.plan.reason);
    }
    local_deinit(&local, false);
    return rc == ERR_OK ? EXIT_DONE : command_failed(&err);
}
