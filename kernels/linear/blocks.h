/* Matrices of GGUF blocks, and products of rows with them.
 *
 * A tile is 256 inputs of sixteen outputs: their codes, the scales of groups of inputs, and the
 * numbers of the block. It holds what the file holds in another order, so a weight is
 *
 *     w = d s_g q - m o_g    or    w = d_g q + m_g
 *
 * with integers q, s and o, and numbers d and m. Rows are rounded to 8 bits, a block at a time, or
 * 32 inputs if scales are numbers. Products are exact integers within a group, or within a block if
 * scales are integers, and are added up in order. So a row has the same bits alone and beside
 * others, and at each level whose processors multiply and add in one step.
 */
#ifndef WAYMARK_BLOCKS_H
#define WAYMARK_BLOCKS_H

#include "linear/groups.h"
#include "linear/product.h"
#include "native/words.h"

/* Properties of a type that products have as constants. */
struct shape {
    int bits;     /* of a code: 4, 5, 6 or 8 */
    int group;    /* inputs of a scale: 16 or 32 */
    int integers; /* scales are integers, else numbers */
    int lookup;   /* codes are looked up in a table of signed integers */
    int unpacked; /* bytes as they are multiplied: those that unpack_codes makes */
    int largest;  /* of the codes that are multiplied, or 0 if they are signed */
};

/* 256 inputs of a row. */
struct row_block {
    int8_t integers[BLOCK_INPUTS];
    int32_t corrections[16]; /* of each group: what the bias of its codes adds, negated */
    union {
        int16_t integers[16];           /* if scales of weights are integers, */
        float numbers[GROUPS_OF_BLOCK]; /* or these times the scale of the inputs */
    } sums;                             /* of each group's integers */
    float scales[GROUPS_OF_BLOCK]; /* of 32 inputs each, or the first of all: see scale_inputs */
} __attribute__((aligned(64)));

enum ids {
    Q4_0 = 2,
    Q4_1,
    Q5_0 = 6,
    Q5_1,
    Q8_0,
    Q2_K = 10,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ2_XXS = 16,
    IQ2_XS,
    IQ3_XXS,
    IQ1_S,
    IQ4_NL,
    IQ3_S,
    IQ2_S,
    IQ4_XS,
    IQ1_M = 29,
    TQ1_0 = 34,
    TQ2_0,
    MXFP4 = 39,
    NVFP4
};

struct scales;
struct tiles_of_block;
struct block_type;
/* A column of sixteen outputs, from `tile` on, of `rows` rows, whose blocks are `stride` apart:
 * `totals` [rows, COLUMN]. */
typedef void (*few_rows)(const struct block_type *type, const char *tile, long blocks,
                         const struct row_block *row, long rows, long stride, float *totals);
/* One tile as it is multiplied by many rows: its codes as bytes, and its scales. */
typedef void (*unpack_tile)(const struct block_type *type, const char *tile, char *codes,
                            struct scales *scales);
/* Adds a block of rows times TILES_AT_ONCE unpacked tiles to `totals` [rows, .. * COLUMN]. */
typedef void (*many_rows)(int offsets, struct tiles_of_block tiles, const struct row_block *row,
                          long rows, float *totals);

struct block_type {
    struct shape shape;
    int offsets; /* groups have them */
    int bias;    /* subtracted from codes */
    int bfloat;  /* numbers are bfloat16, else float16 */
    int halved;  /* so often is the number of a block with integers, which float16 may not have */
    int8_t values[16];
    few_rows few;
    unpack_tile unpack;
    many_rows many;
};

/* The type with this id in GGUF files; NULL if it has no kernel. */
const struct block_type *block_type_of(int id);

/* Rounds the rows of `given`: block b of row r is `to`[b * rows + r]. */
void round_rows(const struct linear *given, struct row_block *to);

/* Multiplies finished sums of `count` outputs by their scales. */
static inline void scale_outputs(const struct linear *all, long output, long count, float *totals) {
    const float *scales = all->scales;
    for (long each = 0; scales && each < count; each++) totals[each] *= scales[output + each];
}

/* ------------------------------------------------------------------ where a tile has what */

/* Four bits of each code: words of two neighbouring groups, one in the lower halves of bytes. */
#define LOW_BYTES (COLUMN * BLOCK_INPUTS / 2)

/* Inputs of a row that share a scale: as the scales of weights, those of llama.cpp. */
INLINE int scale_inputs(struct shape shape) {
    return shape.integers ? BLOCK_INPUTS : GROUP;
}

static inline int groups_of(struct shape shape) {
    return BLOCK_INPUTS / shape.group;
}

static inline long scales_at(struct shape shape) {
    return COLUMN * BLOCK_INPUTS * shape.bits / 8;
}

/* Bytes of the scales or the offsets of all groups. */
static inline long bytes_of_groups(struct shape shape) {
    return groups_of(shape) * COLUMN * (shape.integers ? 1 : 2);
}

static inline long offsets_at(struct shape shape) {
    return scales_at(shape) + bytes_of_groups(shape);
}

/* Of the two numbers of a block whose scales are integers. */
static inline long numbers_at(struct shape shape, int offsets) {
    return offsets_at(shape) + (offsets ? bytes_of_groups(shape) : 0);
}

static inline long tile_bytes(const struct block_type *type) {
    long numbers = type->shape.integers ? COLUMN * 2 * (1 + type->offsets) : 0;
    return rounded_up(numbers_at(type->shape, type->offsets) + numbers, STEP);
}

static inline long tiles_of_row(long inputs) {
    return pool_parts(inputs, BLOCK_INPUTS);
}

/* ------------------------------------------------------------------ unpacked scales */

/* Those of a tile, as they are multiplied. */
struct scales {
    char of_groups[16][STEP]; /* words or floats */
    char offsets[8][STEP];    /* pairs of groups as 16-bit words, or floats of each group */
    float of_block[COLUMN], offset_of_block[COLUMN];
};

INLINE floats load_numbers(const uint16_t *from, int bfloat) {
    if (bfloat) return load_bfloats(from);
#if REGISTER == 64
    return (floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#elif REGISTER == 32
    return (floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
#else
    /* The exponent is moved by a product, which makes normal numbers of denormal ones, too. */
    const words infinite = (words){0} + 0x7c00;
    halves found;
    memcpy(&found, from, sizeof found);
    words bits = __builtin_convertvector(found, words), size = bits & 0x7fff;
    words moved = (words)((floats)(size << 13) * 0x1p112f);
    words at_end = (size << 13) | 0x7f800000, is_end = (words)(size >= infinite);
    return (floats)(((moved & ~is_end) | (at_end & is_end)) | (bits & 0x8000) << 16);
#endif
}

/* LANES bytes as words. */
INLINE word_lanes widen_bytes(const void *from, int is_signed) {
#if REGISTER == 64
    __m128i bytes = _mm_loadu_si128((const __m128i *)from);
    return (word_lanes)(is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
#elif REGISTER == 32
    __m128i bytes = _mm_loadl_epi64((const __m128i *)from);
    return (word_lanes)(is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes));
#else
    word_lanes found;
    for (int lane = 0; lane < LANES; lane++)
        found[lane] = is_signed ? ((const int8_t *)from)[lane] : ((const uint8_t *)from)[lane];
    return found;
#endif
}

INLINE void unpack_scales(struct shape shape, const struct block_type *type, const char *tile,
                          struct scales *to) {
    const char *scales = tile + scales_at(shape), *offsets = tile + offsets_at(shape);
    for (int group = 0; group < groups_of(shape); group++)
        for (int lane = 0; lane < COLUMN; lane += LANES) {
            long place = group * COLUMN + lane;
            char *scale = to->of_groups[group] + 4 * lane;
            if (shape.integers) {
                word_lanes found = widen_bytes(scales + place, 1);
                memcpy(scale, &found, sizeof found);
                continue;
            }
            store_floats((float *)scale,
                         load_numbers((const uint16_t *)scales + place, type->bfloat));
            if (type->offsets)
                store_floats((float *)(to->offsets[group] + 4 * lane),
                             load_numbers((const uint16_t *)offsets + place, type->bfloat));
        }
    if (!shape.integers) return;
    const float unit = type->halved ? 1.0f / (float)(1 << type->halved) : 1.0f;
    const uint16_t *numbers = (const uint16_t *)(tile + numbers_at(shape, type->offsets));
    for (int lane = 0; lane < COLUMN; lane += LANES) {
        store_floats(to->of_block + lane, unit * load_numbers(numbers + lane, type->bfloat));
        if (!type->offsets) continue;
        store_floats(to->offset_of_block + lane,
                     load_numbers(numbers + COLUMN + lane, type->bfloat));
        for (int group = 0; group < groups_of(shape); group += 2) {
            word_lanes first = widen_bytes(offsets + group * COLUMN + lane, 0);
            word_lanes second = widen_bytes(offsets + (group + 1) * COLUMN + lane, 0);
            word_lanes pair = first | second << 16;
            memcpy(to->offsets[group / 2] + 4 * lane, &pair, sizeof pair);
        }
    }
}

/* ------------------------------------------------------------------ codes */

INLINE word_lanes every_byte(uint8_t byte) {
    return (word_lanes){0} + (int32_t)(byte * 0x01010101u);
}

/* For each byte, 0 .. 15, that of a table. */
INLINE word_lanes look_up(word_lanes codes, const int8_t *values) {
#if REGISTER == 64
    __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)values));
    return (word_lanes)_mm512_shuffle_epi8(table, (__m512i)codes);
#elif REGISTER == 32
    __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)values));
    return (word_lanes)_mm256_shuffle_epi8(table, (__m256i)codes);
#elif defined(__SSSE3__)
    return (word_lanes)_mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)values), (__m128i)codes);
#elif ARM64
    return (word_lanes)vqtbl1q_s8(vld1q_s8(values), (uint8x16_t)codes);
#else
    byte_lanes found = (byte_lanes)codes;
    for (int byte = 0; byte < REGISTER; byte++) found[byte] = values[found[byte] & 15];
    return (word_lanes)found;
#endif
}

/* A word of a group as it is multiplied: less LOWEST_BYTE if it is signed. */
INLINE word_lanes load_codes(struct shape shape, const int8_t *values, const char *codes, int group,
                             int word) {
    if (shape.bits == 8) {
        word_lanes found = load_words(codes + (group * GROUP_WORDS + word) * STEP);
        return shape.unpacked ? found : found ^ every_byte((uint8_t)LOWEST_BYTE);
    }
    word_lanes both = load_words(codes + (group / 2 * GROUP_WORDS + word) * STEP);
    word_lanes found = both >> group % 2 * 4 & every_byte(15);
    if (shape.lookup) return look_up(found, values);
    if (shape.bits == 5) {
        word_lanes high = load_words(codes + LOW_BYTES + word * STEP);
        found |= (high >> group & every_byte(1)) << 4;
    } else if (shape.bits == 6) {
        const char *from = codes + LOW_BYTES + (group / 4 * GROUP_WORDS + word) * STEP;
        found |= (load_words(from) >> group % 4 * 2 & every_byte(3)) << 4;
    }
    return found;
}

/* The table, less LOWEST_BYTE. */
INLINE void moved_values(const struct block_type *type, int8_t *to) {
    for (int code = 0; code < 16; code++) to[code] = (int8_t)(type->values[code] - LOWEST_BYTE);
}

#endif
