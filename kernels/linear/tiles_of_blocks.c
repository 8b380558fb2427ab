/* The blocks of GGUF files as tiles (blocks.h): nothing is rounded, only moved. */
#include "linear/codes.h"

/* ------------------------------------------------------------------ blocks of 32 or 64 */

/* Lower halves of bytes are the first sixteen codes. */
static void take_halves(const uint8_t *from, uint8_t *to) {
    for (int place = 0; place < 16; place++) {
        to[place] = from[place] & 15;
        to[16 + place] = from[place] >> 4;
    }
}

static void add_fifth_bits(const uint8_t *from, uint8_t *to) {
    for (int place = 0; place < 32; place++)
        to[place] |= (uint8_t)((from[place / 8] >> place % 8 & 1) << 4);
}

/* Two to the power `exponent` - 128 as bfloat16. */
static uint16_t power_of_two(uint8_t exponent) {
    return exponent < 2 ? (uint16_t)(0x20 << exponent) : (uint16_t)((exponent - 1) << 7);
}

/* Half an E4M3 number without its sign as float16; its NaN counts as 0. */
static uint16_t half_of_e4m3(uint8_t code) {
    static const uint16_t smallest[] = {0, 0x1400, 0x1800, 0x1a00, 0x1c00, 0x1d00, 0x1e00, 0x1f00};
    int size = code == 0x7f ? 0 : code & 0x7f;
    return size < 8 ? smallest[size] : (uint16_t)((size << 7) + (7 << 10));
}

static void take_nvfp4(const uint8_t *from, int block, struct codes *to) {
    for (int each = 0; each < 4; each++) {
        const uint8_t *bytes = from + 4 + 8 * each;
        int group = 4 * block + each;
        uint8_t *codes = to->of + 16 * group;
        to->numbers[group] = half_of_e4m3(from[each]);
        for (int place = 0; place < 8; place++) {
            codes[place] = bytes[place] & 15;
            codes[8 + place] = bytes[place] >> 4;
        }
    }
}

/* A block with numbers: of all types but NVFP4 it is a group. */
static void take_small(int id, const uint8_t *from, int group, struct codes *to) {
    if (id == NVFP4) {
        take_nvfp4(from, group, to);
        return;
    }
    uint8_t *codes = to->of + group * GROUP;
    int with_offset = id == Q4_1 || id == Q5_1, with_bits = id == Q5_0 || id == Q5_1;
    if (id == MXFP4) {
        to->numbers[group] = power_of_two(from[0]);
        take_halves(from + 1, codes);
        return;
    }
    to->numbers[group] = half_at(from);
    if (with_offset) to->number_offsets[group] = half_at(from + 2);
    from += with_offset ? 4 : 2;
    if (id == Q8_0) {
        memcpy(codes, from, GROUP);
        return;
    }
    take_halves(from + (with_bits ? 4 : 0), codes);
    if (with_bits) add_fifth_bits(from, codes);
}

/* ------------------------------------------------------------------ blocks of 256 */

/* Adds some bits of bytes [.., 32] to codes, at bit `to_bit`: of each run of 32 bytes the lowest
 * `bits` of all are 32 codes, and the next ones the next. */
INLINE void take_bits(const uint8_t *from, int bits, int to_bit, uint8_t *to) {
    for (int run = 0; run < BLOCK_INPUTS / 32; run++, to += 32) {
        const uint8_t *bytes = from + run / (8 / bits) * 32;
        int shift = run % (8 / bits) * bits;
        for (int place = 0; place < 32; place++)
            to[place] |= (uint8_t)((bytes[place] >> shift & ((1 << bits) - 1)) << to_bit);
    }
}

/* Eight scales and eight offsets of six bits. */
static void take_six_bits(const uint8_t *from, struct codes *to) {
    for (int group = 0; group < 4; group++) {
        to->scales[group] = from[group] & 63;
        to->offsets[group] = from[4 + group] & 63;
        to->scales[4 + group] = (int8_t)((from[8 + group] & 15) | from[group] >> 6 << 4);
        to->offsets[4 + group] = (uint8_t)(from[8 + group] >> 4 | from[4 + group] >> 6 << 4);
    }
}

static void take_q2_k(const uint8_t *from, struct codes *to) {
    for (int group = 0; group < 16; group++) {
        to->scales[group] = from[group] & 15;
        to->offsets[group] = from[group] >> 4;
    }
    take_bits(from + 16, 2, 0, to->of);
    to->numbers[0] = half_at(from + 80);
    to->number_offsets[0] = half_at(from + 82);
}

static void take_q3_k(const uint8_t *from, struct codes *to) {
    const uint8_t *scales = from + 96;
    for (int group = 0; group < 16; group++) {
        int low = scales[group % 8] >> group / 8 * 4 & 15;
        int high = scales[8 + group % 4] >> group / 4 * 2 & 3;
        to->scales[group] = (int8_t)((low | high << 4) - 32);
    }
    take_bits(from + 32, 2, 0, to->of);
    take_bits(from, 1, 2, to->of);
    to->numbers[0] = half_at(from + 108);
}

static void take_q4_k(const uint8_t *from, struct codes *to) {
    to->numbers[0] = half_at(from);
    to->number_offsets[0] = half_at(from + 2);
    take_six_bits(from + 4, to);
    to->low = from + 16;
}

static void take_q5_k(const uint8_t *from, struct codes *to) {
    to->numbers[0] = half_at(from);
    to->number_offsets[0] = half_at(from + 2);
    take_six_bits(from + 4, to);
    to->low = from + 48;
    to->high = from + 16;
}

static void take_q6_k(const uint8_t *from, struct codes *to) {
    /* Of 64 bytes the lower halves are the first 64 codes of a half, the upper ones the others. */
    for (int half = 0; half < 2; half++)
        for (int place = 0; place < GROUP; place++) {
            const uint8_t *bytes = from + 64 * half + place;
            uint8_t *low = to->of + 64 * half + place;
            low[0] = (uint8_t)((bytes[0] & 15) | bytes[GROUP] << 4);
            low[GROUP] = (uint8_t)(bytes[0] >> 4 | (bytes[GROUP] & 0xf0));
        }
    to->low = to->of;
    to->high = from + 128;
    memcpy(to->scales, from + 192, 16);
    to->numbers[0] = half_at(from + 208);
}

static void take_iq4_xs(const uint8_t *from, struct codes *to) {
    int high = half_at(from + 2);
    to->numbers[0] = half_at(from);
    for (int group = 0; group < GROUPS_OF_BLOCK; group++) {
        int low = from[4 + group / 2] >> group % 2 * 4 & 15;
        to->scales[group] = (int8_t)((low | (high >> 2 * group & 3) << 4) - 32);
        take_halves(from + 8 + 16 * group, to->of + GROUP * group);
    }
}

/* Three values, and one scale for all. */
static void take_ternary_scales(const uint8_t *number, struct codes *to) {
    to->numbers[0] = half_at(number);
    memset(to->scales, 1, sizeof to->scales);
}

/* Bytes are fractions of 256 in base 3: the digits that overflow when they are tripled. */
static uint8_t *take_digits(const uint8_t *from, int count, int digits, uint8_t *to) {
    for (int digit = 0, power = 1; digit < digits; digit++, power *= 3)
        for (int place = 0; place < count; place++)
            *to++ = (uint8_t)((uint8_t)(from[place] * power) * 3 >> 8);
    return to;
}

static void take_tq1_0(const uint8_t *from, struct codes *to) {
    uint8_t *rest = take_digits(from, 32, 5, to->of);
    rest = take_digits(from + 32, 16, 5, rest);
    take_digits(from + 48, 4, 4, rest);
    take_ternary_scales(from + 52, to);
}

static void take_tq2_0(const uint8_t *from, struct codes *to) {
    take_bits(from, 2, 0, to->of);
    take_ternary_scales(from + 64, to);
}

static const struct {
    int values, bytes; /* of a block */
    void (*take)(const uint8_t *from, struct codes *to);
} BLOCKS[] = {
    [Q4_0] = {32, 18},
    [Q4_1] = {32, 20},
    [Q5_0] = {32, 22},
    [Q5_1] = {32, 24},
    [Q8_0] = {32, 34},
    [IQ4_NL] = {32, 18},
    [MXFP4] = {32, 17},
    [Q2_K] = {256, 84, take_q2_k},
    [Q3_K] = {256, 110, take_q3_k},
    [Q4_K] = {256, 144, take_q4_k},
    [Q5_K] = {256, 176, take_q5_k},
    [Q6_K] = {256, 210, take_q6_k},
    [IQ4_XS] = {256, 136, take_iq4_xs},
    [NVFP4] = {64, 36},
    [IQ1_S] = {256, 50, take_iq1_s},
    [IQ1_M] = {256, 56, take_iq1_m},
    [IQ2_XXS] = {256, 66, take_iq2_xxs},
    [IQ2_XS] = {256, 74, take_iq2_xs},
    [IQ2_S] = {256, 82, take_iq2_s},
    [IQ3_XXS] = {256, 98, take_iq3_xxs},
    [IQ3_S] = {256, 110, take_iq3_s},
    [TQ1_0] = {256, 54, take_tq1_0},
    [TQ2_0] = {256, 66, take_tq2_0},
};

/* ------------------------------------------------------------------ tiles */

static void put_words(const uint8_t *bytes, long count, int output, char *to) {
    for (long word = 0; word < count / 4; word++)
        memcpy(to + word * STEP + 4 * output, bytes + 4 * word, 4);
}

static void put_codes(struct shape shape, const struct codes *from, int output, char *tile) {
    uint8_t low[BLOCK_INPUTS / 2], high[BLOCK_INPUTS / 4] = {0};
    if (shape.bits == 8) {
        put_words(from->of, BLOCK_INPUTS, output, tile);
        return;
    }
    int bits = shape.bits - 4, groups = bits ? 8 / bits : 0;
    if (from->low) {
        put_words(from->low, sizeof low, output, tile);
        put_words(from->high, BLOCK_INPUTS * bits / 8, output, tile + LOW_BYTES);
        return;
    }
    for (int pair = 0; pair < GROUPS_OF_BLOCK / 2; pair++) {
        const uint8_t *first = from->of + 2 * pair * GROUP;
        for (int place = 0; place < GROUP; place++)
            low[pair * GROUP + place] = (uint8_t)((first[place] & 15) | first[GROUP + place] << 4);
    }
    put_words(low, sizeof low, output, tile);
    for (int group = 0; group < GROUPS_OF_BLOCK && bits; group++) {
        const uint8_t *codes = from->of + group * GROUP;
        uint8_t *to = high + group / groups * GROUP;
        int shift = group % groups * bits;
        for (int place = 0; place < GROUP; place++)
            to[place] |= (uint8_t)(codes[place] >> 4 << shift);
    }
    put_words(high, BLOCK_INPUTS * bits / 8, output, tile + LOW_BYTES);
}

static void put_scales(const struct block_type *type, const struct codes *from, int output,
                       char *tile) {
    const struct shape shape = type->shape;
    char *scales = tile + scales_at(shape), *offsets = tile + offsets_at(shape);
    for (int group = 0; group < groups_of(shape); group++) {
        long place = group * COLUMN + output;
        if (shape.integers) {
            scales[place] = from->scales[group];
            if (type->offsets) offsets[place] = (char)from->offsets[group];
        } else {
            memcpy(scales + 2 * place, from->numbers + group, 2);
            if (type->offsets) memcpy(offsets + 2 * place, from->number_offsets + group, 2);
        }
    }
    if (!shape.integers) return;
    char *numbers = tile + numbers_at(shape, type->offsets) + 2 * output;
    memcpy(numbers, from->numbers, 2);
    if (type->offsets) memcpy(numbers + 2 * COLUMN, from->number_offsets, 2);
}

/* One tile: of sixteen rows or what is left, which the other outputs have as zeros. */
static void put_tile(const struct tile *all, long column, long block, char *to) {
    const struct block_type *type = block_type_of(all->format);
    long values = BLOCKS[all->format].values, bytes = BLOCKS[all->format].bytes;
    long row_bytes = all->inputs / values * bytes, inputs = all->inputs - block * BLOCK_INPUTS;
    memset(to, 0, tile_bytes(type));
    for (int output = 0; output < smaller(COLUMN, all->outputs - column * COLUMN); output++) {
        struct codes codes = {.grid = all->grid};
        const uint8_t *from = (const uint8_t *)all->from + (column * COLUMN + output) * row_bytes +
                              block * BLOCK_INPUTS / values * bytes;
        if (BLOCKS[all->format].take)
            BLOCKS[all->format].take(from, &codes);
        else
            for (int each = 0; each < smaller(BLOCK_INPUTS, inputs) / values; each++)
                take_small(all->format, from + each * bytes, each, &codes);
        put_codes(type->shape, &codes, output, to);
        put_scales(type, &codes, output, to);
    }
}

static void one_column(const void *given, long column) {
    const struct tile *all = given;
    long blocks = tiles_of_row(all->inputs), bytes = tile_bytes(block_type_of(all->format));
    for (long block = 0; block < blocks; block++)
        put_tile(all, column, block, (char *)all->to + (column * blocks + block) * bytes);
}

int waymark_tile_blocks(struct tile *all) {
    pool_each(one_column, all, pool_parts(all->outputs, COLUMN), COLUMN * all->inputs,
              all->threads);
    return 1;
}
