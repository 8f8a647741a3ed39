/* A job takes over the checkpoints of another one: which, from where, and how they get there. */
#include "files/adopt.h"

#include <errno.h>
#include <sys/stat.h>

#include "checkpoints.h"
#include "scratch.h"

#define SLOT  3
#define SHARD "model-00002-of-00002.safetensors"

static bool has_links = true;
static const char *first_shard; /* must be there before a manifest is */

int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);

int __wrap_link(const char *from, const char *to)
{
    if (first_shard && store_is_manifest(strrchr(to, '/') + 1))
        assert_int_equal(access(first_shard, F_OK), 0);
    if (has_links)
        return __real_link(from, to);
    errno = EPERM;
    return -1;
}

static struct store make_store(const char *name)
{
    struct store s;
    struct err err = {.text = ""};

    if (store_open(&s, scratch_path(name), &err) != ERR_OK)
        fail_msg("%s", err.text);
    return s;
}

/* Two stores for each test: of the other job and of this one. */
static void make_stores(struct store *other, struct store *own)
{
    static int n;
    char name[48];

    (void)snprintf(name, sizeof name, "volume-%d/other-11111", ++n);
    *other = make_store(name);
    (void)snprintf(name, sizeof name, "volume-%d/own-22222", n);
    *own = make_store(name);
}

static struct spec spec_with(int batch_size)
{
    struct spec spec = {.model = tiny_model,
                        .data = {.task = "MNLI"},
                        .training = {.batch_size = batch_size, .optimizer = SPEC_OPTIMIZER_ADAMW}};

    return spec;
}

static struct store_point write_point(const struct store *s, int64_t step)
{
    const struct spec spec = spec_with(8);
    struct store_point point = checkpoints_point(1, step);

    identity_of(&spec, &point.identity);
    checkpoints_write(s, &point, &two, true);
    return point;
}

static enum err_code adopt_as(const struct spec *spec, const struct store *own,
                              const struct store *other, struct err *err)
{
    struct adopt_source from = {.remote = NULL};

    memcpy(from.place, other->folder, sizeof from.place);
    *err = (struct err){.text = ""};
    return adopt_checkpoints(own, &from, spec, SLOT, err);
}

static enum err_code adopt(const struct store *own, const struct store *other, struct err *err)
{
    const struct spec spec = spec_with(8);

    return adopt_as(&spec, own, other, err);
}

static void assert_adopted(const struct store *own, const struct store_point *point)
{
    struct err err = {.text = ""};

    if (checkpoints_read(own, &point->at, true, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

/* Write over a byte in the middle of the second shard's header. */
static void damage(const struct store *s, const struct store_point *point)
{
    char folder[PATH_MAX], path[PATH_MAX];
    FILE *file;

    assert_int_equal(store_folder(s, &point->at, folder, NULL), ERR_OK);
    assert_int_equal(folder_path(folder, SHARD, path, NULL), ERR_OK);
    file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 40, SEEK_SET), 0);
    assert_int_equal(fputc('~', file), '~');
    assert_int_equal(fclose(file), 0);
}

static void adopt_takes_all_complete_checkpoints_as_links(void **state)
{
    struct store_point points[2], list[4];
    struct stat a, b;
    struct store other, own;
    char folder[PATH_MAX], shard[PATH_MAX];
    struct err err;

    (void)state;
    make_stores(&other, &own);
    points[0] = write_point(&other, 10);
    points[1] = write_point(&other, 20);
    assert_int_equal(store_folder(&own, &points[1].at, folder, NULL), ERR_OK);
    assert_int_equal(folder_path(folder, SHARD, shard, NULL), ERR_OK);
    if (adopt(&own, &other, &err) != ERR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(store_list(&own, list, 4), 2);
    assert_int_equal(list[0].at.end.step, 20);
    assert_int_equal(stat(shard, &b), 0);
    assert_int_equal(b.st_nlink, 2);
    /* The other job removes its own. */
    assert_int_equal(store_folder(&other, &points[1].at, folder, NULL), ERR_OK);
    assert_int_equal(folder_remove(folder, NULL), ERR_OK);
    assert_int_equal(stat(shard, &a), 0);
    assert_int_equal(a.st_nlink, 1);
    assert_adopted(&own, &points[0]);
    assert_adopted(&own, &points[1]);
}

static void adopt_makes_a_checkpoint_complete_last(void **state)
{
    struct store_point point;
    struct store other, own;
    char folder[PATH_MAX], shard[PATH_MAX];
    struct err err;

    (void)state;
    make_stores(&other, &own);
    point = write_point(&other, 10);
    assert_int_equal(store_folder(&own, &point.at, folder, NULL), ERR_OK);
    assert_int_equal(folder_path(folder, SHARD, shard, NULL), ERR_OK);
    first_shard = shard;
    assert_int_equal(adopt(&own, &other, &err), ERR_OK);
    first_shard = NULL;
    assert_adopted(&own, &point);
}

/* As some network file systems are; several workers may copy the same. */
static void adopt_copies_where_there_are_no_links(void **state)
{
    struct store_point point;
    struct store other, own;
    struct err err;

    (void)state;
    make_stores(&other, &own);
    point = write_point(&other, 10);
    has_links = false;
    assert_int_equal(adopt(&own, &other, &err), ERR_OK);
    has_links = true;
    assert_adopted(&own, &point);
    damage(&other, &point); /* which is another file by now */
    assert_adopted(&own, &point);
}

static void adopt_leaves_a_store_alone_that_has_a_checkpoint(void **state)
{
    struct store_point list[4], point;
    struct store other, own;
    struct err err;

    (void)state;
    make_stores(&other, &own);
    (void)write_point(&other, 20);
    point = write_point(&own, 10);
    assert_int_equal(adopt(&own, &other, &err), ERR_OK);
    assert_int_equal(store_list(&own, list, 4), 1);
    assert_adopted(&own, &point);
}

static void adopt_refuses_a_job_that_differs_and_names_the_fields(void **state)
{
    const struct spec spec = spec_with(16);
    struct store_point list[1];
    struct store other, own;
    struct err err;

    (void)state;
    make_stores(&other, &own);
    (void)write_point(&other, 10);
    assert_int_equal(adopt_as(&spec, &own, &other, &err), ERR_CONFLICT);
    assert_non_null(strstr(err.text, "spec.training.batchSize is 8 there and 16 here"));
    assert_int_equal(store_list(&own, list, 1), 0);
}

/* One of an earlier version does not have the fields. */
static void adopt_refuses_another_model_by_its_tensors(void **state)
{
    struct spec spec = spec_with(8);
    struct store_point point = checkpoints_point(1, 10);
    struct store other, own;
    struct err err;

    (void)state;
    make_stores(&other, &own);
    checkpoints_write(&other, &point, &two, true);
    assert_int_equal(adopt(&own, &other, &err), ERR_OK);
    spec.model.vocab++;
    make_stores(&other, &own);
    checkpoints_write(&other, &point, &two, true);
    assert_int_equal(adopt_as(&spec, &own, &other, &err), ERR_CONFLICT);
    assert_non_null(strstr(err.text, "the job's model has"));
}

static void adopt_leaves_damaged_checkpoints_out(void **state)
{
    struct store_point points[2], list[4];
    struct store other, own;
    struct err err;

    (void)state;
    make_stores(&other, &own);
    points[0] = write_point(&other, 10);
    points[1] = write_point(&other, 20);
    damage(&other, &points[1]);
    assert_int_equal(adopt(&own, &other, &err), ERR_OK);
    assert_int_equal(store_list(&own, list, 4), 1);
    assert_adopted(&own, &points[0]);
    damage(&other, &points[0]);
    make_stores(&other, &own);
    points[0] = write_point(&other, 10);
    damage(&other, &points[0]);
    assert_int_equal(adopt(&own, &other, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "has no complete checkpoint that can be used"));
}

/* It proved to be damaged when it was read: the job must not begin anew because of it. */
static void adopt_takes_nothing_twice_that_was_set_aside(void **state)
{
    struct store_point point;
    struct store other, own;
    struct err err;

    (void)state;
    make_stores(&other, &own);
    point = write_point(&other, 10);
    assert_int_equal(adopt(&own, &other, &err), ERR_OK);
    store_refuse(&own, &point.at);
    assert_int_equal(adopt(&own, &other, &err), ERR_NOT_FOUND);
    assert_adopted(&other, &point);
}

static void adopt_finds_a_folder_by_the_name_of_its_job(void **state)
{
    struct store other, own;
    struct adopt_source found;
    char path[PATH_MAX];
    struct err err;

    (void)state;
    make_stores(&other, &own);
    (void)write_point(&other, 10);
    assert_int_equal(adopt_find(other.folder, own.folder, &found, &err), ERR_OK);
    assert_string_equal(found.place, other.folder);
    (void)snprintf(path, sizeof path, "%.*s", (int)(strlen(other.folder) - strlen("-11111")),
                   other.folder);
    assert_int_equal(adopt_find(path, own.folder, &found, &err), ERR_OK);
    assert_string_equal(found.place, other.folder);
    (void)snprintf(path, sizeof path, "%.*s", (int)(strlen(other.folder) - strlen("er-11111")),
                   other.folder);
    assert_int_equal(adopt_find(path, own.folder, &found, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "has no checkpoints of a job oth"));
}

/* A job of the same name that was deleted is another one; what has no checkpoints is none. */
static void adopt_does_not_take_the_own_folder_for_another_one(void **state)
{
    struct store own = make_store("again/job-11111"), other = make_store("again/job-22222");
    struct store third = make_store("again/job-33333");
    struct adopt_source found;
    char path[PATH_MAX];
    struct err err;

    (void)state;
    (void)write_point(&own, 10);
    (void)write_point(&other, 10);
    (void)snprintf(path, sizeof path, "%s", scratch_path("again/job"));
    assert_int_equal(adopt_find(path, own.folder, &found, &err), ERR_OK);
    assert_string_equal(found.place, other.folder);
    assert_int_equal(adopt_find(own.folder, own.folder, &found, &err), ERR_INVALID);
    (void)write_point(&third, 10);
    assert_int_equal(adopt_find(path, own.folder, &found, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "of which one must be named: job-"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adopt_takes_all_complete_checkpoints_as_links),
        cmocka_unit_test(adopt_makes_a_checkpoint_complete_last),
        cmocka_unit_test(adopt_copies_where_there_are_no_links),
        cmocka_unit_test(adopt_leaves_a_store_alone_that_has_a_checkpoint),
        cmocka_unit_test(adopt_refuses_a_job_that_differs_and_names_the_fields),
        cmocka_unit_test(adopt_refuses_another_model_by_its_tensors),
        cmocka_unit_test(adopt_leaves_damaged_checkpoints_out),
        cmocka_unit_test(adopt_takes_nothing_twice_that_was_set_aside),
        cmocka_unit_test(adopt_finds_a_folder_by_the_name_of_its_job),
        cmocka_unit_test(adopt_does_not_take_the_own_folder_for_another_one),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
