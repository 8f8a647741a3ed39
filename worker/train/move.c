#include "train/move.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"

#define SLOTS    2
#define CLOSE_MS 10000
#define AREAS    3

enum { ID_MOVE = 2 }; /* of the edge between two workers; a pipeline has other numbers */

int move_list(const struct revision *r, int self, struct move *out)
{
    struct plan_home homes[SPEC_STAGES_MAX];
    int n_homes = plan_homes(&r->plan, homes);
    int n = 0;

    for (int i = 0; i < n_homes; i++) {
        int to = homes[i].worker;

        for (int unit = homes[i].first_unit; unit < homes[i].first_unit + homes[i].n_units;
             unit++) {
            const struct resume_source *s = revision_source(r, unit);
            int from = resume_is_worker(s) ? revision_find(r, s->slot) : to;

            if (from != to && (from == self || to == self))
                out[n++] = (struct move){.unit = unit, .from = from, .to = to};
        }
    }
    return n;
}

bool move_any(const struct revision *r)
{
    struct move moves[MODEL_UNITS_MAX];
    bool moves_any = false;

    for (int i = 0; i < r->plan.n_workers && !moves_any; i++)
        moves_any = move_list(r, i, moves) > 0;
    return moves_any;
}

/* --- one link for all --- */

/* This worker's ends of all moves. */
struct mover {
    const struct move_params *p;
    struct exchange exchange;
    int edges[2 * SPEC_STAGES_MAX][2]; /* [worker][in, out]: index in the link; -1: none */
};

static int add_edge(struct link_edge *list, int n, const char *uid,
                    const struct revision_worker *peer, bool is_incoming)
{
    list[n] = (struct link_edge){.id = ID_MOVE,
                                 .is_incoming = is_incoming,
                                 .peer = (uint32_t)peer->slot,
                                 .peer_incarnation = (uint32_t)peer->incarnation,
                                 .meta_max_bytes = sizeof(struct message_history),
                                 .tensor_max_bytes = MOVE_PIECE_BYTES,
                                 .n_slots = SLOTS};
    (void)snprintf(list[n].name, sizeof list[n].name, "units %s", is_incoming ? "from" : "to");
    (void)snprintf(list[n].peer_name, sizeof list[n].peer_name, "worker %d", peer->slot);
    names_worker_dns(uid, peer->slot, peer->incarnation, list[n].tls_name);
    return n;
}

static enum err_code open_link(struct mover *m, const struct move *moves, int n_moves,
                               struct err *err)
{
    const struct move_params *p = m->p;
    struct link_edge list[LINK_EDGES_MAX];
    struct link_params params = p->link;
    struct link *link;
    enum err_code rc;

    for (int i = 0; i < 2 * SPEC_STAGES_MAX; i++)
        m->edges[i][0] = m->edges[i][1] = -1;
    params.edges = list;
    params.n_edges = 0;
    for (int i = 0; i < n_moves; i++) {
        bool is_incoming = moves[i].to == p->self;
        int peer = is_incoming ? moves[i].from : moves[i].to;
        struct revision_worker worker = revision_worker(p->revision, peer);
        int *index = &m->edges[peer][is_incoming ? 0 : 1];

        if (*index >= 0)
            continue;
        if (params.n_edges == LINK_EDGES_MAX)
            return err_set(err, ERR_LIMIT, "units move between more than %d pairs of workers",
                           LINK_EDGES_MAX);
        *index = add_edge(list, params.n_edges++, p->revision->plan.uid, &worker, is_incoming);
    }
    rc = link_open(&params, &link, err);
    if (rc != ERR_OK)
        return rc;
    m->exchange.link = link;
    for (int i = 0; rc == ERR_OK && i < 2 * SPEC_STAGES_MAX; i++)
        if (m->edges[i][0] >= 0 || m->edges[i][1] >= 0)
            rc = link_set_peer(link, (uint32_t)revision_worker(p->revision, i).slot,
                               p->peers->list[i].host, p->peers->list[i].port, err);
    return rc == ERR_OK ? exchange_wait_ready(&m->exchange, p->connect_ms, err) : rc;
}

/* --- the leader's records --- */

/* From the checkpoint, if unit 0 comes from there. */
static enum err_code find_history(struct mover *m, struct buf *out, struct buf *out_progress,
                                  struct err *err)
{
    const struct move_params *p = m->p;
    enum err_code rc;

    if (revision_source(p->revision, 0)->kind == SOURCE_PEER)
        return store_read_records(p->reader, out, out_progress, err);
    rc = history_text(p->history, out, err);
    return rc == ERR_OK ? progress_write(p->progress, out_progress, err) : rc;
}

static enum err_code give_history(struct mover *m, struct err *err)
{
    const struct move_params *p = m->p;
    struct buf text = {.max = HISTORY_MAX_BYTES}, progress = {.max = PROGRESS_TEXT_MAX_BYTES};
    struct message_history *head = calloc(1, sizeof *head);
    float *piece = calloc(1, MOVE_PIECE_BYTES);
    struct exchange_key key =
        exchange_key(EDGE_FORWARD_OUT, MESSAGE_HISTORY, p->revision->resume.step, 0);
    enum err_code rc = head && piece ? find_history(m, &text, &progress, err)
                                     : err_set(err, ERR_NO_MEMORY, "no memory for the history");

    if (rc == ERR_OK) {
        head->n_bytes = (int64_t)text.len;
        memcpy(head->progress, buf_text(&progress), progress.len);
        rc = exchange_send(&m->exchange, key, head, sizeof *head, NULL, 0, err);
    }
    for (size_t at = 0; rc == ERR_OK && at < text.len; at += MOVE_PIECE_BYTES) {
        size_t n = text.len - at < MOVE_PIECE_BYTES ? text.len - at : MOVE_PIECE_BYTES;

        memset(piece, 0, MOVE_PIECE_BYTES);
        memcpy(piece, text.data + at, n);
        key.microbatch++;
        rc = exchange_send(&m->exchange, key, NULL, 0, piece,
                           (n + sizeof *piece - 1) / sizeof *piece, err);
    }
    free(piece);
    free(head);
    buf_deinit(&progress);
    buf_deinit(&text);
    return rc;
}

static enum err_code fetch_history(struct mover *m, struct err *err)
{
    const struct move_params *p = m->p;
    struct buf text = {.max = HISTORY_MAX_BYTES};
    struct exchange_key key =
        exchange_key(EDGE_FORWARD_IN, MESSAGE_HISTORY, p->revision->resume.step, 0);
    struct message_history *head = calloc(1, sizeof *head);
    enum err_code rc = head ? exchange_recv_meta(&m->exchange, key, head, sizeof *head, err)
                            : err_set(err, ERR_NO_MEMORY, "no memory for the history");

    if (rc == ERR_OK && (head->n_bytes < 0 || head->n_bytes > (int64_t)HISTORY_MAX_BYTES ||
                         head->progress[PROGRESS_TEXT_MAX_BYTES] != '\0'))
        rc = err_set(err, ERR_PROTOCOL, "a history of %lld bytes", (long long)head->n_bytes);
    while (rc == ERR_OK && (int64_t)text.len < head->n_bytes) {
        size_t left = (size_t)head->n_bytes - text.len;
        struct link_message msg;

        key.microbatch++;
        rc = exchange_recv(&m->exchange, key, &msg, err);
        if (rc != ERR_OK)
            break;
        if (msg.tensor_bytes == 0)
            rc = err_set(err, ERR_PROTOCOL, "an empty piece of the history");
        else
            rc = buf_add(&text, msg.tensor, msg.tensor_bytes < left ? msg.tensor_bytes : left, err);
        exchange_release(&m->exchange, key, &msg);
    }
    if (rc == ERR_OK && history_take_over(p->history, p->progress, head->progress,
                                          strlen(head->progress), &text, NULL) != ERR_OK)
        rc = err_set(err, ERR_PROTOCOL, "the leader's progress cannot be read");
    free(head);
    buf_deinit(&text);
    return rc;
}

/* --- units --- */

static enum err_code give_piece(struct mover *m, struct exchange_key key,
                                const struct message_piece *piece, const float *x, size_t n,
                                struct err *err)
{
    key.edge = EDGE_FORWARD_OUT;
    return exchange_send(&m->exchange, key, piece, sizeof *piece, x, n, err);
}

static enum err_code fetch_piece(struct mover *m, struct exchange_key key,
                                 const struct message_piece *piece, float *x, size_t n,
                                 struct err *err)
{
    struct link_message msg;
    enum err_code rc = exchange_recv(&m->exchange, key, &msg, err);

    if (rc != ERR_OK)
        return rc;
    if (msg.meta_bytes != sizeof *piece || memcmp(msg.meta, piece, sizeof *piece) != 0 ||
        msg.tensor_bytes != n * sizeof *x)
        rc = err_set(err, ERR_PROTOCOL, "unexpected piece of unit %d", piece->unit);
    else
        memcpy(x, msg.tensor, n * sizeof *x);
    exchange_release(&m->exchange, key, &msg);
    return rc;
}

static enum err_code move_unit(struct mover *m, const struct weights_unit *u, int unit,
                               bool is_fetched, struct err *err)
{
    const size_t most = MOVE_PIECE_BYTES / sizeof(float);
    struct exchange_key key =
        exchange_key(EDGE_FORWARD_IN, MESSAGE_UNIT, m->p->revision->resume.step, 0);
    enum err_code rc = ERR_OK;

    for (int area = 0; rc == ERR_OK && area < AREAS && weights_floats(u, (enum weights_area)area);
         area++)
        for (size_t at = 0; rc == ERR_OK && at < u->count; at += most, key.microbatch++) {
            struct message_piece piece = {.unit = unit, .area = area, .at = (int64_t)at};
            size_t n = u->count - at < most ? u->count - at : most;
            float *x = weights_floats(u, (enum weights_area)area) + at;

            rc = exchange_check(&m->exchange, err);
            if (rc == ERR_OK)
                rc = is_fetched ? fetch_piece(m, key, &piece, x, n, err)
                                : give_piece(m, key, &piece, x, n, err);
        }
    if (rc == ERR_OK && is_fetched)
        m->p->state->hold[unit] = STATE_KEPT;
    return rc;
}

/* Give a unit from the checkpoint. */
static enum err_code give_saved(struct mover *m, int unit, struct err *err)
{
    struct store_unit saved;
    enum err_code rc = store_load_unit(m->p->reader, unit, &saved, err);

    if (rc == ERR_OK) {
        const struct weights_unit u = {
            .count = model_unit_params(&m->p->revision->plan.spec.model, unit),
            .params = saved.params,
            .moment = saved.moment,
            .variance = saved.variance};

        rc = move_unit(m, &u, unit, false, err);
        store_free_unit(&saved);
    }
    return rc;
}

static enum err_code run(struct mover *m, const struct move *moves, int n_moves, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK && i < n_moves; i++) {
        bool is_fetched = moves[i].to == m->p->self;
        int peer = is_fetched ? moves[i].from : moves[i].to;

        m->exchange.edges.index[EDGE_FORWARD_IN] = m->edges[peer][0];
        m->exchange.edges.index[EDGE_FORWARD_OUT] = m->edges[peer][1];
        if (moves[i].unit == 0)
            rc = is_fetched ? fetch_history(m, err) : give_history(m, err);
        if (rc == ERR_OK && !is_fetched &&
            revision_source(m->p->revision, moves[i].unit)->kind == SOURCE_PEER)
            rc = give_saved(m, moves[i].unit, err);
        else if (rc == ERR_OK)
            rc = move_unit(m, &m->p->state->units[moves[i].unit], moves[i].unit, is_fetched, err);
    }
    return rc;
}

enum err_code move_run(const struct move_params *p, struct err *err)
{
    struct move moves[MODEL_UNITS_MAX];
    int n_moves = move_list(p->revision, p->self, moves);
    struct mover m = {.p = p, .exchange = {.stops = p->stops}};
    char cause[ERR_TEXT_BYTES + 32];
    enum err_code rc;

    if (n_moves == 0)
        return ERR_OK;
    rc = open_link(&m, moves, n_moves, err);
    if (rc == ERR_OK)
        rc = run(&m, moves, n_moves, err);
    if (rc == ERR_OK)
        return exchange_close(&m.exchange, CLOSE_MS, err);
    (void)snprintf(cause, sizeof cause, "worker %u: %s", p->link.worker, err->text);
    link_abort(m.exchange.link, cause);
    return rc;
}
