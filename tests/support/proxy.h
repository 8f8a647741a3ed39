/* support/proxy.h - a fault on the way to one worker's tensor port.
 *
 * A TCP proxy: workers dial it instead of their peer, and it dials the peer. It follows the
 * websocket frames of the dialing side, so it knows every message (wire/frame.h) and can do its
 * fault at exactly one of them, once. Before and after that it passes everything on.
 * Threads: its own, one per connection; the functions here are for the owner's thread.
 */
#ifndef SUPPORT_PROXY_H
#define SUPPORT_PROXY_H

#include <stdbool.h>
#include <stdint.h>

enum proxy_fault_kind {
    PROXY_NONE,
    PROXY_CUT,    /* the message arrives, then all connections are shut down */
    PROXY_HALF,   /* half of its bytes pass, then likewise */
    PROXY_DELAY,  /* it waits for `delay_ms` */
    PROXY_REPEAT, /* it passes twice */
    PROXY_HOLD,   /* it does not arrive, nor what is sent behind it on this connection, which stays
                     open */
};

/* A message with payload: one that the workers exchange, not one of the link's own. */
struct proxy_fault {
    enum proxy_fault_kind kind;
    int type;           /* of the message; -1: any */
    int64_t step;       /* -1: any */
    int64_t microbatch; /* -1: any */
    int skip;           /* matching messages that pass before */
    int delay_ms;
};

struct proxy;

/* Listen on host:port (0: any free one) and dial `to_port` on `to_host` for every connection; both
 * are numeric IPv4 addresses. NULL when that is impossible. */
struct proxy *proxy_start(const char *host, int port, const char *to_host, int to_port,
                          const struct proxy_fault *fault);
void proxy_stop(struct proxy *p);

int proxy_port(const struct proxy *p);
/* Has the fault happened? */
bool proxy_is_done(const struct proxy *p);
/* Messages that have passed so far. */
int64_t proxy_messages(const struct proxy *p);

#endif
