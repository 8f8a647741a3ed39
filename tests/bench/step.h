/* step.h - a whole model on one stage and a batch for it: what the benchmarks of a step share.
 *
 * Anything that fails ends the program with a sentence on stderr.
 */
#ifndef BENCH_STEP_H
#define BENCH_STEP_H

#include "train/stage.h"

#define STEP_LENGTH 128 /* of a full sequence */

/* How long the sequences of a batch are. */
enum step_lengths {
    STEP_FULL, /* all STEP_LENGTH */
    STEP_MIX,  /* as in MNLI: mean 39, at most STEP_LENGTH */
};

struct step_case {
    const char *preset;
    int layers; /* 0: as many as the preset has */
    int n_seqs; /* of the batch */
    int micro_batches;
    enum step_lengths lengths;
    bool masked_lm; /* else a classifier; a masked LM predicts 15% of the tokens */
    int heads, ffn; /* 0: the preset's */
};

struct step {
    struct plan plan;
    struct state state;
    struct stage stage;
    struct message_batch *inputs; /* [micro_batches] */
    void *owned;                  /* what the inputs point into */
    int64_t at;                   /* optimizer steps done */
    int next;                     /* micro-batch of the step at hand */
    double tokens, flops;         /* of one step */
};

/* The model with its random start, and a batch. Big: keep it off the stack. In a smoke run it is
 * two layers of BertTiny, whatever the case says. */
void step_init(struct step *s, const struct step_case *c);
void step_deinit(struct step *s);

/* Forward and backward of every micro-batch, gradient norm, AdamW. */
void step_run(struct step *s);
/* Of the next micro-batch; behind the last one the rest of the step. */
void step_advance(struct step *s);

/* Start the program again with the kernels this processor should have, unless the user chose; take
 * `threads` threads. Sets what every row says of the kernels, and warns when they are generic. */
void step_setup(char **argv, int threads);

/* CPU time of this process so far, all threads. On a shared machine it is what wall time would be
 * without the others. */
double step_cpu_seconds(void);
double step_wall_seconds(void);

/* GFLOP/s of SGEMM, M=N=K=1024, in CPU time: the best of `rounds`. */
double step_peak_gflops(int rounds);

#endif
