/* Many rows times a 4-bit matrix on AVX-512 with VNNI and on AMX: weights become 8-bit integers
 * with a scale for 256 inputs of an output while they are packed, as scaling the sums of groups of
 * 32 takes longer. Both give the same bits. */
#include "linear/many.h"
#include "linear/groups.h"

#if IN_BYTES

/* Sixteen outputs of a block of inputs: their words, and the scale of each output. */
#define BLOCK_WORDS (BLOCK_INPUTS / 4)
#define BLOCK_BYTES ((BLOCK_WORDS + 1) * STEP)

#define ONE 256.0f /* of a weight in units of its scale, as 16-bit integers */

/* Two blocks of sixteen outputs, or what there is: how codes become bytes less `lowest_byte`. Of
 * each output `units` has a word for each group: the step from code to code, and above it the first
 * code's value. `scales` are those of the largest weights that codes could be. */
INLINE void units_of_blocks(const uint32_t *pairs, long rows, long groups, long count,
                            int lowest_byte, char *units, __m512 *scales) {
    const __m512i size = _mm512_set1_epi32(0x7fffffff), upper = _mm512_set1_epi32((int)0xffff0000);
    /* Half a unit more, so that weights are rounded. */
    const __m512i more = _mm512_set1_epi32((int)ONE / 2 - lowest_byte * (int)ONE);
    const __mmask16 some = (__mmask16)((1u << smaller(count, COLUMN)) - 1);
    for (long row = 0; row < COLUMN; row++)
        _mm512_store_si512(units + row * STEP,
                           _mm512_maskz_loadu_epi32(row < rows ? some : 0, pairs + row * groups));
    transpose_words(units, STEP, units);
    for (char *block = units; block < units + COLUMN * STEP; block += GROUPS_OF_BLOCK * STEP) {
        __m512 steps[GROUPS_OF_BLOCK], lowest[GROUPS_OF_BLOCK];
        __m512i largest = _mm512_setzero_si512();
        for (int group = 0; group < GROUPS_OF_BLOCK; group++) {
            __m512i both = _mm512_load_si512(block + group * STEP);
            steps[group] = (__m512)_mm512_slli_epi32(both, 16);
            __m512 offset = (__m512)_mm512_and_si512(both, upper);
            /* Explicit, so that compilers contract a few rows' numbers as they do those of many. */
            lowest[group] = _mm512_fnmadd_ps(_mm512_set1_ps(8), steps[group], offset);
            __m512 highest = _mm512_fmadd_ps(_mm512_set1_ps(15), steps[group], lowest[group]);
            /* Sizes in the order of numbers, as in quantise.c. */
            largest = _mm512_max_epu32(largest, _mm512_and_si512((__m512i)lowest[group], size));
            largest = _mm512_max_epu32(largest, _mm512_and_si512((__m512i)highest, size));
        }
        /* The second operand if one is no number. */
        __m512 scale = _mm512_max_ps(_mm512_set1_ps(SMALLEST), (__m512)largest / 127.0f);
        const __m512 inverse = ONE / scale;
        for (int group = 0; group < GROUPS_OF_BLOCK; group++) {
            __m512i step = _mm512_cvtps_epi32(steps[group] * inverse);
            __m512i start = _mm512_cvtps_epi32(lowest[group] * inverse);
            start = _mm512_slli_epi32(_mm512_add_epi32(start, more), 16);
            step = _mm512_mask_blend_epi16(0xaaaaaaaa, step, start);
            _mm512_store_si512(block + group * STEP, step);
        }
        *scales++ = scale;
    }
    transpose_words(units, STEP, units);
}

/* Four groups of an output, from `first` of its `units` on, as bytes: those of even inputs and
 * those of odd ones. Each group looks its codes up among the sixteen bytes that they can be. */
INLINE void look_up(const uint8_t *weight, __mmask64 there, __m512i units, int first, __m512i *even,
                    __m512i *odd) {
    const long long each = 0x0001000100010001;
    const __m512i low_half = _mm512_set1_epi8(15);
    const __m512i codes = _mm512_broadcast_i32x4(_mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
    const __m512i group =
        _mm512_setr_epi64(0, 0, 2 * each, 2 * each, 4 * each, 4 * each, 6 * each, 6 * each);
    __m512i place = _mm512_add_epi16(group, _mm512_set1_epi16((short)(2 * first)));
    __m512i step = _mm512_permutexvar_epi16(place, units);
    __m512i start = _mm512_permutexvar_epi16(_mm512_add_epi16(place, _mm512_set1_epi16(1)), units);
    __m512i low = _mm512_add_epi16(_mm512_mullo_epi16(codes, step), start);
    __m512i high = _mm512_add_epi16(low, _mm512_slli_epi16(step, 3));
    __m512i bytes = _mm512_packus_epi16(_mm512_srli_epi16(low, 8), _mm512_srli_epi16(high, 8));
    __m512i both = _mm512_maskz_loadu_epi8(there, weight);
    *even = _mm512_shuffle_epi8(bytes, _mm512_and_si512(both, low_half));
    *odd = _mm512_shuffle_epi8(bytes, _mm512_and_si512(_mm512_srli_epi16(both, 4), low_half));
}

/* The bytes of codes that are read of a block with `count` groups, and of its second half. */
INLINE __mmask64 codes_there(long count) {
    return count >= 4 ? ~(__mmask64)0 : count > 0 ? ~(__mmask64)0 >> (STEP - count * HALF) : 0;
}

INLINE void prefetch_block(const uint8_t *weight, const uint32_t *pairs) {
    __builtin_prefetch(weight);
    __builtin_prefetch(weight + STEP);
    __builtin_prefetch(pairs);
}

/* A block of sixteen outputs, or what there is; `first` is the block's group in `units`. */
INLINE void pack_block_of(const uint8_t *weight, const uint32_t *pairs, long rows, long groups,
                          long count, const char *units, int first, char *to) {
    const __m512i front = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i back = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    if (rows < COLUMN) memset(to, 0, BLOCK_WORDS * STEP);
    for (long row = 0; row < smaller(rows, COLUMN); row++, weight += groups * HALF) {
        __m512i own = _mm512_load_si512(units + row * STEP);
        prefetch_block(weight + COLUMN * groups * HALF, pairs + (row + COLUMN) * groups);
        for (int half = 0; half < 2; half++) {
            char *of_half = to + (2 * half * COLUMN + row) * STEP;
            __m512i even, odd;
            look_up(weight + half * STEP, codes_there(count - 4 * half), own, first + 4 * half,
                    &even, &odd);
            __m512i low = _mm512_unpacklo_epi8(even, odd), high = _mm512_unpackhi_epi8(even, odd);
            _mm512_storeu_si512(of_half, _mm512_permutex2var_epi64(low, front, high));
            _mm512_storeu_si512(of_half + COLUMN * STEP,
                                _mm512_permutex2var_epi64(low, back, high));
        }
    }
    for (long word = 0; word < BLOCK_WORDS; word += COLUMN)
        transpose_words(to + word * STEP, STEP, to + word * STEP);
}

static void pack_blocks(const struct many *all, long output, long start, long words, char *to) {
    const struct linear *given = all->given;
    const long groups = given->inputs / GROUP, first = start / GROUP_WORDS;
    const long end = first + words / GROUP_WORDS;
    for (int column = 0; column < all->columns;
         column++, output += COLUMN, to += column_bytes(all)) {
        char units[COLUMN * STEP] __attribute__((aligned(64))), *block = to;
        const long rows = given->outputs - output;
        for (long group = first; group < end; group += GROUPS_OF_BLOCK, block += BLOCK_BYTES) {
            const uint8_t *weight = (const uint8_t *)given->weight;
            const uint32_t *pairs = (const uint32_t *)given->scales + output * groups + group;
            const int is_second = (group - first) % (2 * GROUPS_OF_BLOCK) != 0;
            __m512 scales[2];
            if (!is_second)
                units_of_blocks(pairs, rows, groups, groups - group,
                                all->on_tiles ? 0 : LOWEST_BYTE, units, scales);
            _mm512_storeu_ps(block + BLOCK_WORDS * STEP, scales[is_second]);
            pack_block_of(weight + (output * groups + group) * HALF, pairs, rows, groups,
                          groups - group, units, is_second * GROUPS_OF_BLOCK, block);
        }
    }
}

/* Adds the sums of a block with two columns, times their scales, to those of blocks before it:
 * `found` [rows, 2 * COLUMN], less each row's `excess` if there is any. */
INLINE void add_block(int rows, const int32_t *found, const char *excess, long excess_stride,
                      const char *scales, int is_first, struct product all) {
    for (int column = 0; column < 2; column++, found += COLUMN, all.to += STEP) {
        __m512 scale = _mm512_loadu_ps(scales + column * all.right_stride);
#pragma GCC unroll 8
        for (int row = 0; row < rows; row++) {
            word_lanes exact = load_words(found + row * 2 * COLUMN);
            if (excess) exact -= each_lane(excess + row * excess_stride);
            float *total = (float *)(all.to + row * all.to_stride);
            __m512 sum = _mm512_cvtepi32_ps((__m512i)exact);
            __m512 before = is_first ? _mm512_setzero_ps() : _mm512_loadu_ps(total);
            _mm512_storeu_ps(total, _mm512_fmadd_ps(sum, scale, before));
        }
    }
}

/* Weights are bytes without a sign. Behind a row's words is the excess of each block's sums. */
static void multiply_on_vectors(const struct many *all, struct product product, long row,
                                long start) {
    int32_t found[ROWS_AT_ONCE * 2 * COLUMN] __attribute__((aligned(64)));
    const char *excess = all->left + row * all->left_stride + 4 * all->words;
    for (; product.columns > 0; product.columns -= 2) {
        struct product next = product;
        next.to = (char *)found, next.to_stride = 2 * STEP;
        next.words = BLOCK_WORDS, next.columns = 2, next.more = 0;
        for (long word = 0; word < product.words; word += BLOCK_WORDS) {
            multiply_words(OF_INT8, next);
            add_block(product.rows, found, excess + (start + word) / BLOCK_WORDS * 4,
                      all->left_stride, next.right + BLOCK_WORDS * STEP, !word && !product.more,
                      product);
            next.left += BLOCK_INPUTS, next.right += BLOCK_BYTES;
        }
        product.right += 2 * product.right_stride, product.to += 2 * STEP;
    }
}

/* Vectors add the sums of a block while AMX multiplies the next, as in blocks_many.c. */
static void multiply_on_tiles(const struct many *all, struct product product, long row,
                              long start) {
    int32_t found[BLOCK * 2 * COLUMN] __attribute__((aligned(64)));
    const long blocks = all->words / BLOCK_WORDS, steps = product.columns / 2 * blocks;
    (void)row, (void)start;
    for (long step = 0; step <= steps; step++) {
        struct product next = product, last = product;
        next.left += step % blocks * BLOCK_INPUTS;
        next.right += step / blocks * 2 * product.right_stride + step % blocks * BLOCK_BYTES;
        next.words = BLOCK_WORDS, next.more = 0;
        if (step < steps) multiply_in_registers(1, &next);
        if (step > 0) {
            const long pair = (step - 1) / blocks, block = (step - 1) % blocks;
            const char *scales = product.right + pair * 2 * product.right_stride +
                                 block * BLOCK_BYTES + BLOCK_WORDS * STEP;
            last.to += pair * 2 * STEP;
            if (block == 0)
                add_block(BLOCK, found, NULL, 0, scales, 1, last);
            else
                add_block(BLOCK, found, NULL, 0, scales, 0, last);
        }
        if (step < steps) store_block((char *)found, 2 * STEP);
    }
}

static void put_scaled(const struct many *all, const void *found, long row, long rows,
                       long output) {
    put_floats(all, found, all->row_scales, row, rows, output);
}

/* Of 128 inputs the even ones first, as look_up returns weights. */
static void sort_row(int8_t *row, long inputs) {
    for (long start = 0; start < inputs; start += 2 * STEP, row += 2 * STEP) {
        int8_t sorted[2][STEP];
        for (int place = 0; place < STEP; place++) {
            sorted[0][place] = row[2 * place];
            sorted[1][place] = row[2 * place + 1];
        }
        memcpy(row, sorted, sizeof sorted);
    }
}

static void bytes_of_row(const void *arguments, long row) {
    const struct many *all = arguments;
    int8_t *to = (int8_t *)all->left + row * all->left_stride;
    long inputs = all->given->inputs;
    all->row_scales[row] = quantise_row(all->given, row, to);
    memset(to + inputs, 0, all->left_stride - inputs);
    int32_t *excess = (int32_t *)(to + 4 * all->words);
    for (long place = 0; !all->on_tiles && place < inputs; place++)
        excess[place / BLOCK_INPUTS] -= LOWEST_BYTE * to[place];
    if (all->outputs) sort_row(to, inputs);
}

/* ------------------------------------------------------------------ a few rows */

#define ROWS_TOGETHER 4 /* whose sums wait for those of other outputs */

/* The sums of sixteen registers. */
INLINE __m512i sums_of_sixteen(const __m512i *given) {
    __m512i fours[4], eights[2];
    for (int four = 0; four < 4; four++, given += 4) {
        __m512i first = _mm512_add_epi32(_mm512_unpacklo_epi32(given[0], given[1]),
                                         _mm512_unpackhi_epi32(given[0], given[1]));
        __m512i second = _mm512_add_epi32(_mm512_unpacklo_epi32(given[2], given[3]),
                                          _mm512_unpackhi_epi32(given[2], given[3]));
        fours[four] = _mm512_add_epi32(_mm512_unpacklo_epi64(first, second),
                                       _mm512_unpackhi_epi64(first, second));
    }
    for (int half = 0; half < 2; half++) {
        __m512i first = fours[2 * half], second = fours[2 * half + 1];
        eights[half] = _mm512_add_epi32(_mm512_shuffle_i32x4(first, second, 0x88),
                                        _mm512_shuffle_i32x4(first, second, 0xdd));
    }
    return _mm512_add_epi32(_mm512_shuffle_i32x4(eights[0], eights[1], 0x88),
                            _mm512_shuffle_i32x4(eights[0], eights[1], 0xdd));
}

/* Adds a block of sixteen outputs, or what there is, to the totals of the rows; `first` is the
 * block's group in `units`. */
INLINE void add_few(const struct many *all, long output, long group, const char *units, int first,
                    __m512 scale, __m512 *totals) {
    const struct linear *given = all->given;
    const long groups = given->inputs / GROUP, left = given->outputs - output;
    const uint8_t *weight = (const uint8_t *)given->weight + (output * groups + group) * HALF;
    const uint32_t *pairs = (const uint32_t *)given->scales + output * groups + group;
    __m512i sums[ROWS_TOGETHER][COLUMN];
    for (long each = 0; each < COLUMN; each++) {
        const uint8_t *own = weight + smaller(each, left - 1) * groups * HALF;
        __m512i of_groups = _mm512_load_si512(units + each * STEP), even[2], odd[2];
        prefetch_block(own + COLUMN * groups * HALF, pairs + (each + COLUMN) * groups);
        for (int half = 0; half < 2; half++)
            look_up(own + half * STEP, codes_there(groups - group - 4 * half), of_groups,
                    first + 4 * half, even + half, odd + half);
        for (long row = 0; row < given->rows; row++) {
            const char *integers = all->left + row * all->left_stride + group * GROUP;
            word_lanes sum = {0};
            for (int half = 0; half < 2; half++, integers += 2 * STEP) {
                sum = add_quads(sum, load_words(integers), (word_lanes)even[half]);
                sum = add_quads(sum, load_words(integers + STEP), (word_lanes)odd[half]);
            }
            sums[row][each] = (__m512i)sum;
        }
    }
    for (long row = 0; row < given->rows; row++) {
        const char *excess = all->left + row * all->left_stride + 4 * all->words;
        word_lanes exact = (word_lanes)sums_of_sixteen(sums[row]);
        exact -= each_lane(excess + group / GROUPS_OF_BLOCK * 4);
        totals[row] = _mm512_fmadd_ps(_mm512_cvtepi32_ps((__m512i)exact), scale, totals[row]);
    }
}

static void few_outputs_of(const void *arguments, long part, void *result) {
    const struct many *all = arguments;
    const struct linear *given = all->given;
    const long groups = given->inputs / GROUP, end = end_of_outputs(given, part);
    (void)result;
    for (long output = first_output(given, part); output < end; output += PUT_AT_ONCE) {
        float found[ROWS_TOGETHER][PUT_AT_ONCE];
        const long count = smaller(PUT_AT_ONCE, end - output);
        for (long start = output; start < output + count; start += COLUMN) {
            char units[COLUMN * STEP] __attribute__((aligned(64)));
            __m512 totals[ROWS_TOGETHER] = {_mm512_setzero_ps()}, scales[2];
            for (long group = 0; group < groups; group += GROUPS_OF_BLOCK) {
                const int second = group / GROUPS_OF_BLOCK % 2;
                if (!second)
                    units_of_blocks((const uint32_t *)given->scales + start * groups + group,
                                    given->outputs - start, groups, groups - group, LOWEST_BYTE,
                                    units, scales);
                add_few(all, start, group, units, second * GROUPS_OF_BLOCK, scales[second], totals);
            }
            for (long row = 0; row < given->rows; row++)
                _mm512_storeu_ps(found[row] + start - output, totals[row] * all->row_scales[row]);
        }
        for (long row = 0; row < given->rows; row++) put_row(given, found[row], row, output, count);
    }
}

int waymark_linear_int4_many(struct linear *given) {
    const long blocks = pool_parts(given->inputs, BLOCK_INPUTS);
    const int few = given->rows <= ROWS_TOGETHER, on_tiles = !few && tiles_allowed();
    struct many all = {.given = given,
                       .kind = OF_INT8,
                       .on_tiles = on_tiles,
                       .words = blocks * BLOCK_WORDS,
                       .word_bytes = BLOCK_BYTES / BLOCK_WORDS,
                       .pack = pack_blocks,
                       .multiply = on_tiles ? multiply_on_tiles : multiply_on_vectors,
                       .put = put_scaled,
                       .outputs = few ? few_outputs_of : NULL};
    all.left_stride = 4 * all.words + (on_tiles ? 0 : rounded_up(4 * blocks, STEP));
    return run_many(&all, bytes_of_row);
}

#endif
