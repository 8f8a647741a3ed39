/* Whom an https request trusts, against a real TLS server (openssl s_server). */
#include "http/http.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "loopback.h"
#include "scratch.h"

static struct http *loop;
static struct err err;
static pid_t open_server = -1;   /* asks for no client certificate */
static pid_t mutual_server = -1; /* requires one of our CA */
static int open_port;
static int mutual_port;
static char *ca;
static char *other_ca;
static char *client_cert;
static char *client_key;

/* Two CAs, a server certificate for the name worker.test and a client certificate. */
static const char make_certificates[] =
    "set -e; exec 2>/dev/null; EC='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2'\n"
    "for ca in ca other; do\n"
    "  openssl req -x509 $EC -subj /CN=$ca -keyout $ca.key -out $ca.crt\n"
    "done\n"
    "for name in worker.test client; do\n"
    "  openssl req $EC -subj /CN=$name -keyout $name.key -out $name.csr\n"
    "  printf 'subjectAltName=DNS:%s\\n' $name >ext\n"
    "  openssl x509 -req -in $name.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \\\n"
    "    -extfile ext -out $name.crt\n"
    "done\n";

static char *read_pem(const char *name)
{
    struct buf text = {.max = 100000};

    assert_int_equal(file_read(scratch_path(name), &text, &err), ERR_OK);
    return buf_take(&text);
}

/* A port that was free a moment ago: s_server cannot choose and report one itself. */
static int free_port(void)
{
    struct loopback *l = loopback_start(NULL, 0);
    int port;

    assert_non_null(l);
    port = loopback_port(l);
    loopback_stop(l);
    return port;
}

static pid_t serve(int port, bool is_mutual)
{
    char accept_at[32];
    pid_t pid;

    (void)snprintf(accept_at, sizeof accept_at, "127.0.0.1:%d", port);
    pid = fork();
    if (pid != 0)
        return pid;
    if (chdir(scratch) != 0 || !freopen("s_server.log", "a", stdout) ||
        !freopen("s_server.log", "a", stderr))
        _exit(1);
    if (is_mutual)
        execlp("openssl", "openssl", "s_server", "-www", "-accept", accept_at, "-cert",
               "worker.test.crt", "-key", "worker.test.key", "-Verify", "1", "-verify_return_error",
               "-CAfile", "ca.crt", (char *)NULL);
    else
        execlp("openssl", "openssl", "s_server", "-www", "-accept", accept_at, "-cert",
               "worker.test.crt", "-key", "worker.test.key", (char *)NULL);
    _exit(1);
}

static enum err_code get(int port, const struct http_tls *tls, int *out_status)
{
    struct http_response r = {0};
    char url[64];
    struct http_request request = {
        .url = url, .connect_to = "127.0.0.1", .tls = *tls, .deadline_ms = 5000};
    enum err_code rc;

    (void)snprintf(url, sizeof url, "https://worker.test:%d/", port);
    rc = http_call(loop, &request, &r, &err);
    *out_status = r.status;
    buf_deinit(&r.body);
    return rc;
}

static void wait_for(int port, bool is_mutual)
{
    struct http_tls tls = {.ca_pem = ca};
    int64_t end_ms = clock_now_ms() + 10000;
    int status;

    if (is_mutual) {
        tls.cert_pem = client_cert;
        tls.key_pem = client_key;
    }
    while (get(port, &tls, &status) != ERR_OK && clock_now_ms() < end_ms)
        (void)usleep(20000);
}

static int set_up(void **state)
{
    char command[2048];

    if (scratch_make(state) != 0 || http_new(&loop, &err) != ERR_OK)
        return -1;
    (void)snprintf(command, sizeof command, "cd %s\n%s", scratch, make_certificates);
    if (system(command) != 0)
        return -1;
    ca = read_pem("ca.crt");
    other_ca = read_pem("other.crt");
    client_cert = read_pem("client.crt");
    client_key = read_pem("client.key");
    open_port = free_port();
    open_server = serve(open_port, false);
    mutual_port = free_port();
    mutual_server = serve(mutual_port, true);
    wait_for(open_port, false);
    wait_for(mutual_port, true);
    return 0;
}

static int tear_down(void **state)
{
    for (int i = 0; i < 2; i++) {
        pid_t pid = i ? open_server : mutual_server;

        if (pid > 0 && kill(pid, SIGKILL) == 0)
            (void)waitpid(pid, NULL, 0);
    }
    http_free(loop);
    free(ca);
    free(other_ca);
    free(client_cert);
    free(client_key);
    return scratch_remove(state);
}

static void tls_trusts_the_ca_it_was_given(void **state)
{
    struct http_tls tls = {.ca_pem = ca};
    int status;

    (void)state;
    assert_int_equal(get(open_port, &tls, &status), ERR_OK);
    assert_int_equal(status, 200);
}

static void tls_refuses_a_server_of_another_ca(void **state)
{
    struct http_tls tls = {.ca_pem = other_ca};
    int status;

    (void)state;
    assert_int_equal(get(open_port, &tls, &status), ERR_DENIED);
    assert_int_equal(status, 0);
    assert_non_null(strstr(err.text, "worker.test"));
}

static void tls_refuses_a_server_that_only_the_system_could_know(void **state)
{
    struct http_tls tls = {0};
    int status;

    (void)state;
    assert_int_equal(get(open_port, &tls, &status), ERR_DENIED);
}

static void tls_refuses_a_server_of_another_name(void **state)
{
    struct http_response r = {0};
    char url[64];
    struct http_request request = {.url = url, .tls = {.ca_pem = ca}, .deadline_ms = 5000};

    (void)state;
    (void)snprintf(url, sizeof url, "https://127.0.0.1:%d/", open_port);
    assert_int_equal(http_call(loop, &request, &r, &err), ERR_DENIED);
}

static void tls_checks_nothing_only_when_told_so(void **state)
{
    struct http_tls tls = {.ca_pem = other_ca, .insecure = true};
    int status;

    (void)state;
    assert_int_equal(get(open_port, &tls, &status), ERR_OK);
}

static void tls_shows_the_client_certificate(void **state)
{
    struct http_tls tls = {.ca_pem = ca, .cert_pem = client_cert, .key_pem = client_key};
    int status;

    (void)state;
    assert_int_equal(get(mutual_port, &tls, &status), ERR_OK);
    assert_int_equal(status, 200);
}

static void tls_without_a_certificate_is_denied_where_one_is_required(void **state)
{
    struct http_tls tls = {.ca_pem = ca};
    int status;

    (void)state;
    assert_int_equal(get(mutual_port, &tls, &status), ERR_DENIED);
}

static void tls_refuses_texts_that_are_no_certificates(void **state)
{
    struct http_tls bad_ca = {.ca_pem = "no certificate"};
    struct http_tls bad_cert = {.ca_pem = ca, .cert_pem = "none", .key_pem = client_key};
    struct http_tls bad_key = {.ca_pem = ca, .cert_pem = client_cert, .key_pem = "none"};
    struct http_tls no_pair = {.ca_pem = ca, .cert_pem = ca, .key_pem = client_key};
    int status;

    (void)state;
    assert_int_equal(get(mutual_port, &bad_ca, &status), ERR_INVALID);
    assert_int_equal(get(mutual_port, &bad_cert, &status), ERR_INVALID);
    assert_int_equal(get(mutual_port, &bad_key, &status), ERR_INVALID);
    assert_int_equal(get(mutual_port, &no_pair, &status), ERR_INVALID);
}

static void tls_to_a_server_that_does_not_speak_it_fails(void **state)
{
    static const struct loopback_reply replies[] = {{.expect = "GET"}};
    struct loopback *plain = loopback_start(replies, 1);
    struct http_tls tls = {.ca_pem = ca};
    struct http_response r = {0};
    char url[64];
    struct http_request request = {.url = url, .tls = tls, .deadline_ms = 500};

    (void)state;
    assert_non_null(plain);
    (void)snprintf(url, sizeof url, "https://127.0.0.1:%d/", loopback_port(plain));
    assert_int_not_equal(http_call(loop, &request, &r, &err), ERR_OK);
    loopback_stop(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tls_trusts_the_ca_it_was_given),
        cmocka_unit_test(tls_refuses_a_server_of_another_ca),
        cmocka_unit_test(tls_refuses_a_server_that_only_the_system_could_know),
        cmocka_unit_test(tls_refuses_a_server_of_another_name),
        cmocka_unit_test(tls_checks_nothing_only_when_told_so),
        cmocka_unit_test(tls_shows_the_client_certificate),
        cmocka_unit_test(tls_without_a_certificate_is_denied_where_one_is_required),
        cmocka_unit_test(tls_refuses_texts_that_are_no_certificates),
        cmocka_unit_test(tls_to_a_server_that_does_not_speak_it_fails),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
