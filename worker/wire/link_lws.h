/* wire/link_lws.h - between the two files that know libwebsockets. Private to them. */
#ifndef WIRE_LINK_LWS_H
#define WIRE_LINK_LWS_H

#include <libwebsockets.h>

#include "wire/link_parts.h"

/* Everything that libwebsockets reports comes in here. */
int link_on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                  size_t n);

/* An entry for a new connection; NULL when all are in use. */
struct conn *link_free_conn(struct link *link);

/* End a connection without ceremony, soon. */
void link_kill_later(struct conn *c, const char *why);

#endif
