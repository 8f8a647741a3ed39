/* base/hash.h - one 64-bit hash for names and identities. Not for secrets.
 *
 * FNV-1a (Fowler, Noll, Vo). Layer: base. Threads: any.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* Go on hashing from `hash`; begin with HASH_START. */
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n);
/* The same for a text with its NUL, so that "a" and "bc" differ from "ab" and "c". */
uint64_t hash_add(uint64_t hash, const char *text);
uint64_t hash_text(const char *text);

#endif
