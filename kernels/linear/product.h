/* Shared by GEMV and products of a few rows: y = x W^T + b, each weight read once.
 *
 * A part is some outputs. One thread adds up each result in one order, so bits don't depend on the
 * number of threads. Weights are stored row by row. A row has the bits that it has alone.
 */
#ifndef WAYMARK_PRODUCT_H
#define WAYMARK_PRODUCT_H

#include "native/calls.h"
#include "native/integers.h"
#include "native/numbers.h"
#include "native/thread_pool.h"

/* The capacity of the arrays below, for all rows together. */
#define MOST_NUMBERS (1 << 20)
#define AT_ONCE 8       /* rows of inputs at most */
#define SMALLEST 1e-30f /* instead of zero as a scale */
/* Prefetch distance in bytes. Rows are contiguous, so nothing is prefetched in vain. */
#define AHEAD 2048

/* The rows of inputs as integers, and their scales (quantise.c). Static, because a late thread may
 * still read them. */
extern int8_t row_integers[MOST_NUMBERS + 64];
extern float row_scales[MOST_NUMBERS / 16];

/* Turns `from` into them. */
void quantise_rows(const struct linear *all);

/* Row `row` of `from` as integers with zeros behind them, [inputs]: as `int8.quantise_inputs`.
 * Returns their scale. */
float quantise_row(const struct linear *all, long row, int8_t *to);

/* Its two halves: the scale, and `count` numbers from `start` on. */
float scale_of_row(const struct linear *all, long row);
void quantise_numbers(const struct linear *all, long row, long start, long count, float scale,
                      int8_t *to);

/* One output of `count` rows from `row` on, without its bias. */
typedef void (*output_of)(const struct linear *all, long output, long row, int count, float *to);

static inline long first_output(const struct linear *all, long part) {
    return part * all->outputs_of_part;
}

static inline long end_of_outputs(const struct linear *all, long part) {
    long end = (part + 1) * all->outputs_of_part;
    return end < all->outputs ? end : all->outputs;
}

/* Where result `output` of row `row` goes, with its bias. */
INLINE void put_result(const struct linear *all, long row, long output, float found) {
    if (all->bias) found += read_number(all->bias, output, all->is_bfloat);
    write_number(all->to, row * all->to_stride + output, found, all->is_bfloat);
}

/* A part of the outputs of `count` rows from `row` on: `to` [count, outputs_of_part]. Their number
 * is a constant of `one_output`, so that their sums stay in registers. */
INLINE void multiply_rows(const struct linear *all, long part, long row, long count, float *to,
                          output_of one_output) {
    long end = end_of_outputs(all, part);
    for (long output = first_output(all, part); output < end; output++, to++) {
        float found[AT_ONCE];
        switch (count) {
#define COUNT(count)                                                                               \
    case count:                                                                                    \
        one_output(all, output, row, count, found);                                                \
        break;
            COUNT(1)
            COUNT(2)
            COUNT(3)
            COUNT(4)
            COUNT(5)
            COUNT(6)
            COUNT(7)
            COUNT(8)
#undef COUNT
        }
        for (long each = 0; each < count; each++) to[each * all->outputs_of_part] = found[each];
    }
}

/* `some` computes a part of a multiple of `at_once` outputs. `row_bytes` is the size of a row of
 * weights. */
void run_product(pool_compute some, struct linear *all, long row_bytes, long at_once);

/* ------------------------------------------------------------------ experts */

#define MOST_STEP_ROWS 64 /* of a step, as kernels/experts/native.py says */
#define MOST_ROUTED 16    /* rows of one job, whose experts it has by itself: see `ids` */

/* Some rows of an expert_rows, from `first` on: `each` is what their products have in common. */
struct routed {
    struct linear each;
    const void *const *weights, *const *scales, *const *biases;
    long first, share, parts_of_row;
    uint16_t ids[MOST_ROUTED]; /* a copy: a late thread may read it after the caller's is gone */
};

/* The rows of `all` as they are read for any expert. */
static inline struct linear inputs_of_experts(const struct expert_rows *all) {
    return (struct linear){.from = all->from,
                           .rows = (all->rows + all->share - 1) / all->share,
                           .outputs = all->outputs,
                           .inputs = all->inputs,
                           .given = all->given,
                           .is_bfloat = all->is_bfloat,
                           .threads = all->threads,
                           .format = all->format,
                           .places = all->places};
}

/* The matrix of the expert of one of these rows. */
static inline struct linear matrix_of(const struct routed *all, long row) {
    struct linear found = all->each;
    found.weight = all->weights[all->ids[row]];
    found.scales = all->scales ? all->scales[all->ids[row]] : 0;
    return found;
}

/* `one` computes a part; the rows of inputs are ready. */
void run_routed(pool_compute one, const struct expert_rows *all, long row_bytes, long at_once);

/* Defines waymark_linear_`name` and waymark_experts_`name` of the file's `take_rows` and
 * `part_of_rows`, whose parts are multiples of `at_once` outputs. */
#define PRODUCTS(name, row_bytes, at_once)                                                         \
    static void multiply_part(const void *given, long part, void *result) {                        \
        const struct linear *all = given;                                                          \
        part_of_rows(all, part, 0, all->rows, result);                                             \
    }                                                                                              \
    int waymark_linear_##name(struct linear *all) {                                                \
        take_rows(all);                                                                            \
        run_product(multiply_part, all, row_bytes, at_once);                                       \
        return 1;                                                                                  \
    }                                                                                              \
    static void multiply_expert(const void *given, long part, void *result) {                      \
        const struct routed *all = given;                                                          \
        long row = part / all->parts_of_row;                                                       \
        struct linear own = matrix_of(all, row);                                                   \
        part_of_rows(&own, part % all->parts_of_row, (all->first + row) / all->share, 1, result);  \
    }                                                                                              \
    int waymark_experts_##name(struct expert_rows *all) {                                          \
        struct linear inputs = inputs_of_experts(all);                                             \
        take_rows(&inputs);                                                                        \
        run_routed(multiply_expert, all, row_bytes, at_once);                                      \
        return 1;                                                                                  \
    }

/* The same of `one_output`. */
#define PRODUCTS_OF_OUTPUTS(name, row_bytes)                                                       \
    INLINE void part_of_rows(const struct linear *all, long part, long row, long count,            \
                             float *to) {                                                          \
        multiply_rows(all, part, row, count, to, one_output);                                      \
    }                                                                                              \
    PRODUCTS(name, row_bytes, 1)

#endif
