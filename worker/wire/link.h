/* wire/link.h - a stage's connections to its two neighbours.
 *
 * Tensors travel over up to four edges, each one websocket that its sender dials (a receiving
 * libwebsockets server is three times as fast as a receiving client):
 *
 *     stage s-1  --forward-->   stage s  --forward-->   stage s+1
 *     stage s-1  <--backward--  stage s  <--backward--  stage s+1
 *
 * One IO thread serves all of them; the caller's threads hand over and take whole messages. What
 * is in flight is bounded: a message is copied into one of `n_send_slots` slots, travels when the
 * receiver has a free one of its `n_receive_slots` (credits), and lies there until it is released.
 * All slots are taken by link_open(): no message allocates anything.
 *
 * An edge that is lost stays lost: closed, silent for 15 s, or a peer that breaks the protocol.
 * From then on every call on it fails and names the peer and the reason, after the messages that
 * had arrived whole were handed out. A stage that ends because of a failure passes its cause on
 * (link_abort()), and so do its neighbours: all stages report the one that failed first. Strangers
 * on the port (wrong protocol, key, plan, attempt, stage) are refused, counted and disturb no edge.
 * A peer that does not prove that it has the key gets a constant refusal and learns nothing of the
 * job.
 *
 * The first stage has no FORWARD_IN and no BACKWARD_OUT, the last neither of the other two. A job
 * of one stage opens no link.
 *
 * Layer: wire (may use base). Threads: any; at most one at a time in a call on the same edge.
 * Transport: plain TCP so far, so the addresses must be loopback or a trusted network.
 */
#ifndef WIRE_LINK_H
#define WIRE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hmac.h"
#include "wire/frame.h"

#define LINK_HOST_BYTES    256
#define LINK_SLOTS_MAX     256          /* a receiving or sending edge */
#define LINK_META_MAX      (16u << 20)  /* bytes; larger limits are refused */
#define LINK_TENSOR_MAX    (1ull << 32) /* bytes; larger limits are refused */
#define LINK_STRANGERS_MAX 8            /* connections that are not authenticated yet */

struct link; /* on the heap; all fields private */

enum link_edge {
    LINK_FORWARD_IN,   /* from stage s-1 */
    LINK_FORWARD_OUT,  /* to stage s+1 */
    LINK_BACKWARD_IN,  /* from stage s+1 */
    LINK_BACKWARD_OUT, /* to stage s-1 */
    N_LINK_EDGES
};

/* The same on both sides of an edge except for the number of slots. From the plan. */
struct link_limits {
    uint32_t meta_max_bytes;
    uint64_t tensor_max_bytes;
    int n_receive_slots; /* for each IN edge, 1..LINK_SLOTS_MAX */
    int n_send_slots;    /* for each OUT edge, 1..LINK_SLOTS_MAX; 2 keep the wire busy */
};

struct link_params {
    const char *listen_address; /* a numeric address, "0.0.0.0" or "::" for all */
    int listen_port;            /* 0: any free one, see link_port() */
    int stage;                  /* 0-based */
    int n_stages;               /* at least 2 */
    uint64_t plan_hash;         /* these two must be equal on both ends of an edge */
    uint32_t attempt;
    struct hmac_key key; /* without the same one on the other end there is no connection */
    struct link_limits limits;
    int dial_timeout_ms; /* how long a peer may refuse or not answer after link_set_peers() */
    int silence_s;       /* an edge is lost when its peer is silent for so long; 0: 15 */
};

struct link_peer {
    const char *host; /* a pod's address; a name is looked up and may block the IO thread */
    int port;
};

/* One message. In link_send() everything is the caller's and only read. From link_recv() `meta`
 * and `tensor` point into the slot, ARENA_ALIGN_BYTES aligned, until link_release(). */
struct link_message {
    enum frame_kind kind; /* one of FRAME_KINDS_OF_DATA */
    uint32_t flags;       /* FRAME_* bits */
    uint64_t step;
    uint32_t microbatch;
    uint32_t meta_bytes;
    uint64_t tensor_bytes;
    const void *meta;
    const void *tensor;
    int slot; /* link_recv() sets it, link_release() needs it */
};

/* Start listening and the IO thread. Peers may dial from now on.
 *
 * Returns ERR_OK with *out to be given to link_close(); ERR_INVALID for parameters out of range;
 * ERR_NO_MEMORY; ERR_IO when the address cannot be listened on, with the reason.
 */
MUST_CHECK enum err_code link_open(const struct link_params *params, struct link **out,
                                   struct err *err);

/* The port that is listened on. */
int link_port(const struct link *link);

/* Set the addresses of the neighbours, once: NULL for the one that does not exist. Dialing starts
 * and is repeated for `dial_timeout_ms`, so peers may come up later. ERR_INVALID for an impossible
 * host or port, a neighbour that does not exist or is missing, and a second call. */
MUST_CHECK enum err_code link_set_peers(struct link *link, const struct link_peer *next,
                                        const struct link_peer *prev, struct err *err);

/* Wait until all edges are connected and both ends have agreed on attempt and plan.
 *
 * Returns ERR_OK; ERR_TIMEOUT (call again) naming the first edge that is missing and how its last
 * attempt failed; ERR_IO or ERR_PROTOCOL when an edge is lost.
 */
MUST_CHECK enum err_code link_wait_ready(struct link *link, int timeout_ms, struct err *err);

/* Send a message on an OUT edge. Returns as soon as it is copied: the caller may reuse its buffers
 * at once. Messages arrive in the order of the calls.
 *
 * Returns ERR_OK; ERR_TIMEOUT when no slot became free, nothing was sent; ERR_INVALID for an edge
 * that this stage does not have or sizes beyond the limits; ERR_IO or ERR_PROTOCOL when the edge
 * is lost.
 */
MUST_CHECK enum err_code link_send(struct link *link, enum link_edge edge,
                                   const struct link_message *msg, int timeout_ms, struct err *err);

/* Take the next message of an IN edge.
 *
 * Returns ERR_OK with *out to be given back to link_release(); ERR_TIMEOUT when none came in time
 * (0 only looks); otherwise as link_send(). The caller may hold all slots but then nothing more
 * arrives.
 */
MUST_CHECK enum err_code link_recv(struct link *link, enum link_edge edge, int timeout_ms,
                                   struct link_message *out, struct err *err);

/* Give a received message's slot back; the sender gets the credit. In any order. */
void link_release(struct link *link, enum link_edge edge, const struct link_message *msg);

/* Connections that were turned away so far. */
uint64_t link_refused(struct link *link);

/* Send what is queued, end every edge with BYE, stop the IO thread and free the link. NULL is
 * allowed. Everything is freed whatever it returns; all received messages become invalid.
 *
 * Returns ERR_OK when every message has reached the peer's process, ERR_TIMEOUT when that took
 * longer than `timeout_ms`, or why an edge was lost with messages on it (ERR_IO, ERR_PROTOCOL).
 */
MUST_CHECK enum err_code link_close(struct link *link, int timeout_ms, struct err *err);

/* End after a failure: give the neighbours the cause, stop the IO thread and free the link. The
 * cause is that of the first edge that was lost, if any, else "stage N failed: `why`". What is
 * queued is dropped. NULL is allowed. Takes at most a second. */
void link_abort(struct link *link, const char *why);

#endif
