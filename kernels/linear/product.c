/* Sharing out a product. */
#include "linear/product.h"

/* Eight parts a thread, so that the last ones end together, but limited in bytes of weights:
 * reading at a new address starts slowly. */
#define PARTS_OF_THREAD 8
#define FEWEST_BYTES 65536
#define MOST_BYTES 524288
#define MOST_RESULTS (POOL_RESULT / (long)sizeof(float))
POOL_TAKES(struct linear);

INLINE void put_results_of(const struct linear *all, long row, long part, const float *found) {
    long first = first_output(all, part), end = end_of_outputs(all, part);
    if (all->is_bfloat && !all->bias) {
        uint16_t *to = (uint16_t *)all->to + row * all->to_stride;
        for (long output = first; output < end; output++) to[output] = to_bfloat(*found++);
    } else {
        for (long output = first; output < end; output++) put_result(all, row, output, *found++);
    }
}

static void put_results(const void *given, long part, const void *result) {
    const struct linear *all = given;
    for (long row = 0; row < all->rows; row++)
        put_results_of(all, row, part, (const float *)result + row * all->outputs_of_part);
}

/* Of a part with `results` an output, where `rows` rows have weights of their own. */
static long outputs_of_part(const struct linear *all, long rows, long results, long row_bytes,
                            long at_once) {
    long bytes = row_bytes * all->outputs * rows / (PARTS_OF_THREAD * all->threads);
    bytes = bytes < FEWEST_BYTES ? FEWEST_BYTES : bytes > MOST_BYTES ? MOST_BYTES : bytes;
    long outputs = bytes / row_bytes, fewest = pool_parts(rows * all->outputs, POOL_PARTS);
    outputs = rounded_up(outputs < fewest ? fewest : outputs, at_once);
    return smaller(outputs < 1 ? 1 : outputs, MOST_RESULTS / results / at_once * at_once);
}

void run_product(pool_compute some, struct linear *all, long row_bytes, long at_once) {
    all->outputs_of_part = outputs_of_part(all, 1, all->rows, row_bytes, at_once);
    long parts = pool_parts(all->outputs, all->outputs_of_part);
    pool_run(some, put_results, all, sizeof *all, parts, all->threads);
}

/* ------------------------------------------------------------------ experts */

POOL_TAKES(struct routed);

static void put_routed(const void *given, long part, const void *result) {
    const struct routed *all = given;
    struct linear each = all->each;
    long row = part / all->parts_of_row;
    if (all->biases) each.bias = all->biases[all->ids[row]];
    put_results_of(&each, all->first + row, part % all->parts_of_row, result);
}

void run_routed(pool_compute one, const struct expert_rows *all, long row_bytes, long at_once) {
    struct routed some = {.each = inputs_of_experts(all),
                          .weights = all->weights,
                          .scales = all->scales,
                          .biases = all->biases,
                          .share = all->share};
    some.each.to = all->to;
    some.each.to_stride = all->to_stride;
    for (; some.first < all->rows; some.first += MOST_ROUTED) {
        long rows = smaller(all->rows - some.first, MOST_ROUTED);
        for (long row = 0; row < rows; row++)
            some.ids[row] = (uint16_t)((const int32_t *)all->ids)[some.first + row];
        some.each.outputs_of_part = outputs_of_part(&some.each, rows, 1, row_bytes, at_once);
        some.parts_of_row = pool_parts(all->outputs, some.each.outputs_of_part);
        pool_run(one, put_routed, &some, sizeof some, rows * some.parts_of_row, all->threads);
    }
}
