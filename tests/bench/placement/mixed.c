/* The published "optimal": a mixed-integer program for the least slowest stage, solved to a gap of
 * 20%, by glpsol. Layers' units are alike on average, so a node's share is a whole number. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "method.h"

#define GAP        "0.2"
#define SECONDS    "10"
#define PATH_BYTES 64

bool mixed_is_there(void)
{
    return system("command -v glpsol >/dev/null 2>&1") == 0;
}

static bool write_program(const char *path, const struct cut_problem *p, int n_layer_units)
{
    FILE *lp = fopen(path, "w");
    int last = p->n_nodes - 1;
    int behind = n_layer_units + 1; /* pooler and head */

    if (!lp)
        return false;
    (void)fprintf(lp, "Minimize\n slowest: t\nSubject To\n");
    for (int i = 0; i <= last; i++) {
        double unit_ms = (p->ms[i][behind] - p->ms[i][1]) / n_layer_units;
        double fixed_ms =
            (i == 0 ? p->ms[i][1] : 0) + (i == last ? p->ms[i][p->n_units] - p->ms[i][behind] : 0);

        (void)fprintf(lp, " load_%d: %.17g n_%d - t <= %.17g\n", i, unit_ms, i, -fixed_ms);
    }
    (void)fprintf(lp, " whole:");
    for (int i = 0; i <= last; i++)
        (void)fprintf(lp, " + n_%d\n", i);
    (void)fprintf(lp, " = %d\nGeneral\n", n_layer_units);
    for (int i = 0; i <= last; i++)
        (void)fprintf(lp, " n_%d\n", i);
    (void)fprintf(lp, "End\n");
    return fclose(lp) == 0;
}

/* Columns are in the order in which they were first named: t, then the nodes'. */
static bool read_solution(const char *path, int n_nodes, int n_layer_units, int *out_units)
{
    FILE *in = fopen(path, "r");
    char line[256];
    int n_read = 0;
    int sum = 0;

    if (!in)
        return false;
    while (fgets(line, sizeof line, in)) {
        int column;
        double value;

        if (sscanf(line, "j %d %lf", &column, &value) != 2 || column < 2 || column > n_nodes + 1)
            continue;
        out_units[column - 2] = (int)(value + 0.5);
        sum += out_units[column - 2];
        n_read++;
    }
    (void)fclose(in);
    return n_read == n_nodes && sum == n_layer_units;
}

bool mixed_solve(const struct cut_problem *p, int n_layer_units, int *out_units)
{
    char folder[] = "/tmp/bench-placement-XXXXXX";
    char lp[PATH_BYTES];
    char solution[PATH_BYTES];
    char command[512];
    bool is_solved = false;

    if (!mkdtemp(folder))
        return false;
    (void)snprintf(lp, sizeof lp, "%s/program.lp", folder);
    (void)snprintf(solution, sizeof solution, "%s/solution", folder);
    (void)snprintf(command, sizeof command,
                   "glpsol --lp %s --mipgap " GAP " --tmlim " SECONDS " -w %s >/dev/null 2>&1", lp,
                   solution);
    if (write_program(lp, p, n_layer_units) && system(command) == 0)
        is_solved = read_solution(solution, p->n_nodes, n_layer_units, out_units);
    (void)unlink(lp);
    (void)unlink(solution);
    (void)rmdir(folder);
    return is_solved;
}
