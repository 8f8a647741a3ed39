/* wire/link.h - one worker's connections to others.
 *
 * Messages travel over edges. An edge is one direction to or from one peer: a websocket that its
 * sender dials (a receiving libwebsockets server is three times as fast as a receiving client). The
 * caller lists the edges; both ends of an edge have it in their lists with the same number and the
 * same limits.
 *
 * One IO thread serves all of them; the caller's threads hand over and take whole messages. What is
 * in flight is bounded: a message is copied into one of the sender's slots, travels when the
 * receiver has a free one (credits), and lies there until it is released. All slots are taken by
 * link_open(): no message allocates anything.
 *
 * An edge that is lost stays lost: closed, silent for 15 s, or a peer that breaks the protocol.
 * From then on every call on it fails and names the peer and the reason, after the messages that
 * had arrived whole were handed out. A worker that ends because of a failure passes its cause on
 * (link_abort()), and so do its peers: all workers report the one that failed first. Strangers on
 * the port (wrong protocol, key, plan, revision, worker, edge) are refused, counted and disturb no
 * edge. A peer that does not prove that it has the key gets a constant refusal and learns nothing
 * of the job; with an identity, one whose certificate is not that of a peer gets no answer.
 *
 * Layer: wire (may use tls base). Threads: any; at most one at a time in a call on the same edge.
 * Transport: mutual TLS with an identity, in which both ends check that the peer's certificate
 * names the worker of the edge; else plain TCP, for loopback and trusted networks.
 */
#ifndef WIRE_LINK_H
#define WIRE_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hmac.h"
#include "tls/tls.h"
#include "wire/frame.h"

#define LINK_HOST_BYTES    256
#define LINK_NAME_BYTES    32
#define LINK_TLS_BYTES     96 /* of the name in a peer's certificate, with the NUL */
#define LINK_EDGES_MAX     384
#define LINK_SLOTS_MAX     256          /* an edge, on each end */
#define LINK_META_MAX      (16u << 20)  /* bytes; larger limits are refused */
#define LINK_TENSOR_MAX    (1ull << 32) /* bytes; larger limits are refused */
#define LINK_STRANGERS_MAX 8            /* connections that are not authenticated yet */

struct link; /* on the heap; all fields private */

/* Bytes of messages, with their headers, to and from a peer. Written by the IO thread, read by any.
 * Edges, and links that come one after the other, may share one. */
struct link_traffic {
    atomic_ullong sent_bytes;
    atomic_ullong received_bytes;
    atomic_ullong unacknowledged_bytes; /* of those that are sent: the peer still has them in its
                                           slots, or they are on their way */
};

struct link_edge {
    uint32_t id; /* equal on both ends; one peer's edges of one direction have different ones */
    bool is_incoming;
    uint32_t peer;             /* number of the worker at the other end ... */
    uint32_t peer_incarnation; /* ... and which of its pods is meant */
    uint32_t meta_max_bytes;   /* of a message; equal on both ends, like the next one */
    uint64_t tensor_max_bytes; /* of a message */
    int n_slots; /* messages that lie at this end, 1..LINK_SLOTS_MAX; 2 keep the wire busy */
    char name[LINK_NAME_BYTES];      /* what errors call the edge ... */
    char peer_name[LINK_NAME_BYTES]; /* ... and its peer */
    char tls_name[LINK_TLS_BYTES];   /* with an identity: what the peer's certificate names */
    struct link_traffic *traffic;    /* borrowed until the link is closed; NULL: not counted */
};

struct link_params {
    const char *listen_address; /* a numeric address, "0.0.0.0" or "::" for all */
    int listen_port;            /* 0: any free one, see link_port() */
    uint32_t worker;            /* this worker's number ... */
    uint32_t incarnation;       /* ... and which of its pods this is */
    const struct link_edge *edges;
    int n_edges;        /* 1..LINK_EDGES_MAX */
    uint64_t plan_hash; /* these two must be equal on both ends of an edge */
    uint32_t revision;
    struct hmac_key key; /* without the same one on the other end there is no connection */
    const struct tls_identity *tls; /* NULL: plain TCP */
    int dial_timeout_ms; /* how long a peer may refuse or not answer after link_set_peer() */
    int silence_s;       /* an edge is lost when its peer is silent for so long; 0: 15 */
};

/* One message. In link_send() everything is the caller's and only read. From link_recv() `meta`
 * and `tensor` point into the slot, ARENA_ALIGN_BYTES aligned, until link_release(). */
struct link_message {
    uint32_t type;  /* what it is to the caller, at most FRAME_TYPE_MAX ... */
    uint32_t flags; /* ... with flags, at most FRAME_FLAGS_MAX; the link only passes both on ... */
    uint64_t step;  /* ... like these two */
    uint32_t microbatch;
    uint32_t meta_bytes;
    uint64_t tensor_bytes;
    const void *meta;
    const void *tensor;
    int slot; /* link_recv() sets it, link_release() needs it */
};

/* Start listening and the IO thread. Peers may dial from now on. All of `params` is copied.
 *
 * Returns ERR_OK with *out to be given to link_close(); ERR_INVALID for parameters out of range;
 * ERR_NO_MEMORY; ERR_IO when the address cannot be listened on, with the reason.
 */
MUST_CHECK enum err_code link_open(const struct link_params *params, struct link **out,
                                   struct err *err);

/* The port that is listened on. */
int link_port(const struct link *link);

/* Set a peer's address, once: `host` is an address of a pod; a name is looked up and may block the
 * IO thread. Dialing starts on the edges to it and is repeated for `dial_timeout_ms`, so peers may
 * come up later. ERR_INVALID for an impossible host or port, a peer without an edge, and a second
 * call for the same peer. */
MUST_CHECK enum err_code link_set_peer(struct link *link, uint32_t peer, const char *host, int port,
                                       struct err *err);

/* Wait until all edges are connected and both ends have agreed on revision and plan.
 *
 * Returns ERR_OK; ERR_TIMEOUT (call again) naming the first edge that is missing and how its last
 * attempt failed; ERR_IO or ERR_PROTOCOL when an edge is lost.
 */
MUST_CHECK enum err_code link_wait_ready(struct link *link, int timeout_ms, struct err *err);

/* Send a message on an outgoing edge; `edge` is its index in the list of link_params. Returns as
 * soon as the message is copied: the caller may reuse its buffers at once. Messages arrive in the
 * order of the calls.
 *
 * Returns ERR_OK; ERR_TIMEOUT when no slot became free, nothing was sent; ERR_INVALID for an edge
 * that is not in the list and sizes beyond the limits; ERR_IO or ERR_PROTOCOL when the edge is
 * lost.
 */
MUST_CHECK enum err_code link_send(struct link *link, int edge, const struct link_message *msg,
                                   int timeout_ms, struct err *err);

/* Take the next message of an incoming edge.
 *
 * Returns ERR_OK with *out to be given back to link_release(); ERR_TIMEOUT when none came in time
 * (0 only looks); otherwise as link_send(). The caller may hold all slots but then nothing more
 * arrives.
 */
MUST_CHECK enum err_code link_recv(struct link *link, int edge, int timeout_ms,
                                   struct link_message *out, struct err *err);

/* Give a received message's slot back; the sender gets the credit. In any order. */
void link_release(struct link *link, int edge, const struct link_message *msg);

/* Connections that were turned away so far. */
uint64_t link_refused(struct link *link);

/* Send what is queued and end every edge with BYE; after this call nothing more may be sent.
 *
 * Returns ERR_OK when every message has reached the peer's process, and peers know that theirs have
 * reached this one; ERR_TIMEOUT when that takes longer than `timeout_ms` (call again: if the link
 * is freed now, a peer may take what it has sent for lost); or why an edge was lost with messages
 * on it (ERR_IO, ERR_PROTOCOL).
 */
MUST_CHECK enum err_code link_finish(struct link *link, int timeout_ms, struct err *err);

/* link_finish(); then stop the IO thread and free the link, whatever it returned. NULL is allowed.
 * All received messages become invalid. */
MUST_CHECK enum err_code link_close(struct link *link, int timeout_ms, struct err *err);

/* End after a failure: give the peers the cause, stop the IO thread and free the link. The cause is
 * that of the first edge that was lost, if any, else `cause`, which should name this worker. What
 * is queued is dropped. NULL is allowed. Takes at most a second. */
void link_abort(struct link *link, const char *cause);

#endif
