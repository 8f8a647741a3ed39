/* support/fault_at.c - kills the operator right before or right after a call, or disturbs its
 * watches, for LD_PRELOAD.
 *
 *     LD_PRELOAD=fault_at.so FAULT_LOG=FILE [FAULT_AT=POSITION] skyjob-operator ...
 *
 * Counted is every call to a worker and every other call but GET. Its kind is the method and the
 * resource, without names: "POST pods", "PATCH skyjobs/status", "GET /v1/report". Events of
 * watches, but for bookmarks, are counted, too: "MODIFIED pods". A POSITION is
 *
 *     before 2 POST pods       the second call of this kind: the operator dies, and it is not sent
 *     after 2 POST pods        its answer has arrived, and the operator dies without seeing it
 *     repeat 2 MODIFIED pods   the second event of this kind comes twice
 *     hold 2 MODIFIED pods     it and what follows on its watch come HOLD_MS later
 *     lose 2 MODIFIED pods     it is lost, and so are those before the list that has to be made
 *                              then: the watch ends with 410 Gone
 *     before each              the first call of every kind for which FAULT_LOG has no death yet;
 *                              likewise with the others
 *
 * With CLOCK_OFF_S its wall clock is that many seconds off.
 *
 * Appends a line to FAULT_LOG for each counted call, "POST pods", one to FAULT_LOG.events for each
 * event, and one to FAULT_LOG for a fault: "before POST pods". Knows calls and events by what is
 * handed to libcurl, which must be a shared library. */
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
#include <time.h>
#include <unistd.h>
#undef curl_easy_setopt

#define CALLS_MAX  1024
#define KINDS_MAX  128
#define KIND_BYTES 96
#define HOLD_MS    2000

static struct call {
    CURL *easy; /* NULL: free */
    char path[256];
    char kind[KIND_BYTES];
    bool is_fatal; /* when its answer arrives */
    curl_write_callback on_body;
    void *ctx;
    /* Of a watch: */
    bool is_watch;
    char *bytes; /* the begin of a line; while it is held, all that has come */
    size_t n_bytes;
    int64_t held_until_ms; /* 0: it is not */
} calls[CALLS_MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows and `calls` */
static char seen[KINDS_MAX][KIND_BYTES]; /* kinds, also those that have had their fault */
static int n_seen;

static void note(const char *suffix, const char *when, const char *kind)
{
    char path[4096], line[KIND_BYTES + 16];
    int n = snprintf(line, sizeof line, "%s%s%s\n", when, *when ? " " : "", kind);
    int fd;

    (void)snprintf(path, sizeof path, "%s%s", getenv("FAULT_LOG"), suffix);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        abort();
    (void)close(fd);
}

static void die(const char *when, const char *kind)
{
    note("", when, kind);
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

/* What had its fault in earlier processes has none again. */
__attribute__((constructor)) static void read_log(void)
{
    const char *at = getenv("FAULT_AT");
    FILE *f = at ? fopen(getenv("FAULT_LOG"), "r") : NULL;
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

/* Is this the call or event of the fault? */
static bool is_position(const char *when, const char *kind)
{
    const char *at = getenv("FAULT_AT");
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

/* --- the wall clock --- */

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int (*real)(clockid_t, struct timespec *) =
        (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *off_s = getenv("CLOCK_OFF_S");
    int rc = real(clock, out);

    if (rc == 0 && clock == CLOCK_REALTIME && off_s)
        out->tv_sec += atol(off_s);
    return rc;
}

/* --- watches --- */

static int64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* "MODIFIED pods"; false: a bookmark, or no event. */
static bool find_event(const struct call *c, const char *line, size_t n, char *out, size_t bytes)
{
    static const char start[] = "{\"type\":\"";
    size_t at = sizeof start - 1;
    char resource[KIND_BYTES - 16];

    if (n < at || memcmp(line, start, at) != 0 || line[at] == 'B' || line[at] == 'E')
        return false;
    find_resource(c->path, resource, sizeof resource);
    (void)snprintf(out, bytes, "%.*s %s", (int)strcspn(line + at, "\""), line + at, resource);
    return true;
}

static bool is_fault(const char *when, const char *kind)
{
    bool is_here;

    pthread_mutex_lock(&lock);
    is_here = is_position(when, kind);
    pthread_mutex_unlock(&lock);
    if (is_here)
        note("", when, kind);
    return is_here;
}

/* Pass a line on, or not. Returns what the owner's callback does: `n`, or it has failed. */
static size_t take_line(struct call *c, char *line, size_t n)
{
    static char gone[] =
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"status\":\"Failure\","
        "\"reason\":\"Expired\",\"code\":410}}\n";
    char kind[KIND_BYTES];

    if (!find_event(c, line, n, kind, sizeof kind))
        return c->on_body(line, 1, n, c->ctx);
    note(".events", "", kind);
    if (is_fault("lose", kind)) {
        (void)c->on_body(gone, 1, sizeof gone - 1, c->ctx);
        return 0;
    }
    if (is_fault("hold", kind)) {
        c->held_until_ms = now_ms() + HOLD_MS;
        return n;
    }
    if (is_fault("repeat", kind) && c->on_body(line, 1, n, c->ctx) != n)
        return 0;
    return c->on_body(line, 1, n, c->ctx);
}

/* All whole lines, until one is held. False: the owner's callback has failed. */
static bool take_lines(struct call *c)
{
    size_t at = 0;
    char *end;

    while (c->held_until_ms == 0 && (end = memchr(c->bytes + at, '\n', c->n_bytes - at)) != NULL) {
        size_t n = (size_t)(end + 1 - (c->bytes + at));

        if (take_line(c, c->bytes + at, n) != n)
            return false;
        if (c->held_until_ms == 0)
            at += n;
    }
    c->n_bytes -= at;
    memmove(c->bytes, c->bytes + at, c->n_bytes);
    return true;
}

static size_t on_bytes(char *bytes, size_t one, size_t n, void *ctx)
{
    struct call *c = ctx;

    if (!c->is_watch)
        return c->on_body(bytes, one, n, c->ctx);
    c->bytes = realloc(c->bytes, c->n_bytes + n);
    if (!c->bytes)
        abort();
    memcpy(c->bytes + c->n_bytes, bytes, n);
    c->n_bytes += n;
    return take_lines(c) ? n : 0;
}

/* What was held for long enough. Returns whether something still is. */
static bool release(void)
{
    bool is_held = false;

    for (int i = 0; i < CALLS_MAX; i++) {
        struct call *c = &calls[i];
        size_t n;

        if (!c->easy || c->held_until_ms == 0)
            continue;
        is_held = true;
        if (now_ms() < c->held_until_ms)
            continue;
        n = (size_t)((char *)memchr(c->bytes, '\n', c->n_bytes) + 1 - c->bytes);
        c->held_until_ms = 0;
        (void)c->on_body(c->bytes, 1, n, c->ctx); /* the first is counted already */
        c->n_bytes -= n;
        memmove(c->bytes, c->bytes + n, c->n_bytes);
        (void)take_lines(c);
    }
    return is_held;
}

CURLMcode curl_multi_perform(CURLM *multi, int *n)
{
    CURLMcode (*real)(CURLM *, int *) =
        (CURLMcode(*)(CURLM *, int *))dlsym(RTLD_NEXT, "curl_multi_perform");

    (void)release();
    return real(multi, n);
}

CURLMcode curl_multi_poll(CURLM *multi, struct curl_waitfd *fds, unsigned n_fds, int timeout_ms,
                          int *n)
{
    CURLMcode (*real)(CURLM *, struct curl_waitfd *, unsigned, int, int *) =
        (CURLMcode(*)(CURLM *, struct curl_waitfd *, unsigned, int, int *))dlsym(RTLD_NEXT,
                                                                                 "curl_multi_poll");

    return real(multi, fds, n_fds, release() && timeout_ms > 50 ? 50 : timeout_ms, n);
}

/* --- calls --- */

CURLcode curl_easy_setopt(CURL *easy, CURLoption option, ...)
{
    CURLcode (*real)(CURL *, CURLoption, ...) =
        (CURLcode(*)(CURL *, CURLoption, ...))dlsym(RTLD_NEXT, "curl_easy_setopt");
    va_list args;
    void *value;
    struct call *c;

    va_start(args, option);
    value = va_arg(args, void *); /* long, pointer and curl_off_t are passed alike */
    va_end(args);
    if (option != CURLOPT_URL && option != CURLOPT_WRITEFUNCTION && option != CURLOPT_WRITEDATA)
        return real(easy, option, value);
    pthread_mutex_lock(&lock);
    c = &calls[find_call(easy)];
    c->easy = easy;
    if (option == CURLOPT_URL) {
        const char *host = strstr(value, "://");
        const char *path = host ? strchr(host + 3, '/') : NULL;

        (void)snprintf(c->path, sizeof c->path, "%s", path ? path : "/");
        c->is_watch = strstr(value, "watch=true&") != NULL;
    } else if (option == CURLOPT_WRITEFUNCTION) {
        c->on_body = (curl_write_callback)value;
        value = (void *)on_bytes;
    } else {
        c->ctx = value;
        value = c;
    }
    pthread_mutex_unlock(&lock);
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
        note("", "", calls[i].kind);
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
    free(calls[find_call(easy)].bytes);
    memset(&calls[find_call(easy)], 0, sizeof calls[0]);
    pthread_mutex_unlock(&lock);
    real(easy);
}
