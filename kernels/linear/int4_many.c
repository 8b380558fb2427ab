/* Many rows times a 4-bit matrix: as integers, with a scale and an offset for each group
 * (formula: int4.c). */
#include "linear/many.h"
#include "linear/groups.h"

#if !IN_BYTES /* else int4_bytes.c */

#define SOME (ROWS_AT_ONCE > 4 ? 4 : 1) /* rows, where there are fewer than fit into registers */
/* A group of a packed column of sixteen: its words, their scales and their offsets. */
#define GROUP_BYTES ((GROUP_WORDS + 2) * STEP)
/* A group of a row: its integers and their sum. Those of a block's rows lie beside each other. */
#define ROW_BYTES (GROUP + 4)

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

int waymark_linear_int4_many(struct linear *given) {
    return given->rows <= FEW_ROWS ? few_int4(given) : multiply_as_integers(given);
}

#endif
