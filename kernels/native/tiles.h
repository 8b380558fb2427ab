/* Products of blocks of bfloat16 or 8-bit integers, on the processor's AMX tiles where it
 * has one.
 *
 * A left side has its rows as they are. A right side lies in columns of sixteen: for each of these
 * STEP bytes for every two numbers of bfloat16, or four integers, that are multiplied and added up,
 * those of a column beside each other. It is what AMX and the products of pairs in AVX-512 want.
 */
#ifndef WAYMARK_TILES_H
#define WAYMARK_TILES_H

#include "native/numbers.h"

#define TILE 16  /* rows or columns */
#define BLOCK 32 /* rows and columns of a product, two tiles each */
#define STEP 64  /* bytes of a row that are multiplied and added up at once */
#define INNER 32 /* numbers of bfloat16 that these are */

/* Older clangs write the names together. */
#if (defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__)) ||                   \
    (defined(__AMXTILE__) && defined(__AMXBF16__) && defined(__AMXINT8__))
#if defined(__AVX512F__) && defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#define HAS_TILES 1
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XTILEDATA 18
#endif
#endif

/* A compiler may not know that tiles and what they are set to are read from memory. */
#define ALL_IN_MEMORY __asm__ volatile("" ::: "memory")

/* What a thread's AMX tiles were set to by somebody else. */
struct tiles {
    char before[64] __attribute__((aligned(64)));
    int usable;
};

/* Whether this process may use it: whoever wants to asks once for the memory that it takes, and
 * asking again is harmless. */
static inline int tiles_allowed(void) {
#ifdef HAS_TILES
    static int allowed = -1; /* whoever comes at the same time finds the same */
    int found = __atomic_load_n(&allowed, __ATOMIC_RELAXED);
    if (found < 0) {
        found = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
        __atomic_store_n(&allowed, found, __ATOMIC_RELAXED);
    }
    return found;
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
    for (int tile = 0; tile < 8; tile++) wish.bytes[tile] = STEP, wish.rows[tile] = TILE;
    ALL_IN_MEMORY;
    _tile_loadconfig(&wish);
#endif
}

static inline void tiles_end(const struct tiles *own) {
#ifdef HAS_TILES
    if (own->usable) _tile_loadconfig(own->before);
#endif
}

/* `left` [BLOCK rows] by BLOCK columns of a right side, STEP bytes at a time: `to` [BLOCK, BLOCK],
 * to which it is added if `more`. All strides are bytes, that of `right` is from one sixteen
 * columns to the next. Of bfloat16 the sums are floats, of integers 32-bit integers. */
struct block_product {
    const void *left, *right;
    void *to;
    long left_stride, right_stride, to_stride, steps;
    int more;
};

#ifdef HAS_TILES
INLINE void multiply_on_tiles(const struct block_product *all, int of_integers) {
    const char *left = all->left, *below = left + TILE * all->left_stride;
    const char *right = all->right, *beside = right + all->right_stride;
    char *to = all->to, *to_below = to + TILE * all->to_stride;
    long stride = all->left_stride, to_stride = all->to_stride;
    ALL_IN_MEMORY;
    if (all->more) {
        _tile_loadd(0, to, to_stride);
        _tile_loadd(1, to + STEP, to_stride);
        _tile_loadd(2, to_below, to_stride);
        _tile_loadd(3, to_below + STEP, to_stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (long step = 0; step < all->steps; step++) {
        _tile_loadd(4, left + step * STEP, stride);
        _tile_loadd(5, below + step * STEP, stride);
        _tile_loadd(6, right + step * STEP * TILE, STEP);
        _tile_loadd(7, beside + step * STEP * TILE, STEP);
        if (of_integers) {
            _tile_dpbssd(0, 4, 6);
            _tile_dpbssd(1, 4, 7);
            _tile_dpbssd(2, 5, 6);
            _tile_dpbssd(3, 5, 7);
        } else {
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, to, to_stride);
    _tile_stored(1, to + STEP, to_stride);
    _tile_stored(2, to_below, to_stride);
    _tile_stored(3, to_below + STEP, to_stride);
    ALL_IN_MEMORY;
}
#endif

/* Without AMX both are right and no more, since others are faster there. */
static inline void multiply_floats_plainly(const struct block_product *all) {
    for (long row = 0; row < BLOCK; row++)
        for (int half = 0; half < 2; half++) {
            const char *left = (const char *)all->left + row * all->left_stride;
            const char *right = (const char *)all->right + half * all->right_stride;
            char *to = (char *)all->to + row * all->to_stride + half * STEP;
            floats total = {0};
            if (all->more) memcpy(&total, to, sizeof total);
            for (long pair = 0; pair < all->steps * TILE; pair++, right += STEP) {
                uint16_t first, second;
                words given;
                memcpy(&first, left + 4 * pair, sizeof first);
                memcpy(&second, left + 4 * pair + 2, sizeof second);
                memcpy(&given, right, sizeof given);
                total += from_bfloat(first) * (floats)(given << 16);
                total += from_bfloat(second) * (floats)(given & 0xffff0000u);
            }
            memcpy(to, &total, sizeof total);
        }
}

static inline void multiply_integers_plainly(const struct block_product *all) {
    for (long row = 0; row < BLOCK; row++)
        for (long column = 0; column < BLOCK; column++) {
            const int8_t *left = (const int8_t *)all->left + row * all->left_stride;
            const int8_t *right = (const int8_t *)all->right + column / TILE * all->right_stride;
            char *to = (char *)all->to + row * all->to_stride + column * 4;
            int32_t total = 0;
            if (all->more) memcpy(&total, to, sizeof total);
            for (long place = 0; place < all->steps * STEP; place++)
                total +=
                    (int32_t)left[place] * right[place / 4 * STEP + column % TILE * 4 + place % 4];
            memcpy(to, &total, sizeof total);
        }
}

/* Of bfloat16. */
static inline void multiply_floats(const struct tiles *own, struct block_product all) {
#ifdef HAS_TILES
    if (own->usable) {
        multiply_on_tiles(&all, 0);
        return;
    }
#endif
    multiply_floats_plainly(&all);
}

/* Of 8-bit integers; exact. */
static inline void multiply_integers(const struct tiles *own, struct block_product all) {
#ifdef HAS_TILES
    if (own->usable) {
        multiply_on_tiles(&all, 1);
        return;
    }
#endif
    multiply_integers_plainly(&all);
}

/* Sixteen rows of STEP bytes, `stride` bytes apart, become the columns of a right side. */
static inline void turn_words(const void *from, long stride, void *given_to) {
    const char *row_of = from;
    char *to = given_to;
#ifdef __AVX512F__
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
#else
    for (int row = 0; row < 16; row++)
        for (int word = 0; word < 16; word++)
            memcpy(to + word * STEP + 4 * row, row_of + row * stride + 4 * word, 4);
#endif
}

/* Two rows of sixteen numbers become one row of a right side. */
static inline void join_rows(const uint16_t *even, const uint16_t *odd, uint16_t *to) {
    words both = (words)load_bfloats(even) >> 16 | (words)load_bfloats(odd);
    memcpy(to, &both, sizeof both);
}

#endif
