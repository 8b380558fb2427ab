/* Many rows of bfloat16 through a matrix of 4-bit integers in groups, on AMX: weights
 * become bfloat16 as they are put in order. */
#include "linear/groups.h"
#include "linear/many.h"

POOL_TAKES(struct linear);

/* A group is as many numbers as a step has. */
_Static_assert(GROUP == INNER, "a group is another step");

static void order(const struct linear *all, long first, char *to) {
    uint16_t filled[TILE * GROUP];
    long groups = all->inputs / GROUP;
    for (long output = first; output < first + BLOCK; output += TILE)
        for (long group = 0; group < groups; group++, to += TILE * STEP) {
            long rows = smaller(TILE, all->outputs - output);
            if (rows < TILE) memset(filled, 0, sizeof filled);
            for (long row = 0; row < rows; row++) {
                long place = (output + row) * groups + group;
                unpack_bfloats((const uint8_t *)all->weight + place * HALF,
                               ((const uint32_t *)all->scales)[place], filled + row * GROUP);
            }
            turn_words(filled, STEP, to);
        }
}

static void multiply(const struct linear *all, const struct tiles *own, long row, long output,
                     const char *weights) {
    float found[BLOCK * BLOCK];
    long rows = smaller(BLOCK, all->rows - row), outputs = smaller(BLOCK, all->outputs - output);
    struct block_product product = {.left = (const uint16_t *)all->from + row * all->inputs,
                                    .right = weights,
                                    .to = found,
                                    .left_stride = 2 * all->inputs,
                                    .right_stride = all->inputs / GROUP * STEP * TILE,
                                    .to_stride = BLOCK * sizeof *found,
                                    .steps = all->inputs / GROUP};
    multiply_floats(own, product);
    for (long each = 0; each < rows; each++)
        for (long place = 0; place < outputs; place++)
            put_result(all, row + each, output + place, found[each * BLOCK + place]);
}

static void one_part(const void *given, long part, void *result) {
    (void)result;
    some_outputs(given, part, ((const struct linear *)given)->inputs / GROUP, order, multiply);
}

int waymark_linear_int4_many(struct linear *all) {
    return run_many(one_part, all);
}
