/* AMX played number by number, so that what is made for it is tried on processors without it. */
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define __AMX_TILE__ 1
#define __AMX_BF16__ 1
#define __AMX_INT8__ 1

static __thread char emulated_tiles[8][16][64];
static __thread char emulated_config[64];

static inline float emulated_number(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float found;
    memcpy(&found, &wide, sizeof found);
    return found;
}

/* Rows of a tile, and bytes of each, as the configuration has them. */
static inline int emulated_rows(int tile) {
    return emulated_config[48 + tile];
}

static inline int emulated_width(int tile) {
    return emulated_config[16 + 2 * tile];
}

static inline void emulated_load(int tile, const void *from, long stride) {
    memset(emulated_tiles[tile], 0, sizeof emulated_tiles[tile]);
    for (int row = 0; row < emulated_rows(tile); row++)
        memcpy(emulated_tiles[tile][row], (const char *)from + row * stride, emulated_width(tile));
}

static inline void emulated_store(int tile, void *to, long stride) {
    for (int row = 0; row < emulated_rows(tile); row++)
        memcpy((char *)to + row * stride, emulated_tiles[tile][row], emulated_width(tile));
}

static inline void emulated_bfloats(int to, int left, int right) {
    for (int row = 0; row < emulated_rows(left); row++)
        for (int column = 0; column < emulated_width(right) / 4; column++)
            for (int word = 0; word < emulated_rows(right); word++) {
                const uint16_t *first = (const uint16_t *)emulated_tiles[left][row] + 2 * word;
                const uint16_t *second = (const uint16_t *)emulated_tiles[right][word] + 2 * column;
                float *total = (float *)emulated_tiles[to][row] + column;
                *total += emulated_number(first[0]) * emulated_number(second[0]);
                *total += emulated_number(first[1]) * emulated_number(second[1]);
            }
}

static inline void emulated_bytes(int to, int left, int right) {
    for (int row = 0; row < emulated_rows(left); row++)
        for (int column = 0; column < emulated_width(right) / 4; column++)
            for (int byte = 0; byte < emulated_width(left); byte++) {
                int8_t first = (int8_t)emulated_tiles[left][row][byte];
                int8_t second = (int8_t)emulated_tiles[right][byte / 4][4 * column + byte % 4];
                ((int32_t *)emulated_tiles[to][row])[column] += (int32_t)first * second;
            }
}

#undef _tile_loadconfig
#undef _tile_storeconfig
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#undef _tile_dpbf16ps
#define _tile_loadconfig(from) memcpy(emulated_config, from, 64)
#define _tile_storeconfig(to) memcpy(to, emulated_config, 64)
#define _tile_loadd(tile, from, stride) emulated_load(tile, from, stride)
#define _tile_stored(tile, to, stride) emulated_store(tile, to, stride)
#define _tile_zero(tile) memset(emulated_tiles[tile], 0, sizeof emulated_tiles[tile])
#define _tile_dpbssd(to, left, right) emulated_bytes(to, left, right)
#define _tile_dpbf16ps(to, left, right) emulated_bfloats(to, left, right)
/* The system is asked for the memory that tiles take. */
#define syscall(...) 0
