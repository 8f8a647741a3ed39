/* support/agent_image.h - images that a user may name instead of the worker's, and that are none.
 *
 *     silent     accepts connections on all ports of a worker, and never answers
 *     nonsense   answers every request on the control port in another wrong way
 *
 * Both are alive and ready for the kubelet.
 */
#ifndef SUPPORT_AGENT_IMAGE_H
#define SUPPORT_AGENT_IMAGE_H

#include <stdbool.h>

/* Is this one of them? */
bool agent_image_is_known(const char *image);
/* Runs it on this address, in a process of its own. */
_Noreturn void agent_image_run(const char *image, const char *ip);

#endif
