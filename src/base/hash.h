/*
 * hash.h: FNV-1a of a name: spreads names over buckets, and turns one into a number. No protection from chosen names.
 */
#ifndef DLI_BASE_HASH_H
#define DLI_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t dli_hash(const char *bytes, size_t size)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

#endif
