/* Included before every source where it is compiled for Windows: what these take for granted.
 *
 * Elsewhere a `long` has 64 bits, so sources say it for sizes and places. All headers come first:
 * they mean the 32 bits that it has there.
 */
#ifndef WAYMARK_ON_WINDOWS_H
#define WAYMARK_ON_WINDOWS_H

#define WIN32_LEAN_AND_MEAN
#include <float.h>
#include <malloc.h>
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include <immintrin.h>

#define long long long

/* There is no aligned_alloc, and what is aligned has a free of its own. */
static inline void *aligned_zeros(size_t count, size_t bytes) {
    void *found = _aligned_malloc(count * bytes, 64);
    return found ? memset(found, 0, count * bytes) : found;
}
#define malloc(bytes) _aligned_malloc(bytes, 64)
#define calloc aligned_zeros
#define realloc(given, bytes) _aligned_realloc(given, bytes, 64)
#define aligned_alloc(alignment, bytes) _aligned_malloc(bytes, alignment)
#define free _aligned_free

#endif
