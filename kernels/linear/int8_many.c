/* Many rows through a matrix of 8-bit integers, on the matrix unit.
 *
 * Weights lie as they were kept, row by row: those of a block of outputs are put in order for the
 * products by the thread that needs them, which takes less than a tenth of multiplying 100 rows.
 */
#include <stdlib.h>

#include "linear/product.h"
#include "native/tiles.h"

TEAM_TAKES(struct linear);

static inline long smaller(long first, long second) {
    return first < second ? first : second;
}

static inline long steps_of(const struct linear *all) {
    return (all->inputs + STEP - 1) / STEP;
}

/* Weights of outputs from `first` on, with zeros where there are none. */
static void order_weights(const struct linear *all, long first, char *to) {
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

INLINE void put_block(const struct linear *all, const int32_t *sums_of, long row, long output,
                      int is_bfloat) {
    long rows = smaller(BLOCK, all->rows - row), outputs = smaller(BLOCK, all->outputs - output);
    const float *scales = (const float *)all->scales + output;
    for (long each = 0; each < rows; each++) {
        long to = (row + each) * all->to_stride + output;
        for (long place = 0; place < outputs; place++) {
            float found =
                (float)sums_of[each * BLOCK + place] * scales[place] * row_scales[row + each];
            if (all->bias) found += read_number(all->bias, output + place, is_bfloat);
            write_number(all->to, to + place, found, is_bfloat);
        }
    }
}

/* A block of outputs of all rows. */
static void multiply_block(const struct linear *all, const struct tiles *own, long output,
                           char *weights) {
    int32_t found[BLOCK * BLOCK];
    struct block_product product = {.right = weights,
                                    .to = found,
                                    .left_stride = all->inputs,
                                    .right_stride = steps_of(all) * STEP * TILE,
                                    .to_stride = BLOCK * sizeof *found,
                                    .steps = steps_of(all)};
    order_weights(all, output, weights);
    for (long row = 0; row < all->rows; row += BLOCK) {
        product.left = row_integers + row * all->inputs;
        multiply_integers(own, product);
        if (all->is_bfloat)
            put_block(all, found, row, output, 1);
        else
            put_block(all, found, row, output, 0);
    }
}

static void some_blocks(const void *given, long part, void *result) {
    const struct linear *all = given;
    long first = first_output(all, part), end = end_of_outputs(all, part);
    char *weights = aligned_alloc(STEP, BLOCK * steps_of(all) * STEP);
    struct tiles own;
    (void)result;
    if (!weights) {
        __atomic_store_n((int *)all->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    tiles_begin(&own);
    for (; first < end; first += BLOCK) multiply_block(all, &own, first, weights);
    tiles_end(&own);
    free(weights);
}

int waymark_linear_int8_many(struct linear *given) {
    struct linear all = *given; /* which may be called again */
    long blocks = team_parts(all.outputs, BLOCK);
    int failed = 0;
    all.failed = &failed;
    all.outputs_of_part = BLOCK * team_share(blocks, 1, all.threads);
    quantise_rows(&all);
    team_rows(some_blocks, &all, team_parts(all.outputs, all.outputs_of_part), all.threads);
    return !failed;
}
