#include "files/output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "files/export.h"
#include "scratch.h"

#define UID "8a1f2c3d-0000-4000-8000-000000000001"

/* --- file operations that fail from a point on, as if the process had been killed there --- */

static int n_operations_left = -1; /* negative: all succeed */

static bool may_operate(void)
{
    if (n_operations_left < 0)
        return true;
    if (n_operations_left > 0) {
        n_operations_left--;
        return true;
    }
    errno = EIO;
    return false;
}

int rename(const char *from, const char *to)
{
    return may_operate() ? renameat(AT_FDCWD, from, AT_FDCWD, to) : -1;
}

int unlink(const char *path)
{
    return may_operate() ? unlinkat(AT_FDCWD, path, 0) : -1;
}

int rmdir(const char *path)
{
    return may_operate() ? unlinkat(AT_FDCWD, path, AT_REMOVEDIR) : -1;
}

/* --- helpers --- */

static struct output output_in(const char *folder)
{
    return (struct output){.folder = folder, .uid = UID, .revision = 3};
}

static bool exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

/* As a stage that writes does. */
static void make_aside(const struct output *o)
{
    assert_true(mkdir(o->aside, 0755) == 0 || errno == EEXIST);
}

static void output_is_checked_without_leaving_anything(void **state)
{
    char folder[PATH_MAX];
    struct output o = output_in(folder);

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", scratch_path("model"));
    assert_int_equal(output_open(&o, 1, 1000, NULL), ERR_OK);
    assert_string_equal(o.folder, folder);
    assert_memory_equal(o.aside, folder, strlen(folder));
    assert_string_equal(o.aside + strlen(o.aside) - 3, "-r3");
    assert_int_equal(rmdir(folder), 0); /* it is empty */
}

static void output_removes_what_earlier_revisions_of_the_job_left(void **state)
{
    char folder[PATH_MAX];
    struct output earlier = output_in(folder), later = earlier, other = earlier, o = earlier;
    char path[2 * PATH_MAX];

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", scratch_path("left"));
    earlier.revision = 2;
    assert_int_equal(output_open(&earlier, 0, 1000, NULL), ERR_OK);
    make_aside(&earlier);
    (void)snprintf(path, sizeof path, "%s/model.safetensors.part", earlier.aside);
    assert_int_equal(file_write(path, "half", 4, NULL), ERR_OK);
    other.revision = 11;
    other.uid = "another job";
    assert_int_equal(output_open(&other, 0, 1000, NULL), ERR_OK);
    make_aside(&other);
    later.revision = 4; /* of stage 1, which leaves no claim */
    assert_int_equal(output_open(&later, 1, 1000, NULL), ERR_OK);
    make_aside(&later);
    assert_int_equal(output_open(&o, 1, 1000, NULL), ERR_OK);
    assert_false(exists(earlier.aside));
    assert_true(exists(later.aside));
    assert_true(exists(other.aside));
}

static void output_that_cannot_be_written_says_what_to_do(void **state)
{
    char folder[PATH_MAX];
    struct output o = output_in(folder);
    struct err err = {0};

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", scratch_text("file", "not a folder"));
    assert_int_equal(output_open(&o, 0, 1000, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "/file cannot be written: create"));
    assert_non_null(strstr(err.text, "make it writable for user"));
    (void)snprintf(folder, sizeof folder, "%s", scratch_path("no/parent"));
    assert_int_equal(output_open(&o, 0, 1000, &err), ERR_NOT_FOUND);
    (void)snprintf(folder, sizeof folder, "%s", "/proc");
    assert_int_not_equal(output_open(&o, 0, 1000, &err), ERR_OK);
}

static void output_without_enough_space_says_how_much_is_missing(void **state)
{
    struct output o = output_in(scratch);
    struct err err = {0};

    (void)state;
    assert_int_equal(output_open(&o, 0, (int64_t)1 << 60, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, "MiB are free, 1154487209180 MiB are needed"));
}

static void output_of_a_stage_knows_the_folder_of_the_leader(void **state)
{
    char folder[PATH_MAX];
    struct output o = output_in(folder);
    struct err err = {0};

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", scratch_path("claimed"));
    assert_int_equal(output_open(&o, 1, 1000, NULL), ERR_OK);
    assert_int_equal(output_find_claim(&o, &err), ERR_AGAIN);
    assert_non_null(strstr(err.text, "is not the one that stage 0 writes to"));
    assert_int_equal(output_open(&o, 0, 1000, NULL), ERR_OK);
    assert_int_equal(output_find_claim(&o, NULL), ERR_OK);
    o.revision++;
    assert_int_equal(output_open(&o, 1, 1000, NULL), ERR_OK);
    assert_int_equal(output_find_claim(&o, NULL), ERR_AGAIN); /* it is an earlier revision's */
}

/* --- publishing --- */

static void in_folder(const char *folder, const char *file, char out[static PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%.2000s/%s", folder, file);
}

static void write_in(const char *folder, const char *file, const char *text)
{
    char path[PATH_MAX];

    in_folder(folder, file, path);
    assert_int_equal(file_write(path, text, strlen(text), NULL), ERR_OK);
}

/* The file's text, "" when it is not there. */
static const char *text_of(const char *folder, const char *file)
{
    static char text[64];
    struct buf got = {.max = sizeof text - 1};
    char path[PATH_MAX];

    in_folder(folder, file, path);
    if (file_read(path, &got, NULL) != ERR_OK)
        got.len = 0;
    (void)snprintf(text, sizeof text, "%s", got.len > 0 ? buf_text(&got) : "");
    buf_deinit(&got);
    return text;
}

static bool has(const char *folder, const char *file)
{
    char path[PATH_MAX];

    in_folder(folder, file, path);
    return exists(path);
}

static const char *const once[] = {"config.json", "vocab.txt", "MNLI-m.tsv"};
#define N_ONCE (sizeof once / sizeof once[0])

/* What a run of `n_stages` leaves: files that contain only its name. The index also has the number
 * of shards. */
static void write_run(const struct output *o, const char *run, int n_stages)
{
    char text[64];
    char shard[EXPORT_SHARD_BYTES];

    make_aside(o);
    for (size_t i = 0; i < N_ONCE; i++)
        write_in(o->aside, once[i], run);
    for (int s = 0; s < n_stages; s++) {
        export_shard_name(s, n_stages, shard);
        write_in(o->aside, shard, run);
    }
    (void)snprintf(text, sizeof text, "%s %d", run, n_stages);
    if (n_stages > 1)
        write_in(o->aside, EXPORT_INDEX_FILE, text);
}

/* All of it, and the model, are of that run. */
static void check_run(const char *folder, const char *run, int n_stages)
{
    char shard[EXPORT_SHARD_BYTES];

    for (size_t i = 0; i < N_ONCE; i++)
        assert_string_equal(text_of(folder, once[i]), run);
    for (int s = 0; s < n_stages; s++) {
        export_shard_name(s, n_stages, shard);
        assert_string_equal(text_of(folder, shard), run);
    }
}

/* If there is a model at all, it is that of one run, with that run's other files. */
static void check_no_mixture(const char *folder)
{
    char run[32] = "";
    int n_stages = 0;

    if (has(folder, EXPORT_WHOLE_FILE)) {
        (void)snprintf(run, sizeof run, "%.31s", text_of(folder, EXPORT_WHOLE_FILE));
        check_run(folder, run, 1);
        assert_false(has(folder, EXPORT_INDEX_FILE));
    } else if (has(folder, EXPORT_INDEX_FILE)) {
        assert_int_equal(sscanf(text_of(folder, EXPORT_INDEX_FILE), "%31s %d", run, &n_stages), 2);
        check_run(folder, run, n_stages);
    }
}

static void open_revision(struct output *o, const char *folder, const char *uid, int revision)
{
    struct err err = {0};

    *o = (struct output){.folder = folder, .uid = uid, .revision = revision};
    if (output_open(o, 0, 1000, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

static void publish_run(const char *folder, const char *uid, int revision, const char *run,
                        int n_stages)
{
    struct output o;
    struct err err = {0};

    open_revision(&o, folder, uid, revision);
    write_run(&o, run, n_stages);
    if (output_publish(&o, n_stages, &err) != ERR_OK)
        fail_msg("%s", err.text);
    assert_false(exists(o.aside));
    check_run(folder, run, n_stages);
    check_no_mixture(folder);
}

static void remove_all(const char *folder)
{
    char command[PATH_MAX + 16];

    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* Publish a run of `n_new` stages over one of `n_old` and stop after `n_operations`; true when that
 * was not enough. */
static bool stop_after(int n_operations, int n_old, int n_new)
{
    char folder[PATH_MAX];
    struct output o;
    enum err_code rc;

    (void)snprintf(folder, sizeof folder, "%s", scratch_path("stopped"));
    publish_run(folder, "an old job", 1, "old", n_old);
    open_revision(&o, folder, UID, 1);
    write_run(&o, "new", n_new);
    n_operations_left = n_operations;
    rc = output_publish(&o, n_new, NULL);
    n_operations_left = -1;
    check_no_mixture(folder);
    if (rc != ERR_OK && n_operations % 2 == 0) { /* it goes on itself ... */
        assert_int_equal(output_publish(&o, n_new, NULL), ERR_OK);
        check_run(folder, "new", n_new);
        check_no_mixture(folder);
    }
    publish_run(folder, UID, 2, "next", n_old + 1); /* ... or another revision repairs it */
    if (n_old + 1 != 3)
        assert_false(has(folder, "model-00001-of-00003.safetensors"));
    remove_all(folder);
    return rc != ERR_OK;
}

static void output_is_never_a_mixture_wherever_publishing_stops(void **state)
{
    static const int stages[] = {1, 2, 3};

    (void)state;
    for (int old = 0; old < 3; old++)
        for (int next = 0; next < 3; next++) {
            int n = 0;

            while (stop_after(n, stages[old], stages[next]))
                n++;
            assert_true(n > 5);
        }
}

static void output_of_fewer_stages_leaves_no_old_shards(void **state)
{
    char folder[PATH_MAX];

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", scratch_path("fewer"));
    publish_run(folder, UID, 1, "three", 3);
    write_in(folder, "model-00001-of-00003.safetensors.bak", "the user's");
    publish_run(folder, UID, 2, "two", 2);
    assert_false(has(folder, "model-00003-of-00003.safetensors"));
    assert_true(has(folder, "model-00002-of-00002.safetensors"));
    publish_run(folder, UID, 3, "one", 1);
    assert_false(has(folder, "model-00002-of-00002.safetensors"));
    assert_false(has(folder, EXPORT_INDEX_FILE));
    assert_true(has(folder, "model-00001-of-00003.safetensors.bak"));
}

static void output_is_not_published_when_a_file_of_the_model_is_missing(void **state)
{
    char folder[PATH_MAX];
    char path[PATH_MAX];
    struct output o;
    struct err err = {0};

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", scratch_path("missing"));
    publish_run(folder, UID, 1, "old", 3);
    open_revision(&o, folder, UID, 2);
    write_run(&o, "new", 3);
    in_folder(o.aside, "model-00002-of-00003.safetensors", path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(output_publish(&o, 3, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "model-00002-of-00003.safetensors"));
    check_run(folder, "old", 3);
}

static void output_is_published_only_by_the_current_revision(void **state)
{
    char folder[PATH_MAX];
    struct output stale, o = output_in(folder);
    struct err err = {0};

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", scratch_path("fenced"));
    open_revision(&stale, folder, UID, 1);
    publish_run(folder, UID, 2, "second", 2);
    write_run(&stale, "first", 2); /* its worker has not noticed */
    assert_int_equal(output_publish(&stale, 2, &err), ERR_CONFLICT);
    assert_non_null(strstr(err.text, "revision 2 of this job has taken over"));
    check_run(folder, "second", 2);

    o.revision = 1; /* nor may it begin */
    assert_int_equal(output_open(&o, 0, 1000, &err), ERR_CONFLICT);

    open_revision(&stale, folder, UID, 3);
    write_run(&stale, "third", 2);
    publish_run(folder, "another job", 1, "other", 1);
    assert_int_equal(output_publish(&stale, 2, &err), ERR_CONFLICT);
    assert_non_null(strstr(err.text, "another job (another job) now uses output folder"));
    check_run(folder, "other", 1);
    assert_true(exists(stale.aside)); /* its model is not lost */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_is_checked_without_leaving_anything),
        cmocka_unit_test(output_removes_what_earlier_revisions_of_the_job_left),
        cmocka_unit_test(output_that_cannot_be_written_says_what_to_do),
        cmocka_unit_test(output_without_enough_space_says_how_much_is_missing),
        cmocka_unit_test(output_of_a_stage_knows_the_folder_of_the_leader),
        cmocka_unit_test(output_is_never_a_mixture_wherever_publishing_stops),
        cmocka_unit_test(output_of_fewer_stages_leaves_no_old_shards),
        cmocka_unit_test(output_is_not_published_when_a_file_of_the_model_is_missing),
        cmocka_unit_test(output_is_published_only_by_the_current_revision),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
