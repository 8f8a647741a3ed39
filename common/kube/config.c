#include "kube/config.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/yaml.h"

void kube_config_deinit(struct kube_config *c)
{
    char *const texts[] = {c->server,  c->namespace, c->token,   c->token_file,     c->ca_pem,
                           c->ca_file, c->cert_pem,  c->key_pem, c->tls_server_name};

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

static const char *text_of(const struct json *object, const char *key)
{
    return json_string(json_get(object, key), "");
}

/* The value under `kind` of the list's entry with this name: {name: NAME, <kind>: {...}}. */
static const struct json *find_named(const struct json *root, const char *list, const char *kind,
                                     const char *name)
{
    const struct json *entry = json_first(json_get(root, list));

    while (entry && strcmp(text_of(entry, "name"), name) != 0)
        entry = json_next(entry);
    return json_get(entry, kind);
}

/* A PEM text that is in the file itself as `<name>-data`, or in another file named by `<name>`. */
static enum err_code take_pem(const struct json *from, const char *name, const char *folder,
                              char **out, struct err *err)
{
    char data_name[64];
    char *path = NULL;
    enum err_code rc;

    (void)snprintf(data_name, sizeof data_name, "%s-data", name);
    if (*text_of(from, data_name))
        return decode_text(data_name, text_of(from, data_name), out, err);
    if (!*text_of(from, name))
        return ERR_OK;
    rc = read_file(folder, text_of(from, name), false, &path, out, err);
    free(path);
    return rc;
}

static enum err_code take_cluster(const struct json *cluster, const char *folder,
                                  struct kube_config *c, struct err *err)
{
    const char *server = text_of(cluster, "server");
    enum err_code rc;

    if (strncmp(server, "https://", 8) != 0 && strncmp(server, "http://", 7) != 0)
        return err_set(err, ERR_INVALID, "server \"%.80s\" is not an http(s) URL", server);
    if (json_get(cluster, "proxy-url"))
        return err_set(err, ERR_INVALID, "proxy-url is not supported: set HTTPS_PROXY instead");
    rc = copy_text(server, &c->server, err);
    for (size_t n = rc == ERR_OK ? strlen(server) : 0; n > 0 && server[n - 1] == '/'; n--)
        c->server[n - 1] = '\0';
    if (rc == ERR_OK)
        rc = take_pem(cluster, "certificate-authority", folder, &c->ca_pem, err);
    if (rc == ERR_OK)
        rc = copy_text(text_of(cluster, "tls-server-name"), &c->tls_server_name, err);
    c->insecure = json_bool(json_get(cluster, "insecure-skip-tls-verify"), false);
    return rc;
}

static enum err_code take_user(const struct json *user, const char *folder, struct kube_config *c,
                               struct err *err)
{
    static const struct {
        const char *key;
        const char *why;
    } refused[] = {
        {"exec", "exec plugins are not run: use a token or a client certificate, "
                 "for instance from `kubectl create token`"},
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
    rc = take_pem(user, "client-certificate", folder, &c->cert_pem, err);
    if (rc == ERR_OK)
        rc = take_pem(user, "client-key", folder, &c->key_pem, err);
    if (rc == ERR_OK && !c->cert_pem != !c->key_pem)
        rc = err_set(err, ERR_INVALID, "a client certificate and its key come together");
    if (rc != ERR_OK)
        return rc;
    if (!*text_of(user, "tokenFile")) /* the file wins, as with kubectl */
        return copy_text(text_of(user, "token"), &c->token, err);
    return read_file(folder, text_of(user, "tokenFile"), true, &c->token_file, &c->token, err);
}

static enum err_code take_context(const struct json *root, const char *name, const char *folder,
                                  struct kube_config *c, struct err *err)
{
    const struct json *context = find_named(root, "contexts", "context", name);
    const char *cluster_name = text_of(context, "cluster");
    const char *user_name = text_of(context, "user");
    const char *namespace = text_of(context, "namespace");
    const struct json *cluster = find_named(root, "clusters", "cluster", cluster_name);
    const struct json *user = find_named(root, "users", "user", user_name);
    enum err_code rc;

    if (!context)
        return err_set(err, ERR_INVALID, "there is no context \"%.80s\"", name);
    if (!cluster)
        return err_set(err, ERR_INVALID, "context \"%.60s\": there is no cluster \"%.80s\"", name,
                       cluster_name);
    if (!user && *user_name)
        return err_set(err, ERR_INVALID, "context \"%.60s\": there is no user \"%.80s\"", name,
                       user_name);
    rc = take_cluster(cluster, folder, c, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "cluster \"%.80s\"", cluster_name);
    rc = take_user(user, folder, c, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "user \"%.80s\"", user_name);
    return copy_text(*namespace ? namespace : "default", &c->namespace, err);
}

enum err_code kube_config_parse(const struct buf *yaml, const char *folder, const char *context,
                                struct kube_config *out, struct err *err)
{
    struct buf text = {.max = 2 * KUBE_CONFIG_MAX_BYTES};
    struct kube_config c = {0};
    struct json *root = NULL;
    enum err_code rc = yaml_to_json(buf_text(yaml), yaml->len, 0, &text, err);

    if (rc == ERR_NOT_FOUND) /* an empty file; to the caller "not found" would mean no file */
        rc = err_set(err, ERR_INVALID, "the file is empty");
    if (rc == ERR_OK)
        rc = json_parse(text.data, text.len, &root, err);
    if (rc == ERR_OK && !context)
        context = text_of(root, "current-context");
    if (rc == ERR_OK && *context == '\0')
        rc = err_set(err, ERR_INVALID, "no current-context is set and none was named");
    if (rc == ERR_OK)
        rc = take_context(root, context, folder, &c, err);
    if (rc == ERR_OK) {
        *out = c;
        c = (struct kube_config){0};
    }
    kube_config_deinit(&c);
    json_free(root);
    buf_deinit(&text);
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

/* The first of the files in a list "a:b:c" that exists; else the last name, for the error. */
static void first_existing(const char *list, char out[static PATH_MAX])
{
    out[0] = '\0';
    while (*list) {
        const char *end = strchrnul(list, ':');

        if (end > list)
            (void)snprintf(out, PATH_MAX, "%.*s", (int)(end - list), list);
        if (end > list && access(out, F_OK) == 0)
            return;
        list = *end ? end + 1 : end;
    }
}

enum err_code kube_config_load(const char *path, const char *context, struct kube_config *out,
                               struct err *err)
{
    const char *list = getenv("KUBECONFIG");
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    const char *home = getenv("HOME");
    struct buf text = {.max = KUBE_CONFIG_MAX_BYTES};
    char found[PATH_MAX];
    char folder[PATH_MAX];
    enum err_code rc;

    if (!path && list && *list) {
        first_existing(list, found);
        path = found;
    } else if (!path && host && *host && access(KUBE_ACCOUNT_FOLDER "/token", F_OK) == 0) {
        return kube_config_in_cluster(KUBE_ACCOUNT_FOLDER, host, port && *port ? port : "443", out,
                                      err);
    } else if (!path) {
        (void)snprintf(found, sizeof found, "%s/.kube/config", home ? home : "");
        if (access(found, F_OK) != 0)
            return err_set(err, ERR_NOT_FOUND,
                           "no cluster is configured: no $KUBECONFIG, no service account, no %s",
                           found);
        path = found;
    }
    (void)snprintf(folder, sizeof folder, "%s", path);
    rc = file_read(path, &text, err);
    if (rc != ERR_OK)
        err_wrap(err, rc, "kubeconfig");
    if (rc == ERR_OK) {
        rc = kube_config_parse(&text, dirname(folder), context, out, err);
        if (rc != ERR_OK)
            err_wrap(err, rc, "kubeconfig %s", path);
    }
    buf_deinit(&text);
    return rc;
}

void kube_config_refresh(struct kube_config *c)
{
    if (c->token_file)
        (void)!read_text(c->token_file, true, &c->token, NULL);
    if (c->ca_file)
        (void)!read_text(c->ca_file, false, &c->ca_pem, NULL);
}
