/* base/yaml.h - convert a YAML document to JSON text, for files that people write.
 *
 * YAML only comes from kubeconfig files and from jobs given to the CLI. It is read with the
 * YAML 1.2 core schema: plain `true`, `12`, `1e3`, `null` get their types, quoted scalars are
 * strings. Refused with line and column: anchors and aliases (an alias bomb is a few lines), tags,
 * keys that are not scalars, more than JSON_DEPTH_MAX levels. json_parse() refuses duplicate keys.
 * Layer: base. Threads: any.
 */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include "base/buf.h"

/* Append document `index` (0-based) of `text` to `out` as JSON.
 *
 * Returns ERR_OK; ERR_NOT_FOUND when there are not that many; ERR_INVALID with line and column;
 * ERR_LIMIT when `out` is full. An empty file has no document, rather than an empty one.
 */
MUST_CHECK enum err_code yaml_to_json(const char *text, size_t len, int index, struct buf *out,
                                      struct err *err);

#endif
