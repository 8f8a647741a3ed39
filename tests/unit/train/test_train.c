#include "train/train.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "allocations.h"
#include "base/clock.h"
#include "begin.h"
#include "links.h"
#include "nn/gemm.h"
#include "scratch.h"
#include "suite.h"

#define N_ROWS     24
#define BATCH      8
#define EPOCH      (N_ROWS / BATCH)
#define VOCAB      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n"
#define VOCAB_SIZE 8

static void write_rows(const char *name)
{
    static const char *const labels[] = {"neutral", "entailment", "contradiction"};
    char text[4096] = "index\tsentence1\tsentence2\tgold_label\tscore\n";
    char lines[4096] = "";

    for (int i = 0; i < N_ROWS; i++) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%d\ta b%s\tc\t%s\t%d\n", i,
                       i % 2 ? " a b" : "", labels[i % 3], i % 5);
        (void)snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "a b c a%s\n%s",
                       i % 2 ? " c b" : "", i % 4 == 3 ? "\n" : "");
    }
    scratch_text(name, text);
    scratch_text(strcmp(name, "train.tsv") == 0 ? "train.txt" : "dev.txt", lines);
}

static int set_up(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    scratch_text("vocab.txt", VOCAB);
    write_rows("train.tsv");
    write_rows("dev_matched.tsv");
    return 0;
}

/* What a step may be: every row is a test. */
struct row {
    const char *name, *task;
    enum model_head head;
    enum spec_optimizer optimizer;
    int threads;
};

static void make_plan(struct plan *plan, const struct row *row, int n_steps)
{
    *plan = (struct plan){.n_workers = 1, .revision = 1};
    plan->spec.model = (struct model){.head = row->head,
                                      .vocab = VOCAB_SIZE,
                                      .hidden = 32,
                                      .layers = 2,
                                      .heads = 4,
                                      .ffn = 64,
                                      .positions = 16,
                                      .labels = row->head == MODEL_HEAD_REGRESSION ? 1 : 3,
                                      .norm_eps = 1e-12};
    (void)snprintf(plan->spec.data.task, sizeof plan->spec.data.task, "%s", row->task);
    if (row->head == MODEL_HEAD_REGRESSION)
        (void)snprintf(plan->spec.data.files.dev, sizeof plan->spec.data.files.dev,
                       "dev_matched.tsv");
    plan->spec.data.mask_probability = 0.15;
    plan->spec.training.optimizer = row->optimizer;
    plan->spec.training.beta1 = 0.9;
    plan->spec.training.beta2 = 0.999;
    plan->spec.training.epsilon = 1e-8;
    plan->spec.training.batch_size = BATCH;
    plan->micro_batches = 4;
    plan->spec.training.max_length = 16;
    plan->spec.training.steps = n_steps;
    plan->spec.training.dropout = 0.1;
    plan->spec.training.learning_rate = 1e-3;
    plan->spec.training.max_grad_norm = 1;
    plan->workers[0].n_units = model_units(&plan->spec.model);
}

/* Allocations of a training of `n_steps` from its first step to its end. */
static int allocations_of(const struct row *row, int n_steps)
{
    static struct plan plan;
    static struct state weights;
    static struct stage stage;
    static struct mailbox mailbox;
    struct train train = {.plan = &plan, .state = &weights, .stage = &stage, .mailbox = &mailbox};
    struct loader_params params = {.spec = &plan.spec, .folder = scratch};
    struct loader loader;
    int before;

    make_plan(&plan, row, n_steps);
    params.micro_batches = plan.micro_batches;
    assert_int_equal(gemm_setup(row->threads, NULL), ERR_OK);
    begin_stage(&stage, &weights, &plan, 0);
    assert_int_equal(loader_init(&loader, &params, NULL), ERR_OK);
    mailbox_init(&mailbox);
    train.loader = &loader;
    before = n_allocations;
    assert_true(!COUNTS || before > 0);
    assert_int_equal(train_run(&train, NULL), ERR_OK);
    assert_int_equal(train.progress.step, n_steps);
    before = n_allocations - before;
    score_deinit(&train.score);
    mailbox_deinit(&mailbox);
    loader_deinit(&loader);
    stage_deinit(&stage);
    state_deinit(&weights);
    return before;
}

static struct row rows[] = {
    {"train_allocates_nothing_in_a_step", "MNLI", MODEL_HEAD_CLASSIFIER, SPEC_OPTIMIZER_ADAMW, 1},
    {"train_allocates_nothing_in_a_step_with_two_threads", "MNLI", MODEL_HEAD_CLASSIFIER,
     SPEC_OPTIMIZER_ADAMW, 2},
    {"train_allocates_nothing_in_a_step_with_sgd", "MNLI", MODEL_HEAD_CLASSIFIER,
     SPEC_OPTIMIZER_SGD, 1},
    {"train_allocates_nothing_in_a_step_of_a_masked_lm", "MaskedLM", MODEL_HEAD_MASKED_LM,
     SPEC_OPTIMIZER_ADAMW, 1},
};

/* Three epochs take no more than one: what grows with the longest row has grown in the first. Both
 * evaluate once, at the end. */
static void check_row(void **state)
{
    const struct row *row = *state;
    int once;

    (void)allocations_of(row, EPOCH); /* threads are started here, and buffers of libraries taken */
    once = allocations_of(row, EPOCH);
    assert_int_equal(allocations_of(row, 3 * EPOCH), once);
}

/* --- what is learned --- */

/* A trained model of one stage. */
struct trained {
    struct plan plan;
    struct state state;
    struct stage stage;
    struct progress progress;
    struct tally tally;
    enum err_code rc;
    struct err err;
};

static struct trained *run(const struct plan *plan, bool is_broken)
{
    struct trained *t = calloc(1, sizeof *t);
    struct mailbox mailbox;
    struct loader loader;
    struct loader_params params = {.folder = scratch};
    struct train train = {.mailbox = &mailbox, .loader = &loader};

    assert_non_null(t);
    t->plan = *plan;
    params.spec = &t->plan.spec;
    params.micro_batches = t->plan.micro_batches;
    train.plan = &t->plan;
    train.state = &t->state;
    train.stage = &t->stage;
    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
    begin_stage(&t->stage, &t->state, &t->plan, 0);
    assert_int_equal(loader_init(&loader, &params, NULL), ERR_OK);
    if (is_broken)
        t->stage.weights.units[0].params[6 * 32] = NAN; /* of "b", which is everywhere */
    mailbox_init(&mailbox);
    t->rc = train_run(&train, &t->err);
    t->progress = train.progress;
    t->tally = mailbox.tally;
    score_deinit(&train.score);
    mailbox_deinit(&mailbox);
    loader_deinit(&loader);
    return t;
}

static void trained_free(struct trained *t)
{
    stage_deinit(&t->stage);
    state_deinit(&t->state);
    free(t);
}

/* The largest difference of a weight, relative to how far weights are from 0. */
static double difference(const struct trained *a, const struct trained *b)
{
    double most = 0, size = 0;

    for (int u = 0; u < model_units(&a->plan.spec.model); u++)
        for (size_t i = 0; i < model_unit_params(&a->plan.spec.model, u); i++) {
            double x = (double)a->stage.weights.units[u].params[i];
            double y = (double)b->stage.weights.units[u].params[i];

            most = fmax(most, fabs(x - y));
            size = fmax(size, fabs(x));
        }
    return most / size;
}

static struct plan make_sgd_plan(int batch, int n_micro, int n_steps)
{
    static const struct row row = {
        .task = "MNLI", .head = MODEL_HEAD_CLASSIFIER, .optimizer = SPEC_OPTIMIZER_SGD};
    struct plan plan;

    make_plan(&plan, &row, n_steps);
    plan.spec.training.batch_size = batch;
    plan.micro_batches = n_micro;
    plan.spec.training.dropout = 0;
    plan.spec.training.max_grad_norm = 0;
    plan.spec.training.learning_rate = 0.1;
    return plan;
}

/* 24 rows are less than a batch of 40, and a whole one of 24. */
static void train_weighs_a_smaller_batch_by_its_own_sequences(void **state)
{
    struct plan whole = make_sgd_plan(N_ROWS, 4, 3);
    struct plan part = make_sgd_plan(40, 4, 3);
    struct trained *a = run(&whole, false);
    struct trained *b = run(&part, false);

    (void)state;
    assert_int_equal(a->rc, ERR_OK);
    assert_int_equal(b->rc, ERR_OK);
    assert_true(difference(a, b) == 0);
    assert_true(a->progress.loss == b->progress.loss);
    trained_free(a);
    trained_free(b);
}

/* An epoch is 10, 10 and 4 sequences: with ten micro-batches the last step has only four. */
static void train_learns_the_same_from_fewer_and_unequal_micro_batches(void **state)
{
    static const int counts[] = {2, 5, 10};
    struct plan one = make_sgd_plan(10, 1, 6);
    struct trained *a = run(&one, false);

    (void)state;
    assert_int_equal(a->rc, ERR_OK);
    assert_int_equal(a->progress.epoch, 2);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct plan many = make_sgd_plan(10, counts[i], 6);
        struct trained *b = run(&many, false);

        assert_int_equal(b->rc, ERR_OK);
        assert_true(difference(a, b) < 1e-5);
        trained_free(b);
    }
    trained_free(a);
}

/* --- over links --- */

#define MEMBERS_MAX 6

/* A worker of a plan, in a thread of its own. */
/* A home that stands still while it applies gradients. */
static struct {
    int worker;                       /* 0: none does */
    const struct weights_unit *units; /* of its state */
    int from, until;                  /* by the tickets that the lead has returned */
    atomic_int n_returned;
    atomic_int n_waits; /* 10 ms each, until it goes on in any case */
} home;

struct member {
    pthread_t thread;
    struct state state;
    struct stage stage;
    struct loader loader;
    struct mailbox mailbox;
    struct train train;
    enum err_code rc;
    struct err err;
};

static void *run_member(void *arg)
{
    struct member *m = arg;

    m->rc = train_run(&m->train, &m->err);
    return NULL;
}

static void members_begin(struct member *members, struct plan *plan)
{
    const struct loader_params params = {
        .spec = &plan->spec, .micro_batches = plan->micro_batches, .folder = scratch};
    struct exchange *exchanges[MEMBERS_MAX];

    for (int i = 0; i < plan->n_workers; i++) {
        struct member *m = &members[i];

        m->train = (struct train){
            .plan = plan, .state = &m->state, .stage = &m->stage, .mailbox = &m->mailbox};
        if (plan->workers[i].first_unit == 0) {
            assert_int_equal(loader_init(&m->loader, &params, NULL), ERR_OK);
            m->train.loader = &m->loader;
        }
        exchanges[i] = &m->train.exchange;
        m->train.exchange.gradient_percent = plan->spec.sync.gradient_percent;
        if (plan->spec.wire == SPEC_WIRE_BF16) {
            m->train.exchange.is_bf16 = true;
            m->train.exchange.packed = calloc(stage_edge_floats(plan), sizeof(uint16_t));
            assert_non_null(m->train.exchange.packed);
        }
        begin_stage(&m->stage, &m->state, plan, i);
        mailbox_init(&m->mailbox);
    }
    links_connect(plan, exchanges);
}

static void members_end(struct member *members, const struct plan *plan)
{
    for (int i = 0; i < plan->n_workers; i++) {
        struct member *m = &members[i];

        assert_int_equal(link_close(m->train.exchange.link, LINKS_TIMEOUT_MS, NULL), ERR_OK);
        free(m->train.exchange.packed);
        score_deinit(&m->train.score);
        mailbox_deinit(&m->mailbox);
        stage_deinit(&m->stage);
        state_deinit(&m->state);
        if (m->train.loader)
            loader_deinit(&m->loader);
    }
    free(members);
}

/* Train as `plan` has it. */
static struct member *train_members(struct plan *plan)
{
    struct member *members = calloc(MEMBERS_MAX, sizeof *members);

    assert_non_null(members);
    members_begin(members, plan);
    home.units = home.worker > 0 ? members[home.worker].state.units : NULL;
    for (int i = 0; i < plan->n_workers; i++)
        assert_int_equal(pthread_create(&members[i].thread, NULL, run_member, &members[i]), 0);
    for (int i = 0; i < plan->n_workers; i++)
        assert_int_equal(pthread_join(members[i].thread, NULL), 0);
    for (int i = 0; i < plan->n_workers; i++)
        if (members[i].rc != ERR_OK)
            fail_msg("worker %d: %s", i, members[i].err.text);
    return members;
}

/* All workers were there for every step, and their stages for every token of their replica:
 * together as many as one worker for all. */
static void check_tally(const struct plan *plan, const struct member *members,
                        const struct tally *one)
{
    int64_t n_tokens = 0;

    for (int i = 0; i < plan->n_workers; i++) {
        const struct tally *t = &members[i].mailbox.tally;
        int first = plan_replica(plan, plan->workers[i].replica).first_worker;

        assert_int_equal(t->n_steps, one->n_steps);
        assert_int_equal(t->n_tokens, members[first].mailbox.tally.n_tokens);
        n_tokens += i == first ? t->n_tokens : 0;
    }
    assert_int_equal(n_tokens, one->n_tokens);
}

/* Likewise, and compare with a run of one worker. */
static void check_members(struct plan *plan, const struct trained *one)
{
    struct member *members = train_members(plan);
    const struct progress *leader = &members[0].train.progress;

    assert_int_equal(one->rc, ERR_OK);
    for (int i = 0; i < plan->n_workers; i++) {
        const struct weights *w = &members[i].stage.weights;

        for (int u = 0; u < w->n_units; u++)
            assert_memory_equal(w->units[u].params,
                                one->stage.weights.units[w->first_unit + u].params,
                                w->units[u].count * sizeof(float));
    }
    check_tally(plan, members, &one->tally);
    assert_true(leader->loss == one->progress.loss);
    assert_int_equal(leader->n_metrics, one->progress.n_metrics);
    for (int i = 0; i < one->progress.n_metrics; i++)
        assert_true(leader->metrics[i].value == one->progress.metrics[i].value);
    members_end(members, plan);
}

/* Cut the plan: the units of each worker; 0 begins the next replica. */
static void cut(struct plan *plan, const int units[])
{
    int n_units = model_units(&plan->spec.model);
    int replica = 0, unit = 0;

    for (plan->n_workers = 0; units[plan->n_workers] > 0; plan->n_workers++) {
        struct plan_worker *w = &plan->workers[plan->n_workers];

        *w = (struct plan_worker){
            .replica = replica, .first_unit = unit, .n_units = units[plan->n_workers]};
        unit += w->n_units;
        if (unit == n_units) {
            unit = 0;
            replica++;
        }
    }
    assert_int_equal(unit, 0);
}

static struct plan make_members_plan(const struct row *row, int n_steps)
{
    struct plan plan;

    make_plan(&plan, row, n_steps);
    plan.micro_batches = BATCH;
    plan.spec.training.evaluate_every = 2;
    return plan;
}

/* Eight micro-batches through four stages: the second one has three inputs in use, and their
 * messages are not given back before their backward passes. Evaluations come in between. */
static void train_over_links_gives_the_bits_of_one_stage(void **state)
{
    static const struct row row = {
        .task = "MNLI", .head = MODEL_HEAD_CLASSIFIER, .optimizer = SPEC_OPTIMIZER_SGD};
    struct plan plan = make_members_plan(&row, 6);
    struct trained *one = run(&plan, false);

    (void)state;
    cut(&plan, (const int[]){2, 2, 2, 1, 0});
    check_members(&plan, one);
    trained_free(one);
}

/* Replicas, and one of them alone whose micro-batches are grouped alike. */
struct replicas {
    const char *name;
    struct row row;
    int n_shares;
    int shares[PLAN_SHARES_MAX];
    int units[MEMBERS_MAX + 1];
};

static struct replicas replicas[] = {
    {"replicas_give_the_bits_of_one_with_their_shares",
     {.task = "MNLI", .head = MODEL_HEAD_CLASSIFIER, .optimizer = SPEC_OPTIMIZER_ADAMW},
     2,
     {5, 3},
     {7, 7}},
    {"replicas_that_are_cut_differently_give_the_same_bits",
     {.task = "MNLI", .head = MODEL_HEAD_CLASSIFIER, .optimizer = SPEC_OPTIMIZER_SGD},
     2,
     {3, 5},
     {2, 4, 1, 3, 4}},
    {"three_replicas_add_in_their_order",
     {.task = "MNLI", .head = MODEL_HEAD_CLASSIFIER, .optimizer = SPEC_OPTIMIZER_ADAMW},
     3,
     {3, 2, 3},
     {7, 4, 3, 2, 5}},
    {"replicas_of_a_regression_give_the_same_bits",
     {.task = "STSB", .head = MODEL_HEAD_REGRESSION, .optimizer = SPEC_OPTIMIZER_ADAMW},
     2,
     {4, 4},
     {3, 4, 7}},
    {"replicas_of_a_masked_lm_give_the_same_bits",
     {.task = "MaskedLM", .head = MODEL_HEAD_MASKED_LM, .optimizer = SPEC_OPTIMIZER_ADAMW},
     2,
     {5, 3},
     {3, 3, 2, 4}},
    {"replicas_of_a_pretraining_give_the_same_bits",
     {.task = "Pretraining", .head = MODEL_HEAD_PRETRAINING, .optimizer = SPEC_OPTIMIZER_ADAMW},
     3,
     {2, 3, 3},
     {3, 3, 6, 4, 2}},
};

static void check_replicas(void **state)
{
    const struct replicas *r = *state;
    struct plan plan = make_members_plan(&r->row, 6);
    struct trained *one;

    plan.n_shares = r->n_shares;
    memcpy(plan.shares, r->shares, sizeof plan.shares);
    one = run(&plan, false);
    cut(&plan, r->units);
    check_members(&plan, one);
    trained_free(one);
}

/* Also of one pipeline of several stages: the decoder's gradient is added share by share. */
static void shares_of_a_pipeline_give_the_bits_of_one_stage(void **state)
{
    struct plan plan = make_members_plan(&replicas[4].row, 6);
    struct trained *one;

    (void)state;
    plan.n_shares = 3;
    memcpy(plan.shares, (const int[]){2, 1, 5}, 3 * sizeof(int));
    one = run(&plan, false);
    cut(&plan, (const int[]){2, 2, 2, 0});
    check_members(&plan, one);
    trained_free(one);
}

/* An epoch is 10, 10 and 4 sequences: in the last step the second replica has nothing to do. */
static void replicas_may_have_nothing_to_do_in_a_short_step(void **state)
{
    struct plan plan = make_sgd_plan(10, 10, 6);
    struct trained *one;

    (void)state;
    plan.n_shares = 2;
    plan.shares[0] = plan.shares[1] = 5;
    one = run(&plan, false);
    cut(&plan, (const int[]){4, 3, 7, 0});
    check_members(&plan, one);
    trained_free(one);
}

/* --- asynchronous replicas --- */

static struct plan make_free_plan(const struct row *row, int n_steps, const int units[])
{
    struct plan plan = make_members_plan(row, n_steps);

    cut(&plan, units);
    plan.n_shares = plan_n_replicas(&plan);
    plan.shares[0] = BATCH;
    for (int r = 1; r < plan.n_shares; r++) {
        plan.shares[r] = 1;
        plan.shares[0]--;
    }
    plan.spec.sync.protocol = SPEC_PROTOCOL_ASP;
    return plan;
}

/* Of the worker's stage: where its first replica has the unit. */
static const struct weights_unit *unit_of(const struct member *members, int n, int unit)
{
    for (int i = 0; i < n; i++) {
        const struct weights *w = &members[i].stage.weights;

        if (unit >= w->first_unit && unit < w->first_unit + w->n_units)
            return &w->units[unit - w->first_unit];
    }
    fail_msg("no worker has unit %d", unit);
    return NULL;
}

/* The largest difference of the weights that members have, by the largest of one's weights. */
static double distance(const struct plan *plan, const struct member *members,
                       const struct weights_unit *from)
{
    double most = 0;

    for (int u = 0; u < model_units(&plan->spec.model); u++) {
        const struct weights_unit *unit = unit_of(members, plan->n_workers, u);

        for (size_t i = 0; i < unit->count; i++)
            most = fmax(most, fabs((double)unit->params[i] - (double)from[u].params[i]));
    }
    return most;
}

/* The same training by one worker. */
static struct trained *run_alone(const struct plan *plan)
{
    struct plan whole = *plan;

    whole.n_workers = 1;
    whole.workers[0] = (struct plan_worker){.n_units = model_units(&plan->spec.model)};
    whole.spec.sync.protocol = SPEC_PROTOCOL_BSP;
    return run(&whole, false);
}

/* Wherever a unit is at home, and whichever worker has it as a guest. */
static void check_members_agree(struct plan *plan, int n_steps)
{
    struct trained *one = run_alone(plan);
    struct member *members = train_members(plan);

    check_tally(plan, members, &one->tally);
    trained_free(one);

    assert_int_equal(members[0].train.progress.step, n_steps);
    assert_true(isfinite(members[0].train.progress.loss));
    for (int i = 0; i < plan->n_workers; i++) {
        const struct weights *w = &members[i].stage.weights;

        assert_int_equal(members[i].state.step, n_steps);
        assert_int_equal(members[i].state.updates, n_steps);
        for (int u = 0; u < w->n_units; u++)
            assert_memory_equal(w->units[u].params,
                                unit_of(members, plan->n_workers, w->first_unit + u)->params,
                                w->units[u].count * sizeof(float));
    }
    members_end(members, plan);
}

static void check_boundary(const struct row *row, int switch_steps, const int units[])
{
    struct plan plan = make_free_plan(row, 6, units);

    if (switch_steps > 0)
        plan.spec.sync.protocol = SPEC_PROTOCOL_SWITCH;
    plan.spec.sync.switch_steps = switch_steps;
    check_members_agree(&plan, 6);
}

static void asynchronous_replicas_have_the_same_weights_at_a_boundary(void **state)
{
    (void)state;
    check_boundary(&replicas[0].row, 0, (const int[]){7, 2, 5, 4, 3, 0});
    check_boundary(&replicas[1].row, 0, (const int[]){2, 4, 1, 3, 4, 0});
    check_boundary(&replicas[4].row, 0, (const int[]){3, 3, 2, 4, 0});
}

static void replicas_that_switch_have_the_same_weights_at_a_boundary(void **state)
{
    (void)state;
    check_boundary(&replicas[0].row, 3, (const int[]){7, 2, 5, 4, 3, 0});
    check_boundary(&replicas[5].row, 1, (const int[]){3, 3, 6, 4, 2, 0});
}

/* Three replicas of which the first is quicker than the bound allows. */
static void asynchronous_replicas_keep_within_a_bound(void **state)
{
    struct plan plan = make_free_plan(&replicas[2].row, 12, (const int[]){7, 4, 3, 2, 5, 0});
    struct member *members;

    (void)state;
    plan.spec.training.evaluate_every = 0;
    plan.spec.sync.max_staleness = 1;
    members = train_members(&plan);
    assert_int_equal(members[0].state.step, 12);
    assert_in_range(members[0].train.progress.sync.staleness_max, 0, 1);
    members_end(members, &plan);
}

/* An epoch is a step of 23 sequences and one of a single sequence, which three tickets are without.
 */
static void asynchronous_replicas_take_tickets_without_sequences(void **state)
{
    struct plan plan = make_sgd_plan(23, 23, 40);

    (void)state;
    cut(&plan, (const int[]){7, 7, 7, 7, 0});
    plan.n_shares = 4;
    memcpy(plan.shares, (const int[]){6, 6, 6, 5}, 4 * sizeof(int));
    plan.spec.sync.protocol = SPEC_PROTOCOL_ASP;
    check_members_agree(&plan, 40);
}

/* Up to the switch nothing is different. */
static void replicas_that_have_yet_to_switch_give_the_bits_of_bsp(void **state)
{
    struct plan plan = make_members_plan(&replicas[0].row, 6);
    struct trained *one;

    (void)state;
    plan.n_shares = 2;
    plan.shares[0] = 5;
    plan.shares[1] = 3;
    one = run(&plan, false);
    cut(&plan, replicas[0].units);
    plan.spec.sync.protocol = SPEC_PROTOCOL_SWITCH;
    plan.spec.sync.switch_steps = 6;
    check_members(&plan, one);
    trained_free(one);
}

/* With a low rate and plain SGD, two updates of half a batch are nearly one of a whole: so what a
 * step does to the weights must be the same. The last step of an epoch has 4 sequences. */
struct way {
    enum spec_protocol protocol;
    int local_steps;
    enum spec_stragglers stragglers;
    enum spec_wire wire;
    int gradient_percent;
    int max_staleness;
    int n_steps; /* 0: 6 */
    double off;  /* of what the steps move the weights by, at most */
};

static void check_distance(struct way way)
{
    struct plan plan = make_sgd_plan(10, 10, way.n_steps > 0 ? way.n_steps : 6);
    struct plan start = plan;
    struct trained *one, *none;
    struct member *members;
    double moved, off;

    plan.spec.training.learning_rate = start.spec.training.learning_rate = 1e-3;
    plan.spec.training.schedule = SPEC_SCHEDULE_CONSTANT;
    one = run(&plan, false);
    start.spec.training.learning_rate = 0;
    none = run(&start, false);
    cut(&plan, (const int[]){4, 3, 7, 0});
    plan.n_shares = 2;
    plan.shares[0] = 7;
    plan.shares[1] = 3;
    plan.spec.sync.protocol = way.protocol;
    plan.spec.sync.local_steps = way.local_steps;
    plan.spec.sync.outer_rate = 1;
    plan.spec.sync.stragglers = way.stragglers;
    plan.spec.wire = way.wire;
    plan.spec.sync.gradient_percent = way.gradient_percent;
    plan.spec.sync.max_staleness = way.max_staleness;
    members = train_members(&plan);
    moved = distance(&plan, members, none->stage.weights.units);
    off = distance(&plan, members, one->stage.weights.units);
    assert_true(moved > 0);
    assert_true(off < way.off * moved);
    members_end(members, &plan);
    trained_free(one);
    trained_free(none);
}

static void tickets_move_the_weights_as_far_as_a_step(void **state)
{
    (void)state;
    check_distance((struct way){.protocol = SPEC_PROTOCOL_ASP, .off = 0.02});
}

/* How long a worker's thread is held up behind every piece of a gradient that it has sent. */
static atomic_int held_up_us;

enum err_code __real_exchange_send(struct exchange *x, struct exchange_key key, const void *meta,
                                   size_t meta_bytes, const float *tensor, size_t floats,
                                   struct err *err);
enum err_code __wrap_exchange_send(struct exchange *x, struct exchange_key key, const void *meta,
                                   size_t meta_bytes, const float *tensor, size_t floats,
                                   struct err *err);

enum err_code __wrap_exchange_send(struct exchange *x, struct exchange_key key, const void *meta,
                                   size_t meta_bytes, const float *tensor, size_t floats,
                                   struct err *err)
{
    const int us = atomic_load(&held_up_us);
    enum err_code rc = __real_exchange_send(x, key, meta, meta_bytes, tensor, floats, err);

    if (key.kind == MESSAGE_GRADS && us > 0)
        (void)usleep((useconds_t)us);
    return rc;
}

/* The weights that answer a ticket arrive, and the next one is computed, before the sender goes on.
 */
static void tickets_lose_no_gradient_to_a_sender_that_is_held_up(void **state)
{
    (void)state;
    held_up_us = 50000;
    check_distance((struct way){.protocol = SPEC_PROTOCOL_ASP, .off = 0.02});
    held_up_us = 0;
}

void __real_tickets_return(struct tickets *t, int replica, int64_t now_ms, bool is_skipped);
void __wrap_tickets_return(struct tickets *t, int replica, int64_t now_ms, bool is_skipped);
void __real_weights_update_part(const struct model *model, int unit, const struct weights_unit *u,
                                size_t at, size_t n, float *grads, const struct weights_step *step);
void __wrap_weights_update_part(const struct model *model, int unit, const struct weights_unit *u,
                                size_t at, size_t n, float *grads, const struct weights_step *step);

void __wrap_tickets_return(struct tickets *t, int replica, int64_t now_ms, bool is_skipped)
{
    __real_tickets_return(t, replica, now_ms, is_skipped);
    if (home.worker > 0)
        t->pace_ms[replica] = 1; /* so that none leaves its last tickets to the others */
    atomic_fetch_add(&home.n_returned, replica == 0);
}

void __wrap_weights_update_part(const struct model *model, int unit, const struct weights_unit *u,
                                size_t at, size_t n, float *grads, const struct weights_step *step)
{
    bool is_held = home.units && u >= home.units && u < home.units + MODEL_UNITS_MAX;

    while (is_held && atomic_load(&home.n_returned) >= home.from &&
           atomic_load(&home.n_returned) < home.until && atomic_fetch_sub(&home.n_waits, 1) > 0)
        (void)usleep(10000);
    __real_weights_update_part(model, unit, u, at, n, grads, step);
}

/* The bound keeps its replica from taking all tickets before the lead has returned two. */
static void check_standstill(int worker, struct way way)
{
    way.max_staleness = 6;
    way.n_steps = 12;
    home.worker = worker;
    home.from = 2;
    home.until = 6;
    atomic_store(&home.n_returned, 0);
    atomic_store(&home.n_waits, 1000);
    check_distance(way);
    assert_in_range(atomic_load(&home.n_waits), 1, 999);
    home.worker = 0;
}

static void tickets_go_on_and_lose_no_gradient_while_a_home_stands_still(void **state)
{
    (void)state;
    check_standstill(2, (struct way){.protocol = SPEC_PROTOCOL_ASP, .off = 0.02});
    check_standstill(
        2, (struct way){.protocol = SPEC_PROTOCOL_ASP, .wire = SPEC_WIRE_BF16, .off = 0.02});
}

static void steps_alone_move_the_weights_as_far_as_in_step(void **state)
{
    (void)state;
    check_distance((struct way){.protocol = SPEC_PROTOCOL_LOCAL, .local_steps = 1, .off = 0.02});
    check_distance((struct way){.protocol = SPEC_PROTOCOL_LOCAL, .local_steps = 4, .off = 0.02});
}

/* Gradients are rounded by up to one part in 512. */
static void gradients_of_replicas_may_travel_as_bfloat16(void **state)
{
    (void)state;
    check_distance(
        (struct way){.protocol = SPEC_PROTOCOL_BSP, .wire = SPEC_WIRE_BF16, .off = 0.004});
    check_distance(
        (struct way){.protocol = SPEC_PROTOCOL_ASP, .wire = SPEC_WIRE_BF16, .off = 0.02});
    check_distance((struct way){
        .protocol = SPEC_PROTOCOL_LOCAL, .local_steps = 2, .wire = SPEC_WIRE_BF16, .off = 0.02});
}

/* What has not travelled by the last step is missing. */
static void the_largest_gradients_alone_move_the_weights_most_of_the_way(void **state)
{
    (void)state;
    check_distance(
        (struct way){.protocol = SPEC_PROTOCOL_BSP, .gradient_percent = 50, .off = 0.02});
    check_distance((struct way){.protocol = SPEC_PROTOCOL_BSP, .gradient_percent = 10, .off = 0.1});
    check_distance((struct way){.protocol = SPEC_PROTOCOL_BSP, .gradient_percent = 1, .off = 0.2});
    check_distance((struct way){
        .protocol = SPEC_PROTOCOL_BSP, .wire = SPEC_WIRE_BF16, .gradient_percent = 10, .off = 0.1});
    check_distance((struct way){.protocol = SPEC_PROTOCOL_ASP, .gradient_percent = 10, .off = 0.4});
}

/* --- stragglers --- */

/* The test says which replicas lag, by the decider's questions, and Elastic's shares. */
static struct {
    int from, to; /* questions that are answered with the second replica; 0: none is */
    int n_asked;
    int n_added; /* steps and rounds of the first replica */
} lag;

bool __wrap_stragglers_add(struct stragglers *s, int replica, double ms, double elapsed_ms);
uint32_t __wrap_stragglers_found(const struct stragglers *s);
struct stragglers_answer __wrap_stragglers_answer(const struct stragglers *s,
                                                  const struct plan *plan, int64_t step);

bool __wrap_stragglers_add(struct stragglers *s, int replica, double ms, double elapsed_ms)
{
    (void)s;
    lag.n_added += replica == 0;
    if (ms < 0 || elapsed_ms <= 0)
        fail_msg("a step of %g ms with micro-batches of %g ms", elapsed_ms, ms);
    return false;
}

uint32_t __wrap_stragglers_found(const struct stragglers *s)
{
    (void)s;
    lag.n_asked++;
    return lag.n_asked >= lag.from && lag.n_asked < lag.to ? 2 : 0;
}

struct stragglers_answer __wrap_stragglers_answer(const struct stragglers *s,
                                                  const struct plan *plan, int64_t step)
{
    static const int firsts[] = {7, 3, 10, 0, 5, 9};
    struct stragglers_answer out = {.how = plan->spec.sync.stragglers};

    (void)s;
    memcpy(out.shares, plan->shares, sizeof out.shares);
    if (out.how == SPEC_STRAGGLERS_ELASTIC) {
        out.shares[0] = firsts[step % 6];
        out.shares[1] = plan->micro_batches - out.shares[0];
    }
    return out;
}

static void lag_at(int from, int to)
{
    lag.from = from;
    lag.to = to;
    lag.n_asked = lag.n_added = 0;
}

/* Shares that change from step to step, with all or nothing for a replica among them. */
static void other_shares_of_a_step_change_nothing_but_the_rounding(void **state)
{
    (void)state;
    lag_at(1, 100);
    check_distance((struct way){
        .protocol = SPEC_PROTOCOL_BSP, .stragglers = SPEC_STRAGGLERS_ELASTIC, .off = 1e-4});
    assert_int_equal(lag.n_asked, 6);
    lag_at(0, 0);
}

static void steps_out_of_step_for_a_while_move_the_weights_as_far(void **state)
{
    (void)state;
    lag_at(2, 3);
    check_distance((struct way){
        .protocol = SPEC_PROTOCOL_BSP, .stragglers = SPEC_STRAGGLERS_GREEDY, .off = 0.02});
    assert_in_range(lag.n_asked, 3, 5); /* a round is one question */
    lag_at(0, 0);
}

/* Two steps, a round of four, two steps more, and the rest asynchronous. */
static void steps_out_of_step_are_no_part_of_those_before_a_switch(void **state)
{
    struct plan plan = make_free_plan(&replicas[0].row, 12, (const int[]){7, 7, 0});
    struct member *members;

    (void)state;
    lag_at(2, 3);
    plan.spec.training.evaluate_every = 0;
    plan.spec.sync.protocol = SPEC_PROTOCOL_SWITCH;
    plan.spec.sync.switch_steps = 4;
    plan.spec.sync.stragglers = SPEC_STRAGGLERS_GREEDY;
    members = train_members(&plan);
    assert_int_equal(members[0].train.n_free, STRAGGLERS_ROUND);
    assert_int_equal(lag.n_added, 2 + 1 + 2);
    assert_int_equal(members[0].train.protocol, SPEC_PROTOCOL_ASP);
    assert_int_equal(members[1].state.step, 12);
    members_end(members, &plan);
    lag_at(0, 0);
}

static atomic_int n_met; /* units of workers, in mid-round */

void __real_homes_meet(struct homes *h, int64_t number, const struct homes_meeting *meeting);
void __wrap_homes_meet(struct homes *h, int64_t number, const struct homes_meeting *meeting);

void __wrap_homes_meet(struct homes *h, int64_t number, const struct homes_meeting *meeting)
{
    atomic_fetch_add(&n_met, 1);
    __real_homes_meet(h, number, meeting);
}

/* Replicas that train alone have the same weights wherever something else needs them: after 2, 4
 * and 6 steps. */
static void check_meetings(const struct row *row, enum spec_protocol protocol, int switch_steps,
                           int local_steps, const int units[])
{
    struct plan plan = make_free_plan(row, 6, units);

    plan.spec.sync.protocol = protocol;
    plan.spec.sync.switch_to = SPEC_LATER_LOCAL;
    plan.spec.sync.switch_steps = switch_steps;
    plan.spec.sync.local_steps = local_steps;
    plan.spec.sync.outer_rate = 0.7;
    plan.spec.sync.outer_momentum = 0.9;
    check_members_agree(&plan, 6);
}

static void replicas_that_train_alone_have_the_same_weights_at_an_evaluation(void **state)
{
    (void)state;
    n_met = 0;
    check_meetings(&replicas[0].row, SPEC_PROTOCOL_LOCAL, 0, 5, (const int[]){7, 2, 5, 4, 3, 0});
    check_meetings(&replicas[5].row, SPEC_PROTOCOL_SWITCH, 1, 5, (const int[]){3, 3, 6, 4, 2, 0});
    assert_int_equal(n_met, 0); /* the evaluation is due before */
}

/* All meet about each unit behind the first step, and have the same weights behind the second. */
static void replicas_that_train_alone_meet_unit_by_unit_on_the_way(void **state)
{
    (void)state;
    n_met = 0;
    check_meetings(&replicas[0].row, SPEC_PROTOCOL_LOCAL, 0, 1, (const int[]){7, 2, 5, 4, 3, 0});
    assert_int_equal(n_met, 3 * (7 + 7 + 7));
    check_meetings(&replicas[1].row, SPEC_PROTOCOL_LOCAL, 0, 1, (const int[]){2, 4, 1, 3, 4, 0});
    check_meetings(&replicas[4].row, SPEC_PROTOCOL_LOCAL, 0, 1, (const int[]){3, 3, 2, 4, 0});
    check_meetings(&replicas[5].row, SPEC_PROTOCOL_SWITCH, 1, 1, (const int[]){3, 3, 6, 4, 2, 0});
}

/* Whatever the trainer does, the parts are all of its time, and no part has another one's. */
static void train_counts_where_its_time_goes(void **state)
{
    struct plan plan = make_members_plan(&replicas[1].row, 6);
    int64_t from_ns = clock_now_ns();
    struct trained *one = run(&plan, false);
    struct member *members;

    (void)state;
    assert_int_equal(one->tally.n_steps, 6);
    assert_true(one->tally.n_tokens > 0);
    assert_int_equal(one->tally.ns[TALLY_EXCHANGE], 0);
    plan.n_shares = 2;
    memcpy(plan.shares, replicas[1].shares, sizeof plan.shares);
    cut(&plan, replicas[1].units);
    members = train_members(&plan);
    for (int i = -1; i < plan.n_workers; i++) {
        const struct tally *t = i < 0 ? &one->tally : &members[i].mailbox.tally;
        int64_t sum_ns = 0;

        for (int part = 0; part < TALLY_PARTS; part++) {
            assert_true(t->ns[part] > 0 || part == TALLY_EXCHANGE);
            sum_ns += t->ns[part];
        }
        assert_true(sum_ns < clock_now_ns() - from_ns);
        assert_true(i < 0 || t->ns[TALLY_EXCHANGE] > 0);
    }
    members_end(members, &plan);
    trained_free(one);
}

static void train_needs_no_dev_file(void **state)
{
    struct plan plan = make_sgd_plan(8, 4, 3);
    char dev[64], away[64];
    struct trained *t;

    (void)state;
    (void)snprintf(dev, sizeof dev, "%s/dev_matched.tsv", scratch);
    (void)snprintf(away, sizeof away, "%s/away.tsv", scratch);
    assert_int_equal(rename(dev, away), 0);
    t = run(&plan, false);
    assert_int_equal(t->rc, ERR_OK);
    assert_int_equal(t->progress.n_metrics, 0);
    assert_int_equal(t->progress.step, 3);
    trained_free(t);
    assert_int_equal(rename(away, dev), 0);
}

static void train_without_steps_evaluates_and_changes_nothing(void **state)
{
    struct plan plan = make_sgd_plan(8, 4, 0);
    struct state *before = calloc(1, sizeof *before);
    int n_units = model_units(&plan.spec.model);
    char data[64], away[64];
    struct trained *t;

    (void)state;
    plan.spec.training.evaluates_only = true;
    (void)snprintf(data, sizeof data, "%s/train.tsv", scratch);
    (void)snprintf(away, sizeof away, "%s/away.tsv", scratch);
    assert_int_equal(rename(data, away), 0);
    t = run(&plan, false);
    assert_int_equal(rename(away, data), 0);
    assert_int_equal(t->rc, ERR_OK);
    assert_int_equal(t->progress.step, 0);
    assert_int_equal(t->progress.n_metrics, 2);
    assert_int_equal(t->tally.n_tokens, 0);
    assert_int_equal(t->tally.ns[TALLY_FORWARD], 0);
    assert_non_null(before);
    assert_int_equal(state_add(before, &plan.spec, 0, n_units, NULL), ERR_OK);
    for (int u = 0; u < n_units; u++)
        assert_memory_equal(before->units[u].params, t->stage.weights.units[u].params,
                            model_unit_params(&plan.spec.model, u) * sizeof(float));
    state_deinit(before);
    free(before);
    trained_free(t);
}

static void train_without_steps_or_anything_to_evaluate_is_refused(void **state)
{
    struct plan plan = make_sgd_plan(8, 4, 0);
    struct loader_params params = {
        .spec = &plan.spec, .micro_batches = plan.micro_batches, .folder = scratch};
    char dev[64], away[64];
    struct loader loader;
    struct err err;

    (void)state;
    plan.spec.training.evaluates_only = true;
    (void)snprintf(dev, sizeof dev, "%s/dev_matched.tsv", scratch);
    (void)snprintf(away, sizeof away, "%s/away.tsv", scratch);
    assert_int_equal(rename(dev, away), 0);
    assert_int_equal(loader_init(&loader, &params, &err), ERR_INVALID);
    assert_int_equal(rename(away, dev), 0);
    assert_non_null(strstr(err.text, "nothing to evaluate"));
}

static void train_fails_when_every_step_was_left_out(void **state)
{
    struct plan plan = make_sgd_plan(8, 4, 3);
    struct trained *t;

    (void)state;
    plan.spec.training.non_finite = SPEC_NON_FINITE_SKIP;
    t = run(&plan, true);
    assert_int_equal(t->rc, ERR_LIMIT);
    assert_int_equal(t->progress.skipped_steps, 3);
    assert_non_null(strstr(t->err.text, "nothing was learned: all 3 steps were skipped"));
    trained_free(t);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(train_weighs_a_smaller_batch_by_its_own_sequences),
        cmocka_unit_test(train_learns_the_same_from_fewer_and_unequal_micro_batches),
        cmocka_unit_test(train_over_links_gives_the_bits_of_one_stage),
        cmocka_unit_test(shares_of_a_pipeline_give_the_bits_of_one_stage),
        cmocka_unit_test(replicas_may_have_nothing_to_do_in_a_short_step),
        cmocka_unit_test(asynchronous_replicas_have_the_same_weights_at_a_boundary),
        cmocka_unit_test(replicas_that_switch_have_the_same_weights_at_a_boundary),
        cmocka_unit_test(asynchronous_replicas_keep_within_a_bound),
        cmocka_unit_test(asynchronous_replicas_take_tickets_without_sequences),
        cmocka_unit_test(replicas_that_have_yet_to_switch_give_the_bits_of_bsp),
        cmocka_unit_test(replicas_that_train_alone_have_the_same_weights_at_an_evaluation),
        cmocka_unit_test(replicas_that_train_alone_meet_unit_by_unit_on_the_way),
        cmocka_unit_test(steps_alone_move_the_weights_as_far_as_in_step),
        cmocka_unit_test(gradients_of_replicas_may_travel_as_bfloat16),
        cmocka_unit_test(the_largest_gradients_alone_move_the_weights_most_of_the_way),
        cmocka_unit_test(tickets_move_the_weights_as_far_as_a_step),
        cmocka_unit_test(tickets_lose_no_gradient_to_a_sender_that_is_held_up),
        cmocka_unit_test(tickets_go_on_and_lose_no_gradient_while_a_home_stands_still),
        cmocka_unit_test(other_shares_of_a_step_change_nothing_but_the_rounding),
        cmocka_unit_test(steps_out_of_step_for_a_while_move_the_weights_as_far),
        cmocka_unit_test(steps_out_of_step_are_no_part_of_those_before_a_switch),
        cmocka_unit_test(train_counts_where_its_time_goes),
        cmocka_unit_test(train_needs_no_dev_file),
        cmocka_unit_test(train_without_steps_evaluates_and_changes_nothing),
        cmocka_unit_test(train_without_steps_or_anything_to_evaluate_is_refused),
        cmocka_unit_test(train_fails_when_every_step_was_left_out),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, check_row);
    SUITE_ROWS(&suite, replicas, check_replicas);
    return suite_run(&suite, "train", set_up, scratch_remove);
}
