#include "train/worker.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "api/revision.h"
#include "base/hmac.h"
#include "client.h"
#include "scratch.h"

#define SPEC                                                                                       \
    "{\"model\": {\"preset\": \"BertTiny\", \"vocabSize\": 8, \"maxPositions\": 16},"              \
    " \"data\": {\"task\": \"MNLI\", \"source\": {\"sample\": \"MNLI\"}},"                         \
    " \"training\": {\"steps\": 2, \"batchSize\": 4, \"microBatches\": 2, \"maxSequenceLength\": " \
    "16}}"
#define VOCAB  "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n"
#define N_ROWS 8
#define TRIES  20000 /* of a millisecond each, before a test is given up */

static const struct hmac_key key = {{1}};

/* One of a few, each good until it comes round again. */
static const char *in_folder(const char *name)
{
    static char paths[8][128];
    static int next;
    char *path = paths[next++ % 8];

    (void)snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
    return path;
}

static void write_rows(const char *name)
{
    static const char *const labels[] = {"neutral", "entailment", "contradiction"};
    char text[1024] = "index\tsentence1\tsentence2\tgold_label\n";

    for (int i = 0; i < N_ROWS; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%d\ta b\tc\t%s\n", i,
                       labels[i % 3]);
    scratch_text(name, text);
}

/* Of one worker or, with the head elsewhere, two. */
static struct plan plan_of(int revision, int n_workers)
{
    struct plan p = {.namespace = "default",
                     .job = "a job",
                     .uid = "6f1c",
                     .revision = revision,
                     .micro_batches = 2,
                     .n_workers = n_workers,
                     .workers = {{0, 1, 0, 0, 7, "here", 1000, 1 << 28, 1, ""},
                                 {1, 1, 0, 6, 1, "there", 1000, 1 << 28, 1, ""}}};

    if (n_workers == 2)
        p.workers[0].n_units = 6;
    return p;
}

static int set_up(void **state)
{
    char text[HMAC_TEXT_BYTES];

    if (scratch_make(state) != 0)
        return -1;
    assert_int_equal(mkdir(in_folder("data"), 0755), 0);
    scratch_text("data/vocab.txt", VOCAB);
    write_rows("data/train.tsv");
    write_rows("data/dev_matched.tsv");
    hmac_to_text(key.bytes, text);
    scratch_text("key", text);
    return 0;
}

static void read_end(struct progress *out)
{
    struct buf text = {.max = PROGRESS_TEXT_MAX_BYTES};

    assert_int_equal(file_read(in_folder("end.json"), &text, NULL), ERR_OK);
    assert_int_equal(progress_parse(buf_text(&text), text.len, out, NULL), ERR_OK);
    buf_deinit(&text);
}

/* Worker 0, in a thread. */
struct running {
    struct worker_params params;
    pthread_t thread;
    int code;
};

static void *run_thread(void *arg)
{
    struct running *w = arg;

    w->code = worker_run(&w->params);
    return NULL;
}

static atomic_int n_ends;

static void note_end(void)
{
    n_ends++;
}

static void start_saving_worker(struct running *w, const char *data, const char *output,
                                const char *checkpoints)
{
    int fd = -1;

    *w = (struct running){.params = {.slot = 0,
                                     .incarnation = 1,
                                     .key_path = in_folder("key"),
                                     .data_dir = data,
                                     .output_dir = output,
                                     .checkpoints_dir = checkpoints,
                                     .control_host = TCP_LOCAL,
                                     .control_port = client_free_port(),
                                     .tensor_host = TCP_LOCAL,
                                     .tensor_port = client_free_port(),
                                     .termination_path = in_folder("end.json"),
                                     .on_end = note_end}};
    n_ends = 0;
    assert_int_equal(pthread_create(&w->thread, NULL, run_thread, w), 0);
    for (int i = 0; i < TRIES && fd < 0; i++, usleep(1000))
        fd = tcp_connect(TCP_LOCAL, w->params.control_port);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void start_worker(struct running *w, const char *data, const char *output)
{
    start_saving_worker(w, data, output, NULL);
}

static int wait_exit(struct running *w)
{
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    return w->code;
}

static void order_halt(const struct running *w, int number)
{
    char body[32];

    (void)snprintf(body, sizeof body, "{\"revision\":%d}", number);
    assert_int_equal(client_call(w->params.control_port, "POST", "/v1/halt", body, &key), 200);
}

/* From step 0, where units begin with `start`; worker 1, if it is in the plan, is at `port`. */
static void post_start(const struct running *w, int number, int n_workers, int port,
                       enum source_kind start)
{
    static struct revision r;
    struct plan plan = plan_of(number, n_workers);
    struct peers peers = {.revision = number,
                          .n = n_workers,
                          .list = {{TCP_LOCAL, w->params.tensor_port, ""}, {TCP_LOCAL, port, ""}}};
    struct buf text = {.max = REVISION_TEXT_MAX_BYTES}, body = {.max = REVISION_POST_MAX_BYTES};
    struct json *spec = NULL;

    assert_int_equal(json_parse(SPEC, strlen(SPEC), &spec, NULL), ERR_OK);
    assert_int_equal(spec_parse(spec, &plan.spec, NULL), ERR_OK);
    revision_make(&plan, NULL, 0, start, &(struct resume){.lineage = number - 1}, &r);
    assert_int_equal(revision_write(&r, spec, &text, NULL), ERR_OK);
    assert_int_equal(revision_post_write(text.data, text.len, &peers, &body, NULL), ERR_OK);
    assert_int_equal(
        client_call(w->params.control_port, "POST", "/v1/revision", buf_text(&body), &key), 200);
    json_free(spec);
    buf_deinit(&body);
    buf_deinit(&text);
}

static void post_revision(const struct running *w, int number, int n_workers, int port)
{
    post_start(w, number, n_workers, port, SOURCE_RANDOM);
}

static const char *ask(const struct running *w, const char *path)
{
    const char *body;

    assert_int_equal(client_call(w->params.control_port, "GET", path, "", &key), 200);
    body = strstr(client_answer, "\r\n\r\n");
    assert_non_null(body);
    return body + 4;
}

static void wait_session(const struct running *w, enum report_session session, struct report *out)
{
    for (int i = 0; i < TRIES; i++, usleep(1000)) {
        const char *text = ask(w, "/v1/report");

        assert_int_equal(report_parse(text, strlen(text), out, NULL), ERR_OK);
        if (out->session == session)
            return;
    }
    fail_msg("the session does not become %s", report_session_names[session]);
}

static void wait_state(const struct running *w, enum progress_state state)
{
    for (int i = 0; i < TRIES; i++, usleep(1000)) {
        const char *text = ask(w, "/v1/status");
        struct progress p;

        assert_int_equal(progress_parse(text, strlen(text), &p, NULL), ERR_OK);
        if (p.state == state)
            return;
    }
    fail_msg("the worker does not become %s", progress_state_names[state]);
}

/* Run one worker of one revision to its end; its termination message goes into *out. */
static int run_worker(const char *data, const char *output, bool is_well, struct progress *out)
{
    static struct running w;
    static struct report r;
    int code;

    start_worker(&w, data, output);
    post_revision(&w, 1, 1, 0);
    if (is_well) {
        wait_session(&w, REPORT_DONE, &r);
        order_halt(&w, 1); /* releases it */
    }
    code = wait_exit(&w);
    read_end(out);
    return code;
}

/* Hidden folders of revisions in `output`. */
static int count_aside(const char *output)
{
    DIR *dir = opendir(output);
    struct dirent *entry;
    int n = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        n += strncmp(entry->d_name, ".skyjob-", 8) == 0 && strstr(entry->d_name, "-r1");
    closedir(dir);
    return n;
}

static void worker_leaves_the_model_in_the_output(void **state)
{
    struct progress end;
    struct stat st;

    (void)state;
    assert_int_equal(run_worker(in_folder("data"), in_folder("model"), true, &end), EXIT_DONE);
    assert_int_equal(end.state, PROGRESS_DONE);
    assert_int_equal(stat(in_folder("model/model.safetensors"), &st), 0);
    assert_int_equal(stat(in_folder("model/config.json"), &st), 0);
    assert_int_equal(count_aside(in_folder("model")), 0);
}

static void worker_refuses_an_output_that_cannot_be_written_before_it_trains(void **state)
{
    struct progress end;

    (void)state;
    scratch_text("file", "no folder");
    assert_int_equal(run_worker(in_folder("data"), in_folder("file"), false, &end), EXIT_CONFIG);
    assert_int_equal(end.cause, PROGRESS_CAUSE_CONFIG);
    assert_int_equal(end.step, 0);
    assert_non_null(strstr(end.error, "/file cannot be written"));
}

static void worker_that_fails_before_it_saves_leaves_no_folder(void **state)
{
    struct progress end;

    (void)state;
    assert_int_equal(mkdir(in_folder("nothing"), 0755), 0);
    assert_int_equal(run_worker(in_folder("nothing"), in_folder("unused"), false, &end),
                     EXIT_FAILED);
    assert_int_equal(end.cause, PROGRESS_CAUSE_DATA_MISSING);
    assert_int_equal(count_aside(in_folder("unused")), 0);
}

/* Here the process stays, and so does the worker. */
static void worker_that_is_ordered_to_end_leaves_it_to_its_process(void **state)
{
    static struct running w;
    static struct report r;

    (void)state;
    start_worker(&w, in_folder("data"), NULL);
    post_revision(&w, 1, 1, 0);
    wait_session(&w, REPORT_DONE, &r);
    assert_int_equal(n_ends, 0);
    assert_int_equal(client_call(w.params.control_port, "POST", "/v1/end", "", &key), 200);
    for (int i = 0; i < TRIES && n_ends == 0; i++)
        (void)usleep(1000);
    assert_int_equal(n_ends, 1);
    order_halt(&w, 1);
    assert_int_equal(wait_exit(&w), EXIT_DONE);
}

static void order_checkpoint(const struct running *w)
{
    assert_int_equal(
        client_call(w->params.control_port, "POST", "/v1/checkpoint", "{\"order\":77}", &key), 200);
}

/* At the end of the step, and it is known at the end of the next one; the last step's is written
 * anyway. */
static void worker_writes_a_checkpoint_on_command_once(void **state)
{
    static struct running w;
    static struct report r;
    struct progress end;

    (void)state;
    start_saving_worker(&w, in_folder("data"), NULL, in_folder("points"));
    order_checkpoint(&w);
    post_revision(&w, 1, 1, 0);
    order_checkpoint(&w);
    wait_session(&w, REPORT_DONE, &r);
    order_halt(&w, 1);
    assert_int_equal(wait_exit(&w), EXIT_DONE);
    read_end(&end);
    assert_int_equal(end.ordered.order, 77);
    assert_int_equal(end.ordered.step, 1);
    assert_int_equal(r.n_checkpoints, 2);
    assert_int_equal(r.checkpoints[1].end.step, 1);
}

static void worker_without_a_store_writes_no_checkpoint_on_command(void **state)
{
    static struct running w;
    static struct report r;
    struct progress end;

    (void)state;
    start_worker(&w, in_folder("data"), NULL);
    order_checkpoint(&w);
    post_revision(&w, 1, 1, 0);
    wait_session(&w, REPORT_DONE, &r);
    order_halt(&w, 1);
    assert_int_equal(wait_exit(&w), EXIT_DONE);
    read_end(&end);
    assert_int_equal(end.ordered.order, 0);
}

/* Reading the data would fail, as it does with the next revision. */
static void worker_reads_nothing_in_a_session_that_was_halted_before(void **state)
{
    static struct running w;
    static struct report r;
    struct progress end;

    (void)state;
    (void)mkdir(in_folder("nothing"), 0755);
    start_worker(&w, in_folder("nothing"), NULL);
    order_halt(&w, 1);
    post_revision(&w, 1, 1, 0);
    wait_session(&w, REPORT_HALTED, &r);
    assert_int_equal(r.cause, PROGRESS_CAUSE_NONE);
    assert_int_equal(r.n_runs, 0);
    post_revision(&w, 2, 1, 0);
    assert_int_equal(wait_exit(&w), EXIT_FAILED);
    read_end(&end);
    assert_int_equal(end.cause, PROGRESS_CAUSE_DATA_MISSING);
}

/* A worker in revision 1, whose neighbour accepts the connection and never answers. Returns the
 * neighbour's socket. */
static int start_connecting(struct running *w)
{
    int port = 0;
    int mute = tcp_listen(TCP_LOCAL, 0, &port);

    assert_true(mute >= 0);
    start_worker(w, in_folder("data"), NULL);
    post_revision(w, 1, 2, port);
    wait_state(w, PROGRESS_WAITING);
    return mute;
}

static void worker_is_halted_while_it_connects_and_goes_on_with_the_next_revision(void **state)
{
    static struct running w;
    static struct report r;
    struct progress end;
    int mute = start_connecting(&w);

    (void)state;
    order_halt(&w, 1);
    wait_session(&w, REPORT_HALTED, &r);
    assert_int_equal(r.cause, PROGRESS_CAUSE_NONE);
    assert_int_equal(r.n_runs, 1);
    assert_int_equal(r.runs[0].n_units, 6);
    post_revision(&w, 2, 1, 0);
    wait_session(&w, REPORT_DONE, &r);
    order_halt(&w, 2); /* releases it */
    assert_int_equal(wait_exit(&w), EXIT_DONE);
    read_end(&end);
    assert_int_equal(end.step, 2);
    (void)close(mute);
}

static void worker_leaves_a_session_that_is_superseded(void **state)
{
    static struct running w;
    static struct report r;
    int mute = start_connecting(&w);

    (void)state;
    post_revision(&w, 2, 1, 0);
    wait_session(&w, REPORT_DONE, &r);
    assert_int_equal(r.revision, 2);
    assert_int_equal(r.lineage, 2);
    post_revision(&w, 3, 1, 0); /* too late */
    wait_session(&w, REPORT_DONE, &r);
    assert_int_equal(r.revision, 3);
    assert_int_equal(r.lineage, 2);
    order_halt(&w, 3);
    assert_int_equal(wait_exit(&w), EXIT_DONE);
    (void)close(mute);
}

static void worker_does_not_train_random_units_in_place_of_a_trained_model(void **state)
{
    static struct running w;
    struct progress end;

    (void)state;
    start_worker(&w, in_folder("data"), NULL);
    post_start(&w, 1, 1, 0, SOURCE_PRETRAINED);
    assert_int_equal(wait_exit(&w), EXIT_CONFIG);
    read_end(&end);
    assert_non_null(strstr(end.error, "--model"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worker_leaves_the_model_in_the_output),
        cmocka_unit_test(worker_refuses_an_output_that_cannot_be_written_before_it_trains),
        cmocka_unit_test(worker_that_fails_before_it_saves_leaves_no_folder),
        cmocka_unit_test(worker_that_is_ordered_to_end_leaves_it_to_its_process),
        cmocka_unit_test(worker_writes_a_checkpoint_on_command_once),
        cmocka_unit_test(worker_without_a_store_writes_no_checkpoint_on_command),
        cmocka_unit_test(worker_reads_nothing_in_a_session_that_was_halted_before),
        cmocka_unit_test(worker_is_halted_while_it_connects_and_goes_on_with_the_next_revision),
        cmocka_unit_test(worker_leaves_a_session_that_is_superseded),
        cmocka_unit_test(worker_does_not_train_random_units_in_place_of_a_trained_model),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_remove);
}
