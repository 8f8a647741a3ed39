#include "api/names.h"

#include <stdio.h>
#include <string.h>

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

void names_worker_dns(const char *uid, int slot, int incarnation, char out[static NAMES_DNS_BYTES])
{
    (void)snprintf(out, NAMES_DNS_BYTES, "w%d-%d.%.40s." NAMES_DOMAIN, slot, incarnation, uid);
}

void names_operator_dns(const char *uid, char out[static NAMES_DNS_BYTES])
{
    (void)snprintf(out, NAMES_DNS_BYTES, "operator.%.40s." NAMES_DOMAIN, uid);
}

bool names_dns_uid(const char *dns, char out[static NAMES_UID_BYTES])
{
    const char *uid = strchr(dns, '.');
    const char *domain = uid ? strchr(uid + 1, '.') : NULL;
    size_t n = domain ? (size_t)(domain - uid) - 1 : 0;

    if (n == 0 || n >= NAMES_UID_BYTES || strcmp(domain + 1, NAMES_DOMAIN) != 0)
        return false;
    memcpy(out, uid + 1, n);
    out[n] = '\0';
    return true;
}

void names_checkpoints(const char *job, const char *uid, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-%.5s", NAMES_JOB_MAX, job, uid);
}

void names_child(const char *job, const char *what, char out[static NAMES_BYTES])
{
    (void)snprintf(out, NAMES_BYTES, "%.*s-%s", NAMES_JOB_MAX, job, what);
}
