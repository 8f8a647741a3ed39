/* Stages of one job for the tests of the link: real links on loopback, all in this process. */
#ifndef TESTS_WIRE_STAGES_H
#define TESTS_WIRE_STAGES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "wire/link.h"

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

static inline struct link_params params_of(int stage, int n_stages)
{
    return (struct link_params){
        .listen_address = "127.0.0.1",
        .stage = stage,
        .n_stages = n_stages,
        .plan_hash = 0x1234567890abcdef,
        .attempt = 2,
        .key = {{5, 4, 3, 2, 1}},
        .limits = {.meta_max_bytes = META_MAX,
                   .tensor_max_bytes = TENSOR_MAX,
                   .n_receive_slots = 3,
                   .n_send_slots = 2},
        .dial_timeout_ms = TIMEOUT_MS,
    };
}

static inline void open_stage(struct stages *s, int stage, const struct link_params *params)
{
    struct err err;

    if (link_open(params, &s->links[stage], &err) != ERR_OK)
        fail_msg("%s", err.text);
}

static inline struct link_peer peer_at(struct link *link)
{
    return (struct link_peer){.host = "127.0.0.1", .port = link_port(link)};
}

static inline void connect_stage(struct stages *s, int stage)
{
    struct link_peer next = {0}, prev = {0};

    if (stage + 1 < s->n)
        next = peer_at(s->links[stage + 1]);
    if (stage > 0)
        prev = peer_at(s->links[stage - 1]);
    assert_int_equal(link_set_peers(s->links[stage], stage + 1 < s->n ? &next : NULL,
                                    stage > 0 ? &prev : NULL, NULL),
                     ERR_OK);
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
        struct link_params p = params_of(i, n);

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

static inline struct link_message message(struct stages *s, enum frame_kind kind, uint64_t step,
                                          uint64_t tensor_bytes)
{
    return (struct link_message){.kind = kind,
                                 .step = step,
                                 .microbatch = (uint32_t)step * 3,
                                 .flags = FRAME_EVAL,
                                 .meta = "lengths",
                                 .meta_bytes = 7,
                                 .tensor = s->tensor,
                                 .tensor_bytes = tensor_bytes};
}

static inline void send_ok(struct link *link, enum link_edge edge, const struct link_message *msg)
{
    struct err err;

    if (link_send(link, edge, msg, TIMEOUT_MS, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

static inline void receive_ok(struct link *link, enum link_edge edge,
                              const struct link_message *want)
{
    struct link_message got;
    struct err err;

    if (link_recv(link, edge, TIMEOUT_MS, &got, &err) != ERR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(got.kind, want->kind);
    assert_int_equal(got.step, want->step);
    assert_int_equal(got.microbatch, want->microbatch);
    assert_int_equal(got.flags, want->flags);
    assert_int_equal(got.meta_bytes, want->meta_bytes);
    assert_memory_equal(got.meta, want->meta, want->meta_bytes);
    assert_int_equal(got.tensor_bytes, want->tensor_bytes);
    assert_memory_equal(got.tensor, want->tensor, (size_t)want->tensor_bytes);
    assert_int_equal((uintptr_t)got.tensor % ARENA_ALIGN_BYTES, 0);
    link_release(link, edge, &got);
}

static inline void expect(enum err_code rc, enum err_code want, const struct err *err,
                          const char *says)
{
    if (rc != want || !strstr(err->text, says))
        fail_msg("code %d \"%s\", not %d \"...%s...\"", rc, err->text, want, says);
}

#endif
