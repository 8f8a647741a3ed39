#include "cluster/node_object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/quantity.h"

/* Far above any machine; sums of amounts below stay far from overflow. */
#define CPU_MAX_MILLI    10000000
#define MEMORY_MAX_BYTES (INT64_C(1) << 60)

static int64_t read_amount(const struct json *node, const char *resource, bool is_milli,
                           int64_t most)
{
    int64_t n = quantity_read(json_get(json_path(node, "status.allocatable"), resource), is_milli);

    return n <= most ? n : 0;
}

void node_object_read(const struct json *node, enum exclusion unseen, struct node_object *out)
{
    memset(out, 0, sizeof *out);
    (void)snprintf(out->name, sizeof out->name, "%s",
                   json_string(json_path(node, "metadata.name"), ""));
    out->excluded = exclusion_read(node, unseen);
    out->cpu_milli = read_amount(node, "cpu", true, CPU_MAX_MILLI);
    out->memory_bytes = read_amount(node, "memory", false, MEMORY_MAX_BYTES);
    annotations_read(node, &out->annotations);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct node_object *)a)->name, ((const struct node_object *)b)->name);
}

void node_objects_sort(struct node_object *nodes, size_t n)
{
    if (n > 0)
        qsort(nodes, n, sizeof *nodes, compare_names);
}

static int compare_with_name(const void *name, const void *node)
{
    return strcmp(name, ((const struct node_object *)node)->name);
}

void node_objects_use(struct node_object *nodes, size_t n, const char *name, int64_t cpu_milli,
                      int64_t memory_bytes)
{
    struct node_object *to =
        n > 0 ? bsearch(name, nodes, n, sizeof *nodes, compare_with_name) : NULL;

    if (!to)
        return;
    to->cpu_used_milli += cpu_milli;
    to->memory_used_bytes += memory_bytes;
}
