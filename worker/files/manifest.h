/* files/manifest.h (private) - what a stage has written of a checkpoint: sizes and checksums.
 *
 * The text is exactly what manifest_write() makes of what it says, its own checksum included, so a
 * text that differs in one bit is refused. All checksums are CRC-32C.
 * Layer: files. Threads: any; pure.
 */
#ifndef FILES_MANIFEST_H
#define FILES_MANIFEST_H

#include "files/store.h"

#define MANIFEST_VERSION        1
#define MANIFEST_TEXT_MAX_BYTES ((size_t)65536)

struct manifest_file {
    int64_t bytes;
    int64_t crc;
};

struct manifest {
    int version;
    struct store_point point; /* the same in all manifests of a checkpoint */
    int stage;
    int n_stages;
    int first_unit;
    int n_units;
    int64_t unit_crcs[MODEL_UNITS_MAX]; /* [n_units] of parameters, moment and variance */
    int64_t shard_bytes;
    int64_t header_crc; /* of what is in front of the shard's data */
    /* of stage 0 */
    struct manifest_file history;
    struct manifest_file progress;
    int64_t crc; /* of the text without this member; manifest_write() sets it */
};

/* Append it; version and checksum are filled in. */
MUST_CHECK enum err_code manifest_write(const struct manifest *m, struct buf *out, struct err *err);
/* ERR_INVALID also for another version, for what is out of bounds, and for units beyond
 * MODEL_UNITS_MAX; ERR_NO_MEMORY. */
MUST_CHECK enum err_code manifest_parse(const char *text, size_t len, struct manifest *out,
                                        struct err *err);

/* Is it this shard's? */
bool manifest_is_of(const struct manifest *m, const struct store_shard *shard);
/* Do two points agree in everything? */
bool manifest_same_point(const struct store_point *a, const struct store_point *b);

#endif
