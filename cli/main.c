/* kubectl-skyjob: plan, run and watch SkyJobs; as `kubectl skyjob` when it is in PATH. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/completion.h"
#include "cli/cut.h"
#include "cli/local.h"

static int command_version(int argc, char **argv)
{
    (void)argc, (void)argv;
    (void)printf("kubectl-skyjob %s\n", SKYJOB_VERSION);
    return EXIT_DONE;
}

static int command_completion(int argc, char **argv);
static int command_help(int argc, char **argv);

static const struct command commands[] = {
    {"init", command_init, " [OPTION]...",
     "Print a SkyJob to begin with, as commented YAML that is known to be valid.\n"
     "  --name NAME              default: the task's, in lower case\n"
     "  --task TASK              MNLI, SST2, Classification, MaskedLM, ...; default: MNLI\n"
     "  --data SOURCE            configmap/NAME, pvc/NAME[/PATH] or, for MNLI, sample\n"
     "  --preset PRESET          of the model's sizes; default: BertMini, or those of --from\n"
     "  --from pvc/NAME[/PATH]   the model to start from, a Hugging Face folder\n"
     "  --output pvc/NAME[/PATH]  where the trained model is kept\n"
     "  --epochs N, --steps N    one of them; default: 3 epochs\n"
     "  --batch-size N           sequences per step; default: 32\n"
     "  --replicas N             pipelines, or Auto; default: 1\n"
     "  -o, --file FILE          write it to FILE, which must not exist yet\n"},
    {"run", command_run, " -f FILE --workers " LOCAL_WORKERS " [OPTION]...",
     "Train on this machine, without a cluster: one process per stage, limited to its share\n"
     "of the CPU.\n"
     "  --data DIR, --model DIR  use these in place of the volumes that the job names\n"
     "  --output DIR             keep the trained model in DIR\n"
     "  --checkpoints DIR        write checkpoints to DIR, as often as the job says; or to\n"
     "                           s3://BUCKET/PREFIX, with AWS_ACCESS_KEY_ID and\n"
     "                           AWS_SECRET_ACCESS_KEY in the environment, and AWS_ENDPOINT_URL\n"
     "                           for a server that is not Amazon's\n"
     "  --resume                 go on from the newest checkpoint in DIR\n"
     "  --resume-from DIR        go on from the newest checkpoint of another run, in DIR; with\n"
     "                           a bucket, s3://BUCKET/PREFIX in the same one\n"
     "  --strategy STRATEGY      Optimal, Even, Dynamic or Manual; default: the job's\n"
     "  --revise " CUT_FORM "  from this step on, give workers\n"
     "                           these numbers of units, in the order of the model; repeatable\n"
     "  --serial                 run one micro-batch at a time, for comparison\n"
     "  --json                   print the result as JSON\n"
     "SIGUSR1 has a checkpoint written at the end of the step.\n"},
    {"plan", command_plan,
     " -f FILE --workers " LOCAL_WORKERS " [OPTION]...\n"
     "  kubectl-skyjob plan -f FILE --nodes FILE [OPTION]...\n"
     "  kubectl-skyjob plan -f FILE [--kubeconfig FILE] [--context NAME] [OPTION]...",
     "Show which node would run which layers, and why: for these workers, which are\n"
     "measured first; for the nodes in a file, as printed by `kubectl get nodes -o yaml`,\n"
     "with their speed in a label skyjob.dev/gflops; or for the cluster's nodes as they are\n"
     "now. Exits with 1 if nothing fits.\n"
     "  --data DIR, --model DIR  take sequence lengths and the model's sizes from these\n"
     "  --strategy STRATEGY      Optimal, Even, Dynamic or Manual; default: the job's\n"
     "  -o json|yaml             print the report for programs\n"
     "  --json                   print the plan that the workers read\n"},
    {"tune", command_tune, " -f FILE --workers " LOCAL_WORKERS " [OPTION]...",
     "Find out when the replicas of a job may stop working in step, by runs of the job on this\n"
     "machine: ASP, or what spec.sync.switchTo or protocol name, after 0, 6, 12, 25 and 50% of\n"
     "the steps is compared with BSP, by pairs of runs with the same seed. The first that is\n"
     "shown to be less than the margin worse is chosen, else BSP.\n"
     "  --data DIR, --model DIR  use these in place of the volumes that the job names\n"
     "  --margin POINTS          in hundredths of the job's metric; default: 1\n"
     "  --runs N                 at most so many pairs for each candidate, 2 to 32; default: 5\n"
     "  --steps N                of a run; default: those of the job\n"
     "  --output FILE            write the job with the result to FILE, as JSON\n"
     "  --json                   print the result as JSON\n"},
    {"status", command_status,
     " NAME [-n NAMESPACE] [OPTION]...\n"
     "  kubectl-skyjob status [-n NAMESPACE|-A] [OPTION]...",
     "Show the progress of a job in the cluster, or of all jobs of a namespace as a table.\n"
     "  -A, --all-namespaces     of all namespaces\n"
     "  -f, --follow             until the job has ended; of the table, a line for each change\n"
     "  -o, --output json        for programs: what the table has, and the whole status\n"
     "  --kubeconfig FILE, --context NAME, --namespace NAME  as with kubectl\n"},
    {"explain", command_explain, " NAME [-n NAMESPACE] [--kubeconfig FILE] [--context NAME]",
     "Show why a job is as it is: its state, the conditions that are unusual, its pods that do "
     "not\n"
     "run, its newest Events, and what to do next.\n"},
    {"logs", command_logs, " NAME [-n NAMESPACE] [OPTION]... [--kubeconfig FILE] [--context NAME]",
     "Print the logs of a job's workers, each line after the worker's slot: \"[slot 0] \".\n"
     "  -f, --follow             go on until the job has ended, also with workers that are "
     "replaced\n"
     "  -p, --previous           of workers that were replaced, as far as their pods are there\n"
     "  --tail N                 only the last N lines of each\n"},
    {"report", command_report,
     " NAME [-n NAMESPACE] [OPTION]...\n"
     "  kubectl-skyjob report --history FILE [--status FILE] [OPTION]...",
     "Write a page with loss, metrics and throughput, which layers run where, the timeline of a\n"
     "step, revisions and events: of a job in the cluster, or from the files of a run.\n"
     "  -o, --output FILE        the page, as HTML that needs no other file; -: stdout\n"
     "  --trace FILE             the timeline for Perfetto (ui.perfetto.dev): the schedule with\n"
     "                           the times that were measured, not a recording\n"
     "  --history FILE           history.jsonl of the job's output folder\n"
     "  --status FILE            what `kubectl get skyjob NAME -o json` or `kubectl-skyjob run\n"
     "                           --json` printed\n"
     "  --kubeconfig FILE, --context NAME, --namespace NAME  as with kubectl\n"},
    {"checkpoint", command_checkpoint, " NAME [-n NAMESPACE] [--kubeconfig FILE] [--context NAME]",
     "Have a job in the cluster write a checkpoint at the end of its step, and wait until it\n"
     "is written. A job on one node needs a spec.checkpoint.store for that.\n"},
    {"replan", command_replan, " NAME [-n NAMESPACE] [--kubeconfig FILE] [--context NAME]",
     "Have the operator look for a better cut of a running job at once, with the speeds that its\n"
     "workers have now. The answer is an Event of the job, and in its status.rebalance.\n"},
    {"suspend", command_suspend, " NAME [-n NAMESPACE] [--kubeconfig FILE] [--context NAME]",
     "Have a job in the cluster write a checkpoint and give its nodes back, by its spec.suspend.\n"
     "Exits with 1 if the operator answers that its checkpoints would be lost.\n"},
    {"resume", command_resume, " NAME [-n NAMESPACE] [--kubeconfig FILE] [--context NAME]",
     "Have a suspended job planned again; it goes on from its checkpoint.\n"},
    {"delete", command_delete,
     " NAME [-n NAMESPACE] [--wait [--timeout SECONDS]] [--kubeconfig FILE] [--context NAME]",
     "Delete a job from the cluster; its workers end.\n"
     "  --wait                   until the job and its pods are gone\n"
     "  --timeout SECONDS        fail if they are not after this time; default: 60\n"},
    {"nodes", command_nodes,
     " [--kubeconfig FILE] [--context NAME]\n"
     "  kubectl-skyjob nodes --measure NODE...|--all [--kubeconfig FILE] [--context NAME]",
     "Show what is known of the cluster's nodes: their speed with all CPU, whether it was "
     "measured\n"
     "or declared, and when. A measurement counts for jobs of the same shapes and data.\n"
     "  --measure                have these nodes, or all, measured again, before the next plan\n"},
    {"check", command_check, " [-n NAMESPACE] [--kubeconfig FILE] [--context NAME]",
     "Is this cluster ready for SkyJobs? A line for each finding, ok, warning or problem, with\n"
     "what to do; unknown is what you may not read. Exits with 1 if there is a problem.\n"},
    {"completion", command_completion, " bash|zsh",
     "Print a script that completes commands, options and names of SkyJobs.\n"
     "  source <(kubectl-skyjob completion bash)        for kubectl-skyjob, in this shell\n"
     "For `kubectl skyjob`, in any shell that kubectl completes in, put the script for bash in\n"
     "your PATH as kubectl_complete-skyjob, and make it executable.\n"},
    {"version", command_version, "", "Print the version.\n"},
    {"help", command_help, " [COMMAND]", "Print this help, or only that for COMMAND.\n"},
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
    (void)printf("  kubectl-skyjob %s%s\n", commands[i].name, commands[i].usage);
    for (const char *line = commands[i].help; *line; line += strcspn(line, "\n") + 1)
        (void)printf("        %.*s\n", (int)strcspn(line, "\n"), line);
    (void)printf("\n");
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

static int command_completion(int argc, char **argv)
{
    struct err err;

    if (argc != 2)
        return command_usage(argv[0]);
    return completion_print(argv[1], commands, N_COMMANDS, stdout, &err) == ERR_OK
               ? EXIT_DONE
               : command_failed(&err);
}

static bool is_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
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
    /* Anywhere: a command line is often half typed when help is needed. */
    for (int k = 2; k < argc && strcmp(argv[k], "--") != 0; k++)
        if (is_help(argv[k])) {
            print_command(i);
            return EXIT_DONE;
        }
    return commands[i].run(argc - 1, argv + 1);
}
