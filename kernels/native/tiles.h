/* Products of blocks on AMX.
 *
 * Sides are laid out as in words.h: words of two bfloat16, or of four signed integers.
 */
#ifndef WAYMARK_TILES_H
#define WAYMARK_TILES_H

#include "native/words.h"

#define TILE 16  /* rows or columns */
#define BLOCK 32 /* rows and columns of a product, two tiles each */

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

/* The tile configuration that other code had set in this thread. */
struct tiles {
    char before[64] __attribute__((aligned(64)));
};

/* Whether this process may use AMX: a process asks once for the memory that tiles need, and
 * asking again is harmless. */
static inline int tiles_allowed(void) {
#ifdef HAS_TILES
    static int allowed = -1; /* concurrent callers get the same result */
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

/* Between these two a thread may multiply on tiles, `words` of a row at once: sixteen or fewer. */
static inline void tiles_begin(struct tiles *own, int on_tiles, int words) {
#ifdef HAS_TILES
    struct {
        uint8_t palette, start, nothing[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } wish = {.palette = 1};
    if (!on_tiles) return;
    _tile_storeconfig(own->before);
    for (int tile = 0; tile < 8; tile++) wish.bytes[tile] = STEP, wish.rows[tile] = TILE;
    wish.bytes[4] = wish.bytes[5] = (uint16_t)(words * 4); /* of the left side, */
    wish.rows[6] = wish.rows[7] = (uint8_t)words;          /* and of the right one */
    ALL_IN_MEMORY;
    _tile_loadconfig(&wish);
#endif
}

static inline void tiles_end(const struct tiles *own, int on_tiles) {
#ifdef HAS_TILES
    if (on_tiles) _tile_loadconfig(own->before);
#endif
}

/* Products of BLOCK rows, some of which may be padding, with two columns of sixteen, which stay in
 * registers until store_block; words are a multiple of those of tiles_begin. */
INLINE void multiply_in_registers(int of_integers, const struct product *all) {
#ifdef HAS_TILES
    const char *left = all->left, *below = left + TILE * all->left_stride;
    const char *right = all->right, *beside = right + all->right_stride;
    const char *to = all->to, *to_below = to + TILE * all->to_stride;
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
    for (long word = 0; word < all->words; word += COLUMN) {
        _tile_loadd(4, left + word * 4, stride);
        _tile_loadd(5, below + word * 4, stride);
        _tile_loadd(6, right + word * STEP, STEP);
        _tile_loadd(7, beside + word * STEP, STEP);
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
#endif
}

INLINE void store_block(char *to, long stride) {
#ifdef HAS_TILES
    char *below = to + TILE * stride;
    ALL_IN_MEMORY;
    _tile_stored(0, to, stride);
    _tile_stored(1, to + STEP, stride);
    _tile_stored(2, below, stride);
    _tile_stored(3, below + STEP, stride);
    ALL_IN_MEMORY;
#endif
}

/* The rows that a product should have, unless they are the last. */
static inline long rows_of_block(int on_tiles) {
    return on_tiles ? BLOCK : ROWS_AT_ONCE;
}

/* On tiles up to BLOCK rows, else any; of integers that sum is exact. Which of the words AMX has,
 * and only those, go through it. */
INLINE void multiply(int on_tiles, enum words kind, struct product all) {
    if (!on_tiles) {
        multiply_words(kind, all);
        return;
    }
    for (; all.columns > 0; all.columns -= 2) {
        multiply_in_registers(kind == OF_INT8, &all);
        store_block(all.to, all.to_stride);
        all.right += 2 * all.right_stride;
        all.to += 2 * STEP;
    }
}

#endif
