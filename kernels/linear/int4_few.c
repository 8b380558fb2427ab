/* Few rows times a 4-bit matrix, unpacked. */
#include "linear/many.h"
#include "linear/groups.h"

#if !IN_BYTES

#define TOGETHER (BYTES / HALF) /* groups multiplied at once; each has four sums of an output */
#define ROWS_TOGETHER 4         /* whose sums wait for those of other outputs */

/* The rows [rows, whole * GROUP], in which of as many groups as are multiplied at once the even
 * inputs come first, as weights hold them; of each group its sum [rows, whole]; and of each row its
 * scale. `whole` groups are a multiple of TOGETHER. */
struct few {
    const struct linear *given;
    int8_t *rows;
    float *sums, *scales;
    long whole, ahead; /* `ahead` are the bytes of sixteen outputs, which come next */
};

static void take_row(const void *arguments, long row) {
    const struct few *all = arguments;
    const struct linear *given = all->given;
    int8_t *to = all->rows + row * all->whole * GROUP;
    float scale = all->scales[row] = scale_of_row(given, row);
    for (long group = 0; group < all->whole; group++) {
        int8_t integers[GROUP];
        int8_t *even = to + (group - group % TOGETHER) * GROUP + group % TOGETHER * HALF;
        int32_t total = 0;
        quantise_numbers(given, row, group * GROUP, GROUP, scale, integers);
        for (int place = 0; place < GROUP; place++) total += integers[place];
        for (int place = 0; place < HALF; place++) {
            even[place] = integers[2 * place];
            even[BYTES + place] = integers[2 * place + 1];
        }
        all->sums[row * all->whole + group] = (float)total;
    }
}

/* Of SUMS outputs each group's sum: lane i of result g is output i's four sums of group g. */
INLINE void sums_of_groups(const sums *found, sums *to) {
#if BYTES == 32
    __m256i fours[2];
    for (int four = 0; four < 2; four++) {
        const __m256i *each = (const __m256i *)found + 4 * four;
        fours[four] = _mm256_hadd_epi32(_mm256_hadd_epi32(each[0], each[1]),
                                        _mm256_hadd_epi32(each[2], each[3]));
    }
    to[0] = (sums)_mm256_permute2x128_si256(fours[0], fours[1], 0x20);
    to[1] = (sums)_mm256_permute2x128_si256(fours[0], fours[1], 0x31);
#else
    for (int output = 0; output < SUMS; output++)
        to[0][output] = found[output][0] + found[output][1] + found[output][2] + found[output][3];
#endif
}

/* Some groups, and of those at the end of a row what there is. */
INLINE bytes load_groups(const uint8_t *weight, long count) {
    uint8_t filled[BYTES] = {0};
    if (count >= TOGETHER) return load_bytes(weight);
    memcpy(filled, weight, count * HALF);
    return load_bytes(filled);
}

/* Of sixteen groups of sixteen outputs: scales, and offsets less 8 scales. */
struct pairs {
    float of[COLUMN][2][COLUMN];
};

/* Adds TOGETHER groups from `group` on of SUMS outputs to the totals of some rows. */
INLINE void add_groups(const struct few *all, const uint8_t *const *weights,
                       const struct pairs *pairs, int piece, long row, int rows, long group,
                       sum_floats (*totals)[COLUMN / SUMS]) {
    long count = smaller(TOGETHER, all->given->inputs / GROUP - group);
    const bytes low_half = (bytes){0} + 15;
    sums found[ROWS_TOGETHER][SUMS];
    for (int output = 0; output < SUMS; output++) {
        const uint8_t *weight = weights[piece * SUMS + output] + group * HALF;
        bytes both = load_groups(weight, count);
        bytes even = both & low_half, odd = (bytes)((sum_words)both >> 4) & low_half;
        __builtin_prefetch(weight + all->ahead, 0, 2);
        for (int each = 0; each < rows; each++) {
            const int8_t *inputs = all->rows + ((row + each) * all->whole + group) * GROUP;
            found[each][output] = add_int4_products((sums){0}, even, load_bytes(inputs), odd,
                                                    load_bytes(inputs + BYTES));
        }
    }
    for (int each = 0; each < rows; each++) {
        sums of_groups[TOGETHER];
        sums_of_groups(found[each], of_groups);
        for (long one = 0; one < count; one++) {
            const float (*pair)[COLUMN] = pairs->of[(group + one) % COLUMN];
            sum_floats scale, offset, sum = __builtin_convertvector(of_groups[one], sum_floats);
            memcpy(&scale, pair[0] + piece * SUMS, sizeof scale);
            memcpy(&offset, pair[1] + piece * SUMS, sizeof offset);
            totals[each][piece] += sum * scale;
            totals[each][piece] += all->sums[(row + each) * all->whole + group + one] * offset;
        }
    }
}

/* Sixteen outputs, or what is left, of some rows. */
INLINE void sixteen_outputs(const struct few *all, long output, long row, int rows,
                            sum_floats (*totals)[COLUMN / SUMS]) {
    const struct linear *given = all->given;
    long groups = given->inputs / GROUP, left = given->outputs - output;
    const uint32_t *pairs_of = (const uint32_t *)given->scales + output * groups;
    const uint8_t *weights[COLUMN];
    struct pairs pairs;
    for (long each = 0; each < COLUMN; each++)
        weights[each] =
            (const uint8_t *)given->weight + (output + smaller(each, left - 1)) * groups * HALF;
    for (long group = 0; group < groups; group += TOGETHER) {
        if (group % COLUMN == 0) {
            pack_scales(pairs_of + group, left, groups, smaller(COLUMN, groups - group),
                        (char *)pairs.of, sizeof *pairs.of);
            for (long each = COLUMN; each < 2 * COLUMN; each++)
                __builtin_prefetch(pairs_of + each * groups + group, 0, 2);
        }
        for (int piece = 0; piece < COLUMN / SUMS; piece++)
            add_groups(all, weights, &pairs, piece, row, rows, group, totals);
    }
}

/* PUT_AT_ONCE outputs, or what is left, of some rows. */
INLINE void put_some(const void *arguments, long output, long row, int rows) {
    const struct few *all = arguments;
    float found[ROWS_TOGETHER][PUT_AT_ONCE];
    long count = smaller(PUT_AT_ONCE, all->given->outputs - output);
    for (long start = 0; start < count; start += COLUMN) {
        sum_floats totals[ROWS_TOGETHER][COLUMN / SUMS] = {{{0}}};
        sixteen_outputs(all, output + start, row, rows, totals);
        for (int each = 0; each < rows; each++)
            for (int piece = 0; piece < COLUMN / SUMS; piece++) {
                totals[each][piece] *= all->scales[row + each];
                memcpy(found[each] + start + piece * SUMS, totals[each] + piece, BYTES);
            }
    }
    for (int each = 0; each < rows; each++)
        put_row(all->given, found[each], row + each, output, count);
}

static void some_outputs(const void *arguments, long part, void *result) {
    const struct few *all = arguments;
    (void)result;
    few_outputs(all->given, all, part, ROWS_TOGETHER, put_some);
}

int few_int4(struct linear *given) {
    struct few all = {.given = given};
    all.whole = rounded_up(given->inputs / GROUP, TOGETHER);
    all.ahead = COLUMN * given->inputs / 2;
    long numbers = given->rows * all.whole, bytes = numbers * (GROUP + 4) + given->rows * 4;
    all.rows = aligned_alloc(STEP, rounded_up(bytes, STEP));
    if (!all.rows) return 0;
    all.sums = (float *)(all.rows + numbers * GROUP);
    all.scales = all.sums + numbers;
    pool_each(take_row, &all, given->rows, given->inputs, given->threads);
    share_outputs(some_outputs, given, &all, PUT_AT_ONCE);
    free(all.rows);
    return 1;
}

#endif
