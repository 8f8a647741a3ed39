/* wire/link_parts.h - what is inside a link. Private to link.c and link_io.c.
 *
 * An edge is one direction of data to or from one peer and lives as long as the link: its slots and
 * queue, and how it ended. A connection is one websocket and may come and go: a dialed
 * one that failed is dialed again, an accepted one is a stranger until its HELLO names the edge.
 *
 *   link.c     the public functions and the edges: the caller's threads wait here
 *   link_io.c  the IO thread: the protocol of a connection, libwebsockets
 *
 * link.lock guards all of this unless it says otherwise. The IO thread holds it while it handles an
 * event, but not while bytes are copied, checked or written.
 */
#ifndef WIRE_LINK_PARTS_H
#define WIRE_LINK_PARTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "wire/link.h"

#define CHUNK_HEADROOM_BYTES 64  /* free in front of what is written, for websocket headers */
#define LINK_CLOSE_TEXT_MAX  123 /* bytes of reason in a websocket's close frame */

enum edge_state {
    EDGE_CONNECTING, /* no connection is open; `why` is how the last attempt ended */
    EDGE_READY,
    EDGE_LOST, /* for good; `why` has the reason */
};

enum slot_phase { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_HELD };

struct receive_slot {
    enum slot_phase phase;
    struct frame_header head;
    uint8_t *meta; /* the IO thread fills these two without the lock */
    uint8_t *tensor;
};

/* One frame as it goes over the wire, with CHUNK_HEADROOM_BYTES in front. */
struct send_slot {
    uint8_t *bytes;
    uint64_t n_bytes;
};

struct edge {
    struct link_edge params;
    enum edge_state state;
    struct err why;

    /* Incoming: messages in the order of their arrival, as indexes into `received`. */
    struct receive_slot received[LINK_SLOTS_MAX];
    int ready[LINK_SLOTS_MAX]; /* a ring of params.n_slots, like `queued` */
    int ready_head, n_ready;
    uint64_t n_received; /* complete messages since the start */
    uint64_t n_allowed;  /* frames that the sender may have sent since the start */

    /* Outgoing: a ring. Without the lock, the caller fills the slot behind the last queued one and
     * the IO thread sends the first one. */
    struct send_slot queued[LINK_SLOTS_MAX];
    int queued_head, n_queued;
    uint64_t n_credits;             /* frames that the receiver has allowed since the start */
    uint64_t n_sent;                /* frames that were begun */
    uint64_t n_slots_there;         /* credits in advance: slots at the other end */
    uint64_t n_released;            /* there, of those that were sent ... */
    uint64_t sizes[LINK_SLOTS_MAX]; /* ... and those that are not: bytes, by number */
    bool delivered;                 /* the receiver has confirmed all of them */

    struct conn *conn;          /* the one connection that may carry this edge; NULL for none */
    char host[LINK_HOST_BYTES]; /* of the peer; empty: not known yet */
    int port;                   /* to be dialed, if the edge is outgoing */
    int64_t dial_until_ms;
    int64_t redial_at_ms;
    int redial_wait_ms;
};

struct link {
    struct link_params params; /* without what is the caller's: listen_address, edges, tls */
    struct arena arena;        /* all slots */
    int port;                  /* that is listened on */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* anything that a caller may wait for */
    bool closing;
    bool aborting;
    char cause[LINK_CLOSE_TEXT_MAX + 1]; /* why the first edge was lost; empty: none was */
    uint64_t n_refused;

    struct link_io *io;  /* link_io.c's */
    struct edge edges[]; /* params.n_edges; the indexes are the caller's */
};

/* --- link.c: all with link.lock held --- */

/* Lose the edge for good: the first reason stays. It is also the link's cause, if the first. */
void edge_lose(struct link *link, struct edge *edge, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The peer has ended it: in order, or because of `cause`, perhaps a third worker's. NULL: none. */
void edge_end(struct link *link, struct edge *edge, const char *cause);

/* --- link_io.c: all without link.lock --- */

/* Listen, set link->port and start the IO thread. On failure nothing is left. */
MUST_CHECK enum err_code link_io_start(struct link *link, const char *listen_address,
                                       struct err *err);

/* Something changed that the IO thread should look at. From any thread. */
void link_io_wake(struct link *link);

/* Stop the thread and close what is open. */
void link_io_stop(struct link *link);

#endif
