/* A few rows through a matrix of 4-bit integers in groups of 32 inputs, each group with a scale and
 * an offset.
 *
 * With inputs p t of 8-bit integers p:  y = t sum_g (s_g sum_i (q_i - 8) p_i + m_g sum_i p_i)
 */
#include "linear/groups.h"
#include "linear/product.h"

#define GROUPS (BYTES / HALF) /* multiplied at once; a group has four of their sums */

/* Of every group of a row of inputs. */
static float input_sums[MOST_NUMBERS / GROUP + SUMS] __attribute__((aligned(64)));

/* Of as many groups as a register holds: the scale of each, and its offset less 8 scales, since
 * weights are multiplied as 0 .. 15. */
struct pairs {
    sum_floats scales, offsets;
};

static inline struct pairs load_pairs(const uint32_t *from, long count) {
    sum_words both = {0};
#if BYTES == 64
    both = (sum_words)_mm512_maskz_loadu_epi32((__mmask16)((1u << count) - 1), from);
#else
    if (count < SUMS) /* else the length is a constant, and the copy one load */
        memcpy(&both, from, count * sizeof *from);
    else
        memcpy(&both, from, sizeof both);
#endif
    sum_floats scales = (sum_floats)(both << 16);
    return (struct pairs){scales, (sum_floats)(both >> 16 << 16) - 8 * scales};
}

/* For each sum of some groups from `first` on, a constant, the number of its group. */
INLINE sum_floats spread(sum_floats numbers, int first) {
#if BYTES == 64
    const __m512i places = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    __m512i from = _mm512_add_epi32(places, _mm512_set1_epi32(first));
    return (sum_floats)_mm512_permutexvar_ps(from, (__m512)numbers);
#elif BYTES == 32
    const __m256i places = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    __m256i from = _mm256_add_epi32(places, _mm256_set1_epi32(first));
    return (sum_floats)_mm256_permutevar8x32_ps((__m256)numbers, from);
#else
    return (sum_floats){0} + numbers[first];
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

/* GROUPS groups of some rows, whose weights are at `weight`. */
INLINE void add_groups(const uint8_t *weight, const int8_t *inputs, long inputs_of_row,
                       sum_floats scale, int count, sum_floats *totals) {
    const bytes low_half = (bytes){0} + 15;
    bytes both = load_bytes(weight);
    bytes even = both & low_half, odd = (bytes)((sum_words)both >> 4) & low_half;
    __builtin_prefetch(weight + AHEAD);
    for (int each = 0; each < count; each++, inputs += inputs_of_row) {
        sums found =
            add_int4_products((sums){0}, even, load_bytes(inputs), odd, load_bytes(inputs + BYTES));
        totals[each] += __builtin_convertvector(found, sum_floats) * scale;
    }
}

INLINE void one_output(const struct linear *all, long output, long row, int count, float *to) {
    long groups = all->inputs / GROUP, group = 0;
    const uint8_t *weight = (const uint8_t *)all->weight + output * groups * HALF;
    const uint32_t *pairs = (const uint32_t *)all->scales + output * groups;
    const int8_t *inputs = row_integers + row * all->inputs;
    const float *sums_of_row = input_sums + row * groups;
    sum_floats totals[AT_ONCE] = {{0}};
    for (long some_end; group + GROUPS <= groups; group = some_end) {
        long some_groups = smaller(groups - group, SUMS) / GROUPS * GROUPS;
        struct pairs some = load_pairs(pairs + group, some_groups);
        some_end = group + some_groups;
        __builtin_prefetch((const char *)(pairs + group) + AHEAD);
        for (int each = 0; each < count; each++) {
            sum_floats sums_of_groups;
            /* Beyond a row's end offsets are 0, and there is room behind the last. */
            memcpy(&sums_of_groups, sums_of_row + each * groups + group, sizeof sums_of_groups);
            totals[each] += sums_of_groups * some.offsets;
        }
        for (int first = 0; first < some_groups; first += GROUPS)
            add_groups(weight + (group + first) * HALF, inputs + (group + first) * GROUP,
                       all->inputs, spread(some.scales, first), count, totals);
    }
    sums_of_each(totals, BYTES, count, to);
    for (int each = 0; each < count; each++) {
        for (long rest = group; rest < groups; rest++)
            to[each] += one_group(weight + rest * HALF, pairs[rest],
                                  inputs + each * all->inputs + rest * GROUP);
        to[each] *= row_scales[row + each];
    }
}

/* Separates even and odd inputs, as the halves of bytes hold them; groups multiplied together
 * are adjacent. Also computes the sums that products need. */
static void sort_row(long row, long groups) {
    int8_t sorted[2 * BYTES];
    for (long group = 0; group < groups;) {
        long start = row * groups + group, count = group + GROUPS <= groups ? GROUPS : 1;
        int8_t *from = row_integers + start * GROUP;
        for (long each = 0; each < count; each++) {
            int32_t total = 0;
            for (long place = 0; place < GROUP; place++) total += from[each * GROUP + place];
            input_sums[start + each] = (float)total;
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

PRODUCTS_OF_OUTPUTS(int4, all->inputs / 2 + all->inputs / 8)
