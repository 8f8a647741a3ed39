/* kubectl-skyjob suspend and resume: have a job give its nodes back, or take some again. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/target.h"

#define ANSWER_MS 10000 /* that the operator gets for it */

struct change {
    bool suspends;
    const char *verb;
    const char *patch;
};

static const char *message_of(const struct status *s)
{
    return s->conditions[CONDITION_SUSPENDED].message;
}

/* The API server takes the change for any job. Whether the job can be suspended is the operator's
 * answer, in a condition. */
static enum err_code wait_for_answer(struct target *t, struct err *err)
{
    int64_t until_ms = clock_now_ms() + ANSWER_MS;
    struct status status;
    enum err_code rc;

    do {
        rc = target_get(t, &status, NULL, err);
        if (rc != ERR_OK && !err_is_transient(rc))
            return rc;
        if (rc == ERR_OK && status_is_over(&status)) {
            (void)printf("SkyJob %s has ended meanwhile: it is %s\n", t->name, status.state);
            return ERR_OK;
        }
        if (rc == ERR_OK && status.suspend_ms > 0) {
            const struct condition *c = &status.conditions[CONDITION_SUSPENDED];

            if (strcmp(c->reason, "CannotSuspend") == 0)
                return err_set(err, ERR_DENIED, "SkyJob %s cannot be suspended: %s", t->name,
                               c->message);
            (void)printf("SkyJob %s: %s\n", t->name, c->message);
            return ERR_OK;
        }
    } while (clock_now_ms() < until_ms && !interrupt_pause());
    (void)printf("SkyJob %s is to be suspended; the operator has not answered yet\n", t->name);
    return ERR_OK;
}

static enum err_code ask(void *ctx, struct target *t, struct err *err)
{
    const struct change *change = ctx;
    struct json *object = NULL;
    struct status status;
    bool is_so;
    enum err_code rc = target_get(t, &status, &object, err);

    if (rc != ERR_OK)
        return rc;
    is_so = json_bool(json_path(object, "spec.suspend"), false) == change->suspends;
    json_free(object);
    if (status_is_over(&status))
        return err_set(err, ERR_INVALID, "SkyJob %s is %s: there is nothing to %s any more",
                       t->name, status.state, change->verb);
    if (is_so) {
        (void)printf("spec.suspend of SkyJob %s is %s already%s%s\n", t->name,
                     change->suspends ? "true" : "false", message_of(&status)[0] ? ": " : "",
                     message_of(&status));
        return ERR_OK;
    }
    interrupt_catch();
    rc = kube_merge(t->connection.client, &t->ref, change->patch, NULL, err);
    if (rc == ERR_OK && change->suspends)
        return wait_for_answer(t, err);
    if (rc == ERR_OK)
        (void)printf("SkyJob %s is resumed: it is planned again\n", t->name);
    return rc;
}

int command_suspend(int argc, char **argv)
{
    struct change change = {true, "suspend", "{\"spec\":{\"suspend\":true}}"};

    return target_run(argc, argv, NULL, (struct target_action){&change, ask});
}

int command_resume(int argc, char **argv)
{
    struct change change = {false, "resume", "{\"spec\":{\"suspend\":false}}"};

    return target_run(argc, argv, NULL, (struct target_action){&change, ask});
}
