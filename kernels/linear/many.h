/* Products of many rows on AMX: outputs a block at a time, each in order for the
 * products by the thread that needs it, which takes less than a tenth of multiplying 100 rows. */
#ifndef WAYMARK_MANY_H
#define WAYMARK_MANY_H

#include <stdlib.h>

#include "linear/product.h"
#include "native/tiles.h"

/* Puts weights of BLOCK outputs from `first` on in order, with zeros where there are none. */
typedef void (*order_block)(const struct linear *all, long first, char *to);
/* BLOCK rows from `row` on through them. */
typedef void (*multiply_block)(const struct linear *all, const struct tiles *own, long row,
                               long output, const char *weights);

/* Work of one part: `steps` times STEP bytes are a row of a weight in order. Outputs are taken
 * AT_A_TIME blocks at once, for all of which a block of rows comes into the cache once. */
#define AT_A_TIME 2
INLINE void some_outputs(const struct linear *all, long part, long steps, order_block order,
                         multiply_block multiply_rows_of) {
    long first = first_output(all, part), end = end_of_outputs(all, part);
    long block_bytes = BLOCK * steps * STEP;
    char *weights = aligned_alloc(STEP, AT_A_TIME * block_bytes);
    struct tiles own;
    if (!weights) {
        __atomic_store_n((int *)all->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    tiles_begin(&own);
    for (; first < end; first += AT_A_TIME * BLOCK) {
        long blocks = smaller(AT_A_TIME, pool_parts(end - first, BLOCK));
        for (long block = 0; block < blocks; block++)
            order(all, first + block * BLOCK, weights + block * block_bytes);
        for (long row = 0; row < all->rows; row += BLOCK)
            for (long block = 0; block < blocks; block++)
                multiply_rows_of(all, &own, row, first + block * BLOCK,
                                 weights + block * block_bytes);
    }
    tiles_end(&own);
    free(weights);
}

/* All outputs, by `compute`, which does some_outputs of a part. */
static inline int run_many(pool_compute compute, const struct linear *given) {
    struct linear all = *given; /* which may be called again */
    long blocks = pool_parts(all.outputs, AT_A_TIME * BLOCK);
    int failed = 0;
    all.failed = &failed;
    all.outputs_of_part = AT_A_TIME * BLOCK * pool_share(blocks, 1, all.threads);
    pool_rows(compute, &all, pool_parts(all.outputs, all.outputs_of_part), all.threads);
    return !failed;
}

#endif
