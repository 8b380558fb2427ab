/* A few rows through a matrix of bfloat16. */
#include "linear/product.h"

/* The rows to multiply, in bfloat16 or as float32. */
#ifdef __AVX512BF16__
static uint16_t inputs_of[MOST_NUMBERS + 64] __attribute__((aligned(64)));
#define NUMBER(place) from_bfloat(inputs_of[place])
#else
static float inputs_of[MOST_NUMBERS + 64] __attribute__((aligned(64)));
#define NUMBER(place) inputs_of[place]
#endif

/* Products of as many weights as two registers of floats hold with the numbers of a row from
 * `place` on, added up. */
INLINE floats add_numbers(floats total, const uint16_t *weight, long place) {
#ifdef __AVX512BF16__
    __m512i weights = _mm512_loadu_si512(weight);
    __m512i given = _mm512_loadu_si512(inputs_of + place);
    return (floats)_mm512_dpbf16_ps((__m512)total, (__m512bh)weights, (__m512bh)given);
#else
    total += load_bfloats(weight) * load_floats(inputs_of + place);
    return total + load_bfloats(weight + LANES) * load_floats(inputs_of + place + LANES);
#endif
}

INLINE void one_output(const struct linear *all, long output, long row, int count, float *to) {
    long inputs = all->inputs, place = 0;
    const uint16_t *weight = (const uint16_t *)all->weight + output * inputs;
    floats totals[AT_ONCE] = {{0}};
    for (; place + 2 * LANES <= inputs; place += 2 * LANES) {
        __builtin_prefetch((const char *)(weight + place) + AHEAD);
        for (int each = 0; each < count; each++)
            totals[each] = add_numbers(totals[each], weight + place, (row + each) * inputs + place);
    }
    sums_of_each(totals, REGISTER, count, to);
    for (int each = 0; each < count; each++)
        for (long rest = place; rest < inputs; rest++)
            to[each] += from_bfloat(weight[rest]) * NUMBER((row + each) * inputs + rest);
}

static void take_rows(const struct linear *all) {
    long numbers = all->rows * all->inputs;
#ifdef __AVX512BF16__
    memcpy(inputs_of, all->from, numbers * sizeof *inputs_of);
#else
    const uint16_t *from = all->from;
    for (long place = 0; place < numbers; place++) inputs_of[place] = from_bfloat(from[place]);
#endif
}

PRODUCTS_OF_OUTPUTS(bfloat, 2 * all->inputs)
