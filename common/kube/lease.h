/* kube/lease.h - of several processes that could do the same, one does: leader election.
 *
 * The rules are client-go's (tools/leaderelection). Whoever is named in a Lease leads. It renews
 * the Lease every LEASE_RETRY_MS; when that has failed for LEASE_RENEW_MS it leads no more, and
 * never again. Others look every LEASE_RETRY_MS to 2.2 times that, and take a Lease that nobody
 * holds, or that has not changed for its duration. That is counted on the local, monotonic clock
 * from when a change was *seen*: the times in a Lease are for people, since nodes may disagree by
 * hours. All writes carry the version that was read, so of two that want the Lease one gets it.
 *
 * A leader may be stopped for longer than its Lease lasts, and go on without having noticed: it has
 * to ask lease_is_held() before each write (kube_options.may_write).
 * Layer: kube (may use http, base). Threads: one of its own; those who ask may be any.
 */
#ifndef KUBE_LEASE_H
#define KUBE_LEASE_H

#include "base/clock.h"
#include "kube/client.h"

#define LEASE_DURATION_MS  15000
#define LEASE_RENEW_MS     10000 /* shorter than the duration: who leads gives up first */
#define LEASE_RETRY_MS     2000
#define LEASE_JITTER       1.2  /* of LEASE_RETRY_MS, for those who wait */
#define LEASE_CALL_MS      5000 /* for each call, so that several fit into LEASE_RENEW_MS */
#define LEASE_HOLDER_BYTES 256

extern const struct kube_resource kube_leases;

/* --- decisions: pure --- */

/* A Lease as it was read or written. */
struct lease_record {
    char version[128];               /* "": there is no Lease */
    char holder[LEASE_HOLDER_BYTES]; /* "": nobody */
    int64_t duration_ms;
    char acquired[CLOCK_TEXT_BYTES];
    int64_t n_transitions;
};

/* Read a Lease. What is missing or of another type counts as empty. */
void lease_read(const struct json *object, struct lease_record *out);

/* What a process has seen of the Lease. */
struct lease_view {
    struct lease_record record;
    int64_t changed_ms; /* monotonic; when it was first seen like this */
};

/* Take over what was read at `now_ms`. */
void lease_observe(struct lease_view *view, const struct lease_record *record, int64_t now_ms);

/* May the process `identity` write its name into it? */
bool lease_is_free(const struct lease_view *view, const char *identity, int64_t now_ms);

/* Append the Lease in which `identity` leads, renewed at `wall_ms`, or which it has released. */
MUST_CHECK enum err_code lease_write(const struct lease_view *view, const char *name,
                                     const char *identity, bool releases, int64_t wall_ms,
                                     struct buf *out, struct err *err);

/* --- a process --- */

struct lease_options {
    const char *namespace;
    const char *name;
    const char *component; /* that leads, for Events */
    const char *identity;  /* of this process, as of no other: lease_identity() */
    /* Called once from the lease's thread, when it leads no more without having been released. */
    void (*on_lost)(void *ctx);
    void *ctx;
};

struct lease;

/* The host's name and random bytes. ERR_IO without them. */
MUST_CHECK enum err_code lease_identity(char out[static LEASE_HOLDER_BYTES], struct err *err);

/* Try to lead from now on. `client` is the lease's alone until lease_free(), with a loop of its own
 * and LEASE_CALL_MS for a call; the rest is borrowed. */
MUST_CHECK enum err_code lease_new(struct kube_client *client, const struct lease_options *options,
                                   struct lease **out, struct err *err);

/* Release it, so that another process may lead at once. Takes two calls at most. */
void lease_free(struct lease *l); /* NULL is allowed */

/* Does this process lead? From any thread. */
bool lease_is_held(const struct lease *l);

/* Did it lead, and leads no more? From any thread. */
bool lease_is_lost(const struct lease *l);

/* When its thread last came by, as clock_now_ms(): late is what hangs. From any thread. */
int64_t lease_turned_ms(const struct lease *l);

#endif
