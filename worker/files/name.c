#include "files/name.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct name name_of(const struct resume_checkpoint *c)
{
    return (struct name){.lineage = c->lineage, .step = c->end.step};
}

void name_print(struct name name, char out[static NAME_BYTES])
{
    (void)snprintf(out, NAME_BYTES, "%lld-%lld", (long long)name.lineage, (long long)name.step);
}

bool name_parse(const char *text, struct name *out)
{
    long long lineage = 0;
    long long step = 0;
    char own[NAME_BYTES];

    if (strlen(text) >= NAME_BYTES || sscanf(text, "%lld-%lld", &lineage, &step) != 2)
        return false;
    *out = (struct name){.lineage = lineage, .step = step};
    name_print(*out, own);
    return strcmp(text, own) == 0 && lineage >= 1 && step >= 1;
}

void name_manifest(int stage, int n_stages, char out[static EXPORT_SHARD_BYTES])
{
    export_shard_name(stage, n_stages, out);
    memcpy(strrchr(out, '.'), ".json", sizeof ".json"); /* shorter than ".safetensors" */
}

bool name_parse_manifest(const char *file, int *out_stage, int *out_n_stages)
{
    char own[EXPORT_SHARD_BYTES];
    int number = 1;
    int n = 1;

    if (sscanf(file, "model-%5d-of-%5d", &number, &n) == 2 &&
        (n < 2 || n > SPEC_STAGES_MAX || number < 1 || number > n))
        return false;
    *out_stage = number - 1;
    *out_n_stages = n;
    name_manifest(number - 1, n, own);
    return strcmp(file, own) == 0;
}

int name_compare(const void *a, const void *b)
{
    const struct name *x = a;
    const struct name *y = b;

    if (x->lineage != y->lineage)
        return x->lineage < y->lineage ? 1 : -1;
    return x->step < y->step ? 1 : x->step > y->step ? -1 : 0;
}

static void mark_best(struct name *names, int n, const struct resume_origin *best)
{
    for (int i = 0; i < n; i++)
        if (names[i].lineage == best->lineage && names[i].step == best->step)
            names[i].is_best = true;
}

/* Is it one of those to keep? */
static bool is_kept(struct name *names, int n, int i, const struct name_rule *rule)
{
    struct resume_origin best;
    bool counts = resume_counts(rule->at, names[i].lineage, names[i].step);
    bool is_there;

    if (!counts || (rule->is_own && names[i].step > rule->step_max))
        return false;
    is_there = rule->find(rule->ctx, names[i], &best);
    if (is_there)
        mark_best(names, n, &best);
    return is_there || rule->is_own;
}

void name_choose(struct name *names, int n, const struct name_rule *rule)
{
    int first = 0; /* that is kept */
    int n_kept = 0;
    int n_newer = 0;

    assert(rule->keep >= 1);
    for (int i = 0; i < n && n_kept < rule->keep; i++) {
        names[i].is_kept = is_kept(names, n, i, rule);
        n_kept += names[i].is_kept;
        first = n_kept == 0 ? i + 1 : first;
    }
    for (int i = 0; i < n && n_kept > 0; i++) {
        bool counts = resume_counts(rule->at, names[i].lineage, names[i].step);

        /* What is newer may still be being written, or one that could not be copied, but those must
         * not fill an own store. */
        names[i].goes = !names[i].is_kept && !names[i].is_best &&
                        names[i].lineage <= rule->at->lineage &&
                        !(counts && i < first && (!rule->is_own || ++n_newer <= rule->keep));
    }
}
