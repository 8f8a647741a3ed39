/* support/tcp.h - TCP connections for tests and their helpers.
 *
 * Hosts are numeric IPv4 addresses.
 */
#ifndef SUPPORT_TCP_H
#define SUPPORT_TCP_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#define TCP_LOCAL       "127.0.0.1"
#define TCP_QUIET_MIN   10000
#define TCP_QUIET_PORTS 20000

/* Listen on `port` (0: any free one); *out_port is the one it is. Returns the socket, -1 when that
 * is impossible. */
static inline int tcp_listen(const char *host, int port, int *out_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd >= 0 && inet_pton(AF_INET, host, &at.sin_addr) == 1 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 64) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &n) == 0) {
        *out_port = ntohs(at.sin_port);
        return fd;
    }
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

/* Returns the socket, -1 when nothing listens there. */
static inline int tcp_connect(const char *host, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && inet_pton(AF_INET, host, &to.sin_addr) == 1 &&
        connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

/* False when the other end has hung up. */
static inline bool tcp_send(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;

    while (n > 0) {
        ssize_t done = send(fd, p, n, MSG_NOSIGNAL);

        if (done <= 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* Does nothing listen on this local port? 0: take any; returns one that was free a moment ago, 0
 * for none. */
static inline int tcp_free_port(int port)
{
    int fd = tcp_listen(TCP_LOCAL, port, &port);

    if (fd >= 0)
        (void)close(fd);
    return fd >= 0 ? port : 0;
}

/* A free one below those that the kernel gives to outgoing connections, of which one could take it
 * before the caller listens there. Every process begins somewhere else. 0 for none. */
static inline int tcp_quiet_port(void)
{
    static int n_given;
    int port = 0;

    for (int tries = 0; port == 0 && tries < TCP_QUIET_PORTS; tries++)
        port = tcp_free_port(TCP_QUIET_MIN + ((int)getpid() * 16 + n_given++) % TCP_QUIET_PORTS);
    return port;
}

#endif
