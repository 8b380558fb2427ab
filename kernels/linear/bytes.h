/* Exact sums of products of a weight's 8-bit integers with those of rows. */
#ifndef WAYMARK_BYTES_H
#define WAYMARK_BYTES_H

#include "linear/product.h"

/* What every sum of a row is too large by: weights are multiplied as 0 .. 255, but for those at the
 * end that fill no register. */
static inline int32_t excess_of_row(const int8_t *row, long inputs) {
    int32_t total = 0;
    for (long place = 0; place < inputs / BYTES * BYTES; place++) total += row[place];
    return 128 * total;
}

/* The sums of one output; `rows` lie one after the other, `count` of them. `to` has
 * room for AT_ONCE. */
INLINE void sums_of_output(const int8_t *weight, long inputs, const int8_t *rows,
                           const int32_t *excess, int count, int32_t *to) {
    const bytes flip = (bytes){0} + (int8_t)-128; /* q + 128, in 0 .. 255 */
    sums totals[AT_ONCE] = {{0}};
    long place = 0;
    for (; place + BYTES <= inputs; place += BYTES) {
        bytes weights = load_bytes(weight + place) ^ flip;
        __builtin_prefetch(weight + place + AHEAD);
        for (int each = 0; each < count; each++) {
            bytes given = load_bytes(rows + each * inputs + place);
            totals[each] = add_products(totals[each], weights, given);
        }
    }
    if (count > 2)
        sums_of_eight(totals, to);
    else
        for (int each = 0; each < count; each++) to[each] = sum_of_ints(totals[each]);
    for (int each = 0; each < count; each++) {
        const int8_t *given = rows + each * inputs;
        to[each] -= excess[each];
        for (long rest = place; rest < inputs; rest++)
            to[each] += (int32_t)weight[rest] * given[rest];
    }
}

#endif
