/* kubectl-skyjob checkpoint: have a job in the cluster write one, and wait until it is written. */
#include <stdio.h>
#include <string.h>

#include "api/names.h"
#include "base/clock.h"
#include "cli/target.h"

static enum err_code read_job(struct target *t, struct status *status, int64_t *out_asked_ms,
                              struct err *err)
{
    struct json *object = NULL;
    enum err_code rc = target_get(t, status, &object, err);
    const struct json *annotations = json_path(object, "metadata.annotations");

    if (rc != ERR_OK)
        return rc;
    if (clock_parse(json_string(json_get(annotations, ANNOTATION_CHECKPOINT), ""), out_asked_ms,
                    NULL) != ERR_OK)
        *out_asked_ms = 0;
    json_free(object);
    return ERR_OK;
}

/* The time of this request: later than those before, whatever the clocks of those who asked. */
static enum err_code ask(struct target *t, int64_t *out_ms, struct err *err)
{
    char text[CLOCK_TEXT_BYTES];
    struct status status;
    int64_t last_ms;
    int64_t now_ms = clock_wall_ms();
    enum err_code rc = read_job(t, &status, &last_ms, err);

    if (rc == ERR_OK && status_is_final(&status))
        rc = err_set(err, ERR_INVALID, "SkyJob %s is %s: there is nothing to write any more",
                     t->name, status.state);
    if (rc != ERR_OK)
        return rc;
    if (last_ms < status.checkpoint.request_ms)
        last_ms = status.checkpoint.request_ms;
    *out_ms =
        now_ms - now_ms % 1000 > last_ms ? now_ms - now_ms % 1000 : last_ms - last_ms % 1000 + 1000;
    clock_format(*out_ms, text);
    return target_annotate(t, ANNOTATION_CHECKPOINT, text, err);
}

/* Until the operator has dealt with the request of `asked_ms`, or a later one. */
static enum err_code wait_for(struct target *t, int64_t asked_ms, struct err *err)
{
    char last[STATUS_WORD_BYTES] = "";
    struct status status;
    int64_t newest_ms;
    enum err_code rc;

    for (;;) {
        rc = read_job(t, &status, &newest_ms, err);
        if (rc != ERR_OK && !err_is_transient(rc))
            return rc;
        if (rc == ERR_OK && status.checkpoint.request_ms >= asked_ms) {
            if (status.checkpoint.step == 0)
                return err_set(err, ERR_IO, "%s", status.checkpoint.message);
            (void)printf("%s\n", status.checkpoint.message);
            return ERR_OK;
        }
        if (rc == ERR_OK && status_is_final(&status)) {
            (void)printf("The job is %s: its last checkpoint is that of its last step.\n",
                         status.state);
            return ERR_OK;
        }
        if (rc == ERR_OK && strcmp(last, status.state) != 0) {
            (void)fprintf(stderr, "waiting for the end of a step (%s) ...\n", status.state);
            (void)snprintf(last, sizeof last, "%s", status.state);
        }
        if (interrupt_pause())
            return err_set(err, ERR_GONE, "interrupted; the checkpoint is written nevertheless");
    }
}

static enum err_code ask_and_wait(void *ctx, struct target *t, struct err *err)
{
    int64_t asked_ms;
    enum err_code rc;

    (void)ctx;
    interrupt_catch();
    rc = ask(t, &asked_ms, err);
    return rc == ERR_OK ? wait_for(t, asked_ms, err) : rc;
}

int command_checkpoint(int argc, char **argv)
{
    return target_run(argc, argv, NULL, (struct target_action){NULL, ask_and_wait});
}
