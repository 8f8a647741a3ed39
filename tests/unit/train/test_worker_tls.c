/* Two workers of a job with certificates, each in a process, from their first revision to the end.
 */
#include "train/worker.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "api/revision.h"
#include "base/clock.h"
#include "certificates.h"
#include "client.h"
#include "http/http.h"
#include "scratch.h"

#define SPEC                                                                                       \
    "{\"model\": {\"preset\": \"BertTiny\", \"vocabSize\": 8, \"maxPositions\": 16},"              \
    " \"data\": {\"task\": \"MNLI\", \"source\": {\"sample\": \"MNLI\"}},"                         \
    " \"training\": {\"steps\": 2, \"batchSize\": 4, \"microBatches\": 2, \"maxSequenceLength\": " \
    "16}}"
#define VOCAB       "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n"
#define UID         "6f1c"
#define NAME_OF(w)  "w" #w "-1." UID ".skyjob.internal"
#define OPERATOR    "operator." UID ".skyjob.internal"
#define PATIENCE_MS 20000

static const struct hmac_key key = {{1}};

struct running {
    struct worker_params params;
    char folder[64];  /* its certificates */
    const char *name; /* in them */
    pid_t pid;
};

static struct running workers[2];
static struct authority_pair ca;
static struct tls_identity *caller;
static struct http *http;

static void write_rows(const char *name)
{
    char text[1024] = "index\tsentence1\tsentence2\tgold_label\n";

    for (int i = 0; i < 8; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%d\ta b\tc\tneutral\n", i);
    scratch_text(name, text);
}

static int set_up(void **state)
{
    char text[HMAC_TEXT_BYTES];

    (void)setenv("TZ", "UTC", 1); /* see test_link_tls.c */
    if (scratch_make(state) != 0 || http_new(&http, NULL) != ERR_OK)
        return -1;
    assert_int_equal(mkdir(scratch_path("data"), 0755), 0);
    scratch_text("data/vocab.txt", VOCAB);
    write_rows("data/train.tsv");
    write_rows("data/dev_matched.tsv");
    hmac_to_text(key.bytes, text);
    scratch_text("key", text);
    ca = certificates_authority();
    caller = certificates_identity(&ca, &ca, OPERATOR);
    return 0;
}

static int tear_down(void **state)
{
    http_free(http);
    tls_identity_free(caller);
    authority_pair_deinit(&ca);
    return scratch_remove(state);
}

static int wait_exit(const struct running *w)
{
    int status = 0;

    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void start(int slot, const char *name)
{
    static char key_path[PATH_MAX], data_path[PATH_MAX];
    struct running *w = &workers[slot];

    (void)snprintf(key_path, sizeof key_path, "%s", scratch_path("key"));
    (void)snprintf(data_path, sizeof data_path, "%s", scratch_path("data"));
    *w = (struct running){.name = name,
                          .params = {.slot = slot,
                                     .incarnation = 1,
                                     .key_path = key_path,
                                     .certificates_dir = w->folder,
                                     .data_dir = slot == 0 ? data_path : NULL,
                                     .control_host = TCP_LOCAL,
                                     .control_port = client_free_port(),
                                     .tensor_host = TCP_LOCAL,
                                     .tensor_port = client_free_port()}};
    (void)snprintf(w->folder, sizeof w->folder, "%s/w%d", scratch, slot);
    assert_int_equal(mkdir(w->folder, 0755), 0);
    certificates_write(w->folder, &ca, name);
    w->pid = fork();
    assert_true(w->pid >= 0);
    if (w->pid > 0)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when the test fails */
    _exit(worker_run(&w->params));
}

/* As the operator calls, until the worker answers. Returns the body, to be freed. */
static struct buf call(const struct running *w, const char *method, const char *path,
                       const struct buf *body)
{
    struct signature_request signs = {method, path, buf_text(body), body->len};
    char text[2][HMAC_TEXT_BYTES], lines[2][128], url[160];
    const char *headers[] = {lines[0], lines[1], NULL};
    struct http_request request = {.method = method,
                                   .url = url,
                                   .connect_to = TCP_LOCAL,
                                   .headers = headers,
                                   .body = body->len > 0 ? body->data : NULL,
                                   .body_bytes = body->len,
                                   .tls.identity = caller};
    struct http_response answer = {0};
    int64_t end_ms = clock_now_ms() + PATIENCE_MS;
    struct err err;

    assert_int_equal(signature_make(&key, &signs, text[0], NULL), ERR_OK);
    assert_int_equal(signature_make_head(&key, &signs, text[1], NULL), ERR_OK);
    (void)snprintf(lines[0], sizeof lines[0], SIGNATURE_HEADER ": %s", text[0]);
    (void)snprintf(lines[1], sizeof lines[1], SIGNATURE_HEAD_HEADER ": %s", text[1]);
    (void)snprintf(url, sizeof url, "https://%s:%d%s", w->name, w->params.control_port, path);
    while (http_call(http, &request, &answer, &err) != ERR_OK)
        if (clock_now_ms() > end_ms)
            fail_msg("%s", err.text);
    assert_int_equal(answer.status, 200);
    return answer.body;
}

/* The first worker has so many units, the second one the rest. It goes on from these reports, and
 * halts at step `until`, if that is not 0. */
static void post_revision(int number, int n_units, const struct report *const reports[],
                          int n_reports, int64_t until)
{
    static struct revision r;
    struct plan plan = {
        .namespace = "default",
        .job = "a job",
        .uid = UID,
        .revision = number,
        .micro_batches = 2,
        .n_workers = 2,
        .workers = {{0, 1, 0, 0, n_units, "here", 1000, 1 << 28, 1, ""},
                    {1, 1, 0, n_units, 7 - n_units, "there", 1000, 1 << 28, 1, ""}}};
    struct resume last = r.resume;
    struct peers peers = {.revision = number,
                          .n = 2,
                          .list = {{TCP_LOCAL, workers[0].params.tensor_port, ""},
                                   {TCP_LOCAL, workers[1].params.tensor_port, ""}}};
    struct buf text = {.max = REVISION_TEXT_MAX_BYTES}, body = {.max = REVISION_POST_MAX_BYTES};
    struct json *spec = NULL;

    assert_int_equal(json_parse(SPEC, strlen(SPEC), &spec, NULL), ERR_OK);
    assert_int_equal(spec_parse(spec, &plan.spec, NULL), ERR_OK);
    revision_make(&plan, reports, n_reports, SOURCE_RANDOM, &last, &r);
    r.until = until;
    assert_int_equal(revision_write(&r, spec, &text, NULL), ERR_OK);
    assert_int_equal(revision_post_write(text.data, text.len, &peers, &body, NULL), ERR_OK);
    for (int i = 0; i < 2; i++) {
        struct buf answer = call(&workers[i], "POST", "/v1/revision", &body);

        buf_deinit(&answer);
    }
    json_free(spec);
    buf_deinit(&body);
    buf_deinit(&text);
}

/* Until the worker's session has come that far. */
static void wait_session(const struct running *w, enum report_session session, struct report *out)
{
    const struct buf nothing = {0};
    int64_t end_ms = clock_now_ms() + PATIENCE_MS;

    do {
        struct buf body = call(w, "GET", "/v1/report", &nothing);

        assert_int_equal(report_parse(buf_text(&body), body.len, out, NULL), ERR_OK);
        buf_deinit(&body);
        assert_true(clock_now_ms() < end_ms);
        (void)usleep(10000);
    } while (out->session != session);
}

static void halt(const struct running *w, int number)
{
    struct buf order = {.max = REVISION_ORDER_MAX_BYTES};
    struct buf answer;

    assert_int_equal(revision_order_write(number, &order, NULL), ERR_OK);
    answer = call(w, "POST", "/v1/halt", &order);
    buf_deinit(&answer);
    buf_deinit(&order);
}

static void workers_with_certificates_train_move_units_and_end(void **state)
{
    static struct report reports[2];
    const struct report *both[] = {&reports[0], &reports[1]};

    (void)state;
    start(0, NAME_OF(0));
    start(1, NAME_OF(1));
    post_revision(1, 6, NULL, 0, 1);
    for (int i = 0; i < 2; i++)
        wait_session(&workers[i], REPORT_HALTED, &reports[i]);
    post_revision(2, 4, both, 2, 0); /* two units move */
    wait_session(&workers[0], REPORT_DONE, &reports[0]);
    halt(&workers[0], 2); /* the leader is released */
    for (int i = 0; i < 2; i++)
        assert_int_equal(wait_exit(&workers[i]), EXIT_DONE);
}

static void worker_with_the_certificate_of_another_does_not_start(void **state)
{
    (void)state;
    start(0, NAME_OF(1));
    assert_int_not_equal(wait_exit(&workers[0]), EXIT_DONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(workers_with_certificates_train_move_units_and_end),
        TEST(worker_with_the_certificate_of_another_does_not_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
