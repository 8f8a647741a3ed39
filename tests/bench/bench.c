#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"

static void cpu_name(char *out, size_t bytes)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");

    (void)snprintf(out, bytes, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        const char *value = strchr(line, ':');

        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "model name", 10) == 0 && value) {
            (void)snprintf(out, bytes, "%s", value + 2);
            break;
        }
    }
    if (f)
        (void)fclose(f);
}

void bench_print(const char *name, double value, const char *unit, const char *against)
{
    struct buf line = {.max = 4096};
    char cpu[128];
    struct jsonw w;

    cpu_name(cpu, sizeof cpu);
    jsonw_init(&w, &line);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "name", name);
    jsonw_double(&w, "value", value);
    jsonw_string(&w, "unit", unit);
    jsonw_string(&w, "against", against);
    jsonw_string(&w, "cpu", cpu);
    jsonw_close(&w);
    if (jsonw_finish(&w, NULL) == ERR_OK)
        (void)printf("%s\n", buf_text(&line));
    (void)fflush(stdout);
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
