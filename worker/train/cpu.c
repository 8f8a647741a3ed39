#include "train/cpu.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/node.h"
#include "nn/threads.h"

#define CPU_MILLI_MAX  4096000
#define CPU_STAT_BYTES 1024

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* As much of a file as fits; false when it is missing. Takes no memory, since it is called between
 * steps. */
static bool read_start(const char *path, char *text, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, bytes - 1);

    if (fd >= 0)
        (void)close(fd);
    if (n >= 0)
        text[n] = '\0';
    return n >= 0;
}

/* First two numbers of a file; false when it is missing or contains "max". */
static bool read_pair(const char *path, long long *a, long long *b)
{
    char text[64];

    if (!read_start(path, text, sizeof text))
        return false;
    return b ? sscanf(text, "%lld %lld", a, b) == 2 : sscanf(text, "%lld", a) == 1;
}

static int quota_milli(long long quota, long long period)
{
    if (quota <= 0 || period <= 0 || quota / period >= CPU_MILLI_MAX / 1000)
        return INT_MAX;
    return (int)(quota * 1000 / period);
}

static int cgroup_milli(void)
{
    long long quota;
    long long period;

    if (read_pair("/sys/fs/cgroup/cpu.max", &quota, &period))
        return quota_milli(quota, period);
    if (read_pair("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", &quota, NULL) &&
        read_pair("/sys/fs/cgroup/cpu/cpu.cfs_period_us", &period, NULL))
        return quota_milli(quota, period);
    return INT_MAX;
}

static int affinity_milli(void)
{
    cpu_set_t set;
    long online;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return 1000 * CPU_COUNT(&set);
    online =
        sysconf(_SC_NPROCESSORS_ONLN); /* the mask of this machine is longer than a cpu_set_t */
    return online < 1 ? 1000 : online > CPU_MILLI_MAX / 1000 ? CPU_MILLI_MAX : (int)online * 1000;
}

int cpu_allowed_milli(void)
{
    const char *text = getenv("SKYJOB_CPU_MILLI");
    long set = text ? strtol(text, NULL, 10) : 0;
    int milli = min_int(affinity_milli(), cgroup_milli());

    if (set > 0 && set < milli)
        milli = (int)set;
    return milli < 1 ? 1 : milli;
}

int cpu_threads(void)
{
    int n = cpu_allowed_milli() / 1000;

    _Static_assert(NODE_CPU_USEFUL_MILLI == 1000 * THREADS_MAX, "pods ask for what is used");
    return n < 1 ? 1 : min_int(n, THREADS_MAX);
}

int64_t cpu_throttled_ns(void)
{
    static const struct {
        const char *path, *word;
        int64_t unit_ns;
    } all[] = {{"/sys/fs/cgroup/cpu.stat", "throttled_usec ", 1000},
               {"/sys/fs/cgroup/cpu/cpu.stat", "throttled_time ", 1}};
    char text[CPU_STAT_BYTES];

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const char *at =
            read_start(all[i].path, text, sizeof text) ? strstr(text, all[i].word) : NULL;

        if (at)
            return strtoll(at + strlen(all[i].word), NULL, 10) * all[i].unit_ns;
    }
    return 0;
}

void cpu_model(char *out, int bytes)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");

    (void)snprintf(out, (size_t)bytes, "unknown");
    if (!f)
        return;
    while (fgets(line, sizeof line, f)) {
        const char *value = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        line[strcspn(line, "\n")] = '\0';
        (void)snprintf(out, (size_t)bytes, "%s", value + 2);
        break;
    }
    (void)fclose(f);
}
