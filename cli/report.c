#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

#include "api/lengths.h"
#include "base/jsonw.h"
#include "cli/show.h"

static double busy(const struct report *r, int s)
{
    return r->placement->micro_batches * r->placement->stages[s].predicted_ms /
           r->placement->predicted_step_ms;
}

static double gap(const struct report *r)
{
    return r->placement->predicted_step_ms / r->placement->bound_ms - 1;
}

static const char *name_of(const struct report *r, int node)
{
    return r->request->nodes[node].name;
}

/* --- for people --- */

/* The name of a list's line, and room behind it so that what follows stands in a column. */
static void print_name(FILE *out, const char *name, const char *end, int width)
{
    char text[SHOW_NAME_CHARS + 1];
    int n = show_name(name, text);

    (void)fprintf(out, "%s%s%*s ", text, end, width - n, "");
}

static void print_strategy(const struct report *r, FILE *out, enum spec_strategy strategy,
                           double ms)
{
    if (strategy == r->placement->strategy)
        return;
    if (ms < 0)
        (void)fprintf(out, "%-11s does not fit into memory or minStages\n",
                      spec_strategy_name(strategy));
    else
        (void)fprintf(out, "%-11s %.1f ms, %.2f times as long\n", spec_strategy_name(strategy), ms,
                      ms / r->placement->predicted_step_ms);
}

static void print_whatif(const struct report *r, FILE *out)
{
    const struct whatif *w = r->whatif;
    double now = r->placement->predicted_step_ms;
    int width = 0;

    if (r->placement->strategy != SPEC_STRATEGY_OPTIMAL)
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

/* "with less than 100m of CPU free (42m)" */
static void print_exclusion(const struct survey_node *n, FILE *out)
{
    const struct node_object *o = n->object;

    (void)fprintf(out, "%s", exclusion_text(n->excluded));
    if (n->excluded == EXCLUDED_CPU)
        (void)fprintf(out, " (%lldm)", (long long)(o->cpu_milli - o->cpu_used_milli));
    else if (n->excluded == EXCLUDED_MEMORY)
        (void)fprintf(out, " (%lldMi)",
                      (long long)((o->memory_bytes - o->memory_used_bytes) >> 20));
    else if (n->excluded == EXCLUDED_UNMEASURED)
        (void)fprintf(out, ": the operator measures it when the job is submitted");
    (void)fprintf(out, "\n");
}

/* First the nodes that the planner excluded, then those that are no candidates. */
static void print_excluded(const struct report *r, const struct survey *s, FILE *out)
{
    const struct placement *p = r ? r->placement : NULL;
    int n_planner = p ? p->n_left_out : 0;
    int n_listed = n_planner < PARTITION_LEFT_OUT_MAX ? n_planner : PARTITION_LEFT_OUT_MAX;
    int n_survey = s->n_nodes - s->n_candidates;
    const char *title = "excluded";
    int width = 0;
    int n = 0;

    for (int i = 0; i < n_listed; i++)
        width = show_widen(width, name_of(r, p->left_out[i].node));
    for (int i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].excluded != EXCLUDED_NOT && n++ < REPORT_NODES_MAX)
            width = show_widen(width, s->nodes[i].object->name);
    for (int i = 0; i < n_listed; i++) {
        (void)fprintf(out, "%-11s ", title);
        print_name(out, name_of(r, p->left_out[i].node), ":", width);
        (void)fprintf(out, "%s\n", p->left_out[i].reason);
        title = "";
    }
    n = 0;
    for (int i = 0; i < s->n_nodes; i++) {
        if (s->nodes[i].excluded == EXCLUDED_NOT || n++ >= REPORT_NODES_MAX)
            continue;
        (void)fprintf(out, "%-11s ", title);
        print_name(out, s->nodes[i].object->name, ":", width);
        print_exclusion(&s->nodes[i], out);
        title = "";
    }
    n = n_planner - n_listed + (n_survey > REPORT_NODES_MAX ? n_survey - REPORT_NODES_MAX : 0);
    if (n > 0)
        (void)fprintf(out, "%-11s and %d more\n", "", n);
}

static void print_note(const char *text, FILE *out)
{
    if (*text)
        (void)fprintf(out, "%-11s %s\n", "note", text);
}

static void print_notes(const struct cluster *c, FILE *out)
{
    char text[ERR_TEXT_BYTES * 2] = "";

    survey_add_bad(&c->survey, text, sizeof text);
    print_note(text, out);
    text[0] = '\0';
    survey_add_assumed(&c->survey, text, sizeof text);
    print_note(text, out);
    if (c->unread[0])
        (void)fprintf(out, "%-11s what other jobs' plans promise is not counted: %s\n", "note",
                      c->unread);
}

void report_nodes(const struct cluster *c, FILE *out)
{
    print_notes(c, out);
    print_excluded(NULL, &c->survey, out);
}

/* Who chose the number of micro-batches is told too: the planner's may change with the nodes. */
static void print_batch(const struct report *r, FILE *out)
{
    int sequences = r->request->spec->training.batch_size;
    int n = r->placement->micro_batches;

    (void)fprintf(out, "%-11s %d %s in %d %s of %d, %s\n", "batch", sequences,
                  sequences == 1 ? "sequence" : "sequences", n,
                  n == 1 ? "micro-batch" : "micro-batches", sequences / n,
                  r->is_micro_open ? "which the planner chose" : "as the job says");
}

/* The slowest stage, or a link that is slower still. */
static void print_bottleneck(const struct report *r, FILE *out)
{
    const struct placement *p = r->placement;
    const struct placement_stage *slow = &p->stages[p->bottleneck];
    int s = explain_slow_edge(p);

    if (s < 0) {
        (void)fprintf(out, "%-11s stage %d on %s: %.1f ms per micro-batch\n", "bottleneck",
                      p->bottleneck, name_of(r, slow->node), slow->predicted_ms);
        return;
    }
    (void)fprintf(out, "%-11s the link between %s and %s: %.1f ms per micro-batch each way\n",
                  "bottleneck", name_of(r, p->stages[s].node), name_of(r, p->stages[s + 1].node),
                  p->stages[s].edge_ms);
}

static const char *stale_of(const struct report *r, int node)
{
    return r->cluster->survey.n_candidates > 0 ? r->cluster->survey.judged[node]->stale : NULL;
}

static bool is_stale_for(const struct report *r, int node, const char *reason)
{
    return stale_of(r, node) && strcmp(stale_of(r, node), reason) == 0;
}

/* The nodes whose figures do not hold for this reason, which node `first` is the first to have. */
static void print_stale(const struct report *r, int first, FILE *out)
{
    const char *reason = stale_of(r, first);
    int n = 0;

    for (int i = 0; i < first; i++)
        if (is_stale_for(r, i, reason))
            return; /* printed with that one */
    (void)fprintf(out, "%-11s %s: ", "note", reason);
    for (int i = first; i < r->request->n_nodes; i++)
        if (is_stale_for(r, i, reason) && n++ < REPORT_NODES_MAX)
            (void)fprintf(out, "%s%s", n == 1 ? "" : ", ", name_of(r, i));
    if (n > REPORT_NODES_MAX)
        (void)fprintf(out, " and %d more", n - REPORT_NODES_MAX);
    (void)fprintf(out, "; %s\n",
                  r->request->spec->placement.probe == SPEC_PROBE_NEVER
                      ? "the operator takes it as it is, since spec.placement.probePolicy is Never"
                      : "the operator will measure before it starts, and may plan otherwise");
}

static void print_guess(const struct report *r, FILE *out)
{
    char guess[LENGTHS_TEXT_BYTES];

    lengths_guess(r->request->spec, guess);
    if (guess[0])
        (void)fprintf(out, "%-11s lengths are a guess: %s\n", "note", guess);
}

void report_text(const struct report *r, FILE *out)
{
    const struct placement *p = r->placement;

    show_plan(out, r->request, p);
    print_guess(r, out);
    print_notes(r->cluster, out);
    for (int i = 0; i < r->request->n_nodes; i++)
        if (stale_of(r, i))
            print_stale(r, i, out);
    (void)fprintf(out, "\n%-11s %.1f ms predicted, %s; ", "step", p->predicted_step_ms,
                  spec_strategy_name(p->strategy));
    if (gap(r) < 1e-6)
        (void)fprintf(out, "no plan of these nodes is faster\n");
    else
        (void)fprintf(out, "no plan is faster than %.1f ms, at most %.1f%% above the optimum\n",
                      p->bound_ms, 100 * gap(r));
    print_batch(r, out);
    print_bottleneck(r, out);
    print_strategy(r, out, SPEC_STRATEGY_EVEN, p->even_step_ms);
    print_strategy(r, out, SPEC_STRATEGY_DYNAMIC, p->dynamic_step_ms);
    print_whatif(r, out);
    print_excluded(r, &r->cluster->survey, out);
}

/* --- for programs --- */

static void write_stages(const struct report *r, struct jsonw *w)
{
    jsonw_open_array(w, "stages");
    for (int s = 0; s < r->placement->n_stages; s++) {
        const struct placement_stage *stage = &r->placement->stages[s];
        char units[MODEL_NAME_BYTES];

        model_range_name(&r->request->spec->model, stage->first_unit, stage->n_units, units);
        jsonw_open_object(w, NULL);
        jsonw_string(w, "node", name_of(r, stage->node));
        jsonw_int(w, "cpuMilli", r->request->nodes[stage->node].cpu_milli);
        jsonw_double(w, "gflops", r->request->nodes[stage->node].gflops);
        jsonw_double(w, "unitMs", r->request->nodes[stage->node].unit_ms);
        jsonw_string(w, "units", units);
        jsonw_int(w, "firstUnit", stage->first_unit);
        jsonw_int(w, "unitCount", stage->n_units);
        jsonw_double(w, "predictedMs", stage->predicted_ms);
        jsonw_double(w, "busy", busy(r, s));
        jsonw_int(w, "memoryBytes", stage->memory_bytes);
        jsonw_int(w, "nodeMemoryBytes", r->request->nodes[stage->node].memory_bytes);
        if (stale_of(r, stage->node))
            jsonw_string(w, "stale", stale_of(r, stage->node));
        jsonw_close(w);
    }
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

static void write_whatif(const struct report *r, struct jsonw *w)
{
    if (r->placement->strategy != SPEC_STRATEGY_OPTIMAL)
        return;
    jsonw_open_object(w, "oneMore");
    jsonw_string(w, "like", name_of(r, r->whatif->like));
    write_ms(w, "stepMs", r->whatif->more_ms);
    jsonw_close(w);
    jsonw_open_array(w, "oneFewer");
    for (int i = 0; i < r->whatif->n_fewer; i++) {
        jsonw_open_object(w, NULL);
        jsonw_string(w, "without", name_of(r, r->whatif->fewer[i].node));
        write_ms(w, "stepMs", r->whatif->fewer[i].step_ms);
        jsonw_close(w);
    }
    jsonw_close(w);
}

static void write_node(struct jsonw *w, const char *node, const char *reason)
{
    jsonw_open_object(w, NULL);
    jsonw_string(w, "node", node);
    jsonw_string(w, "reason", reason);
    jsonw_close(w);
}

static void write_excluded(const struct report *r, struct jsonw *w)
{
    const struct placement *p = r->placement;
    const struct survey *s = &r->cluster->survey;
    int n_excluded = p->n_left_out + s->n_nodes - s->n_candidates;
    int n = 0;

    jsonw_int(w, "excludedCount", n_excluded);
    if (n_excluded == 0)
        return;
    jsonw_open_array(w, "excluded");
    for (int i = 0; i < p->n_left_out && i < PARTITION_LEFT_OUT_MAX; i++)
        write_node(w, name_of(r, p->left_out[i].node), p->left_out[i].reason);
    for (int i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].excluded != EXCLUDED_NOT && n++ < REPORT_NODES_MAX)
            write_node(w, s->nodes[i].object->name, exclusion_text(s->nodes[i].excluded));
    jsonw_close(w);
}

static void write_invalid(const struct survey *s, struct jsonw *w)
{
    int n = 0;

    jsonw_int(w, "invalidAnnotationCount", s->n_bad);
    if (s->n_bad == 0)
        return;
    jsonw_open_array(w, "invalidAnnotations");
    for (int i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].object->annotations.bad[0] && n++ < REPORT_NODES_MAX)
            write_node(w, s->nodes[i].object->name, s->nodes[i].object->annotations.bad);
    jsonw_close(w);
}

/* Of the nodes that are no stage, too. */
static void write_stale(const struct report *r, struct jsonw *w)
{
    int n = 0;

    jsonw_open_array(w, "stale");
    for (int i = 0; i < r->request->n_nodes; i++) {
        if (!stale_of(r, i) || n++ >= REPORT_NODES_MAX)
            continue;
        jsonw_open_object(w, NULL);
        jsonw_string(w, "node", name_of(r, i));
        jsonw_string(w, "reason", stale_of(r, i));
        jsonw_close(w);
    }
    jsonw_close(w);
    jsonw_int(w, "staleCount", n);
}

static void write_lengths(const struct report *r, struct jsonw *w)
{
    char guess[LENGTHS_TEXT_BYTES];

    lengths_guess(r->request->spec, guess);
    jsonw_open_object(w, "lengths");
    jsonw_double(w, "mean", lengths_of(r->request->spec).mean);
    jsonw_bool(w, "guessed", guess[0] != '\0');
    jsonw_close(w);
}

enum err_code report_json(const struct report *r, struct buf *out, struct err *err)
{
    const struct placement *p = r->placement;
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "strategy", spec_strategy_name(p->strategy));
    jsonw_double(&w, "predictedStepMs", p->predicted_step_ms);
    jsonw_double(&w, "boundMs", p->bound_ms);
    jsonw_double(&w, "gap", gap(r));
    jsonw_int(&w, "bottleneck", p->bottleneck);
    jsonw_int(&w, "microBatches", p->micro_batches);
    jsonw_bool(&w, "microBatchesChosen", r->is_micro_open);
    write_ms(&w, "evenStepMs", p->even_step_ms);
    write_ms(&w, "dynamicStepMs", p->dynamic_step_ms);
    write_stages(r, &w);
    write_whatif(r, &w);
    write_excluded(r, &w);
    write_invalid(&r->cluster->survey, &w);
    write_lengths(r, &w);
    write_stale(r, &w);
    if (r->cluster->unread[0])
        jsonw_string(&w, "promisesUnread", r->cluster->unread);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

/* --- YAML: a JSON scalar is one in YAML too --- */

static bool is_nested(const struct json *v)
{
    return json_first(v) != NULL;
}

/* The members of `v`, each on a line of its own; the first may stand behind a "- ". */
static enum err_code print_block(const struct json *v, int depth, bool is_behind_dash, FILE *out)
{
    bool is_list = json_kind_of(v) == JSON_ARRAY;
    enum err_code rc = ERR_OK;

    for (const struct json *m = json_first(v); m && rc == ERR_OK; m = json_next(m)) {
        char *text;

        (void)fprintf(out, "%*s", is_behind_dash ? 0 : 2 * depth, "");
        is_behind_dash = false;
        (void)fprintf(out, "%s%s", is_list ? "-" : json_key(m), is_list ? " " : ":");
        if (is_nested(m)) {
            (void)fprintf(out, "%s", is_list ? "" : "\n");
            rc = print_block(m, depth + 1, is_list, out);
            continue;
        }
        text = json_print(m);
        if (!text)
            return ERR_NO_MEMORY;
        (void)fprintf(out, "%s%s\n", is_list ? "" : " ", text);
        free(text);
    }
    return rc;
}

enum err_code report_yaml(const struct buf *json, FILE *out, struct err *err)
{
    struct json *root = NULL;
    enum err_code rc = json_parse(buf_text(json), json->len, &root, err);

    if (rc == ERR_OK && print_block(root, 0, false, out) != ERR_OK)
        rc = err_set(err, ERR_NO_MEMORY, "writing YAML");
    json_free(root);
    return rc;
}
