#include "cli/interrupt.h"

#include <signal.h>

static volatile sig_atomic_t seen;

static void note(int sig)
{
    seen = sig;
}

void interrupt_catch(void)
{
    struct sigaction a = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND};

    (void)sigaction(SIGINT, &a, NULL);
    (void)sigaction(SIGTERM, &a, NULL);
    (void)sigaction(SIGHUP, &a, NULL);
}

bool interrupt_seen(void)
{
    return seen != 0;
}

int interrupt_signal(void)
{
    return seen;
}
