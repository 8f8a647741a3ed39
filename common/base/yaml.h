/* base/yaml.h - convert a YAML document to JSON text, for files that people write.
 *
 * The API server sends JSON; YAML only comes from kubeconfig files and from jobs given to the CLI.
 * Read with the YAML 1.2 core schema: plain `true`, `12`, `1e3`, `null` get their types, quoted
 * scalars are strings. Refused with their place: anchors and aliases (an alias bomb is a few
 * lines), tags, keys that are not scalars, duplicate keys (by json_parse later), more than
 * JSON_DEPTH_MAX levels. Layer: base. Threads: any.
 */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include "base/buf.h"

/* Append document number `index` (0-based) of `text` to `out` as JSON.
 *
 * Returns ERR_OK; ERR_NOT_FOUND when there are not that many documents; ERR_INVALID with line and
 * column; ERR_LIMIT when `out` is full. A file without documents has none, not an empty one.
 */
MUST_CHECK enum err_code yaml_to_json(const char *text, size_t len, int index, struct buf *out,
                                      struct err *err);

#endif
