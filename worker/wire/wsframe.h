/* wire/wsframe.h - makes a websocket client's frames (RFC 6455, section 5).
 *
 * What a client sends is masked. libwebsockets does that byte by byte, which was half of all the
 * CPU time that a link took; here it is done in words. Only data frames: pings, closes and all
 * receiving stay with the library. Layer: wire. Threads: any.
 */
#ifndef WIRE_WSFRAME_H
#define WIRE_WSFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WSFRAME_HEAD_MAX 14

/* Turn `n` bytes into one masked binary frame, in place: the bytes are masked and the header is
 * put directly in front of them, where WSFRAME_HEAD_MAX bytes must be free. `first` and `last` say
 * which part of its message this frame is. `key` must not be predictable. Returns the length of
 * the header. */
size_t wsframe_wrap(uint8_t *bytes, size_t n, bool first, bool last, uint32_t key);

#endif
