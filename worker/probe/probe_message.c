#include "probe/probe_message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "wire/link.h"

#define HOST        "127.0.0.1"
#define SMALL_BYTES 64
#define LARGE_BYTES (512u << 10)
#define SMALL       40 /* round trips */
#define LARGE       24
#define WARM        2
#define PAUSE_NS    1000000
#define TOTAL_MS    2000
#define CLOSE_MS    100
#define MS_LEAST    1e-3 /* 0 would mean that it was not measured */

struct pair {
    struct link *links[2];
    uint8_t *bytes; /* LARGE_BYTES to send */
    int64_t end_ms;
};

static int left_ms(const struct pair *p)
{
    int64_t left = p->end_ms - clock_now_ms();

    return left < 0 ? 0 : (int)left;
}

static enum err_code open_stage(struct pair *p, int stage, struct err *err)
{
    struct link_params params = {
        .listen_address = HOST,
        .stage = stage,
        .n_stages = 2,
        .limits = {.tensor_max_bytes = LARGE_BYTES, .n_receive_slots = 2, .n_send_slots = 2},
        .dial_timeout_ms = TOTAL_MS};

    return link_open(&params, &p->links[stage], err);
}

static enum err_code pair_open(struct pair *p, struct err *err)
{
    struct link_peer peers[2] = {{.host = HOST}, {.host = HOST}};
    enum err_code rc = ERR_OK;

    p->end_ms = clock_now_ms() + TOTAL_MS;
    p->bytes = calloc(1, LARGE_BYTES);
    if (!p->bytes)
        rc = err_set(err, ERR_NO_MEMORY, "no memory for messages");
    for (int i = 0; i < 2 && rc == ERR_OK; i++) {
        rc = open_stage(p, i, err);
        if (rc == ERR_OK)
            peers[i].port = link_port(p->links[i]);
    }
    if (rc == ERR_OK)
        rc = link_set_peers(p->links[0], &peers[1], NULL, err);
    if (rc == ERR_OK)
        rc = link_set_peers(p->links[1], NULL, &peers[0], err);
    for (int i = 0; i < 2 && rc == ERR_OK; i++)
        rc = link_wait_ready(p->links[i], left_ms(p), err);
    return rc;
}

static void pair_close(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        struct err err;

        if (p->links[i])
            (void)!link_close(p->links[i], CLOSE_MS, &err); /* nothing is on its way any more */
    }
    free(p->bytes);
}

static enum err_code hand_over(struct pair *p, int from, uint32_t bytes, struct err *err)
{
    bool is_forward = from == 0;
    struct link_message msg = {.kind = is_forward ? FRAME_FORWARD : FRAME_BACKWARD,
                               .tensor = p->bytes,
                               .tensor_bytes = bytes};
    enum link_edge in = is_forward ? LINK_FORWARD_IN : LINK_BACKWARD_IN;
    enum err_code rc = link_send(p->links[from], is_forward ? LINK_FORWARD_OUT : LINK_BACKWARD_OUT,
                                 &msg, left_ms(p), err);

    if (rc == ERR_OK)
        rc = link_recv(p->links[1 - from], in, left_ms(p), &msg, err);
    if (rc == ERR_OK)
        link_release(p->links[1 - from], in, &msg);
    return rc;
}

/* CPU time of a message, at both of its ends, in *out_ms. */
static enum err_code run(struct pair *p, int n, uint32_t bytes, double *out_ms, struct err *err)
{
    struct timespec pause = {.tv_nsec = PAUSE_NS};
    int64_t cpu_ns = 0;
    enum err_code rc = ERR_OK;

    for (int i = 0; i < 2 * (n + WARM) && rc == ERR_OK; i++) {
        if (i == 2 * WARM)
            cpu_ns = clock_cpu_ns();
        rc = hand_over(p, i % 2, bytes, err);
        (void)nanosleep(&pause, NULL);
    }
    *out_ms = (double)(clock_cpu_ns() - cpu_ns) / 1e6 / (2 * n);
    return rc;
}

enum err_code probe_message_run(struct node_message *out, struct err *err)
{
    struct pair pair = {.bytes = NULL};
    double small_ms = 0;
    double large_ms = 0;
    enum err_code rc = pair_open(&pair, err);

    if (rc == ERR_OK)
        rc = run(&pair, SMALL, SMALL_BYTES, &small_ms, err);
    if (rc == ERR_OK)
        rc = run(&pair, LARGE, LARGE_BYTES, &large_ms, err);
    pair_close(&pair);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "messages over loopback");
    *out = (struct node_message){.ms = fmax(MS_LEAST, small_ms / 2),
                                 .byte_ns = fmax(0, large_ms - small_ms) * 1e6 /
                                            (LARGE_BYTES - SMALL_BYTES)};
    return ERR_OK;
}
