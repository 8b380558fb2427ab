/* Products of 8-bit integers, as many at a time as this processor's registers hold. */
#ifndef WAYMARK_INTEGERS_H
#define WAYMARK_INTEGERS_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512VNNI__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define BYTES 64
#elif defined(__AVX2__)
#define BYTES 32
#else
#define BYTES 16
#endif
#define SUMS (BYTES / 4)

typedef int8_t bytes __attribute__((vector_size(BYTES)));
typedef int32_t sums __attribute__((vector_size(BYTES)));
typedef uint32_t sum_words __attribute__((vector_size(BYTES)));
typedef float sum_floats __attribute__((vector_size(BYTES)));

static inline bytes load_bytes(const void *from) {
    bytes found;
    memcpy(&found, from, sizeof found);
    return found;
}

/* Each sum and the four products of its bytes; exact. `first` lies in 0 .. 15 or 0 .. 255. */
static inline sums add_products(sums total, bytes first, bytes second) {
#if BYTES == 64
    return (sums)_mm512_dpbusd_epi32((__m512i)total, (__m512i)first, (__m512i)second);
#elif BYTES == 32 && defined(__AVXVNNI__)
    return (sums)_mm256_dpbusd_avx_epi32((__m256i)total, (__m256i)first, (__m256i)second);
#elif BYTES == 32
    /* The product of bytes adds pairs in 16 bits and overflows, so they are widened first. */
    __m256i even = _mm256_madd_epi16(_mm256_and_si256((__m256i)first, _mm256_set1_epi16(255)),
                                     _mm256_srai_epi16(_mm256_slli_epi16((__m256i)second, 8), 8));
    __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16((__m256i)first, 8),
                                    _mm256_srai_epi16((__m256i)second, 8));
    return total + (sums)even + (sums)odd;
#else
    int8_t right[BYTES];
    uint8_t left[BYTES];
    memcpy(left, &first, BYTES);
    memcpy(right, &second, BYTES);
    for (int place = 0; place < BYTES; place++)
        total[place / 4] += (int32_t)left[place] * right[place];
    return total;
#endif
}

static inline int32_t sum_of_ints(sums given) {
#if BYTES == 64
    return _mm512_reduce_add_epi32((__m512i)given);
#else
    int32_t total = 0;
    for (int place = 0; place < SUMS; place++) total += given[place];
    return total;
#endif
}

#endif
