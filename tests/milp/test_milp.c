/* The planner against an independent solver: every instance once more as a mixed-integer program,
 * solved by glpsol (Debian's glpk-utils, which `make check` installs).
 *
 * y(i,j,a,b) = 1: node i runs units a..b-1 with j stages behind it. Choices that the node has no
 * memory for are left out. The stages are a path from unit 0 to the last one; a node is used once;
 * t is at least the time of every node and of every edge in use. Minimise the stages' and edges'
 * times and (M - 1) t.
 *
 * Where links differ, an edge's time is not known from what is in front of it: z(i,k,b) is at least
 * 1 when node i ends at unit b and node k begins there, and carries the edge's time instead.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "instances.h"

#define INSTANCES      60
#define NODES_MAX      6
#define NODES_MAX_PAIR 5 /* where links differ, which is harder for the solver */
#define UNITS_MAX      9

struct program {
    const struct instance *in;
    struct cost_unit units[UNITS_MAX];
    int n_units, n_stages; /* at most */
    FILE *lp;
};

static bool fits(const struct program *p, int node, int behind, int first, int end)
{
    int m = p->in->request.job.micro_batches;
    int64_t bytes = COST_PROCESS_BYTES;
    int64_t scratch = 0;

    if (first == 0)
        bytes += COST_DATA_BYTES;
    else
        bytes += 2 * COST_LINK_SLOTS * p->units[first - 1].slot_bytes;
    if (end < p->n_units)
        bytes += 2 * COST_LINK_SLOTS * p->units[end - 1].slot_bytes;
    for (int u = first; u < end; u++) {
        bytes += p->units[u].state_bytes;
        bytes += p->units[u].activation_bytes * (behind + 1 < m ? behind + 1 : m);
        scratch = p->units[u].scratch_bytes > scratch ? p->units[u].scratch_bytes : scratch;
    }
    return bytes + scratch <= p->in->nodes[node].memory_bytes;
}

static double run_ms(const struct program *p, int node, int first, int end)
{
    double ms = 0;

    for (int u = first; u < end; u++)
        ms += cost_unit_ms(&p->units[u], &p->in->nodes[node]);
    return ms;
}

/* 0 where links differ, see put_pairs(). */
static double edge_ms(const struct program *p, int end)
{
    return end < p->n_units && !p->in->request.links
               ? cost_edge_ms(&p->units[end - 1], &p->in->request.link)
               : 0;
}

/* What a term of a row is made of. */
enum term {
    TERM_COST,      /* time of the stage and of its edge, there and back */
    TERM_STAGE,     /* time of the stage */
    TERM_EDGE,      /* time of the edge behind it */
    TERM_ONE,       /* 1 */
    TERM_MINUS_ONE, /* -1 */
    TERM_NAME,      /* no factor: for the list of binaries */
};

/* Which choices a row is about; -1: all. */
struct which {
    int node, behind, first, end;
};

static void put_terms(const struct program *p, enum term term, struct which w)
{
    int m = p->in->request.job.micro_batches;

    for (int i = 0; i < p->in->request.n_nodes; i++)
        for (int j = 0; j < p->n_stages; j++)
            for (int a = 0; a < p->n_units; a++)
                for (int b = a + 1; b <= p->n_units; b++) {
                    double ms = run_ms(p, i, a, b) +
                                ((a > 0) + (b < p->n_units)) * instance_messages_ms(p->in, i);
                    double fill = instance_fill(p->in, i);
                    double factor = term == TERM_COST    ? fill * ms + 2 * edge_ms(p, b)
                                    : term == TERM_STAGE ? (m > 1 ? (m - fill) / (m - 1) : 1) * ms
                                    : term == TERM_EDGE  ? edge_ms(p, b)
                                    : term == TERM_MINUS_ONE ? -1
                                                             : 1;

                    if ((w.node >= 0 && w.node != i) || (w.behind >= 0 && w.behind != j) ||
                        (w.first >= 0 && w.first != a) || (w.end >= 0 && w.end != b) ||
                        (b == p->n_units) != (j == 0) || !fits(p, i, j, a, b))
                        continue;
                    if (term == TERM_NAME)
                        (void)fprintf(p->lp, " y_%d_%d_%d_%d\n", i, j, a, b);
                    else
                        (void)fprintf(p->lp, " %+.17g y_%d_%d_%d_%d\n", factor, i, j, a, b);
                }
}

/* The terms or the rows of z. */
enum part {
    PART_COST,
    PART_ROWS,
};

static void put_pairs(const struct program *p, enum part part)
{
    const struct partition_request *r = &p->in->request;

    for (int i = 0; r->links && i < r->n_nodes; i++)
        for (int k = 0; k < r->n_nodes; k++)
            for (int b = 1; b < p->n_units; b++) {
                double ms = cost_edge_ms(&p->units[b - 1], partition_link(r, i, k));

                if (i == k)
                    continue;
                if (part == PART_COST) {
                    (void)fprintf(p->lp, " %+.17g z_%d_%d_%d\n", 2 * ms, i, k, b);
                    continue;
                }
                (void)fprintf(p->lp, " pair_%d_%d_%d: -1 z_%d_%d_%d\n", i, k, b, i, k, b);
                put_terms(p, TERM_ONE, (struct which){i, -1, -1, b});
                put_terms(p, TERM_ONE, (struct which){k, -1, b, -1});
                (void)fprintf(p->lp, " <= 1\n link_%d_%d_%d: -1 t %+.17g z_%d_%d_%d <= 0\n", i, k,
                              b, ms, i, k, b);
            }
}

static void write_program(const struct program *p)
{
    const struct which all = {-1, -1, -1, -1};

    /* "0 t" keeps a row that nothing fits into from being empty. */
    (void)fprintf(p->lp, "Minimize\n obj: %d t\n", p->in->request.job.micro_batches - 1);
    put_terms(p, TERM_COST, all);
    put_pairs(p, PART_COST);
    (void)fprintf(p->lp, "Subject To\n");
    put_pairs(p, PART_ROWS);
    for (int i = 0; i < p->in->request.n_nodes; i++) {
        (void)fprintf(p->lp, " once_%d: 0 t\n", i);
        put_terms(p, TERM_ONE, (struct which){i, -1, -1, -1});
        (void)fprintf(p->lp, " <= 1\n slow_%d: -1 t\n", i);
        put_terms(p, TERM_STAGE, (struct which){i, -1, -1, -1});
        (void)fprintf(p->lp, " <= 0\n");
    }
    for (int b = 1; b < p->n_units; b++) {
        (void)fprintf(p->lp, " edge_%d: -1 t\n", b);
        put_terms(p, TERM_EDGE, (struct which){-1, -1, -1, b});
        (void)fprintf(p->lp, " <= 0\n");
        for (int j = 0; j < p->n_stages - 1; j++) { /* who ends at b finds somebody who begins */
            (void)fprintf(p->lp, " path_%d_%d: 0 t\n", b, j);
            put_terms(p, TERM_ONE, (struct which){-1, j, b, -1});
            put_terms(p, TERM_MINUS_ONE, (struct which){-1, j + 1, -1, b});
            (void)fprintf(p->lp, " = 0\n");
        }
        (void)fprintf(p->lp, " begin_%d: 0 t\n", b); /* nobody ends where nobody can begin */
        put_terms(p, TERM_ONE, (struct which){-1, p->n_stages - 1, b, -1});
        (void)fprintf(p->lp, " <= 0\n");
    }
    (void)fprintf(p->lp, " whole: 0 t\n");
    put_terms(p, TERM_ONE, (struct which){-1, -1, 0, -1});
    (void)fprintf(p->lp, " = 1\n stages: 0 t\n");
    put_terms(p, TERM_ONE, all);
    (void)fprintf(p->lp, " >= %d\nBinary\n", p->in->request.min_stages);
    put_terms(p, TERM_NAME, all);
    (void)fprintf(p->lp, "End\n");
}

/* The objective; INFINITY when there is no solution. */
static double read_solution(const char *path)
{
    FILE *in = fopen(path, "r");
    char line[256];
    char status = '?';
    double ms = NAN;

    assert_non_null(in);
    while (fgets(line, sizeof line, in))
        if (sscanf(line, "s mip %*d %*d %c %lf", &status, &ms) == 2)
            break;
    assert_int_equal(fclose(in), 0);
    if (status != 'o')
        assert_true(status == 'n' || status == 'u');
    return status == 'o' ? ms : INFINITY;
}

static double milp_ms(const struct instance *in, const char *folder)
{
    struct program p = {.in = in, .n_units = model_units(&in->spec.model)};
    char lp[128];
    char solution[128];
    char command[512];

    assert_in_range(p.n_units, 1, UNITS_MAX);
    p.n_stages = in->request.max_stages;
    if (p.n_stages > in->request.n_nodes)
        p.n_stages = in->request.n_nodes;
    for (int u = 0; u < p.n_units; u++)
        cost_of_unit(&in->request.job, u, &p.units[u]);
    (void)snprintf(lp, sizeof lp, "%s/program.lp", folder);
    (void)snprintf(solution, sizeof solution, "%s/solution", folder);
    p.lp = fopen(lp, "w");
    assert_non_null(p.lp);
    write_program(&p);
    assert_int_equal(fclose(p.lp), 0);
    (void)snprintf(command, sizeof command, "timeout 100 glpsol --lp %s --cuts -w %s >%s/log 2>&1",
                   lp, solution, folder);
    if (system(command) != 0)
        fail_msg("glpsol failed, see %s/log; is glpk-utils there? hack/deps.sh check", folder);
    return read_solution(solution);
}

static void planner_finds_what_glpsol_finds(void **state)
{
    struct dice dice = {.state = 5};
    char folder[] = "/tmp/test_milp-XXXXXX";
    char command[64];
    int n_infeasible = 0;
    int n_cut = 0;

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < INSTANCES; i++) {
        struct instance in;
        struct placement p;
        enum err_code rc;
        double want;

        bool differ = i % 3 == 2;

        make_instance(&in, &dice, roll_int(&dice, 1, 3),
                      roll_int(&dice, 2, differ ? NODES_MAX_PAIR : NODES_MAX));
        if (differ)
            make_links(&in, &dice, (enum link_style)(i / 3 % LINK_STYLES));
        else if (i % 2)
            in.request.link =
                (struct cost_link){.bytes_per_s = exp(roll(&dice, log(1e6), log(1e8))),
                                   .latency_ms = roll(&dice, 0, 20)};
        rc = partition_solve(&in.request, &p, NULL);
        want = milp_ms(&in, folder);
        if (isinf(want)) {
            assert_int_equal(rc, ERR_NOT_FOUND);
            n_infeasible++;
            continue;
        }
        assert_int_equal(rc, ERR_OK);
        if (!(fabs(p.predicted_step_ms / want - 1) < 1e-5))
            fail_msg("instance %d: %.9g ms, glpsol %.9g ms", i, p.predicted_step_ms, want);
        n_cut += p.n_stages > 1;
    }
    assert_in_range(n_infeasible, 1, INSTANCES / 2);
    assert_in_range(n_cut, INSTANCES / 4, INSTANCES);
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(planner_finds_what_glpsol_finds)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
