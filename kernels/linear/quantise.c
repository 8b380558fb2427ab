/* Quantises rows of inputs, and weights to the bits of `int8.quantise_rows` and
 * `int4.quantise_groups`. */
#include "linear/groups.h"
#include "linear/product.h"

#define LEVELS 15
#define ZERO_POINT 8

int8_t row_integers[MOST_NUMBERS + 64] __attribute__((aligned(64)));
float row_scales[MOST_NUMBERS / 16];

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

/* ------------------------------------------------------------------ int8 */

static void int8_row(const void *given, long row) {
    const struct quantise *all = given;
    struct linear rows = {.from = all->from,
                          .inputs = all->inputs,
                          .given = all->inputs,
                          .is_bfloat = all->is_bfloat};
    ((float *)all->scales)[row] =
        quantise_row(&rows, row, (int8_t *)all->values + row * all->inputs);
}

int waymark_quantise_int8(struct quantise *all) {
    pool_each(int8_row, all, all->outputs, all->inputs, all->threads);
    return 1;
}

/* ------------------------------------------------------------------ int4 */

/* Maps the bits of a number to an integer of the same order; and back. */
INLINE int32_t in_order(int32_t bits) {
    return bits ^ (bits >> 31 & 0x7fffffff);
}

INLINE float number_of(int32_t ordered) {
    int32_t bits = in_order(ordered);
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* The smallest and the largest: of integers, of which compilers make vector code. */
INLINE void bounds_of(const float *numbers, float *low, float *high) {
    int32_t ordered[GROUP], least, most;
    memcpy(ordered, numbers, sizeof ordered);
    for (int place = 0; place < GROUP; place++) ordered[place] = in_order(ordered[place]);
    least = most = ordered[0];
    for (int place = 0; place < GROUP; place++) {
        least = ordered[place] < least ? ordered[place] : least;
        most = ordered[place] > most ? ordered[place] : most;
    }
    *low = number_of(least), *high = number_of(most);
}

/* Rounded with the stored scale. NaN becomes 0. */
INLINE void levels_of(const float *numbers, float scale, float offset, uint8_t *to) {
    float divisor = scale == 0 ? 1 : scale;
    uint8_t levels[GROUP];
    for (int place = 0; place < GROUP; place++) {
        float level = __builtin_rintf((numbers[place] - offset) / divisor) + ZERO_POINT;
        level = level > 0 ? level : 0;
        levels[place] = (uint8_t)(int32_t)(level < LEVELS ? level : LEVELS);
    }
    uint16_t pairs[HALF]; /* of bytes, as one number: compilers make vector code of it */
    memcpy(pairs, levels, sizeof pairs);
    for (int byte = 0; byte < HALF; byte++) to[byte] = (uint8_t)(pairs[byte] | pairs[byte] >> 4);
}

INLINE void int4_group(const float *numbers, uint8_t *to, uint16_t *pair) {
    float low, high;
    bounds_of(numbers, &low, &high);
    pair[0] = to_bfloat((high - low) / LEVELS);
    float scale = from_bfloat(pair[0]);
    pair[1] = to_bfloat(low + ZERO_POINT * scale);
    levels_of(numbers, scale, from_bfloat(pair[1]), to);
}

INLINE void int4_groups(const struct quantise *all, long row, int is_bfloat) {
    long groups = pool_parts(all->inputs, GROUP);
    uint8_t *to = (uint8_t *)all->values + row * groups * HALF;
    uint16_t *pairs = (uint16_t *)all->scales + row * groups * 2;
    for (long group = 0; group < groups; group++) {
        float numbers[GROUP] = {0};
        long start = row * all->inputs + group * GROUP, left = all->inputs - group * GROUP;
        if (left >= GROUP)
            for (int place = 0; place < GROUP; place++)
                numbers[place] = read_number(all->from, start + place, is_bfloat);
        else
            for (long place = 0; place < left; place++)
                numbers[place] = read_number(all->from, start + place, is_bfloat);
        int4_group(numbers, to + group * HALF, pairs + 2 * group);
    }
}

KERNEL_OF_ROWS(quantise_int4, quantise, int4_groups, all->outputs, all->inputs)
