#include "train/tally.h"

const char *const tally_part_names[TALLY_PARTS] = {
    [TALLY_FORWARD] = "forward", [TALLY_BACKWARD] = "backward", [TALLY_UPDATE] = "update",
    [TALLY_WAITING] = "waiting", [TALLY_EXCHANGE] = "exchange", [TALLY_OTHER] = "other",
};

void tally_begin(struct tally *t, int64_t now_ns)
{
    t->part = TALLY_OTHER;
    t->from_ns = now_ns;
}

void tally_turn(struct tally *t, enum tally_part part, int64_t now_ns)
{
    tally_add(&t->ns[t->part], now_ns - t->from_ns);
    t->part = part;
    t->from_ns = now_ns;
}

void tally_connect(struct tally *t, struct edges *edges)
{
    for (int slot = 0; slot <= PLAN_SLOT_MAX; slot++)
        atomic_store(&t->peers[slot].is_there, false);
    for (int i = 0; i < edges->n; i++) {
        struct tally_peer *peer = &t->peers[edges->list[i].peer];

        atomic_store(&peer->is_there, true);
        edges->list[i].traffic = &peer->traffic;
    }
}
