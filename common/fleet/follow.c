#include "fleet/follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum call_kind {
    CALL_NONE,
    CALL_REVISION,
    CALL_HALT,
    CALL_CHECKPOINT,
    CALL_REPORT,
    CALL_STATUS,
};

struct member {
    struct follow_worker worker;
    struct contact contact;
    bool is_halted;  /* has accepted the order to halt */
    int64_t ordered; /* the last checkpoint that it has accepted an order for; 0: none */
    bool has_report; /* of the current revision and, if it is to halt, since it accepted that */
    struct report report;
    int64_t asked_ms;    /* when its report was last asked for */
    int64_t answered_ms; /* when it last answered, whatever it was asked */
};

struct follow {
    struct fleet *fleet;
    int64_t ask_ms;
    int n;
    struct member members[PEERS_MAX];
    bool has_revision;
    bool is_halting;
    int64_t halting_since_ms; /* 0: the order is yet to be sent */
    bool is_released;
    int64_t ordered; /* the last checkpoint that was ordered; 0: none */
    struct revision revision;
    struct buf text; /* of the revision */
    struct peers peers;
    struct contact status; /* the calls for the leader's status */
    int64_t status_ms;     /* when it was last asked for */
    bool has_progress;
    struct progress progress;
};

/* What a call was for: its worker may be gone when the answer arrives. */
struct asked {
    struct follow *follow;
    struct revision_worker id;
    enum call_kind kind;
    int revision;
    int64_t order; /* of CALL_CHECKPOINT */
};

enum err_code follow_new(struct fleet *fleet, int64_t ask_ms, struct follow **out, struct err *err)
{
    struct follow *f = calloc(1, sizeof *f);

    if (!f)
        return err_set(err, ERR_NO_MEMORY, "no memory to follow workers");
    f->fleet = fleet;
    f->ask_ms = ask_ms;
    f->text.max = REVISION_TEXT_MAX_BYTES;
    *out = f;
    return ERR_OK;
}

void follow_free(struct follow *f)
{
    if (!f)
        return;
    buf_deinit(&f->text);
    free(f);
}

static int index_of(const struct follow *f, int slot)
{
    for (int i = 0; i < f->n; i++)
        if (f->members[i].worker.id.slot == slot)
            return i;
    return -1;
}

enum err_code follow_add(struct follow *f, const struct follow_worker *worker, struct err *err)
{
    int i = index_of(f, worker->id.slot);

    if (i < 0 && f->n == PEERS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d workers", PEERS_MAX);
    f->members[i < 0 ? f->n++ : i] = (struct member){.worker = *worker};
    return ERR_OK;
}

void follow_remove(struct follow *f, int slot)
{
    int i = index_of(f, slot);

    if (i >= 0)
        f->members[i] = f->members[--f->n];
}

/* --- the current revision --- */

static int number(const struct follow *f)
{
    return f->revision.plan.revision;
}

/* The input of recover.h; `out` has room for all members. */
static struct recover_input input_of(const struct follow *f,
                                     struct recover_worker out[static PEERS_MAX])
{
    for (int i = 0; i < f->n; i++) {
        const struct member *m = &f->members[i];

        out[i] = (struct recover_worker){.id = m->worker.id,
                                         .accepted = m->contact.accepted,
                                         .is_halted = m->is_halted,
                                         .report = m->has_report ? &m->report : NULL};
    }
    return (struct recover_input){.revision = &f->revision,
                                  .n_workers = f->n,
                                  .workers = out,
                                  .is_halting = f->is_halting,
                                  .has_progress = f->has_progress,
                                  .state = f->progress.state,
                                  .step = f->progress.step,
                                  .may_end = f->is_released};
}

enum err_code follow_revise(struct follow *f, const struct revision *r, const struct json *spec,
                            struct err *err)
{
    struct peers peers = {.revision = r->plan.revision, .n = revision_n_workers(r)};
    enum err_code rc;

    for (int i = 0; i < peers.n; i++) {
        struct revision_worker id = revision_worker(r, i);
        int at = index_of(f, id.slot);
        const struct follow_worker *worker = &f->members[at < 0 ? 0 : at].worker;

        if (at < 0 || worker->id.incarnation != id.incarnation)
            return err_set(err, ERR_INVALID, "revision %d: worker %d was not added",
                           r->plan.revision, id.slot);
        memcpy(peers.list[i].host, worker->host, sizeof peers.list[i].host);
        peers.list[i].port = worker->port;
    }
    buf_reset(&f->text);
    rc = revision_write(r, spec, &f->text, err);
    if (rc != ERR_OK)
        return rc;
    f->revision = *r;
    f->peers = peers;
    f->has_revision = true;
    f->is_halting = f->is_released = f->has_progress = false;
    f->halting_since_ms = 0;
    for (int i = 0; i < f->n; i++) {
        f->members[i].is_halted = f->members[i].has_report = false;
        f->members[i].contact.is_refused = false;
        f->members[i].contact.call_after_ms = 0;
        f->members[i].asked_ms = 0;
    }
    return ERR_OK;
}

/* Reports of running sessions no longer count. */
void follow_halt(struct follow *f)
{
    if (f->is_halting)
        return;
    f->is_halting = true;
    for (int i = 0; i < f->n; i++)
        f->members[i].has_report = false;
}

void follow_order_checkpoint(struct follow *f, int64_t order)
{
    f->ordered = order;
}

void follow_release(struct follow *f)
{
    f->is_released = true;
}

enum recover_phase follow_phase(const struct follow *f)
{
    struct recover_worker workers[PEERS_MAX];
    struct recover_input in = input_of(f, workers);

    return f->has_revision ? recover_phase(&in) : RECOVER_TELL;
}

int follow_reports(const struct follow *f, const struct report *out[static PEERS_MAX])
{
    int n = 0;

    for (int i = 0; i < f->n; i++)
        if (f->members[i].has_report)
            out[n++] = &f->members[i].report;
    return n;
}

const struct progress *follow_progress(const struct follow *f)
{
    return f->has_progress ? &f->progress : NULL;
}

int follow_overdue(const struct follow *f, struct recover_patience patience, int64_t now_ms)
{
    struct recover_worker workers[PEERS_MAX];
    struct recover_input in = input_of(f, workers);

    if (!f->has_revision || f->halting_since_ms == 0 || recover_phase(&in) != RECOVER_HALT)
        return -1;
    for (int i = 0; i < f->n; i++) {
        const struct member *m = &f->members[i];
        int64_t halting_ms = now_ms - f->halting_since_ms;
        int64_t silent_ms = now_ms - m->answered_ms;

        if (revision_find(&f->revision, m->worker.id.slot) >= 0 &&
            !recover_is_settled(&workers[i]) &&
            recover_is_overdue(patience, halting_ms,
                               silent_ms < halting_ms ? silent_ms : halting_ms))
            return m->worker.id.slot;
    }
    return -1;
}

const char *follow_refusal(const struct follow *f)
{
    for (int i = 0; i < f->n; i++)
        if (f->members[i].contact.is_refused)
            return f->members[i].contact.refusal;
    return NULL;
}

/* --- calls --- */

static void on_answer(void *ctx, const struct fleet_answer *answer, const struct err *err)
{
    const struct asked *asked = ctx;
    struct follow *f = asked->follow;
    int i = index_of(f, asked->id.slot);
    bool is_status = asked->kind == CALL_STATUS;
    struct err named = *err;
    struct contact *contact;
    struct member *m;

    if (is_status)
        f->status.is_busy = false;
    if (i < 0 || f->members[i].worker.id.incarnation != asked->id.incarnation)
        return;
    m = &f->members[i];
    if (err->code == ERR_OK)
        m->answered_ms = clock_now_ms();
    else
        (void)err_wrap(&named, err->code, "worker %d at %s:%d", asked->id.slot,
                       m->worker.control.host, m->worker.control.port);
    contact = is_status ? &f->status : &m->contact;
    contact_answered(contact, &named, asked->kind == CALL_REVISION ? asked->revision : 0,
                     clock_now_ms(), f->ask_ms);
    if (asked->revision != number(f))
        return;
    if (asked->kind == CALL_HALT && err->code == ERR_OK) {
        m->is_halted = true;
        m->asked_ms = 0;
    }
    if (asked->kind == CALL_CHECKPOINT && err->code == ERR_OK)
        m->ordered = asked->order;
    if (answer->progress && answer->progress->revision == number(f)) {
        f->progress = *answer->progress;
        f->has_progress = true;
    }
    if (!answer->report || answer->report->incarnation != asked->id.incarnation)
        return;
    /* A report that was requested before the worker accepted the halt is outdated. */
    m->report = *answer->report;
    m->has_report = !f->is_halting || m->is_halted;
}

static bool is_leader(const struct follow *f, const struct member *m)
{
    return m->worker.id.slot == f->revision.plan.workers[0].slot;
}

/* Is a checkpoint ordered that this worker, which leads, does not know of? */
static bool has_order(const struct follow *f, const struct member *m)
{
    return f->ordered > m->ordered && is_leader(f, m) && f->has_progress &&
           f->progress.ordered.order < f->ordered;
}

/* The next call to member `i`; *wait_ms becomes how long to wait before it. */
static enum call_kind next_call(const struct follow *f, const struct recover_input *in, int i,
                                int64_t now_ms, int64_t *wait_ms)
{
    const struct member *m = &f->members[i];
    enum recover_order order = recover_order(in, i);
    enum recover_phase phase = recover_phase(in);
    bool is_urgent = order == ORDER_HALT || phase == RECOVER_HALT;
    int64_t ask_ms = is_urgent ? f->ask_ms / 10 : f->ask_ms;

    *wait_ms = contact_wait_ms(&m->contact, now_ms);
    if (m->contact.is_busy || phase == RECOVER_REVISE ||
        revision_find(&f->revision, m->worker.id.slot) < 0)
        return CALL_NONE;
    if (order == ORDER_REVISION)
        return CALL_REVISION;
    if (phase == RECOVER_RUN && order == ORDER_NONE && has_order(f, m))
        return CALL_CHECKPOINT;
    if (m->asked_ms > 0 && m->asked_ms + ask_ms - now_ms > *wait_ms)
        *wait_ms = m->asked_ms + ask_ms - now_ms;
    return order == ORDER_HALT ? CALL_HALT : CALL_REPORT;
}

static enum err_code call(struct follow *f, struct member *m, enum call_kind kind, struct err *err)
{
    struct asked asked = {f, m->worker.id, kind, number(f), f->ordered};
    struct fleet_handler handler = {
        .ctx = &asked, .ctx_bytes = sizeof asked, .on_answer = on_answer};
    const struct fleet_address *to = &m->worker.control;

    switch (kind) {
    case CALL_REVISION:
        return fleet_post_revision(f->fleet, to, &f->text, &f->peers, handler, err);
    case CALL_HALT:
        return fleet_halt(f->fleet, to, number(f), handler, err);
    case CALL_CHECKPOINT:
        return fleet_order_checkpoint(f->fleet, to, f->ordered, handler, err);
    case CALL_STATUS:
        return fleet_ask_status(f->fleet, to, handler, err);
    default:
        return fleet_ask_report(f->fleet, to, handler, err);
    }
}

/* Start a call now, or note that it cannot be started. */
static void try_call(struct follow *f, struct member *m, enum call_kind kind,
                     struct contact *contact, int64_t now_ms)
{
    struct err err = {.code = ERR_OK};
    enum err_code rc = call(f, m, kind, &err);

    contact->is_busy = rc == ERR_OK;
    if (rc != ERR_OK)
        contact_answered(contact, &err, 0, now_ms, f->ask_ms);
}

int64_t follow_step(struct follow *f, int64_t now_ms)
{
    struct recover_worker workers[PEERS_MAX];
    struct recover_input in = input_of(f, workers);
    int64_t next_ms = f->ask_ms;

    if (!f->has_revision)
        return next_ms;
    if (!f->is_halting && recover_must_halt(&in))
        follow_halt(f);
    if (f->is_halting && f->halting_since_ms == 0)
        f->halting_since_ms = now_ms;
    in = input_of(f, workers);
    for (int i = 0; i < f->n; i++) {
        struct member *m = &f->members[i];
        int64_t wait_ms;
        enum call_kind kind = next_call(f, &in, i, now_ms, &wait_ms);

        if (kind != CALL_NONE && wait_ms > 0 && wait_ms < next_ms)
            next_ms = wait_ms;
        if (kind != CALL_NONE && wait_ms == 0) {
            m->asked_ms = now_ms;
            try_call(f, m, kind, &m->contact, now_ms);
        }
        if (!is_leader(f, m) || f->status.is_busy || m->contact.accepted != number(f))
            continue;
        wait_ms = contact_wait_ms(&f->status, now_ms);
        if (f->status_ms > 0 && f->status_ms + f->ask_ms - now_ms > wait_ms)
            wait_ms = f->status_ms + f->ask_ms - now_ms;
        if (wait_ms > 0 && wait_ms < next_ms)
            next_ms = wait_ms;
        if (wait_ms == 0) {
            f->status_ms = now_ms;
            try_call(f, m, CALL_STATUS, &f->status, now_ms);
        }
    }
    return next_ms;
}
