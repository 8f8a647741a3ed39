/* support/cut_link.c - cuts a real worker's links on demand, as a network does: for LD_PRELOAD.
 *
 *     LD_PRELOAD=cut_link.so skyjob-worker ... &
 *     kill -USR1 PID
 *
 * SIGUSR1 shuts every connection of the process that has another end; those that wait for one are
 * left alone. The handler calls what a signal handler may call. */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>

#define FDS_MAX 1024

static void cut(int sig)
{
    int saved = errno;

    (void)sig;
    for (int fd = 3; fd < FDS_MAX; fd++) {
        struct sockaddr_storage peer;
        socklen_t bytes = sizeof peer;

        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0)
            (void)shutdown(fd, SHUT_RDWR);
    }
    errno = saved;
}

__attribute__((constructor)) static void catch_signal(void)
{
    struct sigaction a = {.sa_handler = cut, .sa_flags = SA_RESTART};

    (void)sigaction(SIGUSR1, &a, NULL);
}
