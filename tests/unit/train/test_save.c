#include "train/save.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "begin.h"
#include "files/export.h"
#include "links.h"
#include "nn/gemm.h"

#define STAGES_MAX  3
#define VOCAB       "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n"
#define VOCAB_SIZE  8
#define SOON_MS     10000
#define FOLDER_FORM "/tmp/test_save.XXXXXX"

/* A run that has been trained, each stage in a thread. */
struct run {
    char folder[64];
    struct plan plan;
    struct loader loader;
    struct side {
        pthread_t thread;
        struct state state;
        struct stage stage;
        struct mailbox mailbox;
        struct train train;
        struct output output;
        struct history history;
        int patience_ms;
        enum err_code rc;
        struct err err;
    } sides[STAGES_MAX];
};

static void make_plan(struct plan *plan, int n_stages)
{
    static const int cuts[STAGES_MAX + 1][STAGES_MAX + 1] = {{0}, {0, 7}, {0, 3, 7}, {0, 2, 4, 7}};

    *plan = (struct plan){.n_workers = n_stages, .revision = 1, .uid = "a job"};
    plan->spec.model = (struct model){.vocab = VOCAB_SIZE,
                                      .hidden = 8,
                                      .layers = 2,
                                      .heads = 2,
                                      .ffn = 16,
                                      .positions = 16,
                                      .labels = 3,
                                      .norm_eps = 1e-12};
    (void)snprintf(plan->spec.data.task, sizeof plan->spec.data.task, "MNLI");
    plan->spec.training.batch_size = 4;
    plan->micro_batches = 2;
    plan->spec.training.max_length = 16;
    assert_int_equal(model_units(&plan->spec.model), 7);
    for (int s = 0; s < n_stages; s++) {
        plan->workers[s].first_unit = cuts[n_stages][s];
        plan->workers[s].n_units = cuts[n_stages][s + 1] - cuts[n_stages][s];
    }
}

static void connect_all(struct run *r)
{
    struct exchange *all[STAGES_MAX];

    for (int s = 0; s < r->plan.n_workers; s++)
        all[s] = &r->sides[s].train.exchange;
    links_connect(&r->plan, all);
}

static void open_side(struct run *r, int s)
{
    struct side *side = &r->sides[s];
    struct train *t = &side->train;

    begin_stage(&side->stage, &side->state, &r->plan, s);
    side->output =
        (struct output){.folder = r->folder, .uid = r->plan.uid, .revision = r->plan.revision};
    assert_int_equal(output_open(&side->output, s, 0, NULL), ERR_OK);
    mailbox_init(&side->mailbox);
    t->plan = &r->plan;
    t->state = &side->state;
    t->stage = &side->stage;
    t->mailbox = &side->mailbox;
    t->output = &side->output;
    t->history = &side->history;
    t->loader = s == 0 ? &r->loader : NULL;
    t->facts = (struct message_facts){.total_steps = 10};
    if (side->stage.is_last) {
        assert_int_equal(score_init(&t->score, &r->plan.spec, &t->facts, NULL), ERR_OK);
        assert_int_equal(predictions_add_label(&t->score.predictions[0], 1, NULL), ERR_OK);
        t->score.n_rows[0] = 1;
    }
}

static struct run *run_new(int n_stages)
{
    struct run *r = calloc(1, sizeof *r);

    assert_non_null(r);
    (void)snprintf(r->folder, sizeof r->folder, FOLDER_FORM);
    assert_non_null(mkdtemp(r->folder));
    make_plan(&r->plan, n_stages);
    layout_init(&r->loader.layout, &r->plan.spec);
    assert_int_equal(vocab_parse("v", VOCAB, strlen(VOCAB), &r->loader.tokenizer.vocab, NULL),
                     ERR_OK);
    for (int s = 0; s < n_stages; s++)
        open_side(r, s);
    if (n_stages > 1)
        connect_all(r);
    return r;
}

static void run_free(struct run *r)
{
    char command[96];

    for (int s = 0; s < r->plan.n_workers; s++) {
        struct side *side = &r->sides[s];

        (void)!link_close(side->train.exchange.link, 0, NULL);
        score_deinit(&side->train.score);
        mailbox_deinit(&side->mailbox);
        stage_deinit(&side->stage);
        state_deinit(&side->state);
    }
    vocab_deinit(&r->loader.tokenizer.vocab);
    (void)snprintf(command, sizeof command, "rm -rf %s", r->folder);
    assert_int_equal(system(command), 0);
    free(r);
}

static void *save(void *arg)
{
    struct side *side = arg;

    side->rc = save_run(&side->train, side->patience_ms, &side->err);
    return NULL;
}

static void start_saving(struct run *r)
{
    for (int s = 0; s < r->plan.n_workers; s++)
        assert_int_equal(pthread_create(&r->sides[s].thread, NULL, save, &r->sides[s]), 0);
}

static void wait_saved(struct run *r)
{
    for (int s = 0; s < r->plan.n_workers; s++)
        assert_int_equal(pthread_join(r->sides[s].thread, NULL), 0);
}

static bool has(const struct run *r, const char *file)
{
    char path[128];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/%s", r->folder, file);
    return stat(path, &st) == 0;
}

static bool has_aside(const struct run *r)
{
    struct stat st;

    return stat(r->sides[0].output.aside, &st) == 0;
}

static void save_publishes_weights_and_predictions_of_all_stages_together(void **state)
{
    (void)state;
    for (int n = 1; n <= STAGES_MAX; n++) {
        struct run *r = run_new(n);

        start_saving(r);
        wait_saved(r);
        for (int s = 0; s < n; s++)
            if (r->sides[s].rc != ERR_OK)
                fail_msg("stage %d of %d: %s", s, n, r->sides[s].err.text);
        for (int s = 0; s < n; s++) {
            char shard[EXPORT_SHARD_BYTES];

            export_shard_name(s, n, shard);
            assert_true(has(r, shard));
        }
        assert_true(has(r, "config.json"));
        assert_true(has(r, "MNLI-m.tsv"));
        assert_int_equal(has(r, EXPORT_INDEX_FILE), n > 1);
        assert_false(has_aside(r));
        run_free(r);
    }
}

static void save_names_the_stage_that_cannot_write_and_publishes_nothing(void **state)
{
    (void)state;
    for (int failing = 0; failing < STAGES_MAX; failing++) {
        struct run *r = run_new(STAGES_MAX);
        char want[64];

        strcat(r->sides[failing].output.aside, "/no/such");
        start_saving(r);
        wait_saved(r);
        (void)snprintf(want, sizeof want, "complete, but stage %d could not save", failing);
        /* Those in front of it, and itself. */
        for (int s = 0; s <= failing; s++) {
            assert_int_not_equal(r->sides[s].rc, ERR_OK);
            if (!strstr(r->sides[s].err.text, want))
                fail_msg("stage %d: %s", s, r->sides[s].err.text);
            assert_false(r->sides[s].train.exchange.is_lost);
        }
        assert_false(has(r, "config.json"));
        assert_false(has(r, "MNLI-m.tsv"));
        run_free(r);
    }
}

static void save_tries_again_and_reports_why(void **state)
{
    struct run *r = run_new(1);
    struct side *side = &r->sides[0];
    struct progress p = {.error = ""};
    char away[96];

    (void)state;
    (void)snprintf(away, sizeof away, "%s.away", r->folder);
    assert_int_equal(rename(r->folder, away), 0);
    side->patience_ms = SOON_MS;
    start_saving(r);
    for (int i = 0; i < SOON_MS / 10 && p.error[0] == '\0'; i++) {
        usleep(10000);
        mailbox_get_progress(&side->mailbox, &p);
    }
    assert_int_equal(p.state, PROGRESS_SAVING);
    assert_non_null(strstr(p.error, "writing the output failed: "));
    assert_non_null(strstr(p.error, "No such file or directory; retrying"));
    assert_int_equal(rename(away, r->folder), 0);
    wait_saved(r);
    assert_int_equal(side->rc, ERR_OK);
    mailbox_get_progress(&side->mailbox, &p);
    assert_string_equal(p.error, "");
    assert_true(has(r, EXPORT_WHOLE_FILE));
    run_free(r);
}

static void save_reports_a_neighbour_that_is_gone_as_lost(void **state)
{
    struct run *r = run_new(2);

    (void)state;
    (void)!link_close(r->sides[1].train.exchange.link, 0, NULL); /* without waiting */
    r->sides[1].train.exchange.link = NULL;
    (void)save(&r->sides[0]);
    assert_int_not_equal(r->sides[0].rc, ERR_OK);
    assert_true(r->sides[0].train.exchange.is_lost);
    assert_false(has(r, "config.json"));
    assert_true(has_aside(r)); /* nothing is lost */
    run_free(r);
}

static int set_up(void **state)
{
    (void)state;
    return gemm_setup(1, NULL) == ERR_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(save_publishes_weights_and_predictions_of_all_stages_together),
        cmocka_unit_test(save_names_the_stage_that_cannot_write_and_publishes_nothing),
        cmocka_unit_test(save_tries_again_and_reports_why),
        cmocka_unit_test(save_reports_a_neighbour_that_is_gone_as_lost),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
