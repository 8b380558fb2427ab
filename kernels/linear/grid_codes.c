/* Blocks that choose rows of a grid: IQ1, IQ2 and IQ3. A row has eight codes, or four.
 *
 * A code's lowest bits are those of the grid, and bit 3 is a sign, so that a table of sixteen
 * integers has all values of a block.
 */
#include "linear/codes.h"

#define RUNS 32 /* of eight codes */

/* Eight codes from two halves, with their signs. */
static void choose(const uint8_t *first, const uint8_t *second, int signs, uint8_t *to) {
    const uint64_t every = 0x0101010101010101;
    /* Byte i has bit i of the signs, which a sum carries to bit 7. */
    uint64_t spread = (uint64_t)signs * every & 0x8040201008040201, codes;
    memcpy(&codes, first, 4);
    memcpy((uint8_t *)&codes + 4, second, 4);
    codes |= ((spread + 0x7f * every) & (0x80 * every)) >> 4;
    memcpy(to, &codes, 8);
}

static void choose_eight(struct codes *to, int run, int row, int signs) {
    const uint8_t *from = to->grid + 8 * row;
    choose(from, from + 4, signs, to->of + 8 * run);
}

static void choose_fours(struct codes *to, int run, int first, int second, int signs) {
    choose(to->grid + 4 * first, to->grid + 4 * second, signs, to->of + 8 * run);
}

static uint32_t word_at(const uint8_t *from) {
    return half_at(from) | (uint32_t)half_at(from + 2) << 16;
}

/* Signs of which the eighth makes the number of minus signs even. */
static int even_signs(uint32_t seven) {
    seven &= 127;
    return (int)(seven | (uint32_t)__builtin_parity(seven) << 7);
}

/* Scales 2 s + 1 for `count` codes of four bits. */
static void take_odd_scales(const uint8_t *from, int count, int8_t *to) {
    for (int group = 0; group < count; group++)
        to[group] = (int8_t)(2 * (from[group / 2] >> group % 2 * 4 & 15) + 1);
}

void take_iq1_s(const uint8_t *from, struct codes *to) {
    to->numbers[0] = half_at(from);
    for (int run = 0; run < RUNS; run++) {
        int word = half_at(from + 34 + run / 4 * 2);
        int row = from[2 + run] | (word >> run % 4 * 3 & 7) << 8;
        choose_eight(to, run, row, word >> 15 ? 0xff : 0);
        to->scales[run / 4] = (int8_t)(2 * (word >> 12 & 7) + 1);
    }
}

void take_iq1_m(const uint8_t *from, struct codes *to) {
    for (int run = 0; run < RUNS; run++) {
        int high = from[32 + run / 2] >> run % 2 * 4 & 15;
        choose_eight(to, run, from[run] | (high & 7) << 8, high >> 3 ? 0xff : 0);
    }
    for (int group = 0; group < 16; group++) {
        int word = half_at(from + 48 + group / 4 * 2);
        to->scales[group] = (int8_t)(2 * (word >> group % 4 * 3 & 7) + 1);
        if (group % 4 == 0) to->numbers[0] |= (uint16_t)(word >> 12 << group);
    }
}

void take_iq2_xxs(const uint8_t *from, struct codes *to) {
    to->numbers[0] = half_at(from);
    for (int run = 0; run < RUNS; run++) {
        const uint8_t *rows = from + 2 + run / 4 * 8;
        uint32_t word = word_at(rows + 4);
        choose_eight(to, run, rows[run % 4], even_signs(word >> run % 4 * 7));
        to->scales[run / 4] = (int8_t)(2 * (word >> 28) + 1);
    }
}

void take_iq2_xs(const uint8_t *from, struct codes *to) {
    to->numbers[0] = half_at(from);
    for (int run = 0; run < RUNS; run++) {
        int word = half_at(from + 2 + 2 * run);
        choose_eight(to, run, word & 511, even_signs((uint32_t)word >> 9));
    }
    take_odd_scales(from + 66, 16, to->scales);
}

void take_iq2_s(const uint8_t *from, struct codes *to) {
    const uint8_t *signs = from + 34, *high = from + 66;
    to->numbers[0] = half_at(from);
    for (int run = 0; run < RUNS; run++) {
        int row = from[2 + run] | (high[run / 4] >> run % 4 * 2 & 3) << 8;
        choose_eight(to, run, row, signs[run]);
    }
    take_odd_scales(from + 74, 16, to->scales);
}

void take_iq3_xxs(const uint8_t *from, struct codes *to) {
    to->numbers[0] = half_at(from);
    for (int run = 0; run < RUNS; run++) {
        const uint8_t *rows = from + 2 + 2 * run;
        uint32_t word = word_at(from + 66 + run / 4 * 4);
        choose_fours(to, run, rows[0], rows[1], even_signs(word >> run % 4 * 7));
        to->scales[run / 4] = (int8_t)(2 * (word >> 28) + 1);
    }
}

void take_iq3_s(const uint8_t *from, struct codes *to) {
    const uint8_t *signs = from + 74;
    to->numbers[0] = half_at(from);
    for (int run = 0; run < RUNS; run++) {
        const uint8_t *rows = from + 2 + 2 * run;
        int high = from[66 + run / 4] >> run % 4 * 2;
        choose_fours(to, run, rows[0] | (high & 1) << 8, rows[1] | (high & 2) << 7, signs[run]);
    }
    take_odd_scales(from + 106, 8, to->scales);
}
