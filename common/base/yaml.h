/* base/yaml.h - convert a YAML document to JSON text, for files that people write.
 *
 * YAML 1.2 core schema: plain `true`, `12`, `1e3`, `null` have their types, quoted scalars are
 * strings. Refused with line and column: anchors and aliases (an alias bomb is a few lines), tags,
 * keys that are not scalars, more than JSON_DEPTH_MAX levels. json_parse() refuses duplicate keys.
 * Layer: base. Threads: any.
 */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include "base/buf.h"

/* Replace the content of `out` with document `index` (0-based) of `text`, as JSON.
 *
 * Returns ERR_OK; ERR_NOT_FOUND past the last document (an empty file has none); ERR_INVALID with
 * line and column; ERR_LIMIT when `out` is full.
 */
MUST_CHECK enum err_code yaml_to_json(const char *text, size_t len, int index, struct buf *out,
                                      struct err *err);

#endif
