/* base/crc32c.h - the checksum of messages between stages and of TensorFlow checkpoints.
 *
 * CRC-32C (Castagnoli, as in iSCSI), by the processor's own instruction where it has one and by a
 * table otherwise; both give the same numbers. Layer: base. Threads: any.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continue a checksum over `n` more bytes. Start with 0: crc32c(crc32c(0, a), b) is the checksum
 * of a followed by b. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

/* The same without the processor's instruction: what it is checked against. */
uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t n);

#endif
