/* A command against an API server whose answers a test has written: its exit code, and what it
 * prints. A test names as many replies as there are requests. */
#ifndef TEST_VERB_H
#define TEST_VERB_H

#include <getopt.h>

#include "base/buf.h"
#include "cli/command.h"
#include "loopback.h"
#include "scratch.h"

#define VERB_ARGUMENTS_MAX 16
#define VERB_TEXT_BYTES    65536

#define VERB_JOB_PATH "/apis/skyjob.dev/v1alpha1/namespaces/team/skyjobs/mnli"

static struct loopback *verb_server;
static char verb_out[VERB_TEXT_BYTES]; /* stdout of the last command */
static char verb_err[VERB_TEXT_BYTES]; /* its stderr */

#define VERB_SERVE(...)                                                                            \
    static const struct loopback_reply replies[] = {__VA_ARGS__};                                  \
    verb_serve(replies, sizeof replies / sizeof *replies)

static inline void verb_serve(const struct loopback_reply *replies, size_t n)
{
    char config[512];
    int len;

    verb_server = loopback_start(replies, n);
    assert_non_null(verb_server);
    len = snprintf(config, sizeof config,
                   "current-context: c\n"
                   "clusters: [{name: c, cluster: {server: \"http://127.0.0.1:%d\"}}]\n"
                   "users: [{name: u, user: {token: t}}]\n"
                   "contexts: [{name: c, context: {cluster: c, user: u, namespace: team}}]\n",
                   loopback_port(verb_server));
    (void)scratch_write("kubeconfig", config, (size_t)len);
}

/* For a test's teardown: every reply was taken, and no other was asked for. */
static inline int verb_end(void **state)
{
    bool all_taken = loopback_unused(verb_server) == 0 && loopback_strays(verb_server) == 0;

    (void)state;
    if (!all_taken)
        print_error("%d replies not taken, %d requests without one\n", loopback_unused(verb_server),
                    loopback_strays(verb_server));
    loopback_stop(verb_server);
    return all_taken ? 0 : -1;
}

static inline int verb_redirect(int fd, const char *file)
{
    int kept = dup(fd);
    FILE *to = fopen(scratch_path(file), "w");

    assert_true(kept >= 0 && to);
    assert_int_equal(dup2(fileno(to), fd), fd);
    assert_int_equal(fclose(to), 0);
    return kept;
}

static inline void verb_restore(int fd, int kept, const char *file, char out[VERB_TEXT_BYTES])
{
    struct buf text = {.max = VERB_TEXT_BYTES - 1};

    assert_int_equal(dup2(kept, fd), fd);
    assert_int_equal(close(kept), 0);
    assert_int_equal(file_read(scratch_path(file), &text, NULL), ERR_OK);
    (void)snprintf(out, VERB_TEXT_BYTES, "%s", buf_text(&text));
    buf_deinit(&text);
}

/* `arguments` begin with the command's name and end with NULL. */
static inline int verb_run(int (*command)(int, char **), const char *const *arguments)
{
    char *argv[VERB_ARGUMENTS_MAX + 3];
    char *option = NULL;
    int argc = 0;
    int kept[2];
    int code;

    assert_true(asprintf(&option, "--kubeconfig=%s", scratch_path("kubeconfig")) > 0);
    for (; arguments[argc]; argc++) {
        assert_true(argc < VERB_ARGUMENTS_MAX);
        argv[argc] = (char *)(uintptr_t)arguments[argc];
    }
    argv[argc++] = option;
    argv[argc] = NULL;
    optind = 0; /* start anew */
    (void)fflush(stdout);
    kept[0] = verb_redirect(STDOUT_FILENO, "out");
    kept[1] = verb_redirect(STDERR_FILENO, "err");
    code = command(argc, argv);
    (void)fflush(stdout);
    verb_restore(STDOUT_FILENO, kept[0], "out", verb_out);
    verb_restore(STDERR_FILENO, kept[1], "err", verb_err);
    free(option);
    return code;
}

#define VERB_RUN(command, ...) verb_run(command, (const char *const[]){__VA_ARGS__, NULL})

static inline void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

#define VERB_TEST(name) cmocka_unit_test_teardown(name, verb_end)

#endif
