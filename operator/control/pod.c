/* Pods that do not start. */
#include <stdio.h>
#include <string.h>

#include "control/context.h"

bool pod_is_over(const struct seen_pod *pod)
{
    return pod->phase == POD_SUCCEEDED || pod->phase == POD_FAILED;
}

bool pod_image_problem(const struct context *c, const struct seen_pod *pod,
                       char out[static OBSERVED_TEXT_BYTES])
{
    static const char *const reasons[] = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName",
                                          "ErrImageNeverPull", "ImageInspectError"};

    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (strcmp(pod->reason, reasons[i]) != 0)
            continue;
        (void)snprintf(out, OBSERVED_TEXT_BYTES,
                       "Node %.80s cannot pull the workers' image: check %s and that its registry "
                       "can be reached. The node keeps trying.",
                       pod->node,
                       c->spec.worker.image[0] ? "spec.worker.image" : "the operator's default");
        return true;
    }
    return false;
}

bool pod_start_problem(const struct seen_pod *pod, char *out, size_t bytes)
{
    if (pod->phase != POD_PENDING)
        return false;
    if (pod->is_unschedulable) {
        (void)snprintf(out, bytes, "Pod %s cannot be scheduled: %s", pod->name, pod->message);
        return true;
    }
    if (pod->message[0] == '\0' &&
        (pod->reason[0] == '\0' || strcmp(pod->reason, "ContainerCreating") == 0 ||
         strcmp(pod->reason, "PodInitializing") == 0))
        return false;
    (void)snprintf(out, bytes, "Pod %s cannot start: %s: %s", pod->name, pod->reason, pod->message);
    return true;
}

int64_t pod_start_left_ms(const struct context *c, const struct seen_pod *pod)
{
    char text[OBSERVED_TEXT_BYTES];
    bool has_problem = pod_start_problem(pod, text, sizeof text);

    if (pod->is_gated)
        return DECIDE_CREATING_MS;
    return pod->created_ms + (has_problem ? DECIDE_START_MS : DECIDE_CREATING_MS) - c->seen->now_ms;
}

/* Why a volume is not mounted is not in the pod's status but in the kubelet's Events. */
void pod_request_events(struct context *c, const struct seen_pod *p)
{
    int64_t age_ms = c->seen->now_ms - p->created_ms;
    int64_t read_ms = c->seen->now_ms - p->events_ms;
    struct action *a;

    if (p->is_unschedulable || p->node[0] == '\0' || (p->message[0] && p->events_ms == 0))
        return;
    if (age_ms < DECIDE_EVENTS_MS) {
        context_requeue(c, DECIDE_EVENTS_MS - age_ms);
        return;
    }
    if (p->events_ms > 0 && read_ms >= 0 && read_ms < DECIDE_EVENTS_MS) {
        context_requeue(c, DECIDE_EVENTS_MS - read_ms);
        return;
    }
    a = context_add(c, ACTION_READ_EVENTS);
    memcpy(a->name, p->name, sizeof a->name);
    memcpy(a->uid, p->uid, sizeof a->uid);
}
