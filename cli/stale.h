/* cli/stale.h - whose figures the operator would not believe for this job, and why.
 *
 * A plan without the operator has nothing better than what a node says; but it has to say when the
 * operator would measure anew, since then the plan may be another one.
 * Layer: cli. Threads: any; pure.
 */
#ifndef CLI_STALE_H
#define CLI_STALE_H

#include "api/mark.h"
#include "api/node.h"
#include "cli/job.h"

/* In words: "measured for other shapes or data"; NULL when the figures hold or there are none. With
 * spec.placement.probePolicy Never the operator takes them all the same. `node` has all that is
 * allocatable. What only the operator knows, its own worker image, is not judged. */
const char *stale_reason(const struct job *job, const struct node *node, const struct mark *mark,
                         int64_t now_ms);

/* Why the operator would not believe marks[i] of `n` nodes because of another one's figures; NULL:
 * none contradicts it. */
const char *stale_beside(const struct mark *marks, int n, int i);

#endif
