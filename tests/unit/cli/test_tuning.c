#include "cli/tuning.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "suite.h"

#define TMP "/tmp/skyjob-test-tuning-XXXXXX"

static const char text[] =
    "{\"apiVersion\": \"skyjob.dev/v1alpha1\", \"kind\": \"SkyJob\", \"metadata\": {\"name\": "
    "\"mnli\", \"labels\": {\"team\": \"a\"}}, \"spec\": {\"model\": {\"preset\": \"BertTiny\"}, "
    "\"data\": {\"task\": \"MNLI\", \"source\": {\"sample\": \"MNLI\"}}, \"replicas\": 2, "
    "\"sync\": {\"protocol\": \"Switch\", \"switchAfterSteps\": 9}, \"training\": {\"steps\": "
    "1000, \"seed\": 7}}}";

static struct job job;
static struct spec spec;

static int set_up(void **state)
{
    (void)state;
    memcpy(job.name, "mnli", sizeof "mnli");
    memcpy(job.namespace, "default", sizeof "default");
    if (json_parse(text, sizeof text - 1, &job.document, NULL) != ERR_OK)
        return -1;
    job.spec_json = json_get(job.document, "spec");
    return spec_parse(job.spec_json, &spec, NULL) == ERR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    job_deinit(&job);
    return 0;
}

/* Two pairs for each candidate: accuracies of 0.8, but of `asp` for plain ASP; BSP takes 100
 * seconds, plain ASP 10 and every other candidate `seconds`. */
static struct tuning tuned(double asp, double seconds, int steps, int64_t total_steps)
{
    struct tuning t = {.job = &job,
                       .spec = &spec,
                       .base = job.spec_json,
                       .later = SPEC_PROTOCOL_ASP,
                       .metric = TASK_ACCURACY,
                       .points = 1,
                       .steps = steps,
                       .total_steps = total_steps};
    struct tuner_run run;

    tuner_init(&t.tuner, TUNING_POINT, false, 2);
    while (tuner_next(&t.tuner, &run))
        tuner_note(&t.tuner, &(struct tuner_result){.is_trained = true,
                                                    .metric = run.percent == 0 ? asp : 0.8,
                                                    .seconds = run.percent == TUNER_BSP ? 100
                                                               : run.percent == 0       ? 10
                                                                                        : seconds});
    return t;
}

static void assert_prints(const struct tuning *t, const char *const *lines)
{
    char *out = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&out, &n);

    assert_int_equal(tuning_print(t, file, NULL), ERR_OK);
    (void)fclose(file);
    for (; *lines; lines++)
        if (!strstr(out, *lines))
            fail_msg("no \"%s\" in \"%s\"", *lines, out);
    free(out);
}

static void tuning_print_tells_what_is_chosen_and_when_it_has_paid_for_itself(void **state)
{
    static const char *const lines[] = {
        "ASP                     2      -10.00    -10.00 to -10.00     10.0 s  10.00x  worse\n",
        "6% BSP, then ASP        2       +0.00      +0.00 to +0.00     60.0 s   1.67x  good "
        "enough\n",
        "12% BSP, then ASP       0           -                   -          -       -  not "
        "tested\n",
        "BSP                     2                                    100.0 s   1.00x\n",
        "\nchosen: 6% BSP, then ASP: less than 1 point worse than BSP\n",
        "\ncost: 6 runs, 5:40\n",
        "\nsaves 40.0 s per job of 1000 steps on these workers: paid for after 9 such jobs\n",
        "\n  sync: {protocol: Switch, switchAfterPercent: 6, switchTo: ASP}\n",
        "\n  kubectl patch sj mnli --type merge -p '{\"spec\":{\"sync\":{\"protocol\":\"Switch\","
        "\"switchAfterPercent\":6,\"switchTo\":\"ASP\",\"switchAfterSteps\":null}}}'\n",
        NULL};
    struct tuning t = tuned(0.7, 60, 0, 1000);

    (void)state;
    assert_prints(&t, lines);
}

static void tuning_print_scales_what_shorter_runs_save(void **state)
{
    static const char *const lines[] = {
        "\nsaves 400.0 s per job of 1000 steps on these workers: paid for after 1 such job\n",
        "\nnote: the runs had 100 steps, the job has 1000: a longer job may need another switch "
        "point\n",
        NULL};
    struct tuning t = tuned(0.7, 60, 100, 100);

    (void)state;
    assert_prints(&t, lines);
}

static void tuning_print_does_not_scale_runs_that_ended_early(void **state)
{
    static const char *const lines[] = {"\nsaves 40.0 s per job of 300 steps", NULL};
    struct tuning t = tuned(0.7, 60, 0, 300);

    (void)state;
    assert_prints(&t, lines);
}

static void tuning_print_takes_a_small_saving_for_noise(void **state)
{
    static const char *const lines[] = {"\nchosen: 6% BSP", "\nsaves nothing\n", NULL};
    struct tuning t = tuned(0.7, 99.5, 0, 1000);

    (void)state;
    assert_prints(&t, lines);
}

static void tuning_print_json_has_runs_candidates_and_the_answer(void **state)
{
    struct tuning t = tuned(0.7, 60, 0, 1000);
    struct json *json = NULL;
    char *out = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&out, &n);

    (void)state;
    assert_int_equal(tuning_print_json(&t, file, NULL), ERR_OK);
    (void)fclose(file);
    assert_int_equal(json_parse(out, n, &json, NULL), ERR_OK);
    assert_int_equal(json_count(json_get(json, "runs")), 6);
    assert_int_equal(json_count(json_get(json, "candidates")), TUNER_CANDIDATES);
    assert_int_equal(json_int(json_get(json, "chosenPercent"), 0), 6);
    assert_int_equal(json_int(json_get(json, "jobsToPayOff"), 0), 9);
    assert_string_equal(json_text(json, "sync.switchTo"), "ASP");
    json_free(json);
    free(out);
}

static void tuning_write_keeps_the_manifest(void **state)
{
    struct tuning t = tuned(0.8, 60, 0, 1000);
    char folder[] = TMP;
    char path[sizeof folder + 8];
    struct json *json = NULL;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/job", folder);
    assert_int_equal(tuning_write(&t, path, NULL), ERR_OK);
    assert_int_equal(folder_json(folder, "job", &json, NULL), ERR_OK);
    assert_string_equal(json_text(json, "metadata.labels.team"), "a");
    assert_int_equal(json_int(json_path(json, "spec.training.seed"), 0), 7);
    assert_string_equal(json_text(json, "spec.sync.protocol"), "ASP");
    assert_int_equal(json_count(json_path(json, "spec.sync")), 1);
    json_free(json);
    assert_int_equal(folder_remove(folder, NULL), ERR_OK);
}

static void tuning_seeds_differ_at_the_end_of_their_range(void **state)
{
    struct spec last = spec;
    struct tuning t = {.spec = &last};

    (void)state;
    assert_int_equal(tuning_seed(&t, 3), 10);
    last.training.seed = 9007199254740991;
    assert_int_equal(tuning_seed(&t, 0), 9007199254740991);
    assert_int_equal(tuning_seed(&t, 1), 9007199254740990);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(tuning_print_tells_what_is_chosen_and_when_it_has_paid_for_itself),
        cmocka_unit_test(tuning_print_scales_what_shorter_runs_save),
        cmocka_unit_test(tuning_print_does_not_scale_runs_that_ended_early),
        cmocka_unit_test(tuning_print_takes_a_small_saving_for_noise),
        cmocka_unit_test(tuning_print_json_has_runs_candidates_and_the_answer),
        cmocka_unit_test(tuning_write_keeps_the_manifest),
        cmocka_unit_test(tuning_seeds_differ_at_the_end_of_their_range),
    };

    return cmocka_run_group_tests_name("tuning", tests, set_up, tear_down);
}
