/* Calls to workers that answer, refuse, or never say a word. */
#include "run/workers.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fleet/fleet.h"
#include "kube/client.h"
#include "loopback.h"

#define N_SILENT 1100

static struct http *loop;
static struct store store;
static struct workers workers = {.store = &store};
static struct observed *seen;
static struct seen_pod seen_pod;
static char document[] = "{}";
static const struct buf written = {.data = document, .len = 2, .max = 2};
static int silent_port; /* where calls go; 0: they stay with the test */
static struct fleet_handler last;
static _Alignas(16) unsigned char last_ctx[1024];
static int n_posted;
static int n_ended;
static bool posted_closes;
static struct fleet_address ended;
static int n_again;
static int64_t again_ms;

/* For the test, which answers. */
static void keep(const struct fleet_handler *handler)
{
    assert_true(handler->ctx_bytes <= sizeof last_ctx);
    last = *handler;
    last.ctx = memcpy(last_ctx, handler->ctx, handler->ctx_bytes);
}

/* Calls of the code under test end up here (see the Makefile). */
enum err_code __real_fleet_post_revision(struct fleet *f, const struct fleet_address *to,
                                         const struct buf *text, const struct peers *peers,
                                         struct fleet_handler handler, struct err *err);
enum err_code __wrap_fleet_post_revision(struct fleet *f, const struct fleet_address *to,
                                         const struct buf *text, const struct peers *peers,
                                         struct fleet_handler handler, struct err *err);

enum err_code __wrap_fleet_post_revision(struct fleet *f, const struct fleet_address *to,
                                         const struct buf *text, const struct peers *peers,
                                         struct fleet_handler handler, struct err *err)
{
    struct fleet_address silent = *to;

    n_posted++;
    posted_closes = to->closes;
    keep(&handler);
    silent.port = silent_port;
    return silent_port ? __real_fleet_post_revision(f, &silent, text, peers, handler, err) : ERR_OK;
}

enum err_code __wrap_fleet_end(struct fleet *f, const struct fleet_address *to,
                               struct fleet_handler handler, struct err *err);

enum err_code __wrap_fleet_end(struct fleet *f, const struct fleet_address *to,
                               struct fleet_handler handler, struct err *err)
{
    (void)f;
    (void)err;
    n_ended++;
    ended = *to;
    keep(&handler);
    return ERR_OK;
}

enum err_code __wrap_fleet_ask_status(struct fleet *f, const struct fleet_address *to,
                                      struct fleet_handler handler, struct err *err);

enum err_code __wrap_fleet_ask_status(struct fleet *f, const struct fleet_address *to,
                                      struct fleet_handler handler, struct err *err)
{
    (void)f;
    (void)to;
    (void)err;
    keep(&handler);
    return ERR_OK;
}

static void on_again(void *ctx, const char *job_key, int64_t delay_ms)
{
    (void)ctx;
    (void)job_key;
    n_again++;
    again_ms = delay_ms;
}

/* Job number `i` with one running pod, as the store keeps it and as a decision has seen it. */
static void add_job(int i)
{
    struct store_job *job = calloc(1, sizeof *job);
    struct store_pod *pod = calloc(1, sizeof *pod);
    struct store_family *family = calloc(1, sizeof *family);
    char key[QUEUE_KEY_BYTES];

    assert_true(job && pod && family);
    seen_pod = (struct seen_pod){.role = POD_WORKER, .incarnation = 1, .phase = POD_RUNNING};
    *seen = (struct observed){
        .has_revision = true, .revision_text = &written, .n_pods = 1, .pods = &seen_pod};
    (void)snprintf(seen->namespace, sizeof seen->namespace, "team");
    (void)snprintf(seen->name, sizeof seen->name, "job%d", i);
    seen->revision.plan.revision = 3;
    seen->revision.plan.n_workers = 1;
    seen->revision.plan.workers[0].incarnation = 1;
    (void)snprintf(seen->pods[0].name, sizeof seen->pods[0].name, "pod%d", i);
    (void)snprintf(seen->pods[0].uid, sizeof seen->pods[0].uid, "u%d", i);
    (void)snprintf(seen->pods[0].ip, sizeof seen->pods[0].ip, "127.0.0.1");
    job->has_secret = true;
    store_key("team", seen->name, key);
    assert_int_equal(map_put(&store.jobs, key, job, NULL), ERR_OK);
    memcpy(pod->uid, seen->pods[0].uid, sizeof pod->uid);
    pod->own = calloc(1, sizeof *pod->own);
    assert_non_null(pod->own);
    pod->own->seen = seen->pods[0];
    memcpy(pod->own->job_key, key, sizeof key);
    family->pods.first = family->pods.last = &pod->own->link;
    assert_int_equal(map_put(&store.families, key, family, NULL), ERR_OK);
    store_key("team", seen->pods[0].name, key);
    assert_int_equal(map_put(&store.pods, key, pod, NULL), ERR_OK);
}

static struct store_own *own(void)
{
    return store_find_own(&store, "team", seen->pods[0].name, seen->pods[0].uid);
}

static int set_up(void **state)
{
    (void)state;
    store = (struct store){.listener = {.on_enqueue = on_again}};
    n_posted = n_ended = n_again = silent_port = 0;
    workers.may_call = NULL;
    seen = calloc(1, sizeof *seen);
    if (!seen || http_new(&loop, NULL) != ERR_OK)
        return -1;
    return fleet_new(loop, &workers.fleet, NULL) == ERR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    fleet_free(workers.fleet);
    http_free(loop);
    store_deinit(&store);
    free(seen);
    return 0;
}

static void answer(enum err_code code)
{
    struct err err = {.code = code};

    last.on_answer(last.ctx, &(struct fleet_answer){.report = NULL}, &err);
}

static void tell(void)
{
    assert_int_equal(workers_post_revision(&workers, seen, seen->pods[0].name, NULL), ERR_OK);
}

static void workers_pauses_longer_after_each_call_without_an_answer(void **state)
{
    int64_t want_ms = CONTACT_RETRY_MS;

    (void)state;
    add_job(0);
    for (int i = 1; i <= 12; i++) {
        tell();
        assert_int_equal(n_posted, i);
        answer(i % 2 ? ERR_TIMEOUT : ERR_PROTOCOL);
        assert_in_range(again_ms, want_ms - 100, want_ms);
        tell(); /* too early */
        assert_int_equal(n_posted, i);
        assert_in_range(again_ms, want_ms - 200, want_ms);
        own()->contact.call_after_ms = clock_now_ms();
        want_ms = 2 * want_ms < WORKERS_RETRY_MAX_MS ? 2 * want_ms : WORKERS_RETRY_MAX_MS;
    }
    assert_int_equal(want_ms, WORKERS_RETRY_MAX_MS);
}

static void workers_forgets_pauses_after_an_answer(void **state)
{
    (void)state;
    add_job(0);
    for (int i = 0; i < 5; i++) {
        own()->contact.call_after_ms = 0;
        tell();
        answer(ERR_IO);
    }
    assert_int_equal(own()->contact.n_unanswered, 5);
    own()->contact.call_after_ms = 0;
    tell();
    answer(ERR_OK);
    assert_int_equal(own()->contact.n_unanswered, 0);
    assert_int_equal(own()->contact.call_after_ms, 0);
    assert_int_equal(own()->contact.accepted, 3);
}

/* Ask the leader, who answers with this. Returns whether the job is looked at for it. */
static bool is_looked_at(enum progress_state its_state, int64_t step)
{
    const struct progress progress = {.state = its_state, .revision = 3, .step = step};
    struct err none = {.code = ERR_OK};
    int n_before = n_again;

    assert_int_equal(workers_ask_status(&workers, seen, 0, NULL), ERR_OK);
    last.on_answer(last.ctx, &(struct fleet_answer){.progress = &progress}, &none);
    return n_again > n_before;
}

static void a_job_is_looked_at_again_only_for_news_of_its_leader(void **state)
{
    (void)state;
    add_job(0);
    assert_true(is_looked_at(PROGRESS_WAITING, 0));
    assert_true(is_looked_at(PROGRESS_TRAINING, 0));
    assert_true(is_looked_at(PROGRESS_TRAINING, 1)); /* the first step */
    assert_false(is_looked_at(PROGRESS_TRAINING, 2));
    assert_false(is_looked_at(PROGRESS_TRAINING, 50));
    assert_int_equal(store_find_job(&store, "team/job0")->leader.step, 50);
    assert_true(is_looked_at(PROGRESS_DONE, 60));
}

/* The job is gone, and a pod is left of it. */
static void lose_job(void)
{
    char key[QUEUE_KEY_BYTES];

    store_key("team", seen->name, key);
    free(map_take(&store.jobs, key));
    own()->is_to_end = true;
    own()->key = (struct hmac_key){{7}};
}

static void end(void)
{
    workers_order_ends(&workers, own()->job_key);
}

static void workers_orders_an_end_until_it_is_taken(void **state)
{
    static const struct hmac_key zeros;

    (void)state;
    add_job(0);
    lose_job();
    workers_order_ends(&workers, "team/other");
    assert_int_equal(n_ended, 0);
    end();
    end(); /* it is on its way */
    assert_int_equal(n_ended, 1);
    assert_int_equal(ended.key.bytes[0], 7);
    assert_string_equal(ended.host, "127.0.0.1");
    assert_int_equal(ended.port, PORT_CONTROL);
    answer(ERR_IO);
    assert_in_range(again_ms, CONTACT_RETRY_MS - 100, CONTACT_RETRY_MS);
    end(); /* too early */
    assert_int_equal(n_ended, 1);
    assert_int_equal(n_again, 2);
    own()->contact.call_after_ms = 0;
    end();
    assert_int_equal(n_ended, 2);
    answer(ERR_OK);
    assert_false(own()->is_to_end);
    assert_true(own()->calls.is_ended);
    assert_memory_equal(&own()->key, &zeros, sizeof zeros);
    end();
    assert_int_equal(n_ended, 2);
    assert_int_equal(n_again, 2);
}

static void workers_orders_an_end_once_from_a_worker_that_refuses(void **state)
{
    (void)state;
    add_job(0);
    lose_job();
    end();
    answer(ERR_INVALID); /* it does not know the order */
    own()->contact.call_after_ms = 0;
    end();
    assert_int_equal(n_ended, 1);
}

static void workers_orders_an_end_after_the_call_that_is_under_way(void **state)
{
    (void)state;
    add_job(0);
    tell();
    lose_job();
    end();
    assert_int_equal(n_ended, 0);
    answer(ERR_OK);
    assert_int_equal(n_again, 1);
    assert_int_equal(again_ms, 0);
    end();
    assert_int_equal(n_ended, 1);
}

static void workers_orders_no_end_where_nothing_runs(void **state)
{
    (void)state;
    add_job(0);
    lose_job();
    own()->seen.phase = POD_FAILED;
    end();
    assert_int_equal(n_ended, 0);
    assert_false(own()->is_to_end);
}

/* A listener that accepts no one: its queue is soon full, and then SYNs are swallowed. */
static int listen_silently(int *out_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t n = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                listen(fd, 1) == 0 && getsockname(fd, (struct sockaddr *)&address, &n) == 0);
    *out_port = ntohs(address.sin_port);
    return fd;
}

static void workers_keeps_half_of_its_calls_for_workers_that_answer(void **state)
{
    int fd = listen_silently(&silent_port);

    (void)state;
    for (int i = 0; i < WORKERS_CALLS_MAX; i++) {
        add_job(i);
        own()->contact.n_unanswered = 1;
        tell();
    }
    assert_int_equal(n_posted, WORKERS_CALLS_MAX / 2);
    for (int i = 0; i < WORKERS_CALLS_MAX; i++) {
        add_job(WORKERS_CALLS_MAX + i);
        tell();
    }
    assert_int_equal(n_posted, WORKERS_CALLS_MAX);
    assert_int_equal(n_again, WORKERS_CALLS_MAX); /* the others try again later */
    assert_int_equal(again_ms, WORKERS_BUSY_MS);
    (void)close(fd);
}

static void workers_that_never_answer_leave_room_for_calls_to_the_api_server(void **state)
{
    static const struct loopback_reply replies[] = {
        {.expect = "GET /api/v1/nodes/n", .body = "{}"}};
    struct kube_ref node = {.resource = &kube_nodes, .name = "n"};
    struct kube_config config = {.namespace = strdup("default")};
    struct loopback *server = loopback_start(replies, 1);
    struct kube_client *client = NULL;
    struct json *object = NULL;
    struct err err = {0};
    int fd = listen_silently(&silent_port);

    (void)state;
    assert_non_null(server);
    assert_true(asprintf(&config.server, "http://127.0.0.1:%d", loopback_port(server)) > 0);
    assert_int_equal(kube_client_new(loop, &config, NULL, &client, &err), ERR_OK);
    for (int i = 0; i < N_SILENT; i++) {
        add_job(i);
        tell();
    }
    assert_int_equal(n_posted, WORKERS_CALLS_MAX);
    if (kube_get(client, &node, &object, &err) != ERR_OK)
        fail_msg("%s", err.text);
    json_free(object);
    kube_client_free(client);
    loopback_stop(server);
    (void)close(fd);
}

/* The operator could not prove who it is. */
static bool leads(void *ctx)
{
    return *(bool *)ctx;
}

static void workers_calls_nobody_while_another_operator_may_lead(void **state)
{
    bool is_leader = false;

    (void)state;
    workers.may_call = leads;
    workers.ctx = &is_leader;
    add_job(0);
    tell();
    own()->is_to_end = true;
    workers_order_ends(&workers, "team/job0");
    assert_int_equal(n_posted + n_ended, 0);
    assert_int_equal(again_ms, WORKERS_BUSY_MS);
    is_leader = true;
    tell();
    assert_int_equal(n_posted, 1);
}

static void workers_calls_no_worker_with_a_certificate_without_a_ca(void **state)
{
    struct err err;

    (void)state;
    add_job(0);
    own()->seen.has_tls = true;
    assert_int_equal(workers_post_revision(&workers, seen, seen->pods[0].name, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "--authority"));
    assert_int_equal(n_posted, 0);
}

static void workers_keeps_only_connections_to_leaders_once_many_jobs_train(void **state)
{
    static const struct {
        int n_training, slot;
        bool closes;
    } cases[] = {{WORKERS_KEPT_JOBS, 0, false},
                 {WORKERS_KEPT_JOBS, 1, false},
                 {WORKERS_KEPT_JOBS + 1, 0, false},
                 {WORKERS_KEPT_JOBS + 1, 1, true}};

    (void)state;
    add_job(0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        store.n_training = cases[i].n_training;
        own()->seen.slot = cases[i].slot;
        tell();
        assert_int_equal(posted_closes, cases[i].closes);
        answer(ERR_CONFLICT);
        own()->contact = (struct contact){.is_busy = false};
    }
    assert_int_equal(n_posted, 4);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(workers_pauses_longer_after_each_call_without_an_answer),
        TEST(workers_forgets_pauses_after_an_answer),
        TEST(workers_calls_nobody_while_another_operator_may_lead),
        TEST(workers_calls_no_worker_with_a_certificate_without_a_ca),
        TEST(workers_keeps_only_connections_to_leaders_once_many_jobs_train),
        TEST(a_job_is_looked_at_again_only_for_news_of_its_leader),
        TEST(workers_orders_an_end_until_it_is_taken),
        TEST(workers_orders_an_end_once_from_a_worker_that_refuses),
        TEST(workers_orders_an_end_after_the_call_that_is_under_way),
        TEST(workers_orders_no_end_where_nothing_runs),
        TEST(workers_keeps_half_of_its_calls_for_workers_that_answer),
        TEST(workers_that_never_answer_leave_room_for_calls_to_the_api_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
