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
     "train on this machine, without a cluster: one process per stage, held to its share\n"
     "        of the CPU. --data and --model stand for the volumes that the job names;\n"
     "        --serial runs one micro-batch at a time, for comparison; --json prints the\n"
     "        result as JSON"},
    {"plan", command_plan,
     "-f FILE --workers " LOCAL_WORKERS
     "\n        [--strategy Optimal|Even|Dynamic|Manual] [--data DIR] [--model DIR]\n"
     "        [-o json|yaml] [--json]\n"
     "  kubectl-skyjob plan -f FILE --nodes FILE ...\n"
     "  kubectl-skyjob plan -f FILE [--kubeconfig FILE] [--context NAME] ...",
     "show which node would run which layers, and why: on these workers, which are\n"
     "        measured first; on nodes from a file, as `kubectl get nodes -o yaml` prints them,\n"
     "        with their speed in a label skyjob.dev/gflops; or on the cluster's nodes as they\n"
     "        are now. --data gives the lengths of the job's sequences. Exits with 1 when\n"
     "        nothing fits. -o prints the report for programs, --json the plan that workers\n"
     "        read"},
    {"status", command_status,
     "NAME [-n NAMESPACE] [--follow] [--kubeconfig FILE] [--context NAME]",
     "show the progress of a job in the cluster; --follow until it has ended"},
    {"version", command_version, "", "print the version"},
    {"help", command_help, "[COMMAND]", "print this, or the part about COMMAND"},
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
    (void)fprintf(stderr, "kubectl-skyjob: unknown command \"%.40s\"; see `kubectl-skyjob help`\n",
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
        (void)printf("kubectl-skyjob: train BERT on unequal machines\n\n");
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

/* Anywhere after the command's name: a command line is often half typed when help is needed. */
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
