/* Decay of states, and flushing denormal numbers. */
#ifndef WAYMARK_DECAY_H
#define WAYMARK_DECAY_H

#include "native/numbers.h"

/* A factor of e^-40 is lost beside anything in float32. */
#define FORGOTTEN -40.0f

/* Flushes numbers below 1e-38 to 0: denormal arithmetic is ten times slower or worse, and
 * forgotten states end there. Returns the argument of `keep_smallest`. */
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
