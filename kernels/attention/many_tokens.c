/* Attention of many tokens in bfloat16: prompts, and the patches of a picture.
 *
 * Query heads that share keys are rows of one matrix. A part is about a hundred of these rows: it
 * goes through the keys in chunks, packs each chunk once, and multiplies BLOCK rows at a time. A
 * row keeps its largest score, the sum of its weights and the weighted sum of values; both sums
 * are rescaled when a larger score comes. A row's result doesn't depend on the rows beside it.
 */
#include <float.h>
#include <stdlib.h>

#include "native/calls.h"
#include "native/powers.h"
#include "native/thread_pool.h"
#include "native/tiles.h"
#include "native/transpose.h"

#define CHUNK 256          /* keys; rows of a sliding window move by as many */
#define MOST_NUMBERS 65536 /* of a part's rows: their sums and a chunk stay in a core's cache */
#define MOST_ROWS 2048
#define MOST_DIM 576

/* Memory of one thread for one part. Rows are padded with zeros to what products need. All but
 * scores and sums are words: two bfloat16 or one float32. */
struct scratch {
    uint32_t keys[CHUNK * MOST_DIM], values[CHUNK * MOST_DIM];
    uint32_t queries[MOST_NUMBERS], weights[BLOCK * CHUNK];
    float scores[BLOCK * CHUNK];
    float largest[MOST_ROWS], sums[MOST_ROWS], totals[MOST_NUMBERS];
    struct tiles tiles;
};

/* Rows of a part, all of them or a block: `first` among all that share head `kv`, `place` in the
 * part. */
struct rows {
    long kv, first, place, count;
};

static inline long larger(long first, long second) {
    return first > second ? first : second;
}

static inline long width_of(const struct attend_many *all) {
    return rounded_up(all->dim, BLOCK);
}

/* Numbers of a word. */
static inline long numbers_of(const struct attend_many *all) {
    return all->widened ? 1 : 2;
}

/* Words of a row of queries, and of a row of weights. */
static inline long words_of(const struct attend_many *all, long numbers) {
    return numbers / numbers_of(all);
}

/* The numbers of a row: one query head of one token. */
static inline long place_of(const struct attend_many *all, long kv, long row, long token_stride) {
    return row / all->group * token_stride + (kv * all->group + row % all->group) * all->dim;
}

/* The index after the row's own token among the keys. */
static inline long behind(const struct attend_many *all, long row) {
    return all->num_keys - all->num_queries + row / all->group + 1;
}

static inline long first_key(const struct attend_many *all, long row) {
    return all->window > 0 ? larger(0, behind(all, row) - all->window) : 0;
}

static inline long end_key(const struct attend_many *all, long row) {
    return all->causal ? behind(all, row) : all->num_keys;
}

/* ------------------------------------------------------------------ packing for the products */

/* `count` keys from `start` on, which are columns, sixteen beside each other. */
static void pack_keys(const struct attend_many *all, long kv, long start, long count, char *to) {
    long stride = 2 * all->key_stride, words = words_of(all, width_of(all));
    for (long key = start; key < start + count; key += COLUMN, to += words * STEP) {
        const char *from =
            (const char *)((const uint16_t *)all->keys + kv * all->dim) + key * stride;
        long rows = all->num_keys - key, bytes = 2 * all->dim;
        if (all->widened)
            pack_column(from, rows, stride, bytes, STEP / 2, words, floats_of_bfloats, to);
        else
            pack_column(from, rows, stride, bytes, STEP, words, NULL, to);
    }
}

/* Sixteen numbers of a value as words, in their upper halves: zeros behind the last and behind the
 * last key. */
INLINE void value_of(const struct attend_many *all, long kv, long key, long place, uint32_t *to) {
    const uint16_t *from =
        (const uint16_t *)all->values + key * all->value_stride + kv * all->dim + place;
    long given = key < all->num_keys ? smaller(COLUMN, all->dim - place) : 0;
    if (given < COLUMN) memset(to, 0, STEP);
    for (long number = 0; number < given; number++) to[number] = (uint32_t)from[number] << 16;
}

/* Values of `count` keys from `start` on, which are what products add up. */
static void pack_values(const struct attend_many *all, long kv, long start, long count, char *to) {
    for (long place = 0; place < all->dim; place += COLUMN, to += STEP * words_of(all, CHUNK)) {
        char *column = to;
        for (long key = start; key < start + count; column += STEP) {
            uint32_t step[COLUMN], odd[COLUMN];
            value_of(all, kv, key++, place, step);
            if (!all->widened) {
                value_of(all, kv, key++, place, odd);
                for (int number = 0; number < COLUMN; number++)
                    step[number] = step[number] >> 16 | odd[number];
            }
            memcpy(column, step, STEP);
        }
    }
}

static void pack_queries(const struct attend_many *all, struct rows rows, char *to) {
    long bytes = 4 * words_of(all, width_of(all));
    memset(to, 0, rounded_up(rows.count, BLOCK) * bytes);
    for (long row = 0; row < rows.count; row++, to += bytes) {
        const uint16_t *from = (const uint16_t *)all->queries +
                               place_of(all, rows.kv, rows.first + row, all->query_stride);
        if (!all->widened)
            memcpy(to, from, 2 * all->dim);
        else
            for (long place = 0; place < all->dim; place++)
                ((float *)to)[place] = from_bfloat(from[place]);
    }
}

/* ------------------------------------------------------------------ weights */

/* Masks the scores of keys that the row does not see. */
static void hide(const struct attend_many *all, long row, long start, long count, float *scores) {
    long first = first_key(all, row) - start, end = end_key(all, row) - start;
    for (long key = 0; key < smaller(first, count); key++) scores[key] = -INFINITY;
    for (long key = larger(end, 0); key < count; key++) scores[key] = -INFINITY;
}

static float largest_of(const float *scores, long count, float before) {
    floats even = (floats){0} + before, odd = even;
    for (long key = 0; key < count; key += 2 * LANES) {
        even = larger_lanes(load_floats(scores + key), even);
        odd = larger_lanes(load_floats(scores + key + LANES), odd);
    }
    return largest_lane(larger_lanes(even, odd));
}

/* e^((score - largest) scale), in bfloat16 unless `widened`; returns their sum before that. */
INLINE float weigh(const float *scores, long count, float largest, float scale, int widened,
                   void *to) {
    floats even_sums = {0}, odd_sums = {0}, factor = (floats){0} + scale * LOG2_E;
    for (long key = 0; key < count; key += 2 * LANES) {
        const float *behind = scores + key + LANES;
        floats even = powers_of_two((load_floats(scores + key) - largest) * factor);
        floats odd = powers_of_two((load_floats(behind) - largest) * factor);
        even_sums += even;
        odd_sums += odd;
        if (widened) {
            memcpy((float *)to + key, &even, sizeof even);
            memcpy((float *)to + key + LANES, &odd, sizeof odd);
        } else {
#if HAS_PAIRS
            store_bfloats((uint16_t *)to + key, even, odd);
#endif
        }
    }
    return sum_of(even_sums + odd_sums);
}

/* Rescales a row from the maximum `before` to a larger one. */
static void shrink(const struct attend_many *all, struct scratch *own, long row, float before) {
    float factor = exponential((before - own->largest[row]) * all->scale);
    float *totals = own->totals + row * width_of(all);
    own->sums[row] *= factor;
    for (long place = 0; place < width_of(all); place++) totals[place] *= factor;
}

/* A block of rows with `count` keys from `start` on. */
static void weigh_block(const struct attend_many *all, struct scratch *own, struct rows rows,
                        long start, long count) {
    int all_seen = first_key(all, rows.first + rows.count - 1) <= start &&
                   end_key(all, rows.first) >= start + count;
    for (long row = 0; row < rows.count; row++) {
        long place = rows.place + row;
        float *scores = own->scores + row * CHUNK, before = own->largest[place];
        if (!all_seen) hide(all, rows.first + row, start, count, scores);
        own->largest[place] = largest_of(scores, count, before);
        if (own->largest[place] != before) shrink(all, own, place, before);
        float largest = own->largest[place];
        if (all->widened)
            own->sums[place] +=
                weigh(scores, count, largest, all->scale, 1, own->weights + row * CHUNK);
        else
            own->sums[place] +=
                weigh(scores, count, largest, all->scale, 0, own->weights + row * CHUNK / 2);
    }
}

/* ------------------------------------------------------------------ parts */

static void multiply_words_of(const struct attend_many *all, struct product product) {
    if (HAS_PAIRS && !all->widened)
        multiply(all->on_tiles, OF_BFLOAT, product);
    else
        multiply(0, OF_FLOAT, product);
}

/* A block of rows with the keys from `start` to before `end`. */
static void attend_block(const struct attend_many *all, struct scratch *own, struct rows rows,
                         long start, long end) {
    long width = width_of(all), count = rounded_up(end - start, BLOCK);
    long row_words = words_of(all, width), weight_words = words_of(all, CHUNK);
    struct product scores = {.left = (char *)(own->queries + rows.place * row_words),
                             .right = (char *)own->keys,
                             .to = (char *)own->scores,
                             .left_stride = 4 * row_words,
                             .right_step = STEP,
                             .right_stride = STEP * row_words,
                             .to_stride = sizeof(float) * CHUNK,
                             .words = row_words,
                             .rows = (int)rows.count,
                             .columns = (int)(count / COLUMN)};
    struct product totals = {.left = (char *)own->weights,
                             .right = (char *)own->values,
                             .to = (char *)(own->totals + rows.place * width),
                             .left_stride = 4 * weight_words,
                             .right_step = STEP,
                             .right_stride = STEP * weight_words,
                             .to_stride = sizeof(float) * width,
                             .words = words_of(all, count),
                             .rows = (int)rows.count,
                             .columns = (int)(rounded_up(all->dim, COLUMN) / COLUMN),
                             .more = 1};
    multiply_words_of(all, scores);
    weigh_block(all, own, rows, start, count);
    multiply_words_of(all, totals);
}

/* Without a key a row's softmax has its head's sink alone, whose score is before scaling. */
static void begin_rows(const struct attend_many *all, struct scratch *own, struct rows part) {
    for (long row = 0; row < part.count; row++) {
        own->largest[row] = -FLT_MAX;
        own->sums[row] = 0;
        if (!all->sinks) continue;
        float sink = all->sinks[part.kv * all->group + (part.first + row) % all->group];
        float score = sink / all->scale;
        own->largest[row] = score < -FLT_MAX ? -FLT_MAX : score; /* which may be NaN */
        own->sums[row] = sink > FLT_MAX ? NAN : 1;
    }
}

/* All blocks of the part with a chunk of keys, as far as they see any of it. */
static void attend_chunk(const struct attend_many *all, struct scratch *own, struct rows part,
                         long start, long end) {
    pack_keys(all, part.kv, start, rounded_up(end - start, BLOCK), (char *)own->keys);
    pack_values(all, part.kv, start, rounded_up(end - start, BLOCK), (char *)own->values);
    for (long row = 0; row < part.count; row += BLOCK) {
        struct rows rows = {part.kv, part.first + row, row, smaller(BLOCK, part.count - row)};
        long until = smaller(end, end_key(all, rows.first + rows.count - 1));
        if (first_key(all, rows.first) < end && start < until)
            attend_block(all, own, rows, start, until);
    }
}

static void put_results(const struct attend_many *all, const struct scratch *own,
                        struct rows part) {
    long token_stride = all->kv_heads * all->group * all->dim;
    for (long row = 0; row < part.count; row++) {
        uint16_t *to = (uint16_t *)all->to + place_of(all, part.kv, part.first + row, token_stride);
        const float *totals = own->totals + row * width_of(all);
        for (long place = 0; place < all->dim; place++)
            to[place] = to_bfloat(totals[place] / own->sums[row]);
    }
}

static void attend_part(const struct attend_many *all, struct scratch *own, struct rows part) {
    long numbers = rounded_up(part.count, BLOCK) * width_of(all);
    long end = end_key(all, part.first + part.count - 1);
    pack_queries(all, part, (char *)own->queries);
    begin_rows(all, own, part);
    memset(own->totals, 0, numbers * sizeof *own->totals);
    for (long start = first_key(all, part.first) / CHUNK * CHUNK; start < end; start += CHUNK)
        attend_chunk(all, own, part, start, smaller(end, start + CHUNK));
    put_results(all, own, part);
}

static void one_part(const void *given, long part, void *result) {
    const struct attend_many *all = given;
    struct rows rows = {part % all->kv_heads, part / all->kv_heads * all->rows_of_part, 0, 0};
    struct scratch *own = room_of_part(sizeof *own, all->failed);
    (void)result;
    if (!own) return;
    rows.count = smaller(all->rows_of_part, all->num_queries * all->group - rows.first);
    tiles_begin(&own->tiles, all->on_tiles, COLUMN);
    attend_part(all, own, rows);
    tiles_end(&own->tiles, all->on_tiles);
    free(own);
}

int waymark_attend_many(struct attend_many *given) {
    struct attend_many all = *given; /* which may be called again */
    long rows = all.num_queries * all.group;
    long most = smaller(MOST_ROWS, MOST_NUMBERS / width_of(&all) / BLOCK * BLOCK);
    int failed = 0;
    all.failed = &failed;
    if (!HAS_PAIRS) all.widened = 1;
    all.on_tiles = !all.widened && tiles_allowed();
    /* As few parts as keep all threads busy, because each packs all keys itself. */
    long share = pool_parts(rows * all.kv_heads, all.threads);
    all.rows_of_part = smaller(most, rounded_up(larger(share, 1), BLOCK));
    pool_rows(one_part, &all, pool_parts(rows, all.rows_of_part) * all.kv_heads, all.threads);
    return !failed;
}

/* Whether products of many rows go through AMX. */
int waymark_has_tiles(void) {
    return tiles_allowed();
}
