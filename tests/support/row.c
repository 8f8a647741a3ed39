#include "row.h"

#include <stdlib.h>
#include <string.h>

static void check_row(void **state)
{
    const struct row *row = *state;
    struct world *w = world_new(row->spec);
    const struct condition *c = &w->decision.status.conditions[row->type];

    row->set(w);
    world_decide(w);
    assert_string_equal(c->reason, row->reason);
    assert_int_equal(c->value, row->value);
    if (row->state)
        assert_string_equal(w->decision.status.state, row->state);
    if (row->message && !strstr(w->decision.status.message, row->message))
        fail_msg("\"%s\" is not in \"%s\"", row->message, w->decision.status.message);
    if (row->event)
        assert_true(world_has_event(w, row->event));
    if (row->counts)
        assert_int_equal(world_count(w, row->action), row->n_actions);
    if (row->is_waiting)
        assert_true(w->decision.requeue_ms >= 0);
    world_free(w);
}

int row_main(struct row *rows, size_t n_rows, const struct CMUnitTest *others, size_t n_others)
{
    struct CMUnitTest *tests = calloc(n_rows + n_others, sizeof *tests);
    int rc;

    if (!tests)
        return 1;
    for (size_t i = 0; i < n_rows; i++)
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name, .test_func = check_row, .initial_state = &rows[i]};
    for (size_t i = 0; i < n_others; i++)
        tests[n_rows + i] = others[i];
    rc = _cmocka_run_group_tests("decide", tests, n_rows + n_others, NULL, NULL);
    free(tests);
    return rc;
}
