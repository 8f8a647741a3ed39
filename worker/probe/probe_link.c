#include "probe/probe_link.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "train/control.h"
#include "wire/link.h"

#define MEET_MS       8000 /* the first partner may have started last, and still measure itself ... */
#define MEET_MORE_MS  2500 /* ... and each next one may have waited for an absent partner */
#define SESSION_MS    3000 /* both turns */
#define CLOSE_MS      300
#define PINGS         21 /* odd: there is a median */
#define PING_MS       150
#define PING_BYTES    64
#define BULK_MS       300
#define BULK_START    (64u << 10)
#define BULK_LEAST_MS 20 /* a message that takes less is too small to measure with */

struct probe_link {
    struct probe_link_params params;
    struct hmac_key key;
    struct mailbox mailbox;
    struct control *control;
};

/* The link between two partners. */
struct session {
    struct link *link;
    enum link_edge in;
    enum link_edge out;
    uint8_t *bytes; /* PROBE_LINK_MESSAGE_BYTES to send */
    int64_t end_ms;
};

/* The meaning of a message, in its step. */
enum { PING, TURN_OVER };

enum err_code probe_link_open(const struct probe_link_params *params, struct probe_link **out,
                              struct err *err)
{
    struct probe_link *p = calloc(1, sizeof *p);
    struct control_params control = {.host = params->control_host, .port = params->control_port};
    enum err_code rc;

    if (!p)
        return err_set(err, ERR_NO_MEMORY, "no memory to measure links");
    p->params = *params;
    mailbox_init(&p->mailbox);
    control.mailbox = &p->mailbox;
    rc = hmac_key_load(params->key_path, &p->key, err);
    control.key = p->key;
    if (rc == ERR_OK)
        rc = control_open(&control, &p->control, err);
    if (rc == ERR_OK) {
        *out = p;
        return ERR_OK;
    }
    mailbox_deinit(&p->mailbox);
    free(p);
    return rc;
}

void probe_link_close(struct probe_link *p)
{
    if (!p)
        return;
    control_close(p->control);
    mailbox_deinit(&p->mailbox);
    free(p);
}

/* --- messages --- */

static int left_ms(int64_t end_ms)
{
    int64_t left = end_ms - clock_now_ms();

    return left < 0 ? 0 : (int)left;
}

static enum err_code send_message(struct session *s, uint64_t step, size_t bytes, struct err *err)
{
    struct link_message msg = {.kind = s->out == LINK_FORWARD_OUT ? FRAME_FORWARD : FRAME_BACKWARD,
                               .step = step,
                               .tensor_bytes = bytes,
                               .tensor = s->bytes};

    return link_send(s->link, s->out, &msg, left_ms(s->end_ms), err);
}

static enum err_code recv_message(struct session *s, uint64_t *out_step, struct err *err)
{
    struct link_message msg;
    enum err_code rc = link_recv(s->link, s->in, left_ms(s->end_ms), &msg, err);

    if (rc != ERR_OK)
        return rc;
    *out_step = msg.step;
    link_release(s->link, s->in, &msg);
    return ERR_OK;
}

/* A message there and a small one back; also sets the time when it is not answered in time. */
static enum err_code bounce(struct session *s, size_t bytes, double *out_ms, struct err *err)
{
    int64_t start_ns = clock_now_ns();
    uint64_t step;
    enum err_code rc = send_message(s, PING, bytes, err);

    if (rc == ERR_OK)
        rc = recv_message(s, &step, err);
    *out_ms = (double)(clock_now_ns() - start_ns) / 1e6;
    return rc;
}

/* --- the two turns --- */

/* Answer until the partner's turn is over. */
static enum err_code serve(struct session *s, struct err *err)
{
    uint64_t step = PING;
    enum err_code rc = recv_message(s, &step, err);

    while (rc == ERR_OK && step == PING) {
        rc = send_message(s, PING, 0, err);
        if (rc == ERR_OK)
            rc = recv_message(s, &step, err);
    }
    return rc;
}

/* Median time of a small message there and back. */
static enum err_code measure_pings(struct session *s, double *out_ms, struct err *err)
{
    double sorted[PINGS];
    int64_t end_ms = clock_now_ms() + PING_MS;
    double ms;
    int n = 0;
    enum err_code rc = bounce(s, PING_BYTES, &ms, err); /* the first one wakes all threads */

    while (rc == ERR_OK && n < PINGS && (n == 0 || clock_now_ms() < end_ms)) {
        int i = n;

        rc = bounce(s, PING_BYTES, &ms, err);
        for (; i > 0 && sorted[i - 1] > ms; i--)
            sorted[i] = sorted[i - 1];
        sorted[i] = ms;
        n++;
    }
    if (rc == ERR_OK)
        *out_ms = sorted[n / 2];
    return rc;
}

/* Bytes per second of messages that are large enough to take a while. A message that is not
 * answered in time gives an upper bound. */
static enum err_code measure_bulk(struct session *s, double ping_ms, double *out_bytes_per_s,
                                  struct err *err)
{
    size_t bytes = BULK_START;
    double sum_ms = 0;
    double ms = 0;
    int n = 0;
    enum err_code rc = bounce(s, bytes, &ms, err);

    while (rc == ERR_OK && ms < BULK_LEAST_MS && bytes < PROBE_LINK_MESSAGE_BYTES) {
        bytes = 4 * bytes < PROBE_LINK_MESSAGE_BYTES ? 4 * bytes : PROBE_LINK_MESSAGE_BYTES;
        rc = bounce(s, bytes, &ms, err);
    }
    while (rc == ERR_OK && sum_ms < BULK_MS) {
        rc = bounce(s, bytes, &ms, err);
        sum_ms += fmax(ms - ping_ms, ms / 10);
        n++;
    }
    if (rc == ERR_TIMEOUT && n == 0)
        sum_ms = ms;
    if (sum_ms > 0)
        *out_bytes_per_s = (double)bytes * (n > 0 ? n : 1) / sum_ms * 1000;
    return rc;
}

static enum err_code measure(struct session *s, struct node_link *out, struct err *err)
{
    double ping_ms = 0;
    double bytes_per_s = 0;
    enum err_code rc = measure_pings(s, &ping_ms, err);

    if (rc != ERR_OK)
        return rc;
    rc = measure_bulk(s, ping_ms, &bytes_per_s, err);
    out->latency_ms = round(ping_ms / 2 * 1000) / 1000;
    out->bytes_per_s = ceil(bytes_per_s); /* whole, which is short to write */
    if (rc == ERR_OK)
        rc = send_message(s, TURN_OVER, 0, err);
    return rc;
}

/* --- partners --- */

struct meeting {
    const struct probe_link_params *params;
    const struct hmac_key *key;
    const struct peers *table;
    int other;      /* in the table */
    int64_t end_ms; /* of waiting for it */
};

static enum err_code session_open(struct session *s, const struct meeting *with, int patience_ms,
                                  struct err *err)
{
    const struct probe_link_params *p = with->params;
    const char *mine = with->table->stages[0].node;
    const char *its = with->table->stages[with->other].node;
    bool is_first = strcmp(mine, its) < 0;
    struct link_params params = {
        .listen_address = p->tensor_host,
        .listen_port = p->tensor_port,
        .stage = is_first ? 0 : 1,
        .n_stages = 2,
        .plan_hash = hash_add(hash_add(HASH_START, is_first ? mine : its), is_first ? its : mine),
        .key = *with->key,
        .limits = {.tensor_max_bytes = PROBE_LINK_MESSAGE_BYTES,
                   .n_receive_slots = 2,
                   .n_send_slots = 2},
        .dial_timeout_ms = patience_ms};
    struct link_peer peer = {.port = with->table->stages[with->other].port};
    enum err_code rc;

    s->in = is_first ? LINK_BACKWARD_IN : LINK_FORWARD_IN;
    s->out = is_first ? LINK_FORWARD_OUT : LINK_BACKWARD_OUT;
    s->bytes = calloc(1, PROBE_LINK_MESSAGE_BYTES);
    if (!s->bytes)
        return err_set(err, ERR_NO_MEMORY, "no memory for messages");
    (void)snprintf(peer.host, sizeof peer.host, "%s", with->table->stages[with->other].host);
    rc = link_open(&params, &s->link, err);
    if (rc == ERR_OK)
        rc = link_set_peers(s->link, is_first ? &peer : NULL, is_first ? NULL : &peer, err);
    return rc;
}

static void session_close(struct session *s)
{
    struct err err;

    /* The result is known by now, so a failure costs nothing. */
    if (s->link && link_close(s->link, CLOSE_MS, &err) != ERR_OK)
        LOG(LOG_INFO, "link lost at the end", LOG_S("reason", err.text));
    free(s->bytes);
}

/* The one whose name sorts first measures first. Sets in *out what was measured, also on failure.
 */
static enum err_code meet(const struct meeting *with, struct node_link *out, struct err *err)
{
    struct session s = {.link = NULL};
    int64_t end_ms = with->params->end_ms;
    int patience_ms = left_ms(with->end_ms < end_ms ? with->end_ms : end_ms);
    enum err_code rc = session_open(&s, with, patience_ms, err);

    if (rc == ERR_OK)
        rc = link_wait_ready(s.link, patience_ms, err);
    s.end_ms = clock_now_ms() + SESSION_MS;
    if (s.end_ms > end_ms)
        s.end_ms = end_ms;
    if (rc == ERR_OK && s.out == LINK_BACKWARD_OUT)
        rc = serve(&s, err);
    if (rc == ERR_OK)
        rc = measure(&s, out, err);
    if (rc == ERR_OK && s.out == LINK_FORWARD_OUT)
        rc = serve(&s, err);
    session_close(&s);
    return rc;
}

void probe_link_run(struct probe_link *p, struct node_probe *out)
{
    int64_t begin_ms;
    struct peers table;
    struct err err;

    if (mailbox_wait_peers(&p->mailbox, p->params.table_ms, &table, &err) != ERR_OK) {
        LOG(LOG_INFO, "no links measured", LOG_S("reason", err.text));
        return;
    }
    begin_ms = clock_now_ms();
    for (int i = 1; i < table.n_stages && out->n_links < NODE_LINKS_MAX; i++) {
        struct node_link link = {.bytes_per_s = 0};
        struct meeting with = {.params = &p->params,
                               .key = &p->key,
                               .table = &table,
                               .other = i,
                               .end_ms = begin_ms + MEET_MS + (int64_t)(i - 1) * MEET_MORE_MS};

        if (left_ms(p->params.end_ms) == 0)
            return;
        (void)snprintf(link.node, sizeof link.node, "%s", table.stages[i].node);
        if (strcmp(link.node, table.stages[0].node) == 0)
            continue;
        if (meet(&with, &link, &err) != ERR_OK)
            LOG(LOG_INFO, "link not measured to its end", LOG_S("node", link.node),
                LOG_S("reason", err.text));
        if (link.bytes_per_s > 0)
            out->links[out->n_links++] = link;
    }
}
