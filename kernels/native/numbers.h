/* Numbers a register at a time: float32, and bfloat16 converted to it. */
#ifndef WAYMARK_NUMBERS_H
#define WAYMARK_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__)
#define REGISTER 64 /* bytes */
#elif defined(__AVX2__)
#define REGISTER 32
#else
#define REGISTER 16
#endif
#define LANES (REGISTER / 4)
#define INLINE static inline __attribute__((always_inline))

typedef float floats __attribute__((vector_size(REGISTER)));
typedef uint32_t words __attribute__((vector_size(REGISTER)));
typedef uint16_t halves __attribute__((vector_size(REGISTER / 2)));

static inline long smaller(long first, long second) {
    return first < second ? first : second;
}

static inline long rounded_up(long number, long to) {
    return (number + to - 1) / to * to;
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
    /* What gcc makes of the last lines takes several instructions for the first. */
#if REGISTER == 64
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from));
    return (floats)_mm512_slli_epi32(wide, 16);
#elif REGISTER == 32
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from));
    return (floats)_mm256_slli_epi32(wide, 16);
#else
    halves found;
    memcpy(&found, from, sizeof found);
    return (floats)(__builtin_convertvector(found, words) << 16);
#endif
}

/* Lanes added up pairwise, always in the same order. */
static inline float sum_of(floats given) {
#if REGISTER == 64
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
#if REGISTER == 64
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

#if REGISTER >= 32
/* Those of four vectors, each with the bits that it has beside any others. */
static inline void sums_of_four(const __m256 *given, float *to) {
    __m256 pairs =
        _mm256_hadd_ps(_mm256_hadd_ps(given[0], given[1]), _mm256_hadd_ps(given[2], given[3]));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
}
#endif

/* Those of `count` vectors of `size` bytes, each with the bits that it has alone. */
INLINE void sums_of_each(const void *given, int size, int count, float *to) {
    for (int first = 0; first < count; first += 4) {
        int some = count - first < 4 ? count - first : 4;
        const char *from = (const char *)given + first * size;
#if REGISTER >= 32
        __m256 four[4] = {_mm256_setzero_ps()};
        float sums[4];
        for (int each = 0; each < some; each++) {
            memcpy(four + each, from + each * size, 32);
            if (size == 64) {
                __m256 high;
                memcpy(&high, from + each * size + 32, 32);
                four[each] = _mm256_add_ps(four[each], high);
            }
        }
        sums_of_four(four, sums);
        memcpy(to + first, sums, some * sizeof *to);
#else
        for (int each = 0; each < some; each++) {
            float lanes[4];
            memcpy(lanes, from + each * size, sizeof lanes);
            to[first + each] = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
        }
#endif
    }
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

/* Two vectors, one behind the other. */
static inline void store_bfloats(uint16_t *to, floats first, floats second) {
#if REGISTER == 64 && defined(__AVX512BF16__)
    __m512bh found = _mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
    memcpy(to, &found, sizeof found);
#else
    floats given[2] = {first, second};
    for (int each = 0; each < 2; each++) {
        words bits = (words)given[each], known = (words)(given[each] == given[each]);
        words rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        rounded = (rounded & known) | (~known & 0x7fc0);
        halves found = __builtin_convertvector(rounded, halves);
        memcpy(to + each * LANES, &found, sizeof found);
    }
#endif
}

static inline float sigmoid(float x) {
    return 1.0f / (1.0f + exponential(-x));
}

static inline float silu(float x) {
    return x * sigmoid(x);
}

/* log(1 + e^x) within a few ULP, without branches either: max(x, 0) + log(1 + u) with u = e^-|x|,
 * and the series of 2 atanh(u / (2 + u)), whose terms shrink to a ninth at least. */
static inline float softplus(float x) {
    float u = exponential(x < 0.0f ? x : -x);
    float ratio = u / (2.0f + u), square = ratio * ratio;
    float series = 2.0f / 13;
    series = series * square + 2.0f / 11;
    series = series * square + 2.0f / 9;
    series = series * square + 2.0f / 7;
    series = series * square + 2.0f / 5;
    series = series * square + 2.0f / 3;
    series = series * square + 2.0f;
    return (x > 0.0f ? x : 0.0f) + series * ratio;
}

/* Number `place` of an array that is bfloat16 or float32. */
INLINE float read_number(const void *from, long place, int is_bfloat) {
    return is_bfloat ? from_bfloat(((const uint16_t *)from)[place]) : ((const float *)from)[place];
}

/* LANES of them from `place` on. */
INLINE floats read_lanes(const void *from, long place, int is_bfloat) {
    return is_bfloat ? load_bfloats((const uint16_t *)from + place)
                     : load_floats((const float *)from + place);
}

INLINE void write_number(void *to, long place, float given, int is_bfloat) {
    if (is_bfloat)
        ((uint16_t *)to)[place] = to_bfloat(given);
    else
        ((float *)to)[place] = given;
}

#endif
