#include "train/worker.h"

#include <dirent.h>
#include <sys/stat.h>

#include "api/plan.h"
#include "api/progress.h"
#include "base/hmac.h"
#include "scratch.h"

#define SPEC                                                                                       \
    "{\"model\": {\"preset\": \"BertTiny\", \"vocabSize\": 8, \"maxPositions\": 16},"              \
    " \"data\": {\"task\": \"MNLI\", \"source\": {\"sample\": \"MNLI\"}},"                         \
    " \"training\": {\"steps\": 2, \"batchSize\": 4, \"microBatches\": 2, \"maxSequenceLength\": " \
    "16}}"
#define VOCAB  "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n"
#define N_ROWS 8

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

static void write_plan(void)
{
    struct plan p = {.namespace = "default",
                     .job = "a job",
                     .uid = "6f1c",
                     .attempt = 1,
                     .micro_batches = 2,
                     .n_stages = 1,
                     .stages = {{0, 7, "here", 1000, 1 << 28, 1, ""}}};
    struct buf text = {.max = PLAN_TEXT_MAX_BYTES};
    struct json *spec = NULL;

    assert_int_equal(json_parse(SPEC, strlen(SPEC), &spec, NULL), ERR_OK);
    assert_int_equal(plan_write(&p, spec, &text, NULL), ERR_OK);
    assert_int_equal(file_write(in_folder("plan.json"), text.data, text.len, NULL), ERR_OK);
    json_free(spec);
    buf_deinit(&text);
}

static int set_up(void **state)
{
    const uint8_t key[HMAC_BYTES] = {1};
    char text[HMAC_TEXT_BYTES];

    if (scratch_make(state) != 0)
        return -1;
    assert_int_equal(mkdir(in_folder("data"), 0755), 0);
    scratch_text("data/vocab.txt", VOCAB);
    write_rows("data/train.tsv");
    write_rows("data/dev_matched.tsv");
    hmac_to_text(key, text);
    scratch_text("key", text);
    write_plan();
    return 0;
}

/* Run the one stage; its termination message goes into *out. */
static int run_worker(const char *data, const char *output, struct progress *out)
{
    const struct worker_params p = {.plan_path = in_folder("plan.json"),
                                    .key_path = in_folder("key"),
                                    .data_dir = data,
                                    .output_dir = output,
                                    .control_host = "127.0.0.1",
                                    .tensor_host = "127.0.0.1",
                                    .termination_path = in_folder("end.json")};
    int code = worker_run(&p);
    struct buf text = {.max = PROGRESS_TEXT_MAX_BYTES};

    assert_int_equal(file_read(p.termination_path, &text, NULL), ERR_OK);
    assert_int_equal(progress_parse(buf_text(&text), text.len, out, NULL), ERR_OK);
    buf_deinit(&text);
    return code;
}

/* Hidden folders of attempts in `output`. */
static int count_aside(const char *output)
{
    DIR *dir = opendir(output);
    struct dirent *entry;
    int n = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        n += strncmp(entry->d_name, ".skyjob-", 8) == 0 && strstr(entry->d_name, "-a1");
    closedir(dir);
    return n;
}

static void worker_leaves_the_model_in_the_output(void **state)
{
    struct progress end;
    struct stat st;

    (void)state;
    assert_int_equal(run_worker(in_folder("data"), in_folder("model"), &end), EXIT_DONE);
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
    assert_int_equal(run_worker(in_folder("data"), in_folder("file"), &end), EXIT_CONFIG);
    assert_int_equal(end.cause, PROGRESS_CAUSE_CONFIG);
    assert_int_equal(end.step, 0);
    assert_non_null(strstr(end.error, "/file cannot be written"));
}

static void worker_that_fails_before_it_saves_leaves_no_folder(void **state)
{
    struct progress end;

    (void)state;
    assert_int_equal(mkdir(in_folder("nothing"), 0755), 0);
    assert_int_equal(run_worker(in_folder("nothing"), in_folder("unused"), &end), EXIT_FAILED);
    assert_int_equal(end.cause, PROGRESS_CAUSE_DATA_MISSING);
    assert_int_equal(count_aside(in_folder("unused")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worker_leaves_the_model_in_the_output),
        cmocka_unit_test(worker_refuses_an_output_that_cannot_be_written_before_it_trains),
        cmocka_unit_test(worker_that_fails_before_it_saves_leaves_no_folder),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_remove);
}
