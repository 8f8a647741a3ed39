/* fault-proxy: support/proxy.h for shell tests.
 *
 *     fault-proxy HOST:PORT TARGET_HOST:TARGET_PORT [FAULT:TYPE:STEP:MICROBATCH[:DELAY_MS]]
 *
 * FAULT is cut, half, delay or repeat, TYPE a message's name (train/message.h), "any" matches
 * every type, step or micro-batch. Prints "ready", then "fault" when the fault has happened, and
 * ends with its standard input. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy.h"
#include "train/message.h"

static bool split(char *address, char **host, int *port)
{
    char *colon = strrchr(address, ':');

    if (!colon)
        return false;
    *colon = '\0';
    *host = address;
    *port = atoi(colon + 1);
    return true;
}

static int64_t number(const char *word)
{
    return !word || strcmp(word, "any") == 0 ? -1 : atoll(word);
}

static bool read_fault(char *text, struct proxy_fault *out)
{
    static const char *const kinds[] = {
        [PROXY_CUT] = "cut",
        [PROXY_HALF] = "half",
        [PROXY_DELAY] = "delay",
        [PROXY_REPEAT] = "repeat",
    };
    char *rest = text;
    const char *kind = strsep(&rest, ":");
    const char *type = strsep(&rest, ":");
    const char *delay;

    *out = (struct proxy_fault){.type = -1};
    for (int i = PROXY_CUT; i <= PROXY_REPEAT; i++)
        if (strcmp(kind, kinds[i]) == 0)
            out->kind = (enum proxy_fault_kind)i;
    for (int i = 0; type && i < N_MESSAGE_KINDS; i++)
        if (strcmp(type, message_kind_name((uint32_t)i)) == 0)
            out->type = i;
    out->step = number(strsep(&rest, ":"));
    out->microbatch = number(strsep(&rest, ":"));
    delay = strsep(&rest, ":");
    out->delay_ms = delay ? atoi(delay) : 0;
    return out->kind != PROXY_NONE && type && (out->type >= 0 || strcmp(type, "any") == 0);
}

int main(int argc, char **argv)
{
    struct proxy_fault fault = {.kind = PROXY_NONE};
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char *host, *to_host, c;
    int port, to_port;
    struct proxy *proxy;
    bool is_reported = false;

    if (argc < 3 || argc > 4 || !split(argv[1], &host, &port) ||
        !split(argv[2], &to_host, &to_port) || (argc == 4 && !read_fault(argv[3], &fault))) {
        (void)fprintf(stderr,
                      "usage: %s HOST:PORT TARGET_HOST:TARGET_PORT "
                      "[cut|half|delay|repeat:TYPE:STEP:MICROBATCH[:DELAY_MS]]\n",
                      argv[0]);
        return 2;
    }
    proxy = proxy_start(host, port, to_host, to_port, &fault);
    if (!proxy) {
        perror("fault-proxy");
        return 1;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)puts("ready");
    while (poll(&in, 1, 50) == 0 || read(STDIN_FILENO, &c, 1) > 0) {
        if (!is_reported && proxy_is_done(proxy)) {
            is_reported = true;
            (void)puts("fault");
        }
    }
    proxy_stop(proxy);
    return 0;
}
