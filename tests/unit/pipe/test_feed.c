#include "pipe/feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

#define N_TRAIN 10
#define N_DEV   5

static char folder[] = "/tmp/test_feed.XXXXXX";

static void write_text(const char *name, const char *text)
{
    char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_write(path, text, strlen(text), NULL), ERR_OK);
}

static void write_rows(const char *name, int n)
{
    static const char *const labels[] = {"neutral", "entailment", "contradiction"};
    char text[4096] = "index\tsentence1\tsentence2\tgold_label\n";

    for (int i = 0; i < n; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%d\ta b%s\tc\t%s\n", i,
                       i % 2 ? " a b" : "", labels[i % 3]);
    write_text(name, text);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    write_text("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\n");
    write_rows("train.tsv", N_TRAIN);
    write_rows("dev_matched.tsv", N_DEV);
    return 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"vocab.txt", "train.tsv", "dev_matched.tsv"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    return rmdir(folder);
}

static struct spec make_spec(void)
{
    struct spec s = {0};

    s.model.vocab = 7;
    s.training.batch_size = 4;
    s.training.micro_batches = 2;
    s.training.max_length = 16;
    s.training.epochs = 3;
    return s;
}

static void feed_facts_follow_from_the_data_and_the_spec(void **state)
{
    struct spec spec = make_spec();
    struct message_facts facts;
    struct feed f;

    (void)state;
    assert_int_equal(feed_init(&f, &spec, folder, NULL), ERR_OK);
    feed_facts(&f, &spec, &facts);
    assert_int_equal(facts.steps_per_epoch, N_TRAIN / 4);
    assert_int_equal(facts.total_steps, 3 * (N_TRAIN / 4));
    assert_int_equal(facts.n_splits, 1);
    assert_int_equal(facts.splits[0].n_batches, 3);
    assert_int_equal(facts.splits[0].n_samples, N_DEV);
    spec.training.steps = 7;
    feed_facts(&f, &spec, &facts);
    assert_int_equal(facts.total_steps, 7);
    feed_deinit(&f);
}

static void feed_train_gives_every_sample_of_a_step_once(void **state)
{
    struct spec spec = make_spec();
    bool seen[N_TRAIN] = {false};
    struct feed f;

    (void)state;
    assert_int_equal(feed_init(&f, &spec, folder, NULL), ERR_OK);
    for (int64_t step = 0; step < 2; step++) {
        for (int m = 0; m < 2; m++) {
            struct feed_batch b;

            assert_int_equal(feed_train(&f, step, m, &b, NULL), ERR_OK);
            assert_int_equal(b.batch.n_seqs, 2);
            for (int i = 0; i < b.batch.n_seqs; i++) {
                assert_false(seen[b.batch.samples[i]]);
                seen[b.batch.samples[i]] = true;
            }
        }
    }
    feed_deinit(&f);
}

static void feed_train_is_a_function_of_the_step(void **state)
{
    struct spec spec = make_spec();
    struct feed_batch b;
    struct feed f;
    uint32_t first[2];

    (void)state;
    assert_int_equal(feed_init(&f, &spec, folder, NULL), ERR_OK);
    assert_int_equal(feed_train(&f, 1, 1, &b, NULL), ERR_OK);
    memcpy(first, b.batch.samples, sizeof first);
    assert_int_equal(feed_train(&f, 0, 0, &b, NULL), ERR_OK);
    assert_int_equal(feed_train(&f, 1, 1, &b, NULL), ERR_OK);
    assert_memory_equal(b.batch.samples, first, sizeof first);
    feed_deinit(&f);
}

static void feed_eval_ends_with_a_smaller_batch(void **state)
{
    struct spec spec = make_spec();
    struct feed_batch b;
    struct feed f;

    (void)state;
    assert_int_equal(feed_init(&f, &spec, folder, NULL), ERR_OK);
    assert_int_equal(feed_eval(&f, 2, &b, NULL), ERR_OK);
    assert_int_equal(b.batch.n_seqs, 1);
    assert_int_equal(b.batch.samples[0], N_DEV - 1);
    feed_deinit(&f);
}

static void feed_init_names_what_does_not_fit(void **state)
{
    struct spec spec = make_spec();
    struct feed f;
    struct err err;

    (void)state;
    spec.model.vocab = 6;
    assert_int_equal(feed_init(&f, &spec, folder, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "spec.model.vocabSize"));
    spec = make_spec();
    spec.training.batch_size = 16;
    assert_int_equal(feed_init(&f, &spec, folder, &err), ERR_INVALID);
    assert_int_equal(feed_init(&f, &spec, "/nonexistent", &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "vocab.txt"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feed_facts_follow_from_the_data_and_the_spec),
        cmocka_unit_test(feed_train_gives_every_sample_of_a_step_once),
        cmocka_unit_test(feed_train_is_a_function_of_the_step),
        cmocka_unit_test(feed_eval_ends_with_a_smaller_batch),
        cmocka_unit_test(feed_init_names_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
