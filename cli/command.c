#include "cli/command.h"

#include <stdio.h>

#include "cli/interrupt.h"

int command_failed(const struct err *err)
{
    (void)fflush(stdout); /* what came before is to be read before */
    (void)fprintf(stderr, "kubectl-skyjob: %s\n", err->text);
    if (err->code == ERR_GONE && interrupt_seen())
        return 128 + interrupt_signal();
    return err->code == ERR_INVALID || err->code == ERR_NOT_FOUND ? EXIT_CONFIG : EXIT_FAILED;
}

int command_usage(const char *name)
{
    (void)fprintf(stderr, "kubectl-skyjob: see `kubectl-skyjob help` for how to use %s\n", name);
    return EXIT_CONFIG;
}
