/* wire/link_parts.h (private) - what is inside a link.
 *
 * An edge is one direction of data to or from one neighbour and lives as long as the link: its
 * slots and queue, and how it ended. A connection is one websocket and may come and go: a dialed
 * one that failed is dialed again, an accepted one is a stranger until its HELLO names the edge.
 * `struct edge` is guarded by link.lock (except where it says otherwise), `struct conn` belongs to
 * the IO thread.
 *
 *   link.c       the public functions, edges and their slots: the caller's threads wait here
 *   link_conn.c  the protocol of a connection: HELLO, credits, messages, BYE; no I/O
 *   link_io.c    the IO thread and libwebsockets: events, dialing, deadlines, start and stop
 *
 * A connection's life: OPENING until the websocket stands; GREETING while CHALLENGE and HELLO go
 * both ways; OPEN from the receiver's first credit on; CLOSING until libwebsockets has let go.
 * Credits and BYE carry totals since the start, not differences, so either end can check them.
 */
#ifndef WIRE_LINK_PARTS_H
#define WIRE_LINK_PARTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "wire/hello.h"
#include "wire/link.h"
#include "wire/reader.h"

#define CHUNK_MAX_BYTES      (256u << 10) /* of one write: where libwebsockets was measured fastest */
#define CHUNK_HEADROOM_BYTES 64 /* free bytes in front of a chunk, for websocket headers */

#define DIAL_ATTEMPT_MS   5000  /* from dialing to the first credit */
#define DIAL_LAST_MS      1000  /* the same for an attempt when the time to dial runs out */
#define CLOSING_MS        500   /* from a close frame to the end, without an answer */
#define ABORT_MS          1000  /* the same for all connections, when a stage has failed */
#define GREETING_MS       10000 /* from being accepted to a HELLO */
#define REDIAL_MIN_MS     50    /* between two attempts, doubling ... */
#define REDIAL_MAX_MS     1000  /* ... up to this */
#define STRANGER_GRACE_MS 1000  /* a stranger younger than this is not evicted for another */

#define LINK_CLOSE_TEXT_MAX 123  /* bytes of reason in a websocket's close frame */
#define CLOSE_CAUSE         4000 /* its status when the reason is the cause of a failure */

#define LINK_NEIGHBOURS_MAX 8 /* strangers from the addresses of neighbours, beside the others */
#define LINK_CONNS_MAX      (LINK_STRANGERS_MAX + LINK_NEIGHBOURS_MAX + N_LINK_EDGES)

/* --- an edge --- */

enum edge_state {
    EDGE_UNUSED,     /* this stage has no such neighbour */
    EDGE_CONNECTING, /* no connection is open; `why` is how the last attempt ended */
    EDGE_READY,
    EDGE_LOST, /* for good; `why` has the reason */
};

enum slot_phase { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_HELD };

struct receive_slot {
    enum slot_phase phase;
    struct frame_header head;
    uint8_t *meta;
    uint8_t *tensor;
};

/* One frame as it goes over the wire, with CHUNK_HEADROOM_BYTES in front. */
struct send_slot {
    uint8_t *bytes;
    uint64_t n_bytes;
};

struct edge {
    enum link_edge id;
    enum edge_state state;
    int peer_stage;
    struct err why;

    /* IN: messages in the order of their arrival, as indexes into `received`. */
    struct receive_slot received[LINK_SLOTS_MAX];
    int ready[LINK_SLOTS_MAX]; /* a ring of n_slots */
    int ready_head, n_ready;
    uint64_t n_received; /* complete messages since the start */
    uint64_t n_allowed;  /* frames that the sender may have sent since the start */

    /* OUT: a ring. The caller fills the slot behind the last queued one without the lock, the IO
     * thread sends the first one without the lock: these two belong to them. */
    struct send_slot queued[LINK_SLOTS_MAX];
    int queued_head, n_queued;
    uint64_t n_credits; /* frames that the receiver has allowed since the start */
    uint64_t n_sent;    /* frames that were begun */
    bool delivered;     /* the receiver has confirmed all of them */

    int n_slots;

    /* Dialing, for OUT edges; the IO thread's except for `peer` and `dial_until_ms`. */
    struct conn *conn;     /* the one connection that may carry this edge; NULL for none */
    struct link_peer peer; /* port 0: not known yet */
    int64_t dial_until_ms;
    int64_t redial_at_ms;
    int redial_wait_ms;
};

/* --- a connection --- */

enum conn_state {
    CONN_FREE,
    CONN_OPENING,  /* no websocket yet */
    CONN_GREETING, /* a websocket to a peer that is not authenticated yet */
    CONN_OPEN,     /* carries `edge` */
    CONN_CLOSING,  /* what still arrives is ignored */
};

struct lws;

struct conn {
    enum conn_state state;
    struct link *link;
    struct edge *edge; /* dialed: always; accepted: from HELLO on */
    struct lws *wsi;
    bool dialed;
    bool is_from_neighbour; /* accepted, from an address where a neighbour is */
    bool kill_asked;
    int64_t since_ms;
    int64_t deadline_ms; /* to reach the next state; 0: none */
    int64_t received_ms; /* when anything came from the peer last */
    char why[160];       /* how it ended; empty: it has not */

    struct reader reader;
    uint8_t hello[HELLO_BYTES];
    int slot; /* that the reader fills; -1: none */

    uint8_t nonce[HELLO_NONCE_BYTES]; /* ours */
    uint8_t peer_nonce[HELLO_NONCE_BYTES];
    bool challenge_sent, challenge_received;
    bool hello_sent, hello_received;
    bool is_authenticated; /* the peer has proved that it has the key */
    bool bye_sent, bye_received;
    bool bye_answered;     /* receiver: has confirmed the sender's BYE */
    uint64_t allowed_sent; /* receiver: n_allowed as the sender knows it */
    uint64_t chunk_at;     /* sender: bytes of the first queued slot that are written */

    uint8_t control_headroom[CHUNK_HEADROOM_BYTES]; /* directly in front of `control` */
    uint8_t control[FRAME_HEADER_BYTES + HELLO_BYTES];
};

/* --- the link --- */

struct link {
    struct link_params params; /* listen_address is not kept */
    struct edge edges[N_LINK_EDGES];
    struct arena arena; /* all slots */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* anything that a caller may wait for */
    bool peers_known;
    bool closing;
    bool aborting;
    char cause[LINK_CLOSE_TEXT_MAX + 1]; /* why the first edge was lost; empty: none was */
    uint64_t n_refused;

    struct conn conns[LINK_CONNS_MAX]; /* the IO thread's, like the next */
    bool incoming_is_neighbour;        /* the connection that is being accepted */
    struct link_io *io;
};

/* --- link.c: all with link.lock held --- */

bool edge_exists(const struct edge *edge); /* for this stage; never changes */
const char *edge_name(enum link_edge id);  /* "forward" or "backward" */

/* Lose the edge for good: the first reason stays. It is also the link's cause, if the first. */
void edge_lose(struct link *link, struct edge *edge, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The peer has ended it in order, and gave no cause. */
void edge_end(struct link *link, struct edge *edge);
/* The peer has ended it because of `cause`, which may be a third stage's. */
void edge_fail(struct link *link, struct edge *edge, const char *cause);
/* Reserve a free receive slot: its index, or -1 when the peer sent more than it was allowed. */
int edge_reserve(struct edge *edge);
void edge_unreserve(struct edge *edge, int slot);

/* A message is complete. */
void edge_push_ready(struct link *link, struct edge *edge, int slot,
                     const struct frame_header *head);

/* The first queued message is written completely. */
void edge_pop_queued(struct link *link, struct edge *edge);

/* --- link_conn.c: in the IO thread, without link.lock --- */

/* A piece of a websocket message, to be written now. */
struct chunk {
    uint8_t *bytes; /* CHUNK_HEADROOM_BYTES in front may be destroyed, and the bytes themselves */
    size_t n_bytes;
    bool first, last; /* of its websocket message */
};

/* Start with a new connection; `edge` is NULL for an accepted one. */
void conn_init(struct conn *c, struct link *link, struct edge *edge, int64_t now_ms);

/* The websocket stands; `nonce` is of random bytes. */
void conn_established(struct conn *c, const uint8_t nonce[static HELLO_NONCE_BYTES]);

/* Bytes came. ERR_PROTOCOL: the connection must be closed, c->why is set. */
MUST_CHECK enum err_code conn_receive(struct conn *c, const uint8_t *bytes, size_t n);

/* The same end for bytes that never reached the codec. */
void conn_break(struct conn *c, const char *why);

/* The peer closes because of `cause`. */
void conn_peer_failed(struct conn *c, const char *cause);

/* Is there something to write? */
bool conn_wants_to_write(const struct conn *c);

/* The next thing to write; false for nothing. Call conn_chunk_written() once it is written. */
bool conn_next_chunk(struct conn *c, struct chunk *out);
void conn_chunk_written(struct conn *c, const struct chunk *chunk);

/* Have both ends sent their BYE, so that the dialer may close the websocket? */
bool conn_is_over(const struct conn *c);
/* Is the stage ending because of a failure? Then *out_cause is what to send to the peer. */
bool conn_is_aborted(const struct conn *c, char out_cause[static LINK_CLOSE_TEXT_MAX + 1]);

/* It is gone: end or redial its edge, count a stranger, free the entry. */
void conn_gone(struct conn *c, int64_t now_ms);

/* The reason as the peer gets it. */
const char *conn_public_why(const struct conn *c);

/* Keep the first reason. */
void conn_set_why(struct conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* --- link_io.c --- */

/* Create the context, listen and start the IO thread. On failure nothing is left. */
MUST_CHECK enum err_code link_io_start(struct link *link, const char *listen_address,
                                       struct err *err);
int link_io_port(const struct link *link);

/* Something changed that the IO thread should look at. From any thread, without link.lock. */
void link_io_wake(struct link *link);

/* Stop the thread and close what is open. */
void link_io_stop(struct link *link);

#endif
