/* Codes and scales of a GGUF block, before they are part of a tile. */
#ifndef WAYMARK_CODES_H
#define WAYMARK_CODES_H

#include "linear/blocks.h"

/* 256 inputs of a row. */
struct codes {
    uint8_t of[BLOCK_INPUTS];
    const uint8_t *low, *high; /* if set, the codes: their low four bits, the others */
    int8_t scales[16];         /* integers, one for each group, */
    uint8_t offsets[16];
    uint16_t numbers[16]; /* or numbers; of blocks with integers the first is the block's */
    uint16_t number_offsets[16];
    const uint8_t *grid; /* as of struct tile */
};

static inline uint16_t half_at(const uint8_t *from) {
    return (uint16_t)(from[0] | from[1] << 8);
}

/* Fill codes in from a block of 256 that chooses them from a grid (grid_codes.c). */
void take_iq1_s(const uint8_t *from, struct codes *to);
void take_iq1_m(const uint8_t *from, struct codes *to);
void take_iq2_xxs(const uint8_t *from, struct codes *to);
void take_iq2_xs(const uint8_t *from, struct codes *to);
void take_iq2_s(const uint8_t *from, struct codes *to);
void take_iq3_xxs(const uint8_t *from, struct codes *to);
void take_iq3_s(const uint8_t *from, struct codes *to);

#endif
