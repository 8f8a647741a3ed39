#include "api/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define OWN(labels, seed)                                                                          \
    "{\"model\":{\"preset\":\"BertTiny\"},\"data\":{\"task\":\"Classification\","                  \
    "\"columns\":{\"text\":\"a\",\"label\":\"b\"},\"labels\":[" labels "],"                        \
    "\"source\":{\"configMap\":{\"name\":\"x\"}}},\"training\":{\"seed\":" seed "}}"

static struct identity of(const char *text)
{
    struct identity identity;
    struct json *json = NULL;
    struct spec spec;
    struct err err = {.text = ""};

    assert_int_equal(json_parse(text, strlen(text), &json, NULL), ERR_OK);
    if (spec_parse(json, &spec, &err) != ERR_OK)
        fail_msg("%s", err.text);
    json_free(json);
    identity_of(&spec, &identity);
    return identity;
}

static void identity_does_not_depend_on_length_rate_or_place(void **state)
{
    struct identity a = of("{\"data\":{\"source\":{\"sample\":\"MNLI\"}}}");
    struct identity b = of(
        "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"training\":{\"epochs\":9,\"dropout\":\"0\","
        "\"microBatches\":2,\"optimizer\":{\"learningRate\":\"1e-3\"}},\"placement\":{"
        "\"maxStages\":2},"
        "\"output\":{\"persistentVolumeClaim\":{\"claimName\":\"x\"}}}");
    char text[256];

    (void)state;
    assert_false(identity_differs(&a, &b, text, sizeof text));
    assert_string_equal(text, "");
}

static void identity_names_every_field_that_differs(void **state)
{
    struct identity a = of("{\"data\":{\"source\":{\"sample\":\"MNLI\"}}}");
    struct identity b = of("{\"model\":{\"preset\":\"BertMini\",\"layers\":2},"
                           "\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"training\":{"
                           "\"batchSize\":16,\"seed\":7,\"optimizer\":{\"type\":\"SGD\"}}}");
    char text[512];

    (void)state;
    assert_true(identity_differs(&a, &b, text, sizeof text));
    assert_string_equal(text, "spec.model.layers is 4 there and 2 here, "
                              "spec.training.batchSize is 32 there and 16 here, "
                              "spec.training.seed is 42 there and 7 here, "
                              "spec.training.optimizer.type is AdamW there and SGD here");
}

static void identity_has_the_labels_in_their_order(void **state)
{
    struct identity a = of(OWN("\"x\",\"y\"", "1"));
    struct identity b = of(OWN("\"y\",\"x\"", "1"));
    struct identity none = {.n = 0};
    char text[256];

    (void)state;
    assert_true(identity_differs(&a, &b, text, sizeof text));
    assert_string_equal(text, "spec.data.labels is x, y there and y, x here");
    assert_false(identity_differs(&none, &b, text, sizeof text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identity_does_not_depend_on_length_rate_or_place),
        cmocka_unit_test(identity_names_every_field_that_differs),
        cmocka_unit_test(identity_has_the_labels_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
