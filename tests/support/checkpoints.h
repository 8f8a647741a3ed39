/* Checkpoints of a tiny model: every float has a value that depends on the step, the unit, whether
 * it is a parameter or a moment, and its place, so that nothing can be taken for anything else. */
#ifndef CHECKPOINTS_H
#define CHECKPOINTS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "files/store.h"
#include "tiny_model.h"

static const struct model tiny_model = TINY_MODEL;

struct cut {
    int n_stages;
    struct plan_home stages[TINY_UNITS];
};

__attribute__((unused)) static const struct cut whole = {.n_stages = 1,
                                                         .stages = {{.n_units = TINY_UNITS}}};
__attribute__((unused)) static const struct cut two = {
    .n_stages = 2, .stages = {{.n_units = 2}, {.first_unit = 2, .n_units = 3}}};
__attribute__((unused)) static const struct cut three = {
    .n_stages = 3,
    .stages = {{.n_units = 1}, {.first_unit = 1, .n_units = 2}, {.first_unit = 3, .n_units = 2}}};

/* Float `i` of a unit; `kind` 0 is a parameter, 1 the moment, 2 the variance. */
static inline float checkpoints_float(const struct resume_checkpoint *c, int unit, int kind,
                                      size_t i)
{
    return (float)(c->lineage * 1000 + c->end.step * 10 + unit) + (float)kind / 4 + (float)i / 512;
}

static inline struct store_point checkpoints_point(int64_t lineage, int64_t step)
{
    return (struct store_point){.at = {.lineage = lineage,
                                       .end = {.revision = 3,
                                               .step = step,
                                               .outcome = STEP_SKIP,
                                               .scale = 0.1 + (double)step,
                                               .rate = 2e-5,
                                               .updates = step - 1,
                                               .loss = (double)NAN}}};
}

static inline struct export_params checkpoints_params(const struct cut *cut)
{
    struct export_params p = {.model = &tiny_model, .n_shards = cut->n_stages, .dropout = 0.1};

    memcpy(p.shards, cut->stages, sizeof cut->stages);
    return p;
}

/* Hand over one unit after the other, each in pieces. */
static inline enum err_code checkpoints_put(struct store_writer *w,
                                            const struct resume_checkpoint *c, int first, int n,
                                            bool has_variance, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (int unit = first; unit < first + n; unit++)
        for (int kind = 0; kind < (has_variance ? 3 : 2) && rc == ERR_OK; kind++) {
            size_t count = model_unit_params(&tiny_model, unit);
            float floats[TINY_FLOATS_MAX];

            assert_true(count <= TINY_FLOATS_MAX);
            for (size_t i = 0; i < count; i++)
                floats[i] = checkpoints_float(c, unit, kind, i);
            rc = store_put(w, floats, count / 3, err);
            if (rc == ERR_OK)
                rc = store_put(w, floats + count / 3, count - count / 3, err);
        }
    return rc;
}

/* The leader's records: they have the step too. */
struct checkpoints_records {
    char history[64];
    char progress[64];
};

static inline struct checkpoints_records checkpoints_records(const struct resume_checkpoint *c)
{
    struct checkpoints_records r;

    (void)snprintf(r.history, sizeof r.history, "{\"lineage\":%lld,\"step\":%lld}\n",
                   (long long)c->lineage, (long long)c->end.step);
    (void)snprintf(r.progress, sizeof r.progress, "{\"of\":\"%lld-%lld\"}", (long long)c->lineage,
                   (long long)c->end.step);
    return r;
}

static inline enum err_code checkpoints_finish(struct store_writer *w,
                                               const struct resume_checkpoint *c, int stage,
                                               struct err *err)
{
    struct checkpoints_records r = checkpoints_records(c);
    struct store_records records = {.history = r.history,
                                    .n_history = strlen(r.history),
                                    .progress = r.progress,
                                    .n_progress = strlen(r.progress)};

    return store_finish(w, stage == 0 ? &records : NULL, err);
}

/* The shard of one stage. */
static inline enum err_code checkpoints_write_stage(const struct store *s,
                                                    const struct store_point *point,
                                                    const struct cut *cut, int stage,
                                                    bool has_variance, struct err *err)
{
    const struct plan_home *own = &cut->stages[stage];
    struct export_params params = checkpoints_params(cut);
    struct store_writer *w;
    enum err_code rc = store_begin(s, point, &params, stage, has_variance, &w, err);

    if (rc != ERR_OK)
        return rc;
    rc = checkpoints_put(w, &point->at, own->first_unit, own->n_units, has_variance, err);
    if (rc == ERR_OK)
        return checkpoints_finish(w, &point->at, stage, err);
    store_abandon(w);
    return rc;
}

static inline void checkpoints_write(const struct store *s, const struct store_point *point,
                                     const struct cut *cut, bool has_variance)
{
    struct err err = {.text = ""};

    for (int stage = cut->n_stages - 1; stage >= 0; stage--)
        if (checkpoints_write_stage(s, point, cut, stage, has_variance, &err) != ERR_OK)
            fail_msg("%s", err.text);
}

/* Read all of it. ERR_PROTOCOL when what is read is not what was written. */
static inline enum err_code checkpoints_read(const struct store *s,
                                             const struct resume_checkpoint *c, bool has_variance,
                                             struct err *err)
{
    struct checkpoints_records want = checkpoints_records(c);
    struct buf history = {.max = 1000};
    struct buf progress = {.max = 1000};
    struct store_reader *r = NULL;
    float floats[3][TINY_FLOATS_MAX];
    enum err_code rc = store_read(s, c, &tiny_model, has_variance, &r, err);

    if (rc == ERR_OK)
        rc = store_read_records(r, &history, &progress, err);
    if (rc == ERR_OK && (strcmp(buf_text(&history), want.history) != 0 ||
                         strcmp(buf_text(&progress), want.progress) != 0))
        rc = err_set(err, ERR_PROTOCOL, "other records: %s", buf_text(&history));
    for (int unit = 0; unit < TINY_UNITS && rc == ERR_OK; unit++) {
        rc = store_read_unit(r, unit, floats[0], floats[1], has_variance ? floats[2] : NULL, err);
        for (int kind = 0; kind < (has_variance ? 3 : 2); kind++)
            for (size_t i = 0; i < model_unit_params(&tiny_model, unit) && rc == ERR_OK; i++)
                if (floats[kind][i] != checkpoints_float(c, unit, kind, i))
                    rc = err_set(err, ERR_PROTOCOL, "unit %d, kind %d: float %zu is %g", unit, kind,
                                 i, (double)floats[kind][i]);
    }
    store_close(r);
    buf_deinit(&history);
    buf_deinit(&progress);
    return rc;
}

#endif
