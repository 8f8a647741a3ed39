#include "kube/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/yaml.h"

#define PATH_MAX_BYTES  4096
#define TOKEN_MAX_BYTES 65536

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
    char *copy = text ? strdup(text) : NULL;

    if (text && !copy)
        return err_set(err, ERR_NO_MEMORY, "no memory for the configuration");
    free(*out);
    *out = copy;
    return ERR_OK;
}

static enum err_code read_text(const char *path, char **out, struct err *err)
{
    struct buf text = {.max = KUBE_CONFIG_MAX_BYTES};
    enum err_code rc = file_read(path, &text, err);

    if (rc == ERR_OK && text.len == 0)
        rc = err_set(err, ERR_INVALID, "%s is empty", path);
    if (rc == ERR_OK && strlen(text.data) != text.len)
        rc = err_set(err, ERR_INVALID, "%s holds a NUL", path);
    if (rc == ERR_OK) {
        free(*out);
        *out = buf_take(&text);
    }
    buf_deinit(&text);
    return rc;
}

/* A token file ends in a line break, which must not get into a header. */
static enum err_code read_token(const char *path, char **out, struct err *err)
{
    char *text = NULL;
    enum err_code rc = read_text(path, &text, err);

    if (rc != ERR_OK)
        return rc;
    text[strcspn(text, " \t\r\n")] = '\0';
    if (text[0] == '\0') {
        free(text);
        return err_set(err, ERR_INVALID, "%s holds no token", path);
    }
    free(*out);
    *out = text;
    return ERR_OK;
}

static int base64_value(unsigned char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* Base64 of a text; line breaks in between are fine. */
static enum err_code decode_text(const char *name, const char *text, char **out, struct err *err)
{
    struct buf bytes = {.max = KUBE_CONFIG_MAX_BYTES};
    unsigned int bits = 0;
    int n_bits = 0;
    size_t n = strlen(text);
    enum err_code rc = ERR_OK;

    while (n > 0 && strchr("= \t\r\n", text[n - 1]))
        n--;
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        int value = base64_value((unsigned char)text[i]);
        unsigned char byte;

        if (strchr(" \t\r\n", text[i]))
            continue;
        if (value < 0) {
            rc = err_set(err, ERR_INVALID, "%s is not base64", name);
            break;
        }
        bits = ((bits << 6) | (unsigned int)value) & 0xffffffu;
        n_bits += 6;
        if (n_bits < 8)
            continue;
        n_bits -= 8;
        byte = (unsigned char)(bits >> n_bits);
        rc = byte ? buf_add(&bytes, &byte, 1, err)
                  : err_set(err, ERR_INVALID, "%s is not the base64 of a PEM text", name);
    }
    if (rc == ERR_OK && bytes.len == 0)
        rc = err_set(err, ERR_INVALID, "%s is empty", name);
    if (rc == ERR_OK) {
        free(*out);
        *out = buf_take(&bytes);
    }
    buf_deinit(&bytes);
    return rc;
}

/* --- kubeconfig --- */

/* What is under `kind` of the entry with this name in the list: {name: NAME, <kind>: {...}}. */
static const struct json *find_named(const struct json *root, const char *list, const char *kind,
                                     const char *name)
{
    const struct json *entry = json_first(json_get(root, list));

    while (entry && strcmp(json_string(json_get(entry, "name"), ""), name) != 0)
        entry = json_next(entry);
    return json_get(entry, kind);
}

static enum err_code in_folder(const char *folder, const char *file, char out[PATH_MAX_BYTES],
                               struct err *err)
{
    int n = file[0] == '/' ? snprintf(out, PATH_MAX_BYTES, "%s", file)
                           : snprintf(out, PATH_MAX_BYTES, "%s/%s", folder, file);

    return n >= PATH_MAX_BYTES ? err_set(err, ERR_LIMIT, "path too long: %.80s", file) : ERR_OK;
}

/* A PEM text that stands in the file as `<name>-data`, or in another file named by `<name>`. */
static enum err_code take_pem(const struct json *from, const char *name, const char *folder,
                              char **out, struct err *err)
{
    char data_name[64];
    char path[PATH_MAX_BYTES];
    const char *data;
    const char *file = json_string(json_get(from, name), NULL);
    enum err_code rc;

    (void)snprintf(data_name, sizeof data_name, "%s-data", name);
    data = json_string(json_get(from, data_name), NULL);
    if (data && *data)
        return decode_text(data_name, data, out, err);
    if (!file || !*file)
        return ERR_OK;
    rc = in_folder(folder, file, path, err);
    return rc == ERR_OK ? read_text(path, out, err) : rc;
}

static enum err_code take_server(const char *server, char **out, struct err *err)
{
    enum err_code rc;

    if (!server || (strncmp(server, "https://", 8) != 0 && strncmp(server, "http://", 7) != 0))
        return err_set(err, ERR_INVALID, "server \"%.80s\" is not an http(s) URL",
                       server ? server : "");
    rc = copy_text(server, out, err);
    for (size_t n = rc == ERR_OK ? strlen(*out) : 0; n > 0 && (*out)[n - 1] == '/'; n--)
        (*out)[n - 1] = '\0';
    return rc;
}

static enum err_code take_cluster(const struct json *cluster, const char *folder,
                                  struct kube_config *c, struct err *err)
{
    enum err_code rc = take_server(json_string(json_get(cluster, "server"), NULL), &c->server, err);

    if (rc == ERR_OK && json_get(cluster, "proxy-url"))
        rc = err_set(err, ERR_INVALID, "proxy-url is not supported: set HTTPS_PROXY instead");
    if (rc == ERR_OK)
        rc = take_pem(cluster, "certificate-authority", folder, &c->ca_pem, err);
    if (rc == ERR_OK)
        rc = copy_text(json_string(json_get(cluster, "tls-server-name"), NULL), &c->tls_server_name,
                       err);
    c->insecure = json_bool(json_get(cluster, "insecure-skip-tls-verify"), false);
    return rc;
}

static enum err_code refuse_plugins(const struct json *user, struct err *err)
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

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (json_get(user, refused[i].key))
            return err_set(err, ERR_INVALID, "%s", refused[i].why);
    return ERR_OK;
}

static enum err_code take_user(const struct json *user, const char *folder, struct kube_config *c,
                               struct err *err)
{
    const char *token = json_string(json_get(user, "token"), NULL);
    const char *token_file = json_string(json_get(user, "tokenFile"), NULL);
    char path[PATH_MAX_BYTES];
    enum err_code rc = refuse_plugins(user, err);

    if (rc == ERR_OK && json_kind_of(json_get(user, "token")) == JSON_NUMBER)
        rc = err_set(err, ERR_INVALID, "the token reads as a number: put it in quotes");
    if (rc == ERR_OK)
        rc = take_pem(user, "client-certificate", folder, &c->cert_pem, err);
    if (rc == ERR_OK)
        rc = take_pem(user, "client-key", folder, &c->key_pem, err);
    if (rc == ERR_OK && !c->cert_pem != !c->key_pem)
        rc = err_set(err, ERR_INVALID, "a client certificate and its key come together");
    if (rc != ERR_OK || !token_file || !*token_file) /* the file wins, as with kubectl */
        return rc == ERR_OK ? copy_text(token, &c->token, err) : rc;
    rc = in_folder(folder, token_file, path, err);
    if (rc == ERR_OK)
        rc = copy_text(path, &c->token_file, err);
    return rc == ERR_OK ? read_token(path, &c->token, err) : rc;
}

static enum err_code take_context(const struct json *root, const char *name, const char *folder,
                                  struct kube_config *c, struct err *err)
{
    const struct json *context = find_named(root, "contexts", "context", name);
    const char *cluster_name = json_string(json_get(context, "cluster"), "");
    const char *user_name = json_string(json_get(context, "user"), "");
    const char *namespace = json_string(json_get(context, "namespace"), "");
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
        context = json_string(json_get(root, "current-context"), "");
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
    struct buf server = {.max = 512};
    char path[PATH_MAX_BYTES];
    enum err_code rc;

    rc = buf_addf(&server, err, is_v6 ? "https://[%s]:%s" : "https://%s:%s", host, port);
    if (rc == ERR_OK)
        rc = copy_text(server.data, &c.server, err);
    if (rc == ERR_OK)
        rc = in_folder(folder, "token", path, err);
    if (rc == ERR_OK)
        rc = copy_text(path, &c.token_file, err);
    if (rc == ERR_OK)
        rc = read_token(path, &c.token, err);
    if (rc == ERR_OK)
        rc = in_folder(folder, "ca.crt", path, err);
    if (rc == ERR_OK)
        rc = copy_text(path, &c.ca_file, err);
    if (rc == ERR_OK)
        rc = read_text(path, &c.ca_pem, err);
    if (rc == ERR_OK)
        rc = in_folder(folder, "namespace", path, err);
    if (rc == ERR_OK && read_token(path, &c.namespace, NULL) != ERR_OK)
        rc = copy_text("default", &c.namespace, err);
    if (rc == ERR_OK) {
        *out = c;
        c = (struct kube_config){0};
    }
    kube_config_deinit(&c);
    buf_deinit(&server);
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "service account");
}

static enum err_code load_file(const char *path, const char *context, struct kube_config *out,
                               struct err *err)
{
    struct buf text = {.max = KUBE_CONFIG_MAX_BYTES};
    char folder[PATH_MAX_BYTES];
    const char *slash = strrchr(path, '/');
    enum err_code rc;

    rc = file_read(path, &text, err);
    if (rc != ERR_OK) {
        buf_deinit(&text);
        return err_wrap(err, rc, "kubeconfig");
    }
    (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1,
                   slash ? path : ".");
    rc = kube_config_parse(&text, folder, context, out, err);
    buf_deinit(&text);
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "kubeconfig %s", path);
}

/* The first of the files in a list "a:b:c" that exists; the last name when none does, so that the
 * error has something to show. */
static void first_existing(const char *list, char out[PATH_MAX_BYTES])
{
    out[0] = '\0';
    while (*list) {
        const char *end = strchrnul(list, ':');

        if (end > list)
            (void)snprintf(out, PATH_MAX_BYTES, "%.*s", (int)(end - list), list);
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
    char file[PATH_MAX_BYTES];

    if (path)
        return load_file(path, context, out, err);
    if (list && *list) {
        first_existing(list, file);
        return load_file(file, context, out, err);
    }
    if (host && *host && access(KUBE_ACCOUNT_FOLDER "/token", F_OK) == 0)
        return kube_config_in_cluster(KUBE_ACCOUNT_FOLDER, host, port && *port ? port : "443", out,
                                      err);
    (void)snprintf(file, sizeof file, "%s/.kube/config", home ? home : "");
    if (access(file, F_OK) != 0)
        return err_set(err, ERR_NOT_FOUND,
                       "no cluster is configured: neither $KUBECONFIG, nor a service account, "
                       "nor %s",
                       file);
    return load_file(file, context, out, err);
}

void kube_config_refresh(struct kube_config *c)
{
    /* Failing is fine: the old ones stay, and the server says when they have expired. */
    if (c->token_file)
        (void)!read_token(c->token_file, &c->token, NULL);
    if (c->ca_file)
        (void)!read_text(c->ca_file, &c->ca_pem, NULL);
}
