/* Many rows times a 4-bit matrix: as integers, with a scale and an offset for each group
 * (formula: int4.c). On AMX, weights become 8-bit integers with a scale for each output when they
 * are packed: sums of groups, which vectors would have to scale, take longer than the tiles. */
#include "linear/many.h"
#include "linear/groups.h"

#define SOME (ROWS_AT_ONCE > 4 ? 4 : 1) /* rows, where there are fewer than fit into registers */
/* A group of a packed column of sixteen: its words, their scales and their offsets. */
#define GROUP_BYTES ((GROUP_WORDS + 2) * STEP)
/* A group of a row: its integers and their sum. Those of a block's rows lie beside each other. */
#define ROW_BYTES (GROUP + 4)

/* ------------------------------------------------------------------ integers */

/* Two groups, which are sixteen words; of the last there may be one. */
static void pack_two(const uint8_t *weight, long rows, long row_bytes, long count, char *to) {
    char filled[COLUMN * STEP], transposed[COLUMN * STEP];
    if (rows < COLUMN || count < 2) memset(filled, 0, sizeof filled);
    for (long row = 0; row < smaller(rows, COLUMN); row++)
        for (long group = 0; group < count; group++)
            unpack_bytes(weight + row * row_bytes + group * HALF,
                         filled + row * STEP + group * GROUP);
    transpose_words(filled, STEP, transposed);
    for (long group = 0; group < count; group++)
        memcpy(to + group * GROUP_BYTES, transposed + group * GROUP_WORDS * STEP,
               GROUP_WORDS * STEP);
}

static void pack_groups(const struct many *all, long output, long start, long words, char *to) {
    const struct linear *given = all->given;
    long groups = given->inputs / GROUP, first = start / GROUP_WORDS, count = words / GROUP_WORDS;
    for (int column = 0; column < all->columns;
         column++, output += COLUMN, to += column_bytes(all)) {
        long rows = given->outputs - output, place = output * groups + first;
        const uint8_t *weight = (const uint8_t *)given->weight + place * HALF;
        const uint32_t *pairs = (const uint32_t *)given->scales + place;
        for (long group = 0; group < count; group += 2)
            pack_two(weight + group * HALF, rows, groups * HALF, smaller(2, count - group),
                     to + group * GROUP_BYTES);
        for (long group = 0; group < count; group += COLUMN)
            pack_scales(pairs + group, rows, groups, smaller(COLUMN, count - group),
                        to + group * GROUP_BYTES + GROUP_WORDS * STEP, GROUP_BYTES);
    }
}

/* Rows whose sums stay in registers while a group is added to them, and their results in memory. */
INLINE void multiply_group(int rows, const char *left, const char *right, long right_stride,
                           char *to) {
    word_lanes totals[ROWS_AT_ONCE][COLUMNS_AT_ONCE * PIECES] = {{{0}}};
    int word = 0;
#if HAS_EIGHTS
    if (rows % 2 == 0) {
        add_eights(rows, left, ROW_BYTES, right, STEP, GROUP_WORDS, totals);
        word = GROUP_WORDS;
    }
#endif
#pragma GCC unroll 8
    for (; word < GROUP_WORDS; word++) {
        word_lanes given[COLUMNS_AT_ONCE * PIECES];
#pragma GCC unroll 16
        for (int piece = 0; piece < COLUMNS_AT_ONCE * PIECES; piece++)
            given[piece] = load_words(right + piece / PIECES * right_stride + word * STEP +
                                      piece % PIECES * REGISTER);
#pragma GCC unroll 16
        for (int row = 0; row < rows; row++) {
            word_lanes of_row = each_lane(left + row * ROW_BYTES + word * 4);
#pragma GCC unroll 16
            for (int piece = 0; piece < COLUMNS_AT_ONCE * PIECES; piece++) {
                totals[row][piece] =
                    add_word(WORDS_OF_INT4, totals[row][piece], of_row, given[piece]);
                KEEP_IN_REGISTER(totals[row][piece]);
            }
        }
    }
    right += GROUP_WORDS * STEP;
#pragma GCC unroll 16
    for (int piece = 0; piece < COLUMNS_AT_ONCE * PIECES; piece++, to += REGISTER) {
        const char *scales = right + piece / PIECES * right_stride + piece % PIECES * REGISTER;
        floats scale = (floats)load_words(scales), offset = (floats)load_words(scales + STEP);
#pragma GCC unroll 16
        for (int row = 0; row < rows; row++) {
            char *result = to + row * OUTPUTS_AT_ONCE * 4;
            word_lanes sum = totals[row][piece];
            if (WORDS_OF_INT4 == OF_INT4) sum = sum_of_shorts(sum);
            floats found = (floats)load_words(result);
            found += __builtin_convertvector(sum, floats) * scale;
            found += (floats)each_lane(left + row * ROW_BYTES + GROUP) * offset;
            memcpy(result, &found, sizeof found);
        }
    }
}

INLINE void multiply_groups_of(int rows, const char *left, struct product all) {
    for (long word = 0; word < all.words; word += GROUP_WORDS) {
        multiply_group(rows, left, all.right, all.right_stride, all.to);
        ALL_IN_MEMORY; /* otherwise results would be kept from group to group and stored all the
                          same */
        left += ROWS_AT_ONCE * ROW_BYTES;
        all.right += GROUP_BYTES;
    }
}

static void multiply_groups(const struct many *all, struct product product, long row, long start) {
    const char *left =
        all->left + row * all->left_stride + start / GROUP_WORDS * ROWS_AT_ONCE * ROW_BYTES;
    for (int each = 0; each < product.rows && !product.more; each++)
        memset(product.to + each * product.to_stride, 0, product.columns * STEP);
    for (; product.columns > 0; product.columns -= COLUMNS_AT_ONCE) {
        struct product rest = product;
        while (rest.rows > 0) {
            int rows = rest.rows >= ROWS_AT_ONCE ? ROWS_AT_ONCE : rest.rows >= SOME ? SOME : 1;
            const char *first = left + (product.rows - rest.rows) * ROW_BYTES;
            if (rows == ROWS_AT_ONCE)
                multiply_groups_of(ROWS_AT_ONCE, first, rest);
            else if (rows == SOME)
                multiply_groups_of(SOME, first, rest);
            else
                multiply_groups_of(1, first, rest);
            rest = rows_behind(rest, rows);
        }
        product.right += COLUMNS_AT_ONCE * product.right_stride;
        product.to += COLUMNS_AT_ONCE * STEP;
    }
}

/* A row as integers, and the sum of each of its groups, beside those of its block's other rows. */
static void integers_of_row(const void *arguments, long row) {
    const struct many *all = arguments;
    long place = row % ROWS_AT_ONCE;
    char *to = all->left + (row - place) * all->left_stride + place * ROW_BYTES;
    float scale = all->row_scales[row] = scale_of_row(all->given, row);
    for (long start = 0; start < all->given->inputs; start += GROUP) {
        int8_t *integers = (int8_t *)to;
        int32_t total = 0;
        quantise_numbers(all->given, row, start, GROUP, scale, integers);
        for (int each = 0; each < GROUP; each++) total += integers[each];
        float sum = (float)total;
        memcpy(to + GROUP, &sum, sizeof sum);
        to += ROWS_AT_ONCE * ROW_BYTES;
    }
}

static void put_scaled(const struct many *all, const void *found, long row, long rows,
                       long output) {
    put_floats(all, found, all->row_scales, row, rows, output);
}

static int multiply_as_integers(struct linear *given) {
    struct many all = {.given = given,
                       .kind = WORDS_OF_INT4,
                       .word_bytes = GROUP_BYTES / GROUP_WORDS,
                       .pack = pack_groups,
                       .multiply = multiply_groups,
                       .put = put_scaled};
    count_words(&all, 4);
    all.left_stride = given->inputs / GROUP * ROW_BYTES;
    return run_many(&all, integers_of_row);
}

/* ------------------------------------------------------------------ 8 bits, on AMX */

/* Sixteen outputs of a block of inputs: their words, and the scale of each output. */
#define BLOCK_WORDS (BLOCK_INPUTS / 4)
#define BLOCK_BYTES ((BLOCK_WORDS + 1) * STEP)

#ifdef HAS_TILES

#define ONE 256.0f /* of a weight in units of its scale, as 16-bit integers */

/* Eight groups of an output or what is left as bytes, each two of them COLUMN steps behind those
 * before. Returns their scale: that of the largest weight that codes could be. */
INLINE float bytes_of_block(const uint8_t *weight, const uint32_t *pairs, long count, char *to) {
    const __m512i size = _mm512_set1_epi32(0x7fffffff), upper = _mm512_set1_epi32((int)0xffff0000);
    const __m512i low_half = _mm512_set1_epi16(15), high_byte = _mm512_set1_epi16((short)0xff00);
    __mmask16 some = (__mmask16)((1u << smaller(count, GROUPS_OF_BLOCK)) - 1);
    __m512i both = _mm512_maskz_loadu_epi32(some, pairs);
    __m512 steps = (__m512)_mm512_slli_epi32(both, 16);
    __m512 lowest = (__m512)_mm512_and_si512(both, upper) - 8 * steps;
    __m512 highest = lowest + 15 * steps;
    /* Sizes in the order of numbers, as in quantise.c. */
    uint32_t largest = _mm512_reduce_max_epu32(_mm512_max_epu32(
        _mm512_and_si512((__m512i)lowest, size), _mm512_and_si512((__m512i)highest, size)));
    float scale;
    memcpy(&scale, &largest, sizeof scale);
    scale /= 127.0f;
    scale = scale < SMALLEST ? SMALLEST : scale;
    const __m512 units = _mm512_set1_ps(ONE / scale);
    __m512i step_units = _mm512_cvtps_epi32(steps * units);
    __m512i starts = _mm512_cvtps_epi32(lowest * units);
    /* Half a unit more, so that weights are rounded. */
    starts = _mm512_add_epi32(starts, _mm512_set1_epi32((int)ONE / 2));
    __m512i place = _mm512_maskz_set1_epi16(0xffff0000, 2);
    for (long group = 0; group < GROUPS_OF_BLOCK; group += 2, to += COLUMN * STEP) {
        long bytes = (count - group) * HALF;
        __mmask32 there = bytes >= 32 ? 0xffffffff : bytes > 0 ? 0xffff : 0;
        __m512i codes = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(there, weight + group * HALF));
        __m512i step = _mm512_permutexvar_epi16(place, step_units);
        __m512i start = _mm512_permutexvar_epi16(place, starts);
        __m512i even = _mm512_mullo_epi16(_mm512_and_si512(codes, low_half), step);
        __m512i odd = _mm512_mullo_epi16(_mm512_srli_epi16(codes, 4), step);
        even = _mm512_srli_epi16(_mm512_add_epi16(even, start), 8);
        odd = _mm512_and_si512(_mm512_add_epi16(odd, start), high_byte);
        _mm512_storeu_si512(to, _mm512_or_si512(even, odd));
        place = _mm512_add_epi16(place, _mm512_set1_epi16(4));
    }
    return scale;
}

static void pack_blocks(const struct many *all, long output, long start, long words, char *to) {
    const struct linear *given = all->given;
    long groups = given->inputs / GROUP;
    (void)start;
    for (int column = 0; column < all->columns; column++, output += COLUMN)
        for (long group = 0; group < words / GROUP_WORDS;
             group += GROUPS_OF_BLOCK, to += BLOCK_BYTES) {
            float scales[COLUMN] = {0};
            long rows = smaller(COLUMN, given->outputs - output);
            if (rows < COLUMN) memset(to, 0, BLOCK_WORDS * STEP);
            for (long row = 0; row < rows; row++) {
                long place = (output + row) * groups + group, ahead = place + COLUMN * groups;
                const uint8_t *weight = given->weight;
                const uint32_t *pairs = given->scales;
                __builtin_prefetch(weight + ahead * HALF);
                __builtin_prefetch(weight + ahead * HALF + STEP);
                __builtin_prefetch(pairs + ahead);
                weight += place * HALF, pairs += place;
                scales[row] = groups - group >= GROUPS_OF_BLOCK
                                  ? bytes_of_block(weight, pairs, GROUPS_OF_BLOCK, to + row * STEP)
                                  : bytes_of_block(weight, pairs, groups - group, to + row * STEP);
            }
            for (long word = 0; word < BLOCK_WORDS; word += COLUMN)
                transpose_words(to + word * STEP, STEP, to + word * STEP);
            memcpy(to + BLOCK_WORDS * STEP, scales, sizeof scales);
        }
}

/* Adds the sums of a block with two columns, times their scales, to those of blocks before it. */
INLINE void add_block(const int32_t *found, const char *scales, long scales_stride, int is_first,
                      char *to, long to_stride) {
    for (int column = 0; column < 2; column++, found += COLUMN, to += STEP) {
        __m512 scale = _mm512_loadu_ps(scales + column * scales_stride);
#pragma GCC unroll 8
        for (int row = 0; row < BLOCK; row++) {
            __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(found + row * 2 * COLUMN));
            float *total = (float *)(to + row * to_stride);
            __m512 before = is_first ? _mm512_setzero_ps() : _mm512_loadu_ps(total);
            _mm512_storeu_ps(total, _mm512_fmadd_ps(sum, scale, before));
        }
    }
}

/* Vectors add the sums of a block while AMX multiplies the next, as in blocks_many.c. */
static void multiply_blocks(const struct many *all, struct product product, long row, long start) {
    int32_t found[BLOCK * 2 * COLUMN] __attribute__((aligned(64)));
    const long blocks = all->words / BLOCK_WORDS, steps = product.columns / 2 * blocks;
    (void)row, (void)start;
    for (long step = 0; step <= steps; step++) {
        struct product next = product;
        next.left += step % blocks * BLOCK_INPUTS;
        next.right += step / blocks * 2 * product.right_stride + step % blocks * BLOCK_BYTES;
        next.words = BLOCK_WORDS;
        next.more = 0;
        if (step < steps) multiply_in_registers(1, &next);
        if (step > 0) {
            const long pair = (step - 1) / blocks, block = (step - 1) % blocks;
            const char *right =
                product.right + pair * 2 * product.right_stride + block * BLOCK_BYTES;
            char *to = product.to + pair * 2 * STEP;
            if (block == 0)
                add_block(found, right + BLOCK_WORDS * STEP, product.right_stride, 1, to,
                          product.to_stride);
            else
                add_block(found, right + BLOCK_WORDS * STEP, product.right_stride, 0, to,
                          product.to_stride);
        }
        if (step < steps) store_block((char *)found, 2 * STEP);
    }
}

static void bytes_of_row(const void *arguments, long row) {
    const struct many *all = arguments;
    int8_t *to = (int8_t *)all->left + row * all->left_stride;
    long inputs = all->given->inputs;
    all->row_scales[row] = quantise_row(all->given, row, to);
    memset(to + inputs, 0, all->left_stride - inputs);
}

static int multiply_on_tiles(struct linear *given) {
    struct many all = {.given = given,
                       .kind = OF_INT8,
                       .on_tiles = 1,
                       .words = pool_parts(given->inputs, BLOCK_INPUTS) * BLOCK_WORDS,
                       .word_bytes = BLOCK_BYTES / BLOCK_WORDS,
                       .pack = pack_blocks,
                       .multiply = multiply_blocks,
                       .put = put_scaled};
    all.left_stride = 4 * all.words;
    return run_many(&all, bytes_of_row);
}

#endif

int waymark_linear_int4_many(struct linear *given) {
#ifdef HAS_TILES
    if (tiles_allowed()) return multiply_on_tiles(given);
#endif
    return given->rows <= FEW_ROWS ? few_int4(given) : multiply_as_integers(given);
}
