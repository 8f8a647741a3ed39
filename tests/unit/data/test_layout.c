#include "data/layout.h"
#include "text/vocab.h"

#include "scratch.h"

static struct spec spec_of(const char *task)
{
    struct spec s = {
        .data = {.labels = {2, {"bad", "good"}}, .columns = {.text = "review", .label = "stars"}}};

    (void)snprintf(s.data.task, sizeof s.data.task, "%s", task);
    return s;
}

/* A task that the API knows and the data side does not would stop a worker much later. */
static void layout_knows_every_task(void **state)
{
    (void)state;
    for (int i = 0; task_names[i]; i++) {
        struct spec spec = spec_of(task_names[i]);
        struct layout l;

        layout_init(&l, &spec);
        assert_string_equal(l.task->name, task_names[i]);
        assert_true(l.train.file[0] && l.dev[0].file[0]);
        assert_in_range(l.n_dev, 1, LAYOUT_DEV_MAX);
        if (l.task->head == MODEL_HEAD_CLASSIFIER)
            assert_true(l.n_labels >= 2);
        for (int k = 0; k < l.n_test; k++) {
            assert_true(l.test[k].is_test && l.test[k].has_header);
            assert_non_null(l.test[k].text.name);
            assert_null(l.test[k].label.name);
            assert_int_equal(l.test[k].label.number, -1);
            assert_non_null(strstr(l.test[k].submission, ".tsv"));
        }
    }
}

/* The operator looks for these in a ConfigMap before it lets a worker read them. */
static void layout_has_the_files_that_the_spec_names(void **state)
{
    (void)state;
    assert_string_equal(VOCAB_FILE, SPEC_VOCAB_FILE);
    for (int i = 0; task_names[i]; i++) {
        struct spec spec = spec_of(task_names[i]);
        const char *files[SPEC_FILES_MAX];
        struct layout l;

        spec.model.head = task_find(task_names[i])->head;
        layout_init(&l, &spec);
        assert_true(spec_data_files(&spec, files) > 0);
        assert_string_equal(l.train.file, files[0]);
    }
}

static void layout_of_mnli_has_two_of_each(void **state)
{
    struct spec spec = spec_of("MNLI");
    struct layout l;

    (void)state;
    layout_init(&l, &spec);
    assert_int_equal(l.n_dev, 2);
    assert_string_equal(l.dev[0].file, "dev_matched.tsv");
    assert_string_equal(l.dev[0].suffix, "");
    assert_string_equal(l.dev[1].suffix, "Mismatched");
    assert_string_equal(l.test[1].file, "test_mismatched.tsv");
    assert_string_equal(l.test[1].submission, "MNLI-mm.tsv");
}

static void layout_takes_files_and_columns_from_the_spec(void **state)
{
    struct spec spec = spec_of("Classification");
    struct layout l;

    (void)state;
    (void)snprintf(spec.data.files.train, sizeof spec.data.files.train, "mine.jsonl");
    layout_init(&l, &spec);
    assert_string_equal(l.train.file, "mine.jsonl");
    assert_true(layout_ends_in(&l.train, LAYOUT_JSON));
    assert_false(layout_ends_in(&l.dev[0], LAYOUT_JSON));
    assert_string_equal(l.train.text.name, "review");
    assert_null(l.train.pair.name);
    assert_string_equal(l.labels[1], "good");
}

static void layout_lets_one_dev_file_replace_both_of_mnli(void **state)
{
    struct spec spec = spec_of("MNLI");
    struct layout l;

    (void)state;
    (void)snprintf(spec.data.files.dev, sizeof spec.data.files.dev, "d.tsv");
    layout_init(&l, &spec);
    assert_int_equal(l.n_dev, 1);
    assert_string_equal(l.dev[0].file, "d.tsv");
    assert_int_equal(l.n_test, 2);
}

static void layout_of_cola_has_no_header_but_in_json(void **state)
{
    struct spec spec = spec_of("CoLA");
    struct layout l;

    (void)state;
    (void)snprintf(spec.data.files.dev, sizeof spec.data.files.dev, "d.jsonl");
    layout_init(&l, &spec);
    assert_false(l.train.has_header);
    assert_int_equal(l.train.text.number, 3);
    assert_string_equal(l.dev[0].text.name, "sentence");
    assert_true(l.test[0].has_header);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_knows_every_task),
        cmocka_unit_test(layout_has_the_files_that_the_spec_names),
        cmocka_unit_test(layout_of_mnli_has_two_of_each),
        cmocka_unit_test(layout_takes_files_and_columns_from_the_spec),
        cmocka_unit_test(layout_lets_one_dev_file_replace_both_of_mnli),
        cmocka_unit_test(layout_of_cola_has_no_header_but_in_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
