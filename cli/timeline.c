#include "cli/timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/progress.h"

#define NAME_BYTES 160
#define SOURCE                                                                                     \
    "the schedule of a step with the medians that were measured, not a recording; stages without " \
    "a measurement have the predicted time"

const char *const timeline_kind_names[TIMELINE_KINDS] = {"forward", "backward", "idle", "exchange"};

int timeline_place(const struct timeline_params *p, int stage)
{
    int first = stage;

    while (first > 0 && p->stages[first - 1].replica == p->stages[stage].replica)
        first--;
    return stage - first;
}

/* A replica, while its passes are being put in time. */
struct pipe {
    int first_stage;
    struct schedule schedule;
    double *ends[2];             /* [S,M] of forward and backward passes; negative: not known yet */
    int n_done[SPEC_STAGES_MAX]; /* passes of each stage */
    double free_ms[SPEC_STAGES_MAX]; /* when each has ended them */
};

static double *end_of(const struct pipe *p, bool is_backward, int stage, int microbatch)
{
    int m = microbatch - p->schedule.first_microbatch;

    return &p->ends[is_backward][stage * p->schedule.n_microbatches + m];
}

/* When the input of a pass is there; negative: not known yet. The first stage makes its own, and
 * the last one goes back from its own output; in a serial
 * step the micro-batch before has to be back first. */
static double ready_ms(const struct pipe *p, int stage, struct schedule_op op)
{
    int before = op.is_backward ? stage + 1 : stage - 1;

    if (op.is_backward && before < p->schedule.n_stages)
        return *end_of(p, true, before, op.microbatch);
    if (!op.is_backward && before >= 0)
        return *end_of(p, false, before, op.microbatch);
    if (!op.is_backward && p->schedule.is_serial && op.microbatch > p->schedule.first_microbatch)
        return *end_of(p, true, stage, op.microbatch - 1);
    return 0;
}

static double duration_ms(const struct timeline_params *params, int stage, bool is_backward)
{
    double forward = params->recomputes ? 1.0 / 4 : 1.0 / 3;

    return params->stages[stage].ms * (is_backward ? 1 - forward : forward);
}

/* As many passes of a stage as can be put in time; returns how many. */
static int advance(const struct timeline_params *params, struct pipe *p, int stage)
{
    int n = 0;

    while (p->n_done[stage] < schedule_length(&p->schedule)) {
        struct schedule_op op = schedule_op(&p->schedule, stage, p->n_done[stage]);
        double ready = ready_ms(p, stage, op);

        if (ready < 0)
            break;
        p->free_ms[stage] = fmax(p->free_ms[stage], ready) +
                            duration_ms(params, p->first_stage + stage, op.is_backward);
        *end_of(p, op.is_backward, stage, op.microbatch) = p->free_ms[stage];
        p->n_done[stage]++;
        n++;
    }
    return n;
}

static void run(const struct timeline_params *params, struct pipe *p)
{
    int n_passes = p->schedule.n_stages * p->schedule.n_microbatches;
    int n = 1;

    for (int i = 0; i < n_passes; i++)
        p->ends[0][i] = p->ends[1][i] = -1;
    while (n > 0) {
        n = 0;
        for (int stage = 0; stage < p->schedule.n_stages; stage++)
            n += advance(params, p, stage);
    }
}

/* --- as spans --- */

static void add_span(struct timeline *t, struct timeline_span span)
{
    if (span.ms > 0)
        t->spans[t->n_spans++] = span; /* reserved, see check() */
}

static void add_stage(struct timeline *t, const struct pipe *p, int stage, bool exchanges_early)
{
    int global = p->first_stage + stage;
    double at = 0;
    double exchange_ms;

    for (int i = 0; i < schedule_length(&p->schedule); i++) {
        struct schedule_op op = schedule_op(&p->schedule, stage, i);
        double ms = duration_ms(&t->params, global, op.is_backward);
        double end = *end_of(p, op.is_backward, stage, op.microbatch);

        add_span(t, (struct timeline_span){TIMELINE_IDLE, global, -1, at, end - ms - at});
        add_span(t, (struct timeline_span){op.is_backward ? TIMELINE_BACKWARD : TIMELINE_FORWARD,
                                           global, op.microbatch, end - ms, ms});
        at = end;
    }
    exchange_ms = exchanges_early ? at : t->passes_end_ms;
    add_span(t, (struct timeline_span){TIMELINE_IDLE, global, -1, at, exchange_ms - at});
    add_span(t, (struct timeline_span){TIMELINE_EXCHANGE, global, -1, exchange_ms,
                                       t->end_ms - exchange_ms});
}

/* --- all replicas --- */

static enum err_code check(const struct timeline_params *p, size_t *out_passes, size_t *out_spans,
                           struct err *err)
{
    *out_passes = *out_spans = 0;
    if (p->n_stages < 1)
        return err_set(err, ERR_INVALID, "there are no stages");
    for (int i = 0; i < p->n_stages; i++) {
        int m = p->micro_batches[p->stages[i].replica];

        if (!(p->stages[i].ms > 0) || p->stages[i].ms > PROGRESS_MS_MAX)
            return err_set(err, ERR_INVALID, "the time of stage %d on %.60s is not known",
                           timeline_place(p, i), p->stages[i].node);
        if (m < 0 || (size_t)m > TIMELINE_SPANS_MAX)
            return err_set(err, ERR_LIMIT, "%d micro-batches", m);
        *out_passes += (size_t)m;
        *out_spans += 4 * (size_t)m + 2; /* each pass with the wait before it; the end */
    }
    if (*out_spans > TIMELINE_SPANS_MAX)
        return err_set(err, ERR_LIMIT, "more than %zu passes and waits in a step",
                       TIMELINE_SPANS_MAX);
    return ERR_OK;
}

/* Put all pipelines in time, with their passes in `ends`; returns how many there are. */
static int run_all(const struct timeline_params *params, struct pipe *pipes, double *ends)
{
    int n_microbatches = 0;
    int n = 0;

    for (int i = 0; i < params->n_stages; i++) {
        int m = params->micro_batches[params->stages[i].replica];
        struct pipe *p;

        if (timeline_place(params, i) > 0)
            continue;
        p = &pipes[n++];
        *p = (struct pipe){.first_stage = i,
                           .schedule = {.n_stages = 1,
                                        .n_microbatches = m,
                                        .is_serial = params->is_serial,
                                        .first_microbatch = n_microbatches}};
        while (i + p->schedule.n_stages < params->n_stages &&
               params->stages[i + p->schedule.n_stages].replica == params->stages[i].replica)
            p->schedule.n_stages++;
        for (int k = 0; k < 2; k++) {
            p->ends[k] = ends;
            ends += p->schedule.n_stages * m;
        }
        n_microbatches += m;
        run(params, p);
    }
    return n;
}

enum err_code timeline_make(const struct timeline_params *params, struct timeline *out,
                            struct err *err)
{
    struct timeline t = {.params = *params};
    struct pipe *pipes = calloc(SPEC_STAGES_MAX, sizeof *pipes);
    double *ends = NULL;
    size_t n_passes, n_spans;
    int n = 0;
    enum err_code rc = check(params, &n_passes, &n_spans, err);

    if (rc == ERR_OK)
        rc = array_reserve(&t.spans, sizeof *t.spans, &t.max_spans, n_spans, err);
    if (rc == ERR_OK && (!pipes || !(ends = calloc(2 * n_passes + 1, sizeof *ends))))
        rc = err_set(err, ERR_NO_MEMORY, "no memory for a timeline");
    if (rc != ERR_OK)
        goto out;
    n = run_all(params, pipes, ends);
    for (int i = 0; i < n; i++)
        for (int s = 0; s < pipes[i].schedule.n_stages; s++)
            t.passes_end_ms = fmax(t.passes_end_ms, pipes[i].free_ms[s]);
    t.end_ms = fmax(t.passes_end_ms, params->step_ms);
    /* Replicas exchange the gradients of a unit behind its last backward pass. */
    for (int i = 0; i < n; i++)
        for (int s = 0; s < pipes[i].schedule.n_stages; s++)
            add_stage(&t, &pipes[i], s, n > 1);
    *out = t;
    t = (struct timeline){.spans = NULL};
out:
    timeline_deinit(&t);
    free(pipes);
    free(ends);
    return rc;
}

void timeline_deinit(struct timeline *t)
{
    free(t->spans);
    *t = (struct timeline){.spans = NULL};
}

/* --- as a trace --- */

/* Perfetto keeps 0 for the kernel's idle process, and takes threads of one number for the same
 * (github.com/google/perfetto/issues/394). */
static void write_place(const struct timeline *t, int stage, struct jsonw *w)
{
    jsonw_int(w, "pid", t->params.stages[stage].replica + 1);
    jsonw_int(w, "tid", stage + 1);
}

static void write_name(const struct timeline *t, int stage, const char *kind, const char *name,
                       struct jsonw *w)
{
    jsonw_open_object(w, NULL);
    jsonw_string(w, "name", kind);
    jsonw_string(w, "ph", "M");
    write_place(t, stage, w);
    jsonw_open_object(w, "args");
    jsonw_string(w, "name", name);
    jsonw_close(w);
    jsonw_close(w);
}

static void write_names(const struct timeline *t, struct jsonw *w)
{
    for (int i = 0; i < t->params.n_stages; i++) {
        const struct timeline_stage *s = &t->params.stages[i];
        int place = timeline_place(&t->params, i);
        char name[NAME_BYTES + NODE_NAME_BYTES];

        (void)snprintf(name, sizeof name, "replica %d", s->replica);
        if (place == 0)
            write_name(t, i, "process_name", name, w);
        (void)snprintf(name, sizeof name, "stage %d on %s", place, s->node);
        write_name(t, i, "thread_name", name, w);
    }
}

static void write_span(const struct timeline *t, const struct timeline_span *s, struct jsonw *w)
{
    char name[NAME_BYTES];

    (void)snprintf(name, sizeof name, s->microbatch < 0 ? "%s" : "%s %d",
                   timeline_kind_names[s->kind], s->microbatch);
    jsonw_open_object(w, NULL);
    jsonw_string(w, "name", name);
    jsonw_string(w, "cat", timeline_kind_names[s->kind]);
    jsonw_string(w, "ph", "X");
    jsonw_double(w, "ts", round(s->from_ms * 1e6) / 1e3);
    jsonw_double(w, "dur", round(s->ms * 1e6) / 1e3);
    write_place(t, s->stage, w);
    jsonw_open_object(w, "args");
    if (s->microbatch >= 0)
        jsonw_int(w, "microBatch", s->microbatch);
    jsonw_bool(w, "measured", t->params.stages[s->stage].is_measured);
    jsonw_close(w);
    jsonw_close(w);
}

enum err_code timeline_trace(const struct timeline *t, const char *job, struct buf *out,
                             struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "displayTimeUnit", "ms");
    jsonw_open_object(&w, "otherData");
    jsonw_string(&w, "job", job);
    jsonw_string(&w, "source", SOURCE);
    jsonw_close(&w);
    jsonw_open_array(&w, "traceEvents");
    write_names(t, &w);
    for (size_t i = 0; i < t->n_spans; i++)
        write_span(t, &t->spans[i], &w);
    jsonw_close(&w);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}
