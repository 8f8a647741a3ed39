#include "api/recover.h"

static int number(const struct recover_input *in)
{
    return in->revision->plan.revision;
}

static bool is_leader(const struct recover_input *in, const struct recover_worker *w)
{
    return w->id.slot == in->revision->plan.workers[0].slot;
}

static bool is_of_revision(const struct recover_input *in, const struct recover_worker *w)
{
    int i = revision_find(in->revision, w->id.slot);

    return i >= 0 && revision_worker(in->revision, i).incarnation == w->id.incarnation;
}

static bool is_over(const struct recover_input *in)
{
    if (in->has_progress && in->state == PROGRESS_DONE)
        return true;
    for (int i = 0; i < in->n_workers; i++) {
        const struct recover_worker *w = &in->workers[i];

        if (is_leader(in, w) && w->report && w->report->revision == number(in) &&
            w->report->session == REPORT_DONE)
            return true;
    }
    return false;
}

/* A report from before its revision is outdated. */
bool recover_is_settled(const struct recover_worker *w)
{
    return w->is_gone || (w->report && w->report->revision >= w->accepted &&
                          w->report->session != REPORT_RUNNING);
}

bool recover_has_left(const struct recover_input *in, int slot)
{
    return plan_find(&in->revision->plan, slot) < 0 && in->has_progress &&
           in->step > in->revision->resume.step;
}

/* The worker of the revision with this slot; NULL when it is gone. */
static const struct recover_worker *find(const struct recover_input *in, int slot)
{
    for (int i = 0; i < in->n_workers; i++)
        if (in->workers[i].id.slot == slot && !in->workers[i].is_gone &&
            is_of_revision(in, &in->workers[i]))
            return &in->workers[i];
    return NULL;
}

bool recover_must_halt(const struct recover_input *in)
{
    if (is_over(in))
        return false;
    for (int i = 0; i < revision_n_workers(in->revision); i++) {
        int slot = revision_worker(in->revision, i).slot;
        const struct recover_worker *w = find(in, slot);

        if (recover_has_left(in, slot))
            continue;
        if (!w || (w->report && w->report->revision == number(in) &&
                   (w->report->session == REPORT_HALTED || w->report->session == REPORT_FAILED)))
            return true;
    }
    return false;
}

enum recover_phase recover_phase(const struct recover_input *in)
{
    bool has_all = true;
    bool is_still = true;

    if (is_over(in))
        return RECOVER_END;
    for (int i = 0; i < in->n_workers; i++) {
        const struct recover_worker *w = &in->workers[i];

        if (!is_of_revision(in, w))
            continue;
        is_still = is_still && recover_is_settled(w);
        has_all = has_all && (w->is_gone || w->accepted == number(in));
    }
    if (in->is_halting)
        return is_still ? RECOVER_REVISE : RECOVER_HALT;
    return has_all ? RECOVER_RUN : RECOVER_TELL;
}

enum recover_order recover_order(const struct recover_input *in, int i)
{
    const struct recover_worker *w = &in->workers[i];
    bool ends = is_over(in);

    if (w->is_gone || !is_of_revision(in, w))
        return ORDER_NONE;
    if (ends && is_leader(in, w))
        return in->may_end ? ORDER_HALT : ORDER_NONE;
    if (in->is_halting && !ends)
        return w->is_halted || recover_is_settled(w) ? ORDER_NONE : ORDER_HALT;
    if (recover_has_left(in, w->id.slot))
        return ORDER_HALT;
    return w->accepted == number(in) || ends ? ORDER_NONE : ORDER_REVISION;
}
