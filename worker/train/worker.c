#include "train/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "data/layout.h"
#include "files/pretrained.h"
#include "nn/gemm.h"
#include "nn/threads.h"
#include "train/control.h"
#include "train/cpu.h"
#include "train/save.h"
#include "train/train.h"

#define PEERS_WAIT_MS    600000 /* pulling an image may take minutes */
#define CONNECT_WAIT_MS  120000
#define CLOSE_WAIT_MS    10000
#define SAVE_PATIENCE_MS 300000
#define EDGE_SLOTS       2 /* one is computed on while the other is filled */

struct worker {
    const struct worker_params *params;
    struct plan plan;
    struct mailbox mailbox;
    struct hmac_key key;
    struct control *control;
    struct stage stage;
    struct loader loader;
    struct train train;
    struct output output;
    enum progress_cause cause; /* of a failure in what runs now */
};

static enum err_code load_plan(struct worker *w, struct err *err)
{
    struct buf text = {.max = PLAN_TEXT_MAX_BYTES};
    enum err_code rc = file_read(w->params->plan_path, &text, err);

    if (rc == ERR_OK)
        rc = plan_parse(text.data, text.len, &w->plan, err);
    buf_deinit(&text);
    if (rc == ERR_OK && (w->params->stage < 0 || w->params->stage >= w->plan.n_stages))
        rc = err_set(err, ERR_INVALID, "--stage %d: the plan has stages 0..%d", w->params->stage,
                     w->plan.n_stages - 1);
    if (rc == ERR_OK && w->params->stage == 0 && !w->params->data_dir)
        rc = err_set(err, ERR_INVALID, "--data: stage 0 needs the folder with the data");
    if (rc == ERR_OK && w->plan.spec.from.claim[0] && !w->params->model_dir)
        rc = err_set(err, ERR_INVALID, "--model: spec.model.from needs the folder with the model");
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "plan file %s", w->params->plan_path);
}

/* Of matrix products, as the job asks for it, if this processor has it. */
static enum err_code choose_precision(const struct spec *spec, struct err *err)
{
    enum spec_precision asked = spec->training.precision;
    bool is_bf16 =
        asked == SPEC_PRECISION_BF16 || (asked == SPEC_PRECISION_AUTO && gemm_has_bf16());
    enum err_code rc = gemm_use(is_bf16 ? GEMM_BF16 : GEMM_FP32, err);

    if (rc != ERR_INVALID)
        return rc;
    return err_set(err, rc,
                   "spec.training.precision: BF16 needs AVX512_BF16, which this node's processor "
                   "lacks; set FP32 or Auto, or place the stage elsewhere");
}

/* Set what is the same in every progress document of this process. */
static void introduce(struct worker *w)
{
    struct progress *p = &w->train.progress;

    *p = (struct progress){
        .stage = w->params->stage, .attempt = w->plan.attempt, .loss = NAN, .eta_seconds = -1};
    (void)snprintf(p->blas, sizeof p->blas, "%s, %d threads%s", gemm_core_name(), threads_count(),
                   gemm_precision() == GEMM_BF16 ? ", bf16" : "");
    mailbox_set_progress(&w->mailbox, p);
}

static enum err_code open_link(struct worker *w, struct err *err)
{
    struct link_params p = {
        .listen_address = w->params->tensor_host,
        .listen_port = w->params->tensor_port,
        .stage = w->params->stage,
        .n_stages = w->plan.n_stages,
        .plan_hash = plan_hash(&w->plan),
        .attempt = (uint32_t)w->plan.attempt,
        .key = w->key,
        .limits = {.meta_max_bytes = (uint32_t)message_max_bytes(&w->stage.limits),
                   .tensor_max_bytes = stage_edge_floats(&w->plan) * sizeof(float),
                   .n_receive_slots = EDGE_SLOTS,
                   .n_send_slots = EDGE_SLOTS},
        .dial_timeout_ms = CONNECT_WAIT_MS,
    };
    enum err_code rc;

    if (w->plan.n_stages == 1)
        return ERR_OK;
    rc = link_open(&p, &w->train.exchange.link, err);
    if (rc != ERR_OK || w->plan.spec.wire != SPEC_WIRE_BF16)
        return rc;
    w->train.exchange.packed = calloc(stage_edge_floats(&w->plan), sizeof(uint16_t));
    return w->train.exchange.packed ? ERR_OK
                                    : err_set(err, ERR_NO_MEMORY, "no memory for bfloat16 tensors");
}

/* Find out before the training whether the output can be written. */
static enum err_code open_output(struct worker *w, struct err *err)
{
    const struct model *model = &w->plan.spec.model;
    struct output_params p = {.folder = w->params->output_dir,
                              .uid = w->plan.uid,
                              .attempt = w->plan.attempt,
                              .stage = w->params->stage};
    enum err_code rc;

    if (!w->params->output_dir)
        return ERR_OK;
    for (int unit = 0; unit < model_units(model); unit++)
        p.bytes += (int64_t)(model_unit_params(model, unit) * sizeof(float));
    rc = output_open(&w->output, &p, err);
    if (rc == ERR_DENIED || rc == ERR_NOT_FOUND || rc == ERR_INVALID)
        w->cause = PROGRESS_CAUSE_CONFIG;
    return rc;
}

/* A missing file may still appear; a wrong one stays wrong. */
static enum progress_cause cause_of_reading(enum err_code rc)
{
    if (rc == ERR_NOT_FOUND)
        return PROGRESS_CAUSE_DATA_MISSING;
    return err_is_transient(rc) ? PROGRESS_CAUSE_OTHER : PROGRESS_CAUSE_CONFIG;
}

/* The units that a trained model lacks start at random; only those behind the last layer may.
 *
 * Every stage looks for those of the whole model, also on other stages, so that the leader can
 * report them all. */
static enum err_code load_unit(struct stage *s, const struct pretrained *p, int unit,
                               struct pretrained_missing *missing, struct err *err)
{
    const struct model *m = &s->plan->spec.model;
    int own = unit - s->weights.first_unit;
    float *scratch;
    enum err_code rc;

    if (own >= 0 && own < s->weights.n_units)
        return pretrained_load_unit(p, m, unit, s->weights.units[own].params, missing, err);
    if (model_unit_layer(m, unit) >= 0 || unit == 0)
        return ERR_OK;
    scratch = malloc(model_unit_params(m, unit) * sizeof *scratch);
    if (!scratch)
        return err_set(err, ERR_NO_MEMORY, "no memory to check unit %d of a model", unit);
    rc = pretrained_load_unit(p, m, unit, scratch, missing, err);
    free(scratch);
    return rc;
}

/* The tensors of this stage; on the last one of a language model also the word embeddings that its
 * decoder is tied to. Lists in `initialised` what starts at random. */
static enum err_code load_weights(struct stage *s, const struct pretrained *p,
                                  char initialised[static PROGRESS_INITIALISED_BYTES],
                                  struct err *err)
{
    const struct model *m = &s->plan->spec.model;
    enum err_code rc = ERR_OK;

    for (int u = 0; rc == ERR_OK && u < model_units(m); u++) {
        struct pretrained_missing missing = {0};
        char name[MODEL_NAME_BYTES];

        rc = load_unit(s, p, u, &missing, err);
        if (rc != ERR_OK || missing.n_tensors == 0)
            continue;
        model_unit_name(m, u, name);
        text_add(initialised, PROGRESS_INITIALISED_BYTES, "%s%s (%.60s)", *initialised ? ", " : "",
                 name, missing.why);
    }
    if (rc == ERR_OK && s->tie.words && s->tie.words != s->tie.owned)
        rc = pretrained_load_words(p, m, s->tie.words, err);
    return rc;
}

/* Start from the trained model, if one is given and is the one that the spec describes. */
static enum err_code load_model(struct worker *w, struct err *err)
{
    struct progress *progress = &w->train.progress;
    struct spec *spec = &w->plan.spec;
    struct pretrained *model = NULL;
    struct layout layout;
    enum err_code rc;

    if (!w->params->model_dir)
        return ERR_OK;
    layout_init(&layout, spec);
    rc = pretrained_open(w->params->model_dir, NULL, &model, err);
    if (rc == ERR_OK)
        rc = pretrained_check(model, &spec->model, err);
    if (rc == ERR_OK)
        rc = pretrained_match_labels(model, layout.task, layout.labels, layout.n_labels, err);
    if (rc == ERR_OK) {
        spec->model.norm_eps = pretrained_config(model)->model.norm_eps;
        rc = load_weights(&w->stage, model, progress->initialised, err);
    }
    if (rc == ERR_OK) {
        mailbox_set_progress(&w->mailbox, progress);
        LOG(LOG_INFO, "started from a trained model", LOG_S("folder", w->params->model_dir),
            LOG_S("initialised", progress->initialised[0] ? progress->initialised : "nothing"));
    }
    pretrained_close(model);
    w->cause = cause_of_reading(rc);
    return rc;
}

/* Take all memory and read all files before the neighbours wait for this stage. */
static enum err_code prepare(struct worker *w, struct err *err)
{
    const struct worker_params *p = w->params;
    struct control_params control = {.host = p->control_host,
                                     .port = p->control_port,
                                     .health_host = p->health_host,
                                     .health_port = p->health_port,
                                     .n_stages = w->plan.n_stages,
                                     .mailbox = &w->mailbox};
    struct loader_params loader = {.spec = &w->plan.spec,
                                   .micro_batches = w->plan.micro_batches,
                                   .folder = p->data_dir,
                                   .model_folder = p->model_dir,
                                   .wants_predictions = p->output_dir};
    enum err_code rc = hmac_key_load(p->key_path, &w->key, err);

    w->cause = PROGRESS_CAUSE_OTHER;
    control.key = w->key;
    if (rc == ERR_OK)
        rc = control_open(&control, &w->control, err);
    if (rc == ERR_OK)
        rc = open_output(w, err);
    if (rc == ERR_OK)
        rc = stage_init(&w->stage, &w->plan, w->params->stage, err);
    if (rc == ERR_OK)
        rc = open_link(w, err);
    if (rc == ERR_OK)
        rc = load_model(w, err);
    if (rc != ERR_OK || p->stage > 0)
        return rc;
    rc = loader_init(&w->loader, &loader, err);
    w->cause = cause_of_reading(rc);
    return rc;
}

static enum err_code connect_neighbours(struct worker *w, struct err *err)
{
    struct link *link = w->train.exchange.link;
    int s = w->params->stage;
    bool is_last = s == w->plan.n_stages - 1;
    struct link_peer next = {0}, prev = {0};
    struct peers peers;
    enum err_code rc;

    if (!link)
        return ERR_OK;
    w->cause = PROGRESS_CAUSE_PEER_LOST;
    w->train.progress.state = PROGRESS_WAITING;
    mailbox_set_progress(&w->mailbox, &w->train.progress);
    rc = mailbox_wait_peers(&w->mailbox, PEERS_WAIT_MS, &peers, err);
    if (rc != ERR_OK)
        return rc;
    if (!is_last)
        next = (struct link_peer){peers.stages[s + 1].host, peers.stages[s + 1].port};
    if (s > 0)
        prev = (struct link_peer){peers.stages[s - 1].host, peers.stages[s - 1].port};
    rc = link_set_peers(link, is_last ? NULL : &next, s > 0 ? &prev : NULL, err);
    if (rc == ERR_OK)
        rc = link_wait_ready(link, CONNECT_WAIT_MS, err);
    return rc;
}

static enum err_code train(struct worker *w, struct err *err)
{
    enum err_code rc = ERR_OK;

    atomic_store(&w->mailbox.is_ready, true);
    LOG(LOG_INFO, "stage ready", LOG_I("stage", w->params->stage),
        LOG_I("memoryMiB", w->stage.arena.size >> 20), LOG_S("blas", w->train.progress.blas));
    w->cause = PROGRESS_CAUSE_OTHER;
    if (w->params->stage == 0)
        rc = history_open(&w->train.history, w->params->output_dir, w->params->history_path, err);
    if (rc != ERR_OK)
        return rc;
    rc = train_run(&w->train, err);
    if (rc == ERR_INVALID)
        w->cause = PROGRESS_CAUSE_CONFIG;
    else if (w->train.exchange.is_lost)
        w->cause = PROGRESS_CAUSE_PEER_LOST;
    return rc;
}

static enum err_code finish(struct worker *w, struct err *err)
{
    struct link *link = w->train.exchange.link;
    enum err_code rc = ERR_OK;
    enum err_code rc_close;

    if (w->train.output)
        rc = save_run(&w->train, SAVE_PATIENCE_MS, err);
    w->cause = w->train.exchange.is_lost ? PROGRESS_CAUSE_PEER_LOST : PROGRESS_CAUSE_OUTPUT;
    w->train.exchange.link = NULL;
    rc_close = link_close(link, CLOSE_WAIT_MS, rc == ERR_OK ? err : NULL);
    if (rc == ERR_OK && rc_close != ERR_OK) {
        w->cause = PROGRESS_CAUSE_PEER_LOST;
        rc = rc_close;
    }
    return rc;
}

static enum err_code live(struct worker *w, struct err *err)
{
    enum err_code rc = gemm_setup(cpu_threads(), err);

    if (cpu_allowed_milli() / 1000 > THREADS_MAX)
        LOG(LOG_INFO, "more cores than threads", LOG_I("cores", cpu_allowed_milli() / 1000),
            LOG_I("threads", THREADS_MAX));
    w->cause = PROGRESS_CAUSE_CONFIG;
    if (rc == ERR_OK)
        rc = load_plan(w, err);
    if (rc == ERR_OK)
        rc = choose_precision(&w->plan.spec, err);
    if (rc != ERR_OK)
        return rc;
    introduce(w);
    rc = prepare(w, err);
    if (rc == ERR_OK)
        rc = connect_neighbours(w, err);
    if (rc == ERR_OK)
        rc = train(w, err);
    if (rc == ERR_OK)
        rc = finish(w, err);
    return rc;
}

/* The kubelet mounts this file alone, so it is written in place and not renamed. */
static void write_termination(const struct worker *w)
{
    struct buf text = {.max = PROGRESS_TEXT_MAX_BYTES};
    int fd;

    if (!w->params->termination_path || progress_write(&w->train.progress, &text, NULL) != ERR_OK) {
        buf_deinit(&text);
        return;
    }
    fd = open(w->params->termination_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text.data, text.len) != (ssize_t)text.len)
        LOG(LOG_WARN, "cannot write the termination message",
            LOG_S("path", w->params->termination_path), LOG_S("error", strerror(errno)));
    if (fd >= 0)
        (void)close(fd);
    buf_deinit(&text);
}

static void report(struct worker *w, enum err_code rc, const struct err *err)
{
    struct progress *p = &w->train.progress;

    p->state = rc == ERR_OK ? PROGRESS_DONE : PROGRESS_FAILED;
    if (rc == ERR_OK) {
        LOG(LOG_INFO, "done", LOG_I("stage", w->params->stage), LOG_I("step", p->step));
    } else {
        p->cause = w->cause;
        (void)snprintf(p->error, sizeof p->error, "%s", err->text);
        LOG(LOG_ERROR, "failed", LOG_I("stage", w->params->stage),
            LOG_S("cause", progress_cause_name(w->cause)), LOG_S("error", err->text));
    }
    mailbox_set_progress(&w->mailbox, p);
    write_termination(w);
}

int worker_run(const struct worker_params *params)
{
    struct worker *w = calloc(1, sizeof *w); /* holds the plan: too large for a stack */
    struct err err = {0};
    enum err_code rc;
    int code;

    if (!w)
        return EXIT_FAILED;
    w->params = params;
    w->train = (struct train){.plan = &w->plan,
                              .stage = &w->stage,
                              .loader = params->stage == 0 ? &w->loader : NULL,
                              .mailbox = &w->mailbox,
                              .output = params->output_dir ? &w->output : NULL};
    mailbox_init(&w->mailbox);
    rc = live(w, &err);
    report(w, rc, &err);
    code = rc == ERR_OK ? EXIT_DONE : w->cause == PROGRESS_CAUSE_CONFIG ? EXIT_CONFIG : EXIT_FAILED;
    link_abort(w->train.exchange.link, err.text); /* NULL after a success */
    control_close(w->control);
    score_deinit(&w->train.score);
    history_close(&w->train.history);
    loader_deinit(&w->loader);
    stage_deinit(&w->stage);
    mailbox_deinit(&w->mailbox);
    free(w->train.exchange.packed);
    free(w);
    return code;
}
