#include "fleet/follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One worker, or (the last one) the head as the one that is asked. */
struct line {
    struct follow *follow;
    struct fleet_address address;
    bool is_busy;  /* a call is under way */
    bool has_told; /* has taken the table */
    bool is_refused;
    int64_t due_ms;
    int64_t started_ms;
    char trouble[ERR_TEXT_BYTES];
};

struct follow {
    struct fleet *fleet;
    struct peers peers;
    struct line lines[SPEC_STAGES_MAX];
    struct line head;
    bool has_head;
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
    f->head = (struct line){.follow = f, .address = control[0]};
    *out = f;
    return ERR_OK;
}

void follow_free(struct follow *f)
{
    free(f);
}

/* A worker that cannot be reached is usual while it starts; all else is worth a word. */
static void note_trouble(struct line *line, const struct err *err)
{
    if (err->code == ERR_OK)
        line->trouble[0] = '\0';
    else if (err->code != ERR_IO)
        (void)snprintf(line->trouble, sizeof line->trouble, "worker %s:%d: %s", line->address.host,
                       line->address.port, err->text);
}

static void on_told(void *ctx, const struct progress *progress, const struct err *err)
{
    struct line *line = ctx;
    bool is_refused =
        err->code == ERR_CONFLICT || err->code == ERR_INVALID || err->code == ERR_DENIED;

    (void)progress;
    line->is_busy = false;
    line->has_told = err->code == ERR_OK;
    line->is_refused = is_refused;
    line->due_ms = line->started_ms + (is_refused ? FOLLOW_REFUSED_MS : FOLLOW_RETRY_MS);
    note_trouble(line, err);
}

static void on_asked(void *ctx, const struct progress *progress, const struct err *err)
{
    struct line *line = ctx;
    struct follow *f = line->follow;

    line->is_busy = false;
    line->due_ms = line->started_ms + FOLLOW_ASK_MS;
    note_trouble(line, err);
    if (progress) {
        f->progress = *progress;
        f->has_head = true;
    }
}

static bool is_due(const struct line *line, int64_t now_ms)
{
    return !line->is_busy && !line->has_told && line->due_ms <= now_ms;
}

/* Remember that a call is under way, or that it could not even be started. */
static void begin(struct line *line, int64_t now_ms, enum err_code rc, const struct err *err)
{
    line->started_ms = now_ms;
    line->is_busy = rc == ERR_OK;
    if (rc == ERR_OK)
        return;
    line->due_ms = now_ms + FOLLOW_REFUSED_MS;
    note_trouble(line, err);
}

int64_t follow_step(struct follow *f, int64_t now_ms)
{
    int64_t next_ms = now_ms + FOLLOW_ASK_MS;
    struct err err;

    for (int s = 0; s < f->peers.n_stages; s++) {
        struct line *line = &f->lines[s];
        struct fleet_handler handler = {.ctx = line, .on_answer = on_told};

        if (is_due(line, now_ms))
            begin(line, now_ms,
                  fleet_post_peers(f->fleet, &line->address, &f->peers, handler, &err), &err);
        if (!line->is_busy && !line->has_told && line->due_ms < next_ms)
            next_ms = line->due_ms;
    }
    if (is_due(&f->head, now_ms)) {
        struct fleet_handler handler = {.ctx = &f->head, .on_answer = on_asked};

        begin(&f->head, now_ms, fleet_ask_status(f->fleet, &f->head.address, handler, &err), &err);
    }
    if (!f->head.is_busy && f->head.due_ms < next_ms)
        next_ms = f->head.due_ms;
    return next_ms - now_ms;
}

const struct progress *follow_head(const struct follow *f)
{
    return f->has_head ? &f->progress : NULL;
}

int follow_n_told(const struct follow *f)
{
    int n = 0;

    for (int s = 0; s < f->peers.n_stages; s++)
        n += f->lines[s].has_told;
    return n;
}

const char *follow_refusal(const struct follow *f)
{
    for (int s = 0; s < f->peers.n_stages; s++)
        if (f->lines[s].is_refused)
            return f->lines[s].trouble;
    return NULL;
}

const char *follow_trouble(const struct follow *f)
{
    for (int s = 0; s < f->peers.n_stages; s++)
        if (f->lines[s].trouble[0])
            return f->lines[s].trouble;
    return f->head.trouble;
}
