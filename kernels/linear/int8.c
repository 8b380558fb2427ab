/* A few rows times an 8-bit matrix with a scale for each output; and quantising rows. */
#include "linear/product.h"

#define SMALLEST 1e-30f /* instead of zero as the scale of a row */

int8_t row_integers[MOST_NUMBERS + 64] __attribute__((aligned(64)));
float row_scales[MOST_NUMBERS / 16];
static int32_t excess[MOST_NUMBERS / 16]; /* of each row's sums */

/* ------------------------------------------------------------------ rows */

INLINE float scale_of(const void *from, long place, long given, int is_bfloat) {
    uint32_t largest = 0; /* sizes as bits: in the order of numbers, infinity and NaN at the end */
    for (long number = 0; number < given; number++) {
        float value = read_number(from, place + number, is_bfloat);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    float scale;
    memcpy(&scale, &largest, sizeof scale);
    scale /= 127.0f;
    return scale < SMALLEST ? SMALLEST : scale;
}

INLINE void quantise(const void *from, long place, long count, float scale, int8_t *to,
                     int is_bfloat) {
    for (long number = 0; number < count; number++)
        to[number] =
            (int8_t)(int32_t)__builtin_rintf(read_number(from, place + number, is_bfloat) / scale);
}

float scale_of_row(const struct linear *all, long row) {
    long given = all->given;
    return all->is_bfloat ? scale_of(all->from, row * given, given, 1)
                          : scale_of(all->from, row * given, given, 0);
}

void quantise_numbers(const struct linear *all, long row, long start, long count, float scale,
                      int8_t *to) {
    long place = row * all->given + start, given = smaller(count, all->given - start);
    if (given < count) memset(to + (given < 0 ? 0 : given), 0, count - (given < 0 ? 0 : given));
    if (all->is_bfloat)
        quantise(all->from, place, given, scale, to, 1);
    else
        quantise(all->from, place, given, scale, to, 0);
}

float quantise_row(const struct linear *all, long row, int8_t *to) {
    float scale = scale_of_row(all, row);
    quantise_numbers(all, row, 0, all->inputs, scale, to);
    return scale;
}

static void quantise_own_row(const void *given, long row) {
    const struct linear *all = given;
    row_scales[row] = quantise_row(all, row, row_integers + row * all->inputs);
}

void quantise_rows(const struct linear *all) {
    pool_each(quantise_own_row, all, all->rows, all->inputs, all->threads);
}

/* ------------------------------------------------------------------ products */

INLINE void one_output(const struct linear *all, long output, long row, int count, float *to) {
    int32_t found[AT_ONCE];
    const int8_t *weight = (const int8_t *)all->weight + output * all->inputs;
    float scale = ((const float *)all->scales)[output];
    sums_of_output(weight, all->inputs, row_integers + row * all->inputs, excess + row, count,
                   found);
    for (int each = 0; each < count; each++)
        to[each] = (float)found[each] * scale * row_scales[row + each];
}

/* The rows as integers, and the excess of their sums. */
static void take_rows(const struct linear *all) {
    quantise_rows(all);
    for (long row = 0; row < all->rows; row++)
        excess[row] = excess_of_row(row_integers + row * all->inputs, all->inputs);
}

PRODUCTS(int8, all->inputs)
