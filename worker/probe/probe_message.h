/* probe/probe_message.h - the CPU time of messages, which the trainer has to share.
 *
 * Two neighbouring stages in this process exchange messages over loopback, small ones with pauses,
 * so that every thread is woken up as in training, then large ones. The CPU time of the process is
 * that of both ends; the kernel's work for a network card is not included.
 * Layer: probe (may use train wire api base). Threads: one caller; the links have their own.
 */
#ifndef PROBE_PROBE_MESSAGE_H
#define PROBE_PROBE_MESSAGE_H

#include "api/node.h"
#include "base/err.h"

/* Takes some 150 ms on an idle machine, at most two seconds. *out is only set with ERR_OK. Errors
 * are those of wire/link.h. */
MUST_CHECK enum err_code probe_message_run(struct node_message *out, struct err *err);

#endif
