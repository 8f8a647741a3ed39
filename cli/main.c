/* kubectl-skyjob: plan, run and watch SkyJobs; as `kubectl skyjob` when it is in PATH. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/machine.h"

static int command_version(int argc, char **argv)
{
    (void)argc, (void)argv;
    (void)printf("kubectl-skyjob %s\n", SKYJOB_VERSION);
    return EXIT_DONE;
}

static int command_help(int argc, char **argv);

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *usage;
    const char *help;
} commands[] = {
    {"run", command_run,
     "-f FILE --workers " MACHINE_HELP "\n        [--data DIR] [--model DIR] [--output DIR]\n"
     "        [--strategy Optimal|Even|Dynamic|Manual] [--serial] [--json]",
     "train on this machine, without a cluster: one process for each stage, held to\n"
     "        its share of the CPU. --data and --model stand for the volumes that the job\n"
     "        names; --serial has one micro-batch at a time under way, to compare with;\n"
     "        --json gives the result to programs"},
    {"plan", command_plan,
     "-f FILE --workers " MACHINE_HELP
     "\n        [--strategy Optimal|Even|Dynamic|Manual] [--data DIR] [--model DIR]\n"
     "        [-o json|yaml] [--json]\n"
     "  kubectl-skyjob plan -f FILE --nodes FILE ...\n"
     "  kubectl-skyjob plan -f FILE [--kubeconfig FILE] [--context NAME] ...",
     "show who would run what, and why: on these workers, which it measures; on nodes\n"
     "        as `kubectl get nodes -o yaml` writes them, with their speed as a label\n"
     "        skyjob.dev/gflops; or on the cluster's nodes as they are now. With --data for\n"
     "        sequences as long as the job's own. Exits with 1 when nothing fits; --json prints\n"
     "        the plan that workers read"},
    {"status", command_status, "NAME [-n NAMESPACE] [--follow]",
     "how far a job in the cluster is; --follow stays until it is complete or failed"},
    {"version", command_version, "", "print the version"},
    {"help", command_help, "", "print this"},
};

static int command_help(int argc, char **argv)
{
    (void)argc, (void)argv;
    (void)printf("kubectl-skyjob: train BERT over uneven machines\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        (void)printf("  kubectl-skyjob %s %s\n        %s\n\n", commands[i].name, commands[i].usage,
                     commands[i].help);
    (void)printf("exit codes: 0 done, 1 failed, 2 wrong usage or configuration\n");
    return EXIT_DONE;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";

    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    (void)fprintf(stderr,
                  "kubectl-skyjob: there is no subcommand \"%.40s\"; see `kubectl-skyjob "
                  "help`\n",
                  name);
    return EXIT_CONFIG;
}
