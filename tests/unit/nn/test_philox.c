#include "nn/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The known answers that Random123 publishes for philox4x32-10. */
static void check(const uint32_t counter[4], const uint32_t key[2], const uint32_t want[4])
{
    uint32_t got[4];

    philox(counter, key, got);
    assert_memory_equal(got, want, sizeof got);
}

static void philox_answers_the_published_vectors(void **state)
{
    (void)state;
    check((uint32_t[]){0, 0, 0, 0}, (uint32_t[]){0, 0},
          (uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    check((uint32_t[]){0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
          (uint32_t[]){0xffffffff, 0xffffffff},
          (uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    check((uint32_t[]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
          (uint32_t[]){0xa4093822, 0x299f31d0},
          (uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_answers_the_published_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
