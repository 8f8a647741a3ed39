#include "api/names.h"

#include <stdio.h>

#include "base/hash.h"

void names_worker_pod(const char *job, const char *uid, int slot, int incarnation,
                      char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-%.5s-w%d-%d", NAMES_JOB_MAX, job, uid, slot,
                   incarnation);
}

void names_probe_pod(const char *job, const char *uid, const char *node,
                     char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-%.5s-probe-%08x", NAMES_JOB_MAX, job, uid,
                   (unsigned)(hash_text(node) & 0xffffffffu));
}

void names_model_pod(const char *job, const char *uid, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-%.5s-model", NAMES_JOB_MAX, job, uid);
}

void names_revision(const char *job, const char *uid, int number, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-%.5s-r%d", NAMES_JOB_MAX, job, uid, number);
}

void names_group(const char *job, const char *uid, int number, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-%.5s-g%d", NAMES_JOB_MAX, job, uid, number);
}

void names_checkpoints(const char *job, const char *uid, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-%.5s", NAMES_JOB_MAX, job, uid);
}

void names_child(const char *job, const char *what, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-%s", NAMES_JOB_MAX, job, what);
}
