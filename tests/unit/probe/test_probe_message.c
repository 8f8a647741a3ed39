#include "probe/probe_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A message takes some time, and less than a hundred times what it took where this was written. */
static void probe_message_finds_what_messages_take(void **state)
{
    struct node_message found = {0};
    struct err err = {0};

    (void)state;
    if (probe_message_run(&found, &err) != ERR_OK)
        fail_msg("%s", err.text);
    print_message("%.3f ms per message, %.2f ns per byte\n", found.ms, found.byte_ns);
    assert_true(found.ms > 0 && found.ms < 10);
    assert_true(found.byte_ns >= 0 && found.byte_ns < 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(probe_message_finds_what_messages_take)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
