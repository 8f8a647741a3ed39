#include "fleet/follow.h"

#include <stdlib.h>

#include "base/clock.h"
#include "fleet/fleet.h"

#define RETRY_MAX_MS 250 /* on this machine a call costs nothing */

/* The calls that send a worker its peer table, or those that ask the leader. */
struct line {
    struct follow *follow;
    struct fleet_address address;
    struct contact contact;
};

struct follow {
    struct fleet *fleet;
    struct peers peers;
    struct line lines[SPEC_STAGES_MAX];
    struct line leader;
    int64_t asked_ms; /* last call to the leader */
    bool has_progress;
    struct progress progress;
};

enum err_code follow_new(struct fleet *fleet, const struct peers *peers,
                         const struct fleet_address *control, struct follow **out, struct err *err)
{
    struct follow *f = calloc(1, sizeof *f);

    if (!f)
        return err_set(err, ERR_NO_MEMORY, "no memory to follow %d workers", peers->n_stages);
    f->fleet = fleet;
    f->peers = *peers;
    for (int s = 0; s < peers->n_stages; s++)
        f->lines[s] = (struct line){.follow = f, .address = control[s]};
    f->leader = (struct line){.follow = f, .address = control[0]};
    *out = f;
    return ERR_OK;
}

void follow_free(struct follow *f)
{
    free(f);
}

/* `progress` is NULL for a peer table and for a call that failed. */
static void on_answer(void *ctx, const struct progress *progress, const struct err *err)
{
    struct line *line = ctx;
    struct err named = *err;

    if (err->code != ERR_OK)
        (void)err_wrap(&named, err->code, "worker %s:%d", line->address.host, line->address.port);
    contact_answered(&line->contact, &named, line != &line->follow->leader, clock_now_ms(),
                     RETRY_MAX_MS);
    if (progress) {
        line->follow->progress = *progress;
        line->follow->has_progress = true;
    }
}

/* Call the worker if that is due. Returns how long until it is, at most FOLLOW_ASK_MS. */
static int64_t step_line(struct follow *f, struct line *line, int64_t wait_ms)
{
    struct fleet_handler handler = {.ctx = line, .on_answer = on_answer};
    struct err err = {0};
    enum err_code rc;

    if (line->contact.is_busy || line->contact.has_table || wait_ms > 0)
        return wait_ms > 0 && wait_ms < FOLLOW_ASK_MS ? wait_ms : FOLLOW_ASK_MS;
    if (line == &f->leader)
        rc = fleet_ask_status(f->fleet, &line->address, handler, &err);
    else
        rc = fleet_post_peers(f->fleet, &line->address, &f->peers, handler, &err);
    if (rc == ERR_OK)
        line->contact.is_busy = true;
    else
        on_answer(line, NULL, &err);
    return FOLLOW_ASK_MS;
}

int64_t follow_step(struct follow *f, int64_t now_ms)
{
    int64_t wait_ms = contact_wait_ms(&f->leader.contact, now_ms);
    int64_t ask_ms = f->asked_ms + FOLLOW_ASK_MS - now_ms;
    int64_t next_ms;

    if (f->asked_ms > 0 && ask_ms > wait_ms)
        wait_ms = ask_ms;
    if (wait_ms <= 0 && !f->leader.contact.is_busy)
        f->asked_ms = now_ms;
    next_ms = step_line(f, &f->leader, wait_ms);
    for (int s = 0; s < f->peers.n_stages; s++) {
        int64_t ms = step_line(f, &f->lines[s], contact_wait_ms(&f->lines[s].contact, now_ms));

        next_ms = ms < next_ms ? ms : next_ms;
    }
    return next_ms;
}

const struct progress *follow_head(const struct follow *f)
{
    return f->has_progress ? &f->progress : NULL;
}

const char *follow_refusal(const struct follow *f)
{
    for (int s = 0; s < f->peers.n_stages; s++)
        if (f->lines[s].contact.is_refused)
            return f->lines[s].contact.refusal;
    return NULL;
}
