/* support/die_at.c - kills the operator right before or right after a call, for LD_PRELOAD.
 *
 *     LD_PRELOAD=die_at.so DIE_LOG=FILE [DIE_AT=POSITION] skyjob-operator ...
 *
 * Counted is every call to a worker and every other call but GET. Its kind is the method and the
 * resource, without names: "POST pods", "PATCH skyjobs/status", "GET /v1/report". A POSITION is
 *
 *     before 2 POST pods    the second call of this kind: it is not sent
 *     after 2 POST pods     its answer has arrived, and the operator does not see it
 *     before each           the first call of every kind for which DIE_LOG has no death yet
 *     after each
 *
 * Appends a line to DIE_LOG for each counted call, "POST pods", and for a death "before POST pods".
 * Knows calls by what is handed to libcurl, which must be a shared library. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#undef curl_easy_setopt

#define CALLS_MAX  1024
#define KINDS_MAX  128
#define KIND_BYTES 96

static struct {
    CURL *easy; /* NULL: free */
    char path[256];
    char kind[KIND_BYTES];
    bool is_fatal; /* when its answer arrives */
} calls[CALLS_MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows and `calls` */
static char seen[KINDS_MAX][KIND_BYTES]; /* kinds, also those that have had their death */
static int n_seen;

static void note(const char *when, const char *kind)
{
    char line[KIND_BYTES + 16];
    int n = snprintf(line, sizeof line, "%s%s%s\n", when, *when ? " " : "", kind);
    int fd = open(getenv("DIE_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, line, (size_t)n) != n)
        abort();
    (void)close(fd);
}

static void die(const char *when, const char *kind)
{
    note(when, kind);
    (void)kill(getpid(), SIGKILL);
}

static bool is_seen(const char *kind)
{
    for (int i = 0; i < n_seen; i++)
        if (strcmp(seen[i], kind) == 0)
            return true;
    if (n_seen == KINDS_MAX)
        abort();
    (void)snprintf(seen[n_seen++], KIND_BYTES, "%s", kind);
    return false;
}

/* What died in earlier processes does not die again. */
__attribute__((constructor)) static void read_log(void)
{
    const char *at = getenv("DIE_AT");
    FILE *f = at ? fopen(getenv("DIE_LOG"), "r") : NULL;
    size_t when = at ? strcspn(at, " ") : 0;
    char line[KIND_BYTES + 16];

    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(at + when, " each") == 0 && strncmp(line, at, when) == 0 && line[when] == ' ')
            (void)is_seen(line + when + 1);
    }
    if (f)
        (void)fclose(f);
}

/* "/api/v1/namespaces/NAMESPACE/pods/NAME/status" -> "pods/status"; of a worker the path itself. */
static void find_resource(const char *path, char *out, size_t bytes)
{
    char parts[8][64] = {""};
    int n = 0;
    int i;

    if (strncmp(path, "/v1/", 4) == 0) {
        (void)snprintf(out, bytes, "%.*s", (int)strcspn(path, "?"), path);
        return;
    }
    while (*path == '/' && n < 8) {
        size_t len = strcspn(++path, "/?");

        (void)snprintf(parts[n++], sizeof parts[0], "%.*s", (int)len, path);
        path += len;
    }
    i = strcmp(parts[0], "api") == 0 ? 2 : 3; /* behind the group and version */
    if (i + 2 < n && strcmp(parts[i], "namespaces") == 0)
        i += 2;
    (void)snprintf(out, bytes, "%s", parts[i]);
    if (i + 2 < n)
        (void)snprintf(out, bytes, "%s/%s", parts[i], parts[i + 2]);
}

/* Is this the call at which to die? */
static bool is_position(const char *when, const char *kind)
{
    const char *at = getenv("DIE_AT");
    size_t len = strlen(when);
    static int n_of_kind;
    char *rest;
    long n;

    if (!at || strncmp(at, when, len) != 0 || at[len] != ' ')
        return false;
    if (strcmp(at + len, " each") == 0)
        return !is_seen(kind);
    n = strtol(at + len, &rest, 10);
    return *rest == ' ' && strcmp(rest + 1, kind) == 0 && ++n_of_kind == n;
}

static int find_call(const CURL *easy)
{
    for (int i = 0; i < CALLS_MAX; i++)
        if (calls[i].easy == easy)
            return i;
    if (easy)
        return find_call(NULL);
    abort();
}

CURLcode curl_easy_setopt(CURL *easy, CURLoption option, ...)
{
    CURLcode (*real)(CURL *, CURLoption, ...) =
        (CURLcode(*)(CURL *, CURLoption, ...))dlsym(RTLD_NEXT, "curl_easy_setopt");
    va_list args;
    void *value;

    va_start(args, option);
    value = va_arg(args, void *); /* long, pointer and curl_off_t are passed alike */
    va_end(args);
    if (option == CURLOPT_URL) {
        const char *host = strstr(value, "://");
        const char *path = host ? strchr(host + 3, '/') : NULL;
        int i;

        pthread_mutex_lock(&lock);
        i = find_call(easy);
        calls[i].easy = easy;
        (void)snprintf(calls[i].path, sizeof calls[i].path, "%s", path ? path : "/");
        pthread_mutex_unlock(&lock);
    }
    return real(easy, option, value);
}

CURLMcode curl_multi_add_handle(CURLM *multi, CURL *easy)
{
    CURLMcode (*real)(CURLM *, CURL *) =
        (CURLMcode(*)(CURLM *, CURL *))dlsym(RTLD_NEXT, "curl_multi_add_handle");
    const char *method = "";
    char resource[KIND_BYTES - 16];
    int i;

    pthread_mutex_lock(&lock);
    i = find_call(easy);
    (void)curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_METHOD, &method);
    if (strcmp(method, "GET") != 0 || strncmp(calls[i].path, "/v1/", 4) == 0) {
        find_resource(calls[i].path, resource, sizeof resource);
        (void)snprintf(calls[i].kind, sizeof calls[i].kind, "%.8s %s", method, resource);
        note("", calls[i].kind);
        if (is_position("before", calls[i].kind))
            die("before", calls[i].kind);
        calls[i].is_fatal = is_position("after", calls[i].kind);
    }
    pthread_mutex_unlock(&lock);
    return real(multi, easy);
}

CURLMsg *curl_multi_info_read(CURLM *multi, int *n)
{
    CURLMsg *(*real)(CURLM *, int *) =
        (CURLMsg * (*)(CURLM *, int *)) dlsym(RTLD_NEXT, "curl_multi_info_read");
    CURLMsg *msg = real(multi, n);
    int i;

    if (!msg || msg->msg != CURLMSG_DONE)
        return msg;
    pthread_mutex_lock(&lock);
    i = find_call(msg->easy_handle);
    if (calls[i].is_fatal)
        die("after", calls[i].kind);
    pthread_mutex_unlock(&lock);
    return msg;
}

void curl_easy_cleanup(CURL *easy)
{
    void (*real)(CURL *) = (void (*)(CURL *))dlsym(RTLD_NEXT, "curl_easy_cleanup");

    pthread_mutex_lock(&lock);
    memset(&calls[find_call(easy)], 0, sizeof calls[0]);
    pthread_mutex_unlock(&lock);
    real(easy);
}
