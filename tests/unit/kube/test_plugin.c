#include "kube/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "scratch.h"
#include "suite.h"

#define V1 "client.authentication.k8s.io/v1"

static struct err err;

/* Runs `script` in a shell, with `more` in the exec object. */
static enum err_code run(const char *script, const char *more, struct plugin_credentials *out)
{
    static const struct plugin_cluster cluster = {
        .server = "https://a:6443", .ca_pem = "CA\n", .tls_server_name = "api", .insecure = true};
    char text[1024];
    struct json *exec = NULL;
    enum err_code rc;

    (void)scratch_text("plugin", script);
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"" V1 "\",\"command\":\"/bin/sh\",\"args\":[\"%s/plugin\","
                   "\"two words\"]%s}",
                   scratch, more);
    err = (struct err){.text = ""};
    assert_int_equal(json_parse(text, strlen(text), &exec, &err), ERR_OK);
    rc = plugin_run(exec, "/nowhere", &cluster, out, &err);
    json_free(exec);
    return rc;
}

static int set_up(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    return freopen("/dev/null", "r", stdin) ? 0 : -1; /* no test waits for a terminal */
}

#define GIVES(status)                                                                              \
    "echo '{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\",\"status\":{" status "}}'\n"

static void plugin_gives_a_token_until_it_expires(void **state)
{
    struct plugin_credentials got;

    (void)state;
    assert_int_equal(
        run(GIVES("\"token\":\"abc\",\"expirationTimestamp\":\"1970-01-01T00:01:00Z\""), "", &got),
        ERR_OK);
    assert_string_equal(got.token, "abc");
    assert_null(got.cert_pem);
    assert_true(got.expires_ms == 60000);
    plugin_credentials_deinit(&got);
    assert_null(got.token);
}

static void plugin_gives_a_certificate_with_its_key(void **state)
{
    struct plugin_credentials got;

    (void)state;
    assert_int_equal(
        run(GIVES("\"clientCertificateData\":\"C\",\"clientKeyData\":\"K\""), "", &got), ERR_OK);
    assert_null(got.token);
    assert_string_equal(got.cert_pem, "C");
    assert_string_equal(got.key_pem, "K");
    assert_true(got.expires_ms == 0);
    plugin_credentials_deinit(&got);
}

/* The program writes down what it got, into the folder of its script. */
static const char *noted(const char *name)
{
    static struct buf text = {.max = 4096};
    char path[300];

    (void)snprintf(path, sizeof path, "%s/%s", scratch, name);
    buf_deinit(&text);
    text.max = 4096;
    assert_int_equal(file_read(path, &text, NULL), ERR_OK);
    return buf_text(&text);
}

static void plugin_gets_arguments_environment_and_the_cluster(void **state)
{
    static const char script[] =
        "d=$(dirname \"$0\"); printf %s \"$1\" >$d/arg; printf %s "
        "\"$KUBERNETES_EXEC_INFO\" >$d/info; "
        "printf %s \"$REGION$HOME\" >$d/env; cat >$d/stdin\n" GIVES("\"token\":\"t\"");
    struct plugin_credentials got;

    (void)state;
    assert_int_equal(setenv("HOME", "/old", 1), 0);
    assert_int_equal(run(script,
                         ",\"env\":[{\"name\":\"REGION\",\"value\":\"eu=1\"},{\"name\":\"HOME\","
                         "\"value\":\"/new\"}],\"provideClusterInfo\":true",
                         &got),
                     ERR_OK);
    plugin_credentials_deinit(&got);
    assert_string_equal(noted("arg"), "two words");
    assert_string_equal(noted("env"), "eu=1/new");
    assert_string_equal(noted("stdin"), "");
    assert_string_equal(noted("info"),
                        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "\",\"spec\":{"
                        "\"interactive\":false,\"cluster\":{\"server\":\"https://a:6443\","
                        "\"tls-server-name\":\"api\",\"insecure-skip-tls-verify\":true,"
                        "\"certificate-authority-data\":\"Q0EK\"}}}");
    assert_int_equal(run(script, "", &got), ERR_OK);
    plugin_credentials_deinit(&got);
    assert_string_equal(noted("info"), "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1
                                       "\",\"spec\":{\"interactive\":false}}");
}

static void plugin_is_found_beside_the_file_that_names_it(void **state)
{
    static const char text[] = "{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\","
                               "\"command\":\"./own\"}";
    static const struct plugin_cluster cluster = {.server = "http://h"};
    struct plugin_credentials got;
    struct json *exec = NULL;
    char path[300];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/own", scratch);
    (void)scratch_text("own", "#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/"
                              "v1beta1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\"}}'"
                              "\n");
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(json_parse(text, strlen(text), &exec, NULL), ERR_OK);
    assert_int_equal(plugin_run(exec, scratch, &cluster, &got, &err), ERR_OK);
    plugin_credentials_deinit(&got);
    json_free(exec);
}

static void plugin_that_is_not_there_is_told_with_its_hint(void **state)
{
    static const char text[] = "{\"apiVersion\":\"" V1 "\",\"command\":\"no-such-program\","
                               "\"installHint\":\"get it from example.com\"}";
    static const struct plugin_cluster cluster = {.server = "http://h"};
    struct plugin_credentials got;
    struct json *exec = NULL;

    (void)state;
    assert_int_equal(json_parse(text, strlen(text), &exec, NULL), ERR_OK);
    assert_int_equal(plugin_run(exec, scratch, &cluster, &got, &err), ERR_NOT_FOUND);
    assert_string_equal(err.text, "exec plugin no-such-program: cannot be run: No such file or "
                                  "directory; get it from example.com");
    json_free(exec);
}

static struct row {
    const char *name, *script, *more;
    enum err_code rc;
    const char *says;
} rows[] = {
    {"plugin_that_fails_is_told", "exit 3\n", "", ERR_DENIED,
     "exec plugin /bin/sh: ended with status 3"},
    {"plugin_that_is_killed_is_told", "kill -9 $$\n", "", ERR_DENIED, "was ended by signal 9"},
    {"plugin_that_writes_nothing_is_told", "true\n", "", ERR_INVALID, "exec plugin /bin/sh: "},
    {"plugin_that_writes_something_else_is_told", "echo '{\"kind\":\"Pod\"}'\n", "", ERR_INVALID,
     "wrote no ExecCredential of " V1},
    {"plugin_of_another_version_is_told",
     "echo '{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":\"ExecCredential\"}'"
     "\n",
     "", ERR_INVALID, "wrote no ExecCredential of " V1},
    {"plugin_without_credentials_is_told", GIVES(""), "", ERR_INVALID,
     "gave neither a token nor a client certificate with its key"},
    {"plugin_with_half_a_certificate_is_told", GIVES("\"token\":\"t\",\"clientKeyData\":\"K\""), "",
     ERR_INVALID, "gave neither"},
    {"plugin_with_a_wrong_time_is_told", GIVES("\"token\":\"t\",\"expirationTimestamp\":\"soon\""),
     "", ERR_INVALID, "status.expirationTimestamp: \"soon\" is no time"},
    {"plugin_that_writes_too_much_is_ended", "yes\n", "", ERR_LIMIT, "exec plugin /bin/sh: "},
    {"plugin_that_needs_a_terminal_is_told", GIVES("\"token\":\"t\""),
     ",\"interactiveMode\":\"Always\"", ERR_DENIED, "needs a terminal"},
    {"plugin_has_a_known_mode", GIVES("\"token\":\"t\""), ",\"interactiveMode\":\"Maybe\"",
     ERR_INVALID, "exec.interactiveMode: \"Maybe\" is not one of"},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct plugin_credentials got = {0};
    enum err_code rc = run(row->script, row->more, &got);

    if (rc != row->rc || !strstr(err.text, row->says))
        fail_msg("%d: %s", (int)rc, err.text);
    assert_null(got.token);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(plugin_gives_a_token_until_it_expires),
        cmocka_unit_test(plugin_gives_a_certificate_with_its_key),
        cmocka_unit_test(plugin_gets_arguments_environment_and_the_cluster),
        cmocka_unit_test(plugin_is_found_beside_the_file_that_names_it),
        cmocka_unit_test(plugin_that_is_not_there_is_told_with_its_hint),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, check_row);
    return suite_run(&suite, "plugin", set_up, scratch_remove);
}
