/* bench.h - one result of a benchmark, as a line of JSON on stdout.
 *
 * A figure alone says little on a shared machine, so every row has what it was measured against,
 * in the same run on the same cores; hack/bench.sh makes the table and build/bench.json of them.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>

/* Exit code of a benchmark that this machine cannot run: one core, no AVX512_BF16. */
#define BENCH_SKIPPED 77

/* With BENCH_SMOKE in the environment a benchmark only has to show that it works: one round of
 * everything, on the smallest model. The values mean nothing. */
bool bench_is_smoke(void);

/* `n`, or 1 in a smoke run. */
int bench_rounds(int n);

/* `value` in `unit`; `against` says in words what the other side was. Ends the program when the
 * value is not finite or cannot be printed. */
void bench_print(const char *name, double value, const char *unit, const char *against);

/* What every row says behind the processor's name from now on, such as the kernels in use. */
void bench_note(const char *text);

/* The middle of `n` values (sorted in place). */
double bench_median(double *values, int n);

#endif
