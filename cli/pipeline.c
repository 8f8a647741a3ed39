#include "cli/pipeline.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/child.h"
#include "cli/command.h"
#include "fleet/follow.h"
#include "http/s3.h"

#define POLL_MS             50
#define LOG_MAX_BYTES       ((size_t)16 << 20)
#define ARGUMENT_BYTES      64
#define WORKER_ARGUMENTS    26
#define RECOVERIES_MAX      8   /* from the same step */
#define RECOVERY_PAUSE_MS   100 /* then doubled */
#define RECOVERY_LONGEST_MS 5000
#define PORT_MIN            20000
#define PORT_MAX            32768
#define PROC_MAX_BYTES      256
#define LOSS_BYTES          96

struct pipeline {
    const struct pipeline_params *params;
    /* One for each of --workers; its place in the list is its slot. */
    int n_workers;
    struct follow_worker workers[LOCAL_WORKERS_MAX]; /* the last incarnations; 0: none so far */
    struct child children[LOCAL_WORKERS_MAX];
    struct http *http;
    struct fleet *fleet;
    struct follow *follow;
    struct revision revision; /* the current one; 0: there is none yet */
    int n_cuts_done;
    int n_recoveries;      /* from the same step */
    int64_t recover_at_ms; /* the next one; 0: none is due */
    int first_failed;      /* slot; -1: none */
    char loss[LOSS_BYTES]; /* of a worker that was killed, since the last revision; "": none */
    FILE *history;         /* the leader's; NULL: not there yet */
    char history_path[SCRATCH_PATH_BYTES];
    int64_t shown_step; /* the newest whose evaluation was shown; -1: none */
    int64_t order;      /* for a checkpoint that is not written yet; 0: none */
};

static void file_of(const struct pipeline *p, int slot, const char *ending,
                    char out[static SCRATCH_PATH_BYTES])
{
    scratch_file(&p->params->local->scratch, out, "worker-%d-%d.%s", slot,
                 p->workers[slot].id.incarnation, ending);
}

/* --- start --- */

/* The first port that the kernel gives to outgoing connections, which could take ours while it is
 * closed between two sessions. */
static int first_outgoing_port(void)
{
    struct buf text = {.max = PROC_MAX_BYTES};
    int port = PORT_MAX;

    if (file_read("/proc/sys/net/ipv4/ip_local_port_range", &text, NULL) == ERR_OK)
        port = (int)strtol(buf_text(&text), NULL, 10);
    buf_deinit(&text);
    return port > PORT_MIN + 2 * LOCAL_WORKERS_MAX && port < PORT_MAX ? port : PORT_MAX;
}

static bool is_free(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_bound = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;

    if (fd >= 0)
        (void)close(fd);
    return is_bound;
}

/* Two for each worker, from somewhere on, so that two runs rarely try the same. */
static enum err_code choose_ports(struct pipeline *p, struct err *err)
{
    int n_ports = first_outgoing_port() - PORT_MIN;
    int from = (int)((uint64_t)clock_now_ns() / 1000 % (uint64_t)n_ports);
    int n = 0;

    for (int i = 0; i < n_ports && n < 2 * p->n_workers; i++) {
        int port = PORT_MIN + (from + i) % n_ports;
        struct follow_worker *worker = &p->workers[n / 2];

        if (!is_free(port))
            continue;
        memcpy(worker->control.host, "127.0.0.1", sizeof "127.0.0.1");
        memcpy(worker->host, "127.0.0.1", sizeof "127.0.0.1");
        *(n % 2 == 0 ? &worker->control.port : &worker->port) = port;
        n++;
    }
    return n == 2 * p->n_workers ? ERR_OK : err_set(err, ERR_IO, "no free ports for the workers");
}

/* The key that the workers share with us, in a file that only this user can read. */
static enum err_code make_key(struct pipeline *p, struct err *err)
{
    char path[SCRATCH_PATH_BYTES];
    char text[HMAC_TEXT_BYTES];
    struct hmac_key key;
    enum err_code rc = hmac_key_make(&key, err);
    int fd;

    if (rc != ERR_OK)
        return rc;
    for (int i = 0; i < p->n_workers; i++)
        p->workers[i].control.key = key;
    hmac_to_text(key.bytes, text);
    scratch_file(&p->params->local->scratch, path, "key");
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        rc = file_error(err, "write", path);
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

static enum err_code start_worker(struct pipeline *p, struct revision_worker id, struct err *err)
{
    const struct pipeline_params *q = p->params;
    struct follow_worker *worker = &p->workers[id.slot];
    char slot[ARGUMENT_BYTES];
    char incarnation[ARGUMENT_BYTES];
    char control[ARGUMENT_BYTES];
    char tensor[ARGUMENT_BYTES];
    char report[SCRATCH_PATH_BYTES];
    char log[SCRATCH_PATH_BYTES];
    char key[SCRATCH_PATH_BYTES];
    char history[SCRATCH_PATH_BYTES];
    char checkpoints[SCRATCH_PATH_BYTES];
    const char *argv[WORKER_ARGUMENTS + 1] = {
        q->local->worker,    "stage",     "--slot",   slot,
        "--incarnation",     incarnation, "--data",   q->local->data,
        "--control",         control,     "--tensor", tensor,
        "--termination-log", report,      "--key",    key,
        "--history",         history};
    struct child_params params = {.argv = argv,
                                  .out_path = log,
                                  .log_path = log,
                                  .cpu_milli = q->local->workers[id.slot].cpu_milli};
    enum err_code rc;

    worker->id = id;
    child_add_option(argv, "--model", q->model_dir);
    child_add_option(argv, "--output", q->output_dir);
    child_add_option(argv, "--checkpoints", q->checkpoints_dir);
    child_add_option(argv, "--resume-from", q->resume_from);
    /* As a node's disk does, it outlives the worker. */
    scratch_file(&q->local->scratch, checkpoints, "worker-%d-checkpoints", id.slot);
    if (s3_is_url(q->checkpoints_dir) ||
        (!q->checkpoints_dir && q->local->job.spec.checkpoint.is_peers))
        child_add_option(argv, "--own-checkpoints", checkpoints);
    (void)snprintf(slot, sizeof slot, "%d", id.slot);
    (void)snprintf(incarnation, sizeof incarnation, "%d", id.incarnation);
    (void)snprintf(control, sizeof control, "127.0.0.1:%d", worker->control.port);
    (void)snprintf(tensor, sizeof tensor, "127.0.0.1:%d", worker->port);
    file_of(p, id.slot, "json", report);
    file_of(p, id.slot, "log", log);
    scratch_file(&q->local->scratch, key, "key");
    file_of(p, id.slot, "history", history);
    rc = child_start(&p->children[id.slot], &params, q->local->throttle, err);
    return rc == ERR_OK ? follow_add(p->follow, worker, err) : rc;
}

/* --- revisions --- */

/* Start those of the plan that do not run, and end those that the revision does not have. */
static enum err_code match_workers(struct pipeline *p, const struct revision *next, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (int slot = 0; slot < p->n_workers && rc == ERR_OK; slot++) {
        struct child *child = &p->children[slot];
        int i = revision_find(next, slot);

        if (i >= 0 && revision_worker(next, i).incarnation != p->workers[slot].id.incarnation) {
            rc = start_worker(p, revision_worker(next, i), err);
        } else if (i < 0 && child->pid > 0) {
            child_stop(child, 1, p->params->local->throttle);
            *child = (struct child){.pid = 0};
            follow_remove(p->follow, slot);
        }
    }
    return rc;
}

/* The workers of the plan that run keep their incarnation; the others get a new one. */
static void name_incarnations(const struct pipeline *p, struct plan *plan)
{
    for (int i = 0; i < plan->n_workers; i++) {
        int slot = plan->workers[i].slot;

        plan->workers[i].incarnation =
            p->children[slot].pid > 0 ? p->workers[slot].id.incarnation : plan->revision;
    }
}

/* Make the next revision of `plan`, from what the workers hold, with the cut that is due. */
static void make_revision(struct pipeline *p, struct plan *plan, struct revision *out)
{
    const struct pipeline_params *q = p->params;
    const struct report *reports[PEERS_MAX];
    int n = follow_reports(p->follow, reports);
    enum source_kind start = q->model_dir ? SOURCE_PRETRAINED : SOURCE_RANDOM;
    const struct resume *last = p->revision.plan.revision > 0 ? &p->revision.resume : NULL;

    plan->revision++;
    name_incarnations(p, plan);
    revision_make(plan, reports, n, start, last, out);
    while (p->n_cuts_done < q->n_cuts && q->cuts[p->n_cuts_done].step <= out->resume.step) {
        cut_apply(&q->cuts[p->n_cuts_done++], q->local->workers, plan);
        name_incarnations(p, plan);
        revision_make(plan, reports, n, start, last, out);
    }
    out->until = p->n_cuts_done < q->n_cuts ? q->cuts[p->n_cuts_done].step : 0;
}

/* What ended the sessions; "" when it was no fault. */
static const char *fault_of(const struct pipeline *p)
{
    const struct report *reports[PEERS_MAX];
    int n = follow_reports(p->follow, reports);

    if (p->loss[0])
        return p->loss;
    for (int i = 0; i < n; i++)
        if (reports[i]->session == REPORT_HALTED && reports[i]->cause != PROGRESS_CAUSE_NONE)
            return reports[i]->error;
    return "";
}

static enum err_code revise(struct pipeline *p, struct err *err)
{
    struct plan plan = p->revision.plan;
    struct revision next;
    char line[SHOW_SUMMARY_BYTES];
    const char *fault = fault_of(p);
    enum err_code rc;

    make_revision(p, &plan, &next);
    p->n_recoveries = next.resume.step > p->revision.resume.step ? 0 : p->n_recoveries + 1;
    if (p->n_recoveries > RECOVERIES_MAX)
        return err_set(err, ERR_IO, "no progress after step %lld: %s", (long long)next.resume.step,
                       *fault ? fault : "the workers have halted");
    if (p->revision.plan.revision > 0) {
        (void)snprintf(line, sizeof line, "revision %d from step %lld on %d %s%s%s", plan.revision,
                       (long long)next.resume.step, plan.n_workers,
                       plan.n_workers == 1 ? "worker" : "workers", *fault ? ": " : "", fault);
        show_note(p->params->show, line);
    }
    rc = match_workers(p, &next, err);
    if (rc == ERR_OK)
        rc = follow_revise(p->follow, &next, p->params->local->job.spec_json, err);
    if (rc == ERR_OK)
        p->revision = next;
    p->loss[0] = '\0';
    return rc;
}

/* All have halted. A worker that failed will end in a moment, and the run with it. */
static enum err_code recover(struct pipeline *p, int64_t now_ms, struct err *err)
{
    const struct report *reports[PEERS_MAX];
    int n = follow_reports(p->follow, reports);

    for (int i = 0; i < n; i++)
        if (reports[i]->session == REPORT_FAILED)
            return ERR_OK;
    if (p->recover_at_ms == 0)
        p->recover_at_ms =
            now_ms + (*fault_of(p)
                          ? backoff_ms(p->n_recoveries + 1, RECOVERY_PAUSE_MS, RECOVERY_LONGEST_MS)
                          : 0);
    if (now_ms < p->recover_at_ms)
        return ERR_OK;
    p->recover_at_ms = 0;
    return revise(p, err);
}

static enum err_code start(struct pipeline *p, struct err *err)
{
    const struct local *l = p->params->local;
    enum err_code rc = choose_ports(p, err);

    if (rc == ERR_OK)
        rc = make_key(p, err);
    if (rc == ERR_OK)
        rc = http_new(&p->http, err);
    if (rc == ERR_OK)
        rc = fleet_new(p->http, &p->fleet, err);
    if (rc == ERR_OK)
        rc = follow_new(p->fleet, FOLLOW_ASK_MS, &p->follow, err);
    p->revision.plan = l->plan;
    p->revision.plan.revision = 0;
    for (int r = 0, i = 0; r < l->replicas.n; r++)
        for (int k = 0; k < l->replicas.pipelines[r].n_stages; k++, i++)
            p->revision.plan.workers[i].slot = l->replicas.pipelines[r].stages[k].node;
    return rc == ERR_OK ? revise(p, err) : rc;
}

/* --- follow --- */

/* Show the evaluations that the leader has added to its history. Its status would not do: an
 * evaluation may be over before the next request. The history of another leader has those that were
 * shown again, or begins anew. */
static void read_history(struct pipeline *p)
{
    int leader = p->revision.plan.workers[0].slot;
    char path[SCRATCH_PATH_BYTES];
    char *line = NULL;
    size_t bytes = 0;
    ssize_t n = 0;
    long at = 0;

    file_of(p, leader, "history", path);
    if (p->history && strcmp(path, p->history_path) != 0) {
        (void)fclose(p->history);
        p->history = NULL;
    }
    if (!p->history) {
        p->history = fopen(path, "re");
        memcpy(p->history_path, path, sizeof p->history_path);
    }
    while (p->history && (at = ftell(p->history)) >= 0 &&
           (n = getline(&line, &bytes, p->history)) > 0 && line[n - 1] == '\n') {
        struct json *record = NULL;
        char text[SHOW_SUMMARY_BYTES];
        int64_t step;

        if (json_parse(line, (size_t)n, &record, NULL) == ERR_OK && json_get(record, "metrics") &&
            (step = json_i64(json_get(record, "step"), 0)) > p->shown_step) {
            p->shown_step = step;
            show_evaluation(record, text);
            show_note(p->params->show, text);
        }
        json_free(record);
    }
    if (p->history)
        (void)fseek(p->history, at, SEEK_SET); /* the rest of the line is yet to come */
    free(line);
}

/* A worker that does not halt is frozen, or hangs. */
static void end_overdue(struct pipeline *p, int slot)
{
    (void)snprintf(p->loss, sizeof p->loss, "%.40s did not end its session",
                   p->params->local->workers[slot].name);
    (void)kill(p->children[slot].pid, SIGKILL);
}

/* Returns whether the leader is done; sets p->first_failed. One that was killed is replaced by the
 * next revision. */
static bool look_at_children(struct pipeline *p)
{
    bool is_done = false;

    (void)child_poll(p->children, p->n_workers, p->params->local->throttle);
    for (int slot = 0; slot < p->n_workers; slot++) {
        struct child *child = &p->children[slot];

        if (!child->has_ended)
            continue;
        follow_remove(p->follow, slot);
        if (child->exit_code > 128) {
            if (!p->loss[0])
                (void)snprintf(p->loss, sizeof p->loss, "%.40s was ended by signal %d (%s)",
                               p->params->local->workers[slot].name, child->exit_code - 128,
                               strsignal(child->exit_code - 128));
            *child = (struct child){.pid = 0};
        } else if (child->exit_code != 0 && p->first_failed < 0) {
            p->first_failed = slot;
        }
        is_done = is_done || (child->has_ended && slot == p->revision.plan.workers[0].slot);
    }
    return is_done;
}

static void show_leader(const struct progress *leader, struct show *show)
{
    char line[SHOW_LINE_BYTES];

    show_progress_text(leader, line);
    show_line(show, line, leader->state != PROGRESS_TRAINING, clock_now_ms());
}

/* Checkpoints on command: order one when asked to, and show what became of it. */
static void follow_checkpoint(struct pipeline *p)
{
    const struct progress *leader = follow_progress(p->follow);
    char line[SHOW_LINE_BYTES];

    if (checkpoint_take()) {
        if (plan_saves(&p->params->local->plan))
            p->order = clock_wall_ms();
        else
            show_note(p->params->show, "no checkpoint: this run has no place for them; start it "
                                       "with --checkpoints DIR");
        follow_order_checkpoint(p->follow, p->order);
    }
    if (p->order == 0 || !leader || leader->ordered.order < p->order)
        return;
    p->order = 0;
    if (leader->ordered.step > 0)
        (void)snprintf(line, sizeof line, "checkpoint of step %lld written",
                       (long long)leader->ordered.step);
    else
        (void)snprintf(line, sizeof line,
                       "the checkpoint could not be written; the logs in %.150s "
                       "tell why",
                       p->params->local->scratch.path);
    show_note(p->params->show, line);
}

static enum err_code wait_for_end(struct pipeline *p, struct err *err)
{
    enum err_code rc = ERR_OK;

    while (rc == ERR_OK) {
        int64_t now_ms = clock_now_ms();
        int64_t next_ms = follow_step(p->follow, now_ms);
        bool is_done = look_at_children(p);
        enum recover_phase phase = follow_phase(p->follow);
        int overdue;

        read_history(p);
        follow_checkpoint(p);
        if (interrupt_seen())
            return err_set(err, ERR_GONE, "interrupted");
        if (follow_refusal(p->follow))
            return err_set(err, ERR_CONFLICT, "a revision was refused: %s",
                           follow_refusal(p->follow));
        if (is_done || p->first_failed >= 0)
            return ERR_OK;
        if (follow_progress(p->follow))
            show_leader(follow_progress(p->follow), p->params->show);
        if (phase == RECOVER_HALT &&
            (overdue = follow_overdue(p->follow, RECOVER_PATIENCE, now_ms)) >= 0)
            end_overdue(p, overdue);
        if (phase == RECOVER_END)
            follow_release(p->follow);
        if (phase == RECOVER_REVISE)
            rc = recover(p, now_ms, err);
        if (rc == ERR_OK)
            rc = http_poll(p->http, next_ms < POLL_MS ? next_ms : POLL_MS, err);
    }
    return rc;
}

/* --- the last reports --- */

static bool read_report(const struct pipeline *p, int slot, struct progress *out)
{
    struct buf text = {.max = 2 * PROGRESS_TEXT_MAX_BYTES};
    char path[SCRATCH_PATH_BYTES];
    bool was_read;

    file_of(p, slot, "json", path);
    was_read = file_read(path, &text, NULL) == ERR_OK &&
               progress_parse(buf_text(&text), text.len, out, NULL) == ERR_OK;
    buf_deinit(&text);
    return was_read;
}

/* The last line of a worker's log that is not empty. */
static void last_line(const struct pipeline *p, int slot, char *out, size_t bytes)
{
    struct buf text = {.max = LOG_MAX_BYTES};
    char path[SCRATCH_PATH_BYTES];

    file_of(p, slot, "log", path);
    (void)snprintf(out, bytes, "no output");
    if (file_read(path, &text, NULL) == ERR_OK) {
        const char *line;

        while (text.len > 0 && text.data[text.len - 1] == '\n')
            text.data[--text.len] = '\0';
        line = strrchr(buf_text(&text), '\n');
        if (text.len > 0)
            (void)snprintf(out, bytes, "%s", line ? line + 1 : text.data);
    }
    buf_deinit(&text);
}

/* Of the worker that failed. */
static enum err_code explain_failure(const struct pipeline *p, struct err *err)
{
    int slot = p->first_failed;
    int code = p->children[slot].exit_code;
    const char *name = p->params->local->workers[slot].name;
    enum err_code rc = code == EXIT_CONFIG ? ERR_INVALID : ERR_IO;
    struct progress last;
    char line[256];

    if (read_report(p, slot, &last) && last.error[0])
        return err_set(err, rc, "%.40s: %s", name, last.error);
    if (code == 127)
        return err_set(err, ERR_IO, "%.200s cannot be run", p->params->local->worker);
    last_line(p, slot, line, sizeof line);
    return err_set(err, rc, "%.40s ended with exit code %d: %s", name, code, line);
}

enum err_code pipeline_run(const struct pipeline_params *params, struct progress *out_leader,
                           struct err *err)
{
    struct pipeline *p = calloc(1, sizeof *p);
    char key[SCRATCH_PATH_BYTES];
    enum err_code rc;
    int leader;

    if (!p)
        return err_set(err, ERR_NO_MEMORY, "no memory to run %d workers", params->local->n_workers);
    p->params = params;
    p->n_workers = params->local->n_workers;
    p->first_failed = -1;
    p->shown_step = -1;
    rc = start(p, err);
    if (rc == ERR_OK)
        rc = wait_for_end(p, err);
    if (rc == ERR_OK && p->first_failed >= 0)
        rc = explain_failure(p, err); /* before the others are ended by us */
    child_stop(p->children, p->n_workers, params->local->throttle);
    scratch_file(&params->local->scratch, key, "key");
    (void)unlink(key); /* the folder may be kept, for its logs */
    leader = p->revision.plan.workers[0].slot;
    if (rc == ERR_OK && !read_report(p, leader, out_leader))
        rc = err_set(err, ERR_IO, "worker-%d is done but left no report in %s", leader,
                     params->local->scratch.path);
    if (rc == ERR_OK && p->n_cuts_done < params->n_cuts)
        rc = err_set(err, ERR_INVALID, "--revise %lld=...: the job ended after step %lld",
                     (long long)params->cuts[p->n_cuts_done].step, (long long)out_leader->step);
    fleet_free(p->fleet);
    follow_free(p->follow);
    http_free(p->http);
    if (p->history)
        (void)fclose(p->history);
    free(p);
    return rc;
}
