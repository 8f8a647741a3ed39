#include "agent_pod.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent_image.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "kube/secret.h"

#define ARGS_MAX      48
#define MOUNTS_MAX    10
#define VARIABLES_MAX 16
#define OBJECT_MAX    ((size_t)4 << 20)

struct mount {
    char inside[POD_PATH_BYTES];  /* as the container sees it */
    char outside[POD_PATH_BYTES]; /* where it really is */
};

struct command {
    const char *image; /* borrowed */
    int n;
    char *args[ARGS_MAX + 1];
    int n_mounts;
    struct mount mounts[MOUNTS_MAX];
    int n_variables;
    char *variables[VARIABLES_MAX]; /* NAME=value */
};

void agent_pod_free(struct agent_pod *p)
{
    if (!p)
        return;
    free(p->object);
    free(p);
}

/* --- status --- */

static enum err_code patch_status(const struct agent_pod *p, struct kube_client *client,
                                  const char *status, struct err *err)
{
    struct kube_ref ref = {.resource = &kube_pods,
                           .namespace = p->namespace,
                           .name = p->name,
                           .subresource = "status"};
    struct buf body = {.max = OBJECT_MAX};
    enum err_code rc =
        buf_addf(&body, err, "{\"metadata\":{\"uid\":\"%s\"},\"status\":%s}", p->uid, status);

    if (rc == ERR_OK)
        rc = kube_merge(client, &ref, buf_text(&body), NULL, err);
    buf_deinit(&body);
    return rc == ERR_NOT_FOUND || rc == ERR_CONFLICT ? ERR_OK : rc;
}

enum err_code agent_pod_block(struct agent_pod *p, struct kube_client *client, const char *status,
                              struct err *err)
{
    if (p->is_blocked)
        return ERR_OK;
    p->is_blocked = true;
    return patch_status(p, client, status, err);
}

static enum err_code say_running(const struct agent_pod *p, struct kube_client *client,
                                 struct err *err)
{
    char now[CLOCK_TEXT_BYTES];
    char status[1024];

    clock_format(clock_wall_ms(), now);
    (void)snprintf(
        status, sizeof status,
        "{\"phase\":\"Running\",\"podIP\":\"%s\",\"podIPs\":[{\"ip\":\"%s\"}],\"startTime\":\"%s\","
        "\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\"},"
        "{\"type\":\"Ready\",\"status\":\"%s\"}],"
        "\"containerStatuses\":[{\"name\":\"worker\",\"image\":\"worker\",\"imageID\":\"\","
        "\"restartCount\":0,\"ready\":%s,\"state\":{\"running\":{\"startedAt\":\"%s\"}}}]}",
        p->ip, p->ip, now, p->is_ready ? "True" : "False", p->is_ready ? "true" : "false", now);
    return patch_status(p, client, status, err);
}

static enum err_code say_ended(const struct agent_pod *p, struct kube_client *client, int exit_code,
                               const char *message, struct err *err)
{
    const char *reason = p->is_killed_for_memory ? "OOMKilled"
                         : exit_code == 0        ? "Completed"
                                                 : "Error";
    struct buf text = {.max = OBJECT_MAX};
    char now[CLOCK_TEXT_BYTES];
    struct jsonw w;
    enum err_code rc;

    clock_format(clock_wall_ms(), now);
    jsonw_init(&w, &text);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "phase", exit_code == 0 && !p->is_late ? "Succeeded" : "Failed");
    if (p->is_late)
        jsonw_string(&w, "reason", "DeadlineExceeded");
    jsonw_open_array(&w, "containerStatuses");
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "name", "worker");
    jsonw_string(&w, "image", "worker");
    jsonw_string(&w, "imageID", "");
    jsonw_int(&w, "restartCount", 0);
    jsonw_bool(&w, "ready", false);
    jsonw_open_object(&w, "state");
    jsonw_open_object(&w, "terminated");
    jsonw_int(&w, "exitCode", exit_code);
    jsonw_string(&w, "reason", reason);
    jsonw_string(&w, "message", message);
    jsonw_string(&w, "finishedAt", now);
    for (int i = 0; i < 5; i++)
        jsonw_close(&w);
    rc = jsonw_finish(&w, err);
    if (rc == ERR_OK)
        rc = patch_status(p, client, buf_text(&text), err);
    buf_deinit(&text);
    return rc;
}

/* --- files --- */

static void join(char *out, const char *a, const char *b, const char *c)
{
    (void)snprintf(out, POD_PATH_BYTES, "%s/%s%s%s", a, b, *c ? "/" : "", c);
}

static void make_folders(const char *path)
{
    char part[POD_PATH_BYTES];

    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        (void)mkdir(part, 0755);
    }
    (void)mkdir(path, 0755);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    (void)remove(path);
    return 0;
}

void agent_pod_remove_volumes(const struct agent_pod *p, const struct agent_settings *settings)
{
    char path[POD_PATH_BYTES];

    join(path, settings->folder, p->uid, "");
    (void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* What a key of a volume is called in its folder: without `items` as in the object. NULL: it is not
 * in the volume. */
static const char *file_of(const struct json *items, const char *key)
{
    const struct json *item = json_first(items);

    while (item && strcmp(json_text(item, "key"), key) != 0)
        item = json_next(item);
    return items ? json_string(json_get(item, "path"), NULL) : key;
}

/* A kubelet waits for a key that is in the volume and not in the object. */
static bool has_items(const struct json *object, const struct json *items)
{
    for (const struct json *item = json_first(items); item; item = json_next(item))
        if (!json_get(json_get(object, "data"), json_text(item, "key")))
            return false;
    return true;
}

/* A file for every key; a Secret's is readable by its owner alone. */
static enum err_code write_files(const struct agent_pod *p, struct kube_client *client,
                                 const struct kube_resource *resource, const char *name,
                                 const struct json *items, const char *folder, struct err *err)
{
    struct kube_ref ref = {.resource = resource, .namespace = p->namespace, .name = name};
    bool is_secret = resource == &kube_secrets;
    struct json *object;
    enum err_code rc = kube_get(client, &ref, &object, err);

    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? ERR_AGAIN : rc;
    if (!has_items(object, items))
        rc = err_set(err, ERR_AGAIN, "%s has not all keys of the volume", name);
    for (const struct json *v = json_first(json_get(object, "data")); v && rc == ERR_OK;
         v = json_next(v)) {
        const char *file = file_of(items, json_key(v));
        struct buf text = {.max = OBJECT_MAX};
        char path[POD_PATH_BYTES];

        if (!file)
            continue;
        join(path, folder, file, "");
        rc = is_secret ? kube_secret_text(object, json_key(v), &text, err)
                       : buf_addf(&text, err, "%s", json_string(v, ""));
        if (rc == ERR_OK)
            rc = file_write(path, buf_text(&text), text.len, err);
        if (is_secret)
            (void)chmod(path, 0400);
        buf_deinit(&text);
    }
    json_free(object);
    return rc;
}

/* Make the folder of a volume; its path is left in `out`. */
static enum err_code make_volume(const struct agent_pod *p, struct kube_client *client,
                                 const struct agent_settings *settings, const struct json *volume,
                                 char out[static POD_PATH_BYTES], struct err *err)
{
    const char *claim = json_string(json_path(volume, "persistentVolumeClaim.claimName"), NULL);
    const char *config_map = json_string(json_path(volume, "configMap.name"), NULL);
    const char *secret = json_string(json_path(volume, "secret.secretName"), NULL);
    const char *name = json_text(volume, "name");

    if (claim)
        join(out, settings->folder, "claims", claim);
    else
        join(out, settings->folder, p->uid, name);
    make_folders(out);
    if (secret)
        return write_files(p, client, &kube_secrets, secret, json_path(volume, "secret.items"), out,
                           err);
    return config_map ? write_files(p, client, &kube_config_maps, config_map, NULL, out, err)
                      : ERR_OK;
}

static enum err_code make_mounts(const struct agent_pod *p, struct kube_client *client,
                                 const struct agent_settings *settings, const struct json *spec,
                                 struct command *out, struct err *err)
{
    const struct json *container = json_first(json_get(spec, "containers"));
    const struct json *m = json_first(json_get(container, "volumeMounts"));

    for (; m; m = json_next(m)) {
        const char *name = json_text(m, "name");
        const char *sub_path = json_text(m, "subPath");
        struct mount *to = &out->mounts[out->n_mounts];
        const struct json *v = json_first(json_get(spec, "volumes"));
        char folder[POD_PATH_BYTES];
        enum err_code rc;

        while (v && strcmp(json_text(v, "name"), name) != 0)
            v = json_next(v);
        if (!v || out->n_mounts == MOUNTS_MAX)
            return err_set(err, ERR_INVALID, "no volume for mount %s", name);
        rc = make_volume(p, client, settings, v, folder, err);
        if (rc != ERR_OK)
            return rc;
        JSON_COPY(to->inside, json_path(m, "mountPath"));
        (void)snprintf(to->outside, sizeof to->outside, "%.300s%s%.200s", folder,
                       *sub_path ? "/" : "", sub_path);
        make_folders(to->outside);
        out->n_mounts++;
    }
    return ERR_OK;
}

/* --- the command --- */

static void translate(const struct agent_pod *p, const struct agent_settings *settings,
                      const struct command *c, const char *arg, char out[static POD_PATH_BYTES])
{
    (void)snprintf(out, POD_PATH_BYTES, "%s", arg);
    if (strncmp(arg, "0.0.0.0:", 8) == 0)
        (void)snprintf(out, POD_PATH_BYTES, "%s:%s", p->ip, arg + 8);
    else if (strcmp(arg, "/usr/share/skyjob/mnli") == 0)
        (void)snprintf(out, POD_PATH_BYTES, "%s", settings->sample);
    else if (strcmp(arg, "/dev/termination-log") == 0)
        join(out, settings->folder, p->uid, "termination-log");
    for (int i = 0; i < c->n_mounts; i++) {
        size_t n = strlen(c->mounts[i].inside);

        if (strncmp(arg, c->mounts[i].inside, n) == 0 && (arg[n] == '\0' || arg[n] == '/'))
            (void)snprintf(out, POD_PATH_BYTES, "%.300s%.200s", c->mounts[i].outside, arg + n);
    }
}

static enum err_code make_command(const struct agent_pod *p, const struct agent_settings *settings,
                                  const struct json *spec, struct command *out, struct err *err)
{
    const struct json *arg =
        json_first(json_get(json_first(json_get(spec, "containers")), "command"));

    for (; arg; arg = json_next(arg)) {
        char text[POD_PATH_BYTES];

        if (out->n == ARGS_MAX)
            return err_set(err, ERR_LIMIT, "more than %d arguments", ARGS_MAX);
        translate(p, settings, out, json_string(arg, ""), text);
        out->args[out->n] = strdup(out->n == 0 ? settings->worker : text);
        if (!out->args[out->n++])
            return err_set(err, ERR_NO_MEMORY, "no memory");
    }
    return ERR_OK;
}

/* The value of a Secret's key. ERR_AGAIN when there is no such Secret or key: a kubelet waits. */
static enum err_code read_key(const struct agent_pod *p, struct kube_client *client,
                              const struct json *from, struct buf *out, struct err *err)
{
    const struct kube_ref ref = {
        .resource = &kube_secrets, .namespace = p->namespace, .name = json_text(from, "name")};
    const char *key = json_text(from, "key");
    struct json *secret = NULL;
    enum err_code rc = kube_get(client, &ref, &secret, err);

    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? ERR_AGAIN : rc;
    rc = kube_secret_text(secret, key, out, err);
    if (rc == ERR_NOT_FOUND)
        rc = ERR_AGAIN;
    json_free(secret);
    return rc;
}

static enum err_code make_variables(const struct agent_pod *p, struct kube_client *client,
                                    const struct json *spec, struct command *out, struct err *err)
{
    const struct json *v = json_first(json_get(json_first(json_get(spec, "containers")), "env"));
    enum err_code rc = ERR_OK;

    for (; v && rc == ERR_OK; v = json_next(v)) {
        const struct json *from = json_path(v, "valueFrom.secretKeyRef");
        struct buf text = {.max = OBJECT_MAX};

        if (json_get(v, "valueFrom") && !from)
            continue; /* what a pod knows of itself */
        rc = buf_addf(&text, err, "%s=%s", json_text(v, "name"), json_text(v, "value"));
        if (rc == ERR_OK && from)
            rc = read_key(p, client, from, &text, err);
        if (rc == ERR_OK && out->n_variables == VARIABLES_MAX)
            rc = err_set(err, ERR_LIMIT, "more than %d variables", VARIABLES_MAX);
        if (rc == ERR_OK)
            out->variables[out->n_variables++] = buf_take(&text);
        buf_deinit(&text);
        if (rc == ERR_AGAIN && json_bool(json_get(from, "optional"), false))
            rc = ERR_OK;
    }
    return rc;
}

static void run_child(const struct agent_pod *p, const struct agent_settings *settings,
                      const struct command *c)
{
    char log[POD_PATH_BYTES];
    int fd;

    (void)snprintf(log, sizeof log, "%s/logs/%s.log", settings->folder, p->name);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd >= 0) {
        (void)dup2(fd, STDOUT_FILENO);
        (void)dup2(fd, STDERR_FILENO);
    }
    (void)close_range(3, ~0u, 0); /* cut_link would cut the agent's */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < c->n_variables; i++)
        (void)putenv(c->variables[i]);
    if (agent_image_is_known(c->image))
        agent_image_run(c->image, p->ip);
    (void)execv(c->args[0], c->args);
    _exit(127);
}

static enum err_code start_parsed(struct agent_pod *p, struct kube_client *client,
                                  const struct agent_settings *settings, const struct json *pod,
                                  struct err *err)
{
    const struct json *spec = json_get(pod, "spec");
    const struct json *container = json_first(json_get(spec, "containers"));
    struct command c = {.image = json_text(container, "image")};
    enum err_code rc;

    if (strstr(c.image, "missing")) {
        rc = agent_pod_block(
            p, client,
            "{\"containerStatuses\":[{\"name\":\"worker\",\"image\":\"x\",\"imageID\":\"\","
            "\"restartCount\":0,\"ready\":false,\"state\":{\"waiting\":{\"reason\":"
            "\"ImagePullBackOff\",\"message\":\"Back-off pulling image\"}}}]}",
            err);
        return rc == ERR_OK ? ERR_AGAIN : rc;
    }
    rc = make_mounts(p, client, settings, spec, &c, err);
    if (rc == ERR_OK)
        rc = make_command(p, settings, spec, &c, err);
    if (rc == ERR_OK)
        rc = make_variables(p, client, spec, &c, err);
    if (rc == ERR_OK) {
        p->deadline_ms = json_i64(json_get(spec, "activeDeadlineSeconds"), 0) * 1000;
        p->pid = fork();
        if (p->pid == 0)
            run_child(p, settings, &c);
        if (p->pid < 0)
            rc = err_set(err, ERR_IO, "fork: %s", strerror(errno));
    }
    for (int i = 0; i < c.n_variables; i++)
        free(c.variables[i]);
    for (int i = 0; i < c.n; i++)
        free(c.args[i]);
    if (rc != ERR_OK)
        return rc;
    p->phase = AGENT_RUNNING;
    p->start_ms = clock_now_ms();
    return say_running(p, client, err);
}

enum err_code agent_pod_start(struct agent_pod *p, struct kube_client *client,
                              const struct agent_settings *settings, struct err *err)
{
    struct json *pod;
    enum err_code rc = json_parse(p->object, strlen(p->object), &pod, err);

    if (rc != ERR_OK)
        return rc;
    rc = start_parsed(p, client, settings, pod, err);
    json_free(pod);
    return rc;
}

/* --- the process --- */

enum err_code agent_pod_check(struct agent_pod *p, struct kube_client *client,
                              const struct agent_settings *settings, struct err *err)
{
    struct buf message = {.max = 4096};
    char path[POD_PATH_BYTES];
    int status;
    int exit_code;
    enum err_code rc = ERR_OK;

    if (p->deadline_ms > 0 && clock_now_ms() - p->start_ms > p->deadline_ms && !p->is_late) {
        p->is_late = true;
        (void)kill(p->pid, SIGKILL);
    }
    if (waitpid(p->pid, &status, WNOHANG) != p->pid)
        return ERR_OK;
    p->phase = AGENT_ENDED;
    p->pid = 0;
    exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    join(path, settings->folder, p->uid, "termination-log");
    if (file_read(path, &message, NULL) != ERR_OK)
        buf_reset(&message);
    if (!p->is_gone)
        rc = say_ended(p, client, exit_code, buf_text(&message), err);
    buf_deinit(&message);
    return rc;
}

enum err_code agent_pod_check_ready(struct agent_pod *p, struct kube_client *client,
                                    struct err *err)
{
    char url[64];
    struct http_request request = {.url = url, .deadline_ms = 1000, .connect_ms = 1000};
    struct http_response response = {0};

    (void)snprintf(url, sizeof url, "http://%s:7072/readyz", p->ip);
    if (http_call(kube_client_http(client), &request, &response, NULL) != ERR_OK)
        return ERR_OK;
    p->is_ready = response.status == 200;
    buf_deinit(&response.body);
    return p->is_ready ? say_running(p, client, err) : ERR_OK;
}
