#include "train/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "files/pretrained.h"
#include "train/move.h"
#include "train/save.h"
#include "train/train.h"

#define CONNECT_WAIT_MS  120000  /* for neighbours that open their ports soon ... */
#define MOVES_WAIT_MS    3600000 /* ... or fetch units first */
#define CLOSE_WAIT_MS    10000
#define SAVE_PATIENCE_MS 300000
#define STALL_MS         60000 /* without progress, and ... */
#define STALL_TIMES      10    /* ... so many times what a micro-batch is predicted to take */
#define COPY_WAIT_MS     100   /* of one call; repeated until the session is stopped */
#define STORE_WAIT_S     10    /* for a checkpoint that others see: network file systems are late */

struct session {
    struct job *job;
    struct revision *revision;
    const struct peers *peers;
    int connect_ms;
    int number; /* of this worker in the revision: its place in the plan, or past the last one */
    struct plan_home home; /* what is at home with it */
    bool is_first;         /* session of this process */
    struct stage stage;
    struct train train;
    struct checkpoint checkpoint;
    struct copies copies;
    struct resume_checkpoint from; /* units come, if `reader` is set, which is of it */
    struct store_reader *reader;
    struct output output;
    struct tls_identity *identity; /* of its links; NULL: they are plain */
};

static void post(struct session *s, enum progress_state state)
{
    struct progress *p = &s->job->progress;

    p->state = state;
    mailbox_set_progress(s->job->mailbox, p);
}

static bool is_member(const struct session *s)
{
    return s->number < s->revision->plan.n_workers;
}

static bool is_leader(const struct session *s)
{
    return s->number == 0;
}

/* Has the session been halted or superseded? For what comes before the first message. */
static enum err_code check_stop(const struct session *s, struct err *err)
{
    return exchange_check(&s->train.exchange, err);
}

/* --- to the step from which the revision goes on --- */

/* A revision that is posted without a halt may be based on outdated reports. It is refused before
 * anything is dropped: the next one is based on what is here. */
static enum err_code check_point(const struct session *s, struct err *err)
{
    const struct revision *r = s->revision;
    const struct resume *at = &r->resume;
    const struct state *state = &s->job->state;
    struct store_point newest;

    /* A job that is resumed, or has lost all of its workers, gets its first revision before any of
     * them can report the store. */
    if (s->is_first && at->step == 0 && s->job->has_store &&
        store_list(&s->job->store, &newest, 1) > 0)
        return err_set(err, ERR_CONFLICT,
                       "revision %d begins with step 0, but there is a checkpoint of step %lld",
                       r->plan.revision, (long long)newest.at.end.step);
    if (state_is_past(state, at))
        return err_set(err, ERR_CONFLICT,
                       "revision %d goes on from step %lld of lineage %lld, but this worker is at "
                       "step %lld of lineage %lld",
                       r->plan.revision, (long long)at->step, (long long)at->lineage,
                       (long long)state->step, (long long)state->lineage);
    for (int u = 0; u < model_units(&r->plan.spec.model); u++) {
        const struct resume_source *source = revision_source(r, u);

        if (source->kind == SOURCE_WORKER && source->slot == s->job->self.slot &&
            !state_reaches(state, u, at))
            return err_set(err, ERR_CONFLICT,
                           "revision %d: unit %d is not here at step %lld of lineage %lld",
                           r->plan.revision, u, (long long)at->step, (long long)at->lineage);
    }
    return ERR_OK;
}

static enum err_code come_to_the_step(struct session *s, struct err *err)
{
    struct job *job = s->job;
    struct state *state = &job->state;
    const struct resume *at = &s->revision->resume;
    bool begins_again = state->lineage != at->lineage;
    bool is_behind = !begins_again && state->step + 1 == at->step;
    enum err_code rc = state_resume(state, &s->revision->plan.spec, at, err);

    if (rc != ERR_OK) {
        job->cause = PROGRESS_CAUSE_CONFIG; /* the job fails with this step */
        return rc;
    }
    if (begins_again) {
        history_restart(&job->history, "", 0);
        job->progress.loss = NAN;
        job->progress.n_metrics = 0;
        job->progress.best = (struct progress_best){.step = 0};
        job->progress.saved = (struct progress_saved){.step = 0};
    } else if (is_behind && state_has(state, 0)) {
        train_show_end(&job->progress, &job->history, state);
    }
    job->evaluated = at->evaluated;
    job->progress.step = state->step;
    job->progress.skipped_steps = state->step - state->updates;
    return ERR_OK;
}

/* --- the units of this worker --- */

/* A missing file may still appear; a wrong one stays wrong. */
static enum progress_cause cause_of_reading(enum err_code rc)
{
    if (rc == ERR_NOT_FOUND)
        return PROGRESS_CAUSE_DATA_MISSING;
    return err_is_transient(rc) ? PROGRESS_CAUSE_OTHER : PROGRESS_CAUSE_CONFIG;
}

static bool is_own(const struct session *s, int unit)
{
    return plan_home_has(&s->home, unit);
}

/* Take memory for units that are not here. Random ones are initialized now; the others are read or
 * fetched later. */
static enum err_code take_units(struct session *s, struct err *err)
{
    const struct spec *spec = &s->revision->plan.spec;
    struct state *state = &s->job->state;
    enum err_code rc = ERR_OK;

    for (int u = s->home.first_unit; rc == ERR_OK && is_own(s, u); u++) {
        const struct resume_source *source = revision_source(s->revision, u);

        if (state_has(state, u))
            continue;
        rc = check_stop(s, err);
        if (rc == ERR_OK)
            rc = state_take(state, spec, u, err);
        if (rc == ERR_OK && source->kind == SOURCE_RANDOM)
            state_start(state, spec, u);
    }
    return rc;
}

/* Find the checkpoint from which the revision goes on. */
static enum err_code find_checkpoint(const struct session *s, struct resume_checkpoint *out,
                                     struct err *err)
{
    const struct resume *at = &s->revision->resume;
    const int n_tries = s->job->store.is_own ? 1 : STORE_WAIT_S;
    struct store_point points[RESUME_POINTS_MAX];
    enum err_code rc = ERR_OK;

    if (!s->job->has_store)
        return err_set(err, ERR_CONFLICT, "--checkpoints: the units come from a checkpoint");
    for (int i = 0; rc == ERR_OK && i < n_tries; i++) {
        if (i > 0)
            (void)sleep(1);
        for (int k = 0, n = store_list(&s->job->store, points, RESUME_POINTS_MAX); k < n; k++) {
            *out = points[k].at;
            if (out->end.step == at->step && resume_counts(at, out->lineage, at->step))
                return ERR_OK;
        }
        rc = check_stop(s, err);
    }
    return rc != ERR_OK ? rc
                        : err_set(err, ERR_CONFLICT, "%s has no checkpoint of step %lld",
                                  s->job->store.folder, (long long)at->step);
}

static enum err_code read_records(struct session *s, struct err *err)
{
    struct job *job = s->job;
    struct buf history = {.max = HISTORY_MAX_BYTES}, progress = {.max = PROGRESS_TEXT_MAX_BYTES};
    enum err_code rc = store_read_records(s->reader, &history, &progress, err);

    if (rc == ERR_OK)
        rc = history_take_over(&job->history, &job->progress, buf_text(&progress), progress.len,
                               &history, err);
    buf_deinit(&history);
    buf_deinit(&progress);
    return rc;
}

/* Does the unit come from a checkpoint in this worker's store? */
static bool is_in_checkpoint(const struct session *s, int unit)
{
    const struct resume_source *source = revision_source(s->revision, unit);

    if (source->kind == SOURCE_PEER)
        return source->slot == s->job->self.slot;
    return source->kind == SOURCE_CHECKPOINT && is_own(s, unit) && !state_has(&s->job->state, unit);
}

static enum err_code read_units(struct session *s, struct err *err)
{
    struct state *state = &s->job->state;
    enum err_code rc = ERR_OK;

    for (int u = s->home.first_unit; rc == ERR_OK && is_own(s, u); u++) {
        const struct weights_unit *unit = &state->units[u];

        if (!is_in_checkpoint(s, u))
            continue;
        rc = check_stop(s, err);
        if (rc == ERR_OK)
            rc = store_read_unit(s->reader, u, unit->params, unit->moment, unit->variance, err);
        if (rc == ERR_OK && u == 0)
            rc = read_records(s, err);
        if (rc == ERR_OK)
            state->hold[u] = STATE_KEPT;
    }
    return rc;
}

/* A checkpoint that has proved to be damaged is set aside: the next revision goes on from another
 * copy, or from the one before. */
static enum err_code refuse_checkpoint(struct session *s, struct err *err)
{
    LOG(LOG_WARN, "a damaged checkpoint is set aside", LOG_I("lineage", s->from.lineage),
        LOG_I("step", s->from.end.step), LOG_S("error", err->text));
    store_refuse(&s->job->store, &s->from);
    return err_wrap(err, ERR_CONFLICT, "a damaged checkpoint");
}

/* The units from the first to the last that come from a checkpoint. */
static struct resume_part units_in_checkpoint(const struct session *s)
{
    struct resume_part units = {.n_units = 0};

    for (int u = 0; u < model_units(&s->revision->plan.spec.model); u++) {
        if (!is_in_checkpoint(s, u))
            continue;
        if (units.n_units == 0)
            units.first_unit = u;
        units.n_units = u + 1 - units.first_unit;
    }
    return units;
}

/* A bucket that cannot be reached now, or has another checkpoint by now, is no fault of this
 * worker: the next revision tries again. */
static enum err_code fetch_checkpoint(struct session *s, const struct resume_part *units,
                                      struct err *err)
{
    enum err_code rc = store_fetch(&s->job->store, &s->from, units, &s->job->mailbox->stops, err);

    if (err_is_transient(rc) || rc == ERR_NOT_FOUND)
        return err_wrap(err, ERR_CONFLICT, "fetch a checkpoint");
    return rc;
}

static enum err_code read_checkpoint(struct session *s, struct err *err)
{
    const struct spec *spec = &s->revision->plan.spec;
    enum err_code rc =
        store_read(&s->job->store, &s->from, &spec->model,
                   spec->training.optimizer == SPEC_OPTIMIZER_ADAMW, &s->reader, err);

    if (rc == ERR_OK)
        rc = read_units(s, err);
    if (rc == ERR_CONFLICT)
        s->job->cause = PROGRESS_CAUSE_CONFIG; /* it is of another model */
    return rc;
}

/* Open the checkpoint from which units come, this worker's or such that it gives to others, and
 * read the former. */
static enum err_code load_checkpoint(struct session *s, struct err *err)
{
    const struct resume_part units = units_in_checkpoint(s);
    enum err_code rc;

    if (units.n_units == 0)
        return ERR_OK;
    rc = find_checkpoint(s, &s->from, err);
    if (rc != ERR_OK)
        return rc;
    rc = fetch_checkpoint(s, &units, err);
    if (rc == ERR_OK)
        rc = read_checkpoint(s, err);
    if (rc == ERR_INVALID && s->job->store.remote) { /* is it the bucket's, or only what is here? */
        LOG(LOG_WARN, "a checkpoint on this disk is damaged, and fetched again",
            LOG_I("step", s->from.end.step), LOG_S("error", err->text));
        store_close(s->reader);
        s->reader = NULL;
        store_drop(&s->job->store, &s->from);
        rc = fetch_checkpoint(s, &units, err);
        if (rc == ERR_OK)
            rc = read_checkpoint(s, err);
    }
    if (rc == ERR_NOT_FOUND) /* another worker has found it damaged, and set it aside meanwhile */
        return err_wrap(err, ERR_CONFLICT, "a checkpoint that is gone");
    if (rc == ERR_OK)
        LOG(LOG_INFO, "restored from a checkpoint", LOG_I("lineage", s->from.lineage),
            LOG_I("step", s->from.end.step));
    return rc == ERR_INVALID ? refuse_checkpoint(s, err) : rc;
}

/* Tensors that a trained model lacks start at random; only units behind the last layer may lack
 * any. A unit that could not be read is not held.
 *
 * Every stage checks the whole model, including units of other stages, so that the leader can
 * report everything that is missing. */
static enum err_code load_unit(const struct session *s, const struct pretrained *p, int unit,
                               struct pretrained_missing *missing, struct err *err)
{
    const struct spec *spec = &s->revision->plan.spec;
    const struct model *m = &spec->model;
    struct state *state = &s->job->state;
    float *scratch;
    enum err_code rc;

    if (is_own(s, unit)) {
        state_start(state, spec, unit);
        rc = pretrained_load_unit(p, m, unit, state->units[unit].params, missing, err);
        if (rc != ERR_OK)
            state->hold[unit] = STATE_PARTIAL;
        return rc;
    }
    if (model_unit_layer(m, unit) >= 0 || unit == 0)
        return ERR_OK;
    scratch = malloc(model_unit_params(m, unit) * sizeof *scratch);
    if (!scratch)
        return err_set(err, ERR_NO_MEMORY, "no memory to check unit %d of a model", unit);
    rc = pretrained_load_unit(p, m, unit, scratch, missing, err);
    free(scratch);
    return rc;
}

/* Load the units that begin with the trained model; `randomly_initialized` lists what it lacks. */
static enum err_code load_units(const struct session *s, const struct pretrained *p,
                                char randomly_initialized[static PROGRESS_RANDOM_BYTES],
                                struct err *err)
{
    const struct model *m = &s->revision->plan.spec.model;
    enum err_code rc = ERR_OK;

    randomly_initialized[0] = '\0';
    for (int u = 0; rc == ERR_OK && u < model_units(m); u++) {
        struct pretrained_missing missing = {0};
        char name[MODEL_NAME_BYTES];

        rc = check_stop(s, err);
        if (rc == ERR_OK)
            rc = load_unit(s, p, u, &missing, err);
        if (rc != ERR_OK || missing.n_tensors == 0)
            continue;
        model_unit_name(m, u, name);
        text_add(randomly_initialized, PROGRESS_RANDOM_BYTES, "%s%s (%.60s)",
                 *randomly_initialized ? ", " : "", name, missing.why);
    }
    return rc;
}

/* Check the trained model, if there is one, against the spec, and load what begins with it: all
 * units or none. */
static enum err_code load_model(struct session *s, struct err *err)
{
    struct job *job = s->job;
    struct spec *spec = &s->revision->plan.spec;
    bool begins = s->revision->resume.sources[0].kind == SOURCE_PRETRAINED;
    struct pretrained *model = NULL;
    struct layout layout;
    enum err_code rc;

    if (!job->params->model_dir && begins) {
        job->cause = PROGRESS_CAUSE_CONFIG;
        return err_set(err, ERR_INVALID, "--model: the units begin with a trained model");
    }
    if (!job->params->model_dir)
        return ERR_OK;
    layout_init(&layout, spec);
    rc = pretrained_open(job->params->model_dir, NULL, &model, err);
    if (rc == ERR_OK)
        rc = pretrained_check(model, &spec->model, err);
    if (rc == ERR_OK && begins)
        rc = pretrained_match_labels(model, layout.task, layout.labels, layout.n_labels, err);
    if (rc == ERR_OK)
        spec->model.norm_eps = pretrained_config(model)->model.norm_eps;
    if (rc == ERR_OK && begins) {
        rc = load_units(s, model, job->progress.randomly_initialized, err);
        if (rc == ERR_OK)
            LOG(LOG_INFO, "started from a trained model", LOG_S("folder", job->params->model_dir),
                LOG_S("initialised", job->progress.randomly_initialized[0]
                                         ? job->progress.randomly_initialized
                                         : "nothing"));
    }
    pretrained_close(model);
    if (rc != ERR_OK)
        job->cause = cause_of_reading(rc);
    return rc;
}

static enum err_code move_units(struct session *s, const struct link_params *link, struct err *err)
{
    struct job *job = s->job;
    const struct move_params params = {.revision = s->revision,
                                       .peers = s->peers,
                                       .self = s->number,
                                       .link = *link,
                                       .stops = &job->mailbox->stops,
                                       .connect_ms = s->connect_ms,
                                       .state = &job->state,
                                       .reader = s->reader,
                                       .progress = &job->progress,
                                       .history = &job->history};
    enum err_code rc = move_run(&params, err);

    return rc == ERR_INVALID ? refuse_checkpoint(s, err) : rc;
}

/* --- memory and files --- */

/* Check before the training that the output can be written. */
static enum err_code open_output(struct session *s, struct err *err)
{
    const struct plan *plan = &s->revision->plan;
    int64_t bytes = 0;
    enum err_code rc;

    if (plan->spec.training.keeps_best &&
        (!s->job->params->output_dir || !s->job->params->checkpoints_dir)) {
        s->job->cause = PROGRESS_CAUSE_CONFIG;
        return err_set(err, ERR_INVALID,
                       "spec.training.keepBest: needs --output and --checkpoints");
    }
    if (!s->job->params->output_dir)
        return ERR_OK;
    for (int unit = 0; unit < model_units(&plan->spec.model); unit++)
        bytes += (int64_t)(model_unit_params(&plan->spec.model, unit) * sizeof(float));
    s->output = (struct output){
        .folder = s->job->params->output_dir, .uid = plan->uid, .revision = plan->revision};
    rc = output_open(&s->output, s->number, bytes, err);
    if (rc == ERR_DENIED || rc == ERR_NOT_FOUND || rc == ERR_INVALID)
        s->job->cause = PROGRESS_CAUSE_CONFIG;
    return rc;
}

/* Checkpoints that would be lost together with their only worker are not worth writing. */
static bool writes_checkpoints(const struct session *s)
{
    return s->home.n_units > 0 && s->job->has_store &&
           (!s->job->store.is_own || plan_has_keepers(&s->revision->plan));
}

/* Take the memory for writing checkpoints. */
static enum err_code open_checkpoints(struct session *s, struct err *err)
{
    const struct checkpoint_params params = {.store = &s->job->store,
                                             .plan = &s->revision->plan,
                                             .worker = s->number,
                                             .state = &s->job->state,
                                             .loader = is_leader(s) ? &s->job->loader : NULL,
                                             .copies = s->job->store.is_own ? &s->copies : NULL};

    s->train.checkpoint = &s->checkpoint;
    return checkpoint_init(&s->checkpoint, &params, err);
}

/* Does it make micro-batches? */
static bool is_first_stage(const struct session *s)
{
    return is_member(s) && s->revision->plan.workers[s->number].first_unit == 0;
}

/* Open the data of a first stage, which later sessions reuse. */
static enum err_code open_loader(struct session *s, struct err *err)
{
    struct job *job = s->job;
    struct loader_params params = {.spec = &job->spec,
                                   .micro_batches = s->revision->plan.micro_batches,
                                   .folder = job->params->data_dir,
                                   .model_folder = job->params->model_dir,
                                   .wants_predictions = job->params->output_dir,
                                   .stops = s->train.exchange.stops};
    enum err_code rc;

    if (job->has_loader && job->loader.n_micro == params.micro_batches)
        return ERR_OK;
    if (!job->params->data_dir) {
        job->cause = PROGRESS_CAUSE_CONFIG;
        return err_set(err, ERR_INVALID, "--data: the first stage needs the folder with the data");
    }
    if (job->has_loader)
        loader_deinit(&job->loader);
    job->has_loader = false;
    rc = loader_init(&job->loader, &params, err);
    job->has_loader = rc == ERR_OK;
    if (rc != ERR_OK)
        job->cause = cause_of_reading(rc);
    return rc;
}

/* --- the pipeline --- */

/* From now on neighbours can connect, whatever this worker still has to do. */
static enum err_code open_link(struct session *s, struct link_params *link, struct err *err)
{
    const struct plan *plan = &s->revision->plan;
    struct exchange *x = &s->train.exchange;
    enum err_code rc;

    x->edges = edges_of(plan, s->number);
    if (s->job->has_store && s->job->store.is_own)
        edges_add_copies(&x->edges, plan, s->number);
    tally_connect(&s->job->mailbox->tally, &x->edges);
    if (plan->n_workers == 1)
        return ERR_OK;
    link->edges = x->edges.list;
    link->n_edges = x->edges.n;
    x->gradient_percent = plan->spec.sync.gradient_percent;
    rc = link_open(link, &x->link, err);
    if (rc != ERR_OK || plan->spec.wire != SPEC_WIRE_BF16)
        return rc;
    x->is_bf16 = true;
    x->packed = calloc(stage_edge_floats(plan), sizeof(uint16_t));
    return x->packed ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory for bfloat16 tensors");
}

/* Take all memory and read all files before others wait for this worker. */
static enum err_code prepare(struct session *s, struct link_params *link, bool opens_link,
                             struct err *err)
{
    enum err_code rc;

    post(s, PROGRESS_STARTING);
    rc = check_stop(s, err); /* the order to halt may come before the revision */
    if (rc == ERR_OK)
        rc = check_point(s, err);
    if (rc == ERR_OK)
        rc = come_to_the_step(s, err);
    if (rc == ERR_OK)
        rc = open_output(s, err);
    if (rc == ERR_OK)
        rc = take_units(s, err);
    if (rc == ERR_OK && is_member(s) && writes_checkpoints(s))
        rc = open_checkpoints(s, err);
    if (rc == ERR_OK && is_member(s))
        rc = stage_init(&s->stage, &s->job->state, &s->revision->plan, s->number, err);
    if (rc == ERR_OK && opens_link)
        rc = open_link(s, link, err);
    if (rc == ERR_OK)
        rc = load_model(s, err);
    if (rc == ERR_OK)
        rc = load_checkpoint(s, err);
    if (rc == ERR_OK && is_first_stage(s))
        rc = open_loader(s, err);
    return rc;
}

static bool has_edge_to(const struct edges *edges, int slot)
{
    int i = 0;

    while (i < edges->n && edges->list[i].peer != (uint32_t)slot)
        i++;
    return i < edges->n;
}

/* Connect the edges, most of them to neighbours. */
static enum err_code connect_edges(struct session *s, struct err *err)
{
    const struct plan *plan = &s->revision->plan;
    struct exchange *x = &s->train.exchange;
    enum err_code rc = ERR_OK;

    if (!x->link)
        return ERR_OK;
    s->job->cause = PROGRESS_CAUSE_PEER_LOST;
    for (int i = 0; rc == ERR_OK && i < plan->n_workers; i++)
        if (has_edge_to(&x->edges, plan->workers[i].slot))
            rc = link_set_peer(x->link, (uint32_t)plan->workers[i].slot, s->peers->list[i].host,
                               s->peers->list[i].port, err);
    if (rc == ERR_OK)
        rc = exchange_wait_ready(x, s->connect_ms, err);
    if (rc == ERR_OK && s->job->has_store && s->job->store.is_own)
        rc = copies_open(&s->copies, &s->job->store, x, err);
    return rc;
}

/* Let the last checkpoints be complete on both nodes. */
static enum err_code finish_copies(struct session *s, struct err *err)
{
    struct exchange *x = &s->train.exchange;
    enum err_code rc = ERR_OK;

    while (rc == ERR_OK && s->train.checkpoint && !checkpoint_wait(&s->checkpoint, COPY_WAIT_MS))
        rc = exchange_check(x, err);
    return rc == ERR_OK ? copies_finish(&s->copies, x, err) : rc;
}

/* How long a trainer that works may take between two beats of its pulse. */
static int64_t stall_ms(const struct session *s)
{
    double predicted_ms = s->revision->plan.workers[s->number].predicted_ms;

    return s->job->params->stall_ms > 0 ? s->job->params->stall_ms
                                        : STALL_MS + (int64_t)(STALL_TIMES * predicted_ms);
}

static enum err_code train(struct session *s, struct err *err)
{
    struct job *job = s->job;
    struct train *t = &s->train;
    struct pulse pulse = {.beats = 0};
    enum err_code rc;

    atomic_store(&job->mailbox->is_ready, true);
    LOG(LOG_INFO, "stage ready", LOG_I("stage", s->number),
        LOG_I("revision", s->revision->plan.revision), LOG_I("step", job->state.step),
        LOG_I("memoryMiB", (int64_t)(stage_bytes(&s->revision->plan, s->number) >> 20)),
        LOG_S("blas", job->progress.blas));
    job->cause = PROGRESS_CAUSE_OTHER;
    t->progress = job->progress;
    rc = pulse_start(&pulse, stall_ms(s), job->on_stall, job->stall_ctx, err);
    if (rc != ERR_OK)
        return rc;
    t->exchange.pulse = &pulse;
    rc = train_run(t, err);
    t->exchange.pulse = NULL;
    pulse_stop(&pulse);
    if (is_leader(s)) /* another stage may be ahead of the leader's record */
        job->evaluated = t->evaluated;
    job->saved_ms = t->saved_ms;
    if (rc == ERR_INVALID)
        job->cause = PROGRESS_CAUSE_CONFIG;
    if (t->has_lost_best)
        job->cause = PROGRESS_CAUSE_OUTPUT;
    if (rc == ERR_OK && t->output) {
        job->cause = PROGRESS_CAUSE_OUTPUT;
        rc = save_run(t, SAVE_PATIENCE_MS, err);
    }
    job->progress = t->progress;
    return rc;
}

/* Wait for the leader's RELEASE and pass it on: until then, what was sent back to the leader may be
 * lost. */
static enum err_code release(struct session *s, struct err *err)
{
    struct exchange *x = &s->train.exchange;
    const struct route route = exchange_route(x, ROUTE_FROM_LEADER);
    int64_t step = s->train.facts.total_steps;
    char nothing[1];
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK && i < route.n_in; i++)
        rc = exchange_recv_meta(x, exchange_key(route.in[i], MESSAGE_RELEASE, step, 0), nothing, 0,
                                err);
    if (rc != ERR_OK)
        return rc;
    copies_stop(&s->copies);
    /* The run is complete: a link that is lost now costs nothing here. */
    for (int i = 0; i < route.n_out; i++)
        (void)!exchange_send(x, exchange_key(route.out[i], MESSAGE_RELEASE, step, 0), NULL, 0, NULL,
                             0, NULL);
    (void)!exchange_close(x, CLOSE_WAIT_MS, NULL);
    return ERR_OK;
}

/* --- all of it --- */

/* Units that are held are trained here from now on. */
static void own_units(struct session *s)
{
    struct job *job = s->job;

    for (int u = s->home.first_unit; is_own(s, u); u++)
        job->state.hold[u] = STATE_OWN;
    if (job->params->signals)
        job->params->signals->has_state = true;
}

/* Is this worker not at fault? Then the cause is set. */
static bool is_foreign(struct session *s, enum err_code rc)
{
    bool is_lost = s->train.exchange.is_lost;

    if (rc == ERR_GONE || rc == ERR_AGAIN)
        s->job->cause = PROGRESS_CAUSE_NONE;
    else if (is_lost)
        s->job->cause = PROGRESS_CAUSE_PEER_LOST;
    else if (rc == ERR_PROTOCOL)
        s->job->cause = PROGRESS_CAUSE_OTHER;
    return rc == ERR_GONE || rc == ERR_AGAIN || rc == ERR_PROTOCOL || (rc != ERR_OK && is_lost);
}

static enum err_code run(struct session *s, bool *is_broken, struct err *err)
{
    struct job *job = s->job;
    struct move moves[MODEL_UNITS_MAX];
    bool has_moves = move_list(s->revision, s->number, moves) > 0;
    struct link_params link = {
        .listen_address = job->params->tensor_host,
        .listen_port = job->params->tensor_port,
        .worker = (uint32_t)job->self.slot,
        .incarnation = (uint32_t)job->self.incarnation,
        .plan_hash = s->revision->hash,
        .revision = (uint32_t)s->revision->plan.revision,
        .key = job->key,
        .tls = s->identity,
        .dial_timeout_ms = s->connect_ms,
        .silence_s = job->params->silence_s,
    };
    /* There is only one port, so units move first. */
    enum err_code rc = prepare(s, &link, is_member(s) && !has_moves, err);

    *is_broken = is_foreign(s, rc) || (rc == ERR_CONFLICT && job->cause == PROGRESS_CAUSE_OTHER);
    if (rc != ERR_OK)
        return rc;
    post(s, PROGRESS_WAITING);
    if (has_moves) {
        job->cause = PROGRESS_CAUSE_PEER_LOST;
        rc = move_units(s, &link, err);
        *is_broken = rc != ERR_OK && rc != ERR_NO_MEMORY && rc != ERR_LIMIT;
        if (rc == ERR_GONE)
            job->cause = PROGRESS_CAUSE_NONE;
    }
    if (rc != ERR_OK || !is_member(s))
        return rc;
    own_units(s);
    job->cause = PROGRESS_CAUSE_OTHER;
    if (has_moves)
        rc = open_link(s, &link, err);
    if (rc == ERR_OK)
        rc = connect_edges(s, err);
    if (rc == ERR_OK)
        rc = train(s, err);
    if (rc == ERR_OK)
        rc = finish_copies(s, err);
    if (rc == ERR_OK)
        rc = release(s, err);
    if (rc == ERR_AGAIN) { /* the others come to that step too, and need all messages */
        (void)!finish_copies(s, NULL);
        copies_stop(&s->copies);
        (void)!exchange_close(&s->train.exchange, CLOSE_WAIT_MS, NULL);
    }
    *is_broken = is_foreign(s, rc);
    return rc;
}

enum err_code session_run(struct job *job, struct revision *r, const struct peers *peers,
                          bool *out_is_broken, struct err *err)
{
    struct session *s = calloc(1, sizeof *s);
    char cause[ERR_TEXT_BYTES + 32];
    bool is_broken = false;
    enum err_code rc;

    if (!s)
        return err_set(err, ERR_NO_MEMORY, "no memory for a session");
    *s = (struct session){.job = job,
                          .revision = r,
                          .peers = peers,
                          .identity = credentials_identity(job->credentials),
                          .connect_ms = move_any(r) ? MOVES_WAIT_MS : CONNECT_WAIT_MS,
                          .number = revision_find(r, job->self.slot)};
    if (is_member(s))
        (void)plan_home(&r->plan, s->number, &s->home);
    s->train = (struct train){.plan = &r->plan,
                              .state = &job->state,
                              .stage = &s->stage,
                              .loader = is_first_stage(s) ? &job->loader : NULL,
                              .history = is_leader(s) ? &job->history : NULL,
                              .evaluated = r->resume.evaluated,
                              .until = r->until,
                              .saved_ms = job->saved_ms,
                              .mailbox = job->mailbox,
                              .exchange = {.stops = &job->mailbox->stops},
                              .output = job->params->output_dir ? &s->output : NULL};
    s->is_first = !job->has_spec;
    if (!job->has_spec)
        job->spec = r->plan.spec;
    job->has_spec = true;
    job->cause = PROGRESS_CAUSE_OTHER;
    rc = run(s, &is_broken, err);
    atomic_store(&job->mailbox->is_ready, false);
    (void)snprintf(cause, sizeof cause, "stage %d %s: %s", s->number,
                   is_broken ? "was halted" : "failed", rc == ERR_OK ? "" : err->text);
    copies_stop(&s->copies);
    link_abort(s->train.exchange.link, cause); /* NULL after a success */
    free(s->train.exchange.packed);
    score_deinit(&s->train.score);
    checkpoint_deinit(&s->checkpoint);
    store_close(s->reader);
    stage_deinit(&s->stage);
    tls_identity_free(s->identity);
    free(s);
    *out_is_broken = is_broken;
    return rc;
}
