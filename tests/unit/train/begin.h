/* A stage whose units begin as a job does. */
#ifndef TESTS_TRAIN_BEGIN_H
#define TESTS_TRAIN_BEGIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "train/stage.h"

/* `state` gets the units. */
static inline void begin_stage(struct stage *s, struct state *state, const struct plan *plan,
                               int index)
{
    struct plan_home home;

    (void)plan_home(plan, index, &home);
    assert_int_equal(state_add(state, &plan->spec, home.first_unit, home.n_units, NULL), ERR_OK);
    assert_int_equal(stage_init(s, state, plan, index, NULL), ERR_OK);
}

#endif
