/* Products of blocks of bfloat16, on the processor's matrix unit (AMX) where it has one.
 *
 * A right side lies in columns of sixteen: for each of these a row of 64 bytes for every two
 * numbers that are multiplied and added up, the two of a column beside each other. It is what AMX
 * and the products of pairs in AVX-512 want.
 */
#ifndef WAYMARK_TILES_H
#define WAYMARK_TILES_H

#include "native/numbers.h"

#define TILE 16        /* rows or columns */
#define BLOCK 32       /* rows and columns of a product, two tiles each */
#define INNER 32       /* what is multiplied and added up has a multiple of so many numbers */
#define ROW (2 * TILE) /* numbers of a row of a right side */

#if defined(__AMX_BF16__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#define HAS_TILES 1
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XTILEDATA 18
#endif

/* What a thread's matrix unit was set to by somebody else. */
struct tiles {
    char before[64] __attribute__((aligned(64)));
    int usable;
};

/* Whether this process may use it: whoever wants to asks once for the memory that it takes, and
 * asking again is harmless. */
static inline int tiles_allowed(void) {
#ifdef HAS_TILES
    static int allowed = -1;
    if (allowed < 0) allowed = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
    return allowed;
#else
    return 0;
#endif
}

/* Between these a thread may multiply. */
static inline void tiles_begin(struct tiles *own) {
    own->usable = tiles_allowed();
#ifdef HAS_TILES
    struct {
        uint8_t palette, start, nothing[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } wish = {.palette = 1};
    if (!own->usable) return;
    _tile_storeconfig(own->before);
    for (int tile = 0; tile < 8; tile++) wish.bytes[tile] = 64, wish.rows[tile] = TILE;
    _tile_loadconfig(&wish);
#endif
}

static inline void tiles_end(const struct tiles *own) {
#ifdef HAS_TILES
    if (own->usable) _tile_loadconfig(own->before);
#endif
}

/* `left` [BLOCK, inner] by BLOCK columns of a right side: `to` [BLOCK, BLOCK], to which it is added
 * if `more`. Strides are in numbers, those of `right` from one sixteen columns to the next. */
struct block_product {
    const uint16_t *left, *right;
    float *to;
    long left_stride, right_stride, to_stride, inner;
    int more;
};

#ifdef HAS_TILES
static inline void multiply_on_tiles(const struct block_product *all) {
    const uint16_t *left = all->left, *below = left + TILE * all->left_stride;
    const uint16_t *right = all->right, *beside = right + all->right_stride;
    float *to = all->to, *to_below = to + TILE * all->to_stride;
    long bytes = 2 * all->left_stride, to_bytes = 4 * all->to_stride;
    /* A compiler may not know that tiles are loaded from memory. */
    __asm__ volatile("" ::: "memory");
    if (all->more) {
        _tile_loadd(0, to, to_bytes);
        _tile_loadd(1, to + TILE, to_bytes);
        _tile_loadd(2, to_below, to_bytes);
        _tile_loadd(3, to_below + TILE, to_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (long place = 0; place < all->inner; place += INNER) {
        _tile_loadd(4, left + place, bytes);
        _tile_loadd(5, below + place, bytes);
        _tile_loadd(6, right + place * TILE, 64);
        _tile_loadd(7, beside + place * TILE, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, to, to_bytes);
    _tile_stored(1, to + TILE, to_bytes);
    _tile_stored(2, to_below, to_bytes);
    _tile_stored(3, to_below + TILE, to_bytes);
    __asm__ volatile("" ::: "memory");
}
#endif

/* Rows whose sums registers hold, with both columns of tiles. */
#ifdef __AVX512F__
#define ROWS_AT_ONCE 8
#else
#define ROWS_AT_ONCE 2
#endif

/* Products of a pair of numbers with the pairs of a row of a right side. */
static inline floats add_pairs(floats total, uint32_t pair, words right) {
#ifdef __AVX512BF16__
    return (floats)_mm512_dpbf16_ps((__m512)total, (__m512bh)_mm512_set1_epi32((int)pair),
                                    (__m512bh)right);
#else
    total += from_bfloat((uint16_t)pair) * (floats)(right << 16);
    return total + from_bfloat((uint16_t)(pair >> 16)) * (floats)(right & 0xffff0000u);
#endif
}

static inline void multiply_on_vectors(const struct block_product *all) {
    for (long row = 0; row < BLOCK; row += ROWS_AT_ONCE) {
        const uint16_t *left = all->left + row * all->left_stride;
        float *to = all->to + row * all->to_stride;
        floats totals[ROWS_AT_ONCE][2];
        for (int each = 0; each < ROWS_AT_ONCE; each++)
            for (int half = 0; half < 2; half++)
                totals[each][half] =
                    all->more ? load_floats(to + each * all->to_stride + half * TILE) : (floats){0};
        for (long place = 0; place < all->inner; place += 2) {
            words first, second;
            memcpy(&first, all->right + place * TILE, sizeof first);
            memcpy(&second, all->right + all->right_stride + place * TILE, sizeof second);
            for (int each = 0; each < ROWS_AT_ONCE; each++) {
                uint32_t pair;
                memcpy(&pair, left + each * all->left_stride + place, sizeof pair);
                totals[each][0] = add_pairs(totals[each][0], pair, first);
                totals[each][1] = add_pairs(totals[each][1], pair, second);
            }
        }
        for (int each = 0; each < ROWS_AT_ONCE; each++)
            for (int half = 0; half < 2; half++)
                store_floats(to + each * all->to_stride + half * TILE, totals[each][half]);
    }
}

static inline void multiply(const struct tiles *own, struct block_product all) {
#ifdef HAS_TILES
    if (own->usable) {
        multiply_on_tiles(&all);
        return;
    }
#endif
    multiply_on_vectors(&all);
}

/* Sixteen rows of INNER numbers, `stride` apart, become the columns of a right side. */
static inline void turn_words(const uint16_t *from, long stride, uint16_t *to) {
#ifdef __AVX512F__
    __m512i rows[16], halves[16];
    for (int row = 0; row < 16; row++) rows[row] = _mm512_loadu_si512(from + row * stride);
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
        _mm512_storeu_si512(to + j * ROW, _mm512_shuffle_i32x4(even, even_below, 0x88));
        _mm512_storeu_si512(to + (4 + j) * ROW, _mm512_shuffle_i32x4(odd, odd_below, 0x88));
        _mm512_storeu_si512(to + (8 + j) * ROW, _mm512_shuffle_i32x4(even, even_below, 0xdd));
        _mm512_storeu_si512(to + (12 + j) * ROW, _mm512_shuffle_i32x4(odd, odd_below, 0xdd));
    }
#else
    for (int row = 0; row < 16; row++)
        for (int word = 0; word < 16; word++)
            memcpy(to + word * ROW + 2 * row, from + row * stride + 2 * word, 4);
#endif
}

/* Two rows of sixteen numbers become one row of a right side. */
static inline void join_rows(const uint16_t *even, const uint16_t *odd, uint16_t *to) {
    words both = (words)load_bfloats(even) >> 16 | (words)load_bfloats(odd);
    memcpy(to, &both, sizeof both);
}

#endif
