#include "cli/stale.h"

#include <stdio.h>
#include <string.h>

const char *stale_reason(const struct job *job, const struct node *node, const struct mark *mark,
                         int64_t now_ms)
{
    const struct spec *spec = &job->spec;
    bool is_always = spec->placement.probe == SPEC_PROBE_ALWAYS;
    struct mark_subject now = {.cpu_milli = node->cpu_milli, .memory_bytes = node->memory_bytes};

    if (mark->gflops > 0)
        return is_always ? "declared, and spec.placement.probe is Always" : NULL;
    if (!mark->has_probe)
        return NULL;
    memcpy(now.cpu, mark->cpu, sizeof now.cpu);
    (void)snprintf(now.image, sizeof now.image, "%s", spec->worker.image);
    mark_work(spec, job->namespace, now.work);
    return is_always ? "measured for an earlier job, and spec.placement.probe is Always"
                     : mark_stale(&mark->probe, &now, now_ms);
}
