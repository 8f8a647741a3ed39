#include "cli/pipeline.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/child.h"
#include "cli/command.h"
#include "fleet/fleet.h"

#define POLL_MS         50
#define REPORT_MS       1500 /* for other stages to end and report, once one has failed */
#define LOG_MAX_BYTES   ((size_t)16 << 20)
#define LINE_MAX_BYTES  ((size_t)1 << 16) /* of the history */
#define ARGUMENT_BYTES  64
#define STAGE_ARGUMENTS 22

struct pipeline {
    const struct pipeline_params *params;
    int n_stages;
    struct child children[SPEC_STAGES_MAX];
    struct fleet_address control[SPEC_STAGES_MAX];
    struct peers peers;
    struct http *http;
    struct fleet *fleet;
    struct follow *follow;
    int first_failed;  /* stage; -1: none */
    int history;       /* the leader's file; -1: not there yet */
    struct buf unread; /* of it: the beginning of a line */
};

/* --- ports: all are held at the same time, so that they differ --- */

static int open_port(int *out_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) != 0) {
        (void)close(fd);
        return -1;
    }
    *out_port = ntohs(at.sin_port);
    return fd;
}

static enum err_code choose_ports(struct pipeline *p, struct err *err)
{
    int fds[2 * SPEC_STAGES_MAX];
    int ports[2 * SPEC_STAGES_MAX];
    int n = 0;
    enum err_code rc = ERR_OK;

    while (n < 2 * p->n_stages && rc == ERR_OK) {
        fds[n] = open_port(&ports[n]);
        if (fds[n] < 0)
            rc = err_set(err, ERR_IO, "find a free port: %s", strerror(errno));
        else
            n++;
    }
    for (int i = 0; i < n; i++)
        (void)close(fds[i]);
    for (int s = 0; s < p->n_stages && rc == ERR_OK; s++) {
        p->control[s] = (struct fleet_address){.host = "127.0.0.1", .port = ports[2 * s]};
        memcpy(p->peers.stages[s].host, "127.0.0.1", sizeof "127.0.0.1");
        p->peers.stages[s].port = ports[2 * s + 1];
    }
    return rc;
}

/* --- start --- */

static void path_in(const struct pipeline *p, const char *name, char out[static LOCAL_PATH_BYTES])
{
    (void)snprintf(out, LOCAL_PATH_BYTES, "%.480s/%s", p->params->local->scratch.path, name);
}

static void path_of(const struct pipeline *p, int stage, const char *suffix,
                    char out[static LOCAL_PATH_BYTES])
{
    char name[32];

    (void)snprintf(name, sizeof name, "stage-%d.%s", stage, suffix);
    path_in(p, name, out);
}

/* The key that the workers share with us, in a file that only this user can read. */
static enum err_code make_key(struct pipeline *p, struct err *err)
{
    char path[LOCAL_PATH_BYTES];
    char text[HMAC_TEXT_BYTES];
    struct hmac_key key;
    enum err_code rc = hmac_key_make(&key, err);
    int fd;

    if (rc != ERR_OK)
        return rc;
    for (int s = 0; s < p->n_stages; s++)
        p->control[s].key = key;
    hmac_to_text(key.bytes, text);
    path_in(p, "key", path);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        rc = file_error(err, "write", path);
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

/* Append to `argv`, which has room for two more and ends with NULL; not if `value` is NULL. */
static void add_option(const char **argv, const char *option, const char *value)
{
    if (!value)
        return;
    while (*argv)
        argv++;
    argv[0] = option;
    argv[1] = value;
}

static enum err_code start_stage(struct pipeline *p, int s, struct err *err)
{
    const struct pipeline_params *q = p->params;
    char stage[ARGUMENT_BYTES];
    char control[ARGUMENT_BYTES];
    char tensor[ARGUMENT_BYTES];
    char report[LOCAL_PATH_BYTES];
    char log[LOCAL_PATH_BYTES];
    char key[LOCAL_PATH_BYTES];
    char history[LOCAL_PATH_BYTES];
    char plan[LOCAL_PATH_BYTES];
    const char *argv[STAGE_ARGUMENTS + 1] = {q->local->worker,    "stage", "--plan",   plan,
                                             "--stage",           stage,   "--data",   q->data_dir,
                                             "--control",         control, "--tensor", tensor,
                                             "--termination-log", report,  "--key",    key};
    struct child_params params = {.argv = argv,
                                  .out_path = log,
                                  .log_path = log,
                                  .cpu_milli = q->local->plan.stages[s].cpu_milli};

    add_option(argv, "--model", q->model_dir);
    add_option(argv, "--output", q->output_dir);
    path_in(p, "history.jsonl", history);
    path_in(p, PLAN_FILE, plan);
    if (s == 0)
        add_option(argv, "--history", history);
    (void)snprintf(stage, sizeof stage, "%d", s);
    (void)snprintf(control, sizeof control, "127.0.0.1:%d", p->control[s].port);
    (void)snprintf(tensor, sizeof tensor, "127.0.0.1:%d", p->peers.stages[s].port);
    path_of(p, s, "json", report);
    path_of(p, s, "log", log);
    path_in(p, "key", key);
    return child_start(&p->children[s], &params, q->local->throttle, err);
}

static enum err_code start(struct pipeline *p, struct err *err)
{
    enum err_code rc = choose_ports(p, err);

    if (rc == ERR_OK)
        rc = make_key(p, err);
    if (rc == ERR_OK)
        rc = http_new(&p->http, err);
    if (rc == ERR_OK)
        rc = fleet_new(p->http, &p->fleet, err);
    if (rc == ERR_OK)
        rc = follow_new(p->fleet, &p->peers, p->control, &p->follow, err);
    for (int s = 0; s < p->n_stages && rc == ERR_OK; s++)
        rc = start_stage(p, s, err);
    return rc;
}

/* --- follow --- */

static void take_line(const struct pipeline *p, const char *line, size_t n)
{
    struct json *record = NULL;

    if (json_parse(line, n, &record, NULL) == ERR_OK && json_get(record, "metrics"))
        p->params->on_evaluation(p->params->ctx, record);
    json_free(record);
}

/* Hand over what the leader has added to its history. Its status would not do: an evaluation may be
 * over before the next question. */
static void read_history(struct pipeline *p)
{
    char bytes[4096];
    ssize_t n;

    if (p->history < 0) {
        char path[LOCAL_PATH_BYTES];

        path_in(p, "history.jsonl", path);
        p->history = open(path, O_RDONLY | O_CLOEXEC);
    }
    while (p->history >= 0 && (n = read(p->history, bytes, sizeof bytes)) > 0) {
        char *end;

        if (buf_add(&p->unread, bytes, (size_t)n, NULL) != ERR_OK)
            buf_reset(&p->unread); /* not a history */
        while (p->unread.len > 0 && (end = memchr(p->unread.data, '\n', p->unread.len))) {
            size_t line = (size_t)(end - p->unread.data);

            take_line(p, p->unread.data, line);
            buf_drop(&p->unread, line + 1);
        }
    }
}

/* Returns how many still run; sets p->first_failed. */
static int look_at_children(struct pipeline *p)
{
    int n_running = 0;

    for (int s = 0; s < p->n_stages; s++) {
        struct child *c = &p->children[s];

        if (c->has_ended)
            continue;
        if (!child_poll(c, p->params->local->throttle))
            n_running++;
        else if (c->exit_code != 0 && p->first_failed < 0)
            p->first_failed = s;
    }
    return n_running;
}

static enum err_code wait_for_end(struct pipeline *p, struct err *err)
{
    int64_t failed_ms = 0;

    for (;;) {
        int64_t now_ms = clock_now_ms();
        int64_t next_ms = follow_step(p->follow, now_ms);
        int n_running = look_at_children(p);
        enum err_code rc;

        if (interrupt_seen())
            return err_set(err, ERR_GONE, "interrupted");
        if (follow_refusal(p->follow))
            return err_set(err, ERR_CONFLICT, "the peer table was refused: %s",
                           follow_refusal(p->follow));
        if (n_running == 0) {
            read_history(p);
            return ERR_OK;
        }
        if (p->first_failed >= 0 && failed_ms == 0)
            failed_ms = now_ms;
        if (failed_ms > 0 && now_ms - failed_ms > REPORT_MS)
            return ERR_OK;
        read_history(p);
        if (follow_progress(p->follow) && p->first_failed < 0)
            p->params->on_progress(p->params->ctx, follow_progress(p->follow));
        rc = http_poll(p->http, next_ms < POLL_MS ? next_ms : POLL_MS, err);
        if (rc != ERR_OK)
            return rc;
    }
}

/* --- the last reports --- */

static bool read_report(const struct pipeline *p, int stage, struct progress *out)
{
    struct buf text = {.max = 2 * PROGRESS_TEXT_MAX_BYTES};
    char path[LOCAL_PATH_BYTES];
    bool was_read;

    path_of(p, stage, "json", path);
    was_read = file_read(path, &text, NULL) == ERR_OK &&
               progress_parse(buf_text(&text), text.len, out, NULL) == ERR_OK;
    buf_deinit(&text);
    return was_read;
}

/* The last line of a stage's log that is not empty. */
static void last_line(const struct pipeline *p, int stage, char *out, size_t bytes)
{
    struct buf text = {.max = LOG_MAX_BYTES};
    char path[LOCAL_PATH_BYTES];
    size_t end;
    size_t from;

    path_of(p, stage, "log", path);
    (void)snprintf(out, bytes, "no output");
    if (file_read(path, &text, NULL) == ERR_OK && text.len > 0) {
        for (end = text.len; end > 0 && text.data[end - 1] == '\n';)
            end--;
        for (from = end; from > 0 && text.data[from - 1] != '\n';)
            from--;
        if (end > from)
            (void)snprintf(out, bytes, "%.*s", (int)(end - from), text.data + from);
    }
    buf_deinit(&text);
}

/* The stage whose failure was not caused by another's. One that was killed has no last report, or
 * an outdated one. */
static int culprit(const struct pipeline *p)
{
    for (int s = 0; s < p->n_stages; s++) {
        struct progress last;

        if (!p->children[s].has_ended || p->children[s].exit_code == 0)
            continue;
        if (!read_report(p, s, &last) || last.cause != PROGRESS_CAUSE_PEER_LOST)
            return s;
    }
    return p->first_failed;
}

static enum err_code explain_failure(const struct pipeline *p, struct err *err)
{
    int s = culprit(p);
    const struct child *c = &p->children[s];
    const char *node = p->params->local->plan.stages[s].node;
    struct progress last;
    char line[256];

    if (c->exit_code <= 128 && read_report(p, s, &last) && last.error[0])
        return err_set(err, c->exit_code == EXIT_CONFIG ? ERR_INVALID : ERR_IO,
                       "stage %d (%.40s): %s", s, node, last.error);
    if (c->exit_code == 127)
        return err_set(err, ERR_IO, "%.200s cannot be run", p->params->local->worker);
    if (c->exit_code > 128)
        return err_set(err, ERR_IO, "stage %d (%.40s) was ended by signal %d (%s)", s, node,
                       c->exit_code - 128, strsignal(c->exit_code - 128));
    last_line(p, s, line, sizeof line);
    return err_set(err, c->exit_code == EXIT_CONFIG ? ERR_INVALID : ERR_IO,
                   "stage %d (%.40s) ended with exit code %d: %s", s, node, c->exit_code, line);
}

enum err_code pipeline_run(const struct pipeline_params *params, struct progress *out_leader,
                           struct err *err)
{
    struct pipeline p = {
        .params = params,
        .n_stages = params->local->plan.n_stages,
        .peers = {.attempt = params->local->plan.attempt, .n_stages = params->local->plan.n_stages},
        .first_failed = -1,
        .history = -1,
        .unread = {.max = LINE_MAX_BYTES}};
    char key[LOCAL_PATH_BYTES];
    enum err_code rc = start(&p, err);

    if (rc == ERR_OK)
        rc = wait_for_end(&p, err);
    if (rc == ERR_OK && p.first_failed >= 0)
        rc = explain_failure(&p, err); /* before the others are ended by us */
    child_stop(p.children, p.n_stages, params->local->throttle);
    path_in(&p, "key", key);
    (void)unlink(key); /* the folder may be kept, for its logs */
    if (rc == ERR_OK && !read_report(&p, 0, out_leader))
        rc = err_set(err, ERR_IO, "stage 0 is done but left no report in %s",
                     params->local->scratch.path);
    fleet_free(p.fleet);
    follow_free(p.follow);
    http_free(p.http);
    buf_deinit(&p.unread);
    if (p.history >= 0)
        (void)close(p.history);
    return rc;
}
