/* kubectl-skyjob replan: have the operator look for a better cut of a running job. */
#include <stdio.h>

#include "api/names.h"
#include "base/clock.h"
#include "cli/target.h"

/* As `kubectl rollout restart` does it: a new value of an annotation asks. */
static enum err_code ask(void *ctx, struct target *t, struct err *err)
{
    char now[CLOCK_TEXT_BYTES];
    struct status status;
    enum err_code rc = target_get(t, &status, NULL, err);

    (void)ctx;
    if (rc == ERR_OK && status_is_final(&status))
        rc = err_set(err, ERR_INVALID, "SkyJob %s is %s: no unit moves any more", t->name,
                     status.state);
    clock_format(clock_wall_ms(), now);
    if (rc == ERR_OK)
        rc = target_annotate(t, ANNOTATION_REPLAN, now, err);
    if (rc == ERR_OK)
        (void)printf("replan of %s requested; the answer is an Event of the job\n", t->name);
    return rc;
}

int command_replan(int argc, char **argv)
{
    return target_run(argc, argv, NULL, (struct target_action){NULL, ask});
}
