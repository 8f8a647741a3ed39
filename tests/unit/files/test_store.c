/* Checkpoints: written and read back, cut into stages in different ways; then everything that may
 * be wrong with them. What a power cut leaves of them is in
 * test_store_faults.c. */
#include "files/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#include "base/log.h"
#include "checkpoints.h"
#include "files/pretrained.h"
#include "scratch.h"
#include "suite.h"

/* A store of its own for each test. */
static struct store make_store(void)
{
    static int n;
    struct store s;
    struct err err = {.text = ""};
    char name[32];

    (void)snprintf(name, sizeof name, "parent-%d/store", n++);
    if (store_open(&s, scratch_path(name), &err) != ERR_OK)
        fail_msg("%s", err.text);
    return s;
}

static void write_point(const struct store *s, int64_t lineage, int64_t step, const struct cut *cut)
{
    struct store_point point = checkpoints_point(lineage, step);

    checkpoints_write(s, &point, cut, true);
}

static void write_stage(const struct store *s, const struct store_point *point,
                        const struct cut *cut, int stage)
{
    struct err err = {.text = ""};

    if (checkpoints_write_stage(s, point, cut, stage, true, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

/* "2-30 2-20" */
static void check_list(const struct store *s, const char *want)
{
    struct store_point points[RESUME_POINTS_MAX];
    int n = store_list(s, points, RESUME_POINTS_MAX);
    char has[200] = "";

    for (int i = 0; i < n; i++)
        text_add(has, sizeof has, "%s%lld-%lld", i > 0 ? " " : "", (long long)points[i].at.lineage,
                 (long long)points[i].at.end.step);
    assert_string_equal(has, want);
}

static enum err_code read_point(const struct store *s, int64_t lineage, int64_t step,
                                struct err *err)
{
    struct store_point point = checkpoints_point(lineage, step);

    return checkpoints_read(s, &point.at, true, err);
}

/* Good until the next call. */
static const char *path_of(const struct store *s, const char *file)
{
    static char path[PATH_MAX];

    assert_int_equal(folder_path(s->folder, file, path, NULL), ERR_OK);
    return path;
}

static struct buf read_file(const char *path)
{
    struct buf bytes = {.max = 1 << 20};

    assert_int_equal(file_read(path, &bytes, NULL), ERR_OK);
    return bytes;
}

/* --- there and back --- */

static struct trip {
    const char *name;
    const struct cut *cut;
    bool has_variance;
} trips[] = {
    {"store_reads_back_adamw_of_one_stage", &whole, true},
    {"store_reads_back_adamw_of_three_stages", &three, true},
    {"store_reads_back_sgd_of_one_stage", &whole, false},
    {"store_reads_back_sgd_of_three_stages", &three, false},
};

static void read_back(void **state)
{
    const struct trip *trip = *state;
    struct store s = make_store();
    struct store_point point = checkpoints_point(2, 40);
    struct store_point found[2];
    struct err err = {.text = ""};

    point.at.evaluated = 30;
    point.origins = (struct resume_origins){.n = 1, .list = {{.lineage = 1, .step = 20}}};
    checkpoints_write(&s, &point, trip->cut, trip->has_variance);
    assert_int_equal(store_list(&s, found, 2), 1);
    assert_int_equal(found[0].at.lineage, 2);
    assert_int_equal(found[0].at.evaluated, 30);
    assert_int_equal(found[0].at.end.revision, point.at.end.revision);
    assert_int_equal(found[0].at.end.step, 40);
    assert_int_equal(found[0].at.end.outcome, STEP_SKIP);
    assert_true(found[0].at.end.scale == point.at.end.scale);
    assert_true(found[0].at.end.rate == point.at.end.rate);
    assert_int_equal(found[0].at.end.updates, point.at.end.updates);
    assert_true(isnan(found[0].at.end.loss));
    assert_int_equal(found[0].origins.n, 1);
    assert_int_equal(found[0].origins.list[0].lineage, 1);
    assert_int_equal(found[0].origins.list[0].step, 20);
    if (checkpoints_read(&s, &found[0].at, trip->has_variance, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

static void store_writes_what_from_pretrained_loads(void **state)
{
    const struct cut *cuts[] = {&whole, &three};

    (void)state;
    for (int c = 0; c < 2; c++) {
        struct store s = make_store();
        struct store_point point = checkpoints_point(1, 20);
        struct pretrained_missing missing;
        struct pretrained *p;
        struct buf index;

        checkpoints_write(&s, &point, cuts[c], true);
        assert_int_equal(pretrained_open(path_of(&s, "1-20"), NULL, &p, NULL), ERR_OK);
        assert_int_equal(pretrained_check(p, &tiny_model, NULL), ERR_OK);
        for (int unit = 0; unit < TINY_UNITS; unit++) {
            float params[TINY_FLOATS_MAX];

            assert_int_equal(pretrained_load_unit(p, &tiny_model, unit, params, &missing, NULL),
                             ERR_OK);
            assert_int_equal(missing.n_tensors, 0);
            for (size_t i = 0; i < model_unit_params(&tiny_model, unit); i++)
                assert_true(params[i] == checkpoints_float(&point.at, unit, 0, i));
        }
        pretrained_close(p);
        if (cuts[c]->n_stages == 1)
            continue;
        index = read_file(path_of(&s, "1-20/" EXPORT_INDEX_FILE));
        assert_non_null(strstr(buf_text(&index), "classifier.weight"));
        assert_null(strstr(buf_text(&index), "optimizer"));
        buf_deinit(&index);
    }
}

static void store_writes_every_float_once_in_order(void **state)
{
    struct store s = make_store();
    struct store_point point = checkpoints_point(1, 20);
    struct safetensors *shard;
    const char *last = NULL;

    (void)state;
    checkpoints_write(&s, &point, &whole, true);
    assert_int_equal(safetensors_open(path_of(&s, "1-20/model.safetensors"), &shard, NULL), ERR_OK);
    for (int i = 0; i < shard->n; i++) {
        if (strcmp(shard->tensors[i].name, "optimizer.moment.unit-00003") == 0) {
            assert_string_equal(last, "bert.pooler.dense.bias");
            assert_string_equal(shard->tensors[i + 1].name, "optimizer.variance.unit-00003");
            assert_int_equal(shard->tensors[i].n_dims, 1);
            assert_int_equal(shard->tensors[i].dims[0], 2 * 2 + 2);
        }
        last = shard->tensors[i].name;
    }
    assert_string_equal(last, "optimizer.variance.unit-00004");
    safetensors_close(shard);
}

static void store_wants_exactly_the_floats_of_its_units(void **state)
{
    struct store s = make_store();
    struct store_point point = checkpoints_point(1, 20);
    struct export_params params = checkpoints_params(&whole);
    struct store_writer *w;
    float floats[1000] = {0};

    (void)state;
    assert_int_equal(store_begin(&s, &point, &params, 0, true, &w, NULL), ERR_OK);
    assert_int_equal(store_put(w, floats, 1000, NULL), ERR_INVALID);
    assert_int_equal(store_put(w, floats, 10, NULL), ERR_OK);
    assert_int_equal(checkpoints_finish(w, &point.at, 0, NULL), ERR_INVALID);
    check_list(&s, "");
    assert_int_equal(store_begin(&s, &point, &params, 0, true, &w, NULL), ERR_OK);
    store_abandon(w);
    store_abandon(NULL);
    check_list(&s, "");
    assert_int_equal(read_point(&s, 1, 20, NULL), ERR_NOT_FOUND);
    write_point(&s, 1, 20, &whole);
    check_list(&s, "1-20");
}

static void store_takes_no_new_shard_for_that_of_the_old_manifest(void **state)
{
    struct store s = make_store();
    struct store_point point = checkpoints_point(1, 20);
    struct export_params params = checkpoints_params(&two);
    struct store_writer *w;

    (void)state;
    write_point(&s, 1, 20, &two);
    assert_int_equal(store_begin(&s, &point, &params, 1, true, &w, NULL), ERR_OK);
    check_list(&s, "");
    store_abandon(w);
    check_list(&s, "");
    write_stage(&s, &point, &two, 1);
    check_list(&s, "1-20");
}

static void store_of_a_job_is_made_with_its_parent_only(void **state)
{
    struct store s;

    (void)state;
    assert_int_equal(store_open(&s, scratch_path("one/job"), NULL), ERR_OK);
    assert_int_equal(store_open(&s, scratch_path("one/job"), NULL), ERR_OK);
    assert_string_equal(s.folder, scratch_path("one/job"));
    assert_int_equal(access(s.folder, F_OK), 0);
    assert_int_equal(store_open(&s, scratch_path("not/one/job"), NULL), ERR_NOT_FOUND);
    scratch_text("file", "x");
    assert_int_equal(store_open(&s, scratch_path("file/job"), NULL), ERR_NOT_FOUND);
    assert_string_equal(s.folder, scratch_path("one/job"));
}

/* --- what is listed --- */

static void store_lists_the_newest_lineage_and_step_first(void **state)
{
    struct store s = make_store();
    struct store_point points[2];

    (void)state;
    check_list(&s, "");
    write_point(&s, 1, 100, &whole);
    write_point(&s, 2, 20, &three);
    write_point(&s, 1, 9, &two);
    write_point(&s, 2, 110, &whole);
    check_list(&s, "2-110 2-20 1-100 1-9");
    assert_int_equal(store_list(&s, points, 2), 2);
    assert_int_equal(points[1].at.end.step, 20);
}

static void store_ignores_other_names(void **state)
{
    static const char *const names[] = {"x",
                                        "1",
                                        "1-",
                                        "-1-20",
                                        "01-20",
                                        "1-020",
                                        "1-20.refused",
                                        "1-20.part",
                                        "1- 20",
                                        "1-+20",
                                        "0-20",
                                        "1-0",
                                        "1-20-3",
                                        "1-99999999999999999999",
                                        "history.jsonl"};
    struct store s = make_store();

    (void)state;
    write_point(&s, 1, 20, &whole);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char whole_path[PATH_MAX];

        (void)snprintf(whole_path, sizeof whole_path, "%s/%s", s.folder, "1-20");
        assert_int_equal(rename(whole_path, path_of(&s, names[i])), 0);
        check_list(&s, "");
        assert_int_equal(rename(path_of(&s, names[i]), whole_path), 0);
    }
    assert_int_equal(file_write(path_of(&s, "1-30"), "x", 1, NULL), ERR_OK); /* no folder */
    check_list(&s, "1-20");
}

static void store_does_not_list_what_lacks_a_file(void **state)
{
    static const char *const files[] = {"model-00001-of-00003.json",
                                        "model-00002-of-00003.json",
                                        "model-00003-of-00003.json",
                                        "model-00001-of-00003.safetensors",
                                        "model-00003-of-00003.safetensors",
                                        "history.jsonl",
                                        "progress.json"};

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct store s = make_store();
        char file[64];

        write_point(&s, 1, 10, &whole);
        write_point(&s, 1, 20, &three);
        (void)snprintf(file, sizeof file, "1-20/%s", files[i]);
        assert_int_equal(unlink(path_of(&s, file)), 0);
        check_list(&s, "1-10");
        assert_int_equal(read_point(&s, 1, 20, NULL), ERR_NOT_FOUND);
        assert_int_equal(read_point(&s, 1, 10, NULL), ERR_OK);
    }
}

static void store_does_not_list_what_has_another_size(void **state)
{
    static const char *const files[] = {"model-00001-of-00003.json",
                                        "model-00002-of-00003.safetensors", "history.jsonl",
                                        "progress.json"};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof files / sizeof *files; i++) {
        struct store s = make_store();
        struct err err = {.text = ""};
        struct stat st;
        char file[64];

        write_point(&s, 1, 20, &three);
        (void)snprintf(file, sizeof file, "1-20/%s", files[i / 2]);
        assert_int_equal(stat(path_of(&s, file), &st), 0);
        assert_int_equal(truncate(path_of(&s, file), st.st_size + (i % 2 ? 1 : -1)), 0);
        check_list(&s, "");
        assert_int_equal(read_point(&s, 1, 20, &err), ERR_INVALID);
        assert_non_null(strstr(err.text, files[i / 2]));
    }
}

static void store_makes_no_checkpoint_of_different_cuts(void **state)
{
    struct store s = make_store();
    struct store_point point = checkpoints_point(1, 20);

    (void)state;
    write_stage(&s, &point, &three, 0);
    write_stage(&s, &point, &three, 1);
    write_stage(&s, &point, &two, 1);
    check_list(&s, "");
    assert_int_equal(read_point(&s, 1, 20, NULL), ERR_NOT_FOUND);
    write_stage(&s, &point, &two, 0);
    check_list(&s, "1-20");
    assert_int_equal(read_point(&s, 1, 20, NULL), ERR_OK);
}

static void store_makes_no_checkpoint_of_units_that_do_not_follow(void **state)
{
    static const struct cut hole = {.n_stages = 2,
                                    .stages = {{.n_units = 2}, {.first_unit = 3, .n_units = 2}}};
    static const struct cut overlap = {.n_stages = 2,
                                       .stages = {{.n_units = 3}, {.first_unit = 2, .n_units = 3}}};
    struct store s = make_store();

    (void)state;
    write_point(&s, 1, 20, &hole);
    write_point(&s, 1, 30, &overlap);
    check_list(&s, "");
    assert_int_equal(read_point(&s, 1, 20, NULL), ERR_INVALID);
    assert_int_equal(read_point(&s, 1, 30, NULL), ERR_INVALID);
}

static void store_makes_no_checkpoint_of_different_points(void **state)
{
    struct store_point a = checkpoints_point(1, 20);
    struct store_point others[] = {a, a, a, a};
    char from[PATH_MAX];

    (void)state;
    others[0].at.evaluated = 10;
    others[1].at.end.rate *= 2;
    others[2].at.end.revision++;
    for (int i = 0; i < 3; i++) {
        struct store s = make_store();

        write_stage(&s, &a, &two, 0);
        write_stage(&s, &others[i], &two, 1);
        check_list(&s, "");
        assert_int_equal(read_point(&s, 1, 20, NULL), ERR_INVALID);
        write_stage(&s, &a, &two, 1);
        check_list(&s, "1-20");
        /* Nor is it another one by another name. */
        (void)snprintf(from, sizeof from, "%s", path_of(&s, "1-20"));
        assert_int_equal(rename(from, path_of(&s, "1-30")), 0);
        check_list(&s, "");
        assert_int_equal(read_point(&s, 1, 30, NULL), ERR_INVALID);
    }
}

/* --- damage --- */

static struct damage {
    const char *name;
    const char *file;
} damages[] = {
    {"store_finds_any_bit_that_flips_in_the_leaders_manifest", "model-00001-of-00003.json"},
    {"store_finds_any_bit_that_flips_in_another_manifest", "model-00003-of-00003.json"},
    {"store_finds_any_bit_that_flips_in_the_first_shard", "model-00001-of-00003.safetensors"},
    {"store_finds_any_bit_that_flips_in_the_last_shard", "model-00003-of-00003.safetensors"},
    {"store_finds_any_bit_that_flips_in_the_history", "history.jsonl"},
    {"store_finds_any_bit_that_flips_in_the_progress", "progress.json"},
};

static void flip(void **state)
{
    const struct damage *damage = *state;
    struct store s = make_store();
    char file[64];
    struct buf bytes;
    int fd;

    write_point(&s, 1, 20, &three);
    (void)snprintf(file, sizeof file, "1-20/%s", damage->file);
    bytes = read_file(path_of(&s, file));
    fd = open(path_of(&s, file), O_WRONLY);
    assert_true(fd >= 0);
    for (size_t i = 0; i < bytes.len; i++) {
        char bad = (char)(bytes.data[i] ^ 1 << i % 8);
        struct err err = {.text = ""};

        assert_int_equal(pwrite(fd, &bad, 1, (off_t)i), 1);
        if (read_point(&s, 1, 20, &err) != ERR_INVALID)
            fail_msg("%s, byte %zu: code %d, %s", damage->file, i, err.code, err.text);
        assert_non_null(strstr(err.text, "1-20"));
        assert_int_equal(pwrite(fd, &bytes.data[i], 1, (off_t)i), 1);
    }
    assert_int_equal(read_point(&s, 1, 20, NULL), ERR_OK);
    assert_int_equal(close(fd), 0);
    buf_deinit(&bytes);
}

static void store_refuses_numbers_that_are_not_finite(void **state)
{
    struct store s = make_store();
    struct store_point point = checkpoints_point(1, 20);
    struct export_params params = checkpoints_params(&whole);
    float floats[2][TINY_FLOATS_MAX];
    struct store_reader *r;
    struct store_writer *w;
    struct err err = {.text = ""};
    const float bad = NAN;

    (void)state;
    assert_int_equal(store_begin(&s, &point, &params, 0, false, &w, NULL), ERR_OK);
    assert_int_equal(checkpoints_put(w, &point.at, 0, TINY_UNITS - 1, false, NULL), ERR_OK);
    for (size_t i = 0; i < 2 * model_unit_params(&tiny_model, TINY_UNITS - 1); i++)
        assert_int_equal(store_put(w, &bad, 1, NULL), ERR_OK);
    assert_int_equal(checkpoints_finish(w, &point.at, 0, NULL), ERR_OK);
    assert_int_equal(store_read(&s, &point.at, &tiny_model, false, &r, NULL), ERR_OK);
    assert_int_equal(store_read_unit(r, 0, floats[0], floats[1], NULL, NULL), ERR_OK);
    assert_int_equal(store_read_unit(r, TINY_UNITS - 1, floats[0], floats[1], NULL, &err),
                     ERR_INVALID);
    assert_non_null(strstr(err.text, "NaN"));
    store_close(r);
}

/* --- another model --- */

static struct stranger {
    const char *name;
    struct model model;
    const char *says;
} strangers[] = {
    {"store_refuses_a_checkpoint_of_fewer_layers",
     {.vocab = 7, .hidden = 2, .layers = 2, .heads = 1, .ffn = 3, .positions = 4, .labels = 2},
     "has 5 units, the job's model has 7"},
    {"store_refuses_a_checkpoint_of_another_vocabulary",
     {.vocab = 8, .hidden = 2, .layers = 1, .heads = 1, .ffn = 3, .positions = 4, .labels = 2},
     "is F32 [7, 2], the job's model has F32 [8, 2]"},
    {"store_refuses_a_checkpoint_of_other_labels",
     {.vocab = 7, .hidden = 2, .layers = 1, .heads = 1, .ffn = 3, .positions = 4, .labels = 3},
     "tensor \"classifier.weight\" is F32 [2, 2], the job's model has F32 [3, 2]"},
    {"store_refuses_a_checkpoint_of_another_head",
     {.head = MODEL_HEAD_PRETRAINING,
      .vocab = 7,
      .hidden = 2,
      .layers = 1,
      .heads = 1,
      .ffn = 3,
      .positions = 4},
     "has 5 units, the job's model has 4"},
};

static void refuse_stranger(void **state)
{
    const struct stranger *stranger = *state;
    struct store s = make_store();
    struct store_point point = checkpoints_point(1, 20);
    struct err err = {.text = ""};
    struct store_reader *r;

    write_point(&s, 1, 20, &three);
    assert_int_equal(store_read(&s, &point.at, &stranger->model, true, &r, &err), ERR_CONFLICT);
    if (!strstr(err.text, stranger->says) || !strstr(err.text, "a checkpoint folder of its own"))
        fail_msg("%s", err.text);
}

static void store_refuses_a_checkpoint_of_another_optimizer(void **state)
{
    struct store_point point = checkpoints_point(1, 20);
    struct store_reader *r;

    (void)state;
    for (int has_variance = 0; has_variance < 2; has_variance++) {
        struct store s = make_store();
        struct err err = {.text = ""};

        checkpoints_write(&s, &point, &two, has_variance);
        assert_int_equal(store_read(&s, &point.at, &tiny_model, !has_variance, &r, &err),
                         ERR_CONFLICT);
        assert_non_null(
            strstr(err.text, has_variance ? "a checkpoint of AdamW" : "a checkpoint of SGD"));
    }
}

/* --- what is removed --- */

/* All names in the store, each with "-" behind it when there is no manifest. */
static void check_folders(const struct store *s, const char *want)
{
    struct dirent **entries;
    int n = scandir(s->folder, &entries, NULL, alphasort);
    char has[200] = "";

    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.')
            text_add(has, sizeof has, "%s%s", has[0] ? " " : "", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    assert_string_equal(has, want);
}

static struct cleaning {
    const char *name;
    const char *has; /* by lineage and step; 'i' behind it: a stage is missing, 'b': it names 1-10
                        as the best */
    struct resume at;
    int keep;
    const char *left; /* as a folder lists them */
} cleanings[] = {
    {"store_clean_keeps_the_newest", "1-10 1-20 1-30 1-40", {.lineage = 1}, 2, "1-30 1-40"},
    {"store_clean_keeps_all_when_there_are_fewer", "1-10 1-20", {.lineage = 1}, 3, "1-10 1-20"},
    {"store_clean_counts_complete_ones_only",
     "1-10 1-20 1-30i 1-40",
     {.lineage = 1},
     2,
     "1-20 1-40"},
    {"store_clean_leaves_one_that_is_being_written",
     "1-10 1-20 1-30i",
     {.lineage = 1},
     1,
     "1-20 1-30"},
    {"store_clean_removes_nothing_before_one_is_complete",
     "1-10i 1-20i",
     {.lineage = 1},
     1,
     "1-10 1-20"},
    {"store_clean_keeps_what_an_older_lineage_left_to_this_one",
     "1-10 1-20 2-30",
     {.lineage = 2, .origins = {.n = 1, .list = {{.lineage = 1, .step = 20}}}},
     2,
     "1-20 2-30"},
    {"store_clean_removes_what_was_rolled_back_and_keeps_what_it_was_rolled_back_to",
     "1-10 1-20 1-30 1-40i 2-30i",
     {.lineage = 2, .origins = {.n = 1, .list = {{.lineage = 1, .step = 20}}}},
     1,
     "1-20 2-30"},
    {"store_clean_removes_nothing_when_only_others_are_complete",
     "1-10 1-20 2-10i",
     {.lineage = 2},
     1,
     "1-10 1-20 2-10"},
    {"store_clean_leaves_the_checkpoints_of_a_newer_lineage",
     "1-10 1-20 2-15 2-25i",
     {.lineage = 1},
     1,
     "1-20 2-15 2-25"},
    {"store_clean_keeps_the_best_that_a_newest_one_names",
     "1-10 1-20b 1-30b 1-40",
     {.lineage = 1},
     2,
     "1-10 1-30 1-40"},
    {"store_clean_removes_a_best_that_no_newest_one_names",
     "1-10 1-20b 1-30 1-40",
     {.lineage = 1},
     2,
     "1-30 1-40"},
    {"store_clean_keeps_the_best_of_an_older_lineage",
     "1-10 1-20b 2-30b",
     {.lineage = 2, .origins = {.n = 1, .list = {{.lineage = 1, .step = 20}}}},
     1,
     "1-10 2-30"},
};

static void clean(void **state)
{
    const struct cleaning *row = *state;
    struct store s = make_store();
    const char *p = row->has;
    long long lineage;
    long long step;
    int n;

    for (; sscanf(p, "%lld-%lld%n", &lineage, &step, &n) == 2; p += n + (p[n] == ' ')) {
        struct store_point point = checkpoints_point(lineage, step);

        if (p[n] == 'b') {
            point.best = (struct resume_origin){1, 10};
            n++;
        }
        write_stage(&s, &point, &two, 0);
        if (p[n] == 'i')
            n++;
        else
            write_stage(&s, &point, &two, 1);
    }
    store_clean(&s, &row->at, row->keep);
    check_folders(&s, row->left);
    store_clean(&s, &row->at, row->keep);
    check_folders(&s, row->left);
}

static void store_clean_tries_again_what_could_not_be_removed(void **state)
{
    struct store s = make_store();
    struct resume at = {.lineage = 1};

    (void)state;
    write_point(&s, 1, 10, &whole);
    write_point(&s, 1, 20, &whole);
    assert_int_equal(mkdir(path_of(&s, "1-10/folder"), 0755), 0);
    store_clean(&s, &at, 1);
    check_folders(&s, "1-10 1-20");
    check_list(&s, "1-20");
    assert_int_equal(rmdir(path_of(&s, "1-10/folder")), 0);
    store_clean(&s, &at, 1);
    check_folders(&s, "1-20");
}

static void store_refuse_sets_a_checkpoint_aside(void **state)
{
    struct store s = make_store();
    struct store_point point = checkpoints_point(1, 20);
    struct resume at = {.lineage = 1};

    (void)state;
    write_point(&s, 1, 10, &two);
    write_point(&s, 1, 20, &two);
    store_refuse(&s, &point.at);
    check_list(&s, "1-10");
    check_folders(&s, "1-10 1-20.refused");
    store_refuse(&s, &point.at); /* so does another worker */
    check_folders(&s, "1-10 1-20.refused");
    write_point(&s, 1, 20, &three);
    check_list(&s, "1-20 1-10");
    store_refuse(&s, &point.at);
    check_folders(&s, "1-10 1-20.refused");
    assert_int_equal(access(path_of(&s, "1-20.refused/model-00002-of-00003.json"), F_OK), 0);
    assert_int_not_equal(access(path_of(&s, "1-20.refused/model-00002-of-00002.json"), F_OK), 0);
    store_clean(&s, &at, 1);
    check_folders(&s, "1-10 1-20.refused");
}

/* --- no place to write --- */

/* --- stores that are workers' own --- */

static struct store make_own(void)
{
    struct store s = make_store();

    assert_int_equal(store_open_own(&s, s.folder, NULL), ERR_OK);
    return s;
}

/* Copy the shard of a stage, the last `n_missing` files aside, in pieces of a few bytes. */
static enum err_code copy_shard(const struct store *from, const struct store *to,
                                const struct store_shard *shard, int n_missing, struct err *err)
{
    struct store_receiver *r = NULL;
    enum err_code rc = store_receive_begin(to, shard, &r, err);

    for (int file = 0; rc == ERR_OK && file < N_STORE_FILES - n_missing; file++) {
        char path[PATH_MAX];
        struct buf bytes;

        if (shard->stage > 0 && (file == STORE_HISTORY || file == STORE_PROGRESS))
            continue;
        assert_int_equal(store_file_path(from, shard, (enum store_file)file, path, NULL), ERR_OK);
        bytes = read_file(path);
        for (size_t at = 0; rc == ERR_OK && at < bytes.len; at += 100)
            rc = store_receive(r, (enum store_file)file, bytes.data + at,
                               bytes.len - at < 100 ? bytes.len - at : 100, err);
        buf_deinit(&bytes);
    }
    if (rc == ERR_OK)
        return store_receive_finish(r, err);
    store_receive_abandon(r);
    return rc;
}

static void check_parts(const struct store *s, int n, const struct resume_part *want)
{
    struct store_point found[2];

    assert_int_equal(store_list(s, found, 2), n > 0);
    for (int i = 0; i < n; i++) {
        assert_int_equal(found[0].at.n_parts, n);
        assert_int_equal(found[0].at.parts[i].first_unit, want[i].first_unit);
        assert_int_equal(found[0].at.parts[i].n_units, want[i].n_units);
    }
}

static void store_of_one_worker_lists_the_units_that_are_there(void **state)
{
    struct store s = make_own();
    struct store_point point = checkpoints_point(1, 20);
    float x[3][TINY_FLOATS_MAX];
    struct store_unit unit;
    struct store_reader *r;
    struct err err = {.text = ""};

    (void)state;
    write_stage(&s, &point, &three, 2);
    check_parts(&s, 1, (const struct resume_part[]){{3, 2}});
    assert_int_equal(store_read(&s, &point.at, &tiny_model, true, &r, NULL), ERR_OK);
    assert_int_equal(store_read_unit(r, 4, x[0], x[1], x[2], NULL), ERR_OK);
    assert_true(x[1][1] == checkpoints_float(&point.at, 4, 1, 1));
    assert_int_equal(store_read_unit(r, 2, x[0], x[1], x[2], &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "unit 2 is not there"));
    assert_int_equal(store_load_unit(r, 2, &unit, NULL), ERR_NOT_FOUND);
    assert_int_equal(store_load_unit(r, 4, &unit, NULL), ERR_OK);
    assert_int_equal(unit.bytes, 3 * model_unit_params(&tiny_model, 4) * sizeof(float));
    assert_true(unit.moment[1] == x[1][1]);
    assert_true(unit.variance[1] == x[2][1]);
    store_free_unit(&unit);
    store_close(r);
    write_stage(&s, &point, &three, 0);
    check_parts(&s, 2, (const struct resume_part[]){{0, 1}, {3, 2}});
    write_stage(&s, &point, &two, 0); /* of another cut */
    check_parts(&s, 2, (const struct resume_part[]){{0, 2}, {3, 2}});
}

static void store_receives_copies_that_read_like_the_original(void **state)
{
    struct store from = make_own();
    struct store to = make_own();
    struct store_point point = checkpoints_point(2, 40);
    struct err err = {.text = ""};

    (void)state;
    checkpoints_write(&from, &point, &three, true);
    for (int stage = 0; stage < 3; stage++)
        if (copy_shard(&from, &to, &(struct store_shard){2, 40, stage, 3}, 0, &err) != ERR_OK)
            fail_msg("%s", err.text);
    check_parts(&to, 1, (const struct resume_part[]){{0, TINY_UNITS}});
    if (checkpoints_read(&to, &point.at, true, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

static void store_receives_nothing_that_is_not_whole(void **state)
{
    struct store from = make_own();
    struct store to = make_own();
    struct store_point point = checkpoints_point(1, 20);
    struct store_point other = checkpoints_point(1, 30);
    struct store_shard shard = {1, 20, 0, 3};
    struct store_receiver *r;

    (void)state;
    checkpoints_write(&from, &point, &three, true);
    for (int n_missing = 1; n_missing <= N_STORE_FILES; n_missing++) {
        assert_int_equal(copy_shard(&from, &to, &shard, n_missing, NULL), ERR_INVALID);
        check_parts(&to, 0, NULL);
    }
    assert_int_equal(store_receive_begin(&to, &shard, &r, NULL), ERR_OK);
    assert_int_equal(store_receive(r, STORE_HISTORY, "a", 1, NULL), ERR_OK);
    assert_int_equal(store_receive(r, STORE_SHARD, "a", 1, NULL), ERR_INVALID);
    store_receive_abandon(r);
    shard.stage = 1;
    assert_int_equal(store_receive_begin(&to, &shard, &r, NULL), ERR_OK);
    assert_int_equal(store_receive(r, STORE_HISTORY, "a", 1, NULL), ERR_INVALID);
    store_receive_abandon(r);
    shard.stage = 3;
    assert_int_equal(store_receive_begin(&to, &shard, &r, NULL), ERR_INVALID);
    /* The files of one checkpoint under the name of another. */
    checkpoints_write(&from, &other, &three, true);
    assert_int_equal(
        rename(path_of(&from, "1-30/model-00002-of-00003.json"), scratch_path("other.json")), 0);
    assert_int_equal(
        rename(scratch_path("other.json"), path_of(&from, "1-20/model-00002-of-00003.json")), 0);
    shard.stage = 1;
    assert_int_equal(copy_shard(&from, &to, &shard, 0, NULL), ERR_INVALID);
    check_parts(&to, 0, NULL);
}

/* An earlier copy of the same shard does not count while the new one is incomplete. */
static void store_leaves_the_room_that_it_is_to_spare(void **state)
{
    struct store from = make_own();
    struct store to = make_own();
    struct store_point point = checkpoints_point(1, 20);
    struct store_shard shard = {1, 20, 0, 3};
    struct err err = {.text = ""};

    (void)state;
    checkpoints_write(&from, &point, &three, true);
    to.spare_percent = 100; /* of a disk that has something on it */
    assert_int_equal(copy_shard(&from, &to, &shard, 0, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, ": 100% of the disk must stay free, and "));
    check_parts(&to, 0, NULL);
    to.spare_percent = 0;
    assert_int_equal(copy_shard(&from, &to, &shard, 0, NULL), ERR_OK);
    check_parts(&to, 1, (const struct resume_part[]){{0, 1}});
}

static void store_receives_a_copy_again(void **state)
{
    struct store from = make_own();
    struct store to = make_own();
    struct store_point point = checkpoints_point(1, 20);
    struct store_shard shard = {1, 20, 1, 3};

    (void)state;
    checkpoints_write(&from, &point, &three, true);
    assert_int_equal(copy_shard(&from, &to, &shard, 0, NULL), ERR_OK);
    assert_int_equal(copy_shard(&from, &to, &shard, 1, NULL), ERR_INVALID);
    check_parts(&to, 0, NULL);
    assert_int_equal(copy_shard(&from, &to, &shard, 0, NULL), ERR_OK);
    check_parts(&to, 1, (const struct resume_part[]){{1, 2}});
}

static void store_of_one_worker_keeps_what_is_safe_and_little_else(void **state)
{
    struct store s = make_own();
    struct resume at = {.lineage = 1};

    (void)state;
    for (int64_t step = 10; step <= 70; step += 10) {
        struct store_point point = checkpoints_point(1, step);

        write_stage(&s, &point, &two, 1);
    }
    store_clean_own(&s, &at, 2, 0); /* nothing is known to be safe */
    check_folders(&s, "1-10 1-20 1-30 1-40 1-50 1-60 1-70");
    store_clean_own(&s, &at, 2, 40);
    check_folders(&s, "1-30 1-40 1-60 1-70");
    store_clean_own(&s, &at, 1, 60);
    check_folders(&s, "1-60 1-70");
}

static void store_says_where_it_cannot_write(void **state)
{
    struct store s = make_store();
    struct store_point point = checkpoints_point(1, 20);
    struct export_params params = checkpoints_params(&whole);
    struct store_writer *w;
    struct err err = {.text = ""};

    (void)state;
    assert_int_equal(rmdir(s.folder), 0);
    assert_int_equal(store_begin(&s, &point, &params, 0, true, &w, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, s.folder));
    check_list(&s, "");
    assert_int_equal(read_point(&s, 1, 20, NULL), ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(store_writes_what_from_pretrained_loads),
        cmocka_unit_test(store_writes_every_float_once_in_order),
        cmocka_unit_test(store_wants_exactly_the_floats_of_its_units),
        cmocka_unit_test(store_takes_no_new_shard_for_that_of_the_old_manifest),
        cmocka_unit_test(store_of_a_job_is_made_with_its_parent_only),
        cmocka_unit_test(store_lists_the_newest_lineage_and_step_first),
        cmocka_unit_test(store_ignores_other_names),
        cmocka_unit_test(store_does_not_list_what_lacks_a_file),
        cmocka_unit_test(store_does_not_list_what_has_another_size),
        cmocka_unit_test(store_makes_no_checkpoint_of_different_cuts),
        cmocka_unit_test(store_makes_no_checkpoint_of_units_that_do_not_follow),
        cmocka_unit_test(store_makes_no_checkpoint_of_different_points),
        cmocka_unit_test(store_refuses_numbers_that_are_not_finite),
        cmocka_unit_test(store_refuses_a_checkpoint_of_another_optimizer),
        cmocka_unit_test(store_clean_tries_again_what_could_not_be_removed),
        cmocka_unit_test(store_refuse_sets_a_checkpoint_aside),
        cmocka_unit_test(store_of_one_worker_lists_the_units_that_are_there),
        cmocka_unit_test(store_receives_copies_that_read_like_the_original),
        cmocka_unit_test(store_receives_nothing_that_is_not_whole),
        cmocka_unit_test(store_leaves_the_room_that_it_is_to_spare),
        cmocka_unit_test(store_receives_a_copy_again),
        cmocka_unit_test(store_of_one_worker_keeps_what_is_safe_and_little_else),
        cmocka_unit_test(store_says_where_it_cannot_write),
    };
    struct suite suite = {.n = 0};

    log_set_level(LOG_ERROR);
    SUITE_ROWS(&suite, trips, read_back);
    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, damages, flip);
    SUITE_ROWS(&suite, strangers, refuse_stranger);
    SUITE_ROWS(&suite, cleanings, clean);
    return suite_run(&suite, "store", scratch_make, scratch_remove);
}
