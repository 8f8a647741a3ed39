/* How fast a link is on loopback, plain and over TLS, and the same bytes over a bare TCP connection
 * beside it.
 *
 * Both ends are in this process: two links, two IO threads, a sending and a receiving thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bench.h"
#include "step.h"
#include "tcp.h"
#include "tls/authority.h"
#include "wire/link.h"

#define TENSOR_BYTES     (3u << 20)
#define SMALL_BYTES      1024u
#define TIMEOUT_MS       10000
#define THROUGHPUT_COUNT 1000
#define LATENCY_COUNT    300
#define BARE_CHUNK_BYTES (256u << 10)
#define TLS_NAME         "bench.test" /* of both ends */

struct bench {
    struct link *links[2];
    uint8_t *tensor;
    int64_t *latencies_ns; /* filled by the receiver when each message carries its start */
    int n_messages;
    struct tls_identity *identity; /* of both ends; NULL: plain */
};

static void or_die(enum err_code rc, const struct err *err)
{
    if (rc == ERR_OK)
        return;
    fprintf(stderr, "bench_link: %s\n", err->text);
    exit(1);
}

/* One edge, from worker 0 to worker 1. */
static void open_end(struct bench *b, int worker)
{
    struct link_edge edge = {.is_incoming = worker == 1,
                             .peer = (uint32_t)(1 - worker),
                             .meta_max_bytes = 64,
                             .tensor_max_bytes = TENSOR_BYTES,
                             .n_slots = worker == 1 ? 4 : 2,
                             .name = "the edge",
                             .peer_name = "the other end",
                             .tls_name = TLS_NAME};
    struct link_params p = {
        .listen_address = "127.0.0.1",
        .worker = (uint32_t)worker,
        .edges = &edge,
        .n_edges = 1,
        .tls = b->identity,
        .dial_timeout_ms = TIMEOUT_MS,
    };
    struct err err;

    or_die(link_open(&p, &b->links[worker], &err), &err);
}

static void open_ends(struct bench *b)
{
    struct err err;

    open_end(b, 0);
    open_end(b, 1);
    or_die(link_set_peer(b->links[0], 1, "127.0.0.1", link_port(b->links[1]), &err), &err);
    for (int i = 0; i < 2; i++)
        or_die(link_wait_ready(b->links[i], TIMEOUT_MS, &err), &err);
}

static void close_ends(struct bench *b)
{
    struct err err;

    for (int i = 0; i < 2; i++)
        or_die(link_close(b->links[i], TIMEOUT_MS, &err), &err);
}

/* With a CA of its own. */
static struct tls_identity *make_identity(void)
{
    struct authority_pair ca = AUTHORITY_PAIR, pair = AUTHORITY_PAIR;
    struct tls_identity *identity = NULL;
    struct authority *a = NULL;
    struct tls_end end;
    struct err err;

    or_die(authority_make((int64_t)time(NULL), &ca, &err), &err);
    or_die(authority_parse(buf_text(&ca.certificate), buf_text(&ca.key), &a, &err), &err);
    or_die(authority_issue(a, TLS_NAME, (int64_t)time(NULL), 86400, &pair, &err), &err);
    end = (struct tls_end){buf_text(&ca.certificate), buf_text(&pair.certificate),
                           buf_text(&pair.key)};
    or_die(tls_identity_new(&end, &identity, &err), &err);
    authority_free(a);
    authority_pair_deinit(&ca);
    authority_pair_deinit(&pair);
    return identity;
}

static void *receive_all(void *arg)
{
    struct bench *b = arg;
    struct link_message msg;
    struct err err;

    for (int i = 0; i < b->n_messages; i++) {
        or_die(link_recv(b->links[1], 0, TIMEOUT_MS, &msg, &err), &err);
        b->latencies_ns[i] = clock_now_ns() - (int64_t)msg.step;
        link_release(b->links[1], 0, &msg);
    }
    return NULL;
}

static void send_one(struct bench *b, uint64_t tensor_bytes)
{
    struct link_message msg = {
        .step = (uint64_t)clock_now_ns(), .tensor = b->tensor, .tensor_bytes = tensor_bytes};
    struct err err;

    or_die(link_send(b->links[0], 0, &msg, TIMEOUT_MS, &err), &err);
}

static int64_t run(struct bench *b, int n, uint64_t tensor_bytes, bool one_at_a_time)
{
    struct timespec pause = {.tv_nsec = 12 * 1000 * 1000}; /* longer than one takes */
    pthread_t receiver;
    int64_t start_ns = clock_now_ns();

    b->n_messages = n;
    if (pthread_create(&receiver, NULL, receive_all, b) != 0)
        exit(1);
    for (int i = 0; i < n; i++) {
        send_one(b, tensor_bytes);
        if (one_at_a_time)
            nanosleep(&pause, NULL);
    }
    pthread_join(receiver, NULL);
    return clock_now_ns() - start_ns;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void bench_latency(struct bench *b, const char *p50, const char *p99, uint64_t tensor_bytes)
{
    const char *what = "from link_send() to link_recv(), one at a time";
    int n = bench_rounds(LATENCY_COUNT);

    (void)run(b, n, tensor_bytes, true);
    qsort(b->latencies_ns, (size_t)n, sizeof *b->latencies_ns, by_value);
    bench_print(p50, (double)b->latencies_ns[n / 2] / 1e6, "ms", what);
    bench_print(p99, (double)b->latencies_ns[n * 99 / 100] / 1e6, "ms", what);
}

/* What a message costs beside its bytes: all threads of both ends, woken up for each. */
static void bench_message_cpu(struct bench *b, const char *row)
{
    int n = bench_rounds(LATENCY_COUNT);
    double cpu = step_cpu_seconds();

    (void)run(b, n, SMALL_BYTES, true);
    bench_print(row, (step_cpu_seconds() - cpu) / n * 1e6, "us",
                "CPU time of both ends for a message of 1 KiB, one at a time");
}

/* --- the same bytes over bare TCP --- */

static void *read_all(void *arg)
{
    int fd = *(const int *)arg;
    char *bytes = malloc(BARE_CHUNK_BYTES);

    while (bytes && recv(fd, bytes, BARE_CHUNK_BYTES, 0) > 0)
        ;
    free(bytes);
    return NULL;
}

/* Both ends of a TCP connection on loopback. */
static void connect_pair(int fds[2])
{
    int port = 0;
    int listener = tcp_listen(TCP_LOCAL, 0, &port);

    fds[0] = tcp_connect(TCP_LOCAL, port);
    if (listener < 0 || fds[0] < 0)
        exit(1);
    fds[1] = accept(listener, NULL, NULL);
    close(listener);
}

static double bare_mb_per_s(const uint8_t *tensor, int n)
{
    int64_t start_ns = clock_now_ns();
    pthread_t reader;
    int fds[2];

    connect_pair(fds);
    if (pthread_create(&reader, NULL, read_all, &fds[1]) != 0)
        exit(1);
    for (int i = 0; i < n; i++)
        for (size_t at = 0; at < TENSOR_BYTES; at += BARE_CHUNK_BYTES)
            if (send(fds[0], tensor + at, BARE_CHUNK_BYTES, 0) != BARE_CHUNK_BYTES)
                exit(1);
    close(fds[0]);
    pthread_join(reader, NULL);
    close(fds[1]);
    return (double)n * TENSOR_BYTES * 1e3 / (double)(clock_now_ns() - start_ns);
}

/* What the activations and gradients of a step cost on one edge, in CPU time of both ends, beside
 * the step itself. */
static void bench_cost(double cpu_seconds_per_byte)
{
    static struct step s;
    const struct step_case what = {.preset = "BertBase", .n_seqs = 16, .micro_batches = 4};
    double bytes;
    double start;

    step_init(&s, &what);
    step_run(&s);
    start = step_cpu_seconds();
    step_run(&s);
    bytes = 2 * s.tokens * s.plan.spec.model.hidden * sizeof(float);
    bench_print("link.cost.BertBase",
                100 * cpu_seconds_per_byte * bytes / (step_cpu_seconds() - start), "%",
                "CPU time of a step of 4 x 4 x 128 tokens; of one edge, both ends and ways");
    step_deinit(&s);
}

/* Bytes per second and CPU seconds per byte, of both ends. */
static double measure(struct bench *b, int n, double *out_cpu)
{
    double cpu = step_cpu_seconds();
    int64_t ns = run(b, n, TENSOR_BYTES, false);

    *out_cpu = (step_cpu_seconds() - cpu) / ((double)n * TENSOR_BYTES);
    return (double)n * TENSOR_BYTES * 1e3 / (double)ns;
}

/* Returns the throughput. */
static double bench_throughput(struct bench *b)
{
    int n = bench_rounds(THROUGHPUT_COUNT);
    double cpu;
    double mb_per_s = measure(b, n, &cpu);
    double bare;

    bare = bare_mb_per_s(b->tensor, n);
    bench_print("link.throughput", mb_per_s, "MB/s", "tensors of 3 MiB one way on loopback");
    bench_print("link.cpu_per_byte", cpu * 1e9, "ns",
                "CPU time of both ends, checksum, copies and the kernel included");
    bench_print("link.of_bare_tcp", mb_per_s / bare, "ratio",
                "the same bytes over a bare TCP connection, no checksum, no copy");
    bench_cost(cpu);
    return mb_per_s;
}

static void bench_tls_throughput(struct bench *b, double plain_mb_per_s)
{
    double cpu;
    double mb_per_s = measure(b, bench_rounds(THROUGHPUT_COUNT), &cpu);

    bench_print("link.tls.throughput", mb_per_s, "MB/s",
                "tensors of 3 MiB one way on loopback, mutual TLS");
    bench_print("link.tls.cpu_per_byte", cpu * 1e9, "ns", "CPU time of both ends, with TLS");
    bench_print("link.tls.of_plain", mb_per_s / plain_mb_per_s, "ratio",
                "throughput with TLS over that without");
}

int main(int argc, char **argv)
{
    struct bench b = {.tensor = malloc(TENSOR_BYTES),
                      .latencies_ns = calloc(THROUGHPUT_COUNT, sizeof(int64_t))};
    double plain_mb_per_s;

    (void)argc;
    step_setup(argv, 1);
    if (!b.tensor || !b.latencies_ns)
        return 1;
    memset(b.tensor, 0x5a, TENSOR_BYTES);
    open_ends(&b);
    plain_mb_per_s = bench_throughput(&b);
    bench_latency(&b, "link.latency.3MiB.p50", "link.latency.3MiB.p99", TENSOR_BYTES);
    bench_latency(&b, "link.latency.1KiB.p50", "link.latency.1KiB.p99", SMALL_BYTES);
    bench_message_cpu(&b, "link.cpu_per_message");
    close_ends(&b);

    b.identity = make_identity();
    open_ends(&b);
    bench_tls_throughput(&b, plain_mb_per_s);
    bench_latency(&b, "link.tls.latency.3MiB.p50", "link.tls.latency.3MiB.p99", TENSOR_BYTES);
    bench_latency(&b, "link.tls.latency.1KiB.p50", "link.tls.latency.1KiB.p99", SMALL_BYTES);
    bench_message_cpu(&b, "link.tls.cpu_per_message");
    close_ends(&b);
    tls_identity_free(b.identity);
    free(b.latencies_ns);
    free(b.tensor);
    return 0;
}
