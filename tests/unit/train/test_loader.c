#include "train/loader.h"

#include "allocations.h"
#include "scratch.h"

#define N_TRAIN 10
#define N_DEV   5
#define VOCAB   "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\n"

static void write_rows(const char *name, int n)
{
    static const char *const labels[] = {"neutral", "entailment", "contradiction"};
    char text[4096] = "index\tsentence1\tsentence2\tgold_label\n";

    for (int i = 0; i < n; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%d\ta b%s\tc\t%s\n", i,
                       i % 2 ? " a b" : "", labels[i % 3]);
    scratch_text(name, text);
}

static int set_up(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    scratch_text("vocab.txt", VOCAB);
    write_rows("train.tsv", N_TRAIN);
    write_rows("dev_matched.tsv", N_DEV);
    return 0;
}

static struct spec make_spec(void)
{
    struct spec s = {.data.task = "MNLI"};

    s.model.vocab = 7;
    s.training.batch_size = 4;
    s.training.micro_batches = 2;
    s.training.max_length = 16;
    s.training.epochs = 3;
    return s;
}

static enum err_code open_feed(struct loader *f, const struct spec *spec, struct err *err)
{
    struct loader_params p = {
        .spec = spec, .micro_batches = spec->training.micro_batches, .folder = scratch};

    return loader_init(f, &p, err);
}

static void loader_facts_follow_from_the_data_and_the_spec(void **state)
{
    struct spec spec = make_spec();
    struct message_facts facts;
    struct loader f;

    (void)state;
    assert_int_equal(open_feed(&f, &spec, NULL), ERR_OK);
    facts = f.facts;
    assert_int_equal(facts.steps_per_epoch, 3); /* 4, 4 and 2 of 10 */
    assert_int_equal(facts.last_seqs, 2);
    assert_int_equal(facts.total_steps, 3 * 3);
    assert_int_equal(facts.n_splits, 1); /* the mismatched one is not there */
    assert_int_equal(facts.splits[0].n_batches, 3);
    assert_int_equal(facts.splits[0].n_samples, N_DEV);
    assert_int_equal(facts.splits[0].is_test, 0);
    loader_deinit(&f);
    spec.training.steps = 7;
    assert_int_equal(open_feed(&f, &spec, NULL), ERR_OK);
    assert_int_equal(f.facts.total_steps, 7);
    loader_deinit(&f);
}

static void loader_train_gives_every_sample_of_a_step_once(void **state)
{
    struct spec spec = make_spec();
    bool seen[N_TRAIN] = {false};
    struct loader f;

    (void)state;
    assert_int_equal(open_feed(&f, &spec, NULL), ERR_OK);
    for (int64_t step = 0; step < 3; step++) {
        for (int m = 0; m < 2; m++) {
            struct message_batch b;
            int n = step < 2 ? 2 : 1;

            assert_int_equal(loader_train(&f, step, m, &b, NULL), ERR_OK);
            assert_int_equal(b.n_seqs, n);
            assert_int_equal(b.step_seqs, 2 * n);
            for (int i = 0; i < b.n_seqs; i++) {
                assert_false(seen[b.samples[i]]);
                seen[b.samples[i]] = true;
            }
        }
    }
    loader_deinit(&f);
}

/* 10 samples in steps of 8 and 2, of as many micro-batches as have something to do. */
static void loader_makes_no_micro_batch_without_a_sequence(void **state)
{
    static const int wants[2][4] = {{2, 2, 2, 2}, {1, 1, 0, 0}};
    struct spec spec = make_spec();
    struct message_facts facts;
    struct loader f;

    (void)state;
    spec.training.batch_size = 8;
    spec.training.micro_batches = 4;
    assert_int_equal(open_feed(&f, &spec, NULL), ERR_OK);
    facts = f.facts;
    assert_int_equal(facts.steps_per_epoch, 2);
    for (int64_t step = 0; step < 2; step++) {
        struct message_batch b;

        for (int m = 0; m < 4 && wants[step][m] > 0; m++) {
            assert_int_equal(loader_train(&f, step, m, &b, NULL), ERR_OK);
            assert_int_equal(b.n_seqs, wants[step][m]);
            assert_int_equal(b.step_seqs, step == 0 ? 8 : 2);
        }
    }
    loader_deinit(&f);
}

static void loader_train_is_a_function_of_the_step(void **state)
{
    struct spec spec = make_spec();
    struct message_batch b;
    struct loader f;
    uint32_t first[2];

    (void)state;
    assert_int_equal(open_feed(&f, &spec, NULL), ERR_OK);
    assert_int_equal(loader_train(&f, 1, 1, &b, NULL), ERR_OK);
    memcpy(first, b.samples, sizeof first);
    assert_int_equal(loader_train(&f, 0, 0, &b, NULL), ERR_OK);
    assert_int_equal(loader_train(&f, 1, 1, &b, NULL), ERR_OK);
    assert_memory_equal(b.samples, first, sizeof first);
    loader_deinit(&f);
}

static void loader_eval_ends_with_a_smaller_batch(void **state)
{
    struct spec spec = make_spec();
    struct message_batch b;
    struct loader f;

    (void)state;
    assert_int_equal(open_feed(&f, &spec, NULL), ERR_OK);
    assert_int_equal(loader_eval(&f, 0, 2, &b, NULL), ERR_OK);
    assert_int_equal(b.n_seqs, 1);
    assert_int_equal(b.samples[0], N_DEV - 1);
    loader_deinit(&f);
}

/* Balancing may deal them out in any way, but each keeps its own text and label. */
static void loader_train_gives_every_sample_its_own_words(void **state)
{
    struct spec spec = make_spec();
    struct message_batch b;
    struct loader f;

    (void)state;
    assert_int_equal(open_feed(&f, &spec, NULL), ERR_OK);
    for (int m = 0; m < 2; m++) {
        assert_int_equal(loader_train(&f, 5, m, &b, NULL), ERR_OK);
        for (int i = 0; i < b.n_seqs; i++) {
            uint32_t sample = b.samples[i];

            assert_int_equal(b.labels[i], 2 - (int)sample % 3); /* write_rows() */
            assert_int_equal(b.starts[i + 1] - b.starts[i], sample % 2 ? 8 : 6);
        }
        assert_null(b.scores);
        assert_int_equal(b.step_targets, 0);
    }
    loader_deinit(&f);
}

static void loader_reads_mismatched_and_test_splits_where_they_are(void **state)
{
    struct spec spec = make_spec();
    struct loader_params p = {.spec = &spec,
                              .micro_batches = spec.training.micro_batches,
                              .folder = scratch,
                              .wants_predictions = true};
    struct message_facts facts;
    struct message_batch b;
    struct loader f;

    (void)state;
    write_rows("dev_mismatched.tsv", 2);
    scratch_text("test_mismatched.tsv", "sentence1\tsentence2\na\tc\nb\tc\nc\tc\n");
    assert_int_equal(loader_init(&f, &p, NULL), ERR_OK);
    facts = f.facts;
    assert_int_equal(facts.n_splits, 3);
    assert_int_equal(facts.splits[1].n_samples, 2);
    assert_int_equal(facts.splits[1].place, 1);
    assert_int_equal(facts.splits[2].n_samples, 3);
    assert_int_equal(facts.splits[2].is_test, 1);
    assert_int_equal(facts.splits[2].place, 1);
    assert_string_equal(f.layout.test[1].submission, "MNLI-mm.tsv");
    assert_int_equal(loader_eval(&f, 2, 1, &b, NULL), ERR_OK);
    assert_int_equal(b.n_seqs, 1);
    assert_int_equal(b.ids[1], 6); /* "c", the third row's */
    loader_deinit(&f);
    assert_int_equal(open_feed(&f, &spec, NULL), ERR_OK);
    facts = f.facts;
    assert_int_equal(facts.n_splits, 2); /* predictions were not asked for */
    loader_deinit(&f);
}

static void loader_gives_scores_for_a_regression(void **state)
{
    struct spec spec = make_spec();
    struct message_batch b;
    struct loader f;

    (void)state;
    (void)snprintf(spec.data.task, sizeof spec.data.task, "STSB");
    (void)snprintf(spec.data.files.train, sizeof spec.data.files.train, "s.tsv");
    (void)snprintf(spec.data.files.dev, sizeof spec.data.files.dev, "s.tsv");
    spec.model.head = MODEL_HEAD_REGRESSION;
    scratch_text("s.tsv", "sentence1\tsentence2\tscore\na\tb\t0\na\tb\t1.5\na\tb\t3\na\tb\t4.5\n");
    assert_int_equal(open_feed(&f, &spec, NULL), ERR_OK);
    assert_int_equal(loader_eval(&f, 0, 1, &b, NULL), ERR_OK);
    assert_null(b.labels);
    assert_true(b.scores[0] == 3.0f && b.scores[1] == 4.5f);
    loader_deinit(&f);
}

/* Documents of three sentences each, so that a chunk has about two. */
static struct spec make_text_spec(void)
{
    struct spec s = make_spec();
    char text[2048] = "";

    for (int i = 0; i < 20; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "a b c\nc b%s\nb a c c\n\n",
                       i % 2 ? " a a a" : "");
    scratch_text("train.txt", text);
    scratch_text("dev.txt", text);
    scratch_text("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\n[MASK]\n");
    (void)snprintf(s.data.task, sizeof s.data.task, "Pretraining");
    s.model.head = MODEL_HEAD_PRETRAINING;
    s.model.vocab = 8;
    s.data.mask_probability = 0.3;
    s.training.max_length = 12;
    return s;
}

static void loader_does_without_a_dev_file_that_is_not_named(void **state)
{
    struct spec spec = make_text_spec();
    struct message_facts facts;
    struct loader f;
    struct err err;
    char path[128];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/dev.txt", scratch);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(open_feed(&f, &spec, NULL), ERR_OK);
    facts = f.facts;
    assert_int_equal(facts.n_splits, 0);
    loader_deinit(&f);
    spec.training.patience = 1; /* evaluations are compared, so there must be some */
    assert_int_equal(open_feed(&f, &spec, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "dev.txt"));
    spec.training.patience = 0;
    (void)snprintf(spec.data.files.dev, sizeof spec.data.files.dev, "mine.txt");
    assert_int_equal(open_feed(&f, &spec, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "mine.txt"));
    scratch_text("vocab.txt", VOCAB);
}

static void loader_counts_the_targets_of_a_whole_step(void **state)
{
    struct spec spec = make_text_spec();
    struct message_limits limits = message_limits_of(&spec, spec.training.micro_batches);
    struct loader f;

    (void)state;
    assert_int_equal(open_feed(&f, &spec, NULL), ERR_OK);
    for (int64_t step = 0; step < 40; step++) {
        int64_t n = 0, n_step = 0;

        for (int m = 0; m < 2; m++) {
            struct message_batch b;

            assert_int_equal(loader_train(&f, step, m, &b, NULL), ERR_OK);
            assert_in_range(b.n_targets, 2, limits.targets);
            assert_null(b.scores);
            for (int i = 0; i < b.n_targets; i++)
                assert_in_range(b.target_ids[i], 4, 6); /* a, b, c */
            n += b.n_targets;
            n_step = b.step_targets;
        }
        assert_int_equal(n, n_step);
    }
    loader_deinit(&f);
}

/* The same chunk is masked anew in every epoch; what is evaluated never changes. */
static void loader_masks_anew_in_every_epoch(void **state)
{
    struct spec spec = make_text_spec();
    struct message_facts facts;
    struct message_batch b;
    struct loader f;
    int32_t before[24];
    int n_differ = 0;

    (void)state;
    spec.training.batch_size = spec.training.micro_batches = 1;
    assert_int_equal(open_feed(&f, &spec, NULL), ERR_OK);
    facts = f.facts;
    assert_int_equal(facts.splits[0].n_samples, facts.steps_per_epoch);
    for (int64_t epoch = 0; epoch < 10; epoch++) {
        for (int64_t step = 0; step < facts.steps_per_epoch; step++) {
            assert_int_equal(loader_train(&f, epoch * facts.steps_per_epoch + step, 0, &b, NULL),
                             ERR_OK);
            if (b.samples[0] != 3)
                continue;
            n_differ += epoch > 0 && memcmp(before, b.ids, 6 * sizeof *before) != 0;
            memcpy(before, b.ids, 6 * sizeof *before);
        }
    }
    assert_true(n_differ > 4);
    assert_int_equal(loader_eval(&f, 0, 3, &b, NULL), ERR_OK);
    memcpy(before, b.ids, 6 * sizeof *before);
    loader_deinit(&f);
    spec.training.seed = 99;
    assert_int_equal(open_feed(&f, &spec, NULL), ERR_OK);
    assert_int_equal(loader_eval(&f, 0, 3, &b, NULL), ERR_OK);
    assert_memory_equal(b.ids, before, 6 * sizeof *before);
    loader_deinit(&f);
    scratch_text("vocab.txt", VOCAB);
}

/* Rows of a TSV file, then plain text, long after the longest of them. */
static void loader_allocates_nothing_once_every_row_was_seen(void **state)
{
    struct spec specs[2];

    (void)state;
    specs[0] = make_spec();
    for (int k = 0; k < 2; k++) {
        struct message_facts facts;
        struct message_batch b;
        struct loader f;
        int before = n_allocations;

        if (k == 1)
            specs[1] = make_text_spec();
        assert_int_equal(open_feed(&f, &specs[k], NULL), ERR_OK);
#if COUNTS
        assert_true(n_allocations > before); /* they are counted at all */
#endif
        facts = f.facts;
        for (int64_t i = 0; i < facts.splits[0].n_batches; i++)
            assert_int_equal(loader_eval(&f, 0, i, &b, NULL), ERR_OK);
        for (int64_t step = 0; step < 40 * facts.steps_per_epoch; step++) {
            if (step == 20 * facts.steps_per_epoch)
                before = n_allocations;
            for (int m = 0; m < 2; m++)
                assert_int_equal(loader_train(&f, step, m, &b, NULL), ERR_OK);
        }
        for (int64_t i = 0; i < facts.splits[0].n_batches; i++)
            assert_int_equal(loader_eval(&f, 0, i, &b, NULL), ERR_OK);
        assert_int_equal(n_allocations, before);
        loader_deinit(&f);
    }
    scratch_text("vocab.txt", VOCAB);
}

static void loader_keeps_the_case_of_the_model(void **state)
{
    struct spec spec = make_spec();
    struct loader_params p = {.spec = &spec,
                              .micro_batches = spec.training.micro_batches,
                              .folder = scratch,
                              .model_folder = scratch};
    struct loader f;
    struct err err;

    (void)state;
    spec.letters = SPEC_CASE_ABSENT;
    scratch_text("tokenizer_config.json", "{\"do_lower_case\":false}");
    assert_int_equal(loader_init(&f, &p, NULL), ERR_OK);
    assert_true(f.tokenizer.is_cased);
    assert_true(f.train.params.tokenizer->is_cased);
    loader_deinit(&f);
    spec.letters = SPEC_CASE_UNCASED;
    assert_int_equal(loader_init(&f, &p, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "leave spec.model.case out"));
    scratch_text("tokenizer_config.json", "{}");
}

static void loader_init_names_what_does_not_fit(void **state)
{
    struct spec spec = make_spec();
    struct loader_params p = {.spec = &spec, .micro_batches = spec.training.micro_batches};
    struct loader f;
    struct err err;

    (void)state;
    spec.model.vocab = 6;
    assert_int_equal(open_feed(&f, &spec, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "spec.model.vocabSize"));
    spec = make_spec();
    p.folder = "/nonexistent";
    assert_int_equal(loader_init(&f, &p, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "vocab.txt"));
    p.model_folder = scratch;
    assert_int_equal(loader_init(&f, &p, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "train.tsv"));
}

static void loader_reads_no_data_once_it_is_stopped(void **state)
{
    struct spec spec = make_spec();
    atomic_bool stops = true;
    struct loader_params p = {.spec = &spec,
                              .micro_batches = spec.training.micro_batches,
                              .folder = scratch,
                              .stops = &stops};
    struct loader f;

    (void)state;
    assert_int_equal(loader_init(&f, &p, NULL), ERR_GONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loader_facts_follow_from_the_data_and_the_spec),
        cmocka_unit_test(loader_train_gives_every_sample_of_a_step_once),
        cmocka_unit_test(loader_makes_no_micro_batch_without_a_sequence),
        cmocka_unit_test(loader_train_is_a_function_of_the_step),
        cmocka_unit_test(loader_eval_ends_with_a_smaller_batch),
        cmocka_unit_test(loader_train_gives_every_sample_its_own_words),
        cmocka_unit_test(loader_reads_mismatched_and_test_splits_where_they_are),
        cmocka_unit_test(loader_does_without_a_dev_file_that_is_not_named),
        cmocka_unit_test(loader_gives_scores_for_a_regression),
        cmocka_unit_test(loader_counts_the_targets_of_a_whole_step),
        cmocka_unit_test(loader_masks_anew_in_every_epoch),
        cmocka_unit_test(loader_allocates_nothing_once_every_row_was_seen),
        cmocka_unit_test(loader_keeps_the_case_of_the_model),
        cmocka_unit_test(loader_init_names_what_does_not_fit),
        cmocka_unit_test(loader_reads_no_data_once_it_is_stopped),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_remove);
}
