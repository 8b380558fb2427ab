/* A few rows through a matrix of bfloat16. */
#include "linear/product.h"

/* The rows that are multiplied, as they are and as float32. */
static uint16_t bfloats[MOST_NUMBERS + 64] __attribute__((aligned(64)));
#ifndef __AVX512BF16__
static float wide[MOST_NUMBERS + 64] __attribute__((aligned(64)));
#endif

/* Products of 32 weights with the numbers of a row from `place` on, added up. */
INLINE floats add_products_of_32(floats total, const uint16_t *weight, long place) {
#ifdef __AVX512BF16__
    __m512i weights = _mm512_loadu_si512(weight), given = _mm512_loadu_si512(bfloats + place);
    return (floats)_mm512_dpbf16_ps((__m512)total, (__m512bh)weights, (__m512bh)given);
#else
    total += load_bfloats(weight) * load_floats(wide + place);
    return total + load_bfloats(weight + LANES) * load_floats(wide + place + LANES);
#endif
}

/* One output of `count` rows from `row` on. */
INLINE void one_output(const uint16_t *weight, long inputs, long row, int count, float *to) {
    floats totals[AT_ONCE] = {{0}};
    long place = 0;
    for (; place + 2 * LANES <= inputs; place += 2 * LANES) {
        __builtin_prefetch((const char *)(weight + place) + AHEAD);
        for (int each = 0; each < count; each++)
            totals[each] =
                add_products_of_32(totals[each], weight + place, (row + each) * inputs + place);
    }
    for (int each = 0; each < count; each++) {
        to[each] = sum_of(totals[each]);
        for (long rest = place; rest < inputs; rest++)
            to[each] +=
                from_bfloat(weight[rest]) * from_bfloat(bfloats[(row + each) * inputs + rest]);
    }
}

static void multiply_one(const void *given, long part, void *result) {
    const struct product *all = given;
    long first = first_output(all, part);
    for (long output = first; output < end_of_outputs(all, part); output++)
        one_output((const uint16_t *)all->weight + output * all->inputs, all->inputs, 0, 1,
                   (float *)result + output - first);
}

static void multiply_some(const void *given, long part, void *result) {
    const struct product *all = given;
    float found[AT_ONCE];
    (void)result;
    for (long output = first_output(all, part); output < end_of_outputs(all, part); output++) {
        const uint16_t *weight = (const uint16_t *)all->weight + output * all->inputs;
        for (long row = 0; row < all->rows;) {
            int count = row + AT_ONCE <= all->rows ? AT_ONCE : 1;
            if (count == 1)
                one_output(weight, all->inputs, row, 1, found);
            else
                one_output(weight, all->inputs, row, AT_ONCE, found);
            for (int each = 0; each < count; each++, row++)
                put_result(all, row, output, found[each], 1);
        }
    }
}

/* `from` [rows, inputs], `weight` [outputs, inputs], `bias` [outputs] or NULL, `to` [rows,
 * outputs], all bfloat16; rows * inputs <= MOST_NUMBERS. */
void waymark_linear_bfloat(const uint16_t *from, const uint16_t *weight, const uint16_t *bias,
                           uint16_t *to, long rows, long outputs, long inputs, int threads) {
    memcpy(bfloats, from, rows * inputs * sizeof *from);
#ifndef __AVX512BF16__
    for (long place = 0; place < rows * inputs; place++) wide[place] = from_bfloat(from[place]);
#endif
    struct product all = {.weight = weight,
                          .bias = bias,
                          .to = to,
                          .rows = rows,
                          .outputs = outputs,
                          .inputs = inputs,
                          .is_bfloat = 1};
    run_product(multiply_one, multiply_some, &all, 2 * inputs, threads);
}
