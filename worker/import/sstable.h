/* import/sstable.h - read a sorted table of LevelDB's format: the index of a TensorFlow checkpoint.
 *
 * Format (google/leveldb, doc/table_format.md): blocks, then a footer of 48 bytes with the place
 * of the index block, which has the places of the data blocks. In a block every key is given as
 * what it shares with the one before and the rest. Behind a block come its compression and a
 * masked CRC-32C, which is checked. Nothing else in the bytes is trusted.
 * Layer: import. Threads: any; it keeps nothing.
 */
#ifndef IMPORT_SSTABLE_H
#define IMPORT_SSTABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SSTABLE_KEY_MAX_BYTES 512

/* Called for every entry; an error ends the reading. Key and value are good during the call. */
typedef enum err_code sstable_entry_fn(void *arg, const char *key, size_t key_len,
                                       const unsigned char *value, size_t value_len,
                                       struct err *err);

/* Call `fn` for the entries of a whole table, whose keys must rise. `name` stands for it in errors.
 *
 * Returns the error of `fn`, or ERR_INVALID with file, place and remedy.
 */
MUST_CHECK enum err_code sstable_read(const char *name, const unsigned char *bytes, size_t len,
                                      sstable_entry_fn *fn, void *arg, struct err *err);

/* Take a varint of at most 64 bits from *at, which must stay below `end`; false when there is
 * none. */
bool sstable_varint(const unsigned char **at, const unsigned char *end, uint64_t *out);

/* How LevelDB and TensorFlow store a CRC-32C. */
uint32_t sstable_mask(uint32_t crc);

#endif
