#include "api/names.h"

#include <stdio.h>

#include "base/hash.h"

void names_stage_pod(const char *job, int stage, int attempt, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-r0-s%d-a%d", NAMES_JOB_MAX, job, stage, attempt);
}

void names_probe_pod(const char *job, const char *node, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-probe-%08x", NAMES_JOB_MAX, job,
                   (unsigned)(hash_text(node) & 0xffffffffu));
}

void names_model_pod(const char *job, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-model", NAMES_JOB_MAX, job);
}

void names_probe_spec(const char *job, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-probe", NAMES_JOB_MAX, job);
}

void names_plan(const char *job, int attempt, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-plan-a%d", NAMES_JOB_MAX, job, attempt);
}

void names_key(const char *job, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-key", NAMES_JOB_MAX, job);
}

void names_policy(const char *job, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-workers", NAMES_JOB_MAX, job);
}
