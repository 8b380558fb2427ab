/* What the gated delta rule does alike for one token and for many. */
#ifndef WAYMARK_RULE_H
#define WAYMARK_RULE_H

#include "native/numbers.h"

#define EPSILON 1e-6f    /* under the root of a key's squared length */
#define FORGOTTEN -40.0f /* see reference.py */

/* Writes `from` at `length`, as long as `dim` numbers. */
static void of_length(const float *from, float *to, long dim, float length) {
    floats total = {0};
    long place = 0;
    for (; place + LANES <= dim; place += LANES) {
        floats part = load_floats(from + place);
        total += part * part;
    }
    float squared = sum_of(total);
    for (; place < dim; place++) squared += from[place] * from[place];
    float factor = length / sqrtf(squared + EPSILON);
    for (place = 0; place < dim; place++) to[place] = from[place] * factor;
}

/* Numbers below 1e-38 become 0: with them a processor computes ten times slower and more, and a
 * state that is forgotten goes there. Returns what to give to `keep_smallest` afterwards. */
static unsigned drop_smallest(void) {
#ifdef __SSE__
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    return before;
#else
    return 0;
#endif
}

static void keep_smallest(unsigned before) {
#ifdef __SSE__
    _mm_setcsr(before);
#else
    (void)before;
#endif
}

/* e^decay, which is forgotten below e^FORGOTTEN. */
static inline float kept_of(float decay) {
    return exponential(decay < FORGOTTEN ? FORGOTTEN : decay);
}

#endif
