/* support/world.h - a small cluster in memory for tests of decide(): one job, its pods, some nodes.
 *
 * A world starts as a fresh job with three idle nodes of known speed. world_apply() takes the steps
 * of a decision the way the API server would; world_settle() decides and applies until nothing is
 * left to do at this moment. Time stands still unless a test moves it.
 */
#ifndef SUPPORT_WORLD_H
#define SUPPORT_WORLD_H

#include "control/decide.h"

#define WORLD_NODES      3
#define WORLD_PODS       (OBSERVED_WORKER_PODS + WORLD_NODES)
#define WORLD_SLOTS      (2 * SPEC_STAGES_MAX) /* whose workers report */
#define WORLD_NOW_MS     INT64_C(1800000000000)
#define WORLD_ROUNDS_MAX 20
/* The uid of a pod that has a name which is due and that the operator did not create. */
#define WORLD_FAKE "fake"

struct world {
    struct observed seen;
    struct decision decision; /* the last one */
    struct node_object nodes[WORLD_NODES];
    struct seen_pod pods[WORLD_PODS];
    struct report reports[WORLD_SLOTS];      /* of the newest incarnation of each slot */
    struct progress last_words[WORLD_SLOTS]; /* likewise */
    struct buf text;                         /* of the newest revision */
    struct json *spec_json;
    struct json *filled; /* the same with the sizes in the status; NULL: they are not there */
    struct spec spec;
    struct err spec_problem;
    bool has_data;    /* what looking at the data ConfigMap finds */
    bool lacks_claim; /* what looking at the claims finds */
    int64_t ordered;  /* the last checkpoint that was ordered; 0: none */
    int n_events;     /* so far */
    char last_event[STATUS_REASON_BYTES];
};

/* `spec` is JSON; NULL is the smallest one, on sample data, with at most three stages. */
struct world *world_new(const char *spec);
/* Replace the spec, by an invalid one too. */
void world_set_spec(struct world *w, const char *text);
void world_free(struct world *w);
/* Observe the spec again, with the sizes in the status where they are of its generation. */
void world_observe_spec(struct world *w);

void world_decide(struct world *w);
/* Take the first `n_steps` of the last decision, and its status only when all of them. */
void world_apply(struct world *w, int n_steps);
/* Decide, and take all of it. */
void world_round(struct world *w);
/* Returns how many rounds it took until a decision changed nothing; fails beyond the limit. */
int world_settle(struct world *w);
/* Does the last decision change anything? */
bool world_is_idle(const struct world *w);

/* The newest pod of a stage of the newest plan; NULL when there is none. */
struct seen_pod *world_pod(struct world *w, int stage);
struct seen_pod *world_probe(struct world *w, const char *node);
/* The pod that reads the model; NULL when there is none. */
struct seen_pod *world_reader(struct world *w);
/* All pods of the newest plan get an address and run. */
void world_run_pods(struct world *w);
/* The process of a pod ends, with these last words. */
void world_end_pod(struct world *w, int stage, int exit_code, enum progress_cause cause);
/* What it left. */
struct progress *world_last_words(struct world *w, int stage);
void world_remove_pod(struct world *w, struct seen_pod *pod);
/* The session of a worker ends, as when a link breaks, `ended_ms` ago. */
void world_end_session(struct world *w, int stage, int64_t ended_ms);
/* To the middle of training. */
void world_start_training(struct world *w);
/* All nodes are alike, and have room for a worker with all units. */
void world_make_alike(struct world *w);
/* All pods run, and the leader of the newest plan trains, 7 steps of very many being done. */
void world_train_on(struct world *w);

int world_count(const struct world *w, enum action_kind kind);
const struct action *world_find(const struct world *w, enum action_kind kind);
bool world_has_event(const struct world *w, const char *reason);

#endif
