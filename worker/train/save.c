#include "train/save.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define PAUSE_MIN_MS 1000 /* between two tries, doubling ... */
#define PAUSE_MAX_MS 30000
#define STOP_MS      100 /* until the end of the session is noticed */

struct export_params save_model(const struct plan *plan, const struct loader *loader)
{
    struct export_params p = {.model = &plan->spec.model, .dropout = plan->spec.training.dropout};

    p.n_shards = plan_homes(plan, p.shards);
    if (!loader)
        return p;
    p.pad_id = loader->tokenizer.vocab.pad;
    p.is_cased = loader->tokenizer.is_cased;
    p.n_labels = loader->layout.n_labels;
    p.labels = loader->layout.labels;
    return p;
}

/* --- one try --- */

/* The units that are at home here. */
static enum err_code export_weights(const struct train *t, const char *folder, struct err *err)
{
    const struct weights *weights = &t->stage->weights;
    const float *params[MODEL_UNITS_MAX];
    struct export_params p = save_model(t->plan, t->loader);
    const struct plan_home *home = &t->stage->home;
    enum err_code rc = ERR_OK;

    p.folder = folder;
    for (int i = 0; i < home->n_units; i++)
        params[i] = weights->units[home->first_unit - weights->first_unit + i].params;
    for (int i = 0; i < p.n_shards; i++)
        if (p.shards[i].worker == t->stage->worker)
            rc = export_shard(&p, i, params, err);
    if (rc == ERR_OK && train_is_leader(t)) {
        rc = vocab_save(&t->loader->tokenizer.vocab, folder, err);
        if (rc == ERR_OK)
            rc = export_rest(&p, err);
        if (rc == ERR_OK)
            rc = history_save(t->history, folder, err);
    }
    return rc;
}

static enum err_code write_files(const struct train *t, struct err *err)
{
    enum err_code rc = ERR_OK;

    if (train_is_decider(t))
        rc = score_write(&t->score, t->output->aside, err);
    return rc == ERR_OK ? export_weights(t, t->output->aside, err) : rc;
}

static enum err_code publish(const struct train *t, struct err *err)
{
    struct plan_home homes[SPEC_STAGES_MAX];

    return output_publish(t->output, plan_homes(t->plan, homes), err);
}

/* --- until it works --- */

static void show(struct train *t, const char *why)
{
    t->progress.state = PROGRESS_SAVING;
    t->progress.error[0] = '\0';
    if (why) {
        (void)snprintf(t->progress.error, sizeof t->progress.error,
                       "writing the output failed: %.380s; retrying", why);
        LOG(LOG_WARN, "writing the output failed, retrying", LOG_S("error", why));
    }
    mailbox_set_progress(t->mailbox, &t->progress);
}

/* ERR_GONE when the session was stopped meanwhile. */
static enum err_code wait_ms(const struct train *t, int64_t ms, struct err *err)
{
    enum err_code rc = exchange_check(&t->exchange, err);

    for (; rc == ERR_OK && ms > 0; ms -= STOP_MS) {
        (void)usleep(STOP_MS * 1000);
        rc = exchange_check(&t->exchange, err);
    }
    return rc;
}

static enum err_code keep_trying(struct train *t, int patience_ms,
                                 enum err_code (*try_once)(const struct train *t, struct err *err),
                                 struct err *err)
{
    int64_t end_ms = clock_now_ms() + patience_ms;
    int n_failures = 0;
    struct err why = {.text = ""};
    enum err_code rc;

    while ((rc = try_once(t, &why)) != ERR_OK) {
        int64_t pause_ms = backoff_ms(++n_failures, PAUSE_MIN_MS, PAUSE_MAX_MS);

        if (rc == ERR_CONFLICT || rc == ERR_INVALID || clock_now_ms() + pause_ms > end_ms)
            return err_set(err, rc, "%s", why.text);
        show(t, why.text);
        rc = wait_ms(t, pause_ms, err);
        if (rc != ERR_OK)
            return rc;
    }
    show(t, NULL);
    return ERR_OK;
}

/* What the workers before this one on the way to the leader report: the first failure. */
static enum err_code receive_stop(struct train *t, const struct route *route,
                                  struct message_stop *out, struct err *err)
{
    enum err_code rc = ERR_OK;

    *out = (struct message_stop){.failed_stage = -1};
    for (int i = 0; rc == ERR_OK && i < route->n_in; i++) {
        struct message_stop stop;

        rc = exchange_recv_meta(&t->exchange,
                                exchange_key(route->in[i], MESSAGE_STOP, t->facts.total_steps, 0),
                                &stop, sizeof stop, err);
        if (rc == ERR_OK)
            rc = message_stop_check(&stop, err);
        if (rc == ERR_OK && out->failed_stage < 0)
            *out = stop;
    }
    return rc;
}

enum err_code save_run(struct train *t, int patience_ms, struct err *err)
{
    const struct route route = exchange_route(&t->exchange, ROUTE_TO_LEADER);
    struct message_stop stop;
    struct err why = {.text = ""};
    enum err_code rc_own;
    enum err_code rc;

    show(t, NULL);
    rc_own = keep_trying(t, patience_ms, write_files, &why);
    if (rc_own == ERR_GONE)
        return err_set(err, rc_own, "%s", why.text);
    rc = receive_stop(t, &route, &stop, err);
    if (rc != ERR_OK)
        return rc;
    if (rc_own == ERR_OK && stop.failed_stage < 0 && train_is_leader(t))
        rc_own = keep_trying(t, patience_ms, publish, &why);
    if (rc_own == ERR_GONE)
        return err_set(err, rc_own, "%s", why.text);
    if (rc_own != ERR_OK) {
        stop.failed_stage = t->stage->worker;
        (void)snprintf(stop.why, sizeof stop.why, "%s", why.text);
    }
    for (int i = 0; rc == ERR_OK && i < route.n_out; i++) /* to one at the most */
        rc = exchange_send(&t->exchange,
                           exchange_key(route.out[i], MESSAGE_STOP, t->facts.total_steps, 0), &stop,
                           sizeof stop, NULL, 0, err);
    if (rc != ERR_OK || stop.failed_stage < 0)
        return rc;
    return err_set(err, rc_own != ERR_OK ? rc_own : ERR_IO,
                   "the training is complete, but stage %d could not save its output: %.180s; what "
                   "was written is in %.120s",
                   stop.failed_stage, stop.why, t->output->aside);
}
