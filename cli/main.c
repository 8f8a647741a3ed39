/* kubectl-skyjob: plan, run and watch SkyJobs; as `kubectl skyjob` when it is in PATH. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/local.h"

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
     "-f FILE --workers " LOCAL_WORKERS "\n        [--data DIR] [--model DIR] [--output DIR]\n"
     "        [--strategy Optimal|Even|Dynamic|Manual] [--serial] [--json]",
     "train on this machine, without a cluster: one process for each stage, held to\n"
     "        its share of the CPU. --data and --model stand for the volumes that the job\n"
     "        names; --serial has one micro-batch at a time under way, to compare with;\n"
     "        --json gives the result to programs"},
    {"plan", command_plan,
     "-f FILE --workers " LOCAL_WORKERS
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
     "show the progress of a job in the cluster; --follow waits until it has ended"},
    {"version", command_version, "", "print the version"},
    {"help", command_help, "[COMMAND]", "print this, or only about COMMAND"},
};
#define N_COMMANDS ((int)(sizeof commands / sizeof commands[0]))

/* -1: there is no such command. */
static int find_command(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return i;
    return -1;
}

static int unknown_command(const char *name)
{
    (void)fprintf(stderr,
                  "kubectl-skyjob: there is no subcommand \"%.40s\"; see `kubectl-skyjob "
                  "help`\n",
                  name);
    return EXIT_CONFIG;
}

static void print_command(int i)
{
    (void)printf("  kubectl-skyjob %s %s\n        %s\n\n", commands[i].name, commands[i].usage,
                 commands[i].help);
}

static int command_help(int argc, char **argv)
{
    int only = argc > 1 ? find_command(argv[1]) : -1;

    if (argc > 1 && only < 0)
        return unknown_command(argv[1]);
    if (only < 0)
        (void)printf("kubectl-skyjob: train BERT over uneven machines\n\n");
    for (int i = 0; i < N_COMMANDS; i++)
        if (only < 0 || i == only)
            print_command(i);
    (void)printf("exit codes: %d done, %d failed, %d wrong usage or configuration\n", EXIT_DONE,
                 EXIT_FAILED, EXIT_CONFIG);
    return EXIT_DONE;
}

static bool is_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

/* Anywhere behind the command's name: who asks has perhaps typed half of a command line. */
static bool asks_for_help(int argc, char **argv)
{
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_help(argv[i]))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    int i;

    if (is_help(name))
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    i = find_command(name);
    if (i < 0)
        return unknown_command(name);
    if (asks_for_help(argc, argv)) {
        print_command(i);
        return EXIT_DONE;
    }
    return commands[i].run(argc - 1, argv + 1);
}
