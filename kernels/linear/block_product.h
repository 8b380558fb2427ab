/* Rows by tiles of blocks, as many as stay in registers. */
#ifndef WAYMARK_BLOCK_PRODUCT_H
#define WAYMARK_BLOCK_PRODUCT_H

#include "linear/blocks.h"

/* Columns whose tiles are unpacked before many rows are multiplied. */
#define TILES_AT_ONCE COLUMNS_AT_ONCE

/* Neighbouring columns of tiles. */
struct tiles_of_block {
    const char *codes;
    const struct scales *scales;
    long stride; /* of codes, from one column to the next */
    const int8_t *values;
};

/* Words whose products are added up in 32 bits, or in 16: pairs of 15, 31, 63, or 128, times 127.
 */
INLINE int words_of_sum(struct shape shape) {
    if (HAS_QUADS) return GROUP_WORDS;
    return shape.largest == 15 ? 8 : shape.largest == 31 ? 4 : shape.largest == 63 ? 2 : 1;
}

/* Adds the products of signed bytes, in pairs of 16 bits. */
INLINE word_lanes add_signed(word_lanes total, word_lanes left, word_lanes right) {
#if REGISTER == 64
    __m512i size = _mm512_abs_epi8((__m512i)right);
    __m512i other = _mm512_mask_sub_epi8((__m512i)left, _mm512_movepi8_mask((__m512i)right),
                                         _mm512_setzero_si512(), (__m512i)left);
    return (word_lanes)((short_lanes)total + (short_lanes)_mm512_maddubs_epi16(size, other));
#elif REGISTER == 32
    __m256i size = _mm256_abs_epi8((__m256i)right);
    __m256i other = _mm256_sign_epi8((__m256i)left, (__m256i)right);
    return (word_lanes)((short_lanes)total + (short_lanes)_mm256_maddubs_epi16(size, other));
#elif defined(__SSSE3__)
    __m128i size = _mm_abs_epi8((__m128i)right);
    __m128i other = _mm_sign_epi8((__m128i)left, (__m128i)right);
    return (word_lanes)((short_lanes)total + (short_lanes)_mm_maddubs_epi16(size, other));
#else
    return add_small(total, left, right);
#endif
}

/* a b + c rounded once, if processors of this level can; written out, since compilers choose
 * differently for the same expression. */
INLINE floats multiply_add(floats a, floats b, floats c) {
#if REGISTER == 64
    return (floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif REGISTER == 32
    return (floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif ARM64
    return (floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

/* Sums of a block that are not finished: of groups with integers as scales, or with numbers. */
union block_sum {
    word_lanes integers;
    floats numbers;
};

/* Adds a group of 16 or 32 inputs whose scales are numbers. */
INLINE floats add_numbers(struct shape shape, int offsets, word_lanes found, floats scale,
                          floats offset, const struct row_block *row, int group, floats sum) {
    floats of_row = (floats)each_lane(row->scales + group * shape.group / GROUP);
    sum = multiply_add(__builtin_convertvector(found, floats), scale * of_row, sum);
    if (!offsets) return sum;
    return multiply_add((floats)each_lane(row->sums.numbers + group), offset, sum);
}

INLINE floats load_offsets(int offsets, const struct scales *scales, int group, long at) {
    return offsets ? (floats)load_words(scales->offsets[group] + at) : (floats){0};
}

/* Adds a group to what there is of its block. */
INLINE void add_scaled(struct shape shape, int offsets, const struct scales *scales, long at,
                       const struct row_block *row, int group, word_lanes found,
                       union block_sum *sum) {
    word_lanes scale = load_words(scales->of_groups[group] + at);
    if (shape.integers) {
        sum->integers += found * scale;
        return;
    }
    sum->numbers = add_numbers(shape, offsets, found, (floats)scale,
                               load_offsets(offsets, scales, group, at), row, group, sum->numbers);
}

INLINE floats whole_block(struct shape shape, int offsets, const struct scales *scales, long at,
                          const struct row_block *row, union block_sum sum) {
    if (!shape.integers) return sum.numbers;
    floats scale = (floats)load_words((const char *)scales->of_block + at);
    floats found = __builtin_convertvector(sum.integers, floats) * scale;
    if (!offsets) return found;
    word_lanes total = {0};
    for (int pair = 0; pair < groups_of(shape) / 2; pair++)
        total = add_shorts(total, load_words(scales->offsets[pair] + at),
                           each_lane(row->sums.integers + 2 * pair));
    scale = (floats)load_words((const char *)scales->offset_of_block + at);
    return multiply_add(__builtin_convertvector(total, floats), -scale, found);
}

/* Adds a whole block of a row to its total. */
INLINE void add_block(struct shape shape, int offsets, const struct scales *scales, long at,
                      const struct row_block *row, union block_sum sum, float *to) {
    floats found = whole_block(shape, offsets, scales, at, row, sum);
    floats scale = (floats)each_lane(row->scales);
    store_floats(to, shape.integers ? multiply_add(found, scale, load_floats(to))
                                    : load_floats(to) + found);
}

/* The rows and tiles of a product, whose numbers of rows and pieces are constant like `shape`. A
 * piece is a register of outputs. */
struct few_tiles {
    struct tiles_of_block tiles;
    const struct row_block *row;
    int rows, pieces;
};

/* Adds a group to the sums of its block. */
INLINE void multiply_group(struct shape shape, int offsets, const struct few_tiles *all, int group,
                           union block_sum sums[][COLUMNS_AT_ONCE * PIECES]) {
    const struct tiles_of_block tiles = all->tiles;
    const struct row_block *row = all->row;
    const int rows = all->rows, pieces = all->pieces;
    const int words = shape.group / 4, some = smaller(words_of_sum(shape), words);
    word_lanes found[ROWS_AT_ONCE][COLUMNS_AT_ONCE * PIECES];
    const int of_tile = group * shape.group / GROUP;
    const int before = group * words % GROUP_WORDS; /* words of a smaller group's neighbour */
#pragma GCC unroll 16
    for (int each = 0; each < rows; each++)
#pragma GCC unroll 16
        for (int piece = 0; piece < pieces; piece++)
            found[each][piece] = each_lane(row[each].corrections + group);
#pragma GCC unroll 8
    for (int first = 0; first < words; first += some) {
        word_lanes pairs[ROWS_AT_ONCE][COLUMNS_AT_ONCE * PIECES] = {{{0}}};
#pragma GCC unroll 8
        for (int word = first; word < first + some; word++) {
            word_lanes codes[COLUMNS_AT_ONCE * PIECES];
#pragma GCC unroll 16
            for (int piece = 0; piece < pieces; piece++)
                codes[piece] = load_codes(shape, tiles.values,
                                          tiles.codes + piece / PIECES * tiles.stride +
                                              piece % PIECES * REGISTER,
                                          of_tile, before + word);
#pragma GCC unroll 16
            for (int each = 0; each < rows; each++) {
                word_lanes left = each_lane(row[each].integers + group * shape.group + 4 * word);
#pragma GCC unroll 16
                for (int piece = 0; piece < pieces; piece++) {
                    word_lanes *to = HAS_QUADS ? &found[each][piece] : &pairs[each][piece];
                    *to = HAS_QUADS       ? add_quads(*to, left, codes[piece])
                          : shape.largest ? add_small(*to, left, codes[piece])
                                          : add_signed(*to, left, codes[piece]);
                    KEEP_IN_REGISTER(*to);
                }
            }
        }
#pragma GCC unroll 16
        for (int each = 0; each < rows && !HAS_QUADS; each++)
#pragma GCC unroll 16
            for (int piece = 0; piece < pieces; piece++)
                found[each][piece] += sum_of_shorts(pairs[each][piece]);
    }
#pragma GCC unroll 16
    for (int each = 0; each < rows; each++)
#pragma GCC unroll 16
        for (int piece = 0; piece < pieces; piece++)
            add_scaled(shape, offsets, tiles.scales + piece / PIECES, piece % PIECES * REGISTER,
                       row + each, group, found[each][piece], &sums[each][piece]);
}

/* Adds a block of `rows` rows to their totals [rows, stride]. */
INLINE void multiply_tiles(struct shape shape, int offsets, int rows, int pieces,
                           struct tiles_of_block tiles, const struct row_block *row, float *totals,
                           long stride) {
    union block_sum sums[ROWS_AT_ONCE][COLUMNS_AT_ONCE * PIECES] = {0};
    const struct few_tiles all = {tiles, row, rows, pieces};
    if (rows == 1) { /* with constant groups two of them share loads, and shifts are constant */
#pragma GCC unroll 16
        for (int group = 0; group < groups_of(shape); group++)
            multiply_group(shape, offsets, &all, group, sums);
    } else {
        for (int group = 0; group < groups_of(shape); group++)
            multiply_group(shape, offsets, &all, group, sums);
    }
#pragma GCC unroll 16
    for (int each = 0; each < rows; each++)
#pragma GCC unroll 16
        for (int piece = 0; piece < pieces; piece++)
            add_block(shape, offsets, tiles.scales + piece / PIECES, piece % PIECES * REGISTER,
                      row + each, sums[each][piece], totals + each * stride + piece * LANES);
}

/* All rows of a block, `most` and four of them at a time. Their totals are `stride` apart. */
INLINE void multiply_all(struct shape shape, int offsets, int most, int pieces,
                         struct tiles_of_block tiles, const struct row_block *row, long rows,
                         float *totals, long stride) {
    const int some = smaller(4, most);
    while (rows > 0) {
        int now = rows >= most ? most : rows >= some ? some : 1;
        if (now == 1)
            multiply_tiles(shape, offsets, 1, pieces, tiles, row, totals, stride);
        else if (now == some)
            multiply_tiles(shape, offsets, some, pieces, tiles, row, totals, stride);
        else
            multiply_tiles(shape, offsets, most, pieces, tiles, row, totals, stride);
        rows -= now, row += now, totals += now * stride;
    }
}

#endif
