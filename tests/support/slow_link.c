/* slow-link: a thin and long line, for the connections of a network namespace.
 *
 *     slow-link MBIT_PER_S DELAY_MS[:ON_S:EVERY_S] COMMAND...
 *
 * Runs the command in a namespace whose only interface is the loopback, and passes every TCP
 * connection there on by itself: bytes to a port leave at that rate (0: at any), those of all
 * connections one behind the other, bytes from it likewise, and arrive after the delay; with ON_S
 * and EVERY_S only in the last ON_S of every EVERY_S seconds. Ends as the command does. What else a
 * long line does to TCP (slow start, losses) is not there. Needs root and iptables.
 *
 * netem would do this, but not every kernel has it. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "tcp.h"

#define CONNECTIONS_MAX 64
#define SO_ORIGINAL_DST                                                                            \
    80                   /* linux/netfilter_ipv4.h, which cannot be included beside netinet/in.h */
#define MARK         "1" /* of this process's own connections, which the kernel lets pass */
#define PIECE_BYTES  16384
#define QUEUE_BYTES  (8 << 20) /* of a stream; what a TCP window grows to */
#define PIECES_MAX   (QUEUE_BYTES / 1024)
#define AHEAD_NS     5000000L /* how far before they leave bytes are read */
#define SOCKET_BYTES 65536    /* so that what has been sent waits with who has sent it */

struct piece {
    int64_t due_ns;
    size_t n_bytes;
};

/* To a port, or back. */
struct line {
    int64_t free_ns; /* when the last byte read has left */
};

/* What is on its way from one socket to another; both queues are rings. */
struct stream {
    int from, to; /* -1: it has ended */
    char *bytes;
    struct piece *pieces;
    size_t n_read, n_written; /* bytes, ever */
    size_t n_in, n_out;       /* pieces, ever */
    bool is_at_end;           /* `from` sends no more */
    struct line *line;
};

static bool is_due(const struct stream *s, int64_t now)
{
    return s->n_out < s->n_in && s->pieces[s->n_out % PIECES_MAX].due_ns <= now;
}

static bool has_room(const struct stream *s)
{
    return !s->is_at_end && s->n_read - s->n_written <= QUEUE_BYTES - PIECE_BYTES &&
           s->n_in - s->n_out < PIECES_MAX;
}

static bool read_piece(struct stream *s, int64_t bits_per_s, int64_t delay_ns)
{
    const size_t at = s->n_read % QUEUE_BYTES;
    const size_t room = QUEUE_BYTES - at < PIECE_BYTES ? QUEUE_BYTES - at : PIECE_BYTES;
    const int64_t now = clock_now_ns();
    struct piece *piece = &s->pieces[s->n_in % PIECES_MAX];
    ssize_t n = read(s->from, s->bytes + at, room);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0) {
        s->is_at_end = true;
        return true;
    }
    if (s->line->free_ns < now)
        s->line->free_ns = now;
    if (bits_per_s > 0)
        s->line->free_ns += (int64_t)n * 8 * 1000000000 / bits_per_s;
    *piece = (struct piece){s->line->free_ns + delay_ns, (size_t)n};
    s->n_read += (size_t)n;
    s->n_in++;
    return true;
}

/* What is due, as far as the socket takes it. */
static bool write_due(struct stream *s, int64_t now)
{
    while (is_due(s, now)) {
        struct piece *piece = &s->pieces[s->n_out % PIECES_MAX];
        const size_t at = s->n_written % QUEUE_BYTES;
        ssize_t n = send(s->to, s->bytes + at, piece->n_bytes, MSG_NOSIGNAL);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        s->n_written += (size_t)n;
        piece->n_bytes -= (size_t)n;
        if (piece->n_bytes > 0)
            return true;
        s->n_out++;
    }
    if (s->is_at_end && s->n_out == s->n_in) {
        (void)shutdown(s->to, SHUT_WR);
        s->to = -1;
    }
    return true;
}

/* --- connections: two streams each, there and back --- */

static bool stream_init(struct stream *s, int from, int to, struct line *line)
{
    *s = (struct stream){.from = from, .to = to, .line = line};
    s->bytes = malloc(QUEUE_BYTES);
    s->pieces = calloc(PIECES_MAX, sizeof *s->pieces);
    return s->bytes && s->pieces;
}

static void connection_close(struct stream pair[2])
{
    if (pair[0].from >= 0)
        (void)close(pair[0].from);
    if (pair[1].from >= 0)
        (void)close(pair[1].from);
    for (int i = 0; i < 2; i++) {
        free(pair[i].bytes);
        free(pair[i].pieces);
        pair[i] = (struct stream){.from = -1, .to = -1};
    }
}

/* To where the connection was meant to go, before the kernel sent it here. */
static int dial_target(int fd, int *out_port)
{
    struct sockaddr_in to = {0};
    socklen_t bytes = sizeof to;
    int mark = atoi(MARK);
    int out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (out >= 0 && getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &to, &bytes) == 0 &&
        setsockopt(out, SOL_SOCKET, SO_MARK, &mark, sizeof mark) == 0 &&
        connect(out, (struct sockaddr *)&to, sizeof to) == 0) {
        *out_port = ntohs(to.sin_port);
        return out;
    }
    if (out >= 0)
        (void)close(out);
    return -1;
}

/* --- the line --- */

struct slow_link {
    int listener;
    int64_t bits_per_s; /* 0: any */
    int64_t delay_ns;
    int64_t on_ns, every_ns; /* 0: always */
    int64_t start_ns;
    struct port {
        int number; /* 0: free */
        struct line lines[2];
    } ports[CONNECTIONS_MAX];
    struct stream streams[CONNECTIONS_MAX][2];
};

/* There and back; NULL: too many ports. */
static struct line *lines_of(struct slow_link *l, int port)
{
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        if (l->ports[i].number == port || l->ports[i].number == 0) {
            l->ports[i].number = port;
            return l->ports[i].lines;
        }
    return NULL;
}

static bool accept_one(struct slow_link *l, struct stream pair[2])
{
    int fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC);
    int port = 0;
    int to = fd < 0 ? -1 : dial_target(fd, &port);
    struct line *lines = lines_of(l, port);
    int on = 1;

    if (fd < 0)
        return false;
    if (to < 0) {
        (void)close(fd);
        return false;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    (void)fcntl(to, F_SETFL, O_NONBLOCK);
    if (lines && stream_init(&pair[0], fd, to, &lines[0]) &&
        stream_init(&pair[1], to, fd, &lines[1]))
        return true;
    connection_close(pair);
    return false;
}

static int64_t delay_at(const struct slow_link *l, int64_t now)
{
    const bool is_on =
        l->every_ns == 0 || (now - l->start_ns) % l->every_ns >= l->every_ns - l->on_ns;

    return is_on ? l->delay_ns : 0;
}

static struct timespec until(int64_t due_ns, int64_t now)
{
    const int64_t ns = due_ns > now ? due_ns - now : 0;

    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

/* One look at all connections, of at most a tenth of a second. */
static void pass_on(struct slow_link *l)
{
    struct pollfd fds[1 + 4 * CONNECTIONS_MAX] = {{.fd = l->listener, .events = POLLIN}};
    int64_t now = clock_now_ns(), next = now + 100000000;
    struct stream *readable[4 * CONNECTIONS_MAX];
    struct timespec wait;
    int n = 0;

    for (int i = 0; i < 2 * CONNECTIONS_MAX; i++) {
        struct stream *s = &l->streams[i / 2][i % 2];
        const int64_t leaves = s->line ? s->line->free_ns - AHEAD_NS : 0;

        if (s->from < 0)
            continue;
        if (s->n_out < s->n_in && s->pieces[s->n_out % PIECES_MAX].due_ns < next && !is_due(s, now))
            next = s->pieces[s->n_out % PIECES_MAX].due_ns;
        if (has_room(s) && leaves > now && leaves < next)
            next = leaves;
        readable[n] = has_room(s) && leaves <= now ? s : NULL;
        fds[1 + n] = (struct pollfd){.fd = readable[n] ? s->from : -1, .events = POLLIN};
        readable[n + 1] = NULL;
        fds[2 + n] = (struct pollfd){.fd = is_due(s, now) ? s->to : -1, .events = POLLOUT};
        n += 2;
    }
    wait = until(next, now);
    if (ppoll(fds, (nfds_t)(1 + n), &wait, NULL) < 0)
        return;
    for (int i = 0; i < n; i++)
        if (fds[1 + i].revents && readable[i] &&
            !read_piece(readable[i], l->bits_per_s, delay_at(l, now)))
            readable[i]->is_at_end = true;
    now = clock_now_ns();
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        struct stream *pair = l->streams[i];

        if (pair[0].from < 0) {
            if (fds[0].revents)
                (void)accept_one(l, pair);
            fds[0].revents = 0;
        } else if (!write_due(&pair[0], now) || !write_due(&pair[1], now) ||
                   (pair[0].to < 0 && pair[1].to < 0)) {
            connection_close(pair);
        }
    }
}

/* The child that runs the command; 0 when that is impossible. */
static pid_t start(char **command)
{
    pid_t child = fork();

    if (child == 0) {
        (void)execvp(command[0], command);
        perror(command[0]);
        _exit(127);
    }
    return child < 0 ? 0 : child;
}

static bool shell(const char *line)
{
    return system(line) == 0; /* NOLINT(cert-env33-c): a line of this file */
}

int main(int argc, char **argv)
{
    struct slow_link l = {.listener = -1};
    char redirect[160];
    int delay_ms = 0, on_s = 0, every_s = 0, n_given, port, status = 0;
    pid_t child;

    n_given = argc < 4 ? 0 : sscanf(argv[2], "%d:%d:%d", &delay_ms, &on_s, &every_s);
    if ((n_given != 1 && n_given != 3) || atoi(argv[1]) < 0 || delay_ms < 0 || on_s < 0 ||
        every_s < on_s) {
        (void)fprintf(stderr, "usage: slow-link MBIT_PER_S DELAY_MS[:ON_S:EVERY_S] COMMAND...\n");
        return 2;
    }
    l.delay_ns = delay_ms * 1000000L;
    l.on_ns = on_s * 1000000000L;
    l.every_ns = every_s * 1000000000L;
    l.start_ns = clock_now_ns();
    l.bits_per_s = atoi(argv[1]) * 1000000L;
    for (int i = 0; i < 2 * CONNECTIONS_MAX; i++)
        l.streams[i / 2][i % 2].from = l.streams[i / 2][i % 2].to = -1;
    if (unshare(CLONE_NEWNET) != 0 || !shell("ip link set lo up") ||
        (l.listener = tcp_listen(TCP_LOCAL, 0, &port)) < 0) {
        perror("slow-link: no network namespace");
        return 1;
    }
    (void)fcntl(l.listener, F_SETFL, O_NONBLOCK);
    if (l.bits_per_s > 0) /* inherited by what is accepted */
        (void)setsockopt(l.listener, SOL_SOCKET, SO_RCVBUF, &(int){SOCKET_BYTES}, sizeof(int));
    (void)snprintf(redirect, sizeof redirect,
                   "iptables -w -t nat -A OUTPUT -p tcp -m mark ! --mark " MARK
                   " -j REDIRECT --to-ports %d",
                   port);
    if (!shell(redirect))
        return 1;
    child = start(argv + 3);
    while (child > 0 && waitpid(child, &status, WNOHANG) == 0)
        pass_on(&l);
    if (child == 0)
        perror("slow-link: fork");
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
