#include "agent_image.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tcp.h"

#define N_PORTS      3
#define CONTROL_PORT 7070
#define HEALTH_PORT  7072
#define FLOOD_BYTES  ((size_t)64 << 20) /* unless the caller hangs up before */

static bool say(int fd, const char *text)
{
    return tcp_send(fd, text, strlen(text));
}

static void flood(int fd, const char *text)
{
    for (size_t n = 0; n < FLOOD_BYTES && say(fd, text);)
        n += strlen(text);
}

/* --- wrong ways to answer --- */

static void endless_body(int fd)
{
    (void)say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 9000000000000000000\r\n\r\n");
    flood(fd, "{\"state\": \"Training\", ");
}

static void endless_head(int fd)
{
    (void)say(fd, "HTTP/1.1 200 OK\r\n");
    flood(fd, "X-Worker: 000000000000000000000000000000000000000000000000000000000000\r\n");
}

static void deep(int fd)
{
    (void)say(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    for (int i = 0; i < 200000 && say(fd, "[[[[["); i++)
        continue;
}

static void wrong_types(int fd)
{
    (void)say(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
                  "{\"state\": 7, \"revision\": -1, \"step\": \"x\", \"units\": {\"a\": [null]}, "
                  "\"loss\": 1e999, \"phase\": \"\\u0000\"}");
}

static void drip(int fd)
{
    (void)say(fd, "HTTP/1.1 200 OK\r\n\r\n{");
    while (say(fd, " "))
        (void)sleep(1);
}

static void no_http(int fd)
{
    (void)say(fd, "\x16\x03\x01\x02\r\n\r\n");
}

/* --- */

static void answer(int fd, int n)
{
    static void (*const ways[])(int) = {wrong_types, endless_body, endless_head,
                                        deep,        drip,         no_http};
    char request[8192];

    if (recv(fd, request, sizeof request, 0) > 0)
        ways[n % 6](fd);
    _exit(0);
}

bool agent_image_is_known(const char *image)
{
    return strcmp(image, "silent") == 0 || strcmp(image, "nonsense") == 0;
}

void agent_image_run(const char *image, const char *ip)
{
    struct pollfd ports[N_PORTS];
    bool is_silent = strcmp(image, "silent") == 0;

    (void)signal(SIGCHLD, SIG_IGN);
    for (int i = 0, port; i < N_PORTS; i++) {
        ports[i] = (struct pollfd){.fd = tcp_listen(ip, CONTROL_PORT + i, &port), .events = POLLIN};
        if (ports[i].fd < 0)
            _exit(127);
    }
    for (int n = 0; poll(ports, N_PORTS, -1) > 0;) {
        for (int i = 0; i < N_PORTS; i++) {
            int fd = ports[i].revents ? accept(ports[i].fd, NULL, NULL) : -1;

            if (fd < 0)
                continue;
            if (CONTROL_PORT + i == HEALTH_PORT) {
                (void)say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            } else if (is_silent) {
                continue; /* it stays open */
            } else if (fork() == 0) {
                answer(fd, n);
            }
            n++;
            (void)close(fd);
        }
    }
    _exit(1);
}
