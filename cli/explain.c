/* kubectl-skyjob explain: why a job in the cluster is as it is, and what to do next. */
#include "base/clock.h"
#include "cli/reason.h"
#include "cli/target.h"

/* What a user may not read is left out, with a note. */
static enum err_code list(struct target *t, const struct kube_ref *ref, struct kube_lister lister,
                          struct err *err)
{
    enum err_code rc = kube_list(t->connection.client, ref, lister, err);

    if (rc != ERR_DENIED)
        return rc;
    (void)fprintf(stderr, "kubectl-skyjob: %s\n", err->text);
    return ERR_OK;
}

static enum err_code explain(void *ctx, struct target *t, struct err *err)
{
    struct reason *r = ctx;
    char selector[128];
    const struct kube_ref pods = {
        .resource = &kube_pods, .namespace = t->namespace, .label_selector = selector};
    const struct kube_ref events = {
        .resource = &kube_events, .namespace = t->namespace, .field_selector = selector};
    struct json *object = NULL;
    enum err_code rc = kube_get(t->connection.client, &t->ref, &object, err);

    if (rc != ERR_OK)
        return rc;
    reason_read(r, object);
    json_free(object);
    (void)snprintf(selector, sizeof selector, LABEL_JOB_UID "=%s", r->uid);
    rc = list(t, &pods, (struct kube_lister){r, reason_add_pod}, err);
    if (rc != ERR_OK)
        return rc;
    (void)snprintf(selector, sizeof selector, "involvedObject.uid=%s", r->uid);
    rc = list(t, &events, (struct kube_lister){r, reason_add_event}, err);
    if (rc == ERR_OK)
        reason_print(r, clock_wall_ms(), stdout);
    return rc;
}

int command_explain(int argc, char **argv)
{
    static struct reason reason;

    return target_run(argc, argv, NULL, (struct target_action){&reason, explain});
}
