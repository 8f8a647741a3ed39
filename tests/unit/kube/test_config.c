#include "kube/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "scratch.h"
#include "suite.h"

static struct err err;

static void put(const char *name, const char *text)
{
    (void)scratch_text(name, text);
}

static int make_folder(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    put("ca.crt", "CA text\n");
    put("client.crt", "CERT text\n");
    put("token", "from-file\n");
    put("namespace", "team\n");
    put("empty", "");
    return 0;
}

/* A kubeconfig of one context with these lines under its cluster, user and context. */
#define CONFIG(cluster, user, context)                                                             \
    "apiVersion: v1\nkind: Config\n"                                                               \
    "clusters:\n- name: other\n  cluster: {server: http://other}\n"                                \
    "- name: c\n  cluster:\n" cluster "users:\n- name: u\n  user:\n" user                          \
    "contexts:\n- name: x\n  context:\n    cluster: c\n    user: u\n" context                      \
    "current-context: x\n"
#define SERVER "    server: https://10.0.0.1:6443/\n"
#define TOKEN  "    token: secret\n"

struct row {
    const char *name;
    const char *yaml;
    const char *context; /* NULL: the current one */
    const char *error;   /* a part of the text; NULL: fine */
    struct kube_config want;
};

#define TEXT(t) ((char *)(uintptr_t)(t)) /* the rows are only read */

static struct row rows[] = {
    {"config_reads_server_and_token", CONFIG(SERVER, TOKEN, ""),
     .want = {.server = TEXT("https://10.0.0.1:6443"),
              .token = TEXT("secret"),
              .namespace = TEXT("default")}},
    {"config_reads_the_namespace_of_the_context", CONFIG(SERVER, TOKEN, "    namespace: ml\n"),
     .want = {.server = TEXT("https://10.0.0.1:6443"),
              .token = TEXT("secret"),
              .namespace = TEXT("ml")}},
    {"config_reads_files_beside_it",
     CONFIG(SERVER "    certificate-authority: ca.crt\n", "    tokenFile: token\n", ""),
     .want = {.server = TEXT("https://10.0.0.1:6443"),
              .token = TEXT("from-file"),
              .ca_pem = TEXT("CA text\n"),
              .namespace = TEXT("default")}},
    {"config_prefers_a_token_file_to_a_token", CONFIG(SERVER, TOKEN "    tokenFile: token\n", ""),
     .want = {.server = TEXT("https://10.0.0.1:6443"),
              .token = TEXT("from-file"),
              .namespace = TEXT("default")}},
    {"config_decodes_data_and_prefers_it_to_files",
     CONFIG(SERVER "    certificate-authority-data: Q0EgZGF0YQo=\n"
                   "    certificate-authority: nowhere.crt\n",
            "    client-certificate: client.crt\n    client-key-data: S0VZCg==\n", ""),
     .want = {.server = TEXT("https://10.0.0.1:6443"),
              .ca_pem = TEXT("CA data\n"),
              .cert_pem = TEXT("CERT text\n"),
              .key_pem = TEXT("KEY\n"),
              .namespace = TEXT("default")}},
    {"config_reads_what_loosens_and_tightens_tls",
     CONFIG(SERVER "    insecure-skip-tls-verify: true\n    tls-server-name: api.example\n", TOKEN,
            ""),
     .want = {.server = TEXT("https://10.0.0.1:6443"),
              .token = TEXT("secret"),
              .insecure = true,
              .tls_server_name = TEXT("api.example"),
              .namespace = TEXT("default")}},
    {"config_takes_the_context_it_is_told",
     "contexts: [{name: b, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: "
     "http://h}}]\ncurrent-context: a\n",
     .context = "b", .want = {.server = TEXT("http://h"), .namespace = TEXT("default")}},
    {"config_reads_json",
     "{\"contexts\":[{\"name\":\"b\",\"context\":{\"cluster\":\"c\"}}],"
     "\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"http://h\"}}],"
     "\"current-context\":\"b\"}",
     .want = {.server = TEXT("http://h"), .namespace = TEXT("default")}},
    {"config_names_a_plugin_that_fails",
     CONFIG(SERVER,
            TOKEN "    exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, "
                  "args: [-c, 'exit 1']}\n",
            ""),
     .error = "exec plugin sh: ended with status 1"},
    {"config_refuses_auth_providers", CONFIG(SERVER, "    auth-provider: {name: gcp}\n", ""),
     .error = "auth-provider"},
    {"config_refuses_passwords", CONFIG(SERVER, "    username: a\n    password: b\n", ""),
     .error = "password is not supported"},
    {"config_refuses_impersonation", CONFIG(SERVER, TOKEN "    as: root\n", ""),
     .error = "impersonation"},
    {"config_refuses_a_proxy_url", CONFIG(SERVER "    proxy-url: http://p\n", TOKEN, ""),
     .error = "cluster \"c\": proxy-url"},
    {"config_refuses_a_token_that_reads_as_a_number", CONFIG(SERVER, "    token: 123456\n", ""),
     .error = "put it in quotes"},
    {"config_refuses_a_certificate_without_its_key",
     CONFIG(SERVER, "    client-certificate: client.crt\n", ""), .error = "come together"},
    {"config_refuses_a_server_that_is_no_url", CONFIG("    server: 10.0.0.1\n", TOKEN, ""),
     .error = "\"10.0.0.1\" is not an http(s) URL"},
    {"config_refuses_a_cluster_without_server", CONFIG("    x: y\n", TOKEN, ""),
     .error = "is not an http(s) URL"},
    {"config_refuses_data_that_is_not_base64",
     CONFIG(SERVER "    certificate-authority-data: '*'\n", TOKEN, ""),
     .error = "certificate-authority-data is not base64"},
    {"config_refuses_data_that_is_not_text",
     CONFIG(SERVER "    certificate-authority-data: QQBC\n", TOKEN, ""), .error = "PEM"},
    {"config_names_a_file_that_is_missing",
     CONFIG(SERVER "    certificate-authority: nowhere.crt\n", TOKEN, ""),
     .error = "nowhere.crt: No such file"},
    {"config_refuses_an_empty_token_file", CONFIG(SERVER, "    tokenFile: empty\n", ""),
     .error = "empty is empty"},
    {"config_names_a_context_that_is_missing", CONFIG(SERVER, TOKEN, ""), .context = "nope",
     .error = "no context \"nope\""},
    {"config_names_a_cluster_that_is_missing",
     "contexts: [{name: b, context: {cluster: c}}]\ncurrent-context: b\n",
     .error = "no cluster \"c\""},
    {"config_names_a_user_that_is_missing",
     "contexts: [{name: b, context: {cluster: c, user: v}}]\ncurrent-context: b\n"
     "clusters: [{name: c, cluster: {server: http://h}}]\n",
     .error = "no user \"v\""},
    {"config_refuses_a_file_without_current_context", "apiVersion: v1\n",
     .error = "no current-context"},
    {"config_refuses_an_empty_file", "", .error = "empty"},
    {"config_refuses_what_is_not_yaml", "a: [", .error = "line"},
    {"config_refuses_a_list", "[1, 2]", .error = "no current-context"},
};

static void assert_same(const char *got, const char *want)
{
    assert_true((got != NULL) == (want != NULL));
    if (want)
        assert_string_equal(got, want);
}

static void check_row(void **state)
{
    const struct row *row = *state;
    struct buf yaml = {.max = 10000};
    struct kube_config c = {0};
    enum err_code rc;

    assert_int_equal(buf_add(&yaml, row->yaml, strlen(row->yaml), &err), ERR_OK);
    rc = kube_config_parse(&yaml, scratch, row->context, &c, &err);
    buf_deinit(&yaml);
    if (row->error) {
        assert_int_not_equal(rc, ERR_OK);
        if (!strstr(err.text, row->error))
            fail_msg("%s", err.text);
        assert_null(c.server);
        return;
    }
    if (rc != ERR_OK)
        fail_msg("%s", err.text);
    assert_same(c.server, row->want.server);
    assert_same(c.namespace, row->want.namespace);
    assert_same(c.token, row->want.token);
    assert_same(c.ca_pem, row->want.ca_pem);
    assert_same(c.cert_pem, row->want.cert_pem);
    assert_same(c.key_pem, row->want.key_pem);
    assert_same(c.tls_server_name, row->want.tls_server_name);
    assert_true(c.insecure == row->want.insecure);
    kube_config_deinit(&c);
    kube_config_deinit(&c);
}

static void config_reads_a_service_account(void **state)
{
    struct kube_config c = {0};

    (void)state;
    assert_int_equal(kube_config_in_cluster(scratch, "10.96.0.1", "443", &c, &err), ERR_OK);
    assert_string_equal(c.server, "https://10.96.0.1:443");
    assert_string_equal(c.token, "from-file");
    assert_string_equal(c.ca_pem, "CA text\n");
    assert_string_equal(c.namespace, "team");
    assert_true(c.in_cluster);
    kube_config_deinit(&c);
}

static void config_puts_brackets_around_an_ipv6_host(void **state)
{
    struct kube_config c = {0};

    (void)state;
    assert_int_equal(kube_config_in_cluster(scratch, "fd00::1", "443", &c, &err), ERR_OK);
    assert_string_equal(c.server, "https://[fd00::1]:443");
    kube_config_deinit(&c);
    assert_int_equal(kube_config_in_cluster("/nowhere", "h", "443", &c, &err), ERR_NOT_FOUND);
    assert_null(c.server);
}

static void config_refresh_reads_a_rotated_token_and_keeps_an_old_one_else(void **state)
{
    struct kube_config c = {0};

    (void)state;
    assert_int_equal(kube_config_in_cluster(scratch, "h", "443", &c, &err), ERR_OK);
    put("token", "rotated");
    put("ca.crt", "new CA");
    kube_config_refresh(&c, false);
    assert_string_equal(c.token, "rotated");
    assert_string_equal(c.ca_pem, "new CA");
    put("token", "");
    kube_config_refresh(&c, false);
    assert_string_equal(c.token, "rotated");
    put("token", "from-file\n");
    put("ca.crt", "CA text\n");
    kube_config_deinit(&c);
}

/* A certificate is taken with its key only. */
static void config_refresh_reads_a_new_certificate_with_its_key(void **state)
{
    static const char text[] =
        CONFIG(SERVER "    certificate-authority: ca.crt\n",
               "    client-certificate: client.crt\n    client-key: client.key\n", "");
    struct buf yaml = {.max = 4096};
    struct kube_config c = {0};

    (void)state;
    put("client.key", "KEY text\n");
    assert_int_equal(buf_add(&yaml, text, strlen(text), NULL), ERR_OK);
    assert_int_equal(kube_config_parse(&yaml, scratch, NULL, &c, &err), ERR_OK);
    put("client.crt", "new CERT");
    put("client.key", "");
    kube_config_refresh(&c, false);
    assert_string_equal(c.cert_pem, "CERT text\n");
    put("client.key", "new KEY");
    put("ca.crt", "new CA");
    kube_config_refresh(&c, false);
    assert_string_equal(c.cert_pem, "new CERT");
    assert_string_equal(c.key_pem, "new KEY");
    assert_string_equal(c.ca_pem, "new CA");
    put("client.crt", "CERT text\n");
    put("ca.crt", "CA text\n");
    kube_config_deinit(&c);
    buf_deinit(&yaml);
}

#define LOG_IN                                                                                     \
    "    exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, "                   \
    "interactiveMode: Never}\n"
#define CREDENTIAL(status)                                                                         \
    "#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":"               \
    "\"ExecCredential\",\"status\":{" status "}}'\n"

static void put_login(const char *text)
{
    char path[128];

    put("login", text);
    (void)snprintf(path, sizeof path, "%s/login", scratch);
    assert_int_equal(chmod(path, 0700), 0);
}

static void config_refresh_runs_a_plugin_when_what_it_gave_is_refused_or_old(void **state)
{
    static const char text[] = CONFIG(SERVER, LOG_IN, "");
    struct buf yaml = {.max = 4096};
    struct kube_config c = {0};

    (void)state;
    put_login(CREDENTIAL("\"token\":\"one\""));
    assert_int_equal(buf_add(&yaml, text, strlen(text), NULL), ERR_OK);
    assert_int_equal(kube_config_parse(&yaml, scratch, NULL, &c, &err), ERR_OK);
    assert_string_equal(c.token, "one");
    put_login(CREDENTIAL("\"token\":\"two\",\"expirationTimestamp\":\"1970-01-01T00:00:01Z\""));
    kube_config_refresh(&c, false);
    assert_string_equal(c.token, "one"); /* good until it is refused */
    kube_config_refresh(&c, true);
    assert_string_equal(c.token, "two");
    put_login("#!/bin/sh\nexit 1\n");
    kube_config_refresh(&c, false);
    assert_string_equal(c.token, "two"); /* it has expired, but there is no other */
    put_login(CREDENTIAL("\"token\":\"three\""));
    kube_config_refresh(&c, false);
    assert_string_equal(c.token, "three");
    kube_config_deinit(&c);
    buf_deinit(&yaml);
}

/* As kubectl merges them: what has the same name is that of the first file, paths are relative to
 * the file that has them. */
static void config_load_merges_several_files(void **state)
{
    char list[300];
    struct kube_config c = {0};

    (void)state;
    put("one", "contexts: [{name: a, context: {cluster: c, user: u, namespace: one}}]\n"
               "users: [{name: u, user: {token: first}}]\n");
    put("two", CONFIG(SERVER "    certificate-authority: ca.crt\n", TOKEN, ""));
    put("three", "current-context: nope\nusers: [{name: v, user: {token: third}}]\n");
    (void)snprintf(list, sizeof list, "%s/one:/nowhere/a:%s/two:%s/three", scratch, scratch,
                   scratch);
    assert_int_equal(setenv("KUBECONFIG", list, 1), 0);
    assert_int_equal(kube_config_load(NULL, "a", &c, &err), ERR_OK);
    assert_string_equal(c.namespace, "one");
    assert_string_equal(c.token, "first");
    assert_string_equal(c.server, "https://10.0.0.1:6443");
    assert_string_equal(c.ca_pem, "CA text\n");
    kube_config_deinit(&c);
    assert_int_equal(kube_config_load(NULL, NULL, &c, &err), ERR_OK); /* the context x of two */
    assert_string_equal(c.namespace, "default");
    assert_string_equal(c.token, "first");
    kube_config_deinit(&c);
    assert_int_equal(unsetenv("KUBECONFIG"), 0);
}

static void config_load_looks_where_kubectl_looks(void **state)
{
    char path[128];
    char list[300];
    struct kube_config c = {0};

    (void)state;
    put("kubeconfig", CONFIG(SERVER "    certificate-authority: ca.crt\n", TOKEN, ""));
    (void)snprintf(path, sizeof path, "%s/kubeconfig", scratch);
    (void)snprintf(list, sizeof list, "/nowhere/a::%s:/nowhere/b", path);
    assert_int_equal(setenv("KUBECONFIG", list, 1), 0);
    assert_int_equal(kube_config_load(NULL, NULL, &c, &err), ERR_OK);
    assert_string_equal(c.ca_pem, "CA text\n");
    kube_config_deinit(&c);
    assert_int_equal(setenv("KUBECONFIG", "/nowhere/a:/nowhere/b", 1), 0);
    assert_int_equal(kube_config_load(NULL, NULL, &c, &err), ERR_NOT_FOUND);
    assert_int_equal(kube_config_load(path, NULL, &c, &err), ERR_OK);
    kube_config_deinit(&c);
    assert_int_equal(unsetenv("KUBECONFIG"), 0);
    assert_int_equal(setenv("HOME", scratch, 1), 0);
    assert_int_equal(unsetenv("KUBERNETES_SERVICE_HOST"), 0);
    assert_int_equal(kube_config_load(NULL, NULL, &c, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "/.kube/config"));
}

static void config_load_names_the_file_that_is_wrong(void **state)
{
    char path[128];
    struct kube_config c = {0};

    (void)state;
    put("bad", "a: [");
    (void)snprintf(path, sizeof path, "%s/bad", scratch);
    assert_int_equal(kube_config_load(path, NULL, &c, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, path));
}

int main(void)
{
    const struct CMUnitTest singles[] = {
        cmocka_unit_test(config_reads_a_service_account),
        cmocka_unit_test(config_puts_brackets_around_an_ipv6_host),
        cmocka_unit_test(config_refresh_reads_a_rotated_token_and_keeps_an_old_one_else),
        cmocka_unit_test(config_refresh_reads_a_new_certificate_with_its_key),
        cmocka_unit_test(config_refresh_runs_a_plugin_when_what_it_gave_is_refused_or_old),
        cmocka_unit_test(config_load_merges_several_files),
        cmocka_unit_test(config_load_looks_where_kubectl_looks),
        cmocka_unit_test(config_load_names_the_file_that_is_wrong),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, singles);
    SUITE_ROWS(&suite, rows, check_row);
    return suite_run(&suite, "config", make_folder, scratch_remove);
}
