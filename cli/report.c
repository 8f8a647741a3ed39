/* kubectl-skyjob report: a job as a page to look at, and the timeline of its stages as a trace; of
 * a job in the cluster, or from the files of a run that has ended. */
#include <getopt.h> /* optind */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/page.h"
#include "cli/target.h"
#include "cluster/node_object.h"

#define HISTORY_MAX_BYTES ((size_t)64 << 20)
#define STATUS_MAX_BYTES  ((size_t)16 << 20)
#define TRACE_MAX_BYTES   ((size_t)64 << 20)
#define LOG_MAX_BYTES     ((size_t)16 << 20)
#define LOG_LINES         "20000"
#define LOG_MS            60000
#define PATH_MAX_BYTES    1024
#define POLL_MS           500

struct findings {
    const char *output; /* arguments */
    const char *history_path;
    const char *status_path;
    const char *trace_path;
    char job[NAMES_BYTES];
    char uid[STATUS_UID_BYTES];
    bool has_status;
    struct status status;
    double seconds;
    bool recomputes;
    bool is_serial;
    int n_shares;
    int shares[PLAN_SHARES_MAX];
    struct records records;
    struct timeline timeline;
    char no_timeline[ERR_TEXT_BYTES]; /* "": there is one */
    const char *no_records;
    struct page_revision *revisions;
    size_t n_revisions, max_revisions;
    struct reason_event *events;
    size_t n_events, max_events;
};

static void findings_deinit(struct findings *r)
{
    records_deinit(&r->records);
    timeline_deinit(&r->timeline);
    free(r->revisions);
    free(r->events);
}

/* --- from files --- */

static void write_figure(const struct json *value, char out[static STATUS_WORD_BYTES])
{
    if (json_kind_of(value) == JSON_NUMBER)
        (void)snprintf(out, STATUS_WORD_BYTES, "%.4f", json_double(value, NAN));
    else if (value)
        (void)snprintf(out, STATUS_WORD_BYTES, "NaN");
}

/* The result of `kubectl-skyjob run --json` as a status: it has the same names, but figures in
 * place of texts. */
static void read_result(struct findings *r, const struct json *root)
{
    struct status *s = &r->status;
    struct status_progress *p = &s->progress;
    const struct json *best = json_get(root, "best");

    JSON_COPY(s->state, json_path(root, "state"));
    r->seconds = json_double(json_get(root, "seconds"), 0);
    r->is_serial = json_bool(json_get(root, "serial"), false);
    p->step = p->total_steps = json_i64(json_get(root, "step"), 0);
    write_figure(json_get(root, "loss"), p->loss);
    p->tokens_per_second = llround(fmin(json_double(json_get(root, "tokensPerSecond"), 0), 1e15));
    p->step_ms = json_double(json_get(root, "stepMilliseconds"), 0);
    for (const struct json *m = json_first(json_get(root, "metrics"));
         m && p->n_metrics < PROGRESS_METRICS_MAX; m = json_next(m)) {
        struct status_metric *metric = &p->metrics[p->n_metrics++];

        (void)snprintf(metric->name, sizeof metric->name, "%s", json_key(m));
        write_figure(m, metric->value);
    }
    if (best) {
        JSON_COPY(p->best.metric, json_path(best, "metric"));
        write_figure(json_get(best, "value"), p->best.value);
        p->best.step = json_i64(json_get(best, "step"), 0);
    }
    JSON_COPY(s->placement.strategy, json_path(root, "strategy"));
    s->placement.micro_batches = json_int(json_get(root, "microBatches"), 0);
    if (fields_read(plan_summary_fields, root, FIELDS_TOLERANT, "", &s->placement.summary, NULL) !=
        ERR_OK)
        s->placement.summary = (struct plan_summary){.explanation = ""};
    for (const struct json *v = json_first(json_get(root, "stages"));
         v && s->n_stages < SPEC_STAGES_MAX; v = json_next(v)) {
        struct status_stage *stage = &s->stages[s->n_stages];

        if (fields_read(plan_worker_fields, v, FIELDS_TOLERANT, "", &stage->plan, NULL) != ERR_OK)
            continue;
        stage->stage = s->n_stages++;
        stage->busy_percent = json_int(json_get(v, "busyPercent"), 0);
        stage->measured_ms = json_double(json_get(v, "measuredMicroseconds"), 0) / 1e3;
    }
    for (const struct json *v = json_first(json_get(root, "shares"));
         v && r->n_shares < PLAN_SHARES_MAX; v = json_next(v))
        r->shares[r->n_shares++] = json_int(v, 0);
}

static void read_object(struct findings *r, const struct json *root)
{
    const char *name = json_string(json_path(root, "metadata.name"), NULL);

    name = name ? name : json_string(json_get(root, "name"), json_text(root, "job"));
    (void)snprintf(r->job, sizeof r->job, "%s", name);
    JSON_COPY(r->uid, json_path(root, "metadata.uid"));
    r->recomputes = strcmp(json_text(root, "spec.training.activations"), "Recompute") == 0;
    if (json_get(root, "status"))
        status_read(json_get(root, "status"), &r->status);
    else
        read_result(r, root);
    r->has_status = true;
}

static enum err_code read_status(struct findings *r, struct err *err)
{
    struct buf text = {.max = STATUS_MAX_BYTES};
    struct json *root = NULL;
    enum err_code rc = file_read(r->status_path, &text, err);

    if (rc == ERR_OK)
        rc = json_parse_tolerant(buf_text(&text), text.len, &root, err);
    if (rc == ERR_OK && !json_get(root, "status") && !json_get(root, "stages"))
        rc = err_set(err, ERR_INVALID,
                     "neither a SkyJob as printed by `kubectl get -o json`, nor the result of "
                     "`kubectl-skyjob run --json`");
    if (rc == ERR_OK)
        read_object(r, root);
    json_free(root);
    buf_deinit(&text);
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "--status %.200s", r->status_path);
}

static enum err_code read_history(struct findings *r, struct err *err)
{
    struct buf text = {.max = HISTORY_MAX_BYTES};
    enum err_code rc = file_read(r->history_path, &text, err);

    if (rc == ERR_OK)
        rc = records_read(&r->records, buf_text(&text), text.len, err);
    if (rc == ERR_OK && r->records.n_steps + r->records.n_values == 0 && text.len > 0)
        rc = err_set(err, ERR_INVALID, "no line is a record of a step or an evaluation");
    buf_deinit(&text);
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "--history %.200s", r->history_path);
}

/* --- from the cluster --- */

/* What a user may not read is left out, with a note. */
static enum err_code leave_out(enum err_code rc, const struct err *err)
{
    if (rc != ERR_DENIED)
        return rc;
    (void)fprintf(stderr, "kubectl-skyjob: left out of the report: %s\n", err->text);
    return ERR_OK;
}

static enum err_code add_event(void *findings, const struct json *event, struct err *err)
{
    struct findings *r = findings;
    struct reason_event e;
    size_t at = r->n_events;
    enum err_code rc =
        array_reserve(&r->events, sizeof *r->events, &r->max_events, r->n_events + 1, err);

    if (rc != ERR_OK)
        return rc;
    reason_read_event(event, &e);
    for (; at > 0 && r->events[at - 1].time_ms > e.time_ms; at--)
        r->events[at] = r->events[at - 1];
    r->events[at] = e;
    r->n_events++;
    return ERR_OK;
}

/* One that cannot be read, as it is of another version, is left out. */
static enum err_code add_revision(void *findings, const struct json *config_map, struct err *err)
{
    struct findings *r = findings;
    struct revision *revision = calloc(1, sizeof *revision);
    struct page_revision found;
    size_t at = r->n_revisions;
    enum err_code rc;

    if (!revision)
        return err_set(err, ERR_NO_MEMORY, "no memory for a revision");
    rc = promise_read(config_map, revision, err);
    if (rc == ERR_OK) {
        const struct plan *plan = &revision->plan;

        found = (struct page_revision){.number = plan->revision,
                                       .step = revision->resume.step,
                                       .n_workers = plan->n_workers,
                                       .predicted_step_ms = plan->summary.predicted_step_ms};
        if (clock_parse(json_text(config_map, "metadata.creationTimestamp"), &found.created_ms,
                        NULL) != ERR_OK)
            found.created_ms = 0;
        if (plan->revision == r->status.revision) {
            r->n_shares = plan->n_shares;
            memcpy(r->shares, plan->shares, sizeof r->shares);
        }
        rc = array_reserve(&r->revisions, sizeof *r->revisions, &r->max_revisions, at + 1, err);
    } else if (rc != ERR_NO_MEMORY) {
        free(revision);
        return ERR_OK;
    }
    free(revision);
    if (rc != ERR_OK)
        return rc;
    for (; at > 0 && r->revisions[at - 1].number > found.number; at--)
        r->revisions[at] = r->revisions[at - 1];
    r->revisions[at] = found;
    r->n_revisions++;
    return ERR_OK;
}

struct log {
    struct kube_client *client;
    struct buf text;
    bool is_done;
    struct err err;
};

static void on_log(void *ctx, struct http_response *response, const struct err *end)
{
    struct log *log = ctx;

    log->is_done = true;
    log->err = *end;
    if (end->code == ERR_OK && kube_status_code(response->status) != ERR_OK)
        (void)kube_refused(log->client, response, &log->err);
    log->text = response->body;
    response->body = (struct buf){.data = NULL};
}

/* The leader's evaluations are in its log. It has no losses: of these the leader keeps the history,
 * which is in the output folder at the end. */
static enum err_code read_log(struct findings *r, struct target *t, struct err *err)
{
    static const char *const accept[] = {"Accept: */*", NULL};
    const struct kube_ref ref = {.resource = &kube_pods,
                                 .namespace = t->namespace,
                                 .name = r->status.stages[0].pod,
                                 .subresource = "log"};
    struct http_request request = {
        .headers = accept, .deadline_ms = LOG_MS, .response_max_bytes = LOG_MAX_BYTES};
    struct log log = {.client = t->connection.client};
    struct http_handler handler = {.ctx = &log, .on_done = on_log};
    struct buf path = {.max = PATH_MAX_BYTES};
    uint64_t id = 0;
    enum err_code rc = kube_ref_path(&ref, &path, err);

    if (rc == ERR_OK)
        rc = kube_add_query(&path, "container", "worker", err);
    if (rc == ERR_OK)
        rc = kube_add_query(&path, "tailLines", LOG_LINES, err);
    request.url = path.data;
    if (rc == ERR_OK)
        rc = kube_start(log.client, &request, handler, &id, err);
    while (rc == ERR_OK && !log.is_done)
        rc = http_poll(t->connection.http, POLL_MS, err);
    if (rc != ERR_OK)
        http_cancel(t->connection.http, id); /* `log` is about to go */
    if (rc == ERR_OK && log.err.code == ERR_OK)
        rc = records_read_log(&r->records, buf_text(&log.text), log.text.len, err);
    else if (rc == ERR_OK) /* a worker that is gone has none */
        (void)fprintf(stderr, "kubectl-skyjob: left out of the report: log of pod %s: %s\n",
                      ref.name, log.err.text);
    buf_deinit(&log.text);
    buf_deinit(&path);
    return rc;
}

static enum err_code read_cluster(struct findings *r, struct target *t, struct err *err)
{
    char selector[160];
    const struct kube_ref events = {
        .resource = &kube_events, .namespace = t->namespace, .field_selector = selector};
    const struct kube_ref revisions = {
        .resource = &kube_config_maps, .namespace = t->namespace, .label_selector = selector};
    struct json *object = NULL;
    enum err_code rc = kube_get(t->connection.client, &t->ref, &object, err);

    if (rc != ERR_OK)
        return rc;
    read_object(r, object);
    json_free(object);
    (void)snprintf(selector, sizeof selector, "involvedObject.uid=%s", r->uid);
    rc = leave_out(
        kube_list(t->connection.client, &events, (struct kube_lister){r, add_event}, err), err);
    (void)snprintf(selector, sizeof selector, LABEL_JOB_UID "=%s," LABEL_REVISION, r->uid);
    if (rc == ERR_OK)
        rc = leave_out(
            kube_list(t->connection.client, &revisions, (struct kube_lister){r, add_revision}, err),
            err);
    if (rc != ERR_OK || r->history_path)
        return rc;
    r->no_records = "The losses are in the job's output, in history.jsonl: give that file as "
                    "--history to have their curves here.";
    return r->status.n_stages > 0 && r->status.stages[0].pod[0] ? read_log(r, t, err) : ERR_OK;
}

/* --- the timeline --- */

/* Why there can be none; NULL: there can. */
static const char *obstacle(const struct findings *r)
{
    const struct status *s = &r->status;
    const char *protocol = s->progress.sync.protocol;

    if (!r->has_status || s->n_stages == 0)
        return "There is no plan whose stages could be shown.";
    if (s->placement.micro_batches < 1)
        return "The number of micro-batches is not known.";
    if (protocol[0] && strcmp(protocol, "BSP") != 0)
        return "The replicas are not in step, so there is no step that all of them do.";
    if (s->stages[s->n_stages - 1].plan.replica >= (r->n_shares > 1 ? r->n_shares : 1))
        return "The shares of the replicas are not known.";
    return NULL;
}

static enum err_code make_timeline(struct findings *r, struct err *err)
{
    const struct status *s = &r->status;
    struct timeline_params params = {.n_stages = s->n_stages,
                                     .is_serial = r->is_serial,
                                     .recomputes = r->recomputes,
                                     .step_ms = s->progress.step_ms};
    const char *why = obstacle(r);
    bool has_replicas = s->n_stages > 0 && s->stages[s->n_stages - 1].plan.replica > 0;
    enum err_code rc;

    if (why) {
        (void)snprintf(r->no_timeline, sizeof r->no_timeline, "%s", why);
        return err_set(err, ERR_INVALID, "no timeline: %s", why);
    }
    for (int i = 0; i < s->n_stages; i++) {
        const struct status_stage *stage = &s->stages[i];

        params.stages[i] = (struct timeline_stage){
            .replica = stage->plan.replica,
            .is_measured = stage->measured_ms > 0,
            .ms = stage->measured_ms > 0 ? stage->measured_ms : stage->plan.predicted_ms};
        memcpy(params.stages[i].node, stage->plan.node, sizeof params.stages[i].node);
    }
    params.micro_batches[0] = s->placement.micro_batches;
    for (int k = 0; has_replicas && k < r->n_shares; k++)
        params.micro_batches[k] = r->shares[k];
    rc = timeline_make(&params, &r->timeline, err);
    if (rc != ERR_OK)
        (void)snprintf(r->no_timeline, sizeof r->no_timeline, "Left out: %.200s.", err->text);
    return rc;
}

/* --- what is written --- */

static enum err_code write_file(const char *option, const char *path, const struct buf *text,
                                struct err *err)
{
    enum err_code rc = ERR_OK;

    if (strcmp(path, "-") != 0)
        rc = file_write(path, buf_text(text), text->len, err);
    else if (fwrite(buf_text(text), 1, text->len, stdout) != text->len || fflush(stdout) != 0)
        rc = err_set(err, ERR_IO, "cannot write to stdout");
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "%s", option);
}

static enum err_code write_page(const struct findings *r, const struct target *t, struct err *err)
{
    struct buf text = {.max = PAGE_MAX_BYTES};
    const struct page page = {.job = r->job,
                              .namespace = t ? t->namespace : NULL,
                              .status = r->has_status ? &r->status : NULL,
                              .seconds = r->seconds,
                              .n_shares = r->n_shares,
                              .shares = r->shares,
                              .records = &r->records,
                              .no_records = r->no_records,
                              .timeline = r->no_timeline[0] ? NULL : &r->timeline,
                              .no_timeline = r->no_timeline,
                              .revisions = r->revisions,
                              .n_revisions = r->n_revisions,
                              .events = r->events,
                              .n_events = r->n_events,
                              .now_ms = clock_wall_ms()};
    enum err_code rc = page_write(&page, &text, err);

    if (rc == ERR_OK)
        rc = write_file("-o", r->output, &text, err);
    buf_deinit(&text);
    return rc;
}

static enum err_code write_trace(const struct findings *r, struct err *err)
{
    struct buf text = {.max = TRACE_MAX_BYTES};
    enum err_code rc = timeline_trace(&r->timeline, r->job, &text, err);

    if (rc == ERR_OK)
        rc = write_file("--trace", r->trace_path, &text, err);
    buf_deinit(&text);
    return rc;
}

/* `t` is NULL for a report from files. */
static enum err_code run(void *ctx, struct target *t, struct err *err)
{
    struct findings *r = ctx;
    enum err_code rc = ERR_OK;

    if (t && r->status_path)
        return err_set(err, ERR_INVALID, "use a name or --status, not both");
    if (t)
        rc = read_cluster(r, t, err);
    else if (r->status_path)
        rc = read_status(r, err);
    if (rc == ERR_OK && r->history_path)
        rc = read_history(r, err);
    if (rc != ERR_OK)
        return rc;
    if (!t && !r->history_path)
        r->no_records = "The losses are in history.jsonl in the output folder: give that file as "
                        "--history to have their curves here.";
    rc = make_timeline(r, err);
    if (rc == ERR_OK && r->trace_path)
        rc = write_trace(r, err);
    else if (!r->trace_path && rc != ERR_NO_MEMORY)
        rc = ERR_OK; /* the page has the reason */
    if (rc == ERR_OK && r->output)
        rc = write_page(r, t, err);
    return rc;
}

int command_report(int argc, char **argv)
{
    static struct findings r;
    const char *ignored; /* target_run() reads them */
    const struct command_option own[] = {
        {"output", 'o', .value = &r.output},
        {"history", .value = &r.history_path},
        {"status", .value = &r.status_path},
        {"trace", .value = &r.trace_path},
        {.name = NULL},
    };
    const struct command_option all[] = {
        own[0],
        own[1],
        own[2],
        own[3],
        {"namespace", 'n', .value = &ignored},
        {"kubeconfig", .value = &ignored},
        {"context", .value = &ignored},
        {.name = NULL},
    };
    struct err err;
    int code;

    r = (struct findings){.output = NULL};
    if (!command_options(argc, argv, all) || (!r.output && !r.trace_path) ||
        (optind == argc && !r.history_path && !r.status_path))
        return command_usage(argv[0]);
    if (optind < argc) {
        optind = 0; /* read them again */
        code = target_run(argc, argv, own, (struct target_action){&r, run});
    } else {
        code = run(&r, NULL, &err) == ERR_OK ? EXIT_DONE : command_failed(&err);
    }
    findings_deinit(&r);
    return code;
}
