/* Many rows times a bfloat16 matrix: as pairs if the processor multiplies them, else as
 * float32, to which weights are converted when they are packed. */
#include "linear/many.h"

static void pack_pairs(const struct many *all, long output, long start, long words, char *to) {
    pack_columns(all, output, start, words, NULL, to);
}

static void pack_floats(const struct many *all, long output, long start, long words, char *to) {
    pack_columns(all, output, start, words, floats_of_bfloats, to);
}

static void multiply_numbers(const struct many *all, struct product product, long row, long start) {
    (void)row, (void)start;
    if (HAS_PAIRS && all->kind == OF_BFLOAT)
        multiply(all->on_tiles, OF_BFLOAT, product);
    else
        multiply(0, OF_FLOAT, product);
}

static void put(const struct many *all, const void *found, long row, long rows, long output) {
    put_floats(all, found, NULL, row, rows, output);
}

/* A row of bfloat16 as words, with zeros behind it. */
static void copy_row(const void *arguments, long row) {
    const struct many *all = arguments;
    long bytes = 2 * all->given->given;
    char *to = all->left + row * all->left_stride;
    memcpy(to, (const char *)all->given->from + row * bytes, bytes);
    memset(to + bytes, 0, all->left_stride - bytes);
}

static void widen_row(const void *arguments, long row) {
    const struct many *all = arguments;
    long inputs = all->given->inputs;
    const uint16_t *from = (const uint16_t *)all->given->from + row * inputs;
    float *to = (float *)(all->left + row * all->left_stride);
    for (long place = 0; place < inputs; place++) to[place] = from_bfloat(from[place]);
}

int waymark_has_pairs(void) {
    return HAS_PAIRS;
}

int waymark_linear_bfloat_many(struct linear *given) {
    int pairs = HAS_PAIRS && !given->widened, on_tiles = pairs && tiles_allowed();
    struct many all = {.given = given,
                       .kind = pairs ? OF_BFLOAT : OF_FLOAT,
                       .on_tiles = on_tiles,
                       .word_bytes = STEP,
                       .row_bytes = 2 * given->inputs,
                       .piece_bytes = pairs ? STEP : STEP / 2,
                       .pack = pairs ? pack_pairs : pack_floats,
                       .multiply = multiply_numbers,
                       .put = put};
    count_words(&all, pairs ? 2 : 1);
    int whole = given->inputs * 2 == all.left_stride && (!on_tiles || given->rows % BLOCK == 0);
    all.left = (char *)given->from;
    return run_many(&all, pairs && whole ? NULL : pairs ? copy_row : widen_row);
}
