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
#include "files/adopt.h"
#include "files/remote.h"
#include "nn/gemm.h"
#include "nn/threads.h"
#include "train/control.h"
#include "train/cpu.h"
#include "train/session.h"

struct worker {
    const struct worker_params *params;
    struct job job;
    struct remote *remote; /* of the job's store; NULL: it is not in a bucket */
    struct mailbox mailbox;
    struct control *control;
    struct credentials *metrics_credentials;
    struct revision revision; /* the one that runs */
    struct peers addresses;
};

/* Set the precision of matrix products that the job asks for, if this processor supports it. */
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

static int list_checkpoints(const struct store *store, struct resume_checkpoint *out)
{
    struct store_point points[RESUME_POINTS_MAX];
    int n = store_list(store, points, RESUME_POINTS_MAX);

    for (int i = 0; i < n; i++)
        out[i] = points[i].at;
    return n;
}

/* A server that does not answer may do so later; what it refuses, it refuses. */
static enum err_code open_bucket(struct worker *w, struct err *err)
{
    struct s3_access access;
    enum err_code rc = s3_access_load(w->params->checkpoints_dir, &access, err);

    if (rc == ERR_OK)
        rc = remote_open(&access, &w->remote, err);
    if (rc == ERR_OK)
        rc = store_open_remote(&w->job.store, w->params->own_checkpoints_dir, w->remote, err);
    if (err_is_transient(rc))
        w->job.cause = PROGRESS_CAUSE_OTHER;
    return rc;
}

/* A process without a state knows no lineage but that of the job's newest checkpoint. */
static void take_lineage(struct worker *w)
{
    struct state *s = &w->job.state;
    struct store_point newest;

    if (store_list(&w->job.store, &newest, 1) > 0) {
        s->lineage = newest.at.lineage;
        s->origins = newest.origins;
    }
}

static enum err_code open_store(struct worker *w, struct err *err)
{
    enum err_code rc;

    if (s3_is_url(w->params->checkpoints_dir))
        rc = open_bucket(w, err);
    else if (w->params->own_checkpoints_dir)
        rc = store_open_own(&w->job.store, w->params->own_checkpoints_dir, err);
    else if (w->params->checkpoints_dir)
        rc = store_open(&w->job.store, w->params->checkpoints_dir, err);
    else
        return ERR_OK;
    if (rc != ERR_OK)
        return err_wrap(err, rc, "--checkpoints");
    w->job.store.spare_percent = w->params->spare_disk_percent;
    w->job.has_store = true;
    take_lineage(w);
    return ERR_OK;
}

/* A job that has not begun goes on from the checkpoints of another one. They make the session
 * refuse the revision, and the next one goes on from them. */
static enum err_code adopt(struct worker *w, struct err *err)
{
    struct adopt_source from = {.remote = NULL};
    enum err_code rc;

    if (!w->params->resume_from || w->revision.resume.step > 0 || w->job.state.lineage > 0)
        return ERR_OK; /* or it has checkpoints of its own */
    if (!w->job.has_store || w->job.store.is_own)
        return err_set(err, ERR_INVALID, "--resume-from: needs --checkpoints");
    rc = adopt_find(w->params->resume_from, w->params->checkpoints_dir, &from, err);
    if (rc == ERR_OK)
        rc = adopt_checkpoints(&w->job.store, &from, &w->revision.plan.spec, w->job.self.slot, err);
    adopt_close(&from);
    if (rc == ERR_IO || rc == ERR_TIMEOUT || rc == ERR_NO_MEMORY)
        w->job.cause = PROGRESS_CAUSE_OTHER;
    if (rc != ERR_OK)
        return err_wrap(err, rc, "spec.resumeFrom");
    take_lineage(w);
    return ERR_OK;
}

/* Post what the worker holds, and what its session is doing or how it ended. */
static void report(struct worker *w, enum report_session session, const struct err *err)
{
    struct report r = {.slot = w->job.self.slot,
                       .incarnation = w->job.self.incarnation,
                       .session = session,
                       .evaluated = w->job.evaluated};

    state_report(&w->job.state, &r);
    if (w->job.has_store)
        r.n_checkpoints = list_checkpoints(&w->job.store, r.checkpoints);
    if (err) {
        r.cause = w->job.cause;
        (void)snprintf(r.error, sizeof r.error, "%s", err->text);
    }
    mailbox_set_report(&w->mailbox, &r);
}

/* Set what is the same in every progress document of this process. */
static void introduce(struct worker *w)
{
    struct progress *p = &w->job.progress;

    *p = (struct progress){.slot = w->job.self.slot,
                           .revision = w->revision.plan.revision,
                           .loss = NAN,
                           .eta_seconds = -1};
    mailbox_set_progress(&w->mailbox, p);
    report(w, REPORT_NONE, NULL);
}

/* Called by the control port's thread: what the trainer has is left alone. */
static void end_unneeded(void *ctx, const char *reason)
{
    const struct worker *w = ctx;

    LOG(LOG_INFO, "ended", LOG_I("worker", w->job.self.slot), LOG_S("reason", reason));
    if (w->params->on_end)
        w->params->on_end();
}

static enum err_code open_control(struct worker *w, struct err *err)
{
    const struct worker_params *p = w->params;
    struct control_params control = {.host = p->control_host,
                                     .port = p->control_port,
                                     .health_host = p->health_host,
                                     .health_port = p->health_port,
                                     .metrics_host = p->metrics_host,
                                     .metrics_port = p->metrics_port,
                                     .takes_revisions = true,
                                     .mailbox = &w->mailbox,
                                     .on_end = end_unneeded,
                                     .end_ctx = w};
    enum err_code rc = hmac_key_load(p->key_path, &w->job.key, err);

    if (rc == ERR_OK && p->certificates_dir)
        rc = credentials_open(p->certificates_dir, p->slot, p->incarnation, &w->job.credentials,
                              err);
    if (rc == ERR_OK && p->certificates_dir && p->metrics_host)
        rc = credentials_open_metrics(p->certificates_dir, &w->metrics_credentials, err);
    control.key = w->job.key;
    control.credentials = w->job.credentials;
    control.metrics_credentials = w->metrics_credentials;
    return rc == ERR_OK ? control_open(&control, &w->control, err) : rc;
}

/* Run one revision until something ends it. */
static enum err_code run_revision(struct worker *w, bool *out_is_broken, struct err *err)
{
    struct progress *p = &w->job.progress;
    const struct plan *plan = &w->revision.plan;
    enum err_code rc = ERR_OK;

    *out_is_broken = false;
    p->revision = plan->revision;
    p->cause = PROGRESS_CAUSE_NONE;
    p->error[0] = '\0';
    LOG(LOG_INFO, "revision", LOG_I("number", plan->revision), LOG_I("workers", plan->n_workers),
        LOG_I("lineage", w->revision.resume.lineage), LOG_I("step", w->revision.resume.step));
    w->job.cause = PROGRESS_CAUSE_CONFIG;
    if (!w->job.has_spec) { /* the first revision fixes it */
        rc = choose_precision(&plan->spec, err);
        (void)snprintf(p->blas, sizeof p->blas, "%s, %d threads%s", gemm_core_name(),
                       threads_count(), gemm_precision() == GEMM_BF16 ? ", bf16" : "");
    }
    if (rc == ERR_OK && plan->spec.from.claim[0] && !w->params->model_dir)
        rc = err_set(err, ERR_INVALID, "--model: spec.model.from needs the folder with the model");
    if (rc == ERR_OK && !w->job.has_spec)
        rc = adopt(w, err);
    if (rc != ERR_OK)
        return rc;
    return session_run(&w->job, &w->revision, &w->addresses, out_is_broken, err);
}

/* The kubelet mounts this file alone, so it is written in place and not renamed. */
static void write_termination(const struct worker *w, const struct progress *p)
{
    struct buf text = {.max = PROGRESS_TEXT_MAX_BYTES};
    int fd;

    if (!w->params->termination_path || progress_write(p, &text, NULL) != ERR_OK) {
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

static void fail(struct worker *w, const struct err *err)
{
    struct progress *p = &w->job.progress;

    p->state = PROGRESS_FAILED;
    p->cause = w->job.cause;
    (void)snprintf(p->error, sizeof p->error, "%s", err->text);
    LOG(LOG_ERROR, "failed", LOG_I("worker", w->job.self.slot),
        LOG_S("cause", progress_cause_names[w->job.cause]), LOG_S("error", err->text));
    write_termination(w, p);
    mailbox_set_progress(&w->mailbox, p);
    report(w, REPORT_FAILED, err);
}

/* Called by another thread: what the trainer has is left alone. */
static void end_stalled(void *ctx, int64_t still_ms)
{
    struct worker *w = ctx;
    struct report r;
    struct progress p;

    mailbox_get_progress(&w->mailbox, &p);
    p.state = PROGRESS_FAILED;
    p.cause = PROGRESS_CAUSE_OTHER;
    (void)snprintf(p.error, sizeof p.error,
                   "no progress for %lld s in step %lld: a file system that does not answer, or a "
                   "node without CPU time or memory",
                   (long long)still_ms / 1000, (long long)p.step + 1);
    LOG(LOG_ERROR, "stalled", LOG_I("worker", w->job.self.slot), LOG_S("error", p.error));
    write_termination(w, &p);
    mailbox_set_progress(&w->mailbox, &p);
    mailbox_get_report(&w->mailbox, &r);
    r.session = REPORT_FAILED;
    mailbox_set_report(&w->mailbox, &r);
    if (w->params->on_stall)
        w->params->on_stall();
}

static void halt(struct worker *w, const struct err *err)
{
    struct progress *p = &w->job.progress;

    LOG(w->job.cause == PROGRESS_CAUSE_NONE ? LOG_INFO : LOG_WARN, "halted",
        LOG_I("worker", w->job.self.slot), LOG_I("revision", p->revision),
        LOG_I("step", w->job.state.step), LOG_S("cause", progress_cause_names[w->job.cause]),
        LOG_S("error", err->text));
    p->state = PROGRESS_HALTED;
    p->cause = w->job.cause;
    (void)snprintf(p->error, sizeof p->error, "%s", err->text);
    mailbox_set_progress(&w->mailbox, p);
    report(w, REPORT_HALTED, err);
}

/* Of this worker in its revision: its stage, or past the last one. */
static int number_of(const struct worker *w)
{
    return revision_find(&w->revision, w->job.self.slot);
}

/* A session that is done is the end of the job, except for a worker that has left it before. */
static bool has_left(const struct worker *w)
{
    return number_of(w) >= w->revision.plan.n_workers;
}

static void finish(struct worker *w)
{
    LOG(LOG_INFO, "done", LOG_I("worker", w->job.self.slot), LOG_I("step", w->job.progress.step));
    w->job.progress.state = PROGRESS_DONE;
    write_termination(w, &w->job.progress);
    if (!has_left(w)) {
        if (w->params->signals)
            w->params->signals->is_done = true;
        mailbox_end_job(&w->mailbox);
    }
    mailbox_set_progress(&w->mailbox, &w->job.progress);
    report(w, REPORT_DONE, NULL);
}

/* Does the job still need this worker, now that its session is done? The leader still serves its
 * progress, and one that leaves may have to give its units again; the others have been released. */
static bool is_needed(const struct worker *w)
{
    return number_of(w) == 0 || has_left(w);
}

static enum err_code live(struct worker *w, struct err *err)
{
    bool is_broken;
    enum err_code rc = gemm_setup(cpu_threads(), err);

    if (cpu_allowed_milli() / 1000 > THREADS_MAX)
        LOG(LOG_INFO, "more cores than threads", LOG_I("cores", cpu_allowed_milli() / 1000),
            LOG_I("threads", THREADS_MAX));
    w->job.cause = PROGRESS_CAUSE_CONFIG;
    if (rc != ERR_OK)
        return rc;
    rc = open_store(w, err);
    if (rc != ERR_OK)
        return rc;
    introduce(w);
    w->job.cause = PROGRESS_CAUSE_OTHER;
    rc = open_control(w, err);
    if (rc == ERR_OK)
        rc = history_open(&w->job.history, w->params->output_dir || w->job.has_store,
                          w->params->history_path, err);
    while (rc == ERR_OK && mailbox_wait_revision(&w->mailbox, &w->revision, &w->addresses)) {
        rc = run_revision(w, &is_broken, err);
        if (rc == ERR_OK) {
            finish(w);
            if (!is_needed(w))
                return ERR_OK;
        } else if (is_broken) {
            halt(w, err);
            rc = ERR_OK;
        }
    }
    return rc;
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
    w->job.params = params;
    w->job.mailbox = &w->mailbox;
    w->job.on_stall = end_stalled;
    w->job.stall_ctx = w;
    w->job.self = (struct revision_worker){params->slot, params->incarnation};
    mailbox_init(&w->mailbox);
    if (params->signals)
        w->mailbox.is_leaving = &params->signals->is_leaving;
    rc = live(w, &err);
    if (rc != ERR_OK)
        fail(w, &err);
    else if (w->job.progress.state != PROGRESS_DONE)
        finish(w);
    code = rc == ERR_OK                            ? EXIT_DONE
           : w->job.cause == PROGRESS_CAUSE_CONFIG ? EXIT_CONFIG
                                                   : EXIT_FAILED;
    control_close(w->control);
    credentials_close(w->job.credentials);
    credentials_close(w->metrics_credentials);
    history_close(&w->job.history);
    if (w->job.has_loader)
        loader_deinit(&w->job.loader);
    state_deinit(&w->job.state);
    remote_close(w->remote);
    mailbox_deinit(&w->mailbox);
    free(w);
    return code;
}
