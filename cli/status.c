/* kubectl-skyjob status: the progress of a job in the cluster, or of all as a table; once, or
 * followed. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/jobs.h"
#include "cli/show.h"
#include "cli/target.h"
#include "kube/watch.h"

#define POLL_MS 500 /* so that an interrupt is seen */

struct asked {
    bool follows; /* arguments */
    bool has_all;
    const char *output;
    struct status status; /* of the one job */
    struct jobs jobs;
    /* While they are followed: */
    const char *name;
    struct show show;
    int revision; /* whose stages are shown */
    bool was_seen;
    bool is_synced;
    bool is_over;
    struct err failed;
};

/* --- one job --- */

/* Print what has changed. */
static void print_news(const struct status *s, struct show *show, int *revision)
{
    bool is_over = status_is_final(s);
    bool is_new = s->revision != *revision;
    char line[SHOW_LINE_BYTES];

    if (is_over || (is_new && s->n_stages > 0))
        show_end(show);
    if (s->n_stages > 0 && (is_over || is_new)) {
        if (is_new && s->revision > 1)
            (void)printf("revision %d\n", s->revision);
        show_status_placement(stdout, s, is_new);
        (void)printf("\n");
        *revision = s->revision;
    }
    if (is_over) {
        show_status_end(stdout, s);
        return;
    }
    show_status_text(s, line);
    show_line(show, line, false, clock_now_ms());
}

static enum err_code print_one(struct asked *a, struct target *t, struct err *err)
{
    enum err_code rc = target_get(t, &a->status, NULL, err);

    show_init(&a->show, stdout);
    a->show.is_tty = false; /* a line that stays need not fit the width */
    if (rc == ERR_OK)
        print_news(&a->status, &a->show, &a->revision);
    return rc;
}

static void on_change_of_one(void *ctx, enum kube_change change, const struct json *object)
{
    struct asked *a = ctx;

    if (a->is_over || a->failed.code != ERR_OK)
        return;
    if (change == KUBE_DELETED) {
        (void)err_set(&a->failed, ERR_NOT_FOUND, "SkyJob %s was deleted", a->name);
    } else if (change == KUBE_SYNCED) {
        if (!a->was_seen)
            (void)err_set(&a->failed, ERR_NOT_FOUND, "there is no SkyJob %s", a->name);
        a->is_synced = true;
    } else {
        a->was_seen = true;
        status_read(json_get(object, "status"), &a->status);
        print_news(&a->status, &a->show, &a->revision);
        a->is_over = status_is_final(&a->status);
    }
}

/* --- all jobs --- */

static enum err_code add_row(void *ctx, const struct json *skyjob, struct err *err)
{
    struct asked *a = ctx;
    struct jobs_row row;
    bool is_news;

    jobs_row_read(skyjob, &row);
    return jobs_put(&a->jobs, &row, &is_news, err);
}

static enum err_code print_all(struct asked *a, struct target *t, struct err *err)
{
    enum err_code rc =
        kube_list(t->connection.client, &t->ref, (struct kube_lister){a, add_row}, err);

    if (rc == ERR_OK && a->jobs.n == 0)
        (void)fprintf(stderr, "kubectl-skyjob: there are no SkyJobs%s%s\n",
                      a->has_all ? "" : " in namespace ", a->has_all ? "" : t->namespace);
    else if (rc == ERR_OK)
        jobs_print(&a->jobs, a->has_all, clock_wall_ms(), stdout);
    return rc;
}

/* First the table, then a line for each change, as with `kubectl get --watch`. */
static void on_change_of_any(void *ctx, enum kube_change change, const struct json *object)
{
    struct asked *a = ctx;
    struct jobs_row row;
    struct jobs_row gone;
    bool is_news = false;

    if (change == KUBE_SYNCED) {
        if (!a->is_synced)
            jobs_print(&a->jobs, a->has_all, clock_wall_ms(), stdout);
        a->is_synced = true;
        return;
    }
    jobs_row_read(object, &row);
    if (change == KUBE_DELETED) {
        is_news = jobs_take(&a->jobs, row.namespace, row.name, &gone);
        row = gone;
        (void)snprintf(row.state, sizeof row.state, "Deleted");
    } else if (jobs_put(&a->jobs, &row, &is_news, &a->failed) != ERR_OK) {
        return;
    }
    if (is_news && a->is_synced)
        jobs_print_row(&a->jobs, &row, a->has_all, clock_wall_ms(), stdout);
}

/* --- as JSON --- */

static enum err_code add_object(void *ctx, const struct json *skyjob, struct err *err)
{
    struct jsonw *w = ctx;

    (void)err; /* jsonw_finish() has it */
    jobs_write(skyjob, w);
    return ERR_OK;
}

static enum err_code print_json(struct asked *a, struct target *t, struct err *err)
{
    struct buf text = {.max = JSON_TEXT_MAX_BYTES};
    struct json *object = NULL;
    struct jsonw w;
    enum err_code rc;

    jsonw_init(&w, &text);
    if (t->name) {
        rc = target_get(t, &a->status, &object, err);
        if (rc == ERR_OK)
            jobs_write(object, &w);
    } else {
        jsonw_open_object(&w, NULL);
        jsonw_open_array(&w, "items");
        rc = kube_list(t->connection.client, &t->ref, (struct kube_lister){&w, add_object}, err);
        jsonw_close(&w);
        jsonw_close(&w);
    }
    json_free(object);
    if (rc == ERR_OK)
        rc = jsonw_finish(&w, err);
    if (rc == ERR_OK && puts(buf_text(&text)) == EOF)
        rc = err_set(err, ERR_IO, "cannot write to stdout");
    buf_deinit(&text);
    return rc;
}

/* --- following --- */

/* An outage passes. Before anything was seen it is reported instead, and so is a refusal. */
static void on_error(void *ctx, const struct err *err, int64_t wait_ms)
{
    struct asked *a = ctx;

    (void)wait_ms;
    if (!a->is_synced || err->code == ERR_DENIED || err->code == ERR_NOT_FOUND ||
        err->code == ERR_INVALID)
        a->failed = *err;
    else if (a->name && err->code != ERR_GONE)
        show_line(&a->show, err->text, true, clock_now_ms());
}

/* Until the job has ended, or Ctrl-C. */
static enum err_code follow(struct asked *a, struct target *t, struct err *err)
{
    char selector[80 + NAMES_BYTES];
    struct kube_watch watch = {
        .client = t->connection.client,
        .ref = {.resource = t->ref.resource, .namespace = t->ref.namespace},
        .watcher = {a, t->name ? on_change_of_one : on_change_of_any, on_error, NULL},
    };
    enum err_code rc = ERR_OK;

    (void)snprintf(selector, sizeof selector, "metadata.name=%s", t->name ? t->name : "");
    if (t->name)
        watch.ref.field_selector = selector;
    a->name = t->name;
    show_init(&a->show, stdout);
    interrupt_catch();
    while (rc == ERR_OK && !a->is_over) {
        int64_t wait_ms = kube_watch_step(&watch, clock_now_ms());

        rc = http_poll(t->connection.http, wait_ms < 0 || wait_ms > POLL_MS ? POLL_MS : wait_ms,
                       err);
        if (rc == ERR_OK && (fflush(stdout) != 0 || ferror(stdout)))
            rc = err_set(err, ERR_IO, "cannot write to stdout");
        if (rc == ERR_OK && a->failed.code != ERR_OK) {
            *err = a->failed;
            rc = err->code;
        }
        if (rc == ERR_OK && !a->is_over && interrupt_seen())
            rc = err_set(err, ERR_GONE, "interrupted; %s",
                         t->name ? "the job continues" : "the jobs continue");
    }
    kube_watch_deinit(&watch);
    show_end(&a->show);
    return rc;
}

/* --- the command --- */

static enum err_code run(void *ctx, struct target *t, struct err *err)
{
    struct asked *a = ctx;

    if (a->output && strcmp(a->output, "json") != 0)
        return err_set(err, ERR_INVALID, "-o: must be json, not \"%.40s\"", a->output);
    if (a->output && a->follows)
        return err_set(err, ERR_INVALID, "use --follow or -o json, not both");
    if (a->has_all && t->name)
        return err_set(err, ERR_INVALID, "use a name or --all-namespaces, not both");
    if (a->has_all)
        t->ref.namespace = NULL;
    if (a->output)
        return print_json(a, t, err);
    if (a->follows)
        return follow(a, t, err);
    return t->name ? print_one(a, t, err) : print_all(a, t, err);
}

int command_status(int argc, char **argv)
{
    struct asked a = {.follows = false};
    const struct command_option options[] = {
        {"follow", 'f', .is_set = &a.follows},
        {"all-namespaces", 'A', .is_set = &a.has_all},
        {"output", 'o', .value = &a.output},
        {.name = NULL},
    };
    int code = target_run_any(argc, argv, options, (struct target_action){&a, run});

    jobs_deinit(&a.jobs);
    return status_is(&a.status, CONDITION_FAILED) ? EXIT_FAILED : code;
}
