/* support/row.h - a table of situations for decide(), each row its own test.
 *
 * A row says how the situation comes about in a fresh world (support/world.h), and what the next
 * decision must have.
 */
#ifndef SUPPORT_ROW_H
#define SUPPORT_ROW_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "world.h"

struct row {
    const char *name;
    void (*set)(struct world *w);
    enum condition_type type;
    enum condition_value value;
    const char *reason;
    const char *state; /* NULL: not looked at, like the others below */
    const char *event;
    const char *message; /* a part of it */
    bool counts;         /* n_actions of kind `action` */
    enum action_kind action;
    int n_actions;
    bool is_waiting;  /* asks to be called again */
    const char *spec; /* NULL: the world's own */
};

/* ROW("decide_is_good", how, PLACED, T, "PlanMade", .state = "Starting", COUNT(ACTION_..., 3)) */
#define ROW(id, how, condition, is, why, ...)                                                      \
    {                                                                                              \
        .name = (id), .set = (how), .type = CONDITION_##condition, .value = (is), .reason = (why), \
        __VA_ARGS__                                                                                \
    }
#define COUNT(kind, n) .counts = true, .action = (kind), .n_actions = (n)
#define T              CONDITION_TRUE
#define F              CONDITION_FALSE

/* Run all rows and `others`; returns the exit code. */
int row_main(struct row *rows, size_t n_rows, const struct CMUnitTest *others, size_t n_others);

#endif
