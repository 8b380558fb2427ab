/* Rows times an 8-bit matrix with a scale for each output: a step's, and a few of a prompt. */
#include "linear/many.h"

static int32_t excess[MOST_NUMBERS / 16]; /* of each row's sums */

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

/* One output of `count` contiguous `rows` with their `scales`, without its bias. */
INLINE void scaled_output(const struct linear *all, long output, const int8_t *rows,
                          const int32_t *excess, const float *scales, int count, float *to) {
    int32_t found[AT_ONCE];
    const int8_t *weight = (const int8_t *)all->weight + output * all->inputs;
    float scale = ((const float *)all->scales)[output];
    sums_of_output(weight, all->inputs, rows, excess, count, found);
    for (int each = 0; each < count; each++) to[each] = (float)found[each] * scale * scales[each];
}

/* ------------------------------------------------------------------ a step */

INLINE void one_output(const struct linear *all, long output, long row, int count, float *to) {
    long inputs = all->inputs;
    scaled_output(all, output, row_integers + row * inputs, excess + row, row_scales + row, count,
                  to);
}

/* The rows as integers, and the excess of their sums. */
static void take_rows(const struct linear *all) {
    quantise_rows(all);
    for (long row = 0; row < all->rows; row++)
        excess[row] = excess_of_row(row_integers + row * all->inputs, all->inputs);
}

PRODUCTS_OF_OUTPUTS(int8, all->inputs)

/* ------------------------------------------------------------------ a few rows of a prompt */

/* The rows as integers [rows, inputs], the excess of each row's sums, and its scale. */
struct few {
    const struct linear *given;
    int8_t *rows;
    int32_t *excess;
    float *scales;
};

static void take_row(const void *arguments, long row) {
    const struct few *all = arguments;
    long inputs = all->given->inputs;
    int8_t *to = all->rows + row * inputs;
    all->scales[row] = quantise_row(all->given, row, to);
    all->excess[row] = excess_of_row(to, inputs);
}

/* As waymark_linear_int8_many scales and rounds sums. */
INLINE void put_some(const void *arguments, long output, long row, int rows) {
    const struct few *all = arguments;
    const struct linear *given = all->given;
    float found[AT_ONCE][PUT_AT_ONCE];
    long inputs = given->inputs, count = smaller(PUT_AT_ONCE, given->outputs - output);
    for (long each = 0; each < count; each++) {
        float results[AT_ONCE];
        scaled_output(given, output + each, all->rows + row * inputs, all->excess + row,
                      all->scales + row, rows, results);
        for (int one = 0; one < rows; one++) found[one][each] = results[one];
    }
    for (int one = 0; one < rows; one++) put_row(given, found[one], row + one, output, count);
}

static void some_outputs(const void *arguments, long part, void *result) {
    const struct few *all = arguments;
    (void)result;
    few_outputs(all->given, all, part, AT_ONCE, put_some);
}

int few_int8(struct linear *given) {
    struct few all = {.given = given};
    long numbers = given->rows * given->inputs, integers = rounded_up(numbers, 4);
    all.rows = aligned_alloc(STEP, rounded_up(integers + 8 * given->rows, STEP));
    if (!all.rows) return 0;
    all.excess = (int32_t *)(all.rows + integers);
    all.scales = (float *)(all.excess + given->rows);
    pool_each(take_row, &all, given->rows, given->inputs, given->threads);
    share_outputs(some_outputs, given, &all, PUT_AT_ONCE);
    free(all.rows);
    return 1;
}
