/* Groups of inputs, and int4: each of its groups has a scale and an offset in bfloat16. */
#ifndef WAYMARK_GROUPS_H
#define WAYMARK_GROUPS_H

#include "native/numbers.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#define GROUP 32
#define GROUP_WORDS (GROUP / 4)
#define BLOCK_INPUTS 256
#define GROUPS_OF_BLOCK (BLOCK_INPUTS / GROUP)
#define HALF (GROUP / 2) /* bytes of a group in int4 */

/* A group of int4 as bytes 0 .. 15, [GROUP]. */
INLINE void unpack_bytes(const uint8_t *from, char *to) {
#ifdef __SSE2__
    const __m128i low = _mm_set1_epi8(15);
    __m128i both = _mm_loadu_si128((const __m128i *)from);
    __m128i even = _mm_and_si128(both, low), odd = _mm_and_si128(_mm_srli_epi16(both, 4), low);
    _mm_storeu_si128((__m128i *)to, _mm_unpacklo_epi8(even, odd));
    _mm_storeu_si128((__m128i *)(to + HALF), _mm_unpackhi_epi8(even, odd));
#else
    for (long byte = 0; byte < HALF; byte++) {
        to[2 * byte] = from[byte] & 15;
        to[2 * byte + 1] = from[byte] >> 4;
    }
#endif
}

#endif
