/* probe/probe_link.h - links: what messages cost this machine, and how fast they reach others.
 *
 * Messages take the path of training messages: over a link with an edge each way.
 *
 * The CPU time of messages, which the trainer has to share, is measured on a link over loopback,
 * with both ends in this process: small messages with pauses, so that every thread is woken up as
 * in training, then large ones. The kernel's work for a network card is not included.
 *
 * Latency and bandwidth to other machines are measured between probes. The probes of a job run side
 * by side, one per node. Each has the two ports of a worker and gets a peer table (struct peers,
 * revision 0) over the control port: itself, then its partner in each round, or itself again in a
 * round without one. Two partners measure in turn: small messages that are answered for the
 * latency, then large ones, each answered before the next, for the bandwidth. A partner that does
 * not appear in time is skipped: links are optional in a probe's result.
 * Layer: probe (may use train wire api base). Threads: one caller; the control port and each link
 * have their own.
 */
#ifndef PROBE_PROBE_LINK_H
#define PROBE_PROBE_LINK_H

#include "api/node.h"
#include "base/err.h"
#include "tls/tls.h"

/* Measure the CPU time of messages, with an identity those of TLS: some 150 ms on an idle machine,
 * at most two seconds by the clock `now_ns`. *out is only set with ERR_OK. Errors are those of
 * wire/link.h. */
MUST_CHECK enum err_code probe_message_run(int64_t (*now_ns)(void),
                                           const struct tls_identity *identity,
                                           struct node_message *out, struct err *err);

struct probe_link_params {
    const char *key_path;         /* the key that the job's workers and its operator share */
    const char *certificates_dir; /* train/credentials.h, of a probe; NULL: both ports are plain */
    const char *control_host;
    int control_port;
    const char *tensor_host;
    int tensor_port;
    int64_t (*now_ns)(void); /* the clock that deadlines are kept and links measured by */
    int64_t end_ms;          /* by that clock: everything ends then */
    int table_ms;            /* how long to wait for the peer table ... */
    int partner_ms;          /* ... then for the first partner ... */
    int partner_more_ms;     /* ... and how much longer for each next one */
};

struct probe_link;

/* Listen for the peer table. The hosts are borrowed. ERR_IO when the port is taken; ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code probe_link_open(const struct probe_link_params *params,
                                         struct probe_link **out, struct err *err);
/* Its certificate, shared: tls_identity_free(). NULL for none, as of a NULL. */
struct tls_identity *probe_link_identity(struct probe_link *p);
/* Measure with all partners in turn, and add the results to out->links. */
void probe_link_run(struct probe_link *p, struct node_probe *out);
/* NULL is allowed. */
void probe_link_close(struct probe_link *p);

#endif
