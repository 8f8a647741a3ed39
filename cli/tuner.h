/* cli/tuner.h - how much of a job its replicas must do in step, decided from runs of the job.
 *
 * Sync-Switch (arXiv 2104.08364) finds the step at which BSP may end by bisection over runs of the
 * job. The accuracies that were published with it do not rise with BSP's part, and those of equal
 * runs differ by points, so a bisection of single runs may end anywhere. Here each candidate is
 * compared with BSP by pairs of runs with the same seed, the cheapest candidate first: the first
 * that is shown to be less than a margin worse than BSP is the answer, and BSP if none is.
 *
 * The test is sequential. After each pair from the third on (of fewer, after the last) there is a
 * look: Student's t gives a one-sided bound for the mean difference on either side, at a level of
 * TUNER_ALPHA divided by the number of looks that there may be. That is a Bonferroni bound over the
 * looks, and so conservative: a candidate that is worse by the margin passes with a probability of
 * at most TUNER_ALPHA. Two pairs would hardly ever decide, for Student's t is above 10 there.
 * Layer: cli. Threads: any; pure.
 */
#ifndef CLI_TUNER_H
#define CLI_TUNER_H

#include <stdbool.h>

#define TUNER_ALPHA      0.05
#define TUNER_RUNS_MIN   2 /* a spread needs two */
#define TUNER_RUNS_MAX   32
#define TUNER_LOOK_FIRST 3   /* pairs */
#define TUNER_BSP        100 /* percent: the reference */
#define TUNER_CANDIDATES 5
#define TUNER_STEPS_MIN  20 /* of a job: with fewer, some candidates switch at the same step */

/* BSP's part of the steps, rising. */
extern const int tuner_percents[TUNER_CANDIDATES];

struct tuner_run {
    int percent; /* of the steps in BSP: one of tuner_percents, or TUNER_BSP */
    int seed;    /* 0-based */
};

struct tuner_result {
    bool is_trained; /* else the run has failed, and there is no metric */
    double metric;
    double seconds;
};

enum tuner_verdict {
    TUNER_OPEN,      /* more pairs are to come, or it is not its turn */
    TUNER_GOOD,      /* less than the margin worse than BSP: the lower bound is above -margin */
    TUNER_WORSE,     /* by more than that: the upper bound is below -margin */
    TUNER_FUTILE,    /* if all pairs to come were like the best so far, it would not be shown */
    TUNER_UNDECIDED, /* after all pairs */
    TUNER_FAILED,    /* a run was not trained */
};

struct tuner {
    double margin; /* in units of the metric */
    bool is_less_better;
    int n_pairs_max;
    int n_references;
    struct tuner_result references[TUNER_RUNS_MAX]; /* BSP, by seed */
    struct tuner_candidate {
        int n;
        struct tuner_result runs[TUNER_RUNS_MAX]; /* by seed */
    } candidates[TUNER_CANDIDATES];
};

/* What is known of a candidate. Differences are to BSP and positive where the candidate is better,
 * whatever the metric. */
struct tuner_summary {
    enum tuner_verdict verdict;
    int n_pairs;  /* trained */
    double mean;  /* NaN without pairs */
    double lower; /* one-sided bounds at the level of a look; infinite for fewer than two pairs */
    double upper;
    double seconds;     /* of a run, mean; NaN without pairs */
    double bsp_seconds; /* of BSP with the same seeds */
};

/* `margin` >= 0; `n_pairs_max` from TUNER_RUNS_MIN to TUNER_RUNS_MAX. */
void tuner_init(struct tuner *t, double margin, bool is_less_better, int n_pairs_max);

/* The run that is needed next; false when the answer is there. BSP comes first of each pair, and
 * once for all candidates. */
bool tuner_next(const struct tuner *t, struct tuner_run *out);
/* The result of the run of tuner_next(). One of BSP must be trained: without it there is nothing to
 * compare with. */
void tuner_note(struct tuner *t, const struct tuner_result *result);

struct tuner_summary tuner_summary(const struct tuner *t, int candidate);
/* The answer so far: of tuner_percents, or TUNER_BSP. */
int tuner_answer(const struct tuner *t);

/* All runs so far. */
int tuner_count(const struct tuner *t);
double tuner_seconds(const struct tuner *t);
/* What the answer saves per run against BSP; 0 or less: nothing. */
double tuner_saving(const struct tuner *t);

/* The value that Student's t with `n_free` > 0 degrees of freedom exceeds with a probability of
 * `tail`, in (0, 0.5]. */
double tuner_t(double tail, int n_free);

#endif
