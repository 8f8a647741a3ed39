#include "api/plan.h"

#include <limits.h>
#include <string.h>

#include "base/hash.h"

#define WORKER(member) FIELD_AT(struct plan_worker, member)
const struct field plan_worker_fields[] = {
    {"slot", FIELD_INT, WORKER(slot), .max = PLAN_SLOT_MAX, .flags = FIELD_REQUIRED},
    {"incarnation", FIELD_INT, WORKER(incarnation), .min = 1, .max = PLAN_REVISION_MAX,
     .flags = FIELD_REQUIRED},
    {"replica", FIELD_INT, WORKER(replica), .max = PLAN_REPLICAS_MAX - 1},
    {"firstUnit", FIELD_INT, WORKER(first_unit), .flags = FIELD_REQUIRED},
    {"unitCount", FIELD_INT, WORKER(n_units), .flags = FIELD_REQUIRED},
    {"units", FIELD_TEXT, WORKER(units)},
    {"node", FIELD_TEXT, WORKER(node), .flags = FIELD_REQUIRED},
    {"cpuMilli", FIELD_INT, WORKER(cpu_milli)},
    {"memoryBytes", FIELD_INT64, WORKER(memory_bytes)},
    {"predictedMicroseconds", FIELD_MICROSECONDS, WORKER(predicted_ms)},
    {0}};

static const struct field share_fields[] = {
    {"", FIELD_INT, FIELD_ENTRY(int), .min = 1, .max = INT_MAX, .flags = FIELD_REQUIRED}, {0}};

const struct field plan_excluded_fields[] = {
    {"node", FIELD_TEXT, FIELD_AT(struct plan_excluded, node), .min = 1, .flags = FIELD_REQUIRED},
    {"explanation", FIELD_TEXT, FIELD_AT(struct plan_excluded, reason)},
    {0}};

static const struct field alternative_fields[] = {
    {"strategy", FIELD_TEXT, FIELD_AT(struct plan_alternative, strategy)},
    {"stepMilliseconds", FIELD_DOUBLE, FIELD_AT(struct plan_alternative, step_ms)},
    {0}};

#define SUMMARY(member) FIELD_AT(struct plan_summary, member)
const struct field plan_summary_fields[] = {
    {"predictedStepMilliseconds", FIELD_DOUBLE, SUMMARY(predicted_step_ms)},
    {"boundMilliseconds", FIELD_DOUBLE, SUMMARY(bound_ms)},
    {"alternatives", FIELD_LIST, FIELD_ITEMS(struct plan_summary, alternatives, n_alternatives),
     .fields = alternative_fields},
    {"bottleneck", FIELD_INT, SUMMARY(bottleneck)},
    {"excludedNodes", FIELD_LIST, FIELD_ITEMS(struct plan_summary, excluded, n_excluded),
     .fields = plan_excluded_fields, .flags = FIELD_OMIT},
    {"excludedNodeCount", FIELD_INT, SUMMARY(n_excluded), .flags = FIELD_OMIT},
    {"explanation", FIELD_TEXT, SUMMARY(explanation), .flags = FIELD_REQUIRED},
    {0}};

/* The version, the summary and the spec are not in the table. */
/* What was chosen for spec.sync.protocol Auto; "": BSP, or it is not Auto. */
static const char *const chosen_words[] = {
    [SPEC_PROTOCOL_BSP] = "",
    [SPEC_PROTOCOL_ASP] = "ASP",
    [SPEC_PROTOCOL_LOCAL] = "Local",
    NULL,
};

#define AT(member) FIELD_AT(struct plan, member)
static const struct field fields[] = {
    {"namespace", FIELD_TEXT, AT(namespace), .flags = FIELD_REQUIRED},
    {"job", FIELD_TEXT, AT(job), .flags = FIELD_REQUIRED},
    {"uid", FIELD_TEXT, AT(uid), .flags = FIELD_REQUIRED},
    {"revision", FIELD_INT, AT(revision), .min = 1, .max = PLAN_REVISION_MAX,
     .flags = FIELD_REQUIRED},
    {"microBatches", FIELD_INT, AT(micro_batches), .flags = FIELD_REQUIRED},
    {"savesFromCopy", FIELD_BOOL, AT(saves_from_copy), .flags = FIELD_OMIT},
    {"serial", FIELD_BOOL, AT(is_serial), .flags = FIELD_OMIT},
    {"protocol", FIELD_ENUM, AT(spec.sync.chosen), .words = chosen_words, .flags = FIELD_OMIT},
    {"homesFollowShares", FIELD_BOOL, AT(homes_follow_shares), .flags = FIELD_OMIT},
    {"shares", FIELD_LIST, FIELD_ITEMS(struct plan, shares, n_shares), .fields = share_fields,
     .flags = FIELD_OMIT},
    {"workers", FIELD_LIST, FIELD_ITEMS(struct plan, workers, n_workers),
     .fields = plan_worker_fields, .flags = FIELD_REQUIRED},
    {0}};

void plan_add(const struct plan *p, const char *key, const struct json *spec, struct jsonw *w)
{
    jsonw_open_object(w, key);
    jsonw_int(w, "version", PLAN_VERSION);
    fields_write(fields, p, w);
    fields_write(plan_summary_fields, &p->summary, w);
    jsonw_value(w, "spec", spec);
    jsonw_close(w);
}

enum err_code plan_write(const struct plan *p, const struct json *spec, struct buf *out,
                         struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    plan_add(p, NULL, spec, &w);
    return jsonw_finish(&w, err);
}

static enum err_code check_workers(const struct plan *p, struct err *err)
{
    int n_units = model_units(&p->spec.model);
    int replica = 0, next = 0;

    for (int i = 0; i < p->n_workers; i++) {
        const struct plan_worker *w = &p->workers[i];

        if (plan_find(p, w->slot) != i)
            return err_set(err, ERR_INVALID, "workers[%d].slot: %d is given twice", i, w->slot);
        if (next == n_units && w->replica == replica + 1) {
            replica++;
            next = 0;
        }
        if (w->replica != replica)
            return err_set(err, ERR_INVALID,
                           "workers[%d].replica: %d, but replica %d has %d of %d units before it",
                           i, w->replica, replica, next, n_units);
        if (w->first_unit != next || w->n_units < 1 || w->n_units > n_units - next)
            return err_set(err, ERR_INVALID,
                           "workers[%d]: has %d units from unit %d; must have 1 to %d from unit %d",
                           i, w->n_units, w->first_unit, n_units - next, next);
        next += w->n_units;
    }
    if (next != n_units)
        return err_set(err, ERR_INVALID, "workers: replica %d has %d of %d units", replica, next,
                       n_units);
    return ERR_OK;
}

static enum err_code check_shares(const struct plan *p, struct err *err)
{
    int n_replicas = plan_n_replicas(p);
    int total = 0;

    for (int k = 0; k < p->n_shares; k++)
        total += p->shares[k];
    if (p->n_shares > 0 && total != p->micro_batches)
        return err_set(err, ERR_INVALID, "shares: have %d of %d micro-batches", total,
                       p->micro_batches);
    if (n_replicas > 1 && p->n_shares != n_replicas)
        return err_set(err, ERR_INVALID, "shares: there are %d for %d replicas", p->n_shares,
                       n_replicas);
    return ERR_OK;
}

static enum err_code read_plan(const struct json *json, struct plan *p, struct err *err)
{
    enum spec_protocol chosen;
    enum err_code rc;

    if (json_i64(json_get(json, "version"), 0) != PLAN_VERSION)
        return err_set(err, ERR_INVALID, "version: must be %d", PLAN_VERSION);
    rc = fields_read(fields, json, FIELDS_STRICT, "", p, err);
    if (rc == ERR_OK)
        rc = fields_read(plan_summary_fields, json, FIELDS_STRICT, "", &p->summary, err);
    chosen = p->spec.sync.chosen;
    if (rc == ERR_OK)
        rc = spec_parse(json_get(json, "spec"), &p->spec, err);
    if (rc != ERR_OK)
        return rc;
    p->spec.sync.chosen = chosen;
    if (!spec_has_sizes(&p->spec))
        return err_set(err, ERR_INVALID, "spec.model: must have the sizes of the model");
    if (p->micro_batches < 1 || p->spec.training.batch_size % p->micro_batches != 0)
        return err_set(err, ERR_INVALID, "microBatches: %d does not divide a batch of %d",
                       p->micro_batches, p->spec.training.batch_size);
    rc = check_workers(p, err);
    return rc == ERR_OK ? check_shares(p, err) : rc;
}

enum err_code plan_read(const struct json *json, struct plan *out, struct err *err)
{
    struct plan p = {0};
    enum err_code rc = read_plan(json, &p, err);

    if (rc == ERR_OK)
        *out = p;
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "plan");
}

enum err_code plan_parse(const char *text, size_t len, struct plan *out, struct err *err)
{
    struct json *root = NULL;
    enum err_code rc = json_parse(text, len, &root, err);

    rc = rc == ERR_OK ? plan_read(root, out, err) : err_wrap(err, rc, "plan");
    json_free(root);
    return rc;
}

int plan_find(const struct plan *p, int slot)
{
    for (int i = 0; i < p->n_workers; i++)
        if (p->workers[i].slot == slot)
            return i;
    return -1;
}

int plan_n_replicas(const struct plan *p)
{
    return p->n_workers > 0 ? p->workers[p->n_workers - 1].replica + 1 : 0;
}

struct plan_replica plan_replica(const struct plan *p, int replica)
{
    struct plan_replica r = {.first_share = replica, .n_shares = 1};

    while (p->workers[r.first_worker].replica < replica)
        r.first_worker++;
    while (r.first_worker + r.n_stages < p->n_workers &&
           p->workers[r.first_worker + r.n_stages].replica == replica)
        r.n_stages++;
    if (plan_n_replicas(p) == 1 && p->n_shares > 0)
        r.n_shares = p->n_shares;
    return r;
}

int plan_share_begin(const struct plan *p, int k, int n)
{
    int begin = 0;

    if (p->n_shares == 0)
        return k == 0 ? 0 : n;
    for (int i = 0; i < k; i++)
        begin += p->shares[i];
    return begin < n ? begin : n;
}

int plan_microbatches(const struct plan *p, int replica, int n)
{
    struct plan_replica r;

    if (replica >= plan_n_replicas(p))
        return 0;
    r = plan_replica(p, replica);
    return plan_share_begin(p, r.first_share + r.n_shares, n) -
           plan_share_begin(p, r.first_share, n);
}

/* --- homes --- */

static int end_unit(const struct plan_worker *w)
{
    return w->first_unit + w->n_units;
}

/* What each worker should be the home of, in proportion. */
static void weigh(const struct plan *p, double out[static SPEC_STAGES_MAX])
{
    int most = 0;

    for (int i = 0; i < p->n_workers; i++) {
        int share = plan_microbatches(p, p->workers[i].replica, p->micro_batches);

        out[i] = p->homes_follow_shares ? share : 1;
        most = share > most ? share : most;
    }
    for (int i = 0; p->homes_follow_shares && i < p->n_workers; i++)
        out[i] = 2 * out[i] >= most ? out[i] : 0;
}

/* The worker that has `unit` and no home yet, and of these the one whose units end first: it has
 * the least choice left. One without weight only if there is no other; -1: there is none. */
static int find_home(const struct plan *p, int unit, const double weights[], const bool has_home[])
{
    int best = -1;

    for (int i = 0; i < p->n_workers; i++) {
        const struct plan_worker *w = &p->workers[i];
        bool is_better = best < 0 || end_unit(w) < end_unit(&p->workers[best]);
        bool has_weight = weights[i] > 0;

        if (has_home[i] || unit < w->first_unit || unit >= end_unit(w))
            continue;
        if (best >= 0 && has_weight != (weights[best] > 0))
            is_better = has_weight;
        best = is_better ? i : best;
    }
    return best;
}

/* The weight of workers without a home that can take units from `unit` up to `end`. */
static double weigh_takers(const struct plan *p, int unit, int end, const double weights[],
                           const bool has_home[])
{
    double sum = 0;

    for (int i = 0; i < p->n_workers; i++)
        if (!has_home[i] && p->workers[i].first_unit < end && end_unit(&p->workers[i]) > unit)
            sum += weights[i];
    return sum;
}

static bool is_end(const struct plan *p, int unit)
{
    int i = 0;

    while (i < p->n_workers && end_unit(&p->workers[i]) != unit)
        i++;
    return i < p->n_workers;
}

/* How many parameters from `unit` on a home has to take per weight, so that none behind it must
 * take more: the most, over the ends of stages, for the workers that can take units up to there. */
static double fair_part(const struct plan *p, int unit, const double weights[],
                        const bool has_home[])
{
    const struct model *m = &p->spec.model;
    double most = 0, params = 0;

    for (int u = unit; u < model_units(m); u++) {
        double weight;

        params += (double)model_unit_params(m, u);
        weight = is_end(p, u + 1) ? weigh_takers(p, unit, u + 1, weights, has_home) : 0;
        if (weight > 0 && params / weight > most)
            most = params / weight;
    }
    return most;
}

static int homes_of_stages(const struct plan *p, struct plan_home out[static SPEC_STAGES_MAX])
{
    for (int i = 0; i < p->n_workers; i++)
        out[i] = (struct plan_home){
            .worker = i, .first_unit = p->workers[i].first_unit, .n_units = p->workers[i].n_units};
    return p->n_workers;
}

int plan_homes(const struct plan *p, struct plan_home out[static SPEC_STAGES_MAX])
{
    const struct model *m = &p->spec.model;
    bool has_home[SPEC_STAGES_MAX] = {false};
    double weights[SPEC_STAGES_MAX];
    double part = 0, taken = 0;
    int n = 0;

    if (plan_n_replicas(p) <= 1)
        return homes_of_stages(p, out);
    weigh(p, weights);
    for (int u = 0; u < model_units(m); u++) {
        double params = (double)model_unit_params(m, u);
        bool must_end = n == 0 || u == end_unit(&p->workers[out[n - 1].worker]);
        /* Nearest to its part: half of the unit may be above it. */
        bool may_end = taken + params / 2 > part;
        int next = must_end || may_end ? find_home(p, u, weights, has_home) : -1;

        if (next >= 0 && !must_end && weights[next] == 0)
            next = -1;
        if (next >= 0) {
            next = u == 0 ? 0 : next; /* the leader has its records beside the first unit */
            part = fair_part(p, u, weights, has_home) * weights[next];
            taken = 0;
            out[n++] = (struct plan_home){.worker = next, .first_unit = u};
            has_home[next] = true;
        }
        taken += params;
        out[n - 1].n_units++;
    }
    return n;
}

int plan_home(const struct plan *p, int worker, struct plan_home *out)
{
    struct plan_home homes[SPEC_STAGES_MAX];
    int n = plan_homes(p, homes);

    for (int i = 0; i < n; i++) {
        if (homes[i].worker != worker)
            continue;
        *out = homes[i];
        return i;
    }
    *out = (struct plan_home){.worker = worker};
    return -1;
}

void plan_keepers(const struct plan *p, int out[static SPEC_STAGES_MAX])
{
    int n_kept[SPEC_STAGES_MAX] = {0};

    for (int s = 0; s < p->n_workers; s++) {
        out[s] = -1;
        for (int i = 1; i < p->n_workers && out[s] < 0; i++) {
            int k = (s + i) % p->n_workers;

            if (strcmp(p->workers[k].node, p->workers[s].node) != 0 && n_kept[k] < PLAN_KEPT_MAX)
                out[s] = k;
        }
        if (out[s] >= 0)
            n_kept[out[s]]++;
    }
}

bool plan_has_keepers(const struct plan *p)
{
    int keepers[SPEC_STAGES_MAX];
    int s = 0;

    plan_keepers(p, keepers);
    while (s < p->n_workers && keepers[s] < 0)
        s++;
    return s < p->n_workers;
}

bool plan_saves(const struct plan *p)
{
    return p->spec.checkpoint.is_on && (!p->spec.checkpoint.is_peers || plan_has_keepers(p));
}

uint64_t plan_hash(const struct plan *p)
{
    uint64_t h = hash_text(p->uid);

    h = hash_bytes(h, &p->revision, sizeof p->revision);
    for (int i = 0; i < p->n_workers; i++) {
        const struct plan_worker *w = &p->workers[i];

        h = hash_bytes(h, &w->slot, sizeof w->slot);
        h = hash_bytes(h, &w->incarnation, sizeof w->incarnation);
        h = hash_bytes(h, &w->replica, sizeof w->replica);
        h = hash_bytes(h, &w->n_units, sizeof w->n_units);
    }
    for (int k = 0; k < p->n_shares; k++)
        h = hash_bytes(h, &p->shares[k], sizeof p->shares[k]);
    return h;
}
