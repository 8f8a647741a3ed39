/* Resident memory after a training step of BERT-base, 8 sequences of 128 tokens, against what the
 * planner's cost model says that such a stage needs. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "balance/partition.h"
#include "bench.h"
#include "step.h"

#define MIB ((double)(1 << 20))

static double resident_bytes(void)
{
    long long pages;
    long long resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (!f || fscanf(f, "%lld %lld", &pages, &resident) != 2)
        exit(1);
    (void)fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* As for a worker, but for its data set: none is read here. */
static double predicted_bytes(const struct plan *plan)
{
    static struct placement placement;
    struct node node = {
        .name = "one", .cpu_milli = 1000, .memory_bytes = (int64_t)1 << 40, .gflops = 100};
    struct partition_request request = partition_request_of(&plan->spec);
    struct err err;

    request.job.micro_batches = plan->micro_batches;
    request.min_stages = request.max_stages = 1;
    request.nodes = &node;
    request.n_nodes = 1;
    if (partition_solve(&request, &placement, &err) != ERR_OK) {
        (void)fprintf(stderr, "bench_memory: %s\n", err.text);
        exit(1);
    }
    return (double)(placement.stages[0].memory_bytes - COST_DATA_BYTES);
}

int main(int argc, char **argv)
{
    static struct step s;
    double resident;
    double predicted;

    (void)argc;
    step_setup(argv, 1);
    step_init(&s, &(struct step_case){.preset = "BertBase", .n_seqs = 8, .micro_batches = 1});
    step_run(&s);
    resident = resident_bytes();
    predicted = predicted_bytes(&s.plan);
    bench_print("memory.BertBase.resident", resident / MIB, "MiB",
                "a step of 8 x 128 tokens, one stage");
    bench_print("memory.BertBase.predicted", predicted / resident, "x",
                "the planner's figure, without a data set, by what is resident");
    step_deinit(&s);
    return 0;
}
