/* Rows transposed to columns of sixteen words, packed as products want their right side (words.h).
 */
#ifndef WAYMARK_TRANSPOSE_H
#define WAYMARK_TRANSPOSE_H

#include "native/words.h"

#if REGISTER == 32
/* Eight rows of eight words become eight of their columns, STEP bytes apart. */
INLINE void transpose_eight(const char *from, long stride, char *to) {
    __m256 rows[8], pairs[8];
    for (int row = 0; row < 8; row++)
        rows[row] = _mm256_loadu_ps((const float *)(from + row * stride));
    for (int row = 0; row < 8; row += 2) {
        pairs[row] = _mm256_unpacklo_ps(rows[row], rows[row + 1]);
        pairs[row + 1] = _mm256_unpackhi_ps(rows[row], rows[row + 1]);
    }
    for (int row = 0; row < 8; row += 4)
        for (int half = 0; half < 2; half++) {
            __m256d first = (__m256d)pairs[row + half], second = (__m256d)pairs[row + 2 + half];
            rows[row + 2 * half] = (__m256)_mm256_unpacklo_pd(first, second);
            rows[row + 2 * half + 1] = (__m256)_mm256_unpackhi_pd(first, second);
        }
    for (int word = 0; word < 4; word++) {
        _mm256_storeu_ps((float *)(to + word * STEP),
                         _mm256_permute2f128_ps(rows[word], rows[4 + word], 0x20));
        _mm256_storeu_ps((float *)(to + (4 + word) * STEP),
                         _mm256_permute2f128_ps(rows[word], rows[4 + word], 0x31));
    }
}
#endif

/* Sixteen rows of STEP bytes, `stride` bytes apart, become sixteen steps of a column. */
static inline void transpose_words(const void *from, long stride, void *given_to) {
    const char *row_of = from;
    char *to = given_to;
#if REGISTER == 64
    __m512i rows[16], halves[16];
    for (int row = 0; row < 16; row++) rows[row] = _mm512_loadu_si512(row_of + row * stride);
    for (int row = 0; row < 16; row += 2) {
        halves[row] = _mm512_unpacklo_epi32(rows[row], rows[row + 1]);
        halves[row + 1] = _mm512_unpackhi_epi32(rows[row], rows[row + 1]);
    }
    for (int row = 0; row < 16; row += 4) {
        rows[row] = _mm512_unpacklo_epi64(halves[row], halves[row + 2]);
        rows[row + 1] = _mm512_unpackhi_epi64(halves[row], halves[row + 2]);
        rows[row + 2] = _mm512_unpacklo_epi64(halves[row + 1], halves[row + 3]);
        rows[row + 3] = _mm512_unpackhi_epi64(halves[row + 1], halves[row + 3]);
    }
    /* Now each quarter of row 4 i + j has column 4 quarter + j of the rows from 4 i on. */
    for (int j = 0; j < 4; j++) {
        __m512i even = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x88);
        __m512i even_below = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x88);
        __m512i odd = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xdd);
        __m512i odd_below = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xdd);
        _mm512_storeu_si512(to + j * STEP, _mm512_shuffle_i32x4(even, even_below, 0x88));
        _mm512_storeu_si512(to + (4 + j) * STEP, _mm512_shuffle_i32x4(odd, odd_below, 0x88));
        _mm512_storeu_si512(to + (8 + j) * STEP, _mm512_shuffle_i32x4(even, even_below, 0xdd));
        _mm512_storeu_si512(to + (12 + j) * STEP, _mm512_shuffle_i32x4(odd, odd_below, 0xdd));
    }
#elif REGISTER == 32
    for (int rows = 0; rows < 16; rows += 8)
        for (int words = 0; words < 16; words += 8)
            transpose_eight(row_of + rows * stride + 4 * words, stride,
                            to + words * STEP + 4 * rows);
#else
    for (int row = 0; row < 16; row++)
        for (int word = 0; word < 16; word++)
            memcpy(to + word * STEP + 4 * row, row_of + row * stride + 4 * word, 4);
#endif
}

/* Converts sixteen words of a row. */
typedef void (*convert)(const void *from, char *to);

/* Rows from `from` on, of which there are `rows`, `stride` bytes apart: `words` steps of a column,
 * rounded up to sixteen, with zeros where there is nothing. Of a row there are `bytes`, `piece` of
 * them sixteen words, which `of` makes; without it they are words already. */
INLINE void pack_column(const char *from, long rows, long stride, long bytes, long piece,
                        long words, convert of, char *to) {
    char filled[COLUMN * STEP], rest[STEP];
    if (rows < COLUMN) memset(filled, 0, sizeof filled);
    if (rows <= 0) rows = 0; /* all zeros */
    for (long word = 0; word < words;
         word += COLUMN, from += piece, bytes -= piece, to += COLUMN * STEP) {
        if (!of && rows >= COLUMN && bytes >= piece) {
            transpose_words(from, stride, to);
            continue;
        }
        for (long row = 0; row < smaller(rows, COLUMN); row++) {
            const char *given = from + row * stride;
            if (bytes < piece) {
                memset(rest, 0, sizeof rest);
                if (bytes > 0) memcpy(rest, given, bytes);
                given = rest;
            }
            if (of)
                of(given, filled + row * STEP);
            else
                memcpy(filled + row * STEP, given, STEP);
        }
        transpose_words(filled, STEP, to);
    }
}

/* ------------------------------------------------------------------ sixteen words of a row */

INLINE void floats_of_bfloats(const void *from, char *to) {
    for (int place = 0; place < COLUMN; place += LANES)
        store_floats((float *)to + place, load_bfloats((const uint16_t *)from + place));
}

INLINE void biased_bytes(const void *from, char *to) {
    for (int place = 0; place < STEP; place++)
        to[place] = (char)(((const int8_t *)from)[place] ^ (int8_t)LOWEST_BYTE);
}

#endif
