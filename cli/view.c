#include "cli/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/node.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/json.h"
#include "cli/show.h"

#define BAR_CHARS 24

/* Of a step, stage `s` of a replica. */
static int busy_percent(const struct local *l, int replica, int s)
{
    const struct replicas *r = &l->replicas;

    return (int)lround(100 * r->shares[replica] * r->pipelines[replica].stages[s].predicted_ms /
                       r->step.step_ms);
}

static double step_ms(const struct local *l)
{
    return replicas_first_step_ms(&l->job.spec, &l->replicas.step);
}

/* Only with a bound. */
static double gap(const struct local *l)
{
    return step_ms(l) / l->replicas.bound_ms - 1;
}

static const char *name_of(const struct view *r, int node)
{
    return r->local->request.nodes[node].name;
}

/* Why the measurement of a candidate does not hold; NULL: it does. */
static const char *stale_of(const struct view *r, int node)
{
    return r->cluster->survey.n_candidates > 0 ? r->cluster->survey.entries[node]->stale : NULL;
}

/* --- nodes with something to report --- */

struct remarks {
    int n;        /* all of them */
    int n_listed; /* at most VIEW_NODES_MAX */
    struct {
        const char *node;
        char text[ERR_TEXT_BYTES];
    } list[VIEW_NODES_MAX];
};

static void add_remark(struct remarks *r, const char *node, const char *text)
{
    if (r->n_listed < VIEW_NODES_MAX) {
        r->list[r->n_listed].node = node;
        (void)snprintf(r->list[r->n_listed++].text, sizeof r->list->text, "%s", text);
    }
    r->n++;
}

/* First the nodes that the planner excluded, then those that are no candidates. */
static void list_excluded(const struct local *l, const struct survey *s, struct remarks *out)
{
    const struct placement *p = &l->placement;

    for (int i = 0; i < p->n_excluded && i < PARTITION_EXCLUDED_MAX; i++)
        add_remark(out, p->excluded[i].node, p->excluded[i].reason);
    for (int i = 0; i < s->n_nodes; i++) {
        const struct node_object *o = s->nodes[i].object;
        enum exclusion why = s->nodes[i].excluded;
        char text[ERR_TEXT_BYTES];

        if (why == EXCLUDED_NOT)
            continue;
        (void)snprintf(text, sizeof text, "%s", exclusion_text(why));
        if (why == EXCLUDED_CPU)
            text_add(text, sizeof text, " (%lldm)", (long long)(o->cpu_milli - o->cpu_used_milli));
        else if (why == EXCLUDED_MEMORY)
            text_add(text, sizeof text, " (%lldMi)",
                     (long long)((o->memory_bytes - o->memory_used_bytes) / MIB));
        else if (why == EXCLUDED_UNMEASURED)
            text_add(text, sizeof text, ": the operator measures it when the job is submitted");
        add_remark(out, o->name, text);
    }
    if (p->n_excluded > PARTITION_EXCLUDED_MAX)
        out->n += p->n_excluded - PARTITION_EXCLUDED_MAX;
}

/* --- for people --- */

/* A name, padded so that what follows is a column. */
static void print_name(FILE *out, const char *name, const char *end, int width)
{
    char text[SHOW_NAME_CHARS + 1];
    int n = show_name(name, text);

    (void)fprintf(out, "%s%s%*s ", text, end, width - n, "");
}

static void print_stages(const struct local *l, int replica, int width, double slowest, FILE *out)
{
    const struct placement *p = &l->replicas.pipelines[replica];
    int first = plan_replica(&l->plan, replica).first_worker;

    for (int s = 0; s < p->n_stages; s++) {
        const struct placement_stage *stage = &p->stages[s];
        const struct node *n = &l->request.nodes[stage->node];
        int bar = (int)lround(BAR_CHARS * stage->predicted_ms / slowest);

        (void)fprintf(out, "%-6d ", first + s);
        if (l->replicas.n > 1)
            (void)fprintf(out, "%-8d ", replica);
        print_name(out, n->name, "", width);
        (void)fprintf(out, "%5.2g %8.1f  %-34s %8.1f ms %4d%% %5lld MiB  %.*s\n",
                      n->cpu_milli / 1000.0, n->gflops, l->plan.workers[first + s].units,
                      stage->predicted_ms, busy_percent(l, replica, s),
                      (long long)mib_of(stage->memory_bytes), bar, "########################");
    }
}

void view_stages(const struct local *l, FILE *out)
{
    double slowest = 0;
    int width = (int)strlen("NODE");

    for (int i = 0; i < l->plan.n_workers; i++) {
        width = show_widen(width, l->plan.workers[i].node);
        slowest = fmax(slowest, l->plan.workers[i].predicted_ms);
    }
    (void)fprintf(out, "%-6s %s%-*s %5s %8s  %-34s %11s %5s %9s\n", "STAGE",
                  l->replicas.n > 1 ? "REPLICA  " : "", width, "NODE", "CPU", "GFLOP/S", "UNITS",
                  "PREDICTED", "BUSY", "MEMORY");
    for (int r = 0; r < l->replicas.n; r++)
        print_stages(l, r, width, slowest, out);
}

/* What the replicas cost. */
static void print_exchange(const struct local *l, FILE *out)
{
    const struct replicas *r = &l->replicas;

    (void)fprintf(out, "%-11s ", "shares");
    for (int i = 0; i < r->n; i++)
        (void)fprintf(out, "%s%d", i ? " + " : "", r->shares[i]);
    (void)fprintf(out, " micro-batches\n");
    (void)fprintf(out, "%-11s %.1f ms of gradients and weights, of which %.1f ms prolong a step\n",
                  "exchange", r->step.exchange_ms, r->step.exposed_ms);
    (void)fprintf(out, "%-11s BSP %.1f ms a step, ASP %.1f, Local %.1f with %d local steps\n",
                  "protocol", r->step.step_ms, r->step.asp_ms, r->step.local_ms,
                  l->job.spec.sync.local_steps);
}

/* With another number of them. */
static void print_alternatives(const struct local *l, FILE *out)
{
    const struct replicas *r = &l->replicas;

    for (int i = 0; i < r->n_alternatives; i++) {
        const struct replicas_alternative *other = &r->alternatives[i];

        if (other->n == r->n)
            continue;
        (void)fprintf(out, "%-11s ", "instead");
        if (other->n > 1)
            (void)fprintf(out, "%d replicas of %d stages in all", other->n, other->n_stages);
        else
            (void)fprintf(out, "one pipeline of %d %s", other->n_stages,
                          other->n_stages == 1 ? "stage" : "stages");
        (void)fprintf(out, ": %.1f ms, %.2f times as long\n", other->step_ms,
                      other->step_ms / step_ms(l));
    }
}

static void print_strategy(const struct placement *p, FILE *out, enum spec_strategy strategy,
                           double ms)
{
    if (strategy == p->strategy)
        return;
    if (ms < 0)
        (void)fprintf(out, "%-11s does not fit into memory or minStages\n",
                      spec_strategy_names[strategy]);
    else
        (void)fprintf(out, "%-11s %.1f ms, %.2f times as long\n", spec_strategy_names[strategy], ms,
                      ms / p->predicted_step_ms);
}

static void print_whatif(const struct view *r, FILE *out)
{
    const struct whatif *w = r->whatif;
    double now = r->local->placement.predicted_step_ms;
    int width = 0;

    if (r->local->placement.strategy != SPEC_STRATEGY_OPTIMAL || r->local->replicas.n > 1)
        return;
    (void)fprintf(out, "%-11s like %s: %.1f ms (%+.1f%%)\n", "one more", name_of(r, w->like),
                  w->more_ms, 100 * (w->more_ms / now - 1));
    for (int i = 0; i < w->n_fewer; i++)
        width = show_widen(width, name_of(r, w->fewer[i].node));
    for (int i = 0; i < w->n_fewer; i++) {
        double ms = w->fewer[i].step_ms;

        (void)fprintf(out, "%-11s without ", i ? "" : "one fewer");
        print_name(out, name_of(r, w->fewer[i].node), ":", width);
        if (ms < 0)
            (void)fprintf(out, "nothing fits\n");
        else
            (void)fprintf(out, "%.1f ms (%+.1f%%)\n", ms, 100 * (ms / now - 1));
    }
}

static void print_excluded(const struct local *l, const struct survey *s, FILE *out)
{
    struct remarks nodes = {.n = 0};
    int width = 0;

    list_excluded(l, s, &nodes);
    for (int i = 0; i < nodes.n_listed; i++)
        width = show_widen(width, nodes.list[i].node);
    for (int i = 0; i < nodes.n_listed; i++) {
        (void)fprintf(out, "%-11s ", i ? "" : "excluded");
        print_name(out, nodes.list[i].node, ":", width);
        (void)fprintf(out, "%s\n", nodes.list[i].text);
    }
    if (nodes.n > nodes.n_listed)
        (void)fprintf(out, "%-11s and %d more\n", "", nodes.n - nodes.n_listed);
}

static void print_note(const char *what, const char *text, FILE *out)
{
    if (*text)
        (void)fprintf(out, "%-11s %s%s\n", "note", what, text);
}

static void print_notes(const struct cluster *c, FILE *out)
{
    char bad[ERR_TEXT_BYTES * 2] = "";
    char assumed[ERR_TEXT_BYTES * 2] = "";

    survey_add_bad(&c->survey, bad, sizeof bad);
    survey_add_assumed(&c->survey, assumed, sizeof assumed);
    print_note("", bad, out);
    print_note("", assumed, out);
    print_note("the plans of other jobs are not counted: ", c->unread, out);
}

void view_nodes(const struct cluster *c, FILE *out)
{
    static const struct local none;

    print_notes(c, out);
    print_excluded(&none, &c->survey, out);
}

/* All nodes whose figures do not hold for the reason of node `first`, if that is the first one. */
static void print_stale(const struct view *r, int first, FILE *out)
{
    const struct partition_request *request = &r->local->request;
    const char *reason = stale_of(r, first);
    char nodes[VIEW_NODES_MAX * (NODE_NAME_BYTES + 2)] = "";
    int n = 0;

    for (int i = 0; i < request->n_nodes; i++) {
        if (!stale_of(r, i) || strcmp(stale_of(r, i), reason) != 0)
            continue;
        if (i < first)
            return; /* printed with that one */
        if (n++ < VIEW_NODES_MAX)
            text_add(nodes, sizeof nodes, "%s%s", n == 1 ? "" : ", ", name_of(r, i));
    }
    if (n > VIEW_NODES_MAX)
        text_add(nodes, sizeof nodes, " and %d more", n - VIEW_NODES_MAX);
    (void)fprintf(out, "%-11s %s: %s; %s\n", "note", reason, nodes,
                  request->job.spec->placement.probe == SPEC_PROBE_NEVER
                      ? "used anyway, since spec.placement.probePolicy is Never"
                      : "the operator will measure before it starts, and may plan otherwise");
}

void view_text(const struct view *r, FILE *out)
{
    const struct placement *p = &r->local->placement;
    const struct replicas *all = &r->local->replicas;
    const struct partition_request *request = &r->local->request;
    int sequences = request->job.spec->training.batch_size;
    int slow_edge = explain_slow_edge(p);
    char guess[LENGTHS_TEXT_BYTES];

    view_stages(r->local, out);
    lengths_guess(request->job.spec, &request->job.lengths, guess);
    print_note("lengths are a guess: ", guess, out);
    print_notes(r->cluster, out);
    for (int i = 0; i < request->n_nodes; i++)
        if (stale_of(r, i))
            print_stale(r, i, out);
    (void)fprintf(out, "\n%-11s %.1f ms predicted, %s; ", "step", step_ms(r->local),
                  spec_strategy_names[p->strategy]);
    if (all->bound_ms == 0)
        (void)fprintf(out, "%.1f ms in step\n", all->step.step_ms);
    else if (gap(r->local) < 1e-6)
        (void)fprintf(out, "no plan of these nodes is faster\n");
    else
        (void)fprintf(out, "no plan is faster than %.1f ms, at most %.1f%% above the optimum\n",
                      all->bound_ms, 100 * gap(r->local));
    (void)fprintf(out, "%-11s %d %s in %d %s of %d, %s\n", "batch", sequences,
                  sequences == 1 ? "sequence" : "sequences", p->micro_batches,
                  p->micro_batches == 1 ? "micro-batch" : "micro-batches",
                  sequences / p->micro_batches,
                  request->job.micro_batches == 0 ? "chosen by the planner" : "set by the job");
    if (all->n > 1) {
        print_exchange(r->local, out);
        print_alternatives(r->local, out);
        print_excluded(r->local, &r->cluster->survey, out);
        return;
    }
    if (slow_edge >= 0)
        (void)fprintf(out, "%-11s the link between %s and %s: %.1f ms per micro-batch each way\n",
                      "bottleneck", name_of(r, p->stages[slow_edge].node),
                      name_of(r, p->stages[slow_edge + 1].node), p->stages[slow_edge].edge_ms);
    else
        (void)fprintf(out, "%-11s stage %d on %s: %.1f ms per micro-batch\n", "bottleneck",
                      p->bottleneck, name_of(r, p->stages[p->bottleneck].node),
                      p->stages[p->bottleneck].predicted_ms);
    print_alternatives(r->local, out);
    print_strategy(p, out, SPEC_STRATEGY_EVEN, p->even_step_ms);
    print_strategy(p, out, SPEC_STRATEGY_DYNAMIC, p->dynamic_step_ms);
    print_whatif(r, out);
    print_excluded(r->local, &r->cluster->survey, out);
}

/* --- for programs --- */

/* Worker `k` of the plan. */
static void write_stage(const struct view *r, int k, struct jsonw *w)
{
    const struct plan_worker *worker = &r->local->plan.workers[k];
    int s = k - plan_replica(&r->local->plan, worker->replica).first_worker;
    int i = r->local->replicas.pipelines[worker->replica].stages[s].node;
    const struct node *node = &r->local->request.nodes[i];

    jsonw_open_object(w, NULL);
    fields_write(plan_worker_fields, worker, w);
    jsonw_int(w, "busyPercent", busy_percent(r->local, worker->replica, s));
    if (r->measured && k < r->measured->n_stage_ms)
        jsonw_int(w, "measuredMicroseconds", llround(1000 * r->measured->stage_ms[k]));
    jsonw_double(w, "gflops", node->gflops);
    jsonw_double(w, "unitMilliseconds", node->unit_ms);
    jsonw_int(w, "nodeMemoryBytes", node->memory_bytes);
    if (stale_of(r, i))
        jsonw_string(w, "stale", stale_of(r, i));
    jsonw_close(w);
}

/* A negative time means that there is no such plan. */
static void write_ms(struct jsonw *w, const char *key, double ms)
{
    if (ms < 0)
        jsonw_null(w, key);
    else
        jsonw_double(w, key, ms);
}

static void write_whatif(const struct view *r, struct jsonw *w)
{
    if (!r->whatif || r->local->placement.strategy != SPEC_STRATEGY_OPTIMAL ||
        r->local->replicas.n > 1)
        return;
    jsonw_open_object(w, "oneMore");
    jsonw_string(w, "like", name_of(r, r->whatif->like));
    write_ms(w, "stepMilliseconds", r->whatif->more_ms);
    jsonw_close(w);
    jsonw_open_array(w, "oneFewer");
    for (int i = 0; i < r->whatif->n_fewer; i++) {
        jsonw_open_object(w, NULL);
        jsonw_string(w, "without", name_of(r, r->whatif->fewer[i].node));
        write_ms(w, "stepMilliseconds", r->whatif->fewer[i].step_ms);
        jsonw_close(w);
    }
    jsonw_close(w);
}

static void write_remarks(const struct remarks *r, const char *count, const char *key,
                          struct jsonw *w)
{
    jsonw_int(w, count, r->n);
    if (r->n == 0)
        return;
    jsonw_open_array(w, key);
    for (int i = 0; i < r->n_listed; i++) {
        jsonw_open_object(w, NULL);
        jsonw_string(w, "node", r->list[i].node);
        jsonw_string(w, "explanation", r->list[i].text);
        jsonw_close(w);
    }
    jsonw_close(w);
}

static void write_replicas(const struct replicas *r, struct jsonw *w)
{
    jsonw_open_array(w, "shares");
    for (int i = 0; i < r->n; i++)
        jsonw_int(w, NULL, r->shares[i]);
    jsonw_close(w);
    if (r->n > 1) {
        jsonw_double(w, "exchangeMilliseconds", r->step.exchange_ms);
        jsonw_double(w, "exposedMilliseconds", r->step.exposed_ms);
        jsonw_double(w, "aspStepMilliseconds", r->step.asp_ms);
        jsonw_double(w, "localStepMilliseconds", r->step.local_ms);
    }
    if (r->n_alternatives < 2)
        return;
    jsonw_open_array(w, "otherReplicas");
    for (int i = 0; i < r->n_alternatives; i++) {
        jsonw_open_object(w, NULL);
        jsonw_int(w, "replicas", r->alternatives[i].n);
        jsonw_int(w, "stages", r->alternatives[i].n_stages);
        jsonw_double(w, "stepMilliseconds", r->alternatives[i].step_ms);
        jsonw_close(w);
    }
    jsonw_close(w);
}

void view_write(const struct view *r, struct jsonw *w)
{
    const struct local *l = r->local;
    const struct cost_job *job = &l->request.job;
    const struct survey *survey = &r->cluster->survey;
    struct plan_summary summary = l->plan.summary;
    struct remarks excluded = {.n = 0}, invalid = {.n = 0}, stale = {.n = 0};
    char guess[LENGTHS_TEXT_BYTES];

    jsonw_string(w, "strategy", spec_strategy_names[l->placement.strategy]);
    jsonw_int(w, "microBatches", l->placement.micro_batches);
    jsonw_bool(w, "microBatchesChosen", job->micro_batches == 0);
    if (l->replicas.bound_ms > 0)
        jsonw_double(w, "gap", gap(l));
    summary.n_excluded = 0; /* listed below, with those that the survey excluded */
    fields_write(plan_summary_fields, &summary, w);
    jsonw_open_array(w, "stages");
    for (int s = 0; s < l->plan.n_workers; s++)
        write_stage(r, s, w);
    jsonw_close(w);
    write_replicas(&l->replicas, w);
    write_whatif(r, w);
    list_excluded(l, survey, &excluded);
    for (int i = 0; i < survey->n_nodes; i++)
        if (survey->nodes[i].object->annotations.bad[0])
            add_remark(&invalid, survey->nodes[i].object->name,
                       survey->nodes[i].object->annotations.bad);
    for (int i = 0; i < l->request.n_nodes; i++) /* also of nodes without a stage */
        if (stale_of(r, i))
            add_remark(&stale, name_of(r, i), stale_of(r, i));
    write_remarks(&excluded, "excludedNodeCount", "excludedNodes", w);
    write_remarks(&invalid, "invalidAnnotationCount", "invalidAnnotations", w);
    write_remarks(&stale, "staleNodeCount", "staleNodes", w);
    lengths_guess(job->spec, &job->lengths, guess);
    jsonw_open_object(w, "lengths");
    jsonw_double(w, "mean", lengths_of(job->spec, &job->lengths).mean);
    jsonw_bool(w, "guessed", guess[0] != '\0');
    jsonw_close(w);
    if (r->cluster->unread[0])
        jsonw_string(w, "promisesUnread", r->cluster->unread);
}

/* --- YAML: a JSON scalar is one in YAML too --- */

/* The members of `v`, a line each; the first may follow a "- ". */
static enum err_code print_block(const struct json *v, int depth, bool is_behind_dash, FILE *out,
                                 struct err *err)
{
    bool is_list = json_kind_of(v) == JSON_ARRAY;
    enum err_code rc = ERR_OK;

    for (const struct json *m = json_first(v); m && rc == ERR_OK; m = json_next(m)) {
        (void)fprintf(out, "%*s%s%s", is_behind_dash ? 0 : 2 * depth, "",
                      is_list ? "" : json_key(m), is_list ? "- " : ":");
        is_behind_dash = false;
        if (json_first(m)) {
            (void)fprintf(out, "%s", is_list ? "" : "\n");
            rc = print_block(m, depth + 1, is_list, out, err);
        } else {
            char *text = json_print(m);

            if (text)
                (void)fprintf(out, "%s%s\n", is_list ? "" : " ", text);
            else
                rc = err_set(err, ERR_NO_MEMORY, "no memory to print YAML");
            free(text);
        }
    }
    return rc;
}

enum err_code view_yaml(const struct buf *json, FILE *out, struct err *err)
{
    struct json *root = NULL;
    enum err_code rc = json_parse(buf_text(json), json->len, &root, err);

    if (rc == ERR_OK)
        rc = print_block(root, 0, false, out, err);
    json_free(root);
    return rc;
}
