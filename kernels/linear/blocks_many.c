/* Many rows times matrices of GGUF blocks, whose tiles are unpacked first (blocks.h).
 *
 * On AMX each BLOCK of rows is multiplied by two columns at once: the sums are exact integers, and
 * are scaled and added up in the order of block_product.h, so bits are those of vectors. Vectors
 * multiply the rows left over.
 */
#include <stdlib.h>

#include "linear/block_product.h"
#include "linear/many.h"

/* ------------------------------------------------------------------ AMX */

#define WIDTH (TILES_AT_ONCE * COLUMN) /* outputs at once */
/* A tile as AMX multiplies it: signed bytes, less their bias. If scales are integers, the codes
 * times them, which take two bytes. If they are numbers, a product for each group. */
#define SPREAD_BYTES (2 * COLUMN * BLOCK_INPUTS)
#define MOST_PRODUCTS GROUPS_OF_BLOCK /* of a tile with a block of a row */
/* Fewer rows left over than these go through vectors. */
#define FEWEST_ROWS 12

/* Groups of a row lie in pairs of sixteen words, so that a group's other half is zeros. */
static void spread_codes(int bias, const char *codes, char *to) {
    const word_lanes every = every_byte((uint8_t)bias);
    const long half = GROUP_WORDS * STEP;
    for (int group = 0; group < GROUPS_OF_BLOCK; group++, codes += half, to += 2 * half) {
        char *own = to + group % 2 * half;
        memset(to + (1 - group % 2) * half, 0, half);
        for (long place = 0; place < half; place += REGISTER) {
            byte_lanes found = (byte_lanes)load_words(codes + place) - (byte_lanes)every;
            memcpy(own + place, &found, sizeof found);
        }
    }
}

/* Codes times scales as 256 times a byte plus a byte: all of the first, then all of the second. */
static void spread_products(struct shape shape, int bias, const char *codes,
                            const struct scales *scales, char *to) {
    const word_lanes every = every_byte((uint8_t)bias);
    const long group_bytes = shape.group / 4 * STEP;
    for (long place = 0; place < COLUMN * BLOCK_INPUTS; place += REGISTER) {
        word_lanes scale = load_words(scales->of_groups[place / group_bytes] + place % STEP);
        short_lanes both = (short_lanes)((scale & 0xffff) | scale << 16);
        byte_lanes found = (byte_lanes)load_words(codes + place) - (byte_lanes)every;
        short_lanes even = ((short_lanes)((unsigned_shorts)found << 8) >> 8) * both;
        short_lanes odd = ((short_lanes)found >> 8) * both;
        unsigned_shorts high = (unsigned_shorts)(even + 128) >> 8;
        high |= (unsigned_shorts)(odd + 128) & 0xff00;
        unsigned_shorts low = ((unsigned_shorts)even & 0xff) | (unsigned_shorts)odd << 8;
        memcpy(to + place, &high, sizeof high);
        memcpy(to + SPREAD_BYTES / 2 + place, &low, sizeof low);
    }
}

static void spread_tile(const struct block_type *type, const char *codes,
                        const struct scales *scales, char *to) {
    int bias = type->shape.largest ? type->bias : -LOWEST_BYTE;
    if (type->shape.integers)
        spread_products(type->shape, bias, codes, scales, to);
    else
        spread_codes(bias, codes, to);
}

/* Adds what was found of a BLOCK of rows, [products, BLOCK, WIDTH], to their totals. */
INLINE void add_found(struct shape shape, int offsets, const int32_t *found,
                      const struct scales *scales, const struct row_block *row, float *totals) {
    for (int place = 0; place < WIDTH; place += LANES)
        for (int each = 0; each < BLOCK; each += 4) {
            const struct scales *own = scales + place / COLUMN;
            long at = place % COLUMN * 4;
            union block_sum sums[4] = {0};
#pragma GCC unroll 8
            for (int group = 0; group < (shape.integers ? 1 : GROUPS_OF_BLOCK); group++)
#pragma GCC unroll 4
                for (int next = 0; next < 4; next++) {
                    const int32_t *from = found + (group * BLOCK + each + next) * WIDTH + place;
                    word_lanes first = load_words(from);
                    if (shape.integers)
                        sums[next].integers = (first << 8) + load_words(from + BLOCK * WIDTH);
                    else
                        add_scaled(shape, offsets, own, at, row + each + next, group, first,
                                   sums + next);
                }
#pragma GCC unroll 4
            for (int next = 0; next < 4; next++)
                add_block(shape, offsets, own, at, row + each + next, sums[next],
                          totals + (each + next) * WIDTH + place);
        }
}

static void add_of_type(const struct block_type *type, const int32_t *found,
                        const struct scales *scales, const struct row_block *row, float *totals) {
    const struct shape numbers = {.group = 32}, integers = {.group = 32, .integers = 1};
    const struct shape shorts = {.group = 16, .integers = 1};
    if (!type->shape.integers && type->offsets)
        add_found(numbers, 1, found, scales, row, totals);
    else if (!type->shape.integers)
        add_found(numbers, 0, found, scales, row, totals);
    else if (!type->offsets)
        add_found(integers, 0, found, scales, row, totals);
    else if (type->shape.group == 32)
        add_found(integers, 1, found, scales, row, totals);
    else
        add_found(shorts, 1, found, scales, row, totals);
}

static void multiply_on_tiles(const struct block_type *type, const char *spread,
                              const struct scales *scales, const struct row_block *row, long rows,
                              float *totals) {
    int32_t found[MOST_PRODUCTS * BLOCK * WIDTH] __attribute__((aligned(64)));
    const int integers = type->shape.integers;
    for (; rows > 0; rows -= BLOCK, row += BLOCK, totals += BLOCK * WIDTH) {
        for (int each = 0; each < (integers ? 2 : GROUPS_OF_BLOCK); each++) {
            long words = integers ? BLOCK_INPUTS / 4 : 2 * GROUP_WORDS;
            struct product product = {.left = (const char *)row->integers +
                                              (integers ? 0 : each / 2 * STEP),
                                      .right = spread + each * words * STEP,
                                      .to = (char *)(found + each * BLOCK * WIDTH),
                                      .left_stride = sizeof *row,
                                      .right_stride = SPREAD_BYTES,
                                      .to_stride = WIDTH * 4,
                                      .words = words,
                                      .columns = TILES_AT_ONCE};
            multiply(1, OF_INT8, product);
        }
        add_of_type(type, found, scales, row, totals);
    }
}

/* ------------------------------------------------------------------ many rows */

struct many_blocks {
    const struct linear *given;
    const struct block_type *type;
    struct row_block *rows;
    long on_tiles; /* rows: whole BLOCKs, the last of which may have padding */
    int *failed;
};

/* How many rows go through AMX. */
static long rows_on_tiles(const struct linear *given, const struct block_type *type) {
    long rest = given->rows % BLOCK;
    int pays = type->shape.integers || type->shape.group == GROUP_INPUTS;
    if (!pays || !tiles_allowed()) return 0;
    return given->rows - rest + (rest < FEWEST_ROWS ? 0 : BLOCK);
}

/* TILES_AT_ONCE columns, of which `columns` are there, of all rows. */
static void some_columns(const struct many_blocks *all, const char *tile, long columns,
                         float *totals) {
    char codes[TILES_AT_ONCE][COLUMN * BLOCK_INPUTS] __attribute__((aligned(64)));
    char spread[TILES_AT_ONCE][SPREAD_BYTES] __attribute__((aligned(64)));
    struct scales scales[TILES_AT_ONCE] __attribute__((aligned(64)));
    const struct tiles_of_block tiles = {codes[0], scales, sizeof *codes, NULL};
    const struct block_type *type = all->type;
    const struct row_block *row = all->rows;
    long blocks = tiles_of_row(all->given->inputs), rest = all->given->rows - all->on_tiles;
    for (long block = 0; block < blocks; block++, tile += tile_bytes(type)) {
        for (int column = 0; column < TILES_AT_ONCE; column++) {
            long place = smaller(column, columns - 1) * blocks;
            type->unpack(type, tile + place * tile_bytes(type), codes[column], scales + column);
            if (all->on_tiles) spread_tile(type, codes[column], scales + column, spread[column]);
        }
        multiply_on_tiles(type, spread[0], scales, row, all->on_tiles, totals);
        if (rest > 0)
            type->many(type->offsets, tiles, row + all->on_tiles, rest,
                       totals + all->on_tiles * WIDTH);
        row += all->given->rows;
    }
}

static void columns_of_many(const void *arguments, long part, void *result) {
    const struct many_blocks *all = arguments;
    const struct linear *given = all->given;
    long end = end_of_outputs(given, part), blocks = tiles_of_row(given->inputs);
    long rows = given->rows > all->on_tiles ? given->rows : all->on_tiles;
    float *totals = aligned_alloc(STEP, rows * WIDTH * sizeof *totals);
    struct tiles own;
    (void)result;
    if (!totals) {
        __atomic_store_n(all->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    tiles_begin(&own, all->on_tiles > 0);
    for (long output = first_output(given, part); output < end; output += WIDTH) {
        const char *tile =
            (const char *)given->weight + output / COLUMN * blocks * tile_bytes(all->type);
        memset(totals, 0, rows * WIDTH * sizeof *totals);
        some_columns(all, tile, pool_parts(end - output, COLUMN), totals);
        for (long row = 0; row < given->rows; row++)
            put_row(given, totals + row * WIDTH, row, output, smaller(WIDTH, end - output));
    }
    tiles_end(&own, all->on_tiles > 0);
    free(totals);
}

int waymark_linear_blocks_many(struct linear *given) {
    int failed = 0;
    const struct block_type *type = block_type_of(given->format);
    long blocks = tiles_of_row(given->inputs) * given->rows;
    struct many_blocks all = {given, type, NULL, rows_on_tiles(given, type), &failed};
    all.rows = aligned_alloc(STEP, (blocks + BLOCK) * sizeof *all.rows);
    if (!all.rows) return 0;
    memset(all.rows + blocks, 0, BLOCK * sizeof *all.rows); /* the last block's padding */
    take_rows(given, all.rows);
    given->outputs_of_part =
        WIDTH * pool_share(pool_parts(given->outputs, WIDTH), 1, given->threads);
    pool_rows(columns_of_many, &all, pool_parts(given->outputs, given->outputs_of_part),
              given->threads);
    free(all.rows);
    return !failed;
}
