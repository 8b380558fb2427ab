/* How states decay, and what is done with those that did. */
#ifndef WAYMARK_DECAY_H
#define WAYMARK_DECAY_H

#include "native/numbers.h"

/* What decayed to e^-40 is lost beside anything in float32. */
#define FORGOTTEN -40.0f

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
