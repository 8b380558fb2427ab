/* Many rows through a matrix of 8-bit integers. */
#include "linear/many.h"

static void pack_bytes(const struct many *all, long output, long start, long words, char *to) {
    pack_columns(all, output, start, words, NULL, to);
}

static void pack_biased(const struct many *all, long output, long start, long words, char *to) {
    pack_columns(all, output, start, words, biased_bytes, to);
}

static void pack_shorts(const struct many *all, long output, long start, long words, char *to) {
    pack_columns(all, output, start, words, shorts_of_bytes, to);
}

static void multiply_integers(const struct many *all, struct product product, long row,
                              long start) {
    (void)row, (void)start;
    if (all->on_tiles)
        multiply(1, OF_INT8, product);
    else
        multiply(0, WORDS_OF_INT8, product);
}

static void put(const struct many *all, const void *given, long row, long rows, long output) {
    long outputs = outputs_of_block(all, output);
    const float *scales = (const float *)all->given->scales + output;
    const int32_t *found = given;
    for (long each = row; each < row + rows; each++, found += OUTPUTS_AT_ONCE) {
        float results[OUTPUTS_AT_ONCE];
        for (long place = 0; place < outputs; place++) {
            int32_t exact = found[place] - all->compensation[each];
            results[place] = (float)exact * scales[place] * all->row_scales[each];
        }
        put_row(all->given, results, each, output, outputs);
    }
}

/* A row as integers, with zeros behind them, and its compensation. */
static void integers_of_row(const void *arguments, long row) {
    const struct many *all = arguments;
    long inputs = all->given->inputs, bytes = all->left_stride;
    int8_t *to = (int8_t *)all->left + row * all->left_stride;
    int32_t total = 0;
    if (all->kind == OF_INT16) bytes /= 2, to += bytes; /* widened in place, from the front */
    all->row_scales[row] = quantise_row(all->given, row, to);
    memset(to + inputs, 0, bytes - inputs);
    for (long place = 0; place < inputs; place++) total += to[place];
    all->compensation[row] = all->on_tiles ? 0 : -LOWEST_BYTE * total;
    if (all->kind == OF_INT16) {
        int16_t *wide = (int16_t *)(all->left + row * all->left_stride);
        for (long place = 0; place < bytes; place++) wide[place] = to[place];
    }
}

int waymark_linear_int8_many(struct linear *given) {
    int on_tiles = tiles_allowed();
    enum words kind = on_tiles ? OF_INT8 : WORDS_OF_INT8;
    struct many all = {.given = given,
                       .kind = kind,
                       .on_tiles = on_tiles,
                       .word_bytes = STEP,
                       .row_bytes = given->inputs,
                       .piece_bytes = kind == OF_INT16 ? STEP / 2 : STEP,
                       .pack = kind == OF_INT16           ? pack_shorts
                               : on_tiles || !LOWEST_BYTE ? pack_bytes
                                                          : pack_biased,
                       .multiply = multiply_integers,
                       .put = put};
    count_words(&all, kind == OF_INT16 ? 2 : 4);
    long left_bytes = rows_in_memory(&all) * all.left_stride;
    all.left = aligned_alloc(STEP, left_bytes + pool_parts(8 * given->rows, STEP) * STEP);
    if (!all.left) return 0;
    all.row_scales = (float *)(all.left + left_bytes);
    all.compensation = (int32_t *)(all.row_scales + given->rows);
    pool_each(integers_of_row, &all, given->rows, given->inputs, given->threads);
    int done = run_many(&all);
    free(all.left);
    return done;
}
