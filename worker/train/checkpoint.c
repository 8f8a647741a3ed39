#include "train/checkpoint.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "train/save.h"

#define PIECE_FLOATS ((size_t)1 << 20)
#define END_WAIT_MS  20000 /* less than a worker is given to halt (control/decide.h) */

/* --- memory --- */

static bool has_copy(const struct checkpoint *c)
{
    return c->p.plan->saves_from_copy || c->p.plan->spec.training.keeps_best;
}

static void add_area(struct checkpoint *c, const float *live, size_t count, struct arena *arena)
{
    if (live)
        c->areas[c->n_areas++] = (struct checkpoint_area){
            .live = live, .copy = has_copy(c) ? arena_floats(arena, count) : NULL, .count = count};
}

/* In the order of the shard (files/store.h), on a counting arena first. */
static void lay_out(struct checkpoint *c, struct arena *arena)
{
    const struct plan_home *own = &c->own;

    c->n_areas = 0;
    c->piece = arena_floats(arena, PIECE_FLOATS);
    for (int u = own->first_unit; u < own->first_unit + own->n_units; u++) {
        const struct weights_unit *unit = &c->p.state->units[u];

        add_area(c, unit->params, unit->count, arena);
        add_area(c, unit->moment, unit->count, arena);
        add_area(c, unit->variance, unit->count, arena);
    }
}

enum err_code checkpoint_init(struct checkpoint *c, const struct checkpoint_params *p,
                              struct err *err)
{
    struct plan_home homes[SPEC_STAGES_MAX];
    struct arena count = {0};
    enum err_code rc;

    *c = (struct checkpoint){.p = *p};
    c->n_shards = plan_homes(p->plan, homes);
    c->shard = plan_home(p->plan, p->worker, &c->own);
    lay_out(c, &count);
    rc = arena_init(&c->memory, count.used, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "copies for checkpoints");
    lay_out(c, &c->memory);
    (void)pthread_mutex_init(&c->lock, NULL);
    thread_cond_init(&c->moved);
    c->history.max = HISTORY_MAX_BYTES;
    c->progress.max = PROGRESS_TEXT_MAX_BYTES;
    c->is_open = true;
    return ERR_OK;
}

bool checkpoint_is_lasting(const struct checkpoint *c)
{
    return !c->p.store->is_own;
}

void checkpoint_hurry(struct checkpoint *c)
{
    if (c->p.copies)
        copies_hurry(c->p.copies);
}

bool checkpoint_wait(struct checkpoint *c, int timeout_ms)
{
    const struct timespec deadline = thread_deadline(timeout_ms);
    bool is_late = false;
    bool is_writing;

    (void)pthread_mutex_lock(&c->lock);
    while (c->is_writing && !is_late)
        is_late = pthread_cond_timedwait(&c->moved, &c->lock, &deadline) != 0;
    is_writing = c->is_writing;
    (void)pthread_mutex_unlock(&c->lock);
    return !is_writing;
}

bool checkpoint_has_failed(struct checkpoint *c)
{
    bool has_failed;

    (void)pthread_mutex_lock(&c->lock);
    has_failed = c->has_failed;
    (void)pthread_mutex_unlock(&c->lock);
    return has_failed;
}

static void join(struct checkpoint *c)
{
    if (c->has_thread)
        (void)pthread_join(c->thread, NULL);
    c->has_thread = false;
}

void checkpoint_deinit(struct checkpoint *c)
{
    if (!c->is_open)
        return;
    (void)checkpoint_wait(c, END_WAIT_MS);
    atomic_store(&c->stops, true);
    join(c);
    (void)pthread_cond_destroy(&c->moved);
    (void)pthread_mutex_destroy(&c->lock);
    arena_deinit(&c->memory);
    buf_deinit(&c->history);
    buf_deinit(&c->progress);
    *c = (struct checkpoint){.n_areas = 0};
}

/* --- the thread --- */

/* Take the next floats into c->piece; returns how many, 0 at the end. */
static size_t take_piece(struct checkpoint *c)
{
    size_t n = 0;

    (void)pthread_mutex_lock(&c->lock);
    if (c->area < c->n_areas && !c->is_given_up) {
        const struct checkpoint_area *a = &c->areas[c->area];
        size_t left = a->count - c->at;

        n = left < PIECE_FLOATS ? left : PIECE_FLOATS;
        memcpy(c->piece, (c->is_copied ? a->copy : a->live) + c->at, n * sizeof *c->piece);
        c->at += n;
        if (c->at == a->count) {
            c->area++;
            c->at = 0;
        }
        c->taken_ms = clock_now_ms();
        (void)pthread_cond_broadcast(&c->moved);
    }
    (void)pthread_mutex_unlock(&c->lock);
    return n;
}

/* After the last piece. */
static enum err_code check_given_up(struct checkpoint *c, struct err *err)
{
    bool is_given_up;

    (void)pthread_mutex_lock(&c->lock);
    is_given_up = c->is_given_up;
    (void)pthread_mutex_unlock(&c->lock);
    return is_given_up ? err_set(err, ERR_TIMEOUT, "the disk took nothing for %d s",
                                 CHECKPOINT_STILL_MS / 1000)
                       : ERR_OK;
}

static enum err_code write_shard(struct checkpoint *c, struct err *err)
{
    const struct spec *spec = &c->p.plan->spec;
    const struct export_params model = save_model(c->p.plan, c->p.loader);
    const struct store_records records = {.history = buf_text(&c->history),
                                          .n_history = c->history.len,
                                          .progress = buf_text(&c->progress),
                                          .n_progress = c->progress.len};
    const struct resume at = {.lineage = c->point.at.lineage, .origins = c->point.origins};
    struct store_writer *w = NULL;
    enum err_code rc;
    size_t n;

    if (c->p.store->is_own || c->p.store->remote)
        store_clean_own(c->p.store, &at, spec->checkpoint.keep, c->saved_step);
    else if (c->p.loader)
        store_clean(c->p.store, &at, spec->checkpoint.keep);
    rc = store_begin(c->p.store, &c->point, &model, c->shard,
                     spec->training.optimizer == SPEC_OPTIMIZER_ADAMW, &w, err);
    while (rc == ERR_OK && (n = take_piece(c)) > 0)
        rc = atomic_load(&c->stops) ? err_set(err, ERR_GONE, "the session has ended")
                                    : store_put(w, c->piece, n, err);
    if (rc == ERR_OK)
        rc = check_given_up(c, err);
    if (rc == ERR_OK)
        return store_finish(w, c->p.loader ? &records : NULL, err);
    store_abandon(w);
    return rc;
}

/* Upload it, if the store is a bucket. Old ones go afterwards: a server that does not answer holds
 * up no shard. */
static enum err_code push_shard(struct checkpoint *c, const struct store_shard *shard,
                                struct err *err)
{
    const struct resume at = {.lineage = c->point.at.lineage, .origins = c->point.origins};
    enum err_code rc = store_push(c->p.store, shard, &c->stops, err);

    if (rc == ERR_OK && c->p.store->remote && c->p.loader)
        store_clean(c->p.store, &at, c->p.plan->spec.checkpoint.keep);
    return rc;
}

static void set_state(struct checkpoint *c, bool is_writing, bool has_failed)
{
    (void)pthread_mutex_lock(&c->lock);
    c->is_writing = is_writing;
    c->has_failed = has_failed;
    (void)pthread_cond_broadcast(&c->moved);
    (void)pthread_mutex_unlock(&c->lock);
}

static void *run(void *arg)
{
    struct checkpoint *c = arg;
    const struct store_shard shard = {.lineage = c->point.at.lineage,
                                      .step = c->point.at.end.step,
                                      .stage = c->shard,
                                      .n_stages = c->n_shards};
    int64_t start_ms = clock_now_ms();
    struct err err;
    enum err_code rc = write_shard(c, &err);

    if (rc == ERR_OK)
        LOG(LOG_INFO, "checkpoint written", LOG_I("stage", c->p.worker),
            LOG_I("step", c->point.at.end.step), LOG_I("ms", clock_now_ms() - start_ms));
    else
        LOG(LOG_WARN, "the checkpoint cannot be written; training goes on without it",
            LOG_I("stage", c->p.worker), LOG_I("step", c->point.at.end.step),
            LOG_S("error", err.text));
    if (rc == ERR_OK) {
        rc = push_shard(c, &shard, &err);
        if (rc != ERR_OK && rc != ERR_GONE)
            LOG(LOG_WARN, "the checkpoint cannot be uploaded; training goes on without it",
                LOG_I("stage", c->p.worker), LOG_I("step", c->point.at.end.step),
                LOG_S("error", err.text));
    }
    if (rc == ERR_OK && c->p.copies) {
        rc = copies_send(c->p.copies, &shard, &err);
        if (rc != ERR_OK && rc != ERR_GONE)
            LOG(LOG_WARN, "the checkpoint cannot be copied to another node",
                LOG_I("stage", c->p.worker), LOG_I("step", c->point.at.end.step),
                LOG_S("error", err.text));
    }
    set_state(c, false, rc != ERR_OK);
    return NULL;
}

/* --- the trainer's side --- */

void checkpoint_begin(struct checkpoint *c, int64_t evaluated, const struct progress *progress,
                      const struct history *history, bool is_saved)
{
    const struct state *s = c->p.state;
    enum err_code rc = ERR_OK;
    struct err err;

    join(c);
    if (is_saved)
        c->saved_step = c->point.at.end.step;
    c->point =
        (struct store_point){.at = {.lineage = s->lineage, .end = s->end, .evaluated = evaluated},
                             .origins = s->origins,
                             .best = {progress->best.lineage, progress->best.step}};
    identity_of(&c->p.plan->spec, &c->point.identity);
    c->area = 0;
    c->at = 0;
    c->is_copied = c->is_given_up = false;
    c->taken_ms = clock_now_ms();
    buf_reset(&c->history);
    buf_reset(&c->progress);
    if (history)
        rc = history_text(history, &c->history, &err);
    if (rc == ERR_OK && history)
        rc = progress_write(progress, &c->progress, &err);
    set_state(c, true, false);
    if (rc == ERR_OK)
        rc = thread_start(&c->thread, run, c, &err);
    c->has_thread = rc == ERR_OK;
    if (rc == ERR_OK)
        return;
    set_state(c, false, true);
    LOG(LOG_WARN, "no checkpoint", LOG_I("step", s->step), LOG_S("error", err.text));
}

static void copy_rest(struct checkpoint *c)
{
    for (int i = c->area; i < c->n_areas; i++) {
        const struct checkpoint_area *a = &c->areas[i];
        size_t from = i == c->area ? c->at : 0;

        memcpy(a->copy + from, a->live + from, (a->count - from) * sizeof *a->copy);
    }
    c->is_copied = true;
}

bool checkpoint_before_update(struct checkpoint *c, int timeout_ms)
{
    const struct timespec deadline = thread_deadline(timeout_ms);
    bool is_late = false;
    bool may_change;

    (void)pthread_mutex_lock(&c->lock);
    if (has_copy(c) && c->is_writing && !c->is_copied)
        copy_rest(c);
    for (;;) {
        may_change = !c->is_writing || c->is_copied || c->is_given_up || c->area == c->n_areas;
        if (may_change || is_late)
            break;
        is_late = pthread_cond_timedwait(&c->moved, &c->lock, &deadline) != 0;
    }
    if (!may_change && clock_now_ms() - c->taken_ms >= CHECKPOINT_STILL_MS)
        may_change = c->is_given_up = true;
    (void)pthread_mutex_unlock(&c->lock);
    return may_change;
}

enum err_code checkpoint_read(struct checkpoint *c, const struct resume_origin *from,
                              struct weights_unit **out, struct err *err)
{
    const struct spec *spec = &c->p.plan->spec;
    const struct plan_home *own = &c->own;
    const struct resume_checkpoint at = {.lineage = from->lineage, .end = {.step = from->step}};
    const struct resume_part units = {.first_unit = own->first_unit, .n_units = own->n_units};
    bool has_variance = spec->training.optimizer == SPEC_OPTIMIZER_ADAMW;
    const struct checkpoint_area *a = c->areas;
    struct store_reader *reader = NULL;
    enum err_code rc;

    join(c);
    rc = store_fetch(c->p.store, &at, &units, &c->stops, err);
    if (rc == ERR_OK)
        rc = store_read(c->p.store, &at, &spec->model, has_variance, &reader, err);
    for (int i = 0; rc == ERR_OK && i < own->n_units; i++, a += has_variance ? 3 : 2) {
        struct weights_unit *u = &c->read[i];

        *u = (struct weights_unit){.count = a[0].count,
                                   .params = a[0].copy,
                                   .moment = a[1].copy,
                                   .variance = has_variance ? a[2].copy : NULL};
        rc = store_read_unit(reader, own->first_unit + i, u->params, u->moment, u->variance, err);
    }
    store_close(reader);
    if (rc == ERR_OK)
        *out = c->read;
    return rc;
}
