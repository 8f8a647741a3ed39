/* Objects and checkpoints on a real S3 server, which checks signatures: versitygw, with a folder as
 * its disk. It is killed and started again by the tests.
 *
 *   test_bucket VERSITYGW [TEST]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "checkpoints.h"
#include "files/adopt.h"
#include "files/remote.h"
#include "http/s3.h"
#include "scratch.h"
#include "suite.h"

#define START_MS 20000

static const char *program;
static pid_t pid;
static int port;
static char endpoint[64];
static struct err err;

/* --- the server --- */

static bool is_listening(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_open = fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0;

    if (fd >= 0)
        (void)close(fd);
    return is_open;
}

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    (void)close(fd);
    return ntohs(at.sin_port);
}

/* In place of its disk one that has room for `size`, with a bucket "small": for this process only.
 */
static void shrink_disk(const char *disk, const char *size)
{
    char options[32];
    char bucket[PATH_MAX];

    (void)snprintf(options, sizeof options, "size=%s", size);
    (void)snprintf(bucket, sizeof bucket, "%.4000s/small", disk);
    if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", disk, "tmpfs", 0, options) != 0 || mkdir(bucket, 0755) != 0)
        _exit(126);
}

/* `size` of its disk, such as "20m"; NULL: that of the test. */
static void start_server(const char *size)
{
    char address[32];
    char disk[PATH_MAX];
    char sidecar[PATH_MAX];
    int64_t end_ms = clock_now_ms() + START_MS;

    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    (void)snprintf(disk, sizeof disk, "%s", scratch_path("disk"));
    (void)snprintf(sidecar, sizeof sidecar, "%s", scratch_path("meta"));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int log = open(scratch_path("server.log"), O_WRONLY | O_CREAT | O_APPEND, 0644);

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when a test aborts */
        (void)dup2(log, 1);
        (void)dup2(log, 2);
        if (size)
            shrink_disk(disk, size);
        (void)setenv("ROOT_ACCESS_KEY", "id", 1);
        (void)setenv("ROOT_SECRET_KEY", "secret", 1);
        (void)execl(program, "versitygw", "--port", address, "posix", "--sidecar", sidecar, disk,
                    (char *)NULL);
        _exit(127);
    }
    while (!is_listening()) {
        assert_true(clock_now_ms() < end_ms);
        assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
        (void)usleep(20000);
    }
}

static void kill_server(void)
{
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    pid = 0;
}

static struct s3_access access_to(const char *bucket, const char *prefix)
{
    struct s3_access a = {.endpoint = endpoint, .key_id = "id", .secret = "secret"};

    (void)snprintf(a.bucket, sizeof a.bucket, "%s", bucket);
    (void)snprintf(a.prefix, sizeof a.prefix, "%s", prefix);
    return a;
}

static struct s3 *connect_to(const struct s3_access *a)
{
    struct s3 *s3;

    if (s3_new(a, &s3, &err) != ERR_OK)
        fail_msg("%s", err.text);
    return s3;
}

static struct s3 *connect_at(const char *prefix)
{
    struct s3_access a = access_to("runs", prefix);

    return connect_to(&a);
}

#define MUST(call)                                                                                 \
    do {                                                                                           \
        err = (struct err){.text = ""};                                                            \
        if ((call) != ERR_OK)                                                                      \
            fail_msg("%s", err.text);                                                              \
    } while (0)

/* --- objects --- */

static void bucket_returns_what_was_put(void **state)
{
    static const char *const keys[] = {"a", "b c/d+e", "f&g=h", "\xc3\xa4/~x", "i%20j"};
    struct s3 *s3 = connect_at("objects/of it");

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct buf got = {.max = 100};

        MUST(s3_put(s3, keys[i], "0123456789", 10, &err));
        MUST(s3_get(s3, keys[i], 3, 4, &got, &err));
        assert_string_equal(buf_text(&got), "3456");
        MUST(s3_delete(s3, keys[i], &err));
        assert_int_equal(s3_get(s3, keys[i], 3, 4, &got, &err), ERR_NOT_FOUND);
        MUST(s3_delete(s3, keys[i], &err));
        buf_deinit(&got);
    }
    s3_free(s3);
}

/* Bytes that are different everywhere. */
static void make_file(const char *path, size_t n)
{
    unsigned char *bytes = malloc(n);

    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    assert_int_equal(file_write(path, bytes, n, NULL), ERR_OK);
    free(bytes);
}

static void check_same(struct s3 *s3, const char *key, const char *path, size_t n)
{
    struct buf got = {.max = n};
    struct buf want = {.max = n};

    assert_int_equal(file_read(path, &want, NULL), ERR_OK);
    assert_int_equal(want.len, n);
    for (size_t at = 0; at < n; at += S3_PIECE_BYTES)
        MUST(s3_get(s3, key, (int64_t)at, n - at < S3_PIECE_BYTES ? n - at : S3_PIECE_BYTES, &got,
                    &err));
    assert_int_equal(got.len, want.len);
    assert_true(n == 0 || memcmp(got.data, want.data, n) == 0);
    buf_deinit(&got);
    buf_deinit(&want);
}

static void bucket_takes_a_large_file_in_parts(void **state)
{
    static const size_t sizes[] = {0, 1, S3_PIECE_BYTES, S3_PIECE_BYTES + 1, 20000003};
    struct s3 *s3 = connect_at("files");

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char path[PATH_MAX];

        (void)snprintf(path, sizeof path, "%s", scratch_path("file"));
        make_file(path, sizes[i]);
        MUST(s3_put_file(s3, "file", path, &err));
        check_same(s3, "file", path, sizes[i]);
    }
    s3_free(s3);
}

static enum err_code count(void *ctx, const struct s3_object *o, struct err *e)
{
    int *n = ctx;
    char want[32];

    (void)e;
    (void)snprintf(want, sizeof want, "%04d", (*n)++);
    assert_string_equal(o->key, want);
    assert_int_equal(o->bytes, 3);
    return ERR_OK;
}

static void bucket_is_listed_beyond_the_first_page(void **state)
{
    struct s3 *s3 = connect_at("many");
    char folder[PATH_MAX];
    int n = 0;

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", scratch_path("disk/runs/many"));
    assert_int_equal(mkdir(folder, 0755), 0);
    for (int i = 0; i < 2500; i++) {
        char path[PATH_MAX + 8];
        FILE *f;

        (void)snprintf(path, sizeof path, "%s/%04d", folder, i);
        f = fopen(path, "we");
        assert_true(f && fputs("abc", f) >= 0 && fclose(f) == 0);
    }
    MUST(s3_list(s3, count, &n, &err));
    assert_int_equal(n, 2500);
    s3_free(s3);
}

static struct stranger {
    const char *name;
    const char *bucket, *key_id, *secret;
    enum err_code want;
    const char *text;
} strangers[] = {
    {"bucket_is_not_for_a_wrong_secret", "runs", "id", "Secret", ERR_DENIED,
     "the secret access key is wrong"},
    {"bucket_is_not_for_an_unknown_key", "runs", "other", "secret", ERR_DENIED,
     "the server does not know this access key id"},
    {"bucket_must_exist", "none", "id", "secret", ERR_NOT_FOUND, "there is no such bucket"},
};

static void check_stranger(void **state)
{
    const struct stranger *row = *state;
    struct s3_access a = access_to(row->bucket, "x");
    struct remote *remote;
    struct s3 *s3;

    a.key_id = row->key_id;
    a.secret = row->secret;
    s3 = connect_to(&a);
    assert_int_equal(s3_put(s3, "a", "b", 1, &err), row->want);
    if (!strstr(err.text, row->text))
        fail_msg("%s", err.text);
    assert_int_equal(remote_open(&a, &remote, &err), row->want);
    s3_free(s3);
}

struct uploader {
    struct s3 *s3;
    char path[PATH_MAX];
    enum err_code rc;
    struct err err;
};

static void *upload(void *arg)
{
    struct uploader *u = arg;

    u->rc = s3_put_file(u->s3, "file", u->path, &u->err);
    return NULL;
}

/* Parts of uploads are in a folder of this name. */
static bool has_parts(void)
{
    struct stat st;

    return stat(scratch_path("disk/runs/.sgwtmp/multipart"), &st) == 0 && st.st_nlink > 2;
}

static void bucket_upload_survives_the_death_of_the_server(void **state)
{
    struct uploader u = {.s3 = connect_at("killed")};
    int64_t end_ms = clock_now_ms() + START_MS;
    pthread_t thread;

    (void)state;
    (void)snprintf(u.path, sizeof u.path, "%s", scratch_path("killed"));
    make_file(u.path, 60000000);
    assert_int_equal(thread_start(&thread, upload, &u, &err), ERR_OK);
    while (!has_parts() && clock_now_ms() < end_ms)
        (void)usleep(1000);
    kill_server();
    start_server(NULL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (u.rc != ERR_OK)
        fail_msg("%s", u.err.text);
    check_same(u.s3, "file", u.path, 60000000);
    s3_free(u.s3);
}

static void bucket_copies_from_one_prefix_to_another(void **state)
{
    static const char *const keys[] = {"a", "b c/d+e", "f&g=h", "\xc3\xa4/~x", "i%20j"};
    struct s3 *from = connect_at("old ones"), *to = connect_at("of it/\xc3\xa4+");

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct buf got = {.max = 100};

        MUST(s3_put(from, keys[i], keys[i], strlen(keys[i]), &err));
        MUST(s3_copy(to, keys[i], from, keys[i], (int64_t)strlen(keys[i]), &err));
        MUST(s3_copy(to, keys[i], from, keys[i], (int64_t)strlen(keys[i]), &err)); /* again */
        MUST(s3_get(to, keys[i], 0, strlen(keys[i]), &got, &err));
        assert_string_equal(buf_text(&got), keys[i]);
        buf_deinit(&got);
    }
    assert_int_equal(s3_copy(to, "x", from, "none", 1, &err), ERR_NOT_FOUND);
    s3_free(from);
    s3_free(to);
}

/* The file that did not fit leaves nothing behind that takes the room of others. */
static void bucket_that_is_full_is_named_and_takes_what_fits(void **state)
{
    struct s3_access a = access_to("small", "points");
    struct s3 *s3 = connect_to(&a);
    char path[PATH_MAX];

    (void)state;
    kill_server();
    start_server("20m");
    (void)snprintf(path, sizeof path, "%s", scratch_path("large"));
    make_file(path, 30000000);
    assert_int_equal(s3_put_file(s3, "large", path, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, "s3://small/points/large: the bucket is full"));
    make_file(path, 10000000);
    MUST(s3_put_file(s3, "large", path, &err));
    check_same(s3, "large", path, 10000000);
    s3_free(s3);
    kill_server();
    start_server(NULL);
}

/* --- checkpoints --- */

/* A worker with a disk of its own. */
struct worker {
    struct remote *remote;
    struct store store;
};

static struct worker make_worker(const char *prefix)
{
    static int n;
    struct s3_access a = access_to("runs", prefix);
    struct worker w;
    char name[32];

    (void)snprintf(name, sizeof name, "worker-%d/store", n++);
    MUST(remote_open(&a, &w.remote, &err));
    MUST(store_open_remote(&w.store, scratch_path(name), w.remote, &err));
    return w;
}

static void free_worker(struct worker *w)
{
    remote_close(w->remote);
}

static void save_stage(const struct worker *w, const struct store_point *point,
                       const struct cut *cut, int stage)
{
    const struct store_shard shard = {.lineage = point->at.lineage,
                                      .step = point->at.end.step,
                                      .stage = stage,
                                      .n_stages = cut->n_stages};

    MUST(checkpoints_write_stage(&w->store, point, cut, stage, true, &err));
    MUST(store_push(&w->store, &shard, NULL, &err));
}

static void save(const struct worker *w, int64_t lineage, int64_t step, const struct cut *cut)
{
    const struct store_point point = checkpoints_point(lineage, step);

    for (int stage = 0; stage < cut->n_stages; stage++)
        save_stage(w, &point, cut, stage);
}

/* "2-30 2-20" */
static void check_list(const struct worker *w, const char *want)
{
    struct store_point points[RESUME_POINTS_MAX];
    int n = store_list(&w->store, points, RESUME_POINTS_MAX);
    char has[200] = "";

    for (int i = 0; i < n; i++)
        text_add(has, sizeof has, "%s%lld-%lld", i > 0 ? " " : "", (long long)points[i].at.lineage,
                 (long long)points[i].at.end.step);
    assert_string_equal(has, want);
}

static const struct resume_part all = {.n_units = TINY_UNITS};

static enum err_code fetch_and_read(const struct worker *w, int64_t lineage, int64_t step)
{
    const struct store_point point = checkpoints_point(lineage, step);
    enum err_code rc;

    err = (struct err){.text = ""};
    rc = store_fetch(&w->store, &point.at, &all, NULL, &err);
    return rc == ERR_OK ? checkpoints_read(&w->store, &point.at, true, &err) : rc;
}

static char *disk_path(const char *file)
{
    static char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/disk/runs/%s", scratch, file);
    return path;
}

static void bucket_checkpoint_counts_when_all_stages_are_there(void **state)
{
    struct worker a = make_worker("counts");
    struct worker b = make_worker("counts");
    const struct store_point point = checkpoints_point(1, 10);

    (void)state;
    check_list(&a, "");
    save_stage(&a, &point, &two, 1);
    check_list(&a, "");
    save_stage(&b, &point, &two, 0);
    check_list(&a, "1-10");
    check_list(&b, "1-10");
    free_worker(&a);
    free_worker(&b);
}

static void bucket_checkpoint_is_read_on_an_empty_disk(void **state)
{
    struct worker a = make_worker("read");
    struct worker b = make_worker("read");

    (void)state;
    save(&a, 1, 10, &three);
    save(&a, 2, 20, &whole);
    check_list(&b, "2-20 1-10");
    MUST(fetch_and_read(&b, 1, 10));
    MUST(fetch_and_read(&b, 2, 20));
    free_worker(&a);
    free_worker(&b);
}

static void bucket_checkpoint_is_fetched_as_far_as_it_is_needed(void **state)
{
    struct worker a = make_worker("part");
    struct worker b = make_worker("part");
    const struct resume_part middle = {.first_unit = 1, .n_units = 1};
    const struct store_point point = checkpoints_point(1, 10);
    char folder[PATH_MAX];

    (void)state;
    save(&a, 1, 10, &three);
    check_list(&b, "1-10");
    MUST(store_fetch(&b.store, &point.at, &middle, NULL, &err));
    MUST(folder_path(b.store.folder, "1-10", folder, &err));
    assert_false(folder_has(folder, "model-00001-of-00003.safetensors"));
    assert_true(folder_has(folder, "model-00002-of-00003.safetensors"));
    assert_false(folder_has(folder, "model-00003-of-00003.safetensors"));
    free_worker(&a);
    free_worker(&b);
}

static void bucket_checkpoint_is_a_model(void **state)
{
    struct worker a = make_worker("model");
    struct stat st;

    (void)state;
    save(&a, 1, 10, &two);
    assert_int_equal(stat(disk_path("model/1-10/config.json"), &st), 0);
    assert_int_equal(stat(disk_path("model/1-10/model.safetensors.index.json"), &st), 0);
    free_worker(&a);
}

static void bucket_keeps_the_newest_checkpoints(void **state)
{
    struct worker a = make_worker("keeps");
    const struct resume at = {.lineage = 1};

    (void)state;
    for (int64_t step = 10; step <= 40; step += 10)
        save(&a, 1, step, &two);
    store_clean(&a.store, &at, 2);
    check_list(&a, "1-40 1-30");
    assert_int_not_equal(access(disk_path("keeps/1-20/model-00001-of-00002.safetensors"), F_OK), 0);
    free_worker(&a);
}

/* Other bytes in the middle of a file. */
static void damage(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat st;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(pwrite(fd, "\xff\xff\xff\xff", 4, st.st_size - 40), 4);
    (void)close(fd);
}

static void bucket_damage_is_set_aside(void **state)
{
    struct worker a = make_worker("damaged");
    struct worker b = make_worker("damaged");
    const struct store_point point = checkpoints_point(1, 20);
    const struct resume at = {.lineage = 1};

    (void)state;
    save(&a, 1, 10, &two);
    save(&a, 1, 20, &two);
    damage(disk_path("damaged/1-20/model-00002-of-00002.safetensors"));
    check_list(&b, "1-20 1-10");
    assert_int_equal(fetch_and_read(&b, 1, 20), ERR_INVALID);
    store_refuse(&b.store, &point.at);
    check_list(&b, "1-10");
    check_list(&a, "1-10");
    MUST(fetch_and_read(&b, 1, 10));
    save(&a, 1, 30, &two);
    save(&a, 1, 40, &two);
    store_clean(&a.store, &at, 2);
    assert_int_not_equal(access(disk_path("damaged/1-20/refused"), F_OK), 0); /* in the end */
    free_worker(&a);
    free_worker(&b);
}

static void bucket_checkpoint_that_is_cut_short_does_not_count(void **state)
{
    struct worker a = make_worker("short");

    (void)state;
    save(&a, 1, 10, &two);
    save(&a, 1, 20, &two);
    assert_int_equal(truncate(disk_path("short/1-20/model-00001-of-00002.safetensors"), 100), 0);
    check_list(&a, "1-10");
    free_worker(&a);
}

static void bucket_replaces_what_is_damaged_on_the_disk(void **state)
{
    struct worker a = make_worker("cache");
    const struct store_point point = checkpoints_point(1, 10);
    char path[PATH_MAX];

    (void)state;
    save(&a, 1, 10, &two);
    check_list(&a, "1-10");
    MUST(folder_path(a.store.folder, "1-10/model-00002-of-00002.safetensors", path, &err));
    damage(path);
    assert_int_equal(fetch_and_read(&a, 1, 10), ERR_INVALID);
    store_drop(&a.store, &point.at);
    MUST(fetch_and_read(&a, 1, 10));
    check_list(&a, "1-10");
    free_worker(&a);
}

static void bucket_that_does_not_answer_loses_no_checkpoint(void **state)
{
    struct worker a = make_worker("outage");
    struct s3_access access = access_to("runs", "outage");
    struct remote *none;

    (void)state;
    save(&a, 1, 10, &two);
    check_list(&a, "1-10");
    kill_server();
    check_list(&a, "1-10");
    assert_int_equal(remote_open(&access, &none, &err), ERR_IO);
    assert_non_null(strstr(err.text, "s3://runs: "));
    start_server(NULL);
    save(&a, 1, 20, &two);
    check_list(&a, "1-20 1-10");
    free_worker(&a);
}

/* --- from one job to another --- */

static struct spec spec_with(int batch_size)
{
    struct spec spec = {.model = tiny_model,
                        .data = {.task = "MNLI"},
                        .training = {.batch_size = batch_size, .optimizer = SPEC_OPTIMIZER_ADAMW}};

    return spec;
}

static void save_as(const struct worker *w, const struct spec *spec, int64_t step)
{
    struct store_point point = checkpoints_point(1, step);

    identity_of(spec, &point.identity);
    for (int stage = 0; stage < two.n_stages; stage++)
        save_stage(w, &point, &two, stage);
}

/* Checkpoints of steps 10 to `last`. */
static struct worker make_other(const char *prefix, int64_t last)
{
    const struct spec spec = spec_with(8);
    struct worker w = make_worker(prefix);

    for (int64_t step = 10; step <= last; step += 10)
        save_as(&w, &spec, step);
    return w;
}

static enum err_code find_from(const char *from, const char *own, struct adopt_source *out)
{
    char from_url[100], own_url[100];

    (void)snprintf(from_url, sizeof from_url, "s3://runs/%s", from);
    (void)snprintf(own_url, sizeof own_url, "s3://runs/%s", own);
    err = (struct err){.text = ""};
    return adopt_find(from_url, own_url, out, &err);
}

static enum err_code adopt_as(const struct spec *spec, const struct worker *w, const char *own,
                              const char *from)
{
    struct adopt_source source = {.remote = NULL};
    enum err_code rc = find_from(from, own, &source);

    if (rc == ERR_OK)
        rc = adopt_checkpoints(&w->store, &source, spec, 0, &err);
    adopt_close(&source);
    return rc;
}

static enum err_code adopt(const struct worker *w, const char *own, const char *from)
{
    const struct spec spec = spec_with(8);

    return adopt_as(&spec, w, own, from);
}

/* Nothing stays behind on the worker's disk. */
static void check_disk(const struct worker *w)
{
    bool is_empty;

    MUST(folder_is_empty(w->store.folder, &is_empty, &err));
    assert_true(is_empty);
}

static void bucket_job_goes_on_from_another_ones_checkpoints(void **state)
{
    struct worker other = make_other("go/old-11111", 20);
    struct worker a = make_worker("go/new-22222");
    struct worker b = make_worker("go/new-22222");
    const struct resume at = {.lineage = 1};

    (void)state;
    MUST(adopt(&a, "go/new-22222", "go/old"));
    check_disk(&a);
    check_list(&a, "1-20 1-10");
    MUST(adopt(&b, "go/new-22222", "go/old")); /* there is nothing left to do */
    check_list(&b, "1-20 1-10");
    store_clean(&other.store, &at, 1); /* the other job goes on */
    check_list(&other, "1-20");
    MUST(fetch_and_read(&b, 1, 10));
    MUST(fetch_and_read(&a, 1, 20));
    assert_int_equal(access(disk_path("go/new-22222/1-20/config.json"), F_OK), 0);
    free_worker(&other);
    free_worker(&a);
    free_worker(&b);
}

struct heir {
    struct worker worker;
    enum err_code rc;
};

static void *adopt_at_once(void *arg)
{
    const struct spec spec = spec_with(8);
    struct heir *h = arg;
    struct adopt_source from = {.remote = NULL};
    struct err why = {.text = ""};

    h->rc = adopt_find("s3://runs/once/old-11111", "s3://runs/once/new-22222", &from, &why);
    if (h->rc == ERR_OK)
        h->rc = adopt_checkpoints(&h->worker.store, &from, &spec, 0, &why);
    adopt_close(&from);
    return NULL;
}

static void bucket_checkpoints_are_taken_over_by_all_workers_at_once(void **state)
{
    struct worker other = make_other("once/old-11111", 20);
    struct heir heirs[3];
    pthread_t threads[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        heirs[i].worker = make_worker("once/new-22222");
    for (int i = 0; i < 3; i++)
        assert_int_equal(thread_start(&threads[i], adopt_at_once, &heirs[i], &err), ERR_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(heirs[i].rc, ERR_OK);
        check_list(&heirs[i].worker, "1-20 1-10");
        MUST(fetch_and_read(&heirs[i].worker, 1, 20));
        free_worker(&heirs[i].worker);
    }
    free_worker(&other);
}

static void bucket_leaves_a_job_alone_that_has_a_checkpoint(void **state)
{
    struct worker other = make_other("alone/old-11111", 30);
    struct worker own = make_other("alone/new-22222", 10);

    (void)state;
    MUST(adopt(&own, "alone/new-22222", "alone/old-11111"));
    check_list(&own, "1-10");
    free_worker(&other);
    free_worker(&own);
}

/* In the header of the last stage's shard. */
static void damage_header(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "~", 1, 40), 1);
    (void)close(fd);
}

static void bucket_job_goes_on_from_the_checkpoint_before_a_damaged_one(void **state)
{
    struct worker other = make_other("bad/old-11111", 30);
    struct worker own = make_worker("bad/new-22222");

    (void)state;
    damage_header(disk_path("bad/old-11111/1-30/model-00002-of-00002.safetensors"));
    assert_int_equal(
        truncate(disk_path("bad/old-11111/1-20/model-00001-of-00002.safetensors"), 100), 0);
    MUST(adopt(&own, "bad/new-22222", "bad/old"));
    check_list(&own, "1-10");
    MUST(fetch_and_read(&own, 1, 10));
    damage_header(disk_path("bad/old-11111/1-10/model-00001-of-00002.safetensors"));
    free_worker(&own);
    own = make_worker("bad/new-33333");
    assert_int_equal(adopt(&own, "bad/new-33333", "bad/old"), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "has no complete checkpoint that can be used"));
    check_disk(&own);
    free_worker(&other);
    free_worker(&own);
}

/* Of data that has other bytes: which only a reader finds out. */
static void bucket_takes_nothing_twice_that_was_set_aside(void **state)
{
    struct worker other = make_other("twice/old-11111", 10);
    struct worker a = make_worker("twice/new-22222");
    struct worker b = make_worker("twice/new-22222");
    const struct store_point point = checkpoints_point(1, 10);

    (void)state;
    damage(disk_path("twice/old-11111/1-10/model-00002-of-00002.safetensors"));
    MUST(adopt(&a, "twice/new-22222", "twice/old"));
    assert_int_equal(fetch_and_read(&a, 1, 10), ERR_INVALID);
    store_refuse(&a.store, &point.at);
    assert_int_equal(adopt(&a, "twice/new-22222", "twice/old"), ERR_NOT_FOUND);
    assert_int_equal(adopt(&b, "twice/new-22222", "twice/old"), ERR_NOT_FOUND);
    check_list(&other, "1-10");
    free_worker(&other);
    free_worker(&a);
    free_worker(&b);
}

static void bucket_job_does_not_go_on_from_another_model(void **state)
{
    struct worker other = make_other("like/old-11111", 10);
    struct worker older = make_worker("like/older-11111");
    struct worker own = make_worker("like/new-22222");
    struct spec spec = spec_with(16);

    (void)state;
    assert_int_equal(adopt_as(&spec, &own, "like/new-22222", "like/old"), ERR_CONFLICT);
    assert_non_null(strstr(err.text, "spec.training.batchSize is 8 there and 16 here"));
    /* One of an earlier version has no such fields, but tensors. */
    save(&older, 1, 10, &two);
    spec.model.vocab++;
    assert_int_equal(adopt_as(&spec, &own, "like/new-22222", "like/older"), ERR_CONFLICT);
    assert_non_null(strstr(err.text, "the job's model has"));
    check_list(&own, "");
    check_disk(&own);
    free_worker(&other);
    free_worker(&older);
    free_worker(&own);
}

static void bucket_has_one_job_of_the_name_or_lists_them(void **state)
{
    struct worker own = make_other("which/job-11111", 10);
    struct worker other = make_other("which/job-22222", 10);
    struct worker third;
    struct s3 *s3 = connect_at("which/job-44444");
    struct adopt_source found = {.remote = NULL};

    (void)state;
    MUST(s3_put(s3, "file", "x", 1, &err)); /* without checkpoints */
    s3_free(s3);
    MUST(find_from("which/job", "which/job-11111", &found));
    assert_string_equal(found.place, "s3://runs/which/job-22222");
    adopt_close(&found);
    MUST(find_from("/which/job-22222/", "which/job-11111", &found));
    adopt_close(&found);
    assert_int_equal(find_from("which/job-11111/", "which/job-11111", &found), ERR_INVALID);
    assert_non_null(strstr(err.text, "is where this job itself keeps its checkpoints"));
    assert_int_equal(find_from("which/jo", "which/job-11111", &found), ERR_NOT_FOUND);
    assert_string_equal(err.text, "s3://runs/which: has no checkpoints of a job jo");
    assert_int_equal(find_from("", "which/job-11111", &found), ERR_NOT_FOUND);
    third = make_other("which/job-33333", 10);
    assert_int_equal(find_from("which/job", "which/job-11111", &found), ERR_INVALID);
    assert_non_null(strstr(err.text, "of which one must be named: job-22222, job-33333"));
    assert_int_equal(adopt_find("s3://other/job", "s3://runs/which/job-11111", &found, &err),
                     ERR_INVALID);
    assert_non_null(strstr(err.text, "must be in the bucket of the job's own checkpoints, runs"));
    free_worker(&own);
    free_worker(&other);
    free_worker(&third);
}

/* --- all of it --- */

static int set_up(void **state)
{
    struct http_aws aws = {.region = "us-east-1", .key_id = "id", .secret = "secret"};
    char url[80];
    struct http_request request = {.method = "PUT", .url = url, .body = "", .aws = &aws};
    struct http_response r;
    struct http *loop;

    if (scratch_make(state) != 0 || mkdir(scratch_path("disk"), 0755) != 0 ||
        mkdir(scratch_path("meta"), 0755) != 0)
        return -1;
    port = free_port();
    (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", port);
    (void)snprintf(url, sizeof url, "%s/runs", endpoint);
    /* What s3_access_load() reads. */
    assert_int_equal(setenv("AWS_ENDPOINT_URL_S3", endpoint, 1), 0);
    assert_int_equal(setenv("AWS_ACCESS_KEY_ID", "id", 1), 0);
    assert_int_equal(setenv("AWS_SECRET_ACCESS_KEY", "secret", 1), 0);
    start_server(NULL);
    assert_int_equal(http_new(&loop, &err), ERR_OK);
    if (http_call(loop, &request, &r, &err) != ERR_OK || r.status != 200)
        fail_msg("the bucket cannot be made: %s%s", err.text, buf_text(&r.body));
    buf_deinit(&r.body);
    http_free(loop);
    return 0;
}

static int tear_down(void **state)
{
    kill_server();
    return scratch_remove(state);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test(bucket_returns_what_was_put),
        cmocka_unit_test(bucket_takes_a_large_file_in_parts),
        cmocka_unit_test(bucket_is_listed_beyond_the_first_page),
        cmocka_unit_test(bucket_upload_survives_the_death_of_the_server),
        cmocka_unit_test(bucket_that_is_full_is_named_and_takes_what_fits),
        cmocka_unit_test(bucket_checkpoint_counts_when_all_stages_are_there),
        cmocka_unit_test(bucket_checkpoint_is_read_on_an_empty_disk),
        cmocka_unit_test(bucket_checkpoint_is_fetched_as_far_as_it_is_needed),
        cmocka_unit_test(bucket_checkpoint_is_a_model),
        cmocka_unit_test(bucket_keeps_the_newest_checkpoints),
        cmocka_unit_test(bucket_damage_is_set_aside),
        cmocka_unit_test(bucket_checkpoint_that_is_cut_short_does_not_count),
        cmocka_unit_test(bucket_replaces_what_is_damaged_on_the_disk),
        cmocka_unit_test(bucket_that_does_not_answer_loses_no_checkpoint),
        cmocka_unit_test(bucket_copies_from_one_prefix_to_another),
        cmocka_unit_test(bucket_job_goes_on_from_another_ones_checkpoints),
        cmocka_unit_test(bucket_checkpoints_are_taken_over_by_all_workers_at_once),
        cmocka_unit_test(bucket_leaves_a_job_alone_that_has_a_checkpoint),
        cmocka_unit_test(bucket_job_goes_on_from_the_checkpoint_before_a_damaged_one),
        cmocka_unit_test(bucket_takes_nothing_twice_that_was_set_aside),
        cmocka_unit_test(bucket_job_does_not_go_on_from_another_model),
        cmocka_unit_test(bucket_has_one_job_of_the_name_or_lists_them),
    };
    struct suite suite = {.n = 0};

    if (argc < 2) {
        (void)fprintf(stderr, "usage: %s VERSITYGW [TEST]\n", argv[0]);
        return 2;
    }
    program = argv[1];
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, strangers, check_stranger);
    return suite_run(&suite, "bucket", set_up, tear_down);
}
