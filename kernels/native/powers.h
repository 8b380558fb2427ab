/* The largest of many numbers, and powers of two of them, a register at a time. */
#ifndef WAYMARK_POWERS_H
#define WAYMARK_POWERS_H

#include "native/words.h"

#define LOG2_E 1.44269504f

/* The larger one of each lane; the second where either is NaN. */
INLINE floats larger_lanes(floats first, floats second) {
#if REGISTER == 64
    return (floats)_mm512_max_ps((__m512)first, (__m512)second);
#elif REGISTER == 32
    return (floats)_mm256_max_ps((__m256)first, (__m256)second);
#else
    word_lanes larger = first > second;
    return (floats)((larger & (word_lanes)first) | (~larger & (word_lanes)second));
#endif
}

/* The largest lane, of which none is NaN. */
INLINE float largest_lane(floats given) {
    float found = given[0];
    for (int lane = 1; lane < LANES; lane++) found = given[lane] > found ? given[lane] : found;
    return found;
}

/* To the nearest, whatever a thread has set. */
#define TO_NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
INLINE floats round_lanes(floats given) {
#if REGISTER == 64
    return (floats)_mm512_roundscale_ps((__m512)given, TO_NEAREST);
#elif REGISTER == 32
    return (floats)_mm256_round_ps((__m256)given, TO_NEAREST);
#else
    /* Of numbers that are far smaller: what is behind the point falls off. */
    const floats large = (floats){0} + 12582912.0f;
    volatile floats moved = given + large;
    return moved - large;
#endif
}

/* 2^x of numbers up to 0, within 3e-6 of it; 0 below -125. Results below 2^-126 would take ten
 * times as long, and hidden keys have nothing else. */
INLINE floats powers_of_two(floats x) {
    x = larger_lanes((floats){0} - 126.0f, x);
    floats n = round_lanes(x), fraction = x - n;
    floats series = (floats){0} + 9.57010034e-3f; /* best for |fraction| <= 1/2 */
    series = series * fraction + 5.59178591e-2f;
    series = series * fraction + 2.40247443e-1f;
    series = series * fraction + 6.93121791e-1f;
    series = series * fraction + 9.99999285e-1f;
#if REGISTER == 64
    __mmask16 shows = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-125.0f), _CMP_NLT_UQ);
    return (floats)_mm512_maskz_scalef_ps(shows, (__m512)series, (__m512)n);
#else
    word_lanes power = __builtin_convertvector(n, word_lanes) << 23;
    word_lanes found = (word_lanes)series + power, shows = ~(x < -125.0f), known = x == x;
    return (floats)(shows & ((known & found) | (~known & (word_lanes)x)));
#endif
}

/* The same from -126 to 0 within two ULP, and 1 of 0: for what is multiplied a thousand times. */
INLINE floats fine_powers_of_two(floats x) {
    floats n = round_lanes(x), fraction = x - n;
    floats series = (floats){0} + 1.53533620e-4f; /* best for |fraction| <= 1/2, if 1 at 0 */
    series = series * fraction + 1.33988751e-3f;
    series = series * fraction + 9.61843692e-3f;
    series = series * fraction + 5.55033237e-2f;
    series = series * fraction + 2.40226477e-1f;
    series = series * fraction + 6.93147182e-1f;
    series = series * fraction + 1.0f;
#if REGISTER == 64
    return (floats)_mm512_scalef_ps((__m512)series, (__m512)n);
#else
    return (floats)((word_lanes)series + (__builtin_convertvector(n, word_lanes) << 23));
#endif
}

#endif
