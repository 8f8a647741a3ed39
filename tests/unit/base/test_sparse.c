#include "base/sparse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORDS_MAX 200

/* Every `step`-th word is not zero; 0: none is. */
static void fill(uint64_t *words, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i++)
        words[i] = step > 0 && i % step == 0 ? i + 1 : 0;
}

static void sparse_reads_back_what_was_copied(void **state)
{
    (void)state;
    for (size_t n = 0; n <= WORDS_MAX; n++) {
        for (size_t step = 0; step < 70; step++) {
            uint64_t words[WORDS_MAX];
            uint64_t read[WORDS_MAX];
            struct sparse *s;

            fill(words, n, step);
            memset(read, 0xff, sizeof read);
            assert_int_equal(sparse_new(words, n * sizeof words[0], &s, NULL), ERR_OK);
            sparse_read(s, read);
            assert_memory_equal(read, words, n * sizeof words[0]);
            for (size_t i = n; i < WORDS_MAX; i++)
                assert_true(read[i] == UINT64_MAX);
            free(s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_reads_back_what_was_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
