/* Decisions on a thread of their own; the test says when one is made. Leaks are found with ASan. */
#include "run/solver.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static sem_t begun, may_end, ended;
static atomic_int n_done;
static struct solver_case *given;

void __wrap_decide(const struct observed *seen, struct decision *out);

void __wrap_decide(const struct observed *seen, struct decision *out)
{
    (void)sem_post(&begun);
    (void)sem_wait(&may_end);
    out->requeue_ms = seen->now_ms + 1;
    (void)sem_post(&ended);
}

static void on_done(void *ctx)
{
    assert_ptr_equal(ctx, &n_done);
    n_done++;
}

static struct solver *open_solver(void)
{
    struct solver *s = NULL;

    n_done = 0;
    given = calloc(1, sizeof *given);
    assert_non_null(given);
    (void)sem_init(&begun, 0, 0);
    (void)sem_init(&may_end, 0, 0);
    (void)sem_init(&ended, 0, 0);
    assert_int_equal(solver_new(on_done, &n_done, &s, NULL), ERR_OK);
    assert_false(solver_is_busy(s));
    assert_null(solver_take(s));
    return s;
}

static void a_case_is_decided_while_the_caller_goes_on(void **state)
{
    struct solver *s = open_solver();

    (void)state;
    for (int i = 1; i <= 3; i++) {
        struct solver_case *decided;

        given->seen.now_ms = 100 * i;
        solver_start(s, given);
        (void)sem_wait(&begun);
        assert_true(solver_is_busy(s));
        assert_null(solver_take(s));
        (void)sem_post(&may_end);
        while (!(decided = solver_take(s)))
            (void)usleep(1000);
        assert_ptr_equal(decided, given);
        assert_int_equal(given->decision.requeue_ms, 100 * i + 1);
        assert_int_equal(n_done, i);
        assert_false(solver_is_busy(s));
    }
    solver_case_free(given);
    solver_free(s);
}

static void a_search_is_not_waited_for_at_the_end(void **state)
{
    struct solver *s = open_solver();

    (void)state;
    solver_start(s, given);
    (void)sem_wait(&begun);
    solver_free(s); /* would hang here if it waited */
    (void)sem_post(&may_end);
    (void)sem_wait(&ended);
    (void)usleep(50000); /* for the thread to end */
    assert_int_equal(n_done, 0);
}

static void a_decision_that_is_not_taken_any_more_is_no_harm(void **state)
{
    struct solver *s = open_solver();

    (void)state;
    solver_start(s, given);
    (void)sem_post(&may_end);
    while (n_done == 0)
        (void)usleep(1000);
    solver_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_case_is_decided_while_the_caller_goes_on),
        cmocka_unit_test(a_search_is_not_waited_for_at_the_end),
        cmocka_unit_test(a_decision_that_is_not_taken_any_more_is_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
