/* Many rows through a matrix of 8-bit integers. */
#include "linear/many.h"

static void pack_bytes(const struct many *all, long output, long start, long words, char *to) {
    pack_columns(all, output, start, words, NULL, to);
}

static void pack_biased(const struct many *all, long output, long start, long words, char *to) {
    pack_columns(all, output, start, words, biased_bytes, to);
}

/* Sixteen words of 16 bits are HALF_STEP numbers: even ones first, which bytes are widened to at
 * once, then the odd ones. */
#define HALF_STEP (STEP / 2)

/* `count` times HALF_STEP numbers of sixteen rows, which lie as words of bytes. */
INLINE void widen_words(const char *from, long count, char *to) {
    for (long word = 0; word < count * COLUMN / 2; word++) {
        char *even = to + (word / 8 * COLUMN + word % 8) * STEP, *odd = even + COLUMN / 2 * STEP;
        for (long piece = 0; piece < STEP; piece += REGISTER) {
            short_lanes both = (short_lanes)load_words(from + word * STEP + piece);
            short_lanes low = (short_lanes)((unsigned_shorts)both << 8) >> 8, high = both >> 8;
            memcpy(even + piece, &low, sizeof low);
            memcpy(odd + piece, &high, sizeof high);
        }
    }
}

static void pack_shorts(const struct many *all, long output, long start, long words, char *to) {
    long row_bytes = all->row_bytes, bytes = row_bytes - 2 * start;
    const char *weight = (const char *)all->given->weight + 2 * start;
    for (int column = 0; column < all->columns; column++, output += COLUMN, to += column_bytes(all))
        for (long word = 0; word < words; word += 2 * COLUMN) {
            char packed[COLUMN * STEP];
            pack_column(weight + output * row_bytes + 2 * word, all->given->outputs - output,
                        row_bytes, bytes - 2 * word, STEP, COLUMN, NULL, packed);
            widen_words(packed, words - word > COLUMN ? 2 : 1, to + word * STEP);
        }
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

/* A row's bytes, in the second half of `to`, as words of 16 bits: from the front on, in place. */
static void widen_row(int8_t *to, long bytes) {
    int16_t *wide = (int16_t *)to;
    for (long start = 0; start < bytes; start += HALF_STEP, wide += HALF_STEP) {
        int8_t narrow[HALF_STEP];
        memcpy(narrow, to + bytes + start, sizeof narrow);
        for (int place = 0; place < HALF_STEP / 2; place++) {
            wide[place] = narrow[2 * place];
            wide[HALF_STEP / 2 + place] = narrow[2 * place + 1];
        }
    }
}

/* A row as integers, with zeros behind them, and its compensation. */
static void integers_of_row(const void *arguments, long row) {
    const struct many *all = arguments;
    int is_wide = all->kind == OF_INT16;
    long inputs = all->given->inputs, bytes = all->left_stride / (is_wide ? 2 : 1);
    int8_t *first = (int8_t *)all->left + row * all->left_stride, *to = first;
    int32_t total = 0;
    if (is_wide) to += bytes;
    all->row_scales[row] = quantise_row(all->given, row, to);
    memset(to + inputs, 0, bytes - inputs);
    for (long place = 0; place < inputs; place++) total += to[place];
    all->compensation[row] = all->on_tiles ? 0 : -LOWEST_BYTE * total;
    if (is_wide) widen_row(first, bytes);
}

int waymark_linear_int8_many(struct linear *given) {
    int on_tiles = tiles_allowed();
    if (given->rows <= FEW_ROWS) return few_int8(given);
    enum words kind = on_tiles ? OF_INT8 : WORDS_OF_INT8;
    struct many all = {.given = given,
                       .kind = kind,
                       .on_tiles = on_tiles,
                       .word_bytes = STEP,
                       .row_bytes = given->inputs,
                       .piece_bytes = STEP,
                       .pack = kind == OF_INT16           ? pack_shorts
                               : on_tiles || !LOWEST_BYTE ? pack_bytes
                                                          : pack_biased,
                       .multiply = multiply_integers,
                       .put = put};
    count_words(&all, kind == OF_INT16 ? 2 : 4);
    if (kind == OF_INT16) all.words = all.left_stride / 4; /* the odd ones come last */
    return run_many(&all, integers_of_row);
}
