/* probe/probe_link.h - what a message from this machine to others takes, measured between probes.
 *
 * The probes of a job run side by side, one a node. Each has the two ports of a worker and is given
 * a peer table (struct peers, attempt 0) over the control port: itself, then whom it meets in each
 * round; itself again when it is left over. Two that meet open the links of two neighbouring
 * stages, so every message goes the way that training's go, and take turns: small messages that are
 * answered for the latency, then large ones, each answered before the next, for the bandwidth.
 *
 * Whoever does not come, or not in time, is passed over: a probe without links is a probe.
 * Layer: probe (may use train wire api base). Threads: one caller; the control port and each link
 * have their own.
 */
#ifndef PROBE_PROBE_LINK_H
#define PROBE_PROBE_LINK_H

#include "api/node.h"
#include "base/err.h"

#define PROBE_LINK_MESSAGE_BYTES (3u << 20) /* the large ones, where the link is not too slow */

struct probe_link_params {
    const char *key_path; /* the key that the job's workers and its operator share */
    const char *control_host;
    int control_port;
    const char *tensor_host;
    int tensor_port;
    int64_t end_ms; /* monotonic: it is over then, whatever is left to do */
    int table_ms;   /* how long to wait for the peer table */
};

struct probe_link;

/* Listen for the peer table. The hosts are borrowed. ERR_IO when the port is taken; ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code probe_link_open(const struct probe_link_params *params,
                                         struct probe_link **out, struct err *err);
/* Meet the others, and add to out->links what was measured. */
void probe_link_run(struct probe_link *p, struct node_probe *out);
/* NULL is allowed. */
void probe_link_close(struct probe_link *p);

#endif
