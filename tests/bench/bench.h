/* bench.h - one result of a benchmark, as a line of JSON on stdout.
 *
 * A figure alone says little on a shared machine, so every row has what it was measured against,
 * in the same run on the same cores; hack/bench.sh makes the table and build/bench.json of them.
 */
#ifndef BENCH_H
#define BENCH_H

/* `value` in `unit`; `against` says in words what the other side was. */
void bench_print(const char *name, double value, const char *unit, const char *against);

/* What every row says behind the processor's name from now on, such as the kernels in use. */
void bench_note(const char *text);

/* The middle of `n` values (sorted in place). */
double bench_median(double *values, int n);

#endif
