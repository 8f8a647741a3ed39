#include "crew.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "tcp.h"

#define JOB_MS  100000 /* at most */
#define END_MS  10000  /* for workers that were released */
#define ASK_MS  20
#define TICK_MS 5 /* between two looks at the processes */

#define PATH_BYTES 256

struct member {
    bool is_up;
    int incarnation;
    pid_t pid;
    int exit_code; /* of the last one that has ended */
    int control_port, tensor_port;
    struct proxy *proxy;
};

struct crew {
    const struct crew_params *params;
    struct member members[CREW_SLOTS];
    struct hmac_key key;
    struct json *spec;
    struct spec parsed;
    struct http *http;
    struct fleet *fleet;
    struct follow *follow;
    struct revision revision; /* the newest */
    int at_cut;
    int n_kills;
    bool was_superseded;
    struct crew_result result;
};

/* --- processes --- */

static void add(struct crew *crew, int slot)
{
    const struct member *m = &crew->members[slot];
    struct follow_worker worker = {
        .id = {slot, m->incarnation},
        .control = {.host = TCP_LOCAL, .port = m->control_port, .key = crew->key},
        .host = TCP_LOCAL,
        .port = m->proxy ? proxy_port(m->proxy) : m->tensor_port};

    assert_int_equal(follow_add(crew->follow, &worker, NULL), ERR_OK);
}

/* Where a worker has its own checkpoints. */
static void points_of(const struct crew *crew, int slot, char out[static PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, "%s/points-%d", crew->params->folder, slot);
}

static void start(struct crew *crew, int slot)
{
    const struct crew_params *p = crew->params;
    struct member *m = &crew->members[slot];
    char number[16], incarnation[16], control[32], tensor[32], key[256], log[256], report[256];
    char points[PATH_BYTES];
    const char *argv[] = {
        p->program, "stage",     "--slot",    number,        "--incarnation",     incarnation,
        "--data",   p->data_dir, "--control", control,       "--tensor",          tensor,
        "--key",    key,         "--output",  p->output_dir, "--termination-log", report,
        NULL,       NULL,        NULL};
    int fd;

    m->incarnation++;
    m->is_up = true;
    crew->result.n_started++;
    (void)snprintf(number, sizeof number, "%d", slot);
    (void)snprintf(incarnation, sizeof incarnation, "%d", m->incarnation);
    (void)snprintf(control, sizeof control, "127.0.0.1:%d", m->control_port);
    (void)snprintf(tensor, sizeof tensor, "127.0.0.1:%d", m->tensor_port);
    (void)snprintf(key, sizeof key, "%s/key", p->folder);
    (void)snprintf(log, sizeof log, "%s/w%d.log", p->folder, slot);
    (void)snprintf(report, sizeof report, "%s/w%d.json", p->folder, slot);
    (void)snprintf(points, sizeof points, "%s/points", p->folder);
    if (p->has_own_checkpoints)
        points_of(crew, slot, points);
    if (p->has_checkpoints || p->has_own_checkpoints) {
        argv[sizeof argv / sizeof argv[0] - 3] =
            p->has_checkpoints ? "--checkpoints" : "--own-checkpoints";
        argv[sizeof argv / sizeof argv[0] - 2] = points;
    }
    m->pid = fork();
    assert_true(m->pid >= 0);
    if (m->pid > 0) {
        add(crew, slot);
        return;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when a test fails */
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd >= 0) {
        (void)dup2(fd, 1);
        (void)dup2(fd, 2);
    }
    (void)close_range(3, ~0u, 0);
    (void)execv(p->program, (char *const *)(uintptr_t)argv);
    _exit(127);
}

static void lose_disk(const struct crew *crew, int slot)
{
    char points[PATH_BYTES];
    char command[PATH_BYTES + 16];

    points_of(crew, slot, points);
    (void)snprintf(command, sizeof command, "rm -rf %s", points);
    assert_int_equal(system(command), 0);
}

static void note_ended(struct crew *crew, int slot, int status)
{
    struct member *m = &crew->members[slot];

    m->is_up = false;
    m->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    follow_remove(crew->follow, slot);
    if (crew->params->has_own_checkpoints && WIFSIGNALED(status))
        lose_disk(crew, slot);
}

static void look_at_processes(struct crew *crew)
{
    for (int i = 0; i < CREW_SLOTS; i++) {
        const struct member *m = &crew->members[i];
        int status;

        if (m->is_up && waitpid(m->pid, &status, WNOHANG) == m->pid)
            note_ended(crew, i, status);
    }
}

static void kill_member(struct crew *crew, int slot)
{
    const struct member *m = &crew->members[slot];
    int status;

    (void)kill(m->pid, SIGKILL);
    assert_int_equal(waitpid(m->pid, &status, 0), m->pid);
    note_ended(crew, slot, status);
}

/* --- revisions --- */

static struct plan next_plan(struct crew *crew)
{
    const struct crew_cut *cut = &crew->params->cuts[crew->at_cut];
    struct plan p = {.namespace = "default",
                     .job = "job",
                     .uid = "6f1c",
                     .revision = crew->revision.plan.revision + 1,
                     .saves_from_copy = !crew->params->has_own_checkpoints, /* each way once */
                     .spec = crew->parsed,
                     .micro_batches = crew->params->micro_batches,
                     .n_workers = cut->n_workers,
                     .summary = {.explanation = "a test"}};
    int unit = 0, replica = 0;

    for (int left = p.micro_batches; p.n_shares < crew->params->n_shares; p.n_shares++) {
        int share = left / (crew->params->n_shares - p.n_shares);

        if (p.n_shares == 0 && crew->params->first_shares)
            share = crew->params->first_shares[crew->at_cut];
        p.shares[p.n_shares] = share;
        left -= share;
    }
    for (int i = 0; i < cut->n_workers; i++) {
        int slot = cut->workers[i].slot;

        if (unit == model_units(&p.spec.model)) {
            unit = 0;
            replica++;
        }

        if (!crew->members[slot].is_up)
            start(crew, slot);
        p.workers[i] = (struct plan_worker){.slot = slot,
                                            .incarnation = crew->members[slot].incarnation,
                                            .replica = replica,
                                            .first_unit = unit,
                                            .n_units = cut->workers[i].n_units};
        (void)snprintf(p.workers[i].node, sizeof p.workers[i].node, "node-%d", slot);
        unit += cut->workers[i].n_units;
    }
    assert_int_equal(unit, model_units(&p.spec.model));
    return p;
}

/* The cut of the newest step that is done. */
static void choose_cut(struct crew *crew, const struct report *const reports[], int n_reports)
{
    const struct crew_params *p = crew->params;

    for (int i = 0; i < n_reports; i++)
        while (crew->at_cut + 1 < p->n_cuts &&
               p->cuts[crew->at_cut + 1].step <= reports[i]->end.step)
            crew->at_cut++;
}

/* Make the next revision of all reports. */
static void revise(struct crew *crew)
{
    const struct crew_params *p = crew->params;
    const struct report *reports[PEERS_MAX];
    int n = follow_reports(crew->follow, reports);
    struct resume last = crew->revision.resume;
    struct plan plan;
    struct err err;

    choose_cut(crew, reports, n);
    plan = next_plan(crew);
    n = follow_reports(crew->follow, reports); /* workers have been added */
    revision_make(&plan, reports, n, SOURCE_RANDOM, &last, &crew->revision);
    if (crew->at_cut + 1 < p->n_cuts)
        crew->revision.until = p->cuts[crew->at_cut + 1].step;
    for (int i = 0; i < CREW_SLOTS; i++)
        if (crew->members[i].is_up && revision_find(&crew->revision, i) < 0)
            kill_member(crew, i);
    crew->result.n_revisions++;
    for (int i = 0, had = crew->result.n_restores; i < crew->revision.resume.n_sources; i++)
        if (resume_is_saved(&crew->revision.resume.sources[i]))
            crew->result.n_restores = had + 1;
    if (p->on_post)
        p->on_post(p->ctx, crew->result.n_revisions);
    for (int i = 0; i < CREW_SLOTS && crew->result.n_revisions == 2; i++)
        if (crew->members[i].proxy)
            crew->result.n_messages_before[i] = proxy_messages(crew->members[i].proxy);
    if (follow_revise(crew->follow, &crew->revision, crew->spec, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

/* --- what goes on --- */

static int leader_of(const struct crew *crew)
{
    return crew->revision.plan.workers[0].slot;
}

/* Also when the leader was halted in the moment in which it was done, and so released. */
static bool is_done(const struct crew *crew)
{
    const struct member *leader = &crew->members[leader_of(crew)];

    return leader->is_up ? follow_phase(crew->follow) == RECOVER_END : leader->exit_code == 0;
}

/* One that is frozen, or hangs. */
static void end_overdue(struct crew *crew)
{
    struct recover_patience patience = crew->params->patience;
    int slot = follow_overdue(crew->follow, patience.halt_ms > 0 ? patience : RECOVER_PATIENCE,
                              clock_now_ms());

    if (slot >= 0)
        kill_member(crew, slot);
}

/* Checkpoints that the worker has begun in its own store. */
static int count_saves(const struct crew *crew, int slot)
{
    char points[PATH_BYTES];
    struct dirent *e;
    DIR *dir;
    int n = 0;

    points_of(crew, slot, points);
    dir = opendir(points);
    while (dir && (e = readdir(dir)))
        n += e->d_name[0] != '.';
    if (dir)
        (void)closedir(dir);
    return n;
}

static void kill_if_due(struct crew *crew)
{
    const struct crew_params *q = crew->params;
    const struct progress *p = follow_progress(crew->follow);
    int64_t due_step = crew->n_kills == 0 ? q->kill_step : q->kill_again_step;

    if (q->kill_slot < 0 || !p || p->step < due_step || crew->n_kills > (q->kill_again_step > 0) ||
        count_saves(crew, q->kill_slot) < q->kill_saves)
        return;
    crew->n_kills++;
    if (q->kill_signal == 0)
        kill_member(crew, q->kill_slot);
    else if (crew->members[q->kill_slot].is_up)
        (void)kill(crew->members[q->kill_slot].pid, q->kill_signal);
    if (q->kills_next)
        kill_member(crew, q->kill_slot + 1);
}

/* Once every worker has reported: of a session that runs, what it began with. */
static void supersede_if_due(struct crew *crew)
{
    const struct crew_params *p = crew->params;
    const struct report *reports[PEERS_MAX];

    if (!p->supersedes || crew->was_superseded || !p->supersedes(p->ctx) ||
        follow_reports(crew->follow, reports) < revision_n_workers(&crew->revision))
        return;
    crew->was_superseded = true;
    revise(crew);
}

/* One that has failed ends in a moment. */
static bool has_failed(const struct crew *crew)
{
    const struct report *reports[PEERS_MAX];
    bool has_failed = false;

    for (int i = follow_reports(crew->follow, reports) - 1; i >= 0; i--)
        has_failed = has_failed || reports[i]->session == REPORT_FAILED;
    return has_failed;
}

/* What follows from the answers that have come. */
static void go_on(struct crew *crew)
{
    enum recover_phase phase = follow_phase(crew->follow);

    if (follow_refusal(crew->follow))
        fail_msg("%s", follow_refusal(crew->follow));
    if (phase == RECOVER_REVISE && !has_failed(crew))
        revise(crew);
    else if (phase == RECOVER_RUN)
        supersede_if_due(crew);
    else if (phase == RECOVER_HALT)
        end_overdue(crew);
    kill_if_due(crew);
}

/* Make the calls that are due, and take the answers that come. */
static void step(struct crew *crew)
{
    int64_t wait_ms = follow_step(crew->follow, clock_now_ms());

    assert_int_equal(http_poll(crew->http, wait_ms < TICK_MS ? wait_ms : TICK_MS, NULL), ERR_OK);
    look_at_processes(crew);
}

/* --- the end --- */

/* The leader's last, which it writes before it reports that it is done. */
static void read_progress(const struct crew *crew, struct progress *out)
{
    struct buf text = {.max = PROGRESS_TEXT_MAX_BYTES};
    char path[256];

    (void)snprintf(path, sizeof path, "%s/w%d.json", crew->params->folder, leader_of(crew));
    assert_int_equal(file_read(path, &text, NULL), ERR_OK);
    assert_int_equal(progress_parse(text.data, text.len, out, NULL), ERR_OK);
    buf_deinit(&text);
}

/* Is none left but those that the leader's RELEASE has not reached? */
static bool have_left(const struct crew *crew)
{
    const struct report *reports[PEERS_MAX];
    int n_up = 0, n_halted = 0;

    for (int i = 0; i < CREW_SLOTS; i++)
        n_up += crew->members[i].is_up;
    for (int i = follow_reports(crew->follow, reports) - 1; i >= 0; i--)
        n_halted += reports[i]->session == REPORT_HALTED;
    return n_up == n_halted;
}

/* Release the leader, and those that have given their units. */
static void end(struct crew *crew)
{
    int64_t end_ms = clock_now_ms() + END_MS;

    read_progress(crew, &crew->result.progress);
    follow_release(crew->follow);
    while (!have_left(crew) && clock_now_ms() < end_ms)
        step(crew);
    for (int i = 0; i < CREW_SLOTS; i++) {
        const struct member *m = &crew->members[i];

        crew->result.n_alone += m->incarnation > 0 && !m->is_up && m->exit_code == 0;
        if (m->is_up)
            kill_member(crew, i);
    }
}

void crew_run(const struct crew_params *params, struct crew_result *out)
{
    static int ports[CREW_SLOTS][2]; /* new ones for each run would reach those of other programs */
    static struct crew crew;
    char text[HMAC_TEXT_BYTES], path[256];
    int64_t end_ms = clock_now_ms() + JOB_MS;
    struct err err;

    crew = (struct crew){.params = params};
    assert_int_equal(mkdir(params->folder, 0755), 0);
    assert_int_equal(json_parse(params->spec, strlen(params->spec), &crew.spec, NULL), ERR_OK);
    if (spec_parse(crew.spec, &crew.parsed, &err) != ERR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(hmac_key_make(&crew.key, NULL), ERR_OK);
    hmac_to_text(crew.key.bytes, text);
    (void)snprintf(path, sizeof path, "%s/key", params->folder);
    assert_int_equal(file_write(path, text, strlen(text), NULL), ERR_OK);
    assert_int_equal(http_new(&crew.http, NULL), ERR_OK);
    assert_int_equal(fleet_new(crew.http, &crew.fleet, NULL), ERR_OK);
    assert_int_equal(follow_new(crew.fleet, ASK_MS, &crew.follow, NULL), ERR_OK);
    for (int i = 0; i < CREW_SLOTS; i++) {
        if (ports[i][0] == 0) {
            ports[i][0] = tcp_quiet_port();
            ports[i][1] = tcp_quiet_port();
        }
        crew.members[i].control_port = ports[i][0];
        crew.members[i].tensor_port = ports[i][1];
        if (!params->has_proxies)
            continue;
        crew.members[i].proxy =
            proxy_start(TCP_LOCAL, 0, TCP_LOCAL, crew.members[i].tensor_port, &params->faults[i]);
        assert_non_null(crew.members[i].proxy);
    }
    revise(&crew);
    for (;;) {
        step(&crew);
        if (is_done(&crew))
            break;
        if (clock_now_ms() > end_ms)
            fail_msg("the job does not end; logs are in %s", params->folder);
        if (crew.result.n_revisions > 20)
            fail_msg("revision follows revision; logs are in %s", params->folder);
        go_on(&crew);
    }
    end(&crew);
    crew.result.lineage = crew.revision.resume.lineage;
    crew.result.last_step = crew.revision.resume.step;
    for (int i = 0; i < CREW_SLOTS; i++)
        if (crew.members[i].proxy) {
            crew.result.n_messages[i] = proxy_messages(crew.members[i].proxy);
            crew.result.n_faults += proxy_is_done(crew.members[i].proxy);
            proxy_stop(crew.members[i].proxy);
        }
    fleet_free(crew.fleet);
    follow_free(crew.follow);
    http_free(crew.http);
    json_free(crew.spec);
    *out = crew.result;
}
