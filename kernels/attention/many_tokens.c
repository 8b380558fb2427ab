/* Many tokens attend at once, bfloat16: prompts, and the patches of a picture.
 *
 * Query heads that share keys are rows of one matrix. A part is some hundred of these rows: it goes
 * through the keys in chunks, puts each in order for the products once, and takes BLOCK rows at a
 * time through it. A row keeps its largest score, the sum of its weights and the weighed values'
 * sum; the sums shrink when a larger score comes. Nothing depends on the rows beside it.
 */
#include <float.h>
#include <stdlib.h>

#include "native/calls.h"
#include "native/thread_pool.h"
#include "native/tiles.h"

#define CHUNK 256          /* keys */
#define MOST_NUMBERS 65536 /* of a part's rows: their sums and a chunk stay in a core's cache */
#define MOST_ROWS 2048
#define MOST_DIM 512
#define LOG2_E 1.44269504f
POOL_TAKES(struct attend_many);

/* A thread's own, for one part. Rows lie as wide as products want them. */
struct scratch {
    uint16_t keys[CHUNK * MOST_DIM], values[CHUNK * MOST_DIM];
    uint16_t queries[MOST_NUMBERS], weights[BLOCK * CHUNK];
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

static inline long rounded_up(long number, long to) {
    return (number + to - 1) / to * to;
}

static inline long width_of(const struct attend_many *all) {
    return rounded_up(all->dim, BLOCK);
}

/* Where a row's numbers begin, which is a token's query head. */
static inline long place_of(const struct attend_many *all, long kv, long row, long token_stride) {
    return row / all->group * token_stride + (kv * all->group + row % all->group) * all->dim;
}

/* One behind the row's own token among the keys. */
static inline long behind(const struct attend_many *all, long row) {
    return all->num_keys - all->num_queries + row / all->group + 1;
}

static inline long first_key(const struct attend_many *all, long row) {
    return all->window > 0 ? larger(0, behind(all, row) - all->window) : 0;
}

static inline long end_key(const struct attend_many *all, long row) {
    return all->causal ? behind(all, row) : all->num_keys;
}

/* ------------------------------------------------------------------ in order for the products */

/* `rows` rows of `width` numbers, filled up with zeros to `to` [to_rows, to_width]. */
static void copy_rows(const uint16_t *from, long stride, long rows, long width, uint16_t *to,
                      long to_rows, long to_width) {
    for (long row = 0; row < to_rows; row++, to += to_width) {
        long given = row < rows ? width : 0;
        if (given) memcpy(to, from + row * stride, given * sizeof *to);
        memset(to + given, 0, (to_width - given) * sizeof *to);
    }
}

/* `count` keys from `start` on, which are columns. */
static void order_keys(const struct attend_many *all, long kv, long start, long count,
                       uint16_t *to) {
    uint16_t filled[TILE * INNER];
    for (long key = start; key < start + count; key += TILE)
        for (long place = 0; place < all->dim; place += INNER, to += TILE * INNER) {
            const uint16_t *from =
                (const uint16_t *)all->keys + key * all->key_stride + kv * all->dim + place;
            long rows = smaller(TILE, all->num_keys - key), stride = all->key_stride;
            long width = smaller(INNER, all->dim - place);
            if (rows < TILE || width < INNER) {
                copy_rows(from, stride, rows, width, filled, TILE, INNER);
                from = filled, stride = INNER;
            }
            turn_words(from, stride * sizeof *from, to);
        }
}

/* Values of `count` keys from `start` on, which are what products add up. */
static void order_values(const struct attend_many *all, long kv, long start, long count,
                         uint16_t *values) {
    uint16_t filled[2 * TILE];
    for (long place = 0; place < all->dim; place += TILE)
        for (long key = 0; key < count; key += 2) {
            const uint16_t *from = (const uint16_t *)all->values +
                                   (start + key) * all->value_stride + kv * all->dim + place;
            long rows = smaller(2, all->num_keys - start - key), stride = all->value_stride;
            long width = smaller(TILE, all->dim - place);
            if (rows < 2 || width < TILE) {
                copy_rows(from, stride, rows, width, filled, 2, TILE);
                from = filled, stride = TILE;
            }
            join_rows(from, from + stride, values + place * CHUNK + key * TILE);
        }
}

static void order_queries(const struct attend_many *all, struct rows rows, uint16_t *to) {
    const uint16_t *queries = all->queries;
    for (long row = 0; row < rounded_up(rows.count, BLOCK); row++, to += width_of(all))
        copy_rows(queries + place_of(all, rows.kv, rows.first + row, all->query_stride), 0,
                  row < rows.count, all->dim, to, 1, width_of(all));
}

/* ------------------------------------------------------------------ weights */

/* Away with the scores of keys that the row does not see. */
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

/* e^((score - largest) scale) in bfloat16; returns their sum before they are rounded. */
static float weigh(const float *scores, long count, float largest, float scale, uint16_t *to) {
    floats even_sums = {0}, odd_sums = {0}, factor = (floats){0} + scale * LOG2_E;
    for (long key = 0; key < count; key += 2 * LANES) {
        floats even = powers_of_two((load_floats(scores + key) - largest) * factor);
        floats odd = powers_of_two((load_floats(scores + key + LANES) - largest) * factor);
        even_sums += even;
        odd_sums += odd;
        store_bfloats(to + key, even, odd);
    }
    return sum_of(even_sums + odd_sums);
}

/* A row of the part goes over from `before` to a larger score. */
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
        own->sums[place] +=
            weigh(scores, count, own->largest[place], all->scale, own->weights + row * CHUNK);
    }
}

/* ------------------------------------------------------------------ parts */

/* A block of rows with the keys from `start` to before `end`. */
static void attend_block(const struct attend_many *all, struct scratch *own, struct rows rows,
                         long start, long end) {
    long width = width_of(all), count = rounded_up(end - start, BLOCK);
    struct block_product scores = {.left = own->queries + rows.place * width,
                                   .left_stride = 2 * width,
                                   .right_stride = 2 * TILE * width,
                                   .to_stride = sizeof(float) * CHUNK,
                                   .steps = width / INNER};
    struct block_product totals = {.left = own->weights,
                                   .left_stride = 2 * CHUNK,
                                   .right_stride = 2 * TILE * CHUNK,
                                   .to_stride = sizeof(float) * width,
                                   .steps = count / INNER,
                                   .more = 1};
    for (long key = 0; key < count; key += BLOCK) {
        scores.right = own->keys + key * width;
        scores.to = own->scores + key;
        multiply_floats(&own->tiles, scores);
    }
    weigh_block(all, own, rows, start, count);
    for (long place = 0; place < width; place += BLOCK) {
        totals.right = own->values + place * CHUNK;
        totals.to = own->totals + rows.place * width + place;
        multiply_floats(&own->tiles, totals);
    }
}

/* All blocks of the part with a chunk of keys, as far as they see any of it. */
static void attend_chunk(const struct attend_many *all, struct scratch *own, struct rows part,
                         long start, long end) {
    order_keys(all, part.kv, start, rounded_up(end - start, BLOCK), own->keys);
    order_values(all, part.kv, start, rounded_up(end - start, BLOCK), own->values);
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
    order_queries(all, part, own->queries);
    for (long row = 0; row < part.count; row++) own->largest[row] = -FLT_MAX;
    memset(own->sums, 0, sizeof own->sums);
    memset(own->totals, 0, numbers * sizeof *own->totals);
    for (long start = first_key(all, part.first) / CHUNK * CHUNK; start < end; start += CHUNK)
        attend_chunk(all, own, part, start, smaller(end, start + CHUNK));
    put_results(all, own, part);
}

static void one_part(const void *given, long part, void *result) {
    const struct attend_many *all = given;
    struct rows rows = {part % all->kv_heads, part / all->kv_heads * all->rows_of_part, 0, 0};
    struct scratch *own = aligned_alloc(64, rounded_up(sizeof *own, 64));
    (void)result;
    if (!own) {
        __atomic_store_n((int *)all->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    rows.count = smaller(all->rows_of_part, all->num_queries * all->group - rows.first);
    tiles_begin(&own->tiles);
    attend_part(all, own, rows);
    tiles_end(&own->tiles);
    free(own);
}

int waymark_attend_many(struct attend_many *given) {
    struct attend_many all = *given; /* which may be called again */
    long rows = all.num_queries * all.group;
    long most = smaller(MOST_ROWS, MOST_NUMBERS / width_of(&all) / BLOCK * BLOCK);
    int failed = 0;
    all.failed = &failed;
    /* As few parts as keep all threads busy: each puts all keys in order for itself. */
    long share = (rows * all.kv_heads + all.threads - 1) / all.threads;
    all.rows_of_part = smaller(most, rounded_up(larger(share, 1), BLOCK));
    pool_rows(one_part, &all, pool_parts(rows, all.rows_of_part) * all.kv_heads, all.threads);
    return !failed;
}

/* On one thread torch is faster than they are. */
int waymark_has_tiles(void) {
    return tiles_allowed() && pool_shares_rows();
}
