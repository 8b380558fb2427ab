/* Many rows through a matrix of 8-bit integers, on AMX. */
#include "linear/many.h"

POOL_TAKES(struct linear);

static inline long steps_of(const struct linear *all) {
    return (all->inputs + STEP - 1) / STEP;
}

static void order(const struct linear *all, long first, char *to) {
    const char *weight = all->weight;
    char filled[TILE * STEP];
    for (long output = first; output < first + BLOCK; output += TILE)
        for (long place = 0; place < all->inputs; place += STEP, to += TILE * STEP) {
            const char *from = weight + output * all->inputs + place;
            long rows = smaller(TILE, all->outputs - output), stride = all->inputs;
            long width = smaller(STEP, all->inputs - place);
            if (rows < TILE || width < STEP) {
                memset(filled, 0, sizeof filled);
                for (long row = 0; row < rows; row++)
                    memcpy(filled + row * STEP, from + row * stride, width);
                from = filled, stride = STEP;
            }
            turn_words(from, stride, to);
        }
}

INLINE void put(const struct linear *all, const int32_t *found, long row, long output,
                int is_bfloat) {
    long rows = smaller(BLOCK, all->rows - row), outputs = smaller(BLOCK, all->outputs - output);
    const float *scales = (const float *)all->scales + output;
    for (long each = 0; each < rows; each++)
        for (long place = 0; place < outputs; place++) {
            float sum = (float)found[each * BLOCK + place] * scales[place] * row_scales[row + each];
            if (all->bias) sum += read_number(all->bias, output + place, is_bfloat);
            write_number(all->to, (row + each) * all->to_stride + output + place, sum, is_bfloat);
        }
}

static void multiply(const struct linear *all, const struct tiles *own, long row, long output,
                     const char *weights) {
    int32_t found[BLOCK * BLOCK];
    struct block_product product = {.left = row_integers + row * all->inputs,
                                    .right = weights,
                                    .to = found,
                                    .left_stride = all->inputs,
                                    .right_stride = steps_of(all) * STEP * TILE,
                                    .to_stride = BLOCK * sizeof *found,
                                    .steps = steps_of(all)};
    multiply_integers(own, product);
    if (all->is_bfloat)
        put(all, found, row, output, 1);
    else
        put(all, found, row, output, 0);
}

static void one_part(const void *given, long part, void *result) {
    (void)result;
    some_outputs(given, part, steps_of(given), order, multiply);
}

int waymark_linear_int8_many(struct linear *all) {
    quantise_rows(all);
    return run_many(one_part, all);
}
