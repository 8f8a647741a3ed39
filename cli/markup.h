/* cli/markup.h - HTML and SVG, written so that foreign text cannot become markup.
 *
 * As with jsonw (base/json.h), after the first error every call does nothing, and markup_finish()
 * reports it. Elements without content are closed as in XML ("<br/>"), so that a page is well
 * formed for both kinds of parsers. Layer: cli (may use base). Threads: one.
 */
#ifndef CLI_MARKUP_H
#define CLI_MARKUP_H

#include "base/buf.h"

struct markup {
    struct buf *out; /* borrowed; its `max` is the limit of the page */
    struct err err;
};

void markup_init(struct markup *m, struct buf *out);

/* Append as it is. Arguments are numbers and words of ours; all other text goes through
 * markup_text(). */
void markup_add(struct markup *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Append text, escaped for content and for attributes in quotes. Control characters but newlines
 * and tabs become spaces, what is not UTF-8 becomes U+FFFD. */
void markup_text(struct markup *m, const char *text);
/* The same for text that is made on the way, at most 1023 bytes of it. */
void markup_textf(struct markup *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The first error: ERR_LIMIT or ERR_NO_MEMORY. */
MUST_CHECK enum err_code markup_finish(struct markup *m, struct err *err);

#endif
