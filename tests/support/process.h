/* support/process.h - what another process is doing. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "base/clock.h"

#define PROCESS_PATIENCE_MS 10000

/* 'R' runs, 'S' sleeps, 'T' is stopped, 'Z' has ended; '?' if there is none. */
static inline char process_state(pid_t pid)
{
    char letter = '?';
    char path[64];
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return '?';
    if (fscanf(f, "%*d (%*[^)]) %c", &letter) != 1)
        letter = '?';
    (void)fclose(f);
    return letter;
}

/* Until its state is one of these. */
static inline void process_await(pid_t pid, const char *letters)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int64_t until = clock_now_ms() + PROCESS_PATIENCE_MS;

    while (!strchr(letters, process_state(pid))) {
        assert_true(clock_now_ms() < until);
        (void)nanosleep(&pause, NULL);
    }
}

#endif
