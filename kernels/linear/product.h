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
#define AT_ONCE 8 /* rows of inputs at most */
/* Prefetch distance in bytes. Rows are contiguous, so nothing is prefetched in vain. */
#define AHEAD 2048

/* The rows of inputs as integers, and their scales (int8.c). Static, because a late thread may
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

/* Computes a part into `result` [rows, outputs_of_part]; may run twice. The number of rows is a
 * constant, so that their sums stay in registers. */
INLINE void multiply_rows(const struct linear *all, long part, float *result,
                          output_of one_output) {
    long end = end_of_outputs(all, part);
    for (long output = first_output(all, part); output < end; output++, result++) {
        float found[AT_ONCE];
        switch (all->rows) {
#define COUNT(count)                                                                               \
    case count:                                                                                    \
        one_output(all, output, 0, count, found);                                                  \
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
        for (long row = 0; row < all->rows; row++) result[row * all->outputs_of_part] = found[row];
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

/* Computes a part of a row into `result`; may run twice. */
INLINE void multiply_routed(const struct routed *all, long part, float *result,
                            output_of one_output) {
    long row = part / all->parts_of_row, own_part = part % all->parts_of_row;
    struct linear own = all->each;
    own.weight = all->weights[all->ids[row]];
    own.scales = all->scales ? all->scales[all->ids[row]] : 0;
    long first = first_output(&own, own_part), end = end_of_outputs(&own, own_part);
    for (long output = first; output < end; output++)
        one_output(&own, output, (all->first + row) / all->share, 1, result + output - first);
}

/* `one` computes a part; the rows of inputs are ready. */
void run_routed(pool_compute one, const struct expert_rows *all, long row_bytes, long at_once);

/* Defines waymark_linear_`name` and waymark_experts_`name` of the file's `take_rows` and
 * `one_output`. */
#define PRODUCTS(name, row_bytes)                                                                  \
    static void multiply_part(const void *given, long part, void *result) {                        \
        multiply_rows(given, part, result, one_output);                                            \
    }                                                                                              \
    int waymark_linear_##name(struct linear *all) {                                                \
        take_rows(all);                                                                            \
        run_product(multiply_part, all, row_bytes, 1);                                             \
        return 1;                                                                                  \
    }                                                                                              \
    static void multiply_expert(const void *given, long part, void *result) {                      \
        multiply_routed(given, part, result, one_output);                                          \
    }                                                                                              \
    int waymark_experts_##name(struct expert_rows *all) {                                          \
        struct linear inputs = inputs_of_experts(all);                                             \
        take_rows(&inputs);                                                                        \
        run_routed(multiply_expert, all, row_bytes, 1);                                            \
        return 1;                                                                                  \
    }

/* ------------------------------------------------------------------ exact sums of 8-bit products
 */

/* The excess of each sum of a row: weights are multiplied with EXCESS added, except those at the
 * end that fill no register. */
static inline int32_t excess_of_row(const int8_t *row, long inputs) {
    int32_t total = 0;
    for (long place = 0; place < inputs / BYTES * BYTES; place++) total += row[place];
    return EXCESS * total;
}

/* The sums of one output with `count` contiguous `rows`; `to` has room for AT_ONCE. */
INLINE void sums_of_output(const int8_t *weight, long inputs, const int8_t *rows,
                           const int32_t *excess, int count, int32_t *to) {
    const bytes flip = (bytes){0} + (int8_t)-EXCESS; /* q ^ 128 is q + 128, in 0 .. 255 */
    sums totals[AT_ONCE] = {{0}};
    long place = 0;
    for (; place + BYTES <= inputs; place += BYTES) {
        bytes weights = load_bytes(weight + place) ^ flip;
        __builtin_prefetch(weight + place + AHEAD);
        for (int each = 0; each < count; each++) {
            bytes given = load_bytes(rows + each * inputs + place);
            totals[each] = add_int8_products(totals[each], weights, given);
        }
    }
    if (count > 2)
        sums_of_eight(totals, to);
    else
        for (int each = 0; each < count; each++) to[each] = sum_of_ints(totals[each]);
    for (int each = 0; each < count; each++) {
        const int8_t *given = rows + each * inputs;
        to[each] -= excess[each];
        for (long rest = place; rest < inputs; rest++)
            to[each] += (int32_t)weight[rest] * given[rest];
    }
}

#endif
