#include "kube/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct kube_resource things = {"example.org", "v1alpha1", "things", true};

struct row {
    const char *name;
    struct kube_ref ref;
    const char *path; /* NULL: refused */
    const char *text;
};

static struct row rows[] = {
    {"ref_of_a_pod",
     {.resource = &kube_pods, .namespace = "ns", .name = "a"},
     "/api/v1/namespaces/ns/pods/a",
     "pods ns/a"},
    {"ref_of_the_pods_of_a_namespace",
     {.resource = &kube_pods, .namespace = "ns"},
     "/api/v1/namespaces/ns/pods",
     "pods ns"},
    {"ref_of_all_pods", {.resource = &kube_pods}, "/api/v1/pods", "pods"},
    {"ref_of_a_node_ignores_a_namespace",
     {.resource = &kube_nodes, .namespace = "ns", .name = "n"},
     "/api/v1/nodes/n",
     "nodes n"},
    {"ref_of_a_status_of_a_custom_resource",
     {.resource = &things, .namespace = "ns", .name = "a", .subresource = "status"},
     "/apis/example.org/v1alpha1/namespaces/ns/things/a/status",
     "things ns/a status"},
    {"ref_escapes_its_selectors",
     {.resource = &kube_pods, .label_selector = "a=b,c in (d)", .field_selector = "x!=y&z"},
     "/api/v1/pods?labelSelector=a%3Db%2Cc%20in%20%28d%29&fieldSelector=x%21%3Dy%26z",
     "pods"},
    {"ref_escapes_a_name",
     {.resource = &kube_pods, .namespace = "ns", .name = "a b?c#d:e"},
     "/api/v1/namespaces/ns/pods/a%20b%3Fc%23d%3Ae",
     "pods ns/a b?c#d:e"},
    {"ref_without_namespace_names_no_pod", {.resource = &kube_pods, .name = "a"}, NULL, "pods a"},
    {"ref_refuses_an_empty_name",
     {.resource = &kube_pods, .namespace = "ns", .name = ""},
     NULL,
     "pods ns/"},
    {"ref_refuses_to_climb",
     {.resource = &kube_pods, .namespace = "ns", .name = ".."},
     NULL,
     "pods ns/.."},
    {"ref_refuses_a_slash_in_a_namespace",
     {.resource = &kube_pods, .namespace = "a/b", .name = "c"},
     NULL,
     "pods a/b/c"},
    {"ref_refuses_what_is_escaped_already",
     {.resource = &kube_pods, .namespace = "ns", .name = "a%2fb"},
     NULL,
     "pods ns/a%2fb"},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct buf path = {.max = 1000};
    char text[100];

    assert_int_equal(kube_ref_path(&row->ref, &path, NULL), row->path ? ERR_OK : ERR_INVALID);
    if (row->path)
        assert_string_equal(buf_text(&path), row->path);
    kube_ref_text(&row->ref, text, sizeof text);
    assert_string_equal(text, row->text);
    buf_deinit(&path);
}

static void list_path_carries_its_position(void **state)
{
    struct kube_ref ref = {.resource = &kube_nodes, .label_selector = "a"};
    struct buf path = {.max = 1000};

    (void)state;
    assert_int_equal(kube_list_path(&ref, "", 100, &path, NULL), ERR_OK);
    assert_string_equal(path.data, "/api/v1/nodes?labelSelector=a&limit=100");
    buf_reset(&path);
    ref.label_selector = NULL;
    assert_int_equal(kube_list_path(&ref, "e+/=", 3, &path, NULL), ERR_OK);
    assert_string_equal(path.data, "/api/v1/nodes?limit=3&continue=e%2B%2F%3D");
    buf_deinit(&path);
}

#define N_ROWS (sizeof rows / sizeof *rows)

int main(void)
{
    struct CMUnitTest tests[N_ROWS + 1] = {cmocka_unit_test(list_path_carries_its_position)};

    for (size_t i = 0; i < N_ROWS; i++)
        tests[i + 1] = (struct CMUnitTest){rows[i].name, check_row, NULL, NULL, &rows[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
