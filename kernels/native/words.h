/* Products of rows with columns of words, a register at a time.
 *
 * A word is 32 bits: one float, two bfloat16, four 8-bit or two 16-bit integers. The left side is
 * stored row by row. The right side is stored in columns of sixteen: STEP bytes for each word of a
 * row, adjacent within a column. What is added to a sum, and in which order, depends on its own
 * row and column alone.
 */
#ifndef WAYMARK_WORDS_H
#define WAYMARK_WORDS_H

#include <stdint.h>
#include <string.h>

#include "native/numbers.h"

#ifdef __aarch64__
#include <arm_neon.h>
#define ARM64 1
#else
#define ARM64 0
#endif

/* Rows and columns of sixteen whose sums stay in registers. */
#define ROWS_AT_ONCE (REGISTER == 64 ? 12 : REGISTER == 32 || ARM64 ? 6 : 2)
#define COLUMNS_AT_ONCE (REGISTER == 64 ? 2 : 1)
#define COLUMN 16
#define STEP (COLUMN * 4)
#define PIECES (STEP / REGISTER) /* registers of a step */

typedef int32_t word_lanes __attribute__((vector_size(REGISTER)));
typedef int8_t byte_lanes __attribute__((vector_size(REGISTER)));
typedef int16_t short_lanes __attribute__((vector_size(REGISTER)));
typedef uint16_t unsigned_shorts __attribute__((vector_size(REGISTER)));

/* What the words of both sides are. */
enum words {
    OF_FLOAT,
    OF_BFLOAT, /* where HAS_PAIRS */
    OF_INT8,   /* those of the right side less LOWEST_BYTE */
    OF_INT16,
    OF_INT4 /* bytes, 0 .. 15 on the right; pairs of sums of 16 bits, for up to eight words */
};

/* The instruction for four bytes has none for two sides with a sign, so one is moved. */
#if (REGISTER == 64 && defined(__AVX512VNNI__)) || (REGISTER == 32 && defined(__AVXVNNI__))
#define LOWEST_BYTE (-128)
#define HAS_QUADS 1
#else
#define LOWEST_BYTE 0
#ifdef __ARM_FEATURE_DOTPROD
#define HAS_QUADS 1
#else
#define HAS_QUADS 0
#endif
#endif
#if REGISTER == 64 && defined(__AVX512BF16__)
#define HAS_PAIRS 1
#else
#define HAS_PAIRS 0
#endif

/* An instruction for two rows by two columns of eight bytes each. */
#ifdef __ARM_FEATURE_MATMUL_INT8
#define HAS_EIGHTS 1
#else
#define HAS_EIGHTS 0
#endif

/* Both give exact sums: of four products where there is an instruction for it, else of two. */
#define WORDS_OF_INT8 (HAS_QUADS ? OF_INT8 : OF_INT16)
#define WORDS_OF_INT4 (HAS_QUADS ? OF_INT8 : OF_INT4)

/* Otherwise the compiler multiplies ahead of the sums and spills the products to memory. */
#if REGISTER == 64
#define KEEP_IN_REGISTER(lanes) __asm__ volatile("" : "+v"(lanes))
#elif defined(__SSE2__)
#define KEEP_IN_REGISTER(lanes) __asm__ volatile("" : "+x"(lanes))
#elif ARM64
#define KEEP_IN_REGISTER(lanes) __asm__ volatile("" : "+w"(lanes))
#else
#define KEEP_IN_REGISTER(lanes)
#endif

INLINE word_lanes load_words(const void *from) {
    word_lanes found;
    memcpy(&found, from, sizeof found);
    return found;
}

/* One word in all lanes. */
INLINE word_lanes each_lane(const void *from) {
    int32_t word;
    memcpy(&word, from, sizeof word);
    return (word_lanes){0} + word;
}

INLINE word_lanes add_pairs(word_lanes total, word_lanes left, word_lanes right) {
#if HAS_PAIRS
    return (word_lanes)_mm512_dpbf16_ps((__m512)total, (__m512bh)left, (__m512bh)right);
#else
    return total;
#endif
}

INLINE word_lanes add_quads(word_lanes total, word_lanes left, word_lanes right) {
#if REGISTER == 64 && HAS_QUADS
    return (word_lanes)_mm512_dpbusd_epi32((__m512i)total, (__m512i)right, (__m512i)left);
#elif REGISTER == 32 && HAS_QUADS
    return (word_lanes)_mm256_dpbusd_avx_epi32((__m256i)total, (__m256i)right, (__m256i)left);
#elif HAS_QUADS
    return (word_lanes)vdotq_s32((int32x4_t)total, (int8x16_t)left, (int8x16_t)right);
#else
    return total;
#endif
}

INLINE word_lanes add_shorts(word_lanes total, word_lanes left, word_lanes right) {
#if REGISTER == 64 && HAS_QUADS
    return (word_lanes)_mm512_dpwssd_epi32((__m512i)total, (__m512i)left, (__m512i)right);
#elif REGISTER == 32 && HAS_QUADS
    return (word_lanes)_mm256_dpwssd_avx_epi32((__m256i)total, (__m256i)left, (__m256i)right);
#elif REGISTER == 64
    return total + (word_lanes)_mm512_madd_epi16((__m512i)left, (__m512i)right);
#elif REGISTER == 32
    return total + (word_lanes)_mm256_madd_epi16((__m256i)left, (__m256i)right);
#elif defined(__SSE2__)
    return total + (word_lanes)_mm_madd_epi16((__m128i)left, (__m128i)right);
#else
    return total + (left << 16 >> 16) * (right << 16 >> 16) + (left >> 16) * (right >> 16);
#endif
}

/* Pairs of products of bytes, 15 x 127 at most, added up in 16 bits: eight fit. */
INLINE word_lanes add_small(word_lanes total, word_lanes left, word_lanes right) {
#if REGISTER == 64
    short_lanes found = (short_lanes)_mm512_maddubs_epi16((__m512i)right, (__m512i)left);
#elif REGISTER == 32
    short_lanes found = (short_lanes)_mm256_maddubs_epi16((__m256i)right, (__m256i)left);
#elif defined(__SSSE3__)
    short_lanes found = (short_lanes)_mm_maddubs_epi16((__m128i)right, (__m128i)left);
#else
    short_lanes low = ((short_lanes)left << 8 >> 8) * ((short_lanes)right << 8 >> 8);
    short_lanes found = low + ((short_lanes)left >> 8) * ((short_lanes)right >> 8);
#endif
    return (word_lanes)((short_lanes)total + found);
}

/* A word's pair of 16-bit sums as one. */
INLINE word_lanes sum_of_shorts(word_lanes pairs) {
    const word_lanes ones = (word_lanes){0} + 0x10001;
    return add_shorts((word_lanes){0}, pairs, ones);
}

INLINE word_lanes add_word(enum words kind, word_lanes total, word_lanes left, word_lanes right) {
    switch (kind) {
    case OF_FLOAT:
        return (word_lanes)((floats)total + (floats)left * (floats)right);
    case OF_BFLOAT:
        return add_pairs(total, left, right);
    case OF_INT8:
        return add_quads(total, left, right);
    case OF_INT16:
        return add_shorts(total, left, right);
    default:
        return add_small(total, left, right);
    }
}

#if HAS_EIGHTS
/* Pairs of rows as squares of two rows and two columns, and back. */
INLINE void swap_quarters(int rows, word_lanes totals[][PIECES]) {
#pragma GCC unroll 16
    for (int row = 0; row < rows; row += 2)
#pragma GCC unroll 16
        for (int piece = 0; piece < PIECES; piece++) {
            int64x2_t upper = (int64x2_t)totals[row][piece];
            int64x2_t lower = (int64x2_t)totals[row + 1][piece];
            totals[row][piece] = (word_lanes)vzip1q_s64(upper, lower);
            totals[row + 1][piece] = (word_lanes)vzip2q_s64(upper, lower);
        }
}

/* Adds products of bytes to one column of an even number of rows, an even number of words. */
INLINE void add_eights(int rows, const char *left, long stride, const char *right, long step,
                       long words, word_lanes totals[][PIECES]) {
    swap_quarters(rows, totals);
    for (long word = 0; word < words; word += 2, left += 8, right += 2 * step) {
        int8x16_t two_rows[ROWS_AT_ONCE];
#pragma GCC unroll 16
        for (int row = 0; row < rows; row += 2) {
            const int8_t *from = (const int8_t *)left + row * stride;
            two_rows[row] = vcombine_s8(vld1_s8(from), vld1_s8(from + stride));
        }
#pragma GCC unroll 16
        for (int piece = 0; piece < PIECES; piece++) {
            int32x4_t even = (int32x4_t)load_words(right + piece * REGISTER);
            int32x4_t odd = (int32x4_t)load_words(right + step + piece * REGISTER);
            int8x16_t first = (int8x16_t)vzip1q_s32(even, odd);
            int8x16_t second = (int8x16_t)vzip2q_s32(even, odd);
#pragma GCC unroll 16
            for (int row = 0; row < rows; row += 2) {
                word_lanes *to = &totals[row][piece], *beside = &totals[row + 1][piece];
                *to = (word_lanes)vmmlaq_s32((int32x4_t)*to, two_rows[row], first);
                *beside = (word_lanes)vmmlaq_s32((int32x4_t)*beside, two_rows[row], second);
            }
        }
    }
    swap_quarters(rows, totals);
}
#endif

/* `rows` rows of a left side by `columns` columns of sixteen of a right side: `to` [rows, columns *
 * COLUMN] of 32 bits each, to which it is added if `more`. Strides are bytes, those of `right` from
 * one word of a column of sixteen to the next, and from one column to the next. */
struct product {
    const char *left, *right;
    char *to;
    long left_stride, right_step, right_stride, to_stride, words;
    int rows, columns, more;
};

/* All that stays in registers, their numbers constant where it is called. */
INLINE void multiply_some(enum words kind, int rows, int columns, const struct product *all) {
    const char *left = all->left, *right = all->right;
    long stride = all->left_stride, step = all->right_step, beside = all->right_stride;
    word_lanes totals[ROWS_AT_ONCE][COLUMNS_AT_ONCE * PIECES];
#pragma GCC unroll 16
    for (int row = 0; row < rows; row++)
#pragma GCC unroll 16
        for (int piece = 0; piece < columns * PIECES; piece++)
            totals[row][piece] = all->more
                                     ? load_words(all->to + row * all->to_stride + piece * REGISTER)
                                     : (word_lanes){0};
    long word = 0;
#if HAS_EIGHTS
    if (kind == OF_INT8 && rows % 2 == 0) {
        word = all->words / 2 * 2;
        add_eights(rows, left, stride, right, step, word, totals);
        left += 4 * word;
        right += word * step;
    }
#endif
    for (; word < all->words; word++, left += 4, right += step) {
        word_lanes given[COLUMNS_AT_ONCE * PIECES];
#pragma GCC unroll 16
        for (int piece = 0; piece < columns * PIECES; piece++)
            given[piece] = load_words(right + piece / PIECES * beside + piece % PIECES * REGISTER);
#pragma GCC unroll 16
        for (int row = 0; row < rows; row++) {
            word_lanes of_row = each_lane(left + row * stride);
#pragma GCC unroll 16
            for (int piece = 0; piece < columns * PIECES; piece++)
                totals[row][piece] = add_word(kind, totals[row][piece], of_row, given[piece]);
        }
    }
#pragma GCC unroll 16
    for (int row = 0; row < rows; row++)
#pragma GCC unroll 16
        for (int piece = 0; piece < columns * PIECES; piece++)
            memcpy(all->to + row * all->to_stride + piece * REGISTER, &totals[row][piece],
                   REGISTER);
}

INLINE struct product rows_behind(struct product all, int rows) {
    all.left += rows * all.left_stride;
    all.to += rows * all.to_stride;
    all.rows -= rows;
    return all;
}

/* A block that stays in registers is as wide as it may be, and shorter ones take the rest. */
INLINE void multiply_rows_of(enum words kind, int columns, struct product all) {
    for (; all.rows >= ROWS_AT_ONCE; all = rows_behind(all, ROWS_AT_ONCE))
        multiply_some(kind, ROWS_AT_ONCE, columns, &all);
    if (ROWS_AT_ONCE > 8)
        for (; all.rows >= 8; all = rows_behind(all, 8)) multiply_some(kind, 8, columns, &all);
    if (ROWS_AT_ONCE > 4)
        for (; all.rows >= 4; all = rows_behind(all, 4)) multiply_some(kind, 4, columns, &all);
    if (ROWS_AT_ONCE > 2)
        for (; all.rows >= 2; all = rows_behind(all, 2)) multiply_some(kind, 2, columns, &all);
    for (; all.rows >= 1; all = rows_behind(all, 1)) multiply_some(kind, 1, columns, &all);
}

INLINE void multiply_words(enum words kind, struct product all) {
    for (; all.columns >= COLUMNS_AT_ONCE; all.columns -= COLUMNS_AT_ONCE) {
        multiply_rows_of(kind, COLUMNS_AT_ONCE, all);
        all.right += COLUMNS_AT_ONCE * all.right_stride;
        all.to += COLUMNS_AT_ONCE * STEP;
    }
#if COLUMNS_AT_ONCE > 1
    if (all.columns) multiply_rows_of(kind, 1, all);
#endif
}

#endif
