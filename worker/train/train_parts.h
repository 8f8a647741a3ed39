/* train/train_parts.h - what the files of the training loop share. Private to them.
 *
 *   train.c        the loop: steps, evaluations, checkpoints; how a session begins and ends
 *   train_step.c   micro-batches, what stages and replicas add up, the end of a step (BSP)
 *   train_round.c  steps of asynchronous replicas (ASP), from one boundary to the next
 *   train_alone.c  steps of replicas that train alone (Local), from one meeting to the next
 *   train_show.c   what people see of it
 *
 * The stage's own thread calls all of it. Errors are those of train_run().
 */
#ifndef TRAIN_TRAIN_PARTS_H
#define TRAIN_TRAIN_PARTS_H

#include "train/train.h"

#define CHECKPOINT_WAIT_MS 100 /* of one call; repeated until the session is stopped */

/* --- train_step.c --- */

int train_replica(const struct train *t);
/* Sequences of a step. */
int train_step_seqs(const struct train *t, int64_t step);
/* A smaller step is not averaged with the others, unless there are no others. */
bool train_is_typical(const struct train *t, int64_t step);
double train_ms_since(int64_t from_ns);

/* Computing of this kind, by a stopwatch of `t`, from now on ... */
void train_watch(struct train *t, struct stopwatch *w, enum tally_part part);
/* ... and until now. `next` is what comes until the next one begins. */
void train_unwatch(struct train *t, struct stopwatch *w, enum tally_part next);
/* What comes behind the last micro-batch of a step, and behind an update. */
enum tally_part train_between(const struct train *t);

/* Of a step or, if `split` is not TRAIN_STEP, of an evaluation. */
void train_start_counting(struct train *t, int split);
/* In the log, once, when this worker is to end soon. */
void train_note_leaving(struct train *t, int64_t step);
/* What a stage calls between its units while replicas exchange them. */
struct stage_hooks train_hooks(struct train *t);
/* Micro-batch `index` of the step, or of the split that is evaluated: through this stage, and on to
 * the next one or into the sums. */
MUST_CHECK enum err_code train_forward(struct train *t, int64_t step, int64_t index,
                                       struct err *err);
/* All micro-batches of t->schedule, forward and back. */
MUST_CHECK enum err_code train_microbatches(struct train *t, int64_t step, struct err *err);

/* Receive the sums of the stages before, add this stage's, and pass them on: the last stage has
 * those of its replica then. */
MUST_CHECK enum err_code train_add_up_replica(struct train *t, int64_t step,
                                              struct message_sum *sum, struct err *err);
/* From the last stage to the decider, which has those of all replicas then; those of a ticket are
 * for its desk. */
MUST_CHECK enum err_code train_add_up_all(struct train *t, int64_t step, struct message_sum *sum,
                                          struct err *err);
/* Both. */
MUST_CHECK enum err_code train_add_up(struct train *t, int64_t step, struct message_sum *sum,
                                      struct err *err);
/* The decider notes what a micro-batch took in a replica (train/stragglers.h). */
void train_note_pace(struct train *t, int replica, double ms, double elapsed_ms);

/* How the step is done behind `steps_done` others, but for stragglers. Those out of step because of
 * stragglers are no part of what comes before a Switch. */
enum spec_protocol train_protocol_at(const struct train *t, int64_t steps_done);
struct message_next train_usual_next(const struct train *t, int64_t steps_done);
/* The decider's word. */
struct message_next train_decide_next(const struct train *t, int64_t steps_done);
MUST_CHECK enum err_code train_take_next(struct train *t, const struct message_next *next,
                                         struct err *err);

/* What the decider makes of a step, from the loss and all sums. */
struct message_end train_decide(const struct train *t, int64_t step, const struct message_sum *sum);
/* Until the checkpoint that is being written does not need the state as it is any more. If this is
 * stopped, the gradients are complete: the next revision does the update. */
MUST_CHECK enum err_code train_release_state(struct train *t, struct err *err);
/* Behind an update: the weights of units that are at home here, and the words to the decoder. */
MUST_CHECK enum err_code train_spread_weights(struct train *t, int64_t step, struct err *err);

/* A step in which all replicas are in step. */
MUST_CHECK enum err_code train_run_step(struct train *t, int64_t step, struct err *err);

/* --- train_round.c --- */

/* A round of asynchronous steps, up to the boundary at `until` or, if a checkpoint is due, before.
 */
MUST_CHECK enum err_code train_run_round(struct train *t, int64_t until, struct err *err);
/* Also of one that was not opened. */
void train_close_round(struct train *t);

/* Replicas leave a boundary: each goes on with weights of its own ... */
MUST_CHECK enum err_code train_part(struct train *t, struct err *err);
/* ... computes tickets ... */
MUST_CHECK enum err_code train_compute_ticket(struct train *t, int64_t ticket, struct err *err);
/* ... of which the leader shows the steps that all have done ... */
void train_show_ticket(struct train *t, const struct message_end *end);
/* ... and they are at the next one, which *end describes: all get its weights. */
MUST_CHECK enum err_code train_join(struct train *t, const struct message_end *end,
                                    struct err *err);

/* --- train_alone.c --- */

/* From one meeting of the replicas to the next one, at `until`. `joins`: they are to have the same
 * weights there, for something else than the next steps alone. */
MUST_CHECK enum err_code train_run_alone(struct train *t, int64_t until, bool joins,
                                         struct err *err);

/* --- train_show.c --- */

/* So many steps are done. */
void train_count_steps(struct train *t, int64_t steps_done);
/* `n` steps up to `steps_done` took so long together, from the last one that was shown. */
void train_show_steps(struct train *t, int64_t steps_done, int64_t n, double seconds,
                      const struct message_end *end);
void train_show_step(struct train *t, int64_t step, const struct message_end *end);
void train_show_evaluation(struct train *t, const struct message_eval *end);

/* --- train.c --- */

/* What became of the last checkpoint; of one on command, report it once. */
void train_settle_checkpoint(struct train *t, bool is_saved, bool has_failed);
/* The checkpoint that *end orders. Behind the last step it may have to wait. */
MUST_CHECK enum err_code train_save_step(struct train *t, const struct message_end *end,
                                         struct err *err);

#endif
