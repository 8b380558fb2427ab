/* Sharing out a product. */
#include "linear/product.h"

/* Eight parts a thread, so that the last ones end together, of so many bytes of weights at most: a
 * new place in memory starts slowly. */
#define PARTS_OF_THREAD 8
#define FEWEST_BYTES 65536
#define MOST_BYTES 524288
#define MOST_OUTPUTS (POOL_RESULT / (long)sizeof(float))
POOL_TAKES(struct linear);

/* One row: results go to `result` first, since a part may be done twice. */
static void put_results(const void *given, long part, const void *result) {
    const struct linear *all = given;
    long first = first_output(all, part), end = end_of_outputs(all, part);
    for (long output = first; output < end; output++)
        put_result(all, 0, output, ((const float *)result)[output - first]);
}

void run_product(pool_compute one, pool_compute some, struct linear *all, long row_bytes) {
    long bytes = row_bytes * all->outputs / (PARTS_OF_THREAD * all->threads);
    bytes = bytes < FEWEST_BYTES ? FEWEST_BYTES : bytes > MOST_BYTES ? MOST_BYTES : bytes;
    long outputs = bytes / row_bytes, fewest = (all->outputs + POOL_PARTS - 1) / POOL_PARTS;
    outputs = outputs < fewest ? fewest : outputs;
    all->outputs_of_part = outputs < 1 ? 1 : outputs > MOST_OUTPUTS ? MOST_OUTPUTS : outputs;
    long parts = pool_parts(all->outputs, all->outputs_of_part);
    if (all->rows == 1)
        pool_run(one, put_results, all, sizeof *all, parts, all->threads);
    else
        pool_rows(some, all, parts, all->threads);
}
