/* Few rows times an 8-bit matrix, unpacked. */
#include "linear/many.h"

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
INLINE void put_some(const struct few *all, long output, long row, int rows) {
    const struct linear *given = all->given;
    float found[AT_ONCE][PUT_AT_ONCE];
    long inputs = given->inputs, count = smaller(PUT_AT_ONCE, given->outputs - output);
    for (long each = 0; each < count; each++) {
        int32_t exact[AT_ONCE];
        const int8_t *weight = (const int8_t *)given->weight + (output + each) * inputs;
        float scale = ((const float *)given->scales)[output + each];
        sums_of_output(weight, inputs, all->rows + row * inputs, all->excess + row, rows, exact);
        for (int one = 0; one < rows; one++)
            found[one][each] = (float)exact[one] * scale * all->scales[row + one];
    }
    for (int one = 0; one < rows; one++) put_row(given, found[one], row + one, output, count);
}

static void some_outputs(const void *arguments, long part, void *result) {
    const struct few *all = arguments;
    long end = end_of_outputs(all->given, part), rows = all->given->rows;
    (void)result;
    for (long output = first_output(all->given, part); output < end; output += PUT_AT_ONCE)
        for (long row = 0; row < rows;) {
            int some = rows - row >= AT_ONCE ? AT_ONCE : 1;
            if (some == 1)
                put_some(all, output, row, 1);
            else
                put_some(all, output, row, AT_ONCE);
            row += some;
        }
}

int few_int8(struct linear *given) {
    struct few all = {.given = given};
    long numbers = given->rows * given->inputs, integers = pool_parts(numbers, 4) * 4;
    all.rows = aligned_alloc(STEP, pool_parts(integers + 8 * given->rows, STEP) * STEP);
    if (!all.rows) return 0;
    all.excess = (int32_t *)(all.rows + integers);
    all.scales = (float *)(all.excess + given->rows);
    pool_each(take_row, &all, given->rows, given->inputs, given->threads);
    run_few(some_outputs, given, &all);
    free(all.rows);
    return 1;
}
