/* Products of many rows (GEMM) with weights stored row by row, on AMX or on vectors of words.
 *
 * A part is some outputs. The thread that needs their weights packs a block at a time in its
 * core's cache and multiplies all rows by it. A row's bits depend neither on the rows beside it,
 * nor on their number, nor on threads.
 */
#ifndef WAYMARK_MANY_H
#define WAYMARK_MANY_H

#include <stdlib.h>

#include "linear/product.h"
#include "native/tiles.h"
#include "native/transpose.h"

/* Columns of sixteen outputs in a block: more need more cache and leave fewer parts for
 * threads. */
#define FEW_COLUMNS 4
#define MOST_COLUMNS (REGISTER == 64 ? 8 : FEW_COLUMNS)
#define OUTPUTS_AT_ONCE (MOST_COLUMNS * COLUMN) /* whose results lie in a row */
#define WORDS_AT_ONCE 512 /* of a block's rows at most; on AMX there are all of them */

struct many;
/* Packs `words` words from `start` on of a block's weights, with zeros where there are none. */
typedef void (*pack_block)(const struct many *all, long output, long start, long words, char *to);
/* Rows through a packed block. */
typedef void (*multiply_block)(const struct many *all, struct product product, long row,
                               long start);
/* Results of some rows and all outputs of a block, [.., OUTPUTS_AT_ONCE] of 32 bits. */
typedef void (*put_block)(const struct many *all, const void *found, long row, long rows,
                          long output);

struct many {
    struct linear *given;
    enum words kind;
    int on_tiles, columns;
    long words;      /* of a row, rounded up to sixteen on AMX */
    long word_bytes; /* of a packed block: STEP a word, and what else there is */
    long row_bytes;  /* of a weight's row as it lies in memory, and of sixteen words of it */
    long piece_bytes;
    char *left; /* rows as words, `left_stride` bytes apart */
    long left_stride;
    float *row_scales;     /* of integers, [rows] */
    int32_t *compensation; /* the excess of each row's sums, [rows] */
    pack_block pack;
    multiply_block multiply;
    put_block put;
    pool_compute outputs; /* computes a part of them, if they aren't packed */
    int *failed;
};

/* Rows allocated: whole blocks. */
static inline long rows_in_memory(const struct many *all) {
    return rounded_up(all->given->rows, rows_of_block(all->on_tiles));
}

/* Words multiplied at once: multiples of 256 bytes of about equal size, because a short remainder
 * costs more than its share. */
static inline long words_at_once(const struct many *all) {
    long blocks = all->on_tiles ? 1 : pool_parts(all->words, WORDS_AT_ONCE);
    return smaller(all->words, rounded_up(pool_parts(all->words, blocks), 4 * COLUMN));
}

static inline long outputs_of_block(const struct many *all, long output) {
    return smaller(all->columns * COLUMN, all->given->outputs - output);
}

/* Of a block: words come by sixteen. */
static inline long column_bytes(const struct many *all) {
    return rounded_up(words_at_once(all), COLUMN) * all->word_bytes;
}

/* Multiplies all rows by the block's words from `start` on. If a row takes several calls, the
 * sums of all rows are kept until the last one. */
static inline void block_of_words(const struct many *all, long output, long start, char *block,
                                  char *sums) {
    long words = smaller(words_at_once(all), all->words - start), rows = all->given->rows;
    int first = start == 0, last = start + words == all->words;
    long of_block = rows_of_block(all->on_tiles), stride = OUTPUTS_AT_ONCE * 4;
    all->pack(all, output, start, words, block);
    for (long row = 0; row < rows; row += of_block) {
        char *to = first && last ? sums : sums + row * stride;
        struct product product = {.left = all->left + row * all->left_stride + start * 4,
                                  .right = block,
                                  .to = to,
                                  .left_stride = all->left_stride,
                                  .right_step = STEP,
                                  .right_stride = column_bytes(all),
                                  .to_stride = stride,
                                  .words = words,
                                  .rows = (int)smaller(of_block, rows - row),
                                  .columns = all->columns,
                                  .more = !first};
        all->multiply(all, product, row, start);
        if (last) all->put(all, to, row, product.rows, output);
    }
}

static void outputs_of_many(const void *given, long part, void *result) {
    const struct many *all = given;
    long end = end_of_outputs(all->given, part), at_once = words_at_once(all);
    long block_bytes = all->columns * column_bytes(all);
    long rows = at_once == all->words ? BLOCK : rows_in_memory(all);
    char *block = room_of_part(block_bytes + rows * OUTPUTS_AT_ONCE * 4, all->failed);
    long output = first_output(all->given, part);
    (void)result;
    if (!block) return;
    struct tiles own;
    tiles_begin(&own, all->on_tiles, COLUMN);
    for (; output < end; output += all->columns * COLUMN)
        for (long start = 0; start < all->words; start += at_once)
            block_of_words(all, output, start, block, block + block_bytes);
    tiles_end(&own, all->on_tiles);
    free(block);
}

/* Runs parts of some outputs, in multiples of `at_once`, and so that no thread waits long for the
 * last one. */
static inline void share_outputs(pool_compute some, struct linear *all, const void *arguments,
                                 long at_once) {
    long pieces = pool_parts(all->outputs, at_once), most = pool_share(pieces, 1, all->threads);
    long best = 2 * pieces + 1;
    for (long share = most; 2 * share >= most && share > 0; share--) {
        long of_thread = pool_parts(pool_parts(pieces, share), all->threads) * share;
        if (of_thread < best) {
            best = of_thread;
            all->outputs_of_part = at_once * share;
        }
    }
    pool_rows(some, arguments, pool_parts(all->outputs, all->outputs_of_part), all->threads);
}

/* All outputs of the rows, which `take` makes words of in memory of their own; without it `left`
 * has them. 0 where there was no memory. */
static inline int run_many(struct many *all, pool_row take) {
    struct linear *given = all->given;
    long bytes = rows_in_memory(all) * all->left_stride;
    int many = !all->on_tiles && given->outputs >= 4 * given->threads * MOST_COLUMNS * COLUMN;
    int failed = 0;
    all->columns = many ? MOST_COLUMNS : FEW_COLUMNS;
    all->failed = &failed;
    if (take) {
        all->left = aligned_alloc(STEP, rounded_up(bytes + 8 * given->rows, STEP));
        if (!all->left) return 0;
        all->row_scales = (float *)(all->left + bytes);
        all->compensation = (int32_t *)(all->row_scales + given->rows);
        pool_each(take, all, given->rows, given->inputs, given->threads);
    }
    share_outputs(all->outputs ? all->outputs : outputs_of_many, given, all, all->columns * COLUMN);
    if (take) free(all->left);
    return !failed;
}

/* Words of so many numbers each, and how far rows of them are apart: whole cache lines. */
static inline void count_words(struct many *all, long numbers) {
    long words = pool_parts(all->given->inputs, numbers);
    all->left_stride = 4 * rounded_up(words, COLUMN);
    all->words = all->on_tiles ? all->left_stride / 4 : words;
}

/* Stores the results of a row, [outputs], which may be changed, after adding the bias. */
INLINE void put_row(const struct linear *all, float *found, long row, long output, long outputs) {
    if (all->bias)
        for (long place = 0; place < outputs; place++)
            found[place] += read_number(all->bias, output + place, all->is_bfloat);
    long to = row * all->to_stride + output;
    if (!all->is_bfloat) {
        memcpy((float *)all->to + to, found, outputs * sizeof *found);
        return;
    }
    uint16_t *rounded = (uint16_t *)all->to + to;
    long place = 0;
    for (; place + 2 * LANES <= outputs; place += 2 * LANES)
        store_bfloats(rounded + place, load_floats(found + place),
                      load_floats(found + place + LANES));
    for (; place < outputs; place++) rounded[place] = to_bfloat(found[place]);
}

/* Sums as numbers, times `scales` of their rows if there are any. */
INLINE void put_floats(const struct many *all, const float *found, const float *scales, long row,
                       long rows, long output) {
    long outputs = outputs_of_block(all, output);
    for (long each = row; each < row + rows; each++, found += OUTPUTS_AT_ONCE) {
        float results[OUTPUTS_AT_ONCE];
        float scale = scales ? scales[each] : 1.0f;
        for (long place = 0; place < outputs; place++) results[place] = found[place] * scale;
        put_row(all->given, results, each, output, outputs);
    }
}

/* Packs a block's weights from word `start` on, column by column: see pack_column. */
INLINE void pack_columns(const struct many *all, long output, long start, long words, convert of,
                         char *to) {
    long row_bytes = all->row_bytes, piece = all->piece_bytes;
    const char *weight = (const char *)all->given->weight + start / COLUMN * piece;
    long bytes = row_bytes - start / COLUMN * piece;
    for (int column = 0; column < all->columns; column++, output += COLUMN, to += column_bytes(all))
        pack_column(weight + output * row_bytes, all->given->outputs - output, row_bytes, bytes,
                    piece, words, of, to);
}

/* ------------------------------------------------------------------ a few rows */

/* A few rows of a prompt, to the bits of many rows. Their kernels read the weights unpacked:
 * packing takes several times as long as reading, and with sparse experts a short prompt has only a
 * row or two for each of a hundred matrices. */
#define FEW_ROWS 8
#define PUT_AT_ONCE 32 /* outputs; put_row rounds so many of a row as it does of more */

/* Where int4 weights are multiplied as 8-bit integers: int4_bytes.c. */
#define IN_BYTES (REGISTER == 64 && HAS_QUADS)

/* Both return 0 where there was no memory. */
int few_int8(struct linear *all);
int few_int4(struct linear *all);

/* Of `count` groups, sixteen at most, of sixteen rows or what there is: the scales, and the offsets
 * less 8 scales, as weights are multiplied as 0 .. 15; of each group `stride` bytes on. */
static inline void pack_scales(const uint32_t *pairs, long rows, long groups, long count, char *to,
                               long stride) {
    char transposed[COLUMN * STEP];
    pack_column((const char *)pairs, rows, 4 * groups, 4 * count, STEP, COLUMN, NULL, transposed);
    for (long group = 0; group < count; group++) {
        uint32_t both[COLUMN];
        float apart[2 * COLUMN];
        memcpy(both, transposed + group * STEP, STEP);
        for (int output = 0; output < COLUMN; output++) {
            apart[output] = from_bfloat(both[output] & 0xffff);
            apart[COLUMN + output] = from_bfloat(both[output] >> 16) - 8 * apart[output];
        }
        memcpy(to + group * stride, apart, sizeof apart);
    }
}

/* Puts some outputs of `rows` rows from `row` on, whose number is constant. */
typedef void (*put_few)(const void *all, long output, long row, int rows);

/* A part of the outputs of all rows, `most` at once or one by one. */
INLINE void few_outputs(const struct linear *given, const void *all, long part, int most,
                        put_few put) {
    long end = end_of_outputs(given, part);
    for (long output = first_output(given, part); output < end; output += PUT_AT_ONCE) {
        long row = 0;
        for (; row + most <= given->rows; row += most) put(all, output, row, most);
        for (; row < given->rows; row++) put(all, output, row, 1);
    }
}

#endif
