/* control/manifest_parts.h - the beginning that all objects share; for manifest.c and pod.c only.
 *
 * Layer: control. Threads: any; pure.
 */
#ifndef CONTROL_MANIFEST_PARTS_H
#define CONTROL_MANIFEST_PARTS_H

#include "control/observed.h"

/* Start a document: kind, name, namespace, owner, labels. metadata.labels and metadata stay open
 * for what only this object has, so the caller has three levels to close. */
void manifest_open(struct jsonw *w, const struct observed *seen, const char *kind, const char *name,
                   const char *component);

#endif
