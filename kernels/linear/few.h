/* Few rows of a prompt through a matrix of integers, to the bits of many rows (many.h).
 *
 * Weights are read as they lie: to pack them takes several times as long as to read them, and with
 * sparse experts a short prompt has a row or two for each of a hundred matrices.
 */
#ifndef WAYMARK_FEW_H
#define WAYMARK_FEW_H

#include "linear/many.h"

#define FEW_ROWS 8
#define PUT_AT_ONCE 32 /* outputs; put_row rounds so many of a row as it does of more */

/* Both return 0 where there was no memory. */
int few_int8(struct linear *all);
int few_int4(struct linear *all);

/* Of `count` groups, sixteen at most, of sixteen rows or what there is: the scales, and the offsets
 * less 8 scales, as weights are multiplied as 0 .. 15; of each group `stride` bytes on. */
static inline void pack_pairs(const uint32_t *pairs, long rows, long groups, long count, char *to,
                              long stride) {
    char transposed[COLUMN * STEP];
    pack_column((const char *)pairs, rows, 4 * groups, 4 * count, STEP, COLUMN, NULL, transposed);
    for (long group = 0; group < count; group++) {
        uint32_t both[COLUMN];
        float apart[2 * COLUMN];
        memcpy(both, transposed + group * STEP, STEP);
        for (int output = 0; output < COLUMN; output++) {
            apart[output] = from_bfloat(both[output] & 0xffff);
            apart[COLUMN + output] = from_bfloat(both[output] >> 16) - 8 * apart[output];
        }
        memcpy(to + group * stride, apart, sizeof apart);
    }
}

/* Gives a part some outputs, whole multiples of PUT_AT_ONCE. */
static inline void run_few(pool_compute some, struct linear *all, const void *arguments) {
    long pieces = pool_parts(all->outputs, PUT_AT_ONCE);
    all->outputs_of_part = PUT_AT_ONCE * pool_share(pieces, 1, all->threads);
    pool_rows(some, arguments, pool_parts(all->outputs, all->outputs_of_part), all->threads);
}

#endif
