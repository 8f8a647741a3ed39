/* tests/fuzz/fuzz.h - what the libFuzzer targets share.
 *
 * A target hands the fuzzer's bytes to one parser and then holds what was accepted against the
 * promises of the parser's header. MUST() names a promise that is broken and ends the process:
 * libFuzzer counts that as a finding, like everything that the sanitizers see.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The target: returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define MUST(promise) ((promise) ? (void)0 : fuzz_broken(#promise, __FILE__, __LINE__))

_Noreturn static inline void fuzz_broken(const char *promise, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: broken promise: %s\n", file, line, promise);
    abort();
}

#endif
