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
    struct export_params p = {.model = &plan->spec.model,
                              .n_stages = plan->n_workers,
                              .stages = plan->workers,
                              .dropout = plan->spec.training.dropout};

    if (!loader)
        return p;
    p.pad_id = loader->tokenizer.vocab.pad;
    p.is_cased = loader->tokenizer.is_cased;
    p.n_labels = loader->layout.n_labels;
    p.labels = loader->layout.labels;
    return p;
}

/* --- one try --- */

static enum err_code export_weights(const struct train *t, const char *folder, struct err *err)
{
    const struct weights *weights = &t->stage->weights;
    const float *params[MODEL_UNITS_MAX];
    struct export_params p = save_model(t->plan, t->loader);
    enum err_code rc;

    p.folder = folder;
    for (int i = 0; i < weights->n_units; i++)
        params[i] = weights->units[i].params;
    rc = export_shard(&p, t->stage->index, params, err);
    if (rc == ERR_OK && t->stage->is_first) {
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

    if (t->stage->is_last)
        rc = score_write(&t->score, t->output->aside, err);
    return rc == ERR_OK ? export_weights(t, t->output->aside, err) : rc;
}

static enum err_code publish(const struct train *t, struct err *err)
{
    return output_publish(t->output, t->plan->n_workers, err);
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

enum err_code save_run(struct train *t, int patience_ms, struct err *err)
{
    struct exchange_key in = exchange_key(EDGE_BACKWARD_IN, MESSAGE_STOP, t->facts.total_steps, 0);
    struct exchange_key out =
        exchange_key(EDGE_BACKWARD_OUT, MESSAGE_STOP, t->facts.total_steps, 0);
    struct message_stop stop = {.failed_stage = -1}; /* of the stages behind this one */
    struct err why = {.text = ""};
    enum err_code rc_own;
    enum err_code rc = ERR_OK;

    show(t, NULL);
    rc_own = keep_trying(t, patience_ms, write_files, &why);
    if (rc_own == ERR_GONE)
        return err_set(err, rc_own, "%s", why.text);
    if (!t->stage->is_last)
        rc = exchange_recv_meta(&t->exchange, in, &stop, sizeof stop, err);
    if (rc == ERR_OK)
        rc = message_stop_check(&stop, err);
    if (rc != ERR_OK)
        return rc;
    if (rc_own == ERR_OK && stop.failed_stage < 0 && t->stage->is_first)
        rc_own = keep_trying(t, patience_ms, publish, &why);
    if (rc_own == ERR_GONE)
        return err_set(err, rc_own, "%s", why.text);
    if (rc_own != ERR_OK) {
        stop.failed_stage = t->stage->index;
        (void)snprintf(stop.why, sizeof stop.why, "%s", why.text);
    }
    if (!t->stage->is_first)
        rc = exchange_send(&t->exchange, out, &stop, sizeof stop, NULL, 0, err);
    if (rc != ERR_OK || stop.failed_stage < 0)
        return rc;
    return err_set(err, rc_own != ERR_OK ? rc_own : ERR_IO,
                   "the training is complete, but stage %d could not save its output: %.180s; what "
                   "was written is in %.120s",
                   stop.failed_stage, stop.why, t->output->aside);
}
