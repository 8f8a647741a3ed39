/* base/hash.h - a hash for names and identities, a checksum for bytes. Not for secrets.
 *
 * Layer: base. Threads: any.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* FNV-1a (Fowler, Noll, Vo), continued from `hash`; start with HASH_START. */
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n);
/* The same for a text with its NUL, so that "a" and "bc" differ from "ab" and "c". */
uint64_t hash_add(uint64_t hash, const char *text);
uint64_t hash_text(const char *text);

/* CRC-32C (Castagnoli, as in iSCSI and TensorFlow checkpoints) over `n` more bytes. Start with 0:
 * crc32c(crc32c(0, a), b) is the checksum of a followed by b. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);
/* The same without the processor's instruction, to check it against. */
uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t n);

#endif
