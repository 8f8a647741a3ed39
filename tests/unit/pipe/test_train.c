#include "pipe/train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "allocations.h"
#include "base/file.h"
#include "nn/gemm.h"

#define N_ROWS     24
#define BATCH      8
#define EPOCH      (N_ROWS / BATCH)
#define VOCAB      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n"
#define VOCAB_SIZE 8

static char folder[] = "/tmp/test_train.XXXXXX";

static void write_text(const char *name, const char *text)
{
    char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_write(path, text, strlen(text), NULL), ERR_OK);
}

static void write_rows(const char *name)
{
    static const char *const labels[] = {"neutral", "entailment", "contradiction"};
    char text[4096] = "index\tsentence1\tsentence2\tgold_label\n";
    char lines[4096] = "";

    for (int i = 0; i < N_ROWS; i++) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%d\ta b%s\tc\t%s\n", i,
                       i % 2 ? " a b" : "", labels[i % 3]);
        (void)snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "a b c a%s\n%s",
                       i % 2 ? " c b" : "", i % 4 == 3 ? "\n" : "");
    }
    write_text(name, text);
    write_text(strcmp(name, "train.tsv") == 0 ? "train.txt" : "dev.txt", lines);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    write_text("vocab.txt", VOCAB);
    write_rows("train.tsv");
    write_rows("dev_matched.tsv");
    return 0;
}

static int tear_down(void **state)
{
    char command[64];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* What a step may be: every row is a test. */
struct row {
    const char *name, *task;
    enum model_head head;
    enum spec_optimizer optimizer;
    int threads;
};

static void make_plan(struct plan *plan, const struct row *row, int n_steps)
{
    *plan = (struct plan){.n_stages = 1};
    plan->spec.model = (struct model){.head = row->head,
                                      .vocab = VOCAB_SIZE,
                                      .hidden = 32,
                                      .layers = 2,
                                      .heads = 4,
                                      .ffn = 64,
                                      .positions = 16,
                                      .labels = 3,
                                      .norm_eps = 1e-12};
    (void)snprintf(plan->spec.data.task, sizeof plan->spec.data.task, "%s", row->task);
    plan->spec.data.mask_probability = 0.15;
    plan->spec.training.optimizer = row->optimizer;
    plan->spec.training.batch_size = BATCH;
    plan->spec.training.micro_batches = 4;
    plan->spec.training.max_length = 16;
    plan->spec.training.steps = n_steps;
    plan->spec.training.dropout = 0.1;
    plan->spec.training.learning_rate = 1e-3;
    plan->spec.training.max_grad_norm = 1;
    plan->stages[0].n_units = model_units(&plan->spec.model);
}

/* Allocations of a training of `n_steps` from its first step to its end. */
static int allocations_of(const struct row *row, int n_steps)
{
    static struct plan plan;
    static struct stage stage;
    static struct board board;
    struct train train = {.plan = &plan, .stage = &stage, .board = &board};
    struct feed_params params = {.spec = &plan.spec, .folder = folder};
    struct feed feed;
    int before;

    make_plan(&plan, row, n_steps);
    assert_int_equal(gemm_setup(row->threads, NULL), ERR_OK);
    assert_int_equal(stage_init(&stage, &plan, 0, NULL), ERR_OK);
    assert_int_equal(feed_init(&feed, &params, NULL), ERR_OK);
    board_init(&board);
    train.feed = &feed;
    train.meta = malloc(train_meta_bytes(&plan));
    assert_non_null(train.meta);
    before = n_allocations;
    assert_true(!COUNTS || before > 0);
    assert_int_equal(train_run(&train, NULL), ERR_OK);
    assert_int_equal(train.progress.step, n_steps);
    before = n_allocations - before;
    free(train.meta);
    board_deinit(&board);
    feed_deinit(&feed);
    stage_deinit(&stage);
    return before;
}

static struct row rows[] = {
    {"train_allocates_nothing_in_a_step", "MNLI", MODEL_HEAD_CLASSIFIER, SPEC_OPTIMIZER_ADAMW, 1},
    {"train_allocates_nothing_in_a_step_with_two_threads", "MNLI", MODEL_HEAD_CLASSIFIER,
     SPEC_OPTIMIZER_ADAMW, 2},
    {"train_allocates_nothing_in_a_step_with_sgd", "MNLI", MODEL_HEAD_CLASSIFIER,
     SPEC_OPTIMIZER_SGD, 1},
    {"train_allocates_nothing_in_a_step_of_a_masked_lm", "MaskedLM", MODEL_HEAD_MASKED_LM,
     SPEC_OPTIMIZER_ADAMW, 1},
};
#define N_ROW_TESTS (sizeof rows / sizeof rows[0])

/* Three epochs take no more than one: what grows with the longest row has grown in the first. Both
 * evaluate once, at the end. */
static void check_row(void **state)
{
    const struct row *row = *state;
    int once;

    (void)allocations_of(row, EPOCH); /* threads are started here, and buffers of libraries taken */
    once = allocations_of(row, EPOCH);
    assert_int_equal(allocations_of(row, 3 * EPOCH), once);
}

int main(void)
{
    struct CMUnitTest tests[N_ROW_TESTS];

    for (size_t i = 0; i < N_ROW_TESTS; i++)
        tests[i] = (struct CMUnitTest){rows[i].name, check_row, NULL, NULL, &rows[i]};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
