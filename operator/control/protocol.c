/* A change of spec.sync while replicas train: the next revision has it, with the same workers and
 * cuts, and begins at a step boundary, or where replicas are out of step at a checkpoint. Where the
 * pods lack memory for it, or the number of replicas was changed too, it waits for the next plan,
 * like other changes. */
#include "balance/reshare.h"

#include <stdio.h>
#include <string.h>

#include "control/context.h"

/* Replicas out of step need a copy of the weights, for which the pods may not have been made. */
static bool has_room(const struct context *c, const struct spec *spec)
{
    const struct plan *plan = &c->seen->revision.plan;
    struct partition_request request = partition_request_of(spec);
    struct node nodes[SPEC_STAGES_MAX];
    struct replicas replicas;

    request.job.micro_batches = plan->micro_batches;
    request.job.saves_from_copy = plan->saves_from_copy;
    request.memory_percent = 100;
    request.nodes = nodes;
    request.n_nodes = plan->n_workers;
    for (int i = 0; i < plan->n_workers; i++) /* speeds do not matter */
        nodes[i] = (struct node){.cpu_milli = plan->workers[i].cpu_milli,
                                 .memory_bytes = plan->workers[i].memory_bytes,
                                 .gflops = 1};
    if (reshare_measure(&request, plan, plan->shares, NULL, &replicas, NULL) != ERR_OK)
        return false;
    for (int k = 0; k < replicas.n; k++)
        for (int s = 0; s < replicas.pipelines[k].n_stages; s++) {
            const struct placement_stage *stage = &replicas.pipelines[k].stages[s];

            if (stage->memory_bytes > nodes[stage->node].memory_bytes)
                return false;
        }
    return true;
}

/* In *out the spec of the plan with what the user wants now. False: there is nothing to change, or
 * it has to wait. */
static bool is_changed(const struct context *c, struct spec *out)
{
    const struct plan *plan = &c->seen->revision.plan;
    const struct spec *wanted = c->seen->spec;

    if (!wanted || !c->seen->has_revision || plan_n_replicas(plan) == 1 ||
        wanted->replicas != plan->spec.replicas || wanted->sync.protocol == SPEC_PROTOCOL_AUTO ||
        spec_same_sync(wanted, &plan->spec))
        return false;
    *out = plan->spec;
    out->sync = wanted->sync;
    return has_room(c, out);
}

void protocol_take(struct context *c)
{
    struct spec spec;

    if (is_changed(c, &spec))
        c->spec = spec;
}

bool protocol_is_due(const struct context *c)
{
    struct spec spec;

    return context_may_halt(c) && is_changed(c, &spec);
}

bool protocol_follow(struct context *c)
{
    const struct plan *plan = &c->seen->revision.plan;
    char text[STATUS_MESSAGE_BYTES];

    if (c->drain != DRAIN_NONE || c->seen->leader.state != PROGRESS_TRAINING ||
        plan->revision != c->seen->status.revision || !protocol_is_due(c))
        return false;
    (void)snprintf(text, sizeof text,
                   "spec.sync was changed: the protocol was %s and is %s from the next step on.",
                   spec_protocol_names[plan->spec.sync.protocol],
                   spec_protocol_names[c->seen->spec->sync.protocol]);
    context_add_event(c, false, "SyncChanged", text);
    restart_next(
        c, &(struct next){
               .reason = "SyncChanged", .text = text, .keeps_workers = true, .is_expected = true});
    return true;
}
