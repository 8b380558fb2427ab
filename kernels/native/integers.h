/* Products of 8-bit integers, a register at a time. */
#ifndef WAYMARK_INTEGERS_H
#define WAYMARK_INTEGERS_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512VNNI__) || defined(__SSE4_1__)
#include <immintrin.h>
#elif defined(__aarch64__)
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

#ifdef __aarch64__
/* Each sum and the four products of its signed bytes; exact, as `second` is never -128. */
static inline sums add_signed_products(sums total, bytes first, bytes second) {
    int8x16_t left = (int8x16_t)first, right = (int8x16_t)second;
#ifdef __ARM_FEATURE_DOTPROD
    return (sums)vdotq_s32((int32x4_t)total, left, right);
#else
    int16x8_t low = vmull_s8(vget_low_s8(left), vget_low_s8(right));
    int16x8_t high = vmull_high_s8(left, right);
    return (sums)vpadalq_s16((int32x4_t)total, vpaddq_s16(low, high));
#endif
}
#endif

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
#elif defined(__SSE4_1__)
    __m128i even = _mm_madd_epi16(_mm_and_si128((__m128i)first, _mm_set1_epi16(255)),
                                  _mm_srai_epi16(_mm_slli_epi16((__m128i)second, 8), 8));
    __m128i odd =
        _mm_madd_epi16(_mm_srli_epi16((__m128i)first, 8), _mm_srai_epi16((__m128i)second, 8));
    return total + (sums)even + (sums)odd;
#elif defined(__aarch64__)
    /* (f - 128) s + 128 s */
    int16x8_t moved = vshlq_n_s16(vpaddlq_s8((int8x16_t)second), 7);
    total = (sums)vpadalq_s16((int32x4_t)total, moved);
    return add_signed_products(total, first ^ ((bytes){0} + (int8_t)-128), second);
#else
    typedef uint8_t unsigned_bytes __attribute__((vector_size(BYTES)));
    typedef int32_t wide __attribute__((vector_size(4 * BYTES)));
    wide products = __builtin_convertvector((unsigned_bytes)first, wide) *
                    __builtin_convertvector(second, wide);
    for (int place = 0; place < BYTES; place++) total[place / 4] += products[place];
    return total;
#endif
}

/* The same of two, both `first` in 0 .. 15: four such products fit into 16 bits together. */
static inline sums add_int4_products(sums total, bytes first, bytes of_first, bytes second,
                                     bytes of_second) {
#if BYTES == 32 && !defined(__AVXVNNI__)
    __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16((__m256i)first, (__m256i)of_first),
                                     _mm256_maddubs_epi16((__m256i)second, (__m256i)of_second));
    return total + (sums)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif BYTES == 16 && defined(__SSE4_1__)
    __m128i pairs = _mm_add_epi16(_mm_maddubs_epi16((__m128i)first, (__m128i)of_first),
                                  _mm_maddubs_epi16((__m128i)second, (__m128i)of_second));
    return total + (sums)_mm_madd_epi16(pairs, _mm_set1_epi16(1));
#elif defined(__aarch64__)
    return add_signed_products(add_signed_products(total, first, of_first), second, of_second);
#else
    return add_products(add_products(total, first, of_first), second, of_second);
#endif
}

/* What int8 weights exceed themselves by as `first` of the next function. */
#ifdef __aarch64__
#define EXCESS 0
#else
#define EXCESS 128
#endif

static inline sums add_int8_products(sums total, bytes first, bytes second) {
#ifdef __aarch64__
    return add_signed_products(total, first, second);
#else
    return add_products(total, first, second);
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

/* Those of eight at once, in less than half the instructions. */
static inline void sums_of_eight(const sums *given, int32_t *to) {
#if BYTES == 64 || BYTES == 32
    __m256i half[8];
    for (int each = 0; each < 8; each++) {
#if BYTES == 64
        __m512i whole = (__m512i)given[each];
        half[each] =
            _mm256_add_epi32(_mm512_castsi512_si256(whole), _mm512_extracti64x4_epi64(whole, 1));
#else
        half[each] = (__m256i)given[each];
#endif
    }
    for (int pairs = 4; pairs > 1; pairs /= 2)
        for (int each = 0; each < pairs; each++)
            half[each] = _mm256_hadd_epi32(half[2 * each], half[2 * each + 1]);
    /* Now each 128 bits of two registers hold half of four sums. */
    __m256i low = _mm256_permute2x128_si256(half[0], half[1], 0x20);
    __m256i high = _mm256_permute2x128_si256(half[0], half[1], 0x31);
    _mm256_storeu_si256((__m256i *)to, _mm256_add_epi32(low, high));
#else
    for (int each = 0; each < 8; each++) to[each] = sum_of_ints(given[each]);
#endif
}

#endif
