/* A job that changes course while it runs ends with the bits of one that does not: other cuts,
 * workers that come and go, a leader that changes, links that break at any message.
 *
 * The workers are processes with real links. Where a message is to fail before it is sent, they are
 * this program itself, which counts the calls of link_send() of all of them. */
/* FAULTS=all: what strikes between steps, or between messages of a run that keeps its best weights,
 * does so at every one of them, not only at some. */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/json.h"
#include "crew.h"
#include "files/store.h"
#include "nn/gemm.h"
#include "scratch.h"
#include "train/loader.h"
#include "train/scalars.h"
#include "train/worker.h"
#include "wire/link.h"

#define VOCAB      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\nf\ng\n"
#define VOCAB_SIZE "12"
#define N_ROWS     48
#define N_DEV_ROWS 10

/* Dropout, AdamW and clipping are the spec's defaults; the last step of an epoch is smaller. */
#define MEMBERS_AT(task, training, rate)                                                           \
    "\"model\":{\"vocabSize\":" VOCAB_SIZE ",\"hiddenSize\":32,\"layers\":2,"                      \
    "\"attentionHeads\":4,\"feedForwardSize\":64,\"maxPositions\":24},"                            \
    "\"data\":{\"task\":\"" task                                                                   \
    "\",\"source\":{\"persistentVolumeClaim\":{\"claimName\":\"data\"}}},"                         \
    "\"training\":{" training ",\"microBatches\":2,\"maxSequenceLength\":24,"                      \
    "\"optimizer\":{\"learningRate\":" rate "}}"
#define MEMBERS(task, training) MEMBERS_AT(task, training, "\"2e-3\"")
#define SPEC(task, training)    "{" MEMBERS(task, training) "}"

static const char tied[] =
    SPEC("MaskedLM", "\"steps\":30,\"batchSize\":10,\"evaluateEverySteps\":5");
static const char classifier[] =
    SPEC("MNLI", "\"steps\":30,\"batchSize\":10,\"evaluateEverySteps\":6");
/* So many that a worker is still there to be killed when the test was not scheduled for a second.
 */
static const char long_classifier[] =
    SPEC("MNLI", "\"steps\":300,\"batchSize\":10,\"evaluateEverySteps\":60");
#define FOUR_STEPS "\"steps\":4,\"batchSize\":4"
static const char four_steps[] = SPEC("MaskedLM", FOUR_STEPS);
static const char saved_steps[] =
    "{\"checkpoint\":{\"everySteps\":1}," MEMBERS("MaskedLM", FOUR_STEPS) "}";
#define N_STEPS 30
/* The learning rate is so high that evaluations soon become worse, which ends the run. */
#define BEST_STEPS 14
static const char best_steps[] = "{\"checkpoint\":{\"everySteps\":3,\"keep\":1}," MEMBERS_AT(
    "MNLI",
    "\"steps\":14,\"batchSize\":10,\"evaluateEverySteps\":1,\"keepBest\":\"evalLoss\","
    "\"earlyStopping\":{\"patience\":3}",
    "\"3e-2\",\"learningRateSchedule\":\"Constant\",\"warmupRatio\":\"0\"") "}";
static const char saved_thirty[] = "{\"checkpoint\":{\"everySteps\":1}," MEMBERS(
    "MaskedLM", "\"steps\":30,\"batchSize\":10,\"evaluateEverySteps\":5") "}";

/* --- the data --- */

static void write_rows(const char *name, int n, bool has_labels)
{
    static const char *const labels[] = {"neutral", "entailment", "contradiction"};
    static const char words[] = "abcdefg";
    static char text[16384];

    (void)snprintf(text, sizeof text, "index\tsentence1\tsentence2%s\n",
                   has_labels ? "\tgold_label" : "");
    for (int i = 0; i < n; i++)
        text_add(text, sizeof text, "%d\t%c %c%s\t%c %c%s%s\n", i, words[i % 7], words[i % 5],
                 i % 2 ? " c d" : "", words[i % 3], words[(i + 4) % 7], has_labels ? "\t" : "",
                 has_labels ? labels[i % 3] : "");
    scratch_text(name, text);
}

static void write_lines(const char *name, int n)
{
    static const char words[] = "abcdefg";
    static char text[16384];

    text[0] = '\0';
    for (int i = 0; i < n; i++)
        text_add(text, sizeof text, "%c %c b %c%s\n", words[i % 7], words[i % 5], words[i % 3],
                 i % 2 ? " e d a" : "");
    scratch_text(name, text);
}

static int set_up(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    assert_int_equal(mkdir(scratch_path("data"), 0755), 0);
    scratch_text("data/vocab.txt", VOCAB);
    write_rows("data/train.tsv", N_ROWS - 1, true);
    write_rows("data/dev_matched.tsv", N_DEV_ROWS, true);
    write_rows("data/test_matched.tsv", N_DEV_ROWS + 1, false);
    write_lines("data/train.txt", N_ROWS);
    write_lines("data/dev.txt", N_DEV_ROWS);
    return 0;
}

/* With the variable set, logs and outputs stay, to be looked at. */
static int tear_down(void **state)
{
    return getenv("TEST_REVISIONS_KEEP") ? 0 : scratch_remove(state);
}

/* --- a run, and what it leaves --- */

static char worker_path[PATH_MAX];
static char own_path[PATH_MAX];
static int n_runs;

struct outcome {
    char output[96];
    struct crew_result crew;
};

static struct outcome run(struct crew_params p)
{
    static char data[96];
    struct outcome o = {{0}, {0}};
    char folder[96];

    (void)snprintf(data, sizeof data, "%s/data", scratch);
    (void)snprintf(folder, sizeof folder, "%s/run-%d", scratch, ++n_runs);
    (void)snprintf(o.output, sizeof o.output, "%s/out-%d", scratch, n_runs);
    p.data_dir = data;
    p.folder = folder;
    p.output_dir = o.output;
    if (p.micro_batches == 0)
        p.micro_batches = 2;
    if (!p.program)
        p.program = worker_path;
    crew_run(&p, &o.crew);
    return o;
}

static void forget(const struct outcome *o)
{
    char command[256];

    (void)snprintf(command, sizeof command, "rm -rf %s", o->output);
    assert_int_equal(system(command), 0);
}

static int count_files(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;

    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void read_file(const char *folder, const char *name, struct buf *out)
{
    char path[512];
    struct err err;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    *out = (struct buf){.max = (size_t)16 << 20};
    if (file_read(path, out, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

/* The steps with their losses, and the metrics: without what depends on time. */
static void history_of(const char *folder, struct buf *out)
{
    struct buf text;
    char *line, *rest;

    read_file(folder, "history.jsonl", &text);
    *out = (struct buf){.max = text.max};
    rest = text.data;
    while (rest && (line = strsep(&rest, "\n")) && *line) {
        struct json *record = NULL;

        assert_int_equal(json_parse(line, strlen(line), &record, NULL), ERR_OK);
        if (json_get(record, "metrics"))
            assert_int_equal(buf_addf(out, NULL, "%lld %s\n",
                                      (long long)json_i64(json_get(record, "step"), -1),
                                      strstr(line, "\"metrics\"")),
                             ERR_OK);
        else
            assert_int_equal(buf_addf(out, NULL, "%lld %.17g\n",
                                      (long long)json_i64(json_get(record, "step"), -1),
                                      json_double(json_get(record, "loss"), -1)),
                             ERR_OK);
        json_free(record);
    }
    buf_deinit(&text);
}

static void assert_same_progress(const struct progress *a, const struct progress *b)
{
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->skipped_steps, b->skipped_steps);
    assert_true(a->loss == b->loss);
    assert_int_equal(a->n_metrics, b->n_metrics);
    for (int i = 0; i < a->n_metrics; i++) {
        assert_string_equal(a->metrics[i].name, b->metrics[i].name);
        assert_true(a->metrics[i].value == b->metrics[i].value);
    }
}

/* The same files with the same bytes; of the history, what does not depend on time. */
static void assert_same(const struct outcome *got, const struct outcome *want)
{
    DIR *dir = opendir(want->output);

    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        bool is_history = strcmp(e->d_name, "history.jsonl") == 0;
        struct buf a, b;

        if (e->d_name[0] == '.' || strcmp(e->d_name, SCALARS_NAME) == 0) /* the history again */
            continue;
        (is_history ? history_of(got->output, &a) : read_file(got->output, e->d_name, &a));
        (is_history ? history_of(want->output, &b) : read_file(want->output, e->d_name, &b));
        if (a.len != b.len || memcmp(a.data, b.data, a.len) != 0) {
            if (is_history)
                print_message("%s\nbut without a change\n%s\n", a.data, b.data);
            fail_msg("%s/%s differs", got->output, e->d_name);
        }
        buf_deinit(&a);
        buf_deinit(&b);
    }
    closedir(dir);
    assert_int_equal(count_files(got->output), count_files(want->output));
    assert_same_progress(&got->crew.progress, &want->crew.progress);
}

/* --- other cuts --- */

/* Two workers; a third one appears in front of them, and so becomes the leader; one leaves, and
 * comes back behind another new leader. */
static const struct crew_cut tied_cuts[] = {
    {0, 2, {{0, 3}, {1, 3}}},
    {7, 3, {{1, 2}, {2, 2}, {0, 2}}},
    {15, 2, {{2, 5}, {1, 1}}},
    {22, 3, {{3, 1}, {1, 2}, {0, 3}}},
};
static const struct crew_cut classifier_cuts[] = {
    {0, 3, {{0, 2}, {1, 2}, {2, 3}}},
    {7, 2, {{2, 4}, {0, 3}}},
    {15, 1, {{2, 7}}},
    {22, 4, {{1, 1}, {2, 3}, {3, 2}, {0, 1}}},
};

static struct outcome run_straight_in_shares(const char *spec, const struct crew_cut *last,
                                             int n_shares, const char *program)
{
    struct crew_cut cut = *last;

    cut.step = 0;
    return run((struct crew_params){.program = program,
                                    .spec = spec,
                                    .n_shares = n_shares,
                                    .n_cuts = 1,
                                    .cuts = &cut,
                                    .kill_slot = -1});
}

static struct outcome run_straight(const char *spec, const struct crew_cut *last,
                                   const char *program)
{
    return run_straight_in_shares(spec, last, 0, program);
}

static void check_cuts(const char *spec, const struct crew_cut *cuts, int n_cuts, int n_shares)
{
    struct outcome straight = run_straight_in_shares(spec, &cuts[n_cuts - 1], n_shares, NULL);
    struct outcome changed = run((struct crew_params){
        .spec = spec, .n_shares = n_shares, .n_cuts = n_cuts, .cuts = cuts, .kill_slot = -1});

    assert_int_equal(straight.crew.n_revisions, 1);
    assert_int_equal(straight.crew.n_alone, cuts[n_cuts - 1].n_workers);
    assert_int_equal(changed.crew.n_revisions, n_cuts);
    assert_int_equal(changed.crew.lineage, 1);
    /* One that has left is released, and comes back as a new process. */
    assert_in_range(changed.crew.n_started, CREW_SLOTS - 1, CREW_SLOTS + 3);
    assert_same(&changed, &straight);
    forget(&changed);
    forget(&straight);
}

static void revisions_change_no_bit_of_tied_embeddings(void **state)
{
    (void)state;
    check_cuts(tied, tied_cuts, 4, 0);
}

static void revisions_change_no_bit_of_a_classifier_and_its_predictions(void **state)
{
    (void)state;
    check_cuts(classifier, classifier_cuts, 4, 0);
}

/* One pipeline, two replicas that are cut differently, others with another leader, one pipeline
 * again: with the same shares, the bits are the same. */
static const struct crew_cut tied_replicas[] = {
    {0, 2, {{0, 3}, {1, 3}}},
    {7, 4, {{0, 3}, {1, 3}, {2, 2}, {3, 4}}},
    {15, 3, {{2, 6}, {3, 5}, {1, 1}}},
    {22, 2, {{0, 4}, {1, 2}}},
};
static const struct crew_cut classifier_replicas[] = {
    {0, 2, {{0, 7}, {1, 7}}},
    {7, 1, {{1, 7}}},
    {15, 3, {{1, 3}, {0, 4}, {3, 7}}},
    {22, 2, {{0, 4}, {2, 3}}},
};

static void revisions_of_replicas_change_no_bit_of_tied_embeddings(void **state)
{
    (void)state;
    check_cuts(tied, tied_replicas, 4, 2);
}

static void revisions_of_replicas_change_no_bit_of_a_classifier(void **state)
{
    (void)state;
    check_cuts(classifier, classifier_replicas, 4, 2);
}

/* Two replicas, and one pipeline in the end, against one pipeline whose shares change alike. */
static void revisions_of_replicas_change_shares_at_a_step(void **state)
{
    static const int first_shares[] = {1, 4, 2};
    static const struct crew_cut replicas[] = {
        {0, 3, {{0, 3}, {1, 4}, {2, 7}}},
        {9, 3, {{0, 2}, {1, 5}, {2, 7}}},
        {18, 2, {{0, 4}, {1, 3}}},
    };
    static const struct crew_cut pipeline[] = {
        {0, 2, {{0, 4}, {1, 3}}},
        {9, 2, {{0, 4}, {1, 3}}},
        {18, 2, {{0, 4}, {1, 3}}},
    };
    struct crew_params p = {.spec = classifier,
                            .micro_batches = 5,
                            .n_shares = 2,
                            .first_shares = first_shares,
                            .n_cuts = 3,
                            .kill_slot = -1};
    struct outcome several, one;

    (void)state;
    p.cuts = replicas;
    several = run(p);
    p.cuts = pipeline;
    one = run(p);
    assert_int_equal(several.crew.n_revisions, 3);
    assert_int_equal(several.crew.lineage, 1);
    assert_same(&several, &one);
    forget(&one);
    forget(&several);
}

/* Its units are lost, so the job begins again, but the other two processes stay. */
static void revisions_replace_only_the_worker_that_was_killed(void **state)
{
    static const struct crew_cut cut = {0, 3, {{0, 2}, {1, 2}, {2, 3}}};
    struct outcome straight = run_straight(long_classifier, &cut, NULL);
    struct outcome killed = run((struct crew_params){
        .spec = long_classifier, .n_cuts = 1, .cuts = &cut, .kill_slot = 1, .kill_step = 8});

    (void)state;
    assert_int_equal(killed.crew.lineage, 2);
    assert_int_equal(killed.crew.n_started, 4);
    assert_same(&killed, &straight);
    forget(&killed);
    forget(&straight);
}

/* --- what may befall a worker --- */

/* What strikes a worker at its first message of a step. */
enum strike_kind {
    STRIKE_KILL,    /* it is killed */
    STRIKE_FREEZE,  /* it is stopped, and its ports with it */
    STRIKE_CUT,     /* its link breaks */
    STRIKE_HANG,    /* the leader's trainer hangs, as it reads the data */
    STRIKE_ONE_WAY, /* nothing that it sends arrives any more, and nothing tells it so: a proxy's */
};
struct strike {
    enum strike_kind kind;
    int slot;
    int64_t step;
};
#define STRIKES_MAX 8
#define SILENCE_MS  5000 /* of a worker or a trainer, in place of what a job waits */

/* What all workers of a run share: the calls of link_send(), the one that fails ... */
struct sends {
    _Atomic long n;
    _Atomic long fails; /* -1: none */
    atomic_bool kills;  /* its sender is killed instead */
    _Atomic long waits; /* ... and the one that finds no room to be sent; -1: none */
    atomic_bool has_waited;
    struct strike strikes[STRIKES_MAX]; /* in the order of their steps */
    int n_strikes;
    _Atomic int n_struck;
    _Atomic int n_gone; /* reads of a checkpoint's records that shall find none */
};

static struct sends *sends;

/* --- checkpoints --- */

#define MANY_STEPS "\"steps\":30,\"batchSize\":10,\"evaluateEverySteps\":10"
static const char many_saved[] =
    "{\"checkpoint\":{\"everySteps\":5}," MEMBERS("MNLI", MANY_STEPS) "}";
static const struct crew_cut saved_cut = {0, 3, {{0, 2}, {1, 2}, {2, 3}}};

/* All stages count the evaluations before a checkpoint alike, or it would never be complete. The
 * last step's has two behind it. */
static void revisions_write_complete_checkpoints_behind_evaluations(void **state)
{
    struct outcome o = run((struct crew_params){.spec = many_saved,
                                                .has_checkpoints = true,
                                                .n_cuts = 1,
                                                .cuts = &saved_cut,
                                                .kill_slot = -1});
    struct store_point newest;
    struct store store;
    char folder[96];

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s/run-%d/points", scratch, n_runs);
    assert_int_equal(store_open(&store, folder, NULL), ERR_OK);
    assert_int_equal(store_list(&store, &newest, 1), 1);
    assert_int_equal(newest.at.end.step, 30);
    assert_int_equal(newest.at.evaluated, 20);
    forget(&o);
}

/* --- workers that are to end soon --- */

/* What a kubelet sends a worker whose node is drained does not end it before others have its units.
 */
static void revisions_move_the_units_of_a_worker_that_leaves(void **state)
{
    static const struct crew_cut cuts[] = {{0, 3, {{0, 2}, {1, 2}, {2, 3}}},
                                           {15, 3, {{0, 2}, {3, 2}, {2, 3}}}};
    struct outcome straight = run_straight(classifier, &cuts[1], NULL);
    struct outcome left = run((struct crew_params){.spec = classifier,
                                                   .n_cuts = 2,
                                                   .cuts = cuts,
                                                   .kill_slot = 1,
                                                   .kill_signal = SIGTERM,
                                                   .kill_step = 1});

    (void)state;
    assert_int_equal(left.crew.n_revisions, 2);
    assert_int_equal(left.crew.lineage, 1);
    assert_int_equal(left.crew.n_started, 4);
    assert_int_equal(left.crew.n_alone, 4);
    assert_same(&left, &straight);
    forget(&left);
    forget(&straight);
}

#define LEFT_STEPS(n)                                                                              \
    "{\"checkpoint\":{\"everySteps\":100000}," MEMBERS("MNLI",                                     \
                                                       "\"steps\":" n ",\"batchSize\":10") "}"

/* None takes its units, and the second signal ends it: little is lost. */
static struct crew_params left_params(const char *spec, int64_t kill_again_step)
{
    return (struct crew_params){.spec = spec,
                                .n_cuts = 1,
                                .cuts = &saved_cut,
                                .has_checkpoints = true,
                                .kill_slot = 1,
                                .kill_signal = SIGTERM,
                                .kill_step = 1,
                                .kill_again_step = kill_again_step};
}

static void revisions_go_back_to_what_a_worker_that_leaves_has_saved(void **state)
{
    static const char spec[] = LEFT_STEPS("400");
    struct outcome straight = run_straight(spec, &saved_cut, NULL);
    struct outcome left = run(left_params(spec, 100));

    (void)state;
    assert_int_equal(left.crew.n_restores, 1);
    assert_int_equal(left.crew.n_started, 4);
    assert_in_range(left.crew.last_step, 1, 200);
    assert_same(&left, &straight);
    forget(&left);
    forget(&straight);
}

/* The disk for checkpoints is away ... */
struct lost_disk {
    char points[96];
    char away[96];
    char log[96]; /* of a worker */
    bool was_away;
};

/* ... until one could not be written. */
static bool lose_disk_for_a_while(void *ctx)
{
    struct lost_disk *d = ctx;
    struct buf log = {.max = (size_t)16 << 20};

    if (!d->was_away) {
        d->was_away = rename(d->points, d->away) == 0;
    } else if (access(d->away, F_OK) == 0) {
        assert_int_equal(file_read(d->log, &log, NULL), ERR_OK);
        if (strstr(buf_text(&log), "the checkpoint cannot be written"))
            assert_int_equal(rename(d->away, d->points), 0);
        buf_deinit(&log);
    }
    return false; /* nothing is superseded */
}

static void revisions_save_again_what_a_worker_that_leaves_could_not_save(void **state)
{
    static const char spec[] = LEFT_STEPS("3000");
    struct outcome straight = run_straight(spec, &saved_cut, NULL);
    struct crew_params p = left_params(spec, 2600);
    struct lost_disk disk = {.was_away = false};
    struct outcome left;

    (void)state;
    (void)snprintf(disk.points, sizeof disk.points, "%s/run-%d/points", scratch, n_runs + 1);
    (void)snprintf(disk.away, sizeof disk.away, "%s/run-%d/away", scratch, n_runs + 1);
    (void)snprintf(disk.log, sizeof disk.log, "%s/run-%d/w1.log", scratch, n_runs + 1);
    p.kill_step = 300;
    p.supersedes = lose_disk_for_a_while;
    p.ctx = &disk;
    left = run(p);
    assert_int_equal(left.crew.n_restores, 1);
    assert_in_range(left.crew.last_step, 300, 2600);
    assert_same(&left, &straight);
    forget(&left);
    forget(&straight);
}

/* --- checkpoints on the workers' own disks --- */

#define COPY_SHARD    "model-00002-of-00003.safetensors"
#define COPY_MANIFEST "model-00002-of-00003.json"

#define PEER_STEPS "\"steps\":600,\"batchSize\":10,\"evaluateEverySteps\":150"
static const char unsaved_steps[] = SPEC("MNLI", PEER_STEPS);
static const char peer_steps[] =
    "{\"checkpoint\":{\"everySteps\":5,\"store\":{\"peers\":{}}}," MEMBERS("MNLI", PEER_STEPS) "}";

/* A node that is lost takes its worker and its disk along. Its second checkpoint is begun when the
 * first is on two nodes. */
static struct crew_params peer_params(int kill_slot)
{
    return (struct crew_params){.spec = peer_steps,
                                .has_own_checkpoints = true,
                                .n_cuts = 1,
                                .cuts = &saved_cut,
                                .kill_slot = kill_slot,
                                .kill_saves = 2};
}

/* The first is the leader; the copies of the last one's units are there. */
static void revisions_survive_the_loss_of_any_one_node(void **state)
{
    struct outcome straight = run_straight(unsaved_steps, &saved_cut, NULL);

    (void)state;
    for (int slot = 0; slot < saved_cut.n_workers; slot++) {
        struct outcome lost = run(peer_params(slot));

        assert_int_equal(lost.crew.lineage, 2);
        assert_int_equal(lost.crew.n_restores, 1);
        assert_in_range(lost.crew.last_step, 5, 600);
        assert_int_equal(lost.crew.n_started, 4);
        assert_same(&lost, &straight);
        forget(&lost);
    }
    forget(&straight);
}

/* The units of the first are lost with the second, which has kept the copies. */
static void revisions_without_two_neighbours_begin_again(void **state)
{
    struct outcome straight = run_straight(unsaved_steps, &saved_cut, NULL);
    struct crew_params p = peer_params(0);
    struct outcome lost;

    (void)state;
    p.kills_next = true;
    lost = run(p);
    assert_int_equal(lost.crew.lineage, 2);
    assert_int_equal(lost.crew.n_restores, 0);
    assert_int_equal(lost.crew.last_step, 0);
    assert_same(&lost, &straight);
    forget(&lost);
    forget(&straight);
}

static bool is_copy(const struct dirent *e, const char *file)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/run-%d/points-2/%s/%s", scratch, n_runs, e->d_name, file);
    return strncmp(e->d_name, "1-", 2) == 0 && access(path, F_OK) == 0;
}

/* All but the oldest copy that worker 2 has of worker 1's shards, once the second revision has been
 * made of what the reports say. */
static void damage_copies(void *ctx, int n)
{
    char path[PATH_MAX];
    struct dirent **entries;
    long oldest = LONG_MAX;
    int n_damaged = 0;
    int n_entries;

    (void)ctx;
    if (n != 2)
        return;
    (void)snprintf(path, sizeof path, "%s/run-%d/points-2", scratch, n_runs);
    n_entries = scandir(path, &entries, NULL, NULL);
    for (int i = 0; i < n_entries; i++)
        if (is_copy(entries[i], COPY_MANIFEST) && atol(entries[i]->d_name + 2) < oldest)
            oldest = atol(entries[i]->d_name + 2);
    for (int i = 0; i < n_entries; i++) {
        FILE *file;

        if (is_copy(entries[i], COPY_MANIFEST) && atol(entries[i]->d_name + 2) > oldest) {
            (void)snprintf(path, sizeof path, "%s/run-%d/points-2/%s/" COPY_SHARD, scratch, n_runs,
                           entries[i]->d_name);
            file = fopen(path, "r+");
            assert_non_null(file);
            assert_int_equal(fseek(file, -100, SEEK_END), 0);
            assert_int_equal(fwrite("damage", 6, 1, file), 1);
            assert_int_equal(fclose(file), 0);
            n_damaged++;
        }
        free(entries[i]);
    }
    free(entries);
    assert_in_range(n_damaged, 1, 3);
}

static void revisions_go_back_further_when_a_copy_is_damaged(void **state)
{
    struct outcome straight = run_straight(unsaved_steps, &saved_cut, NULL);
    struct crew_params p = peer_params(1);
    struct outcome damaged;

    (void)state;
    p.kill_saves = 3;
    p.on_post = damage_copies;
    damaged = run(p);
    assert_in_range(damaged.crew.n_revisions, 3, 5);
    assert_in_range(damaged.crew.last_step, 5, 600);
    assert_same(&damaged, &straight);
    forget(&damaged);
    forget(&straight);
}

/* The leader finds its checkpoint gone while it reads it: another worker that shares the folder has
 * set it aside. That is no fault of the leader's. */
static void revisions_try_again_when_a_checkpoint_goes_as_it_is_read(void **state)
{
    struct outcome straight = run_straight(unsaved_steps, &saved_cut, NULL);
    struct crew_params p = peer_params(1);
    struct outcome gone;

    (void)state;
    p.program = own_path;
    atomic_store(&sends->n_gone, 1);
    gone = run(p);
    assert_int_equal(atomic_load(&sends->n_gone), 0);
    assert_int_equal(gone.crew.n_restores, 2);
    assert_int_equal(gone.crew.n_started, 4);
    assert_in_range(gone.crew.last_step, 5, 600);
    assert_same(&gone, &straight);
    forget(&gone);
    forget(&straight);
}

/* --- faults --- */

/* The second revision has everything: units and the leader's records move to a new worker and to
 * others, the job goes on for two steps, evaluates, saves and ends. */
static const struct crew_cut fault_cuts[] = {
    {0, 2, {{0, 3}, {1, 3}}},
    {2, 3, {{2, 1}, {1, 3}, {0, 2}}},
};

/* Likewise, of a classifier; the last is for a run that is left alone. */
static const struct crew_cut best_cuts[] = {
    {0, 2, {{0, 3}, {1, 4}}},
    {2, 3, {{2, 1}, {1, 3}, {0, 3}}},
    {0, 3, {{2, 1}, {1, 3}, {0, 3}}},
};

static const struct crew_cut replica_cuts[] = {
    {0, 2, {{0, 3}, {1, 3}}},
    {2, 4, {{0, 3}, {1, 3}, {2, 2}, {3, 4}}},
};

static struct crew_params fault_params(const struct crew_cut *cuts, int n_shares)
{
    return (struct crew_params){.program = own_path,
                                .spec = four_steps,
                                .n_shares = n_shares,
                                .n_cuts = 2,
                                .cuts = cuts,
                                .kill_slot = -1};
}

/* Between two that are tried, unless all are. */
static int stride(int usual)
{
    const char *all = getenv("FAULTS");

    return all && strcmp(all, "all") == 0 ? 1 : usual;
}

/* One run per message to a worker, from the second revision on. */
static void check_proxies(enum proxy_fault_kind kind)
{
    struct outcome straight = run_straight(four_steps, &fault_cuts[1], own_path);
    struct crew_params p = fault_params(fault_cuts, 0);
    struct outcome clean;
    int n = 0, n_again = 0;

    p.has_proxies = true;
    clean = run(p);
    assert_same(&clean, &straight);
    for (int slot = 0; slot < CREW_SLOTS; slot++)
        for (int64_t k = clean.crew.n_messages_before[slot]; k < clean.crew.n_messages[slot]; k++) {
            struct outcome o;

            p.faults[slot] = (struct proxy_fault){
                .kind = kind, .type = -1, .step = -1, .microbatch = -1, .skip = (int)k};
            print_message("# worker %d, message %lld\n", slot, (long long)k);
            o = run(p);
            assert_int_equal(o.crew.n_faults, 1);
            assert_int_equal(o.crew.lineage, 1);
            assert_int_equal(o.crew.n_started, 3);
            assert_same(&o, &straight);
            forget(&o);
            p.faults[slot].kind = PROXY_NONE;
            n++;
            n_again += o.crew.n_revisions > 2;
        }
    print_message("# %d runs, %d of them with another revision\n", n, n_again);
    assert_in_range(n, 30, 200);
    assert_in_range(n_again, n - 8, n); /* only behind the last evaluation there need not be one */
    forget(&clean);
    forget(&straight);
}

static void revisions_survive_a_cut_after_any_message(void **state)
{
    (void)state;
    check_proxies(PROXY_CUT);
}

static void revisions_survive_a_cut_within_any_message(void **state)
{
    (void)state;
    check_proxies(PROXY_HALF);
}

static long fails_after; /* the second revision was posted; -1: none */
static long waits_after; /* likewise, until the fourth */
static long n_before;

static void arm(void *ctx, int n)
{
    (void)ctx;
    if (n == 2) {
        n_before = atomic_load(&sends->n);
        atomic_store(&sends->fails, fails_after >= 0 ? n_before + fails_after : -1);
        atomic_store(&sends->waits, waits_after >= 0 ? n_before + waits_after : -1);
    } else if (n == 4) {
        atomic_store(&sends->waits, -1);
    }
}

static bool has_waited(void *ctx)
{
    (void)ctx;
    return atomic_load(&sends->has_waited);
}

static struct sends *map_sends(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    void *map;

    if (fd < 0 || ftruncate(fd, sizeof *sends) != 0)
        return NULL;
    map = mmap(NULL, sizeof *sends, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return map == MAP_FAILED ? NULL : map;
}

static struct outcome run_armed_to(struct crew_params p, long fails, long waits, bool kills)
{
    p.on_post = arm;
    atomic_store(&sends->n, 0);
    atomic_store(&sends->fails, -1);
    atomic_store(&sends->waits, -1);
    atomic_store(&sends->has_waited, false);
    atomic_store(&sends->kills, kills);
    fails_after = fails;
    waits_after = waits;
    return run(p);
}

static struct outcome run_armed(struct crew_params p, long fails, long waits)
{
    return run_armed_to(p, fails, waits, p.has_checkpoints);
}

/* A run for every message, or every n-th, from the second revision on. */
static void check_failures(const struct crew_cut *cuts, int n_shares, int every)
{
    struct outcome straight = run_straight_in_shares(four_steps, &cuts[1], n_shares, own_path);
    struct outcome clean = run_armed(fault_params(cuts, n_shares), -1, -1);
    long n = atomic_load(&sends->n) - n_before, n_runs_all = 0, n_again = 0;

    assert_same(&clean, &straight);
    assert_in_range(n, 30, 400);
    for (long k = 0; k < n; k += every) {
        struct outcome o;

        print_message("# message %ld of %ld\n", k, n);
        o = run_armed(fault_params(cuts, n_shares), k, -1);
        assert_int_equal(o.crew.lineage, 1);
        assert_same(&o, &straight);
        forget(&o);
        n_runs_all++;
        n_again += o.crew.n_revisions > 2;
    }
    print_message("# %ld runs, %ld of them with another revision\n", n_runs_all, n_again);
    assert_in_range(n_again, n_runs_all - 8, n_runs_all);
    forget(&clean);
    forget(&straight);
}

static void revisions_survive_when_any_message_cannot_be_sent(void **state)
{
    (void)state;
    check_failures(fault_cuts, 0, 1);
}

static void revisions_of_replicas_survive_when_any_message_cannot_be_sent(void **state)
{
    (void)state;
    check_failures(replica_cuts, 2, stride(5));
}

/* With checkpoints, the worker that would send it dies: before, between and after steps, while
 * units move, in an evaluation and at the end. Its units come from a checkpoint. */
static void check_deaths(const struct crew_cut *cuts, int n_shares, int every)
{
    struct crew_params p = fault_params(cuts, n_shares);
    struct outcome straight = run_straight_in_shares(four_steps, &cuts[1], n_shares, own_path);
    struct outcome clean;
    long n, n_runs_all = 0, n_restored = 0;

    p.spec = saved_steps;
    p.has_checkpoints = true;
    clean = run_armed(p, -1, -1);
    n = atomic_load(&sends->n) - n_before;
    assert_same(&clean, &straight);
    assert_int_equal(clean.crew.n_started, cuts[1].n_workers);
    assert_in_range(n, 30, 400);
    for (long k = 0; k < n; k += every) {
        struct outcome o;

        print_message("# message %ld of %ld\n", k, n);
        o = run_armed(p, k, -1);
        assert_same(&o, &straight);
        assert_in_range(o.crew.last_step, 1, 4);
        forget(&o);
        n_runs_all++;
        n_restored += o.crew.n_restores > 0;
    }
    print_message("# %ld runs, %ld of them with units from a checkpoint\n", n_runs_all, n_restored);
    assert_in_range(n_restored, n_runs_all / 2, n_runs_all); /* not when it dies at the very end */
    forget(&clean);
    forget(&straight);
}

static void revisions_survive_a_worker_that_dies_at_any_message(void **state)
{
    (void)state;
    check_deaths(fault_cuts, 0, 1);
}

static void revisions_of_replicas_survive_a_worker_that_dies_at_any_message(void **state)
{
    (void)state;
    check_deaths(replica_cuts, 2, stride(7));
}

static void check_best(bool kills)
{
    struct crew_params p = {.program = own_path,
                            .spec = best_steps,
                            .has_checkpoints = true,
                            .n_cuts = 2,
                            .cuts = best_cuts,
                            .kill_slot = -1};
    int every = stride(13);
    struct outcome straight, clean;
    long n;

    straight = run((struct crew_params){.program = own_path,
                                        .spec = best_steps,
                                        .has_checkpoints = true,
                                        .n_cuts = 1,
                                        .cuts = &best_cuts[2],
                                        .kill_slot = -1});
    clean = run_armed(p, -1, -1);
    n = atomic_load(&sends->n) - n_before;
    assert_same(&clean, &straight);
    print_message("# best after step %lld of %lld\n", (long long)straight.crew.progress.best.step,
                  (long long)straight.crew.progress.step);
    assert_true(straight.crew.progress.has_ended_early);
    assert_in_range(straight.crew.progress.best.step, 3, BEST_STEPS - 4);
    assert_int_equal(straight.crew.progress.step, straight.crew.progress.best.step + 3);
    for (long k = kills ? 0 : every / 2; k < n; k += every) {
        struct outcome o;

        print_message("# message %ld of %ld\n", k, n);
        o = run_armed_to(p, k, -1, kills);
        assert_same(&o, &straight);
        assert_int_equal(o.crew.progress.best.step, straight.crew.progress.best.step);
        assert_true(o.crew.progress.has_ended_early);
        forget(&o);
    }
    forget(&clean);
    forget(&straight);
}

static void revisions_keep_the_best_when_a_worker_dies_at_any_message(void **state)
{
    (void)state;
    check_best(true);
}

static void revisions_keep_the_best_when_any_message_cannot_be_sent(void **state)
{
    (void)state;
    check_best(false);
}

static struct outcome run_struck(const struct strike *strikes, int n)
{
    static const struct crew_cut cut = {0, 3, {{0, 2}, {1, 2}, {2, 2}}};
    struct crew_params p = {.program = own_path,
                            .spec = saved_thirty,
                            .n_cuts = 1,
                            .cuts = &cut,
                            .has_checkpoints = true,
                            .kill_slot = -1};
    struct outcome o;

    atomic_store(&sends->n_struck, 0);
    memcpy(sends->strikes, strikes, (size_t)n * sizeof *strikes);
    sends->n_strikes = n;
    for (int i = 0; i < n; i++)
        if (strikes[i].kind == STRIKE_FREEZE)
            p.patience =
                (struct recover_patience){.halt_ms = RECOVER_HALT_MS, .silent_ms = SILENCE_MS};
    if (strikes[0].kind == STRIKE_ONE_WAY) {
        p.has_proxies = true;
        p.faults[strikes[0].slot + 1] = (struct proxy_fault){
            .kind = PROXY_HOLD, .type = -1, .step = strikes[0].step, .microbatch = -1};
    }
    o = run_armed(p, -1, -1);
    sends->n_strikes = 0;
    assert_int_equal(atomic_load(&sends->n_struck) + o.crew.n_faults, n);
    return o;
}

static struct outcome run_unstruck(void)
{
    struct crew_cut cut = {0, 3, {{0, 2}, {1, 2}, {2, 2}}};

    return run_straight(saved_thirty, &cut, own_path);
}

static void revisions_survive_five_faults_at_any_step(void **state)
{
    static const char *const names[] = {"killed", "frozen", "cut off", "hung", "cut off one way"};
    const char *all = getenv("FAULTS");
    int64_t by = all && strcmp(all, "all") == 0 ? 1 : 20;
    struct outcome straight = run_unstruck();

    (void)state;
    for (int kind = STRIKE_KILL; kind <= STRIKE_ONE_WAY; kind++)
        for (int64_t step = 1; step < N_STEPS; step += by) {
            struct strike strike = {(enum strike_kind)kind, kind == STRIKE_HANG ? 0 : 1, step};
            bool is_lost = kind != STRIKE_CUT && kind != STRIKE_ONE_WAY;
            int64_t start_ms = clock_now_ms();
            struct outcome o = run_struck(&strike, 1);

            print_message("# %s in step %lld: on from step %lld, the run took %lld ms\n",
                          names[kind], (long long)step, (long long)o.crew.last_step,
                          (long long)(clock_now_ms() - start_ms));
            assert_same(&o, &straight);
            assert_true(o.crew.n_revisions > 1);
            assert_true(is_lost ? o.crew.n_started > 3 : o.crew.n_started == 3);
            assert_in_range(o.crew.lineage, 1, is_lost ? 2 : 1);
            forget(&o);
        }
    forget(&straight);
}

/* Each but the last strikes while the job repeats what the one before has cost, or just behind. */
static void revisions_survive_one_fault_after_the_other(void **state)
{
    static const struct strike storm[] = {
        {STRIKE_KILL, 1, 3}, {STRIKE_KILL, 2, 3},   {STRIKE_CUT, 1, 4},  {STRIKE_HANG, 0, 9},
        {STRIKE_KILL, 0, 9}, {STRIKE_FREEZE, 1, 9}, {STRIKE_CUT, 2, 20}, {STRIKE_KILL, 2, 28},
    };
    struct outcome straight = run_unstruck();
    struct outcome o = run_struck(storm, sizeof storm / sizeof storm[0]);

    (void)state;
    print_message("# %d revisions, lineage %lld\n", o.crew.n_revisions, (long long)o.crew.lineage);
    assert_same(&o, &straight);
    assert_true(o.crew.n_started >= 3 + 6);
    forget(&o);
    forget(&straight);
}

/* The third revision is posted while the second trains, and is made of what the workers held when
 * that began: it cannot be followed. All is still there for the fourth. */
static void revisions_that_are_outrun_lose_nothing(void **state)
{
    struct crew_params p = {.program = own_path,
                            .spec = tied,
                            .n_cuts = 2,
                            .cuts = tied_cuts,
                            .supersedes = has_waited,
                            .kill_slot = -1};
    struct outcome straight = run_straight(tied, &tied_cuts[1], own_path);
    struct outcome outrun = run_armed(p, -1, 60);

    (void)state;
    assert_true(atomic_load(&sends->has_waited));
    assert_int_equal(outrun.crew.n_revisions, 4);
    assert_int_equal(outrun.crew.lineage, 1);
    assert_same(&outrun, &straight);
    forget(&outrun);
    forget(&straight);
}

/* --- this program as a worker --- */

enum err_code __real_link_send(struct link *link, int edge, const struct link_message *msg,
                               int timeout_ms, struct err *err);
enum err_code __wrap_link_send(struct link *link, int edge, const struct link_message *msg,
                               int timeout_ms, struct err *err);

static int own_slot;
static const char *own_points;

/* Is this the moment? */
static bool strikes(enum strike_kind kind, int64_t step)
{
    int i = atomic_load(&sends->n_struck);
    const struct strike *s = &sends->strikes[i];

    return i < sends->n_strikes && s->kind == kind && s->slot == own_slot && s->step == step &&
           atomic_compare_exchange_strong(&sends->n_struck, &i, i + 1);
}

enum err_code __real_loader_train(struct loader *f, int64_t step, int microbatch,
                                  struct message_batch *out, struct err *err);
enum err_code __wrap_loader_train(struct loader *f, int64_t step, int microbatch,
                                  struct message_batch *out, struct err *err);

enum err_code __wrap_loader_train(struct loader *f, int64_t step, int microbatch,
                                  struct message_batch *out, struct err *err)
{
    if (sends && strikes(STRIKE_HANG, step))
        for (;;)
            (void)pause();
    return __real_loader_train(f, step, microbatch, out, err);
}

enum err_code __real_store_read_records(const struct store_reader *r, struct buf *out_history,
                                        struct buf *out_progress, struct err *err);
enum err_code __wrap_store_read_records(const struct store_reader *r, struct buf *out_history,
                                        struct buf *out_progress, struct err *err);

enum err_code __wrap_store_read_records(const struct store_reader *r, struct buf *out_history,
                                        struct buf *out_progress, struct err *err)
{
    int n = 1;
    bool is_gone = sends && atomic_compare_exchange_strong(&sends->n_gone, &n, 0);
    char elsewhere[PATH_MAX];
    enum err_code rc;

    (void)snprintf(elsewhere, sizeof elsewhere, "%s.gone", is_gone ? own_points : "");
    if (is_gone && rename(own_points, elsewhere) != 0)
        abort();
    rc = __real_store_read_records(r, out_history, out_progress, err);
    if (is_gone && rename(elsewhere, own_points) != 0)
        abort();
    return rc;
}

/* A call that times out is made again, and is no other message. */
enum err_code __wrap_link_send(struct link *link, int edge, const struct link_message *msg,
                               int timeout_ms, struct err *err)
{
    enum err_code rc;
    long k;

    if (!sends)
        return __real_link_send(link, edge, msg, timeout_ms, err);
    if (strikes(STRIKE_KILL, (int64_t)msg->step))
        (void)raise(SIGKILL);
    if (strikes(STRIKE_FREEZE, (int64_t)msg->step))
        (void)raise(SIGSTOP);
    if (strikes(STRIKE_CUT, (int64_t)msg->step))
        return err_set(err, ERR_IO, "the link breaks");
    k = atomic_fetch_add(&sends->n, 1);
    if (k == atomic_load(&sends->fails) && atomic_load(&sends->kills))
        (void)raise(SIGKILL);
    if (k == atomic_load(&sends->fails))
        return err_set(err, ERR_IO, "this message cannot be sent");
    if (k == atomic_load(&sends->waits)) {
        atomic_store(&sends->has_waited, true);
        (void)usleep(1000);
        rc = err_set(err, ERR_TIMEOUT, "this message waits");
    } else {
        rc = __real_link_send(link, edge, msg, timeout_ms, err);
    }
    if (rc == ERR_TIMEOUT)
        atomic_fetch_sub(&sends->n, 1);
    return rc;
}

static int port_of(const char *address)
{
    return atoi(strrchr(address, ':') + 1);
}

static void end_stalled(void)
{
    _exit(EXIT_STALLED);
}

static int be_worker(int argc, char **argv)
{
    struct worker_params p = {
        .control_host = "127.0.0.1", .tensor_host = "127.0.0.1", .on_stall = end_stalled};

    for (int i = 2; i + 1 < argc; i += 2) {
        const struct {
            const char *name;
            const char **text;
            int *number;
            bool is_port;
        } options[] = {{"--slot", NULL, &p.slot, false},
                       {"--incarnation", NULL, &p.incarnation, false},
                       {"--data", &p.data_dir, NULL, false},
                       {"--key", &p.key_path, NULL, false},
                       {"--output", &p.output_dir, NULL, false},
                       {"--checkpoints", &p.checkpoints_dir, NULL, false},
                       {"--own-checkpoints", &p.own_checkpoints_dir, NULL, false},
                       {"--termination-log", &p.termination_path, NULL, false},
                       {"--control", NULL, &p.control_port, true},
                       {"--tensor", NULL, &p.tensor_port, true}};

        for (size_t k = 0; k < sizeof options / sizeof options[0]; k++) {
            if (strcmp(argv[i], options[k].name) != 0)
                continue;
            if (options[k].text)
                *options[k].text = argv[i + 1];
            else
                *options[k].number = options[k].is_port ? port_of(argv[i + 1]) : atoi(argv[i + 1]);
        }
    }
    own_slot = p.slot;
    own_points = p.own_checkpoints_dir;
    sends = map_sends(getenv("TEST_REVISIONS_SENDS"));
    if (sends && sends->n_strikes > 0) {
        p.silence_s = SILENCE_MS / 1000;
        p.stall_ms = SILENCE_MS;
    }
    return sends ? worker_run(&p) : 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revisions_change_no_bit_of_tied_embeddings),
        cmocka_unit_test(revisions_change_no_bit_of_a_classifier_and_its_predictions),
        cmocka_unit_test(revisions_of_replicas_change_no_bit_of_tied_embeddings),
        cmocka_unit_test(revisions_of_replicas_change_no_bit_of_a_classifier),
        cmocka_unit_test(revisions_of_replicas_change_shares_at_a_step),
        cmocka_unit_test(revisions_replace_only_the_worker_that_was_killed),
        cmocka_unit_test(revisions_write_complete_checkpoints_behind_evaluations),
        cmocka_unit_test(revisions_move_the_units_of_a_worker_that_leaves),
        cmocka_unit_test(revisions_go_back_to_what_a_worker_that_leaves_has_saved),
        cmocka_unit_test(revisions_save_again_what_a_worker_that_leaves_could_not_save),
        cmocka_unit_test(revisions_survive_the_loss_of_any_one_node),
        cmocka_unit_test(revisions_without_two_neighbours_begin_again),
        cmocka_unit_test(revisions_go_back_further_when_a_copy_is_damaged),
        cmocka_unit_test(revisions_try_again_when_a_checkpoint_goes_as_it_is_read),
        cmocka_unit_test(revisions_that_are_outrun_lose_nothing),
        cmocka_unit_test(revisions_survive_a_cut_after_any_message),
        cmocka_unit_test(revisions_survive_a_cut_within_any_message),
        cmocka_unit_test(revisions_survive_when_any_message_cannot_be_sent),
        cmocka_unit_test(revisions_survive_a_worker_that_dies_at_any_message),
        cmocka_unit_test(revisions_of_replicas_survive_when_any_message_cannot_be_sent),
        cmocka_unit_test(revisions_of_replicas_survive_a_worker_that_dies_at_any_message),
        cmocka_unit_test(revisions_keep_the_best_when_a_worker_dies_at_any_message),
        cmocka_unit_test(revisions_keep_the_best_when_any_message_cannot_be_sent),
        cmocka_unit_test(revisions_survive_five_faults_at_any_step),
        cmocka_unit_test(revisions_survive_one_fault_after_the_other),
    };
    const char *core = gemm_core_wanted();
    const char *out = getenv("OUT");
    char sends_path[] = "/tmp/test-revisions-XXXXXX";
    int fd, failed;

    if (argc > 1 && strcmp(argv[1], "stage") == 0)
        return be_worker(argc, argv);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    (void)snprintf(worker_path, sizeof worker_path, "%s/bin/skyjob-worker",
                   out ? out : "build/release");
    fd = readlink("/proc/self/exe", own_path, sizeof own_path - 1) > 0 ? mkstemp(sends_path) : -1;
    sends = fd >= 0 ? map_sends(sends_path) : NULL;
    if (!sends)
        return 1;
    (void)close(fd);
    /* All workers have the same kernels and one thread. */
    (void)setenv("TEST_REVISIONS_SENDS", sends_path, 1);
    (void)setenv("SKYJOB_CPU_MILLI", "1000", 1);
    if (core)
        (void)setenv("OPENBLAS_CORETYPE", core, 0);
    failed = cmocka_run_group_tests(tests, set_up, tear_down);
    (void)unlink(sends_path);
    return failed;
}
