/* Rows times matrices of GGUF blocks: see blocks.h. */
#include "linear/block_product.h"
#include "linear/product.h"

/* ------------------------------------------------------------------ products of each shape */

INLINE void few_of_column(struct shape shape, const struct block_type *type, const char *tile,
                          long blocks, const struct row_block *row, long rows, long stride,
                          float *totals) {
    struct scales scales __attribute__((aligned(64)));
    int8_t values[16];
    long bytes = tile_bytes(type);
    moved_values(type, values);
    memset(totals, 0, rows * COLUMN * sizeof *totals);
    for (long block = 0; block < blocks; block++, tile += bytes, row += stride) {
        struct tiles_of_block tiles = {tile, &scales, 0, values};
        for (long ahead = 0; ahead < bytes; ahead += 64) __builtin_prefetch(tile + AHEAD + ahead);
        unpack_scales(shape, type, tile, &scales);
        multiply_all(shape, type->offsets, smaller(4, ROWS_AT_ONCE), PIECES, tiles, row, rows,
                     totals, COLUMN);
    }
}

INLINE void unpack(struct shape shape, const struct block_type *type, const char *tile, char *to,
                   struct scales *scales) {
    int8_t values[16];
    moved_values(type, values);
    for (int group = 0; group < GROUPS_OF_BLOCK; group++)
        for (int word = 0; word < GROUP_WORDS; word++, to += STEP)
            for (int piece = 0; piece < STEP; piece += REGISTER) {
                word_lanes found = load_codes(shape, values, tile + piece, group, word);
                memcpy(to + piece, &found, sizeof found);
            }
    unpack_scales(shape, type, tile, scales);
}

/* Of a shape's name, which is a macro. */
#define SHAPE(name)                                                                                \
    static void few_##name(const struct block_type *type, const char *tile, long blocks,           \
                           const struct row_block *row, long rows, long stride, float *totals) {   \
        few_of_column((struct shape)name, type, tile, blocks, row, rows, stride, totals);          \
    }                                                                                              \
    static void unpack_##name(const struct block_type *type, const char *tile, char *codes,        \
                              struct scales *scales) {                                             \
        unpack((struct shape)name, type, tile, codes, scales);                                     \
    }
/* Of unpacked tiles, whose groups and largest codes matter alone. */
#define MANY(name, ...)                                                                            \
    static void many_##name(int offsets, struct tiles_of_block tiles, const struct row_block *row, \
                            long rows, float *totals) {                                            \
        const struct shape shape = {8, __VA_ARGS__};                                               \
        multiply_all(shape, offsets, ROWS_AT_ONCE, TILES_AT_ONCE * PIECES, tiles, row, rows,       \
                     totals, TILES_AT_ONCE * COLUMN);                                              \
    }
#define TYPE(name, product)                                                                        \
    .shape = name, .few = few_##name, .unpack = unpack_##name, .many = many_##product

#define LOW {.bits = 4, .group = 32, .largest = 15}
#define LOW_INTEGERS {.bits = 4, .group = 32, .integers = 1, .largest = 15}
#define LOW_SHORT {.bits = 4, .group = 16, .integers = 1, .largest = 15}
#define FIVE {.bits = 5, .group = 32, .largest = 31}
#define FIVE_INTEGERS {.bits = 5, .group = 32, .integers = 1, .largest = 31}
#define SIX {.bits = 6, .group = 16, .integers = 1, .largest = 63}
#define EIGHT {.bits = 8, .group = 32}
#define TABLE {.bits = 4, .group = 32, .lookup = 1}
#define TABLE_INTEGERS {.bits = 4, .group = 32, .integers = 1, .lookup = 1}
#define TABLE_SHORT {.bits = 4, .group = 16, .lookup = 1}
#define TABLE_SHORT_INTEGERS {.bits = 4, .group = 16, .integers = 1, .lookup = 1}
SHAPE(LOW)
SHAPE(LOW_INTEGERS)
SHAPE(LOW_SHORT)
SHAPE(FIVE)
SHAPE(FIVE_INTEGERS)
SHAPE(SIX)
SHAPE(EIGHT)
SHAPE(TABLE)
SHAPE(TABLE_INTEGERS)
SHAPE(TABLE_SHORT)
SHAPE(TABLE_SHORT_INTEGERS)

MANY(numbers, .group = 32, .unpacked = 1)
MANY(integers, .group = 32, .integers = 1, .unpacked = 1)
MANY(short_numbers, .group = 16, .unpacked = 1)
MANY(short_integers, .group = 16, .integers = 1, .unpacked = 1)
#if HAS_QUADS /* their sums have room for any codes */
#define many_numbers_15 many_numbers
#define many_numbers_31 many_numbers
#define many_integers_15 many_integers
#define many_integers_31 many_integers
#define many_short_integers_15 many_short_integers
#define many_short_integers_63 many_short_integers
#else
MANY(numbers_15, .group = 32, .unpacked = 1, .largest = 15)
MANY(numbers_31, .group = 32, .unpacked = 1, .largest = 31)
MANY(integers_15, .group = 32, .integers = 1, .unpacked = 1, .largest = 15)
MANY(integers_31, .group = 32, .integers = 1, .unpacked = 1, .largest = 31)
MANY(short_integers_15, .group = 16, .integers = 1, .unpacked = 1, .largest = 15)
MANY(short_integers_63, .group = 16, .integers = 1, .unpacked = 1, .largest = 63)
#endif

#define NON_LINEAR {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
#define FLOAT4 {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
/* Of grids: the upper half of a table is that of the lower one with the other sign, or an IQ1 grid
 * lowered instead of raised by an eighth, in eighths. */
#define TWO_BITS {8, 25, 43, [8] = -8, -25, -43}
#define THREE_BITS {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62}
#define ODD {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15}
#define ONE_BIT {-7, 1, 9, [8] = -9, -1, 7}

static const struct block_type TYPES[] = {
    [Q4_0] = {TYPE(LOW, numbers_15), .bias = 8},
    [Q4_1] = {TYPE(LOW, numbers_15), .offsets = 1},
    [Q5_0] = {TYPE(FIVE, numbers_31), .bias = 16},
    [Q5_1] = {TYPE(FIVE, numbers_31), .offsets = 1},
    [Q8_0] = {TYPE(EIGHT, numbers)},
    [Q2_K] = {TYPE(LOW_SHORT, short_integers_15), .offsets = 1},
    [Q3_K] = {TYPE(LOW_SHORT, short_integers_15), .bias = 4},
    [Q4_K] = {TYPE(LOW_INTEGERS, integers_15), .offsets = 1},
    [Q5_K] = {TYPE(FIVE_INTEGERS, integers_31), .offsets = 1},
    [Q6_K] = {TYPE(SIX, short_integers_63), .bias = 32},
    [IQ2_XXS] = {TYPE(TABLE_INTEGERS, integers), .halved = 3, .values = TWO_BITS},
    [IQ2_XS] = {TYPE(TABLE_SHORT_INTEGERS, short_integers), .halved = 3, .values = TWO_BITS},
    [IQ3_XXS] = {TYPE(TABLE_INTEGERS, integers), .halved = 2, .values = THREE_BITS},
    [IQ1_S] = {TYPE(TABLE_INTEGERS, integers), .halved = 3, .values = ONE_BIT},
    [IQ4_NL] = {TYPE(TABLE, numbers), .values = NON_LINEAR},
    [IQ3_S] = {TYPE(TABLE_INTEGERS, integers), .values = ODD},
    [IQ2_S] = {TYPE(TABLE_SHORT_INTEGERS, short_integers), .halved = 3, .values = TWO_BITS},
    [IQ4_XS] = {TYPE(TABLE_INTEGERS, integers), .values = NON_LINEAR},
    [IQ1_M] = {TYPE(TABLE_SHORT_INTEGERS, short_integers), .halved = 3, .values = ONE_BIT},
    [TQ1_0] = {TYPE(LOW_INTEGERS, integers_15), .bias = 1},
    [TQ2_0] = {TYPE(LOW_INTEGERS, integers_15), .bias = 1},
    [MXFP4] = {TYPE(TABLE, numbers), .bfloat = 1, .values = FLOAT4},
    [NVFP4] = {TYPE(TABLE_SHORT, short_numbers), .values = FLOAT4},
};

const struct block_type *block_type_of(int id) {
    int known = id >= 0 && id < (int)(sizeof TYPES / sizeof *TYPES) && TYPES[id].few;
    return known ? TYPES + id : NULL;
}

/* Bytes of the tiles of COLUMN outputs; 0 if the type has no kernel. */
long waymark_column_bytes(int id, long inputs) {
    const struct block_type *type = block_type_of(id);
    return type ? tiles_of_row(inputs) * tile_bytes(type) : 0;
}

/* ------------------------------------------------------------------ rows */

struct taking {
    const struct linear *given;
    const struct block_type *type;
    struct row_block *to; /* block b of row r is at [b * rows + r] */
};

INLINE void read_numbers(const struct linear *given, long row, long start, int is_bfloat,
                         float *to) {
    const int32_t *places = given->places;
    long count = smaller(BLOCK_INPUTS, given->inputs - start), first = row * given->given;
    if (places)
        for (long each = 0; each < count; each++)
            to[each] = read_number(given->from, first + places[start + each], is_bfloat);
    else
        for (long each = 0; each < count; each++)
            to[each] = read_number(given->from, first + start + each, is_bfloat);
}

static void take_block(const struct taking *all, long row, long block) {
    const struct linear *given = all->given;
    const struct shape shape = all->type->shape;
    struct row_block *to = all->to + block * given->rows + row;
    float numbers[BLOCK_INPUTS] = {0};
    if (given->is_bfloat)
        read_numbers(given, row, block * BLOCK_INPUTS, 1, numbers);
    else
        read_numbers(given, row, block * BLOCK_INPUTS, 0, numbers);
    long some = scale_inputs(shape);
    struct linear alone = {.from = numbers, .inputs = some, .given = some};
    for (long each = 0; each < BLOCK_INPUTS / some; each++)
        to->scales[each] = quantise_row(&alone, each, to->integers + each * some);
    int bias = shape.largest ? all->type->bias : -LOWEST_BYTE;
    for (int group = 0; group < groups_of(shape); group++) {
        int32_t total = 0;
        for (int each = 0; each < shape.group; each++)
            total += to->integers[group * shape.group + each];
        if (shape.integers)
            to->sums.integers[group] = (int16_t)total;
        else if (shape.group == GROUP)
            to->sums.numbers[group] = (float)total * to->scales[group];
        to->corrections[group] = -bias * total;
    }
}

static void take_row(const void *arguments, long row) {
    const struct taking *all = arguments;
    for (long block = 0; block < tiles_of_row(all->given->inputs); block++)
        take_block(all, row, block);
}

void round_rows(const struct linear *given, struct row_block *to) {
    struct taking all = {given, block_type_of(given->format), to};
    pool_each(take_row, &all, given->rows, given->inputs, given->threads);
}

/* ------------------------------------------------------------------ a few rows */

/* Static, because a late thread may still read them. Each row may have one block in part. */
static struct row_block step_rows[MOST_NUMBERS / BLOCK_INPUTS + MOST_STEP_ROWS];

static void take_rows(const struct linear *all) {
    round_rows(all, step_rows);
}

/* As multiply_rows. */
static void part_of_rows(const struct linear *all, long part, long row, long count, float *to) {
    const struct block_type *type = block_type_of(all->format);
    long end = end_of_outputs(all, part), blocks = tiles_of_row(all->inputs);
    for (long output = first_output(all, part); output < end; output += COLUMN, to += COLUMN) {
        float totals[AT_ONCE * COLUMN];
        const char *tile = (const char *)all->weight + output / COLUMN * blocks * tile_bytes(type);
        type->few(type, tile, blocks, step_rows + row, count, all->rows, totals);
        for (long each = 0, outputs = smaller(COLUMN, end - output); each < count; each++) {
            scale_outputs(all, output, outputs, totals + each * COLUMN);
            memcpy(to + each * all->outputs_of_part, totals + each * COLUMN,
                   outputs * sizeof *totals);
        }
    }
}

PRODUCTS(blocks, waymark_column_bytes(all->format, all->inputs) / COLUMN, COLUMN)
