/* 4-bit integers in groups of 32 inputs, each group with a scale and an offset in bfloat16. */
#ifndef WAYMARK_GROUPS_H
#define WAYMARK_GROUPS_H

#include "native/numbers.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#define GROUP 32
#define HALF (GROUP / 2) /* bytes of a group */

/* A group as bytes 0 .. 15, [GROUP]. */
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

/* A group as bfloat16, [GROUP]. */
static inline void unpack_bfloats(const uint8_t *from, uint32_t pair, uint16_t *to) {
#ifdef __AVX512BF16__
    const __m128i low = _mm_set1_epi8(15);
    floats scale = (floats){0} + from_bfloat(pair & 0xffff);
    floats offset = (floats){0} + from_bfloat(pair >> 16);
    __m128i both = _mm_loadu_si128((const __m128i *)from);
    __m128i even = _mm_and_si128(both, low), odd = _mm_and_si128(_mm_srli_epi16(both, 4), low);
    __m128i first = _mm_unpacklo_epi8(even, odd), second = _mm_unpackhi_epi8(even, odd);
    floats left = (floats)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(first));
    floats right = (floats)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(second));
    store_bfloats(to, (left - 8) * scale + offset, (right - 8) * scale + offset);
#else
    float scale = from_bfloat(pair & 0xffff), offset = from_bfloat(pair >> 16);
    for (long byte = 0; byte < HALF; byte++) {
        to[2 * byte] = to_bfloat(((float)(from[byte] & 15) - 8) * scale + offset);
        to[2 * byte + 1] = to_bfloat(((float)(from[byte] >> 4) - 8) * scale + offset);
    }
#endif
}

#endif
