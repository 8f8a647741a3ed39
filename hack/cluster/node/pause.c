/* Holds the namespaces of a pod: sleeps until it is told to end, and reaps what is left to it. */
#include <signal.h>
#include <sys/wait.h>

int main(void)
{
    sigset_t wanted;
    int got = 0;

    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGCHLD);
    sigprocmask(SIG_BLOCK, &wanted, 0);
    while (sigwait(&wanted, &got) == 0 && got == SIGCHLD) {
        while (waitpid(-1, 0, WNOHANG) > 0)
            ;
    }
    return 0;
}
