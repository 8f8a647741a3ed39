/* support/slow_send.c - a real worker on a slow network: for LD_PRELOAD.
 *
 *     SEND_PAUSE_US=1000 LD_PRELOAD=slow_send.so skyjob-worker ...
 *
 * Each send() begins with that pause. So a job with a tiny model takes as long on a fast machine as
 * on a slow one, and leaves the processors to others. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static useconds_t pause_us;

__attribute__((constructor)) static void read_pause(void)
{
    const char *text = getenv("SEND_PAUSE_US");

    pause_us = text ? (useconds_t)strtoul(text, NULL, 10) : 0;
}

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    (void)usleep(pause_us);
    return sendto(fd, data, bytes, flags, NULL, 0);
}
