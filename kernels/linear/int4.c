/* A few rows through a matrix of 4-bit integers in groups of 32 inputs, each group with a scale and
 * an offset.
 *
 * With inputs p t of 8-bit integers p:  y = t sum_g (s_g sum_i (q_i - 8) p_i + m_g sum_i p_i)
 */
#include "linear/groups.h"
#include "linear/product.h"

#define GROUPS (BYTES / HALF) /* multiplied at once; a group has four of their sums */

/* For every four sums: -8 times the inputs' sum, and that sum. */
static int32_t compensation[MOST_NUMBERS / GROUP * 4 + 16] __attribute__((aligned(64)));
static float input_sums[MOST_NUMBERS / GROUP * 4 + 16] __attribute__((aligned(64)));

/* For each group of four sums its pair of bfloat16, scale and offset. */
static inline sum_words spread(const uint32_t *pairs) {
#if BYTES == 64
    const __m512i places = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    __m128i four = _mm_loadu_si128((const __m128i *)pairs);
    return (sum_words)_mm512_permutexvar_epi32(places, _mm512_castsi128_si512(four));
#elif BYTES == 32
    const __m256i places = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    __m128i two = _mm_loadl_epi64((const __m128i *)pairs);
    return (sum_words)_mm256_permutevar8x32_epi32(_mm256_castsi128_si256(two), places);
#else
    return (sum_words){0} + *pairs;
#endif
}

static inline float sum_of_sums(sum_floats given) {
#if BYTES == 64
    return _mm512_reduce_add_ps((__m512)given);
#else
    float lanes[SUMS];
    memcpy(lanes, &given, sizeof given);
    for (int width = SUMS / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; lane++) lanes[lane] += lanes[lane + width];
    return lanes[0];
#endif
}

/* What a group adds, number by number. */
static float one_group(const uint8_t *weight, uint32_t pair, const int8_t *given) {
    int32_t products = 0, inputs = 0;
    for (int place = 0; place < HALF; place++) {
        int32_t both = weight[place], even = given[place], odd = given[HALF + place];
        products += ((both & 15) - 8) * even + ((both >> 4) - 8) * odd;
        inputs += even + odd;
    }
    return (float)products * from_bfloat(pair & 0xffff) + (float)inputs * from_bfloat(pair >> 16);
}

INLINE void one_output(const struct linear *all, long output, long row, int count, float *to) {
    long groups = all->inputs / GROUP, group = 0;
    const uint8_t *weight = (const uint8_t *)all->weight + output * groups * HALF;
    const uint32_t *pairs = (const uint32_t *)all->scales + output * groups;
    const bytes low_half = (bytes){0} + 15;
    sum_floats totals[AT_ONCE] = {{0}};
    for (; group + GROUPS <= groups; group += GROUPS) {
        bytes both = load_bytes(weight + group * HALF);
        bytes even = both & low_half, odd = (bytes)((sum_words)both >> 4) & low_half;
        sum_words pair = spread(pairs + group);
        sum_floats scale = (sum_floats)(pair << 16), offset = (sum_floats)(pair >> 16 << 16);
        __builtin_prefetch(weight + group * HALF + AHEAD);
        if (group % 16 == 0) __builtin_prefetch((const char *)(pairs + group) + AHEAD);
        for (int each = 0; each < count; each++) {
            long start = (row + each) * groups + group;
            const int8_t *inputs = row_integers + start * GROUP;
            sums total;
            sum_floats of_group;
            memcpy(&total, compensation + start * 4, sizeof total);
            memcpy(&of_group, input_sums + start * 4, sizeof of_group);
            total =
                add_int4_products(total, even, load_bytes(inputs), odd, load_bytes(inputs + BYTES));
            /* One product a sum: of two a compiler chooses which it rounds. */
            totals[each] += of_group * offset;
            totals[each] += __builtin_convertvector(total, sum_floats) * scale;
        }
    }
    for (int each = 0; each < count; each++) {
        to[each] = sum_of_sums(totals[each]);
        for (long rest = group; rest < groups; rest++)
            to[each] += one_group(weight + rest * HALF, pairs[rest],
                                  row_integers + ((row + each) * groups + rest) * GROUP);
        to[each] *= row_scales[row + each];
    }
}

static void multiply_some(const void *given, long part, void *result) {
    multiply_rows(given, part, result, one_output);
}

/* Even and odd inputs apart, as the two halves of bytes hold them; for as many groups as are
 * multiplied at once they lie together. Also the sums that products need. */
static void sort_row(long row, long groups) {
    int8_t sorted[2 * BYTES];
    for (long group = 0; group < groups;) {
        long start = row * groups + group, count = group + GROUPS <= groups ? GROUPS : 1;
        int8_t *from = row_integers + start * GROUP;
        for (long four = 0; four < count * 4; four++) {
            int32_t total = 0;
            for (long place = 0; place < 8; place++) total += from[8 * four + place];
            compensation[start * 4 + four] = -8 * total;
            input_sums[start * 4 + four] = (float)total;
        }
        for (long place = 0; place < count * HALF; place++) {
            sorted[place] = from[2 * place];
            sorted[count * HALF + place] = from[2 * place + 1];
        }
        memcpy(from, sorted, count * GROUP);
        group += count;
    }
}

static void take_rows(const struct linear *all) {
    quantise_rows(all);
    for (long row = 0; row < all->rows; row++) sort_row(row, all->inputs / GROUP);
}

int waymark_linear_int4(struct linear *all) {
    take_rows(all);
    run_product(multiply_some, all, all->inputs / 2 + all->inputs / 8);
    return 1;
}

static void multiply_expert(const void *given, long part, void *result) {
    multiply_routed(given, part, result, one_output);
}

int waymark_experts_int4(struct expert_rows *all) {
    struct linear inputs = inputs_of_experts(all);
    take_rows(&inputs);
    run_routed(multiply_expert, all, all->inputs / 2 + all->inputs / 8);
    return 1;
}
