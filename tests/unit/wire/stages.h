/* Workers of one job for the tests of the link: a chain of real links on loopback, all in this
 * process. */
#ifndef TESTS_WIRE_STAGES_H
#define TESTS_WIRE_STAGES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "wire/link_parts.h"

#define TIMEOUT_MS 5000
#define META_MAX   256
#define TENSOR_MAX (3u << 20)
#define STAGES_MAX 3

/* Some stages of one job, each with its own link, in this process. */
struct stages {
    int n;
    struct link *links[STAGES_MAX];
    uint8_t *tensor; /* TENSOR_MAX bytes with a pattern */
};

/* With one, a stage speaks TLS and expects its peers to have the names of stages. */
static struct tls_identity *stage_identities[STAGES_MAX];

/* The edges of a stage in the middle; the first one has only the last two, the last the others. */
enum { FORWARD_IN, BACKWARD_OUT, FORWARD_OUT, BACKWARD_IN, N_EDGES };

#define INCARNATION_OF(stage) ((uint32_t)(20 + (stage)))

/* The numbers of the edges on the wire. */
enum { FORWARD_ID = 7, BACKWARD_ID = 4 };

/* The index of an edge in the list of a link; -1 for one that it does not have. */
static inline int index_of(const struct link *link, int edge)
{
    uint32_t id = edge == FORWARD_IN || edge == FORWARD_OUT ? FORWARD_ID : BACKWARD_ID;
    bool is_incoming = edge == FORWARD_IN || edge == BACKWARD_IN;

    for (int i = 0; i < link->params.n_edges; i++)
        if (link->edges[i].params.id == id && link->edges[i].params.is_incoming == is_incoming)
            return i;
    return -1;
}

/* Parameters with memory for the list of edges. */
struct stage_params {
    struct link_params link;
    struct link_edge edges[N_EDGES];
};

/* `link.edges` is to be set once the struct is where it stays: open_stage() does. */
static inline struct stage_params params_of(int stage, int n_stages)
{
    struct stage_params p = {.link = {.listen_address = "127.0.0.1",
                                      .worker = (uint32_t)stage,
                                      .incarnation = INCARNATION_OF(stage),
                                      .plan_hash = 0x1234567890abcdef,
                                      .revision = 2,
                                      .key = {{5, 4, 3, 2, 1}},
                                      .tls = stage_identities[stage],
                                      .dial_timeout_ms = TIMEOUT_MS}};

    for (int edge = 0; edge < N_EDGES; edge++) {
        bool is_forward = edge == FORWARD_IN || edge == FORWARD_OUT;
        bool is_incoming = edge == FORWARD_IN || edge == BACKWARD_IN;
        int peer = edge < FORWARD_OUT ? stage - 1 : stage + 1;
        struct link_edge *e = &p.edges[p.link.n_edges];

        if (peer < 0 || peer >= n_stages)
            continue;
        *e = (struct link_edge){.id = is_forward ? FORWARD_ID : BACKWARD_ID,
                                .is_incoming = is_incoming,
                                .peer = (uint32_t)peer,
                                .peer_incarnation = INCARNATION_OF(peer),
                                .meta_max_bytes = META_MAX,
                                .tensor_max_bytes = TENSOR_MAX,
                                .n_slots = is_incoming ? 3 : 2};
        (void)snprintf(e->name, sizeof e->name, "%s edge", is_forward ? "forward" : "backward");
        (void)snprintf(e->peer_name, sizeof e->peer_name, "stage %d", peer);
        (void)snprintf(e->tls_name, sizeof e->tls_name, "stage-%d.test", peer);
        p.link.n_edges++;
    }
    return p;
}

static inline enum err_code try_open(struct stage_params *params, struct link **out,
                                     struct err *err)
{
    params->link.edges = params->edges;
    return link_open(&params->link, out, err);
}

static inline void open_stage(struct stages *s, int stage, struct stage_params *params)
{
    struct err err;

    if (try_open(params, &s->links[stage], &err) != ERR_OK)
        fail_msg("%s", err.text);
}

/* Set the address of stage `peer`. */
static inline void set_peer(struct link *link, int peer, int port)
{
    struct err err;

    if (link_set_peer(link, (uint32_t)peer, "127.0.0.1", port, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

static inline void connect_stage(struct stages *s, int stage)
{
    for (int peer = stage - 1; peer <= stage + 1; peer += 2)
        if (peer >= 0 && peer < s->n)
            set_peer(s->links[stage], peer, link_port(s->links[peer]));
}

static inline void wait_ready(struct stages *s)
{
    struct err err;

    for (int i = 0; i < s->n; i++)
        if (link_wait_ready(s->links[i], TIMEOUT_MS, &err) != ERR_OK)
            fail_msg("stage %d: %s", i, err.text);
}

static inline void start(struct stages *s, int n)
{
    *s = (struct stages){.n = n, .tensor = malloc(TENSOR_MAX)};
    for (size_t i = 0; i < TENSOR_MAX; i++)
        s->tensor[i] = (uint8_t)(i * 7 + i / 251);
    for (int i = 0; i < n; i++) {
        struct stage_params p = params_of(i, n);

        open_stage(s, i, &p);
    }
}

static inline void start_ready(struct stages *s, int n)
{
    start(s, n);
    for (int i = 0; i < n; i++)
        connect_stage(s, i);
    wait_ready(s);
}

static inline void stop(struct stages *s)
{
    for (int i = 0; i < s->n; i++) {
        if (s->links[i])
            assert_int_equal(link_close(s->links[i], TIMEOUT_MS, NULL), ERR_OK);
    }
    free(s->tensor);
}

/* Types of messages; to a link they are all the same. */
enum { TYPE_FORWARD = 1, TYPE_BACKWARD, TYPE_SUM, TYPE_STOP = FRAME_TYPE_MAX };

static inline struct link_message message(struct stages *s, uint32_t type, uint64_t step,
                                          uint64_t tensor_bytes)
{
    return (struct link_message){.type = type,
                                 .step = step,
                                 .microbatch = (uint32_t)step * 3,
                                 .flags = FRAME_FLAGS_MAX,
                                 .meta = "lengths",
                                 .meta_bytes = 7,
                                 .tensor = s->tensor,
                                 .tensor_bytes = tensor_bytes};
}

/* The functions of the link, with the edges named as above. */
static inline enum err_code send_on(struct link *link, int edge, const struct link_message *msg,
                                    int timeout_ms, struct err *err)
{
    return link_send(link, index_of(link, edge), msg, timeout_ms, err);
}

static inline enum err_code receive_on(struct link *link, int edge, int timeout_ms,
                                       struct link_message *out, struct err *err)
{
    return link_recv(link, index_of(link, edge), timeout_ms, out, err);
}

static inline void release_on(struct link *link, int edge, const struct link_message *msg)
{
    link_release(link, index_of(link, edge), msg);
}

static inline void send_ok(struct link *link, int edge, const struct link_message *msg)
{
    struct err err;

    if (send_on(link, edge, msg, TIMEOUT_MS, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

static inline void receive_ok(struct link *link, int edge, const struct link_message *want)
{
    struct link_message got;
    struct err err;

    if (receive_on(link, edge, TIMEOUT_MS, &got, &err) != ERR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(got.type, want->type);
    assert_int_equal(got.step, want->step);
    assert_int_equal(got.microbatch, want->microbatch);
    assert_int_equal(got.flags, want->flags);
    assert_int_equal(got.meta_bytes, want->meta_bytes);
    assert_memory_equal(got.meta, want->meta, want->meta_bytes);
    assert_int_equal(got.tensor_bytes, want->tensor_bytes);
    assert_memory_equal(got.tensor, want->tensor, (size_t)want->tensor_bytes);
    assert_int_equal((uintptr_t)got.tensor % ARENA_ALIGN_BYTES, 0);
    release_on(link, edge, &got);
}

static inline void expect(enum err_code rc, enum err_code want, const struct err *err,
                          const char *says)
{
    if (rc != want || !strstr(err->text, says))
        fail_msg("code %d \"%s\", not %d \"...%s...\"", rc, err->text, want, says);
}

#endif
