#include "cli/draft.h"

#include <stdlib.h>

#include "cli/job.h"
#include "suite.h"

/* --- what is written --- */

static char *write_draft(const struct draft *d)
{
    struct buf text = {.max = DRAFT_MAX_BYTES};
    struct err err = {.text = ""};

    if (draft_write(d, &text, &err) != ERR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(job_check(buf_text(&text), text.len, NULL), ERR_OK);
    return buf_take(&text);
}

static void check(const struct draft *d, const char *want)
{
    char *text = write_draft(d);

    assert_string_equal(text, want);
    free(text);
}

static void draft_without_options_trains_on_the_sample(void **state)
{
    (void)state;
    check(
        &(struct draft){.name = NULL},
        "# Every field: kubectl explain sj.spec\n"
        "apiVersion: skyjob.dev/v1alpha1\n"
        "kind: SkyJob\n"
        "metadata:\n"
        "  name: \"mnli\"\n"
        "spec:\n"
        "  model:\n"
        "    preset: BertMini # BertTiny, BertMini, BertSmall, BertMedium, BertBase or BertLarge\n"
        "  data:\n"
        "    task: MNLI\n"
        "    source:\n"
        "      sample: MNLI # in the worker's image, to try it out\n"
        "  training:\n"
        "    epochs: 3\n"
        "    batchSize: 32 # sequences per step\n"
        "  # The trained model is not kept. To keep it:\n"
        "  # output:\n"
        "  #   persistentVolumeClaim: {claimName: models, path: tuned}\n");
}

static void draft_with_all_options_has_them(void **state)
{
    (void)state;
    check(&(struct draft){.name = "on",
                          .task = "classification",
                          .data = "pvc/1e3/a \"b\"",
                          .from = "pvc/models/bert",
                          .output = "pvc/models",
                          .steps = "500",
                          .batch_size = "64",
                          .replicas = "auto"},
          "# Every field: kubectl explain sj.spec\n"
          "apiVersion: skyjob.dev/v1alpha1\n"
          "kind: SkyJob\n"
          "metadata:\n"
          "  name: \"on\"\n"
          "spec:\n"
          "  model:\n"
          "    from: # a Hugging Face folder\n"
          "      persistentVolumeClaim: {claimName: \"models\", path: \"bert\"}\n"
          "  data:\n"
          "    task: Classification\n"
          "    columns: {text: text, label: label} # of your files; pair: of a second text\n"
          "    labels: [\"0\", \"1\"] # as your files have them\n"
          "    source: # with train.tsv; other names: data.files\n"
          "      persistentVolumeClaim: {claimName: \"1e3\", path: \"a \\\"b\\\"\"}\n"
          "  training:\n"
          "    steps: 500\n"
          "    batchSize: 64 # sequences per step\n"
          "  replicas: Auto # as many pipelines as are quickest\n"
          "  output: # becomes a Hugging Face folder\n"
          "    persistentVolumeClaim: {claimName: \"models\"}\n");
}

static void draft_of_every_task_is_valid(void **state)
{
    (void)state;
    for (int i = 0; task_names[i]; i++)
        free(write_draft(&(struct draft){
            .task = task_names[i], .data = "configmap/texts", .preset = "BertTiny"}));
}

/* --- what is refused --- */

struct row {
    const char *name;
    struct draft draft;
    const char *text;
};

static struct row rows[] = {
    {"draft_of_no_task_is_refused",
     {.task = "NLI"},
     "--task: must be one of MNLI, QNLI, QQP, RTE, WNLI, SST2, MRPC, CoLA, STSB, Classification, "
     "Regression, MaskedLM, Pretraining, not \"NLI\""},
    {"draft_with_an_invalid_name_is_refused",
     {.name = "My_Job"},
     "--name: must be 1 to 40 lower-case letters, digits or '-', and start and end with a letter "
     "or digit, not \"My_Job\""},
    {"draft_of_a_task_without_a_sample_needs_data",
     {.task = "RTE"},
     "--data: must be given for RTE: configmap/NAME, pvc/NAME or pvc/NAME/PATH"},
    {"draft_of_another_task_has_no_sample",
     {.task = "RTE", .data = "sample"},
     "--data: there is a sample of MNLI only; for RTE name configmap/NAME, pvc/NAME or "
     "pvc/NAME/PATH"},
    {"draft_with_data_of_no_known_kind_is_refused",
     {.data = "./texts"},
     "--data: must be sample, configmap/NAME, pvc/NAME or pvc/NAME/PATH, not \"./texts\""},
    {"draft_with_a_path_in_a_configmap_is_refused",
     {.data = "configmap/texts/a"},
     "--data: must be sample, configmap/NAME, pvc/NAME or pvc/NAME/PATH, not "
     "\"configmap/texts/a\""},
    {"draft_with_a_folder_as_model_is_refused",
     {.from = "bert"},
     "--from: must be pvc/NAME or pvc/NAME/PATH, with the name of a PersistentVolumeClaim, not "
     "\"bert\""},
    {"draft_with_an_output_without_a_claim_is_refused",
     {.output = "pvc/"},
     "--output: must be pvc/NAME or pvc/NAME/PATH, with the name of a PersistentVolumeClaim, not "
     "\"pvc/\""},
    {"draft_with_a_path_out_of_the_volume_is_refused_as_the_parser_does",
     {.output = "pvc/a/../b"},
     "spec.output.persistentVolumeClaim.path: must be a relative path without \"..\""},
    {"draft_with_an_unknown_preset_is_refused",
     {.preset = "Bert"},
     "--preset: spec.model.preset: \"Bert\" is not one of BertTiny, BertMini, BertSmall, "
     "BertMedium, BertBase, BertLarge"},
    {"draft_with_steps_and_epochs_is_refused",
     {.steps = "1", .epochs = "1"},
     "--steps: give either --steps or --epochs, not both"},
    {"draft_with_a_batch_of_nothing_is_refused",
     {.batch_size = "0"},
     "--batch-size: must be a number from 1 to 65536, not \"0\""},
    {"draft_with_too_many_replicas_is_refused",
     {.replicas = "9"},
     "--replicas: must be Auto or a number from 1 to 8, not \"9\""},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct buf text = {.max = DRAFT_MAX_BYTES};
    struct err err = {.text = ""};

    assert_int_equal(draft_write(&row->draft, &text, &err), ERR_INVALID);
    assert_string_equal(err.text, row->text);
    buf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draft_without_options_trains_on_the_sample),
        cmocka_unit_test(draft_with_all_options_has_them),
        cmocka_unit_test(draft_of_every_task_is_valid),
    };
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, rows, check_row);
    SUITE_TESTS(&suite, tests);
    return suite_run(&suite, "draft", NULL, NULL);
}
