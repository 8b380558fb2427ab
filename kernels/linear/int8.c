/* A few rows through a matrix of 8-bit integers with a scale for each output; and turning rows into
 * such integers. */
#include "linear/product.h"

#define SMALLEST 1e-30f /* instead of zero as the scale of a row */

int8_t row_integers[MOST_NUMBERS + 64] __attribute__((aligned(64)));
float row_scales[MOST_NUMBERS / 16];
/* What every sum of products of a row has too much: weights are multiplied as 0 .. 255. */
static int32_t too_much[MOST_NUMBERS / 16];
static float wide[MOST_NUMBERS + 64] __attribute__((aligned(64)));

/* ------------------------------------------------------------------ rows */

struct quantising {
    const void *from;
    long rows, given, inputs, rows_of_part;
    int is_bfloat;
};

/* As `int8.quantise_inputs`. */
static void quantise_row(const struct quantising *all, long row) {
    float *floats_of = wide + row * all->inputs;
    int8_t *to = row_integers + row * all->inputs;
    uint32_t largest = 0; /* sizes as bits: in the order of numbers, infinity and NaN at the end */
    if (all->is_bfloat) {
        const uint16_t *from = (const uint16_t *)all->from + row * all->given;
        for (long place = 0; place < all->given; place++)
            floats_of[place] = from_bfloat(from[place]);
    } else {
        memcpy(floats_of, (const float *)all->from + row * all->given, all->given * sizeof(float));
    }
    for (long place = 0; place < all->given; place++) {
        uint32_t bits;
        memcpy(&bits, floats_of + place, sizeof bits);
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    float scale;
    memcpy(&scale, &largest, sizeof scale);
    scale /= 127.0f;
    scale = scale < SMALLEST ? SMALLEST : scale;
    for (long place = 0; place < all->given; place++)
        to[place] = (int8_t)(int32_t)__builtin_rintf(floats_of[place] / scale);
    memset(to + all->given, 0, all->inputs - all->given);
    row_scales[row] = scale;
}

static void quantise_some(const void *given, long part, void *result) {
    const struct quantising *all = given;
    long first = part * all->rows_of_part, end = first + all->rows_of_part;
    (void)result;
    for (long row = first; row < (end < all->rows ? end : all->rows); row++) quantise_row(all, row);
}

void quantise_rows(const void *from, long rows, long given, long inputs, int is_bfloat,
                   int threads) {
    struct quantising all = {
        .from = from, .rows = rows, .given = given, .inputs = inputs, .is_bfloat = is_bfloat};
    all.rows_of_part = team_share(rows, 1 + 32768 / inputs, threads);
    team_rows(quantise_some, &all, team_parts(rows, all.rows_of_part), threads);
}

/* ------------------------------------------------------------------ products */

/* One output of `count` rows from `row` on, all at once or one: exact sums. */
INLINE void one_output(const int8_t *weight, long inputs, long row, int count, int32_t *to) {
    const bytes flip = (bytes){0} + (int8_t)-128; /* q + 128, in 0 .. 255 */
    sums totals[AT_ONCE] = {{0}};
    long place = 0;
    for (; place + BYTES <= inputs; place += BYTES) {
        bytes weights = load_bytes(weight + place) ^ flip;
        __builtin_prefetch(weight + place + AHEAD);
        for (int each = 0; each < count; each++) {
            bytes given = load_bytes(row_integers + (row + each) * inputs + place);
            totals[each] = add_products(totals[each], weights, given);
        }
    }
    if (count == AT_ONCE)
        sums_of_eight(totals, to);
    else
        for (int each = 0; each < count; each++) to[each] = sum_of_ints(totals[each]);
    for (int each = 0; each < count; each++) {
        const int8_t *given = row_integers + (row + each) * inputs;
        to[each] -= too_much[row + each];
        for (long rest = place; rest < inputs; rest++)
            to[each] += (int32_t)weight[rest] * given[rest];
    }
}

INLINE float scaled(const struct product *all, long row, long output, int32_t sum) {
    return (float)sum * ((const float *)all->scales)[output] * row_scales[row];
}

static void multiply_one(const void *given, long part, void *result) {
    const struct product *all = given;
    long first = first_output(all, part);
    int32_t found;
    for (long output = first; output < end_of_outputs(all, part); output++) {
        one_output((const int8_t *)all->weight + output * all->inputs, all->inputs, 0, 1, &found);
        ((float *)result)[output - first] = scaled(all, 0, output, found);
    }
}

static void multiply_some(const void *given, long part, void *result) {
    const struct product *all = given;
    int32_t found[AT_ONCE];
    (void)result;
    for (long output = first_output(all, part); output < end_of_outputs(all, part); output++) {
        const int8_t *weight = (const int8_t *)all->weight + output * all->inputs;
        for (long row = 0; row < all->rows;) {
            int count = row + AT_ONCE <= all->rows ? AT_ONCE : 1;
            if (count == 1)
                one_output(weight, all->inputs, row, 1, found);
            else
                one_output(weight, all->inputs, row, AT_ONCE, found);
            for (int each = 0; each < count; each++, row++) {
                float result_of = scaled(all, row, output, found[each]);
                if (all->is_bfloat)
                    put_result(all, row, output, result_of, 1);
                else
                    put_result(all, row, output, result_of, 0);
            }
        }
    }
}

/* `from` [rows, inputs], int8 `weight` [outputs, inputs] with float32 `scales` [outputs], `bias`
 * [outputs] or NULL, `to` [rows, outputs]; `from`, `bias` and `to` are bfloat16 or float32;
 * rows * inputs <= MOST_NUMBERS. */
void waymark_linear_int8(const void *from, const int8_t *weight, const float *scales,
                         const void *bias, void *to, long rows, long outputs, long inputs,
                         int is_bfloat, int threads) {
    quantise_rows(from, rows, inputs, inputs, is_bfloat, threads);
    for (long row = 0; row < rows; row++) {
        int32_t total = 0;
        for (long place = 0; place < inputs / BYTES * BYTES; place++)
            total += row_integers[row * inputs + place];
        too_much[row] = 128 * total;
    }
    struct product all = {.weight = weight,
                          .scales = scales,
                          .bias = bias,
                          .to = to,
                          .rows = rows,
                          .outputs = outputs,
                          .inputs = inputs,
                          .is_bfloat = is_bfloat};
    run_product(multiply_one, multiply_some, &all, inputs, threads);
}

/* ------------------------------------------------------------------ sums of somebody else's */

struct scaling {
    const int32_t *sums;
    const float *scales, *scales_of_rows;
    const void *bias;
    void *to;
    long rows, outputs, stride, rows_of_part;
    int is_bfloat;
};

INLINE void scale_row(const struct scaling *all, long row, int is_bfloat) {
    const int32_t *sums_of_row = all->sums + row * all->outputs;
    float factor = all->scales_of_rows[row];
    for (long output = 0; output < all->outputs; output++) {
        float found = (float)sums_of_row[output] * all->scales[output] * factor;
        if (all->bias) found += read_number(all->bias, output, is_bfloat);
        write_number(all->to, row * all->stride + output, found, is_bfloat);
    }
}

static void scale_some(const void *given, long part, void *result) {
    const struct scaling *all = given;
    long first = part * all->rows_of_part, end = first + all->rows_of_part;
    (void)result;
    for (long row = first; row < (end < all->rows ? end : all->rows); row++) {
        if (all->is_bfloat)
            scale_row(all, row, 1);
        else
            scale_row(all, row, 0);
    }
}

/* Sums of products of integers [rows, outputs] times the scales of their outputs and rows, and the
 * bias, into rows that begin `stride` numbers apart. */
void waymark_scale_sums(const int32_t *sums_of, const float *scales, const float *scales_of_rows,
                        const void *bias, void *to, long rows, long outputs, long stride,
                        int is_bfloat, int threads) {
    struct scaling all = {.sums = sums_of,
                          .scales = scales,
                          .scales_of_rows = scales_of_rows,
                          .bias = bias,
                          .to = to,
                          .rows = rows,
                          .outputs = outputs,
                          .stride = stride,
                          .is_bfloat = is_bfloat};
    all.rows_of_part = team_share(rows, 1 + 32768 / outputs, threads);
    team_rows(scale_some, &all, team_parts(rows, all.rows_of_part), threads);
}
