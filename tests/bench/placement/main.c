/* The published experiment in simulation, and large clusters: prints tables, says in words what
 * they show, and writes them as JSON to the file that is named. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "method.h"
#include "train/cpu.h"

#define SIZES       3 /* of clusters, and of models */
#define SETTINGS    (SIZES * SIZES)
#define GRAINS      2 /* 2 or 3 units a layer */
#define JSON_BYTES  (1 << 20)
#define PAPER_GAIN  0.55
#define PAPER_NODES 64
#define PAPER_DEEP  160

static const int node_counts[SIZES] = {16, 32, 64};
static const int layer_counts[SIZES] = {24, 80, 160};

struct sums {
    int n;
    double to_bound, even_over, solve_ms;
};

struct table {
    struct sums cells[SETTINGS][DRAW_SLOWNESSES][DRAW_RUNTIMES][GRAINS][METHODS];
};

static int nodes_of(int setting)
{
    return node_counts[setting / SIZES];
}

static int layers_of(int setting)
{
    return layer_counts[setting % SIZES];
}

static bool is_wanted(enum method m, enum draw_runtime runtime, bool has_solver)
{
    return (m != METHOD_OURS_ALL || runtime == DRAW_SERIAL) && (m != METHOD_MIXED || has_solver);
}

/* All methods on one draw. The bound is of 2 units a layer for both. */
static void add_draw(const struct draw *d, enum draw_runtime runtime, bool has_solver,
                     struct sums cells[GRAINS][METHODS])
{
    double bound_ms = 0;
    double even_ms = 0;

    (void)method_run(METHOD_OURS, d, 2, &bound_ms);
    for (int g = 0; g < GRAINS; g++)
        for (int m = 0; m < METHODS; m++) {
            struct sums *sum = &cells[g][m];
            struct outcome o;

            if (!is_wanted((enum method)m, runtime, has_solver))
                continue;
            o = method_run((enum method)m, d, g + 2, &bound_ms);
            if (m == METHOD_EVEN && g == 0)
                even_ms = o.step_ms;
            if (!o.is_there)
                continue;
            sum->n++;
            sum->to_bound += o.step_ms / bound_ms;
            sum->even_over += even_ms / o.step_ms;
            sum->solve_ms += o.solve_ms;
        }
}

static void fill(struct table *t, bool has_solver)
{
    for (int setting = 0; setting < SETTINGS; setting++)
        for (int slow = 0; slow < DRAW_SLOWNESSES; slow++) {
            static struct draw d;

            (void)fprintf(stderr, "... %d nodes, %d layers, %s\n", nodes_of(setting),
                          layers_of(setting), draw_slowness_name((enum draw_slowness)slow));
            for (int i = 0; i < DRAW_DRAWS; i++) {
                draw_make(&d, nodes_of(setting), layers_of(setting), (enum draw_slowness)slow, i);
                for (int r = 0; r < DRAW_RUNTIMES; r++) {
                    draw_run_as(&d, (enum draw_runtime)r);
                    add_draw(&d, (enum draw_runtime)r, has_solver, t->cells[setting][slow][r]);
                }
            }
        }
}

/* --- tables --- */

static void print_mean(const struct sums *s, double sum, int digits)
{
    if (s->n == DRAW_DRAWS)
        (void)printf(" %8.*f", digits, sum / s->n);
    else
        (void)printf(" %8s", "-");
}

static void print_head(const char *runtime, bool has_all)
{
    (void)printf("\n%s: mean of %d draws\n%28s%s%s%s\n", runtime, DRAW_DRAWS, "",
                 "step over the bound                          ", has_all ? "         " : "",
                 "Even's step over it                          ms to solve");
    (void)printf("%-5s %6s %9s     ", "nodes", "layers", "slowness");
    for (int column = 0; column < 3; column++) {
        for (int m = column == 0 ? METHOD_EVEN : METHOD_RELEASED; m < METHODS; m++)
            if (has_all || m != METHOD_OURS_ALL)
                (void)printf(" %8s", method_name((enum method)m));
        (void)printf("  ");
    }
    (void)printf("\n");
}

static void print_row(const struct sums *cells, bool has_all)
{
    for (int m = 0; m < METHODS; m++)
        if (has_all || m != METHOD_OURS_ALL)
            print_mean(&cells[m], cells[m].to_bound, 3);
    (void)printf("  ");
    for (int m = METHOD_RELEASED; m < METHODS; m++)
        if (has_all || m != METHOD_OURS_ALL)
            print_mean(&cells[m], cells[m].even_over, 2);
    (void)printf("  ");
    for (int m = METHOD_RELEASED; m < METHODS; m++)
        if (has_all || m != METHOD_OURS_ALL)
            print_mean(&cells[m], cells[m].solve_ms, 2);
    (void)printf("\n");
}

static void print_table(const struct table *t, enum draw_runtime runtime)
{
    bool has_all = runtime == DRAW_SERIAL;

    print_head(draw_runtime_name(runtime), has_all);
    for (int slow = 0; slow < DRAW_SLOWNESSES; slow++)
        for (int setting = 0; setting < SETTINGS; setting++) {
            (void)printf("%-5d %6d %9s     ", nodes_of(setting), layers_of(setting),
                         draw_slowness_name((enum draw_slowness)slow));
            print_row(t->cells[setting][slow][runtime][0], has_all);
        }
}

/* --- words --- */

struct range {
    double least, most, paper; /* over all settings, and in the one that is quoted */
    int n_saves, n_faster;     /* settings that reach a reading of the 55% */
};

static struct range range_of(const struct table *t, enum draw_runtime r, int slow, enum method m)
{
    struct range range = {.least = INFINITY};

    for (int setting = 0; setting < SETTINGS; setting++) {
        const struct sums *s = &t->cells[setting][slow][r][0][m];
        double ratio = s->n > 0 ? s->even_over / s->n : NAN;

        range.least = fmin(range.least, ratio);
        range.most = fmax(range.most, ratio);
        range.n_saves += 1 - 1 / ratio >= PAPER_GAIN;
        range.n_faster += ratio >= 1 + PAPER_GAIN;
        if (nodes_of(setting) == PAPER_NODES && layers_of(setting) == PAPER_DEEP)
            range.paper = ratio;
    }
    return range;
}

static void print_readings(const struct table *t, bool has_solver)
{
    (void)printf("%-28s %-8s %-9s %17s %12s %12s %12s\n", "runtime", "slowness", "method",
                 "Even's over it", "at 64 x 160", "55% less", "1.55 x");
    for (int r = 0; r < DRAW_RUNTIMES; r++)
        for (int slow = 0; slow < DRAW_SLOWNESSES; slow++)
            for (int m = METHOD_RELEASED; m < METHODS; m++) {
                struct range range = range_of(t, (enum draw_runtime)r, slow, (enum method)m);

                if (!is_wanted((enum method)m, (enum draw_runtime)r, has_solver))
                    continue;
                (void)printf("%-28s %-8s %-9s %8.2f to %5.2f %12.2f %9d of %d %7d of %d\n",
                             draw_runtime_name((enum draw_runtime)r),
                             draw_slowness_name((enum draw_slowness)slow),
                             method_name((enum method)m), range.least, range.most, range.paper,
                             range.n_saves, SETTINGS, range.n_faster, SETTINGS);
            }
}

/* Who gets to `least` times Even's speed in the setting that is quoted. */
static void print_who(const struct table *t, const char *reading, double least, bool has_solver)
{
    int n = 0;

    (void)printf("%s at 64 x 160 is reached by:", reading);
    for (int r = 0; r < DRAW_RUNTIMES; r++)
        for (int slow = 0; slow < DRAW_SLOWNESSES; slow++)
            for (int m = METHOD_RELEASED; m < METHODS; m++)
                if (is_wanted((enum method)m, (enum draw_runtime)r, has_solver) &&
                    range_of(t, (enum draw_runtime)r, slow, (enum method)m).paper >= least)
                    (void)printf("%s %s (%s, %s)", n++ > 0 ? ";" : "", method_name((enum method)m),
                                 draw_runtime_name((enum draw_runtime)r),
                                 draw_slowness_name((enum draw_slowness)slow));
    (void)printf("%s.\n", n > 0 ? "; by nothing else" : " nothing");
}

static void print_words(const struct table *t, bool has_solver)
{
    (void)printf("\nThe paper says \"55%% better than even\" for %d nodes and %d layers. That can "
                 "be read as "
                 "55%% less time (Even's\nstep is 2.22 times as long) or as 1.55 times as fast. "
                 "Settings out "
                 "of %d in which a method reaches it:\n\n",
                 PAPER_NODES, PAPER_DEEP, SETTINGS);
    print_readings(t, has_solver);
    (void)printf("\n");
    print_who(t, "55% less time", 1 / (1 - PAPER_GAIN), has_solver);
    print_who(t, "1.55 times as fast", 1 + PAPER_GAIN, has_solver);
    (void)printf("A serial step is the sum of all stages, so it is shortest on the few fastest "
                 "nodes that hold the model: Ours\nleaves the others out, OursAll gives each of "
                 "them a unit. Released, Mended and Mixed look at the slowest stage\nonly, which a "
                 "serial step does not wait for. In a pipeline more nodes help, and Even loses by "
                 "its slowest stage.\n");
}

/* What units of another size change. */
static void print_grains(const struct table *t)
{
    (void)printf("\n3 units a layer, as published, against our 2: the step changes by, on average "
                 "and at most in a setting\n(without 64 nodes x 24 layers, where more units make "
                 "more stages)\n");
    for (int m = 0; m < METHODS; m++) {
        double sum = 0;
        double most = 0;
        int n = 0;

        for (int i = 0; i < SETTINGS * DRAW_SLOWNESSES * DRAW_RUNTIMES; i++) {
            const struct sums(*cell)[METHODS] =
                t->cells[i / (DRAW_SLOWNESSES * DRAW_RUNTIMES)][i / DRAW_RUNTIMES % DRAW_SLOWNESSES]
                        [i % DRAW_RUNTIMES];
            int setting = i / (DRAW_SLOWNESSES * DRAW_RUNTIMES);
            double change;

            if (nodes_of(setting) > 2 * layers_of(setting) || cell[0][m].n == 0 ||
                cell[1][m].n != cell[0][m].n)
                continue;
            change = cell[1][m].to_bound / cell[0][m].to_bound - 1;
            sum += change;
            most = fabs(change) > fabs(most) ? change : most;
            n++;
        }
        if (n > 0)
            (void)printf("  %-9s %+6.2f%% %+7.2f%%\n", method_name((enum method)m), 100 * sum / n,
                         100 * most);
    }
}

/* --- JSON --- */

static void write_row(struct jsonw *w, int setting, int slow, int r, int g, int m,
                      const struct sums *s)
{
    jsonw_open_object(w, NULL);
    jsonw_int(w, "nodes", nodes_of(setting));
    jsonw_int(w, "layers", layers_of(setting));
    jsonw_string(w, "slowness", draw_slowness_name((enum draw_slowness)slow));
    jsonw_string(w, "runtime", draw_runtime_name((enum draw_runtime)r));
    jsonw_int(w, "unitsPerLayer", g + 2);
    jsonw_string(w, "method", method_name((enum method)m));
    jsonw_int(w, "draws", s->n);
    jsonw_double(w, "overBound", s->to_bound / s->n);
    jsonw_double(w, "evenOver", s->even_over / s->n);
    jsonw_double(w, "solveMs", s->solve_ms / s->n);
    jsonw_close(w);
}

static bool write_json(const struct table *t, const char *path, const char *cpu)
{
    struct buf text = {.max = JSON_BYTES};
    struct jsonw w;
    FILE *out = NULL;
    bool is_written = false;

    jsonw_init(&w, &text);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "cpu", cpu);
    jsonw_open_array(&w, "rows");
    for (int setting = 0; setting < SETTINGS; setting++)
        for (int slow = 0; slow < DRAW_SLOWNESSES; slow++)
            for (int r = 0; r < DRAW_RUNTIMES; r++)
                for (int g = 0; g < GRAINS; g++)
                    for (int m = 0; m < METHODS; m++) {
                        const struct sums *s = &t->cells[setting][slow][r][g][m];

                        if (s->n > 0)
                            write_row(&w, setting, slow, r, g, m, s);
                    }
    jsonw_close(&w);
    jsonw_close(&w);
    if (jsonw_finish(&w, NULL) == ERR_OK)
        out = fopen(path, "w");
    if (out) {
        is_written = fprintf(out, "%s\n", buf_text(&text)) > 0;
        is_written = fclose(out) == 0 && is_written;
    }
    buf_deinit(&text);
    return is_written;
}

int main(int argc, char **argv)
{
    static struct table table;
    bool has_solver = mixed_is_there();
    char cpu[128];

    if (argc != 2) {
        (void)fprintf(stderr, "usage: placement OUT.json\n");
        return 2;
    }
    cpu_model(cpu, sizeof cpu);
    fill(&table, has_solver);
    (void)printf("CPU: %s. Times are predicted by the cost model; nothing is trained.\n", cpu);
    if (!has_solver)
        (void)printf("Mixed is left out: glpsol is not there (Debian's glpk-utils).\n");
    for (int r = 0; r < DRAW_RUNTIMES; r++)
        print_table(&table, (enum draw_runtime)r);
    print_words(&table, has_solver);
    print_grains(&table);
    many_print();
    if (!write_json(&table, argv[1], cpu)) {
        (void)fprintf(stderr, "bench-placement: cannot write %s\n", argv[1]);
        return 1;
    }
    return 0;
}
