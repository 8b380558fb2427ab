/* Included before every source when compiling for Windows.
 *
 * The sources use `long` for sizes and addresses, which has 64 bits elsewhere. System headers come
 * first: they mean its 32 bits.
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

/* Windows has no aligned_alloc, and aligned memory has a free of its own. */
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
