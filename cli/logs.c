/* kubectl-skyjob logs: the logs of all workers of a job, each line with the worker's slot.
 *
 * All of them arrive on one thread, that of the http loop, and are printed line by line, without
 * empty ones. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "cli/target.h"
#include "kube/response.h"

#define LINE_MAX_BYTES ((size_t)1 << 20)
#define PATH_MAX_BYTES 1024
#define LOG_MS         (INT64_C(10) * 60 * 1000)
#define FOLLOW_MS      (INT64_C(7) * 24 * 60 * 60 * 1000)
#define LIST_MS        2000 /* between two looks for new pods */
#define POLL_MS        500

struct logs {
    struct target *target;
    bool follows;        /* an argument, like the next two */
    bool wants_previous; /* of workers that were replaced, in place of those that replaced them */
    const char *tail;    /* lines of each; NULL: all */
    struct worker **workers; /* by slot and incarnation; these do not move */
    size_t n_workers, workers_max;
    int n_open;   /* logs that are being read */
    int n_failed; /* logs that could not be read */
};

struct worker {
    struct logs *logs;
    char pod[NAMES_BYTES];
    int slot;
    int incarnation;
    bool is_pending;
    bool has_begun; /* its log was asked for */
    struct framer framer;
};

/* --- pods --- */

static int number_of(const struct json *pod, const char *label)
{
    return atoi(json_string(json_get(json_path(pod, "metadata.labels"), label), "-1"));
}

static struct worker *find_worker(const struct logs *l, const char *pod)
{
    for (size_t i = 0; i < l->n_workers; i++)
        if (strcmp(l->workers[i]->pod, pod) == 0)
            return l->workers[i];
    return NULL;
}

static bool is_before(const struct worker *a, const struct worker *b)
{
    return a->slot != b->slot ? a->slot < b->slot : a->incarnation < b->incarnation;
}

static enum err_code add_pod(void *logs, const struct json *pod, struct err *err)
{
    struct logs *l = logs;
    const char *name = json_text(pod, "metadata.name");
    struct worker *w = find_worker(l, name);
    enum err_code rc;
    size_t at;

    if (!w) {
        rc = array_reserve(&l->workers, sizeof *l->workers, &l->workers_max, l->n_workers + 1, err);
        if (rc != ERR_OK)
            return rc;
        w = calloc(1, sizeof *w);
        if (!w)
            return err_set(err, ERR_NO_MEMORY, "no memory for a worker's log");
        *w = (struct worker){.logs = l,
                             .slot = number_of(pod, LABEL_SLOT),
                             .incarnation = number_of(pod, LABEL_INCARNATION),
                             .framer.partial.max = LINE_MAX_BYTES};
        (void)snprintf(w->pod, sizeof w->pod, "%s", name);
        for (at = l->n_workers++; at > 0 && is_before(w, l->workers[at - 1]); at--)
            l->workers[at] = l->workers[at - 1];
        l->workers[at] = w;
    }
    w->is_pending = strcmp(json_text(pod, "status.phase"), "Pending") == 0;
    return ERR_OK;
}

static bool is_replaced(const struct logs *l, size_t i)
{
    return i + 1 < l->n_workers && l->workers[i + 1]->slot == l->workers[i]->slot;
}

/* --- one log --- */

static enum err_code print_line(void *ctx, const char *line, size_t n, struct err *err)
{
    const struct worker *w = ctx;

    if (printf("[slot %d] ", w->slot) < 0 || fwrite(line, 1, n, stdout) != n || putchar('\n') < 0)
        return err_set(err, ERR_IO, "cannot write to stdout");
    return ERR_OK;
}

static void note_long_line(void *ctx)
{
    const struct worker *w = ctx;

    (void)printf("[slot %d] (a line of more than %zu bytes is left out)\n", w->slot,
                 LINE_MAX_BYTES);
}

static enum err_code on_chunk(void *ctx, const char *bytes, size_t n, struct err *err)
{
    struct worker *w = ctx;

    return framer_feed(&w->framer, bytes, n, (struct framer_sink){w, print_line, note_long_line},
                       err);
}

static void on_done(void *ctx, struct http_response *response, const struct err *end)
{
    struct worker *w = ctx;
    struct err why = *end;

    if (w->framer.partial.len > 0) /* the last line may lack its end */
        (void)print_line(w, w->framer.partial.data, w->framer.partial.len, NULL);
    framer_reset(&w->framer);
    w->logs->n_open--;
    if (why.code == ERR_OK && kube_status_code(response->status) != ERR_OK)
        (void)kube_refused(w->logs->target->connection.client, response, &why);
    if (why.code == ERR_OK)
        return;
    w->logs->n_failed++;
    (void)fflush(stdout);
    (void)fprintf(stderr, "kubectl-skyjob: log of pod %s (slot %d): %s\n", w->pod, w->slot,
                  why.text);
}

static enum err_code begin(struct worker *w, struct err *err)
{
    static const char *const accept[] = {"Accept: */*", NULL};
    struct logs *l = w->logs;
    const struct kube_ref ref = {.resource = &kube_pods,
                                 .namespace = l->target->namespace,
                                 .name = w->pod,
                                 .subresource = "log"};
    struct http_request request = {.headers = accept,
                                   .deadline_ms = l->follows ? FOLLOW_MS : LOG_MS};
    struct http_handler handler = {.ctx = w, .on_done = on_done, .on_chunk = on_chunk};
    struct buf path = {.max = PATH_MAX_BYTES};
    uint64_t id;
    enum err_code rc = kube_ref_path(&ref, &path, err);

    if (rc == ERR_OK)
        rc = kube_add_query(&path, "container", "worker", err);
    if (rc == ERR_OK && l->follows)
        rc = kube_add_query(&path, "follow", "true", err);
    if (rc == ERR_OK && l->tail)
        rc = kube_add_query(&path, "tailLines", l->tail, err);
    request.url = path.data;
    if (rc == ERR_OK)
        rc = kube_start(l->target->connection.client, &request, handler, &id, err);
    buf_deinit(&path);
    w->has_begun = rc == ERR_OK;
    l->n_open += rc == ERR_OK;
    return rc;
}

/* --- all of them --- */

static enum err_code list_pods(struct logs *l, const char *uid, struct err *err)
{
    char selector[160];
    const struct kube_ref pods = {
        .resource = &kube_pods, .namespace = l->target->namespace, .label_selector = selector};

    (void)snprintf(selector, sizeof selector, LABEL_JOB_UID "=%s," LABEL_ROLE "=worker", uid);
    return kube_list(l->target->connection.client, &pods, (struct kube_lister){l, add_pod}, err);
}

/* For a while, or until no log is being read. */
static enum err_code read_on(struct logs *l, int64_t for_ms, struct err *err)
{
    int64_t until_ms = clock_now_ms() + for_ms;
    enum err_code rc = ERR_OK;

    while (rc == ERR_OK && l->n_open > 0 && clock_now_ms() < until_ms) {
        rc = http_poll(l->target->connection.http, POLL_MS, err);
        if (rc == ERR_OK && (fflush(stdout) != 0 || ferror(stdout)))
            rc = err_set(err, ERR_IO, "cannot write to stdout");
        if (rc == ERR_OK && interrupt_seen())
            rc = err_set(err, ERR_GONE, "interrupted; the job continues");
    }
    return rc;
}

/* One after the other: each log in one piece. */
static enum err_code print_once(struct logs *l, const struct status *status, struct err *err)
{
    int n_found = 0;
    enum err_code rc = ERR_OK;

    for (size_t i = 0; i < l->n_workers && rc == ERR_OK; i++) {
        struct worker *w = l->workers[i];

        if (is_replaced(l, i) != l->wants_previous)
            continue;
        n_found++;
        if (w->is_pending) {
            (void)fprintf(stderr, "kubectl-skyjob: pod %s (slot %d) has not started yet\n", w->pod,
                          w->slot);
            continue;
        }
        rc = begin(w, err);
        if (rc == ERR_OK)
            rc = read_on(l, INT64_MAX / 2, err); /* the request has a deadline of its own */
    }
    if (rc == ERR_OK && n_found == 0 && l->wants_previous)
        rc = err_set(err, ERR_NOT_FOUND, "SkyJob %s has no pods of workers that were replaced",
                     l->target->name);
    else if (rc == ERR_OK && n_found == 0)
        rc = err_set(err, ERR_NOT_FOUND, "SkyJob %s has no workers: %s%s%s", l->target->name,
                     status->state, status->message[0] ? ": " : "", status->message);
    return rc;
}

/* Begin with the logs of workers that were added or have started since the last look. What fails
 * for a moment is left to the next one. */
static enum err_code look(struct logs *l, const char *uid, bool *out_is_over, struct err *err)
{
    struct status status = {.state = ""};
    enum err_code rc = target_get(l->target, &status, NULL, err);
    bool is_over = rc == ERR_NOT_FOUND || (rc == ERR_OK && status_is_final(&status));

    if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        rc = list_pods(l, uid, err); /* then none is missing if the job is over */
    for (size_t i = 0; i < l->n_workers && rc == ERR_OK; i++)
        if (!l->workers[i]->has_begun && !l->workers[i]->is_pending && !is_replaced(l, i))
            rc = begin(l->workers[i], err);
    *out_is_over = is_over && rc == ERR_OK;
    return err_is_transient(rc) ? ERR_OK : rc;
}

/* All at once, until the job is over. */
static enum err_code follow(struct logs *l, const char *uid, struct err *err)
{
    bool is_over;
    enum err_code rc;

    do {
        rc = look(l, uid, &is_over, err);
        if (rc == ERR_OK)
            rc = read_on(l, LIST_MS, err);
        if (rc == ERR_OK && l->n_open == 0 && !is_over && interrupt_pause())
            rc = err_set(err, ERR_GONE, "interrupted; the job continues");
    } while (rc == ERR_OK && (l->n_open > 0 || !is_over));
    return rc;
}

static enum err_code run(void *ctx, struct target *t, struct err *err)
{
    struct logs *l = ctx;
    char uid[STATUS_UID_BYTES];
    struct json *object = NULL;
    struct status status;
    int tail = 0;
    enum err_code rc = command_count("tail", l->tail, 0, INT_MAX, &tail, err);

    if (rc == ERR_OK && l->follows && l->wants_previous)
        rc = err_set(err, ERR_INVALID, "use --follow or --previous, not both");
    if (rc == ERR_OK)
        rc = target_get(t, &status, &object, err);
    if (rc != ERR_OK)
        return rc;
    JSON_COPY(uid, json_path(object, "metadata.uid"));
    json_free(object);
    l->target = t;
    interrupt_catch();
    if (l->follows)
        rc = follow(l, uid, err);
    else
        rc = list_pods(l, uid, err);
    if (rc == ERR_OK && !l->follows)
        rc = print_once(l, &status, err);
    if (rc == ERR_OK && l->n_failed > 0)
        rc = err_set(err, ERR_IO, "%d of %zu logs could not be read", l->n_failed, l->n_workers);
    return rc;
}

int command_logs(int argc, char **argv)
{
    struct logs logs = {.follows = false};
    const struct command_option options[] = {
        {"follow", 'f', .is_set = &logs.follows},
        {"previous", 'p', .is_set = &logs.wants_previous},
        {"tail", .value = &logs.tail},
        {.name = NULL},
    };
    int code = target_run(argc, argv, options, (struct target_action){&logs, run});

    for (size_t i = 0; i < logs.n_workers; i++) {
        framer_reset(&logs.workers[i]->framer);
        free(logs.workers[i]);
    }
    free(logs.workers);
    return code;
}
