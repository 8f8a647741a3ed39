#include "api/pods.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "suite.h"

static struct json *parse(const char *text)
{
    struct json *json = NULL;
    struct err err;

    if (json_parse(text, strlen(text), &json, &err) != ERR_OK)
        fail_msg("%s: %s", text, err.text);
    return json;
}

static struct row {
    const char *name, *worker;
    const char *says; /* NULL: it is fine */
} rows[] = {
    {"pods_need_nothing", "{}", NULL},
    {"pods_take_null_for_nothing",
     "{'labels':null,'annotations':null,'nodeSelector':null,'tolerations':null,"
     "'imagePullSecrets':null}",
     NULL},
    {"pods_have_labels", "{'labels':{'team':'nlp','kueue.x-k8s.io/queue-name':'a_b.c-1','e':''}}",
     NULL},
    {"pods_have_annotations_of_any_text", "{'annotations':{'a.b/c':'{\\\"x\\\": [1]}\\n two'}}",
     NULL},
    {"pods_may_select_by_any_label", "{'nodeSelector':{'skyjob.dev/zone':'x','disk':''}}", NULL},
    {"pods_have_pull_secrets", "{'imagePullSecrets':[{'name':'a'},{'name':'b'}]}", NULL},
    {"pods_have_tolerations",
     "{'tolerations':[{'operator':'Exists'},{'key':'a','value':'b'},{'key':'c','operator':'Exists',"
     "'effect':'NoExecute','tolerationSeconds':0},{'key':'d','operator':'Equal','value':''}]}",
     NULL},
    {"pods_labels_are_an_object", "{'labels':['a']}",
     "spec.worker.labels: must be an object, found a list"},
    {"pods_labels_are_strings", "{'labels':{'a':1}}",
     "spec.worker.labels: \"a\" must be a string, found a number"},
    {"pods_labels_leave_the_operators_alone", "{'labels':{'skyjob.dev/job':'x'}}",
     "spec.worker.labels: \"skyjob.dev/job\" is the operator's own"},
    {"pods_annotations_leave_the_operators_alone", "{'annotations':{'app.kubernetes.io/name':'x'}}",
     "spec.worker.annotations: \"app.kubernetes.io/name\" is the operator's own"},
    {"pods_labels_leave_the_group_to_the_operator",
     "{'labels':{'kueue.x-k8s.io/pod-group-name':'x'}}",
     "\"kueue.x-k8s.io/pod-group-name\" is the operator's own"},
    {"pods_annotations_leave_the_size_of_the_group_to_the_operator",
     "{'annotations':{'kueue.x-k8s.io/pod-group-total-count':'2'}}",
     "\"kueue.x-k8s.io/pod-group-total-count\" is the operator's own"},
    {"pods_annotations_leave_the_role_to_the_operator",
     "{'annotations':{'kueue.x-k8s.io/role-hash':'a'}}",
     "\"kueue.x-k8s.io/role-hash\" is the operator's own"},
    {"pods_label_keys_are_kubernetes", "{'labels':{'a b':'x'}}",
     "spec.worker.labels: \"a b\" is no key such as \"team\" or \"example.com/team\""},
    {"pods_label_keys_are_not_empty", "{'labels':{'':'x'}}", "spec.worker.labels: \"\" is no key"},
    {"pods_label_keys_have_a_name", "{'labels':{'a.b/':'x'}}", "\"a.b/\" is no key"},
    {"pods_label_keys_have_one_prefix", "{'labels':{'a/b/c':'x'}}", "\"a/b/c\" is no key"},
    {"pods_label_keys_have_a_prefix_in_lower_case", "{'labels':{'A.b/c':'x'}}",
     "\"A.b/c\" is no key"},
    {"pods_label_values_are_kubernetes", "{'labels':{'a':'-x'}}",
     "spec.worker.labels: \"a\" must be at most 63 letters, digits, \"-\", \"_\" and \".\", with a "
     "letter or digit at both ends; found \"-x\""},
    {"pods_label_values_are_short",
     "{'nodeSelector':{'a':'0123456789012345678901234567890123456789012345678901234567890123'}}",
     "spec.worker.nodeSelector: \"a\" must be at most 63 letters"},
    {"pods_tolerations_are_a_list", "{'tolerations':{}}",
     "spec.worker.tolerations: must be a list of objects, found an object"},
    {"pods_tolerations_are_objects", "{'tolerations':[1]}",
     "spec.worker.tolerations[0]: must be an object, found a number"},
    {"pods_tolerations_have_known_fields", "{'tolerations':[{'operator':'Exists'},{'keys':'a'}]}",
     "spec.worker.tolerations[1].keys: there is no such field"},
    {"pods_tolerations_have_known_effects", "{'tolerations':[{'key':'a','effect':'Stop'}]}",
     "spec.worker.tolerations[0].effect: \"Stop\" is not one of NoSchedule, PreferNoSchedule, "
     "NoExecute"},
    {"pods_tolerate_everything_in_so_many_words", "{'tolerations':[{'effect':'NoSchedule'}]}",
     "spec.worker.tolerations[0].operator: must be Exists without a key"},
    {"pods_tolerations_of_any_value_have_none",
     "{'tolerations':[{'key':'a','operator':'Exists','value':'x'}]}",
     "spec.worker.tolerations[0].value: has no effect with Exists; leave it out"},
    {"pods_tolerations_end_for_no_execute_only",
     "{'tolerations':[{'key':'a','effect':'NoSchedule','tolerationSeconds':5}]}",
     "spec.worker.tolerations[0].tolerationSeconds: needs effect NoExecute"},
    {"pods_pull_secrets_have_names", "{'imagePullSecrets':[{}]}",
     "spec.worker.imagePullSecrets[0].name: missing"},
    {"pods_pull_secrets_are_few",
     "{'imagePullSecrets':[{'name':'a'},{'name':'a'},{'name':'a'},{'name':'a'},{'name':'a'},"
     "{'name':'a'},{'name':'a'},{'name':'a'},{'name':'a'}]}",
     "spec.worker.imagePullSecrets: must have at most 8 entries, found 9"},
};

/* JSON with single quotes. */
static struct json *parse_quoted(const char *text)
{
    char json[1024];

    assert_true(strlen(text) < sizeof json);
    (void)snprintf(json, sizeof json, "%s", text);
    for (char *c = json; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    return parse(json);
}

static void check_row(void **state)
{
    const struct row *row = *state;
    struct json *worker = parse_quoted(row->worker);
    struct err err = {.text = ""};
    enum err_code rc = pods_check(worker, &err);

    if (!row->says && rc != ERR_OK)
        fail_msg("refused: %s", err.text);
    if (row->says && (rc != ERR_INVALID || !strstr(err.text, row->says)))
        fail_msg("said \"%s\"", err.text);
    json_free(worker);
}

static void pods_have_a_bounded_number_of_labels(void **state)
{
    struct buf text = {.max = 2000};

    (void)state;
    for (int n = PODS_LABELS_MAX; n <= PODS_LABELS_MAX + 1; n++) {
        struct json *worker;

        buf_reset(&text);
        assert_int_equal(buf_addf(&text, NULL, "{\"labels\":{"), ERR_OK);
        for (int i = 0; i < n; i++)
            assert_int_equal(buf_addf(&text, NULL, "%s\"k%d\":\"v\"", i ? "," : "", i), ERR_OK);
        assert_int_equal(buf_addf(&text, NULL, "}}"), ERR_OK);
        worker = parse(buf_text(&text));
        assert_int_equal(pods_check(worker, NULL), n > PODS_LABELS_MAX ? ERR_INVALID : ERR_OK);
        json_free(worker);
    }
    buf_deinit(&text);
}

static void pods_select_nodes_that_have_all_labels(void **state)
{
    static const char labels[] = "zone=north\ndisk=ssd\nempty=\n";
    static const struct {
        const char *selector;
        bool want;
    } table[] = {{"{}", true},
                 {"{'zone':'north'}", true},
                 {"{'zone':'north','disk':'ssd','empty':''}", true},
                 {"{'zone':'nort'}", false},
                 {"{'zone':'northern'}", false},
                 {"{'one':'north'}", false},
                 {"{'empty':'x'}", false},
                 {"{'missing':''}", false},
                 {"{'disk':'ssd','zone':'south'}", false}};

    (void)state;
    assert_true(pods_select(NULL, ""));
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[128];
        struct json *worker;

        (void)snprintf(text, sizeof text, "{'nodeSelector':%s}", table[i].selector);
        worker = parse_quoted(text);
        if (pods_select(worker, labels) != table[i].want)
            fail_msg("%s", text);
        json_free(worker);
    }
}

/* The rules of kube-scheduler, for the taint gpu=v100:NoExecute. */
static void pods_tolerate_a_taint_as_the_scheduler_does(void **state)
{
    static const struct {
        const char *list;
        bool want;
    } table[] = {
        {"[]", false},
        {"[{'operator':'Exists'}]", true},
        {"[{'operator':'Exists','effect':'NoSchedule'}]", false},
        {"[{'key':'gpu','operator':'Exists'}]", true},
        {"[{'key':'gp','operator':'Exists'}]", false},
        {"[{'key':'gpu','value':'v100'}]", true},
        {"[{'key':'gpu','operator':'Equal','value':'v100','effect':'NoExecute'}]", true},
        {"[{'key':'gpu','value':'a100'}]", false},
        {"[{'key':'gpu'}]", false},
        {"[{'key':'x'},{'key':'gpu','operator':'Exists','effect':'NoExecute'}]", true},
        {"[{'key':'gpu','operator':'Exists','effect':'NoExecute','tolerationSeconds':600}]", false},
    };

    (void)state;
    assert_false(pods_tolerate(NULL, "gpu", "v100", "NoExecute"));
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[160];
        struct json *worker;

        (void)snprintf(text, sizeof text, "{'tolerations':%s}", table[i].list);
        worker = parse_quoted(text);
        if (pods_tolerate(worker, "gpu", "v100", "NoExecute") != table[i].want)
            fail_msg("%s", text);
        json_free(worker);
    }
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(pods_have_a_bounded_number_of_labels),
        cmocka_unit_test(pods_select_nodes_that_have_all_labels),
        cmocka_unit_test(pods_tolerate_a_taint_as_the_scheduler_does),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, check_row);
    return suite_run(&suite, "pods", NULL, NULL);
}
