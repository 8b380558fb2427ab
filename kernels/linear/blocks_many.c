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
/* A tile as AMX multiplies it: signed bytes. If scales are integers, codes are multiplied by them
 * first: 256 times the first half of all plus the second. */
#define TILE_CODES (COLUMN * BLOCK_INPUTS)
#define SPREAD_BYTES (2 * TILE_CODES)
/* Fewer rows go through vectors, alone and behind whole BLOCKs, for which tiles are spread anyway.
 */
#define FEWEST_ALONE 24
#define FEWEST_BEHIND 16

static byte_lanes signed_codes(int bias, const char *codes) {
    return (byte_lanes)load_words(codes) - (byte_lanes)every_byte((uint8_t)bias);
}

static void spread_codes(int bias, const char *codes, char *to) {
    for (long place = 0; place < TILE_CODES; place += REGISTER) {
        byte_lanes found = signed_codes(bias, codes + place);
        memcpy(to + place, &found, sizeof found);
    }
}

static void spread_products(int bias, const char *codes, const struct scales *scales,
                            long group_bytes, char *to) {
    for (long place = 0; place < TILE_CODES; place += REGISTER) {
        word_lanes scale = load_words(scales->of_groups[place / group_bytes] + place % STEP);
        short_lanes both = (short_lanes)((scale & 0xffff) | scale << 16);
        byte_lanes found = signed_codes(bias, codes + place);
        short_lanes even = ((short_lanes)((unsigned_shorts)found << 8) >> 8) * both;
        short_lanes odd = ((short_lanes)found >> 8) * both;
        /* Halves round to the byte above, so that the lower byte may be negative. */
        unsigned_shorts high = (unsigned_shorts)(even + 128) >> 8;
        high |= (unsigned_shorts)(odd + 128) & 0xff00;
        unsigned_shorts low = ((unsigned_shorts)even & 0xff) | (unsigned_shorts)odd << 8;
        memcpy(to + place, &high, sizeof high);
        memcpy(to + TILE_CODES + place, &low, sizeof low);
    }
}

static void spread_tile(const struct block_type *type, const char *codes,
                        const struct scales *scales, char *to) {
    int bias = type->shape.largest ? type->bias : -LOWEST_BYTE;
    if (type->shape.integers)
        spread_products(bias, codes, scales, type->shape.group / 4 * STEP, to);
    else
        spread_codes(bias, codes, to);
}

/* A BLOCK of rows times `words` words of spread tiles, in registers. */
INLINE void multiply_spread(const int8_t *left, const char *right, long words) {
    struct product product = {.left = (const char *)left,
                              .right = right,
                              .left_stride = sizeof(struct row_block),
                              .right_stride = SPREAD_BYTES,
                              .words = words};
    multiply_in_registers(1, &product);
}

/* Vectors take about as long as AMX. So they add what is in memory while AMX multiplies what comes
 * next, which is stored after that: loads would wait for stores to addresses like theirs. */

INLINE void add_group(int offsets, int group, const int32_t *found, const struct scales *scales,
                      const struct row_block *row, float *sums, float *totals) {
    const struct shape numbers = {.group = GROUP};
    for (int place = 0; place < WIDTH; place += LANES) {
        const struct scales *own = scales + place / COLUMN;
        const long at = place % COLUMN * 4;
        floats scale = (floats)load_words(own->of_groups[group] + at);
        floats offset = load_offsets(offsets, own, group, at);
        for (long each = 0; each < BLOCK; each++) {
            long to = each * WIDTH + place;
            union block_sum sum = {.numbers = group ? load_floats(sums + to) : (floats){0}};
            sum.numbers = add_numbers(numbers, offsets, load_words(found + to), scale, offset,
                                      row + each, group, sum.numbers);
            if (group == GROUPS_OF_BLOCK - 1)
                add_block(numbers, offsets, own, at, row + each, sum, totals + to);
            else
                store_floats(sums + to, sum.numbers);
        }
    }
}

INLINE void numbers_on_tiles(int offsets, const char *spread, const struct scales *scales,
                             const struct row_block *row, long rows, float *totals) {
    int32_t found[BLOCK * WIDTH] __attribute__((aligned(64)));
    float sums[BLOCK * WIDTH] __attribute__((aligned(64)));
    const long steps = rows / BLOCK * GROUPS_OF_BLOCK;
    for (long step = 0; step <= steps; step++) {
        const long next = step / GROUPS_OF_BLOCK * BLOCK, group = step % GROUPS_OF_BLOCK;
        if (step < steps)
            multiply_spread(row[next].integers + group * GROUP, spread + group * GROUP_WORDS * STEP,
                            GROUP_WORDS);
        if (step > 0) {
            const long own = (step - 1) / GROUPS_OF_BLOCK * BLOCK;
            add_group(offsets, (step - 1) % GROUPS_OF_BLOCK, found, scales, row + own, sums,
                      totals + own * WIDTH);
        }
        if (step < steps) store_block((char *)found, WIDTH * 4);
    }
}

/* Adds half of a BLOCK of rows. */
INLINE void add_integers(struct shape shape, int offsets, const int32_t *high, const int32_t *low,
                         const struct scales *scales, const struct row_block *row, float *totals) {
    for (int place = 0; place < WIDTH; place += LANES)
#pragma GCC unroll 4
        for (long each = 0; each < BLOCK / 2; each++) {
            long to = each * WIDTH + place;
            union block_sum sum = {.integers = (load_words(high + to) << 8) + load_words(low + to)};
            add_block(shape, offsets, scales + place / COLUMN, place % COLUMN * 4, row + each, sum,
                      totals + to);
        }
}

INLINE void integers_on_tiles(struct shape shape, int offsets, const char *spread,
                              const struct scales *scales, const struct row_block *row, long rows,
                              float *totals) {
    int32_t found[2][2][BLOCK * WIDTH] __attribute__((aligned(64)));
    for (long next = 0; next <= rows; next += BLOCK)
        for (int half = 0; half < 2; half++) {
            const long own = next - BLOCK + half * TILE;
            if (next < rows)
                multiply_spread(row[next].integers, spread + half * TILE_CODES, BLOCK_INPUTS / 4);
            if (next > 0) {
                int32_t (*of)[BLOCK * WIDTH] = found[(next / BLOCK + 1) % 2];
                add_integers(shape, offsets, of[0] + half * TILE * WIDTH,
                             of[1] + half * TILE * WIDTH, scales, row + own, totals + own * WIDTH);
            }
            if (next < rows) store_block((char *)found[next / BLOCK % 2][half], WIDTH * 4);
        }
}

static void multiply_on_tiles(const struct block_type *type, const char *spread,
                              const struct scales *scales, const struct row_block *row, long rows,
                              float *totals) {
    const struct shape integers = {.group = 32, .integers = 1};
    const struct shape shorts = {.group = 16, .integers = 1};
    if (!type->shape.integers && type->offsets)
        numbers_on_tiles(1, spread, scales, row, rows, totals);
    else if (!type->shape.integers)
        numbers_on_tiles(0, spread, scales, row, rows, totals);
    else if (!type->offsets)
        integers_on_tiles(integers, 0, spread, scales, row, rows, totals);
    else if (type->shape.group == 32)
        integers_on_tiles(integers, 1, spread, scales, row, rows, totals);
    else
        integers_on_tiles(shorts, 1, spread, scales, row, rows, totals);
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
    long rest = given->rows % BLOCK, fewest = given->rows < BLOCK ? FEWEST_ALONE : FEWEST_BEHIND;
    int pays = type->shape.integers || type->shape.group == GROUP;
    if (!pays || !tiles_allowed()) return 0;
    return given->rows - rest + (rest < fewest ? 0 : BLOCK);
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
    float *totals = room_of_part(rows * WIDTH * sizeof *totals, all->failed);
    struct tiles own;
    (void)result;
    if (!totals) return;
    tiles_begin(&own, all->on_tiles > 0, all->type->shape.integers ? COLUMN : GROUP_WORDS);
    for (long output = first_output(given, part); output < end; output += WIDTH) {
        const char *tile =
            (const char *)given->weight + output / COLUMN * blocks * tile_bytes(all->type);
        memset(totals, 0, rows * WIDTH * sizeof *totals);
        some_columns(all, tile, pool_parts(end - output, COLUMN), totals);
        for (long row = 0, count = smaller(WIDTH, end - output); row < given->rows; row++) {
            scale_outputs(given, output, count, totals + row * WIDTH);
            put_row(given, totals + row * WIDTH, row, output, count);
        }
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
    round_rows(given, all.rows);
    share_outputs(columns_of_many, given, &all, WIDTH);
    free(all.rows);
    return !failed;
}
