/* The pods that a job starts with are one group to Kueue, which admits all of them or none. Kueue
 * keeps the quota of one that is lost for the pod that replaces it, and deletes pods that a group
 * has too many of. So a new pod joins the group while that has a member too few; another one, as
 * when a worker joins before the one leaves that it replaces, is queued by itself. A group ends
 * with its last pod, and the next one has another name. */
#include "api/names.h"
#include "control/context.h"

bool group_holds(const struct seen_pod *p)
{
    return p->role == POD_WORKER && p->group > 0 && p->is_deleting && p->node[0] == '\0';
}

/* As Kueue counts them: a pod that is deleted may run on for a while. */
static bool is_member(const struct seen_pod *p)
{
    return p->role == POD_WORKER && p->group > 0 && p->phase != POD_FAILED && !group_holds(p);
}

/* Else it has ended, though its pods may still be there, for their logs. */
static bool has_active(const struct context *c, int group)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (is_member(p) && p->group == group && !pod_is_over(p))
            return true;
    }
    return false;
}

void group_workers(struct context *c)
{
    const struct json *labels = json_get(context_worker(c), "labels");
    int size = c->seen->revision.plan.n_workers;
    int group = c->number;
    int n_members = 0;

    if (!json_get(labels, KUEUE_QUEUE))
        return;
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (!is_member(p) || !has_active(c, p->group))
            continue;
        group = p->group;
        size = p->group_size;
        n_members++;
    }
    for (int i = 0; i < c->out->n_actions; i++) {
        struct action *a = &c->out->actions[i];

        if ((a->kind != ACTION_CREATE_WORKER_POD && a->kind != ACTION_CREATE_SUBSTITUTE) ||
            n_members >= size)
            continue;
        a->group = group;
        a->group_size = size;
        n_members++;
    }
}

void group_release(struct context *c)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (!group_holds(p) || has_active(c, p->group))
            continue;
        context_add(c, ACTION_DELETE_GROUP)->group = p->group;
        return; /* Kueue lets go of all that it holds of a group */
    }
}
