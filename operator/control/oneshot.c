/* Pods that run once and leave a report: probes, and the one that reads the model to start from. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "control/context.h"
#include "control/manifest.h"

#define RETRY_MS 60000
/* A little more than its own deadline, which the kubelet keeps when it has the pod at all. */
#define LATE_MS ((MANIFEST_ONESHOT_SECONDS + 20) * 1000)

/* It holds a node and does not start there. */
static bool is_stuck(const struct context *c, const struct seen_pod *pod)
{
    return pod->phase == POD_PENDING && !pod->is_unschedulable && attempt_start_left_ms(c, pod) < 0;
}

bool oneshot_has_failed(const struct context *c, const struct seen_pod *pod)
{
    int64_t age_ms = c->seen->now_ms - pod->created_ms;

    if (pod->role == POD_TAKEN)
        return true;
    if (pod->phase == POD_SUCCEEDED || pod->phase == POD_FAILED)
        return !pod->has_probe && !pod->has_model;
    return age_ms > LATE_MS || is_stuck(c, pod) || (pod->is_unschedulable && age_ms > RETRY_MS / 2);
}

uint64_t oneshot_image(const struct context *c)
{
    return hash_text(manifest_image(c->seen, &c->spec));
}

bool oneshot_is_outdated(const struct context *c, const struct seen_pod *pod)
{
    return pod->role != POD_TAKEN && pod->image_asked != oneshot_image(c);
}

void oneshot_describe(const struct seen_pod *pod, const char *what, char *out, size_t bytes)
{
    const char *why = pod->reason[0] ? pod->reason : "no reason reported";

    if (pod->role == POD_TAKEN)
        (void)snprintf(out, bytes, "pod %s exists already and was not created by the operator",
                       pod->name);
    else if (pod->phase == POD_PENDING)
        (void)snprintf(out, bytes, "%s did not start (%s)", what,
                       pod->is_unschedulable ? "Unschedulable" : why);
    else if (pod->phase == POD_RUNNING)
        (void)snprintf(out, bytes, "%s does not end", what);
    else if (pod->phase == POD_SUCCEEDED)
        (void)snprintf(out, bytes, "%s left no valid result", what);
    else if (pod->has_exit_code)
        (void)snprintf(out, bytes, "%s ended with code %d (%s)", what, pod->exit_code, why);
    else
        (void)snprintf(out, bytes, "%s failed (%s)", what, why);
}

void oneshot_retry(struct context *c, enum pod_role role)
{
    bool has_stuck = false;

    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];
        int64_t age_ms = c->seen->now_ms - p->created_ms;

        if (p->role != role || !oneshot_has_failed(c, p))
            continue;
        has_stuck = has_stuck || is_stuck(c, p);
        if (age_ms >= RETRY_MS)
            context_delete_pod(c, p);
        else
            context_requeue(c, RETRY_MS - age_ms);
    }
    if (has_stuck)
        restart_pause(c); /* others may have the nodes meanwhile */
}
