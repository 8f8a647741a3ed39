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
        return is_always ? "declared, and spec.placement.probePolicy is Always" : NULL;
    if (!mark->has_probe)
        return NULL;
    memcpy(now.cpu, mark->cpu, sizeof now.cpu);
    (void)snprintf(now.image, sizeof now.image, "%s", spec->worker.image);
    mark_work(spec, job->namespace, now.work);
    return is_always ? "measured for an earlier job, and spec.placement.probePolicy is Always"
                     : mark_stale(&mark->probe, &now, now_ms);
}

const char *stale_beside(const struct mark *marks, int n, int i)
{
    for (int k = 0; k < n; k++)
        if (marks[i].gflops <= 0 && marks[i].has_probe && marks[k].has_probe &&
            !marks[k].probe.is_contradicted && mark_contradict(&marks[i].probe, &marks[k].probe))
            return "contradicted by what was measured on a node with the same processor";
    return NULL;
}
