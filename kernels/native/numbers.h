/* Numbers sixteen at a time: float32, and bfloat16 turned into it. */
#ifndef WAYMARK_NUMBERS_H
#define WAYMARK_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define LANES 16
#define INLINE static inline __attribute__((always_inline))

typedef float floats __attribute__((vector_size(64)));
typedef uint32_t words __attribute__((vector_size(64)));
typedef uint16_t halves __attribute__((vector_size(32)));

static inline long smaller(long first, long second) {
    return first < second ? first : second;
}

static inline floats load_floats(const float *from) {
    floats found;
    memcpy(&found, from, sizeof found);
    return found;
}

static inline void store_floats(float *to, floats given) {
    memcpy(to, &given, sizeof given);
}

static inline floats load_bfloats(const uint16_t *from) {
#ifdef __AVX512F__
    /* What gcc makes of the lines below takes four instructions for this one. */
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from));
    return (floats)_mm512_slli_epi32(wide, 16);
#else
    halves found;
    memcpy(&found, from, sizeof found);
    return (floats)(__builtin_convertvector(found, words) << 16);
#endif
}

/* Lanes added up pairwise, always in the same order. */
static inline float sum_of(floats given) {
#ifdef __AVX512F__
    return _mm512_reduce_add_ps((__m512)given);
#else
    float lanes[LANES];
    store_floats(lanes, given);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; lane++) lanes[lane] += lanes[lane + width];
    return lanes[0];
#endif
}

/* Those of `count` vectors, four of them in half the instructions. */
INLINE void sums_of(const floats *given, int count, float *to) {
    int each = 0;
#ifdef __AVX512F__
    for (; each + 4 <= count; each += 4) {
        __m256 half[4];
        for (int vector = 0; vector < 4; vector++) {
            __m512d whole = (__m512d)given[each + vector];
            half[vector] = _mm256_add_ps((__m256)_mm512_castpd512_pd256(whole),
                                         (__m256)_mm512_extractf64x4_pd(whole, 1));
        }
        __m256 pairs =
            _mm256_hadd_ps(_mm256_hadd_ps(half[0], half[1]), _mm256_hadd_ps(half[2], half[3]));
        _mm_storeu_ps(to + each,
                      _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
    }
#endif
    for (; each < count; each++) to[each] = sum_of(given[each]);
}

static inline float from_bfloat(uint16_t given) {
    uint32_t bits = (uint32_t)given << 16;
    float found;
    memcpy(&found, &bits, sizeof found);
    return found;
}

/* To the nearest, ties to even; NaN stays NaN. */
static inline uint16_t to_bfloat(float given) {
    uint32_t bits;
    memcpy(&bits, &given, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return given != given ? 0x7fc0 : (uint16_t)rounded;
}

/* e^x within two ULP; 0 below -87, infinite above 88. Without branches, so that loops over
 * it become vector code: e^x = 2^n e^r with |r| <= ln 2 / 2, and the series of e^r to r^7. */
static inline float exponential(float x) {
    float bounded = x > 88.0f ? 88.0f : x < -87.0f ? -87.0f : x;
    float n = __builtin_rintf(bounded * 1.44269504f);
    float r = bounded - n * 0.693145752f - n * 1.42860677e-6f;
    float series = 1.0f / 5040;
    series = series * r + 1.0f / 720;
    series = series * r + 1.0f / 120;
    series = series * r + 1.0f / 24;
    series = series * r + 1.0f / 6;
    series = series * r + 0.5f;
    series = series * r + 1.0f;
    series = series * r + 1.0f;
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    float found = series * power;
    found = x < -87.0f ? 0.0f : x > 88.0f ? INFINITY : found;
    return x != x ? x : found;
}

/* The larger one of each lane; the second where either is NaN. */
static inline floats larger_lanes(floats first, floats second) {
#ifdef __AVX512F__
    return (floats)_mm512_max_ps((__m512)first, (__m512)second);
#else
    for (int lane = 0; lane < LANES; lane++)
        second[lane] = first[lane] > second[lane] ? first[lane] : second[lane];
    return second;
#endif
}

/* The largest lane, of which none is NaN. */
static inline float largest_lane(floats given) {
#ifdef __AVX512F__
    return _mm512_reduce_max_ps((__m512)given);
#else
    float found = given[0];
    for (int lane = 1; lane < LANES; lane++) found = given[lane] > found ? given[lane] : found;
    return found;
#endif
}

/* 2^x of numbers up to 0, within 3e-6 of it; 0 below -125. */
static inline floats powers_of_two(floats x) {
#ifdef __AVX512F__
    x = larger_lanes((floats){0} - 126.0f, x);
    __m512 n = _mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    floats fraction = x - (floats)n;
    floats series = (floats){0} + 9.57010034e-3f; /* the best four terms for |fraction| <= 1/2 */
    series = series * fraction + 5.59178591e-2f;
    series = series * fraction + 2.40247443e-1f;
    series = series * fraction + 6.93121791e-1f;
    series = series * fraction + 9.99999285e-1f;
    /* Results below 2^-126 would take ten times as long, and hidden keys have nothing else. */
    __mmask16 shows = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-125.0f), _CMP_NLT_UQ);
    return (floats)_mm512_maskz_scalef_ps(shows, (__m512)series, n);
#else
    for (int lane = 0; lane < LANES; lane++) x[lane] = exponential(x[lane] * 0.693147181f);
    return x;
#endif
}

/* Two vectors, one behind the other. */
static inline void store_bfloats(uint16_t *to, floats first, floats second) {
#ifdef __AVX512BF16__
    __m512bh found = _mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
    memcpy(to, &found, sizeof found);
#else
    for (int lane = 0; lane < LANES; lane++) to[lane] = to_bfloat(first[lane]);
    for (int lane = 0; lane < LANES; lane++) to[LANES + lane] = to_bfloat(second[lane]);
#endif
}

static inline float sigmoid(float x) {
    return 1.0f / (1.0f + exponential(-x));
}

static inline float silu(float x) {
    return x * sigmoid(x);
}

/* Number `place` of an array that is bfloat16 or float32. */
INLINE float read_number(const void *from, long place, int is_bfloat) {
    return is_bfloat ? from_bfloat(((const uint16_t *)from)[place]) : ((const float *)from)[place];
}

INLINE void write_number(void *to, long place, float given, int is_bfloat) {
    if (is_bfloat)
        ((uint16_t *)to)[place] = to_bfloat(given);
    else
        ((float *)to)[place] = given;
}

#endif
