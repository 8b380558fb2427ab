/* Shared by the gated delta rule of one token and of many. */
#ifndef WAYMARK_RULE_H
#define WAYMARK_RULE_H

#include "native/decay.h"

#define EPSILON 1e-6f /* under the root of a key's squared length */

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

#endif
