/* http/xml.h (private) - reads the XML of S3's answers, element by element.
 *
 * A pull parser over bytes that stay where they are: each call reads up to the end of one element
 * and has its path and its text. It takes what S3 servers send: elements, attributes (skipped),
 * text with the five named entities and numbers, comments, declarations. It refuses what they do
 * not send: a DOCTYPE, CDATA, depths, names and texts beyond the limits below. Allocates nothing.
 * Layer: http. Threads: one per struct xml.
 */
#ifndef HTTP_XML_H
#define HTTP_XML_H

#include <stddef.h>

#include "base/err.h"

#define XML_PATH_BYTES 256  /* with the NUL */
#define XML_TEXT_BYTES 4096 /* of one element, with the NUL: a key has at most 1024 */

struct xml {
    /* The element that has ended: "ListBucketResult/Contents/Key", and what stands in it behind its
     * last child. */
    char path[XML_PATH_BYTES];
    char text[XML_TEXT_BYTES];
    /* private: */
    const char *at, *end;
    size_t path_bytes; /* of the elements that are open, in `path` */
    size_t text_bytes; /* so far */
    bool has_ended;    /* path and text are those of an element that has ended */
    bool has_root;     /* it has begun */
};

/* `bytes` are borrowed for as long as `x` is used. */
void xml_init(struct xml *x, const char *bytes, size_t n);

/* Read up to the end of the next element. Returns ERR_OK with path and text; ERR_GONE behind the
 * last one; ERR_PROTOCOL when it is not such XML: then `x` can only be thrown away. */
MUST_CHECK enum err_code xml_next(struct xml *x, struct err *err);

#endif
