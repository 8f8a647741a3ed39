#include "kube/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

#define GROUP            "client.authentication.k8s.io/"
#define INFO             "KUBERNETES_EXEC_INFO="
#define OUTPUT_MAX_BYTES ((size_t)1 << 20)
#define ENVIRONMENT_MAX  4096

void plugin_credentials_deinit(struct plugin_credentials *c)
{
    free(c->token);
    free(c->cert_pem);
    free(c->key_pem);
    *c = (struct plugin_credentials){0};
}

/* --- what the program gets --- */

static enum err_code check_exec(const struct json *exec, bool has_terminal, struct err *err)
{
    const char *version = json_text(exec, "apiVersion");
    const char *mode = json_text(exec, "interactiveMode");

    if (strcmp(version, GROUP "v1") != 0 && strcmp(version, GROUP "v1beta1") != 0)
        return err_set(err, ERR_INVALID,
                       "exec.apiVersion: must be " GROUP "v1 or v1beta1, found \"%.80s\"", version);
    if (!*json_text(exec, "command"))
        return err_set(err, ERR_INVALID, "exec.command: missing");
    if (*mode && strcmp(mode, "Never") != 0 && strcmp(mode, "IfAvailable") != 0 &&
        strcmp(mode, "Always") != 0)
        return err_set(err, ERR_INVALID,
                       "exec.interactiveMode: \"%.40s\" is not one of Never, IfAvailable, Always",
                       mode);
    if (strcmp(mode, "Always") == 0 && !has_terminal)
        return err_set(err, ERR_DENIED, "exec: %.80s needs a terminal, and stdin is none",
                       json_text(exec, "command"));
    return ERR_OK;
}

/* The bytes of a PEM text as base64, as `certificate-authority-data` has them. */
static enum err_code encode(const char *text, struct buf *out, struct err *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t left = strlen(text);
    enum err_code rc = ERR_OK;

    for (; left > 0 && rc == ERR_OK; text += 3, left = left > 3 ? left - 3 : 0) {
        unsigned int bits = (unsigned int)(unsigned char)text[0] << 16 |
                            (left > 1 ? (unsigned int)(unsigned char)text[1] << 8 : 0) |
                            (left > 2 ? (unsigned char)text[2] : 0u);
        const char four[] = {digits[bits >> 18], digits[bits >> 12 & 63],
                             left > 1 ? digits[bits >> 6 & 63] : '=',
                             left > 2 ? digits[bits & 63] : '='};

        rc = buf_add(out, four, sizeof four, err);
    }
    return rc;
}

/* "KUBERNETES_EXEC_INFO={...}" */
static enum err_code write_info(const struct json *exec, const struct plugin_cluster *cluster,
                                bool has_terminal, struct buf *out, struct err *err)
{
    struct buf ca = {.max = OUTPUT_MAX_BYTES};
    enum err_code rc = buf_addf(out, err, INFO);
    struct jsonw w;

    if (rc == ERR_OK && cluster->ca_pem)
        rc = encode(cluster->ca_pem, &ca, err);
    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "kind", "ExecCredential");
    jsonw_string(&w, "apiVersion", json_text(exec, "apiVersion"));
    jsonw_open_object(&w, "spec");
    jsonw_bool(&w, "interactive", has_terminal);
    if (json_bool(json_get(exec, "provideClusterInfo"), false)) {
        jsonw_open_object(&w, "cluster");
        jsonw_string(&w, "server", cluster->server);
        if (cluster->tls_server_name)
            jsonw_string(&w, "tls-server-name", cluster->tls_server_name);
        if (cluster->insecure)
            jsonw_bool(&w, "insecure-skip-tls-verify", true);
        if (cluster->ca_pem)
            jsonw_string(&w, "certificate-authority-data", buf_text(&ca));
        jsonw_close(&w);
    }
    jsonw_close(&w);
    jsonw_close(&w);
    if (rc == ERR_OK)
        rc = jsonw_finish(&w, err);
    buf_deinit(&ca);
    return rc;
}

/* A list of the exec object into argv, behind what is there. */
static enum err_code add_arguments(const struct json *exec, const char **argv, struct err *err)
{
    int n = 1;

    for (const struct json *v = json_first(json_get(exec, "args")); v; v = json_next(v)) {
        if (n == PLUGIN_ARGUMENTS_MAX)
            return err_set(err, ERR_INVALID, "exec.args: more than %d", PLUGIN_ARGUMENTS_MAX - 1);
        argv[n++] = json_string(v, "");
    }
    return ERR_OK;
}

/* Our environment with what the exec object and `info` add. The first `n` of `out` are borrowed,
 * the others are in `own`. */
static enum err_code make_environment(const struct json *exec, const char *info, char **out,
                                      char **own, struct err *err)
{
    int n_own = 0, n = 0;

    for (const struct json *v = json_first(json_get(exec, "env")); v; v = json_next(v)) {
        if (n_own == PLUGIN_ARGUMENTS_MAX)
            return err_set(err, ERR_INVALID, "exec.env: more than %d", PLUGIN_ARGUMENTS_MAX);
        if (asprintf(&own[n_own], "%s=%s", json_text(v, "name"), json_text(v, "value")) < 0) {
            own[n_own] = NULL;
            return err_set(err, ERR_NO_MEMORY, "no memory for the environment");
        }
        n_own++;
    }
    for (char **e = environ; *e && n < ENVIRONMENT_MAX; e++) {
        size_t n_name = strcspn(*e, "=") + 1;
        bool is_other = strncmp(*e, INFO, strlen(INFO)) != 0;

        for (int i = 0; i < n_own; i++)
            is_other = is_other && strncmp(*e, own[i], n_name) != 0;
        if (is_other)
            out[n++] = *e;
    }
    for (int i = 0; i < n_own; i++)
        out[n++] = own[i];
    out[n++] = (char *)(uintptr_t)info;
    out[n] = NULL;
    return ERR_OK;
}

/* --- the program --- */

static enum err_code system_failed(int number, const char *what, struct err *err)
{
    return err_set(err, file_error_code(number), "%s: %s", what, strerror(number));
}

static enum err_code read_all(int fd, struct buf *out, struct err *err)
{
    char bytes[4096];
    ssize_t n;
    enum err_code rc = ERR_OK;

    do {
        n = read(fd, bytes, sizeof bytes);
        if (n > 0)
            rc = buf_add(out, bytes, (size_t)n, err);
    } while (rc == ERR_OK && (n > 0 || (n < 0 && errno == EINTR)));
    return rc == ERR_OK && n < 0 ? system_failed(errno, "reading from it", err) : rc;
}

static enum err_code wait_for(pid_t pid, struct err *err)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return system_failed(errno, "waiting for it", err);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return ERR_OK;
    if (WIFEXITED(status))
        return err_set(err, ERR_DENIED, "ended with status %d", WEXITSTATUS(status));
    return err_set(err, ERR_DENIED, "was ended by signal %d", WTERMSIG(status));
}

static enum err_code run(const char **argv, char **environment, bool has_terminal, struct buf *out,
                         struct err *err)
{
    posix_spawn_file_actions_t actions;
    int ends[2];
    pid_t pid;
    int failed;
    enum err_code rc, rc_waited;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return system_failed(errno, "pipe", err);
    failed = posix_spawn_file_actions_init(&actions);
    if (failed == 0) {
        failed = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        if (failed == 0 && !has_terminal)
            failed =
                posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (failed == 0)
            failed =
                posix_spawnp(&pid, argv[0], &actions, NULL, (char **)(uintptr_t)argv, environment);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)close(ends[1]);
    if (failed != 0) {
        (void)close(ends[0]);
        return system_failed(failed, "cannot be run", err);
    }
    rc = read_all(ends[0], out, err);
    (void)close(ends[0]);
    rc_waited = wait_for(pid, rc == ERR_OK ? err : NULL);
    return rc == ERR_OK ? rc_waited : rc;
}

/* --- what it gives --- */

static enum err_code take_text(const struct json *status, const char *key, char **out,
                               struct err *err)
{
    const char *text = json_text(status, key);

    *out = *text ? strdup(text) : NULL;
    return *out || !*text ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory for credentials");
}

static enum err_code take_credential(const struct json *exec, const struct buf *text,
                                     struct plugin_credentials *out, struct err *err)
{
    struct json *root = NULL;
    const struct json *status;
    enum err_code rc = json_parse(buf_text(text), text->len, &root, err);
    const char *expires;

    if (rc != ERR_OK)
        return rc;
    status = json_get(root, "status");
    expires = json_text(status, "expirationTimestamp");
    if (strcmp(json_text(root, "kind"), "ExecCredential") != 0 ||
        strcmp(json_text(root, "apiVersion"), json_text(exec, "apiVersion")) != 0)
        rc = err_set(err, ERR_INVALID, "wrote no ExecCredential of %.80s",
                     json_text(exec, "apiVersion"));
    if (rc == ERR_OK)
        rc = take_text(status, "token", &out->token, err);
    if (rc == ERR_OK)
        rc = take_text(status, "clientCertificateData", &out->cert_pem, err);
    if (rc == ERR_OK)
        rc = take_text(status, "clientKeyData", &out->key_pem, err);
    if (rc == ERR_OK && (!out->cert_pem != !out->key_pem || (!out->token && !out->cert_pem)))
        rc =
            err_set(err, ERR_INVALID, "gave neither a token nor a client certificate with its key");
    if (rc == ERR_OK && *expires && clock_parse(expires, &out->expires_ms, NULL) != ERR_OK)
        rc = err_set(err, ERR_INVALID, "status.expirationTimestamp: \"%.40s\" is no time", expires);
    json_free(root);
    return rc;
}

static enum err_code call(const struct json *exec, const char *program,
                          const struct plugin_cluster *cluster, struct plugin_credentials *out,
                          struct err *err)
{
    const char *argv[PLUGIN_ARGUMENTS_MAX + 1] = {program};
    char *own[PLUGIN_ARGUMENTS_MAX] = {NULL};
    bool has_terminal =
        isatty(STDIN_FILENO) && strcmp(json_text(exec, "interactiveMode"), "Never") != 0;
    char **environment = calloc(ENVIRONMENT_MAX + PLUGIN_ARGUMENTS_MAX + 2, sizeof *environment);
    struct buf info = {.max = 2 * OUTPUT_MAX_BYTES}, text = {.max = OUTPUT_MAX_BYTES};
    enum err_code rc =
        environment ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory for the environment");

    if (rc == ERR_OK)
        rc = write_info(exec, cluster, has_terminal, &info, err);
    if (rc == ERR_OK)
        rc = add_arguments(exec, argv, err);
    if (rc == ERR_OK)
        rc = make_environment(exec, buf_text(&info), environment, own, err);
    if (rc == ERR_OK)
        rc = run(argv, environment, has_terminal, &text, err);
    if (rc == ERR_OK)
        rc = take_credential(exec, &text, out, err);
    for (int i = 0; i < PLUGIN_ARGUMENTS_MAX; i++)
        free(own[i]);
    free(environment);
    buf_deinit(&info);
    buf_deinit(&text);
    return rc;
}

enum err_code plugin_run(const struct json *exec, const char *folder,
                         const struct plugin_cluster *cluster, struct plugin_credentials *out,
                         struct err *err)
{
    const char *command = json_text(exec, "command");
    const char *hint = json_text(exec, "installHint");
    bool is_relative = command[0] != '/' && strchr(command, '/');
    char program[PATH_MAX];
    struct plugin_credentials c = {0};
    enum err_code rc = check_exec(exec, isatty(STDIN_FILENO), err);

    if (rc != ERR_OK)
        return rc;
    if (snprintf(program, sizeof program, "%s%s%s", is_relative ? folder : "",
                 is_relative ? "/" : "", command) >= (int)sizeof program)
        return err_set(err, ERR_INVALID, "exec.command: the path is too long");
    rc = call(exec, program, cluster, &c, err);
    if (rc == ERR_OK) {
        *out = c;
        return ERR_OK;
    }
    plugin_credentials_deinit(&c);
    err_wrap(err, rc, "exec plugin %.200s", program);
    if (rc == ERR_NOT_FOUND && *hint && err)
        text_add(err->text, sizeof err->text, "; %.300s", hint);
    return rc;
}
