#include "probe/probe_link.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "train/control.h"
#include "train/credentials.h"
#include "wire/link.h"

#define SMALL_BYTES 64

/* CPU time, over loopback. */
#define LOOPBACK    "127.0.0.1"
#define LARGE_BYTES (512u << 10)
#define SMALL       40 /* round trips */
#define LARGE       24
#define WARM        2
#define PAUSE_NS    1000000
#define LOOPBACK_MS 2000
#define MS_LEAST    1e-3 /* 0 would mean that it was not measured */

/* Latency and bandwidth, between machines. */
#define SESSION_MS     3000 /* both turns */
#define PINGS          21   /* odd: there is a median */
#define PING_MS        150
#define BULK_MS        300
#define BULK_START     (64u << 10)
#define BULK_LEAST_MS  20 /* a message that takes less is too small to measure with */
#define BULK_MAX_BYTES (3u << 20)
#define CLOSE_MS       300

/* --- one end of a link between two workers, with an edge each way --- */

enum { EDGE_IN, EDGE_OUT, N_EDGES };

static uint8_t payload[BULK_MAX_BYTES]; /* what is sent: zeros */

struct end {
    struct link *link;
    uint32_t worker; /* 0 or 1; the other is the partner */
    int64_t (*now_ns)(void);
    int64_t end_ms; /* by that clock */
};

/* The meaning of a message, in its step. */
enum { PING, TURN_OVER };

static int64_t now_ms(const struct end *e)
{
    return e->now_ns() / 1000000;
}

static int left_ms(const struct end *e)
{
    int64_t left = e->end_ms - now_ms(e);

    return left < 0 ? 0 : (int)left;
}

/* `what` has the addresses, the key, the identity and the hash of the plan; the rest is the same
 * for all links. With an identity all probes have the same name. */
static enum err_code end_open(struct end *e, const struct link_params *what, uint32_t max_bytes,
                              struct err *err)
{
    struct link_params params = *what;
    struct link_edge edge = {.peer = 1 - e->worker,
                             .tensor_max_bytes = max_bytes,
                             .n_slots = 2,
                             .name = "link",
                             .peer_name = "the partner"};
    struct link_edge edges[N_EDGES] = {edge, edge};

    if (what->tls)
        for (int i = 0; i < N_EDGES; i++)
            (void)snprintf(edges[i].tls_name, sizeof edges[i].tls_name, "%s",
                           tls_identity_name(what->tls));
    edges[EDGE_IN].is_incoming = true;
    params.worker = e->worker;
    params.edges = edges;
    params.n_edges = N_EDGES;
    params.dial_timeout_ms = left_ms(e);
    return link_open(&params, &e->link, err);
}

static void end_close(struct end *e)
{
    struct err err;

    /* The measurement is over, so a failure changes nothing. */
    if (e->link && link_close(e->link, CLOSE_MS, &err) != ERR_OK)
        LOG(LOG_INFO, "link lost at the end", LOG_S("reason", err.text));
}

static enum err_code send_message(struct end *e, uint64_t step, size_t bytes, struct err *err)
{
    struct link_message msg = {.step = step, .tensor_bytes = bytes, .tensor = payload};

    return link_send(e->link, EDGE_OUT, &msg, left_ms(e), err);
}

static enum err_code recv_message(struct end *e, uint64_t *out_step, struct err *err)
{
    struct link_message msg;
    enum err_code rc = link_recv(e->link, EDGE_IN, left_ms(e), &msg, err);

    if (rc != ERR_OK)
        return rc;
    *out_step = msg.step;
    link_release(e->link, EDGE_IN, &msg);
    return ERR_OK;
}

/* --- CPU time --- */

/* CPU time of a message, at both of its ends, in *out_ms. */
static enum err_code time_messages(struct end ends[2], int n, uint32_t bytes, double *out_ms,
                                   struct err *err)
{
    struct timespec pause = {.tv_nsec = PAUSE_NS};
    int64_t cpu_ns = 0;
    uint64_t step;
    enum err_code rc = ERR_OK;

    for (int i = 0; i < 2 * (n + WARM) && rc == ERR_OK; i++) {
        if (i == 2 * WARM)
            cpu_ns = clock_cpu_ns();
        rc = send_message(&ends[i % 2], PING, bytes, err);
        if (rc == ERR_OK)
            rc = recv_message(&ends[1 - i % 2], &step, err);
        (void)nanosleep(&pause, NULL);
    }
    *out_ms = (double)(clock_cpu_ns() - cpu_ns) / 1e6 / (2 * n);
    return rc;
}

enum err_code probe_message_run(int64_t (*now_ns)(void), const struct tls_identity *identity,
                                struct node_message *out, struct err *err)
{
    const struct link_params params = {.listen_address = LOOPBACK, .tls = identity};
    int64_t end_ms = now_ns() / 1000000 + LOOPBACK_MS;
    struct end ends[2] = {{.worker = 0, .now_ns = now_ns, .end_ms = end_ms},
                          {.worker = 1, .now_ns = now_ns, .end_ms = end_ms}};
    double small_ms = 0;
    double large_ms = 0;
    enum err_code rc = ERR_OK;

    for (int i = 0; i < 2 && rc == ERR_OK; i++)
        rc = end_open(&ends[i], &params, LARGE_BYTES, err);
    for (uint32_t i = 0; i < 2 && rc == ERR_OK; i++)
        rc = link_set_peer(ends[i].link, 1 - i, LOOPBACK, link_port(ends[1 - i].link), err);
    for (int i = 0; i < 2 && rc == ERR_OK; i++)
        rc = link_wait_ready(ends[i].link, left_ms(&ends[i]), err);
    if (rc == ERR_OK)
        rc = time_messages(ends, SMALL, SMALL_BYTES, &small_ms, err);
    if (rc == ERR_OK)
        rc = time_messages(ends, LARGE, LARGE_BYTES, &large_ms, err);
    end_close(&ends[0]);
    end_close(&ends[1]);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "messages over loopback");
    *out = (struct node_message){.ms = fmax(MS_LEAST, small_ms / 2),
                                 .byte_ns = fmax(0, large_ms - small_ms) * 1e6 /
                                            (LARGE_BYTES - SMALL_BYTES)};
    return ERR_OK;
}

/* --- latency and bandwidth --- */

/* A message there and a small one back; also sets the time when it is not answered in time. */
static enum err_code bounce(struct end *e, size_t bytes, double *out_ms, struct err *err)
{
    int64_t start_ns = e->now_ns();
    uint64_t step;
    enum err_code rc = send_message(e, PING, bytes, err);

    if (rc == ERR_OK)
        rc = recv_message(e, &step, err);
    *out_ms = (double)(e->now_ns() - start_ns) / 1e6;
    return rc;
}

/* Answer until the partner's turn is over. */
static enum err_code serve(struct end *e, struct err *err)
{
    uint64_t step = PING;
    enum err_code rc;

    do {
        rc = recv_message(e, &step, err);
        if (rc == ERR_OK && step == PING)
            rc = send_message(e, PING, 0, err);
    } while (rc == ERR_OK && step == PING);
    return rc;
}

/* Latency and bandwidth to a partner that answers, then the end of this turn. */
static enum err_code measure(struct end *e, struct node_link *out, struct err *err)
{
    double sorted[PINGS], ping_ms, ms = 0, sum_ms = 0;
    int64_t end_ms = now_ms(e) + PING_MS;
    size_t bytes = BULK_START;
    int n = 0;
    enum err_code rc = bounce(e, SMALL_BYTES, &ms, err); /* the first one wakes all threads */

    /* The median time of a small message there and back. */
    while (rc == ERR_OK && n < PINGS && (n == 0 || now_ms(e) < end_ms)) {
        int i = n++;

        rc = bounce(e, SMALL_BYTES, &ms, err);
        for (; i > 0 && sorted[i - 1] > ms; i--)
            sorted[i] = sorted[i - 1];
        sorted[i] = ms;
    }
    if (rc != ERR_OK)
        return rc;
    ping_ms = sorted[n / 2];
    out->latency_ms = round(ping_ms / 2 * 1000) / 1000;

    /* Messages large enough to take at least BULK_LEAST_MS. */
    rc = bounce(e, bytes, &ms, err);
    while (rc == ERR_OK && ms < BULK_LEAST_MS && bytes < BULK_MAX_BYTES) {
        bytes = 4 * bytes < BULK_MAX_BYTES ? 4 * bytes : BULK_MAX_BYTES;
        rc = bounce(e, bytes, &ms, err);
    }
    for (n = 0; rc == ERR_OK && sum_ms < BULK_MS; n++) {
        rc = bounce(e, bytes, &ms, err);
        sum_ms += fmax(ms - ping_ms, ms / 10);
    }
    if (rc == ERR_TIMEOUT && n == 0) { /* one that is not answered in time: an upper bound */
        sum_ms = ms;
        n = 1;
    }
    if (sum_ms > 0) /* whole numbers are shorter to write */
        out->bytes_per_s = ceil((double)bytes * n / sum_ms * 1000);
    return rc == ERR_OK ? send_message(e, TURN_OVER, 0, err) : rc;
}

/* --- partners --- */

struct probe_link {
    struct probe_link_params params;
    struct hmac_key key;
    struct credentials *credentials;
    struct mailbox mailbox;
    struct control *control;
};

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
    if (rc == ERR_OK && params->certificates_dir)
        rc = credentials_open(params->certificates_dir, NAMES_PROBE_DNS, &p->credentials, err);
    control.credentials = p->credentials;
    if (rc == ERR_OK)
        rc = control_open(&control, &p->control, err);
    if (rc == ERR_OK)
        *out = p;
    else
        probe_link_close(p);
    return rc;
}

void probe_link_close(struct probe_link *p)
{
    if (!p)
        return;
    control_close(p->control);
    credentials_close(p->credentials);
    mailbox_deinit(&p->mailbox);
    free(p);
}

struct tls_identity *probe_link_identity(struct probe_link *p)
{
    return p ? credentials_identity(p->credentials) : NULL;
}

/* Measure with partner `i` of the table, if it appears before `wait_end_ms`. The one whose name
 * sorts first measures first. Sets in *out what was measured, also on failure. */
static enum err_code measure_partner(const struct probe_link *p, const struct peers *table, int i,
                                     int64_t wait_end_ms, struct node_link *out, struct err *err)
{
    const char *mine = table->list[0].node;
    const char *its = table->list[i].node;
    bool is_first = strcmp(mine, its) < 0;
    struct tls_identity *identity = credentials_identity(p->credentials);
    struct link_params params = {
        .listen_address = p->params.tensor_host,
        .listen_port = p->params.tensor_port,
        .plan_hash = hash_add(hash_add(HASH_START, is_first ? mine : its), is_first ? its : mine),
        .key = p->key,
        .tls = identity};
    int64_t end_ms = p->params.end_ms;
    struct end e = {.worker = is_first ? 0 : 1,
                    .now_ns = p->params.now_ns,
                    .end_ms = wait_end_ms < end_ms ? wait_end_ms : end_ms};
    enum err_code rc = end_open(&e, &params, BULK_MAX_BYTES, err);

    if (rc == ERR_OK)
        rc = link_set_peer(e.link, 1 - e.worker, table->list[i].host, table->list[i].port, err);
    if (rc == ERR_OK)
        rc = link_wait_ready(e.link, left_ms(&e), err);
    e.end_ms = now_ms(&e) + SESSION_MS;
    if (e.end_ms > end_ms)
        e.end_ms = end_ms;
    if (rc == ERR_OK && !is_first)
        rc = serve(&e, err);
    if (rc == ERR_OK)
        rc = measure(&e, out, err);
    if (rc == ERR_OK && is_first)
        rc = serve(&e, err);
    end_close(&e);
    tls_identity_free(identity);
    return rc;
}

void probe_link_run(struct probe_link *p, struct node_probe *out)
{
    int64_t wait_end_ms;
    struct peers table;
    struct err err;

    if (mailbox_wait_peers(&p->mailbox, p->params.table_ms, &table, &err) != ERR_OK) {
        LOG(LOG_INFO, "no links measured", LOG_S("reason", err.text));
        return;
    }
    wait_end_ms = p->params.now_ns() / 1000000 + p->params.partner_ms;
    for (int i = 1; i < table.n && out->n_links < NODE_LINKS_MAX; i++) {
        struct node_link link = {.bytes_per_s = 0};

        if (p->params.now_ns() / 1000000 >= p->params.end_ms)
            return;
        (void)snprintf(link.node, sizeof link.node, "%s", table.list[i].node);
        if (strcmp(link.node, table.list[0].node) != 0 &&
            measure_partner(p, &table, i, wait_end_ms, &link, &err) != ERR_OK)
            LOG(LOG_INFO, "link not fully measured", LOG_S("node", link.node),
                LOG_S("reason", err.text));
        if (link.bytes_per_s > 0)
            out->links[out->n_links++] = link;
        wait_end_ms += p->params.partner_more_ms;
    }
}
