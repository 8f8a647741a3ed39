#include "kube/config.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/yaml.h"
#include "kube/plugin.h"

void kube_config_deinit(struct kube_config *c)
{
    char *const texts[] = {c->server,         c->namespace, c->token,    c->token_file,
                           c->ca_pem,         c->ca_file,   c->cert_pem, c->key_pem,
                           c->cert_file,      c->key_file,  c->plugin,   c->plugin_folder,
                           c->tls_server_name};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    *c = (struct kube_config){0};
}

/* --- texts and files --- */

static enum err_code copy_text(const char *text, char **out, struct err *err)
{
    *out = *text ? strdup(text) : NULL;
    return *out || !*text ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory for the configuration");
}

/* Replaces *out on ERR_OK only. Of a token the first word: its file ends in a line break, which
 * must not get into a header. */
static enum err_code read_text(const char *path, bool is_token, char **out, struct err *err)
{
    struct buf text = {.max = KUBE_CONFIG_MAX_BYTES};
    enum err_code rc = file_read(path, &text, err);

    if (rc == ERR_OK && text.len == 0)
        rc = err_set(err, ERR_INVALID, "%s is empty", path);
    if (rc == ERR_OK && strlen(text.data) != text.len)
        rc = err_set(err, ERR_INVALID, "%s contains a NUL", path);
    if (rc == ERR_OK && is_token)
        text.data[strcspn(text.data, " \t\r\n")] = '\0';
    if (rc == ERR_OK && !text.data[0])
        rc = err_set(err, ERR_INVALID, "%s contains no token", path);
    if (rc == ERR_OK) {
        free(*out);
        *out = buf_take(&text);
    }
    buf_deinit(&text);
    return rc;
}

/* The same with the name of a file relative to `folder`. Its path is kept in *out_path. */
static enum err_code read_file(const char *folder, const char *file, bool is_token, char **out_path,
                               char **out, struct err *err)
{
    int n =
        asprintf(out_path, "%s%s%s", file[0] == '/' ? "" : folder, file[0] == '/' ? "" : "/", file);

    if (n >= 0)
        return read_text(*out_path, is_token, out, err);
    *out_path = NULL;
    return err_set(err, ERR_NO_MEMORY, "no memory for a path");
}

/* Decode the base64 of a text; line breaks in between are allowed. */
static enum err_code decode_text(const char *name, const char *text, char **out, struct err *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *bytes = malloc(strlen(text) + 1);
    unsigned int bits = 0;
    int n_bits = 0;
    size_t len = 0;
    bool is_padding = false;
    bool is_base64 = true;
    enum err_code rc;

    if (!bytes)
        return err_set(err, ERR_NO_MEMORY, "no memory for %s", name);
    for (; *text && is_base64; text++) {
        const char *digit = strchr(digits, *text);

        if (strchr(" \t\r\n", *text))
            continue;
        is_padding |= *text == '=';
        is_base64 = is_padding ? *text == '=' : digit != NULL;
        if (!digit)
            continue;
        bits = bits << 6 | (unsigned int)(digit - digits);
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            bytes[len++] = (char)(bits >> n_bits & 0xff);
        }
    }
    bytes[len] = '\0';
    if (!is_base64) {
        rc = err_set(err, ERR_INVALID, "%s is not base64", name);
    } else if (len == 0) {
        rc = err_set(err, ERR_INVALID, "%s is empty", name);
    } else if (strlen(bytes) != len) {
        rc = err_set(err, ERR_INVALID, "%s is not the base64 of a PEM text", name);
    } else {
        *out = bytes;
        return ERR_OK;
    }
    free(bytes);
    return rc;
}

/* --- kubeconfig --- */

/* The files that were read, the first one first. */
struct sources {
    int n;
    struct source {
        struct json *root;
        char folder[PATH_MAX]; /* to which paths in it are relative */
    } list[KUBE_CONFIG_FILES_MAX];
};

/* The value under `kind` of the list's entry with this name: {name: NAME, <kind>: {...}}. */
static const struct json *find_named(const struct sources *s, const char *list, const char *kind,
                                     const char *name, const char **out_folder)
{
    for (int i = 0; i < s->n; i++) {
        const struct json *entry = json_first(json_get(s->list[i].root, list));

        while (entry && strcmp(json_text(entry, "name"), name) != 0)
            entry = json_next(entry);
        *out_folder = s->list[i].folder;
        if (entry)
            return json_get(entry, kind);
    }
    return NULL;
}

/* A PEM text that is in the file itself as `<name>-data`, or in another file named by `<name>`. */
static enum err_code take_pem(const struct json *from, const char *name, const char *folder,
                              char **out_path, char **out, struct err *err)
{
    char data_name[64];

    (void)snprintf(data_name, sizeof data_name, "%s-data", name);
    if (*json_text(from, data_name))
        return decode_text(data_name, json_text(from, data_name), out, err);
    if (!*json_text(from, name))
        return ERR_OK;
    return read_file(folder, json_text(from, name), false, out_path, out, err);
}

static enum err_code take_cluster(const struct json *cluster, const char *folder,
                                  struct kube_config *c, struct err *err)
{
    const char *server = json_text(cluster, "server");
    enum err_code rc;

    if (strncmp(server, "https://", 8) != 0 && strncmp(server, "http://", 7) != 0)
        return err_set(err, ERR_INVALID, "server \"%.80s\" is not an http(s) URL", server);
    if (json_get(cluster, "proxy-url"))
        return err_set(err, ERR_INVALID, "proxy-url is not supported: set HTTPS_PROXY instead");
    rc = copy_text(server, &c->server, err);
    for (size_t n = rc == ERR_OK ? strlen(server) : 0; n > 0 && server[n - 1] == '/'; n--)
        c->server[n - 1] = '\0';
    if (rc == ERR_OK)
        rc = take_pem(cluster, "certificate-authority", folder, &c->ca_file, &c->ca_pem, err);
    if (rc == ERR_OK)
        rc = copy_text(json_text(cluster, "tls-server-name"), &c->tls_server_name, err);
    c->insecure = json_bool(json_get(cluster, "insecure-skip-tls-verify"), false);
    return rc;
}

/* It is run once server and CA are known. */
static enum err_code take_plugin(const struct json *exec, const char *folder, struct kube_config *c,
                                 struct err *err)
{
    c->plugin = json_print(exec);
    if (!c->plugin)
        return err_set(err, ERR_NO_MEMORY, "no memory for the configuration");
    return copy_text(folder, &c->plugin_folder, err);
}

static enum err_code take_user(const struct json *user, const char *folder, struct kube_config *c,
                               struct err *err)
{
    static const struct {
        const char *key;
        const char *why;
    } refused[] = {
        {"auth-provider", "auth-provider plugins are not supported: use a token"},
        {"username", "a user name with password is not supported: use a token"},
        {"as", "impersonation is not supported"},
    };
    enum err_code rc;

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (json_get(user, refused[i].key))
            return err_set(err, ERR_INVALID, "%s", refused[i].why);
    if (json_kind_of(json_get(user, "token")) == JSON_NUMBER)
        return err_set(err, ERR_INVALID, "the token reads as a number: put it in quotes");
    rc = take_pem(user, "client-certificate", folder, &c->cert_file, &c->cert_pem, err);
    if (rc == ERR_OK)
        rc = take_pem(user, "client-key", folder, &c->key_file, &c->key_pem, err);
    if (rc == ERR_OK && !c->cert_pem != !c->key_pem)
        rc = err_set(err, ERR_INVALID, "a client certificate and its key come together");
    if (rc == ERR_OK && json_kind_of(json_get(user, "exec")) > JSON_NULL)
        rc = take_plugin(json_get(user, "exec"), folder, c, err);
    if (rc != ERR_OK)
        return rc;
    if (!*json_text(user, "tokenFile")) /* the file wins, as with kubectl */
        return copy_text(json_text(user, "token"), &c->token, err);
    return read_file(folder, json_text(user, "tokenFile"), true, &c->token_file, &c->token, err);
}

static enum err_code take_context(const struct sources *s, const char *name, struct kube_config *c,
                                  struct err *err)
{
    const char *folder, *cluster_folder, *user_folder;
    const struct json *context = find_named(s, "contexts", "context", name, &folder);
    const char *cluster_name = json_text(context, "cluster");
    const char *user_name = json_text(context, "user");
    const char *namespace = json_text(context, "namespace");
    const struct json *cluster =
        find_named(s, "clusters", "cluster", cluster_name, &cluster_folder);
    const struct json *user = find_named(s, "users", "user", user_name, &user_folder);
    enum err_code rc;

    if (!context)
        return err_set(err, ERR_INVALID, "there is no context \"%.80s\"", name);
    if (!cluster)
        return err_set(err, ERR_INVALID, "context \"%.60s\": there is no cluster \"%.80s\"", name,
                       cluster_name);
    if (!user && *user_name)
        return err_set(err, ERR_INVALID, "context \"%.60s\": there is no user \"%.80s\"", name,
                       user_name);
    rc = take_cluster(cluster, cluster_folder, c, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "cluster \"%.80s\"", cluster_name);
    rc = take_user(user, user_folder, c, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "user \"%.80s\"", user_name);
    return copy_text(*namespace ? namespace : "default", &c->namespace, err);
}

static enum err_code add_source(struct sources *s, const struct buf *yaml, const char *folder,
                                struct err *err)
{
    struct buf text = {.max = 2 * KUBE_CONFIG_MAX_BYTES};
    struct source *to = &s->list[s->n];
    enum err_code rc = yaml_to_json(buf_text(yaml), yaml->len, 0, &text, err);

    if (rc == ERR_NOT_FOUND) /* an empty file; to the caller "not found" would mean no file */
        rc = err_set(err, ERR_INVALID, "the file is empty");
    if (rc == ERR_OK)
        rc = json_parse(text.data, text.len, &to->root, err);
    if (rc == ERR_OK) {
        (void)snprintf(to->folder, sizeof to->folder, "%s", folder);
        s->n++;
    }
    buf_deinit(&text);
    return rc;
}

static void close_sources(struct sources *s)
{
    for (int i = 0; i < s->n; i++)
        json_free(s->list[i].root);
}

/* Run the plugin; what it gives replaces what there is. */
static enum err_code log_in(struct kube_config *c, struct err *err)
{
    const struct plugin_cluster cluster = {.server = c->server,
                                           .ca_pem = c->ca_pem,
                                           .tls_server_name = c->tls_server_name,
                                           .insecure = c->insecure};
    struct plugin_credentials got;
    struct json *exec = NULL;
    enum err_code rc = json_parse(c->plugin, strlen(c->plugin), &exec, err);

    if (rc == ERR_OK)
        rc = plugin_run(exec, c->plugin_folder, &cluster, &got, err);
    json_free(exec);
    if (rc != ERR_OK)
        return rc;
    free(c->token);
    free(c->cert_pem);
    free(c->key_pem);
    c->token = got.token;
    c->cert_pem = got.cert_pem;
    c->key_pem = got.key_pem;
    c->expires_ms = got.expires_ms;
    return ERR_OK;
}

static enum err_code take_sources(const struct sources *s, const char *context,
                                  struct kube_config *out, struct err *err)
{
    struct kube_config c = {0};
    enum err_code rc = ERR_OK;

    for (int i = 0; i < s->n && !context; i++)
        if (*json_text(s->list[i].root, "current-context"))
            context = json_text(s->list[i].root, "current-context");
    if (!context || !*context)
        rc = err_set(err, ERR_INVALID, "no current-context is set and none was named");
    if (rc == ERR_OK)
        rc = take_context(s, context, &c, err);
    if (rc == ERR_OK && c.plugin)
        rc = log_in(&c, err);
    if (rc == ERR_OK) {
        *out = c;
        c = (struct kube_config){0};
    }
    kube_config_deinit(&c);
    return rc;
}

enum err_code kube_config_parse(const struct buf *yaml, const char *folder, const char *context,
                                struct kube_config *out, struct err *err)
{
    struct sources *s = calloc(1, sizeof *s);
    enum err_code rc = s ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory for the configuration");

    if (rc == ERR_OK)
        rc = add_source(s, yaml, folder, err);
    if (rc == ERR_OK)
        rc = take_sources(s, context, out, err);
    if (s)
        close_sources(s);
    free(s);
    return rc;
}

/* --- where to look --- */

enum err_code kube_config_in_cluster(const char *folder, const char *host, const char *port,
                                     struct kube_config *out, struct err *err)
{
    bool is_v6 = strchr(host, ':') && host[0] != '[';
    struct kube_config c = {.in_cluster = true};
    char *path = NULL;
    enum err_code rc = ERR_OK;

    if (asprintf(&c.server, is_v6 ? "https://[%s]:%s" : "https://%s:%s", host, port) < 0) {
        c.server = NULL;
        rc = err_set(err, ERR_NO_MEMORY, "no memory for a URL");
    }
    if (rc == ERR_OK)
        rc = read_file(folder, "token", true, &c.token_file, &c.token, err);
    if (rc == ERR_OK)
        rc = read_file(folder, "ca.crt", false, &c.ca_file, &c.ca_pem, err);
    if (rc == ERR_OK && read_file(folder, "namespace", true, &path, &c.namespace, NULL) != ERR_OK)
        rc = copy_text("default", &c.namespace, err);
    free(path);
    if (rc != ERR_OK) {
        kube_config_deinit(&c);
        return err_wrap(err, rc, "service account");
    }
    *out = c;
    return ERR_OK;
}

static enum err_code read_source(struct sources *s, const char *path, struct err *err)
{
    struct buf text = {.max = KUBE_CONFIG_MAX_BYTES};
    char folder[PATH_MAX];
    enum err_code rc = file_read(path, &text, err);

    if (rc != ERR_OK)
        return err_wrap(err, rc, "kubeconfig");
    (void)snprintf(folder, sizeof folder, "%s", path);
    rc = add_source(s, &text, dirname(folder), err);
    buf_deinit(&text);
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "kubeconfig %s", path);
}

/* Those of the files in a list "a:b:c" that exist; if none does, the error names the last. */
static enum err_code read_list(struct sources *s, const char *list, struct err *err)
{
    enum err_code rc = ERR_OK;
    char path[PATH_MAX] = "";

    while (*list && rc == ERR_OK) {
        const char *end = strchrnul(list, ':');

        if (end > list)
            (void)snprintf(path, sizeof path, "%.*s", (int)(end - list), list);
        if (end > list && access(path, F_OK) == 0)
            rc = s->n < KUBE_CONFIG_FILES_MAX
                     ? read_source(s, path, err)
                     : err_set(err, ERR_INVALID, "$KUBECONFIG: more than %d files",
                               KUBE_CONFIG_FILES_MAX);
        list = *end ? end + 1 : end;
    }
    return rc == ERR_OK && s->n == 0 ? read_source(s, path, err) : rc;
}

static enum err_code load(struct sources *s, const char *path, const char *list,
                          const char *context, struct kube_config *out, struct err *err)
{
    enum err_code rc = path ? read_source(s, path, err) : read_list(s, list, err);

    if (rc != ERR_OK)
        return rc;
    rc = take_sources(s, context, out, err);
    if (rc != ERR_OK)
        err_wrap(err, rc, "kubeconfig %s", path ? path : list);
    return rc;
}

enum err_code kube_config_load(const char *path, const char *context, struct kube_config *out,
                               struct err *err)
{
    const char *list = getenv("KUBECONFIG");
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    const char *home = getenv("HOME");
    struct sources *s;
    char found[PATH_MAX];
    enum err_code rc;

    if (!path && !(list && *list)) {
        if (host && *host && access(KUBE_ACCOUNT_FOLDER "/token", F_OK) == 0)
            return kube_config_in_cluster(KUBE_ACCOUNT_FOLDER, host, port && *port ? port : "443",
                                          out, err);
        (void)snprintf(found, sizeof found, "%s/.kube/config", home ? home : "");
        if (access(found, F_OK) != 0)
            return err_set(err, ERR_NOT_FOUND,
                           "no cluster is configured: no $KUBECONFIG, no service account, no %s",
                           found);
        path = found;
    }
    s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_NO_MEMORY, "no memory for the configuration");
    rc = load(s, path, list, context, out, err);
    close_sources(s);
    free(s);
    return rc;
}

/* Both or neither: a new certificate goes with its new key. */
static void refresh_certificate(struct kube_config *c)
{
    char *cert = NULL, *key = NULL;

    if (read_text(c->cert_file, false, &cert, NULL) == ERR_OK &&
        read_text(c->key_file, false, &key, NULL) == ERR_OK) {
        free(c->cert_pem);
        free(c->key_pem);
        c->cert_pem = cert;
        c->key_pem = key;
        return;
    }
    free(cert);
    free(key);
}

void kube_config_refresh(struct kube_config *c, bool is_refused)
{
    bool has_expired = c->expires_ms > 0 && clock_wall_ms() >= c->expires_ms;

    if (c->token_file)
        (void)!read_text(c->token_file, true, &c->token, NULL);
    if (c->ca_file)
        (void)!read_text(c->ca_file, false, &c->ca_pem, NULL);
    if (c->cert_file && c->key_file)
        refresh_certificate(c);
    if (c->plugin && (is_refused || has_expired))
        (void)!log_in(c, NULL);
}
