/* What products of a few rows with a matrix have in common: y = x W^T + b, each weight read once.
 *
 * A part is some outputs, and each result is added up by one thread in one order, so the bits are
 * the same for every number of threads. The rows of a matrix lie one after the other as they were
 * kept. Rows of inputs are taken eight at a time, or one.
 */
#ifndef WAYMARK_PRODUCT_H
#define WAYMARK_PRODUCT_H

#include "native/integers.h"
#include "native/numbers.h"
#include "native/team.h"

#define INLINE static inline __attribute__((always_inline))
/* Numbers of all rows together, and of one: what the places below have room for. */
#define MOST_NUMBERS (1 << 20)
#define AT_ONCE 8 /* rows of inputs */
/* Bytes ahead of where a row is read. Rows follow one another in memory, so nothing is in vain. */
#define AHEAD 2048

struct product {
    const void *weight, *scales, *bias; /* bias may be missing */
    void *to;
    long rows, outputs, inputs, outputs_of_part;
    int is_bfloat; /* bias and results, else float32 */
};

/* The integers of rows of inputs and their scales: int8.c. In place, because a thread that comes
 * too late to be heard still reads them. */
extern int8_t row_integers[MOST_NUMBERS + 64];
extern float row_scales[MOST_NUMBERS / 16];

/* Rows [rows, given] as integers of 8 bits [rows, inputs], filled up with zeros. */
void quantise_rows(const void *from, long rows, long given, long inputs, int is_bfloat,
                   int threads);

/* Where result `output` of row `row` goes, with its bias. */
INLINE void put_result(const struct product *all, long row, long output, float found,
                       int is_bfloat) {
    if (all->bias) found += read_number(all->bias, output, is_bfloat);
    write_number(all->to, row * all->outputs + output, found, is_bfloat);
}

static inline long first_output(const struct product *all, long part) {
    return part * all->outputs_of_part;
}

static inline long end_of_outputs(const struct product *all, long part) {
    long end = (part + 1) * all->outputs_of_part;
    return end < all->outputs ? end : all->outputs;
}

/* `one` does a part of a product with one row and leaves its results, `some` one with more rows and
 * puts them where they belong. `row_bytes` are those of a row of weights. */
void run_product(team_compute one, team_compute some, struct product *all, long row_bytes,
                 int threads);

#endif
