/* Stands in for the worker in an image: on one node a probe leaves nonsense, on another it fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int end(const char *message, int status)
{
    FILE *log = fopen("/dev/termination-log", "w");

    if (!log || fputs(message, log) < 0 || fclose(log) != 0)
        return 1;
    return status;
}

static int ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

int main(int argc, char **argv)
{
    const char *node = getenv("SKYJOB_NODE");

    (void)argc;
    if (node && ends_with(node, "-worker"))
        return end("quite fast\n", 0);
    if (node && ends_with(node, "-worker2"))
        return end("no such device\n", 3);
    (void)execv("/usr/local/bin/skyjob-worker", argv);
    return 1;
}
