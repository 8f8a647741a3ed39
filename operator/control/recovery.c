/* From one revision to the next, with the workers that are left: halt them, ask what they hold, and
 * make the next revision of that. A worker that is lost costs one pod, a broken link none.
 *
 * The status lists the workers that are kept, by the uids of their pods, so that another operator
 * goes on with the same ones. A worker that is lost is taken off that list, once, with what follows
 * from it (restart.c). */
#include <string.h>

#include "control/context.h"

/* Is the pod of this stage listed in the status? */
static bool is_listed(const struct status *s, int stage, const struct seen_pod *pod)
{
    return pod->role == POD_WORKER && s->stages[stage].pod_uid[0] &&
           strcmp(s->stages[stage].pod_uid, pod->uid) == 0;
}

/* Has it left with the last revision? Others may still need what it holds. */
static bool has_given(const struct context *c, const struct seen_pod *pod)
{
    const struct revision *r = &c->seen->revision;

    for (int i = 0; c->seen->has_revision && i < r->n_leaving; i++)
        if (r->leaving[i].slot == pod->slot && r->leaving[i].incarnation == pod->incarnation)
            return pod->role == POD_WORKER;
    return false;
}

bool recovery_keeps(const struct context *c, const struct seen_pod *pod)
{
    for (int i = 0; i < c->seen->status.n_stages; i++)
        if (is_listed(&c->seen->status, i, pod))
            return true;
    return has_given(c, pod) || drain_is_joining(c, pod) || rebalance_is_joining(c, pod);
}

bool recovery_is_due(const struct context *c)
{
    for (int i = 0; i < c->seen->n_pods; i++)
        for (int s = 0; s < c->seen->status.n_stages; s++)
            if (is_listed(&c->seen->status, s, &c->seen->pods[i]))
                return true;
    return false;
}

/* The workers that the status lists, under the number that is to be superseded. Places of those
 * that are lost have no slot. */
static void make_stub(const struct context *c, struct revision *out)
{
    struct plan *plan = &out->plan;

    *out = (struct revision){.plan = {.revision = c->number - 1}};
    plan->n_workers = c->seen->status.n_stages;
    for (int i = 0; i < plan->n_workers; i++) {
        const struct seen_pod *pod = context_stage_pod(c, i);

        plan->workers[i].slot = pod ? pod->slot : -1 - i;
        plan->workers[i].incarnation = pod ? pod->incarnation : 0;
    }
}

void recovery_look(const struct context *c, struct recovery *out)
{
    const struct observed *seen = c->seen;
    const struct revision *r = &seen->revision;
    int number;

    if (!seen->has_revision) {
        make_stub(c, &out->stub);
        r = &out->stub;
    }
    number = r->plan.revision;
    out->in = (struct recover_input){
        .revision = r,
        .workers = out->workers,
        .is_halting = !c->has_plan,
        .has_progress = seen->has_leader && seen->leader.revision == number,
        .state = seen->leader.state,
        .step = seen->leader.step,
        .may_end = true, /* see training_end() */
    };
    for (int i = 0; i < revision_n_workers(r); i++) {
        struct revision_worker id = revision_worker(r, i);
        const struct seen_pod *pod = decide_worker_pod(seen, id);
        bool has_begun = pod && pod->phase != POD_PENDING; /* else it holds nothing */

        out->pods[i] = pod;
        out->workers[out->in.n_workers++] = (struct recover_worker){
            .id = id,
            .is_gone = !pod || pod_is_over(pod) || (!c->has_plan && !has_begun) ||
                       (!c->has_plan && !recovery_keeps(c, pod)),
            .accepted = pod ? pod->accepted : 0,
            .is_halted = pod && pod->halted >= c->number - 1,
            .report = pod ? pod->report : NULL,
        };
    }
}

int recovery_reports(const struct context *c, const struct report *out[static PEERS_MAX])
{
    int n = 0;

    for (int i = 0; i < c->seen->n_pods && n < PEERS_MAX; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (recovery_keeps(c, p) && p->phase == POD_RUNNING && p->report)
            out[n++] = p->report;
    }
    return n;
}

bool recovery_is_overdue(const struct seen_pod *pod)
{
    bool is_halted = pod->report && pod->report->session != REPORT_RUNNING;

    return !is_halted && recover_is_overdue(RECOVER_PATIENCE, pod->halting_ms, pod->silent_ms);
}

bool recovery_has_silent(const struct context *c, const char *node)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (p->role == POD_WORKER && p->phase == POD_RUNNING && !recovery_keeps(c, p) &&
            p->silent_ms >= RECOVER_SILENT_MS && strcmp(p->node, node) == 0)
            return true;
    }
    return false;
}

/* A revision that is not known any more, or cannot be read: the next number exceeds those that
 * workers have accepted and that ConfigMaps have. Returns whether the status has to have it first.
 */
static bool has_newer(struct context *c)
{
    struct status *s = &c->out->status;

    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (recovery_keeps(c, p) && p->report && p->report->revision >= s->revision &&
            p->report->revision < PLAN_REVISION_MAX)
            s->revision = p->report->revision + 1;
    }
    for (int i = 0; i < c->seen->n_revisions; i++)
        if (c->seen->revision_numbers[i] >= s->revision &&
            c->seen->revision_numbers[i] < PLAN_REVISION_MAX)
            s->revision = c->seen->revision_numbers[i] + 1;
    return s->revision != c->number;
}

static void show_workers(struct context *c)
{
    struct status *s = &c->out->status;

    for (int i = 0; i < s->n_stages; i++) {
        const struct seen_pod *pod = context_stage_pod(c, i);

        s->stages[i].is_ready = pod && pod->is_ready && pod->phase == POD_RUNNING;
    }
}

static void halt(struct context *c, const struct recovery *r)
{
    for (int i = 0; i < r->in.n_workers; i++) {
        struct action *a;

        if (recover_order(&r->in, i) != ORDER_HALT)
            continue;
        a = context_add(c, ACTION_HALT);
        a->revision = c->number - 1;
        memcpy(a->name, r->pods[i]->name, sizeof a->name);
    }
    c->out->ask_reports_ms = DECIDE_HALT_POLL_MS;
    context_requeue(c, DECIDE_HALT_POLL_MS);
}

void recovery_drive(struct context *c)
{
    struct recovery r;
    struct verdict verdict;

    if (has_newer(c)) {
        context_requeue(c, 0);
        return;
    }
    recovery_look(c, &r);
    if (training_end(c, &r))
        return;
    drain_look(c);
    restart_judge(c, &verdict);
    if (verdict.kind != VERDICT_NONE) {
        restart_apply(c, &verdict);
        return;
    }
    show_workers(c);
    if (recover_phase(&r.in) == RECOVER_HALT)
        halt(c, &r);
    else
        place(c);
}
