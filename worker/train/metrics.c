#include "train/metrics.h"

#include <stdio.h>
#include <string.h>

#include "base/families.h"
#include "train/cpu.h"

void metrics_read(struct mailbox *b, struct metrics *out)
{
    const struct tally *t = &b->tally;
    struct progress p;

    mailbox_get_progress(b, &p);
    *out = (struct metrics){
        .state = p.state,
        .revision = p.revision,
        .has_staleness = strcmp(p.sync.protocol, spec_protocol_names[SPEC_PROTOCOL_ASP]) == 0,
        .staleness = p.sync.staleness,
        .n_steps = atomic_load(&t->n_steps),
        .n_tokens = atomic_load(&t->n_tokens),
        .saved_ms = atomic_load(&t->saved_ms),
        .throttled_ns = cpu_throttled_ns(),
    };
    for (int i = 0; i < TALLY_PARTS; i++)
        out->ns[i] = atomic_load(&t->ns[i]);
    for (int slot = 0; slot <= PLAN_SLOT_MAX && out->n_peers < SPEC_STAGES_MAX; slot++) {
        const struct link_traffic *traffic = &t->peers[slot].traffic;

        if (atomic_load(&t->peers[slot].is_there))
            out->peers[out->n_peers++] = (struct metrics_peer){
                slot, atomic_load(&traffic->sent_bytes), atomic_load(&traffic->received_bytes),
                atomic_load(&traffic->unacknowledged_bytes)};
    }
}

static void write_time(struct families *f, const struct metrics *m)
{
    families_begin(
        f, "skyjob_worker_time_seconds_total", "counter",
        "Time of the trainer. waiting: for other stages, and sending to them (the bubble); "
        "exchange: of gradients and weights between replicas; other: outside of steps.");
    for (int i = 0; i < TALLY_PARTS; i++)
        families_add_with(f, "", "part", tally_part_names[i], (double)m->ns[i] / 1e9);
}

static void write_peers(struct families *f, const struct metrics *m)
{
    static const struct {
        const char *name, *type, *help;
    } all[] = {
        {"skyjob_worker_sent_bytes_total", "counter",
         "Bytes of messages sent to the worker with this slot."},
        {"skyjob_worker_received_bytes_total", "counter",
         "Bytes of messages received from the worker with this slot."},
        {"skyjob_worker_unacknowledged_bytes", "gauge",
         "Bytes sent to the worker with this slot that it has not taken yet."},
    };

    for (int k = 0; k < 3; k++) {
        families_begin(f, all[k].name, all[k].type, all[k].help);
        for (int i = 0; i < m->n_peers; i++) {
            const struct metrics_peer *p = &m->peers[i];
            const uint64_t bytes[] = {p->sent_bytes, p->received_bytes, p->unacknowledged_bytes};
            char slot[12];

            (void)snprintf(slot, sizeof slot, "%d", p->slot);
            families_add_with(f, "", "edge", slot, (double)bytes[k]);
        }
    }
}

enum err_code metrics_write(const struct metrics *m, struct buf *out, struct err *err)
{
    struct families f = {.out = out, .err = err};

    families_begin(&f, "skyjob_worker_state", "gauge", "1 for the state of the worker, else 0.");
    for (int i = 0; progress_state_names[i]; i++)
        families_add_with(&f, "", "state", progress_state_names[i], i == (int)m->state);
    families_one(&f, "skyjob_worker_revision", "gauge",
                 "Number of the revision of the plan; 0 before the first.", m->revision);
    families_one(&f, "skyjob_worker_steps_total", "counter",
                 "Steps that the worker took part in, those done again included.",
                 (double)m->n_steps);
    families_one(&f, "skyjob_worker_tokens_total", "counter",
                 "Tokens that its stage has trained on.", (double)m->n_tokens);
    write_time(&f, m);
    if (m->has_staleness)
        families_one(&f, "skyjob_worker_staleness_tickets", "gauge",
                     "Tickets that ended while one of this round was computed, on average.",
                     m->staleness);
    write_peers(&f, m);
    families_one(
        &f, "skyjob_worker_cpu_throttled_seconds_total", "counter",
        "Time that the container was throttled for its CPU limit; 0 where that is not known.",
        (double)m->throttled_ns / 1e9);
    if (m->saved_ms > 0)
        families_one(&f, "skyjob_worker_last_checkpoint_timestamp_seconds", "gauge",
                     "When the state was that of the last complete checkpoint, since 1970.",
                     (double)m->saved_ms / 1e3);
    return f.rc;
}
