/* released.h - Dynamic (balance/rules.h) as the code of Sky Computing (arXiv 2202.11836) has it.
 *
 * There the time of "the next one" is computed from the stage's own units, so a stage above the
 * mean never finds a next one with less to do, boundaries move to the right only, and the only test
 * is whether the stage gets nearer to the mean. Memory is not looked at: here it is ample.
 */
#ifndef RELEASED_H
#define RELEASED_H

#include "balance/cut.h"

/* Improve the even cut in *cut: the best cut on the way. */
void released_improve(const struct cut_problem *p, struct cut *cut);

#endif
