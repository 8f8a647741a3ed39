#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "train/cpu.h"

static char note[64];

void bench_note(const char *text)
{
    (void)snprintf(note, sizeof note, "; %s", text);
}

bool bench_is_smoke(void)
{
    return getenv("BENCH_SMOKE") != NULL;
}

int bench_rounds(int n)
{
    return bench_is_smoke() ? 1 : n;
}

void bench_print(const char *name, double value, const char *unit, const char *against)
{
    struct buf line = {.max = 4096};
    char cpu[128];
    char with_note[sizeof cpu + sizeof note];
    struct jsonw w;

    cpu_model(cpu, sizeof cpu);
    (void)snprintf(with_note, sizeof with_note, "%s%s", cpu, note);
    jsonw_init(&w, &line);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "name", name);
    jsonw_double(&w, "value", value);
    jsonw_string(&w, "unit", unit);
    jsonw_string(&w, "against", against);
    jsonw_string(&w, "cpu", with_note);
    jsonw_close(&w);
    if (jsonw_finish(&w, NULL) != ERR_OK || printf("%s\n", buf_text(&line)) < 0 ||
        fflush(stdout) != 0) {
        (void)fprintf(stderr, "bench: %s: cannot print the value %g\n", name, value);
        exit(1);
    }
    buf_deinit(&line);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return (left > right) - (left < right);
}

double bench_median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}
