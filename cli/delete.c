/* kubectl-skyjob delete: end a job and remove it; its pods go with it. */
#include <stdio.h>
#include <string.h>

#include "api/names.h"
#include "base/clock.h"
#include "cli/target.h"

#define TIMEOUT_DEFAULT_S 60
#define TIMEOUT_MAX_S     86400

struct deletion {
    bool waits;
    const char *timeout; /* as given; NULL: not */
    int n_pods;          /* of the job, that are left */
};

static enum err_code count_pod(void *ctx, const struct json *pod, struct err *err)
{
    struct deletion *d = ctx;

    (void)pod, (void)err;
    d->n_pods++;
    return ERR_OK;
}

/* Is the SkyJob of this uid there? One that was created since under its name is another. */
static enum err_code find_job(struct target *t, const char *uid, bool *out, struct err *err)
{
    struct json *object = NULL;
    struct status status;
    enum err_code rc = target_get(t, &status, &object, err);

    *out = rc == ERR_OK && strcmp(json_text(object, "metadata.uid"), uid) == 0;
    json_free(object);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err_code wait_until_gone(struct target *t, struct deletion *d, const char *uid,
                                     int timeout_s, struct err *err)
{
    int64_t until_ms = clock_now_ms() + (int64_t)1000 * timeout_s;
    char selector[128];
    const struct kube_ref pods = {
        .resource = &kube_pods, .namespace = t->namespace, .label_selector = selector};
    bool is_there = true;
    enum err_code rc;

    (void)snprintf(selector, sizeof selector, LABEL_JOB_UID "=%s", uid);
    for (;;) {
        d->n_pods = 0;
        rc = find_job(t, uid, &is_there, err);
        if (rc == ERR_OK)
            rc = kube_list(t->connection.client, &pods, (struct kube_lister){d, count_pod}, err);
        if (rc != ERR_OK && !err_is_transient(rc))
            return rc;
        if (rc == ERR_OK && !is_there && d->n_pods == 0) {
            (void)printf("SkyJob %s and its pods are gone\n", t->name);
            return ERR_OK;
        }
        if (clock_now_ms() >= until_ms)
            break;
        if (interrupt_pause())
            return err_set(err, ERR_GONE, "interrupted; the deletion goes on");
    }
    if (rc != ERR_OK)
        return rc;
    if (is_there)
        return err_set(err, ERR_TIMEOUT, "SkyJob %s is still there after %d s, being deleted",
                       t->name, timeout_s);
    return err_set(err, ERR_TIMEOUT,
                   "SkyJob %s is gone, but %d of its pods are still there after "
                   "%d s",
                   t->name, d->n_pods, timeout_s);
}

static enum err_code run(void *ctx, struct target *t, struct err *err)
{
    struct deletion *d = ctx;
    char uid[STATUS_UID_BYTES];
    const struct kube_delete how = {.uid = uid, .grace_seconds = -1};
    struct json *object = NULL;
    struct status status;
    int timeout_s = TIMEOUT_DEFAULT_S;
    enum err_code rc = command_count("timeout", d->timeout, 0, TIMEOUT_MAX_S, &timeout_s, err);

    if (rc == ERR_OK && d->timeout && !d->waits)
        rc = err_set(err, ERR_INVALID, "--timeout is of use with --wait only");
    if (rc == ERR_OK)
        rc = target_get(t, &status, &object, err);
    if (rc != ERR_OK)
        return rc;
    JSON_COPY(uid, json_path(object, "metadata.uid"));
    json_free(object);
    interrupt_catch();
    rc = kube_delete(t->connection.client, &t->ref, &how, err);
    if (rc == ERR_OK && d->waits)
        return wait_until_gone(t, d, uid, timeout_s, err);
    if (rc == ERR_OK)
        (void)printf("SkyJob %s is deleted; its pods end\n", t->name);
    return rc;
}

int command_delete(int argc, char **argv)
{
    struct deletion d = {.waits = false};
    const struct command_option options[] = {
        {"wait", .is_set = &d.waits},
        {"timeout", .value = &d.timeout},
        {.name = NULL},
    };

    return target_run(argc, argv, options, (struct target_action){&d, run});
}
