/* Shared by the gated delta rule of one token and of many. */
#ifndef WAYMARK_RULE_H
#define WAYMARK_RULE_H

#include "native/decay.h"

#define EPSILON 1e-6f /* under the root of a key's squared length */

/* Products of `dim` numbers of both, added up. */
static float sum_of_products(const float *first, const float *second, long dim) {
    floats total = {0};
    long place = 0;
    for (; place + LANES <= dim; place += LANES)
        total += load_floats(first + place) * load_floats(second + place);
    float found = sum_of(total);
    for (; place < dim; place++) found += first[place] * second[place];
    return found;
}

/* Writes `from` at `length`, as long as `dim` numbers. */
static void of_length(const float *from, float *to, long dim, float length) {
    float factor = length / sqrtf(sum_of_products(from, from, dim) + EPSILON);
    for (long place = 0; place < dim; place++) to[place] = from[place] * factor;
}

#endif
