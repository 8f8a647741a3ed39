/* The calls of a local run, answered by workers that only keep their state. */
#include "fleet/follow.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "http/server.h"

#define PATIENCE_MS 10000
#define N_WORKERS   3
#define FIRST_PORT  28761

/* What a worker would be asked and told; the server's thread answers, under `lock`. */
static struct worker {
    struct server *server;
    int port;
    struct report report;
    struct progress progress;
    atomic_int n_posts, n_halts, n_orders; /* without the lock */
    _Atomic int64_t ordered;               /* the last checkpoint, likewise */
    bool refuses;
    bool ignores_halts; /* its session goes on */
} workers[N_WORKERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct http *loop;
static struct fleet *fleet;
static struct follow *follow;
static struct json *spec;

static void answer_request(struct worker *w, const struct server_request *r,
                           struct server_answer *out)
{
    struct revision revision;
    struct peers peers;
    int64_t order;
    int number;

    out->type = "application/json";
    if (strcmp(r->path, "/v1/report") == 0) {
        (void)!report_write(&w->report, &out->body, NULL);
    } else if (strcmp(r->path, "/v1/status") == 0) {
        (void)!progress_write(&w->progress, &out->body, NULL);
    } else if (strcmp(r->path, "/v1/halt") == 0 &&
               revision_order_parse(r->body, r->n_body, &number, NULL) == ERR_OK) {
        w->n_halts++;
        if (w->report.session == REPORT_RUNNING && !w->ignores_halts)
            w->report.session = REPORT_HALTED;
    } else if (strcmp(r->path, "/v1/checkpoint") == 0 &&
               progress_order_parse(r->body, r->n_body, &order, NULL) == ERR_OK) {
        w->ordered = order;
        w->n_orders++;
    } else if (!w->refuses &&
               revision_post_parse(r->body, r->n_body, &revision, &peers, NULL) == ERR_OK) {
        w->n_posts++;
        w->report.revision = w->progress.revision = revision.plan.revision;
        w->report.session = REPORT_RUNNING;
    } else {
        out->status = 409;
        (void)!buf_addf(&out->body, NULL, "has another\n");
    }
}

static void on_request(void *ctx, const struct server_request *r, struct server_answer *out)
{
    pthread_mutex_lock(&lock);
    answer_request(ctx, r, out);
    pthread_mutex_unlock(&lock);
}

static int set_up(void **state)
{
    static const char text[] = "{\"model\": {\"preset\": \"BertTiny\"}, "
                               "\"data\": {\"source\": {\"sample\": \"MNLI\"}}}";
    int port = FIRST_PORT;

    (void)state;
    assert_int_equal(json_parse(text, sizeof text - 1, &spec, NULL), ERR_OK);
    assert_int_equal(http_new(&loop, NULL), ERR_OK);
    assert_int_equal(fleet_new(loop, &fleet, NULL), ERR_OK);
    assert_int_equal(follow_new(fleet, FOLLOW_ASK_MS, &follow, NULL), ERR_OK);
    for (int i = 0; i < N_WORKERS; i++) {
        struct worker *w = &workers[i];
        struct follow_worker worker = {.id = {i, 1}, .host = "127.0.0.1", .port = 1};
        enum err_code rc = ERR_IO;

        *w = (struct worker){.report = {.slot = i, .incarnation = 1}, .progress = {.slot = i}};
        while (rc != ERR_OK && port < FIRST_PORT + 1000) /* others may be in use */
            rc = server_open("127.0.0.1", w->port = port++,
                             (struct server_handler){.ctx = w, .on_request = on_request},
                             &w->server, NULL);
        assert_int_equal(rc, ERR_OK);
        worker.control = (struct fleet_address){.host = "127.0.0.1", .port = w->port};
        assert_int_equal(follow_add(follow, &worker, NULL), ERR_OK);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fleet_free(fleet);
    follow_free(follow);
    http_free(loop);
    for (int i = 0; i < N_WORKERS; i++)
        server_close(workers[i].server);
    json_free(spec);
    return 0;
}

/* Revision `number` of the first `n` workers; the last of all leaves if `leaves`. */
static struct revision revision_of(int number, int n, bool leaves)
{
    static const int units[] = {7, 3, 2};
    struct revision r = {.plan = {.namespace = "d",
                                  .job = "j",
                                  .uid = "u",
                                  .revision = number,
                                  .micro_batches = 8,
                                  .n_workers = n,
                                  .summary = {.explanation = "e"}},
                         .resume = {.lineage = 1, .n_sources = 1, .sources = {{.n_units = 7}}},
                         .n_leaving = leaves,
                         .leaving = {{N_WORKERS - 1, 1}}};

    for (int i = 0, next = 0; i < n; i++) {
        struct plan_worker *w = &r.plan.workers[i];

        *w = (struct plan_worker){.slot = i, .incarnation = 1, .first_unit = next};
        w->n_units = i == n - 1 ? 7 - next : units[n - 1];
        next += w->n_units;
    }
    return r;
}

static void revise(int number, int n, bool leaves)
{
    struct revision r = revision_of(number, n, leaves);

    assert_int_equal(follow_revise(follow, &r, spec, NULL), ERR_OK);
}

static void turn(void)
{
    int64_t wait_ms = follow_step(follow, clock_now_ms());

    assert_in_range(wait_ms, 0, FOLLOW_ASK_MS);
    assert_int_equal(http_poll(loop, wait_ms < 10 ? wait_ms : 10, NULL), ERR_OK);
}

static void run_until(enum recover_phase phase)
{
    int64_t until = clock_now_ms() + PATIENCE_MS;

    while (follow_phase(follow) != phase && clock_now_ms() < until)
        turn();
    assert_int_equal(follow_phase(follow), phase);
}

/* Long enough for several calls to each worker. */
static void run_on(void)
{
    int64_t until = clock_now_ms() + 3 * FOLLOW_ASK_MS;

    while (clock_now_ms() < until)
        turn();
}

static void set_session(int worker, enum report_session session)
{
    pthread_mutex_lock(&lock);
    workers[worker].report.session = session;
    pthread_mutex_unlock(&lock);
}

static void set_leader(enum progress_state state, int64_t step)
{
    pthread_mutex_lock(&lock);
    workers[0].progress.state = state;
    workers[0].progress.step = step;
    pthread_mutex_unlock(&lock);
}

static void follow_tells_all_workers_once_and_watches_the_leader(void **state)
{
    (void)state;
    assert_int_equal(follow_phase(follow), RECOVER_TELL);
    run_on();
    revise(1, N_WORKERS, false);
    assert_int_equal(follow_phase(follow), RECOVER_TELL);
    assert_null(follow_progress(follow));
    set_leader(PROGRESS_TRAINING, 41);
    run_until(RECOVER_RUN);
    run_on();
    assert_int_equal(follow_phase(follow), RECOVER_RUN);
    assert_int_equal(follow_progress(follow)->step, 41);
    for (int i = 0; i < N_WORKERS; i++) {
        assert_int_equal(workers[i].n_posts, 1);
        assert_int_equal(workers[i].n_halts, 0);
    }
}

static void follow_halts_all_when_one_session_has_ended(void **state)
{
    const struct report *reports[PEERS_MAX];

    (void)state;
    revise(1, N_WORKERS, false);
    run_until(RECOVER_RUN);
    set_session(1, REPORT_HALTED);
    run_until(RECOVER_REVISE);
    assert_int_equal(follow_reports(follow, reports), N_WORKERS);
    for (int i = 0; i < N_WORKERS; i++)
        assert_int_equal(reports[i]->session, REPORT_HALTED);
    revise(2, N_WORKERS, false);
    run_until(RECOVER_RUN);
    for (int i = 0; i < N_WORKERS; i++)
        assert_int_equal(workers[i].n_posts, 2);
}

/* What it holds may change until then, and until it is known to be gone. */
static void follow_waits_for_a_session_that_runs(void **state)
{
    const struct report *reports[PEERS_MAX];

    (void)state;
    workers[2].ignores_halts = true;
    revise(1, N_WORKERS, false);
    run_until(RECOVER_RUN);
    follow_halt(follow);
    run_on();
    assert_int_equal(follow_phase(follow), RECOVER_HALT);
    assert_int_equal(follow_overdue(follow, RECOVER_PATIENCE, clock_now_ms()), -1);
    assert_int_equal(follow_overdue(follow, RECOVER_PATIENCE, clock_now_ms() + RECOVER_HALT_MS), 2);
    follow_remove(follow, 2);
    assert_int_equal(follow_phase(follow), RECOVER_REVISE);
    assert_int_equal(follow_reports(follow, reports), 2);
}

static void follow_knows_a_worker_that_is_asked_to_halt_and_does_not_answer(void **state)
{
    const struct recover_patience patience = {.halt_ms = INT64_MAX, .silent_ms = 300};

    (void)state;
    revise(1, N_WORKERS, false);
    run_until(RECOVER_RUN);
    server_close(workers[1].server);
    workers[1].server = NULL;
    run_on();
    assert_int_equal(follow_overdue(follow, patience, clock_now_ms()), -1);
    follow_halt(follow);
    run_until(RECOVER_HALT);
    for (int64_t end_ms = clock_now_ms() + PATIENCE_MS;
         follow_overdue(follow, patience, clock_now_ms()) != 1;) {
        assert_true(clock_now_ms() < end_ms);
        run_on();
    }
}

static void follow_ends_a_worker_that_leaves_once_the_others_have_gone_on(void **state)
{
    (void)state;
    revise(1, N_WORKERS - 1, true);
    run_until(RECOVER_RUN);
    run_on();
    assert_int_equal(workers[2].n_halts, 0);
    set_leader(PROGRESS_TRAINING, 1);
    run_on();
    assert_true(workers[2].n_halts > 0);
    assert_int_equal(workers[1].n_halts, 0);
    follow_remove(follow, 2);
    run_on();
    assert_int_equal(follow_phase(follow), RECOVER_RUN);
}

static void follow_releases_the_leader_when_it_is_told(void **state)
{
    (void)state;
    revise(1, N_WORKERS, false);
    run_until(RECOVER_RUN);
    set_leader(PROGRESS_DONE, 30);
    run_until(RECOVER_END);
    set_session(2, REPORT_HALTED); /* the end did not reach it: the job is over all the same */
    run_on();
    assert_int_equal(workers[0].n_halts, 0);
    follow_release(follow);
    run_on();
    assert_true(workers[0].n_halts > 1); /* again and again, until it is gone */
    assert_int_equal(workers[1].n_halts, 0);
    assert_int_equal(follow_phase(follow), RECOVER_END);
    assert_int_equal(follow_progress(follow)->step, 30);
}

/* Also from the leader of a later revision, as long as it is not known to be written. */
static void follow_orders_a_checkpoint_once_from_each_leader(void **state)
{
    (void)state;
    follow_order_checkpoint(follow, 7);
    revise(1, N_WORKERS, false);
    set_leader(PROGRESS_TRAINING, 1);
    run_until(RECOVER_RUN);
    run_on();
    assert_int_equal(workers[0].n_orders, 1);
    assert_int_equal(workers[0].ordered, 7);
    assert_int_equal(workers[1].n_orders, 0);
    follow_order_checkpoint(follow, 8);
    run_on();
    assert_int_equal(workers[0].n_orders, 2);
    assert_int_equal(workers[0].ordered, 8);
    set_session(1, REPORT_HALTED);
    run_until(RECOVER_REVISE);
    revise(2, N_WORKERS, false);
    run_until(RECOVER_RUN);
    run_on();
    assert_int_equal(workers[0].n_orders, 2);
}

static void follow_has_the_reason_of_a_refusal(void **state)
{
    (void)state;
    workers[1].refuses = true;
    revise(1, N_WORKERS, false);
    for (int i = 0; i < 500 && !follow_refusal(follow); i++)
        turn();
    assert_non_null(follow_refusal(follow));
    assert_non_null(strstr(follow_refusal(follow), "worker 1 at 127.0.0.1:"));
    assert_non_null(strstr(follow_refusal(follow), "worker answered 409: has another"));
    assert_int_equal(follow_phase(follow), RECOVER_TELL);
}

static void follow_knows_only_workers_that_were_added(void **state)
{
    struct revision r = revision_of(1, N_WORKERS, false);
    struct err err;

    (void)state;
    r.plan.workers[1].incarnation = 2;
    assert_int_equal(follow_revise(follow, &r, spec, &err), ERR_INVALID);
    assert_string_equal(err.text, "revision 1: worker 1 was not added");
    r = revision_of(1, N_WORKERS, false);
    follow_remove(follow, 2);
    follow_remove(follow, 2);
    assert_int_equal(follow_revise(follow, &r, spec, &err), ERR_INVALID);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(follow_tells_all_workers_once_and_watches_the_leader),
        TEST(follow_halts_all_when_one_session_has_ended),
        TEST(follow_waits_for_a_session_that_runs),
        TEST(follow_knows_a_worker_that_is_asked_to_halt_and_does_not_answer),
        TEST(follow_ends_a_worker_that_leaves_once_the_others_have_gone_on),
        TEST(follow_releases_the_leader_when_it_is_told),
        TEST(follow_orders_a_checkpoint_once_from_each_leader),
        TEST(follow_has_the_reason_of_a_refusal),
        TEST(follow_knows_only_workers_that_were_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
