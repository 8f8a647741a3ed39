/* support/loopback.h - an HTTP server on 127.0.0.1 that does what no real one does on demand.
 *
 * Cut lines, slow bytes, silence, resets, oversize. It is given a list of replies; a request takes
 * the first one not yet taken whose `expect` is a part of its head ("GET /a"), so that requests in
 * parallel find theirs. A request that finds none is answered with 599 and counted as a stray.
 * Threads: its own, one for each connection; the functions here are for the test's thread.
 */
#ifndef SUPPORT_LOOPBACK_H
#define SUPPORT_LOOPBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum loopback_end {
    LOOPBACK_KEEP,  /* wait for the next request on the connection */
    LOOPBACK_CLOSE, /* hang up */
    LOOPBACK_RESET, /* hang up with a TCP reset */
    LOOPBACK_HANG,  /* say nothing more until the client hangs up */
};

struct loopback_reply {
    const char *expect;
    int status;           /* 0: 200 */
    const char *headers;  /* more head lines, each with its CRLF; NULL: none */
    const char *body;     /* NULL: empty */
    const char *raw;      /* sent instead of all of the above */
    size_t piece_bytes;   /* send so many at a time; 0: all at once */
    int pause_ms;         /* before each piece */
    void (*before)(void); /* called first, in the connection's thread; may be NULL */
    bool is_stream;       /* chunked: a chunk a piece, no last chunk unless the end is KEEP */
    enum loopback_end end;
};

struct loopback;

/* `replies` are borrowed until loopback_stop(). NULL when it cannot be started. */
struct loopback *loopback_start(const struct loopback_reply *replies, size_t n_replies);
void loopback_stop(struct loopback *l);

int loopback_port(const struct loopback *l);
int loopback_connections(const struct loopback *l); /* accepted so far */
int loopback_strays(const struct loopback *l);      /* requests that found no reply */
int loopback_unused(struct loopback *l);            /* replies not taken */
/* The whole last request that took reply `i`, head and body; "" when nobody has. Borrowed. */
const char *loopback_request(struct loopback *l, size_t i);

#endif
