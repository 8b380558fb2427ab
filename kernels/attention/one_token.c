/* Attention of one token, or of a few one after the other; a thread takes some splits of the keys.
 *
 * Each token has the bits that it has alone. Splits have a fixed length and are combined in order,
 * so bits don't depend on the number of threads. Keys and values are read in memory order and
 * converted to floats once for up to four query heads that share them.
 */
#include <float.h>
#include <stdlib.h>

#include "native/calls.h"
#include "native/numbers.h"
#include "native/thread_pool.h"

#define SPLIT 128 /* a multiple of LANES */
#define MOST_DIM 576
/* Query heads that are worked out together, */
#define MOST_HEADS 4
/* and keys, or vectors of a value, that registers hold with them. */
#ifdef __AVX512F__
#define AT_ONCE 4
#else
#define AT_ONCE 1
#endif
/* Values that are added up before their sum goes back to memory. */
#define BLOCK 16
/* How far ahead to prefetch: a head's keys have gaps between them, which no hardware prefetcher
 * follows. */
#define AHEAD 16
POOL_TAKES(struct attend);

/* Query heads from `first` on that share the keys and values of head `kv`. */
struct heads {
    long kv, first;
    int count;
};

/* Processes the keys or values from `start` to before `end` of a split. */
typedef void (*heads_work)(const struct attend *all, long number, long start, long end,
                           struct heads heads, int is_bfloat);

/* With all heads, up to four at once. */
INLINE void for_heads(heads_work work, const struct attend *all, long number, long start, long end,
                      int is_bfloat) {
    for (long kv = 0; kv < all->kv_heads; kv++) {
        long first = kv * all->group, last = first + all->group;
        for (; first + 4 <= last; first += 4)
            work(all, number, start, end, (struct heads){kv, first, 4}, is_bfloat);
        for (; first + 2 <= last; first += 2)
            work(all, number, start, end, (struct heads){kv, first, 2}, is_bfloat);
        if (first < last) work(all, number, start, end, (struct heads){kv, first, 1}, is_bfloat);
    }
}

/* A query times the scale [dim]. */
static inline float *query_of(const struct attend *all, long head) {
    return (float *)all->partial + head * all->dim;
}

/* The result of a split for a query head: largest score, sum, and weighted sum of values [dim]. */
static inline long partial_size(const struct attend *all) {
    return 2 + all->dim;
}

static inline float *partial_of(const struct attend *all, long number, long head) {
    long heads = all->kv_heads * all->group;
    return query_of(all, heads) + (number * heads + head) * partial_size(all);
}

static inline float *sum_of_values(const struct attend *all, long number, long head) {
    return partial_of(all, number, head) + 2;
}

/* The scores of a split's keys [SPLIT]. A part has room for one split at a time. */
static inline float *scores_of(const struct attend *all, long number, long head) {
    long heads = all->kv_heads * all->group, part = number / all->splits_of_part;
    return partial_of(all, all->splits, 0) + (part * heads + head) * SPLIT;
}

/* Prefetches the numbers from `place` on, which `read_lanes` reads later. */
INLINE void look_ahead(const char *from, long place, int is_bfloat) {
    if (!is_bfloat || place % (2 * LANES) == 0)
        __builtin_prefetch(from + place * (is_bfloat ? 2 : 4), 0, 2);
}

/* `keys` keys from `start` on. */
INLINE void score_keys(const struct attend *all, long number, long start, int keys,
                       struct heads heads, int is_bfloat) {
    long size = is_bfloat ? 2 : 4, stride = all->key_stride * size, dim = all->dim, place = 0;
    const char *from = (const char *)all->keys + (number * SPLIT + start) * stride;
    const float *queries = query_of(all, heads.first);
    floats totals[AT_ONCE * MOST_HEADS] = {{0}};
    float sums[AT_ONCE * MOST_HEADS];
    from += heads.kv * dim * size;
    for (; place + LANES <= dim; place += LANES) {
        floats given[MOST_HEADS];
        for (int head = 0; head < heads.count; head++)
            given[head] = load_floats(queries + head * dim + place);
        for (int key = 0; key < keys; key++) {
            look_ahead(from + (key + AHEAD) * stride, place, is_bfloat);
            floats lanes = read_lanes(from + key * stride, place, is_bfloat);
            for (int head = 0; head < heads.count; head++)
                totals[key * heads.count + head] += given[head] * lanes;
        }
    }
    sums_of(totals, keys * heads.count, sums);
    for (int key = 0; key < keys; key++)
        for (int head = 0; head < heads.count; head++) {
            float found = sums[key * heads.count + head];
            for (long rest = place; rest < dim; rest++)
                found +=
                    queries[head * dim + rest] * read_number(from + key * stride, rest, is_bfloat);
            scores_of(all, number, heads.first + head)[start + key] = found;
        }
}

INLINE void score(const struct attend *all, long number, long start, long end, struct heads heads,
                  int is_bfloat) {
    if (end - start == AT_ONCE)
        score_keys(all, number, start, AT_ONCE, heads, is_bfloat);
    else
        for (; start < end; start++) score_keys(all, number, start, 1, heads, is_bfloat);
}

static inline float larger(float first, float second) {
    return (second > first) | (second != second) ? second : first; /* NaN is the largest */
}

/* From the scores of `keys` keys to weights whose largest is 1. */
static void weigh(const struct attend *all, long number, long head, long keys) {
    float *scores = scores_of(all, number, head), *to = partial_of(all, number, head);
    float largest[LANES], sums[LANES] = {0};
    for (long key = keys; key % LANES; key++) scores[key] = -INFINITY;
    /* Not -infinity, whose distance from itself is NaN. */
    for (int lane = 0; lane < LANES; lane++) largest[lane] = -FLT_MAX;
    for (long key = 0; key < keys; key += LANES)
        for (int lane = 0; lane < LANES; lane++)
            largest[lane] = larger(largest[lane], scores[key + lane]);
    for (int lane = 1; lane < LANES; lane++) largest[0] = larger(largest[0], largest[lane]);
    for (long key = 0; key < keys; key += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            scores[key + lane] = exponential(scores[key + lane] - largest[0]);
            sums[lane] += scores[key + lane];
        }
    to[0] = largest[0];
    to[1] = sum_of(load_floats(sums));
    memset(to + 2, 0, all->dim * sizeof *to);
}

/* Numbers `place` on of weighed values, `vectors` times LANES. */
INLINE void add_lanes(const struct attend *all, const char *values, const float *weights, float *to,
                      long keys, int heads, long place, int vectors, int is_bfloat) {
    long stride = all->value_stride * (is_bfloat ? 2 : 4), apart = partial_size(all);
    floats totals[MOST_HEADS][AT_ONCE], lanes[AT_ONCE];
    for (int head = 0; head < heads; head++)
        for (int each = 0; each < vectors; each++)
            totals[head][each] = load_floats(to + head * apart + place + each * LANES);
    for (long key = 0; key < keys; key++) {
        for (int each = 0; each < vectors; each++) {
            look_ahead(values + (key + AHEAD) * stride, place + each * LANES, is_bfloat);
            lanes[each] = read_lanes(values + key * stride, place + each * LANES, is_bfloat);
        }
        for (int head = 0; head < heads; head++)
            for (int each = 0; each < vectors; each++)
                totals[head][each] += weights[head * SPLIT + key] * lanes[each];
    }
    for (int head = 0; head < heads; head++)
        for (int each = 0; each < vectors; each++)
            store_floats(to + head * apart + place + each * LANES, totals[head][each]);
}

INLINE void add_values(const struct attend *all, long number, long start, long end,
                       struct heads heads, int is_bfloat) {
    long size = is_bfloat ? 2 : 4, stride = all->value_stride * size, dim = all->dim, place = 0;
    const char *values = (const char *)all->values + (number * SPLIT + start) * stride;
    const float *weights = scores_of(all, number, heads.first) + start;
    float *to = sum_of_values(all, number, heads.first);
    values += heads.kv * dim * size;
    for (; place + AT_ONCE * LANES <= dim; place += AT_ONCE * LANES)
        add_lanes(all, values, weights, to, end - start, heads.count, place, AT_ONCE, is_bfloat);
    for (; place + LANES <= dim; place += LANES)
        add_lanes(all, values, weights, to, end - start, heads.count, place, 1, is_bfloat);
    for (long key = 0; place < dim && key < end - start; key++)
        for (long head = 0; head < heads.count; head++)
            for (long rest = place; rest < dim; rest++)
                to[head * partial_size(all) + rest] +=
                    weights[head * SPLIT + key] *
                    read_number(values + key * stride, rest, is_bfloat);
}

INLINE void split(const struct attend *all, long number, int is_bfloat) {
    long keys = smaller(all->num_keys - number * SPLIT, SPLIT);
    for (long key = 0; key < keys; key += AT_ONCE)
        for_heads(score, all, number, key, smaller(key + AT_ONCE, keys), is_bfloat);
    for (long head = 0; head < all->kv_heads * all->group; head++) weigh(all, number, head, keys);
    for (long key = 0; key < keys; key += BLOCK)
        for_heads(add_values, all, number, key, smaller(key + BLOCK, keys), is_bfloat);
}

static void some_splits(const void *given, long part, void *result) {
    const struct attend *all = given;
    long first = part * all->splits_of_part;
    long end = smaller(first + all->splits_of_part, all->splits);
    (void)result;
    for (long number = first; number < end; number++) {
        if (all->is_bfloat)
            split(all, number, 1);
        else
            split(all, number, 0);
    }
}

/* The splits of one head, in their order, into `to` [dim]. */
static void put_together(const struct attend *all, long head, void *to) {
    long dim = all->dim;
    float largest = *partial_of(all, 0, head), sum = 0, totals[MOST_DIM] = {0};
    for (long number = 1; number < all->splits; number++)
        largest = larger(largest, *partial_of(all, number, head));
    if (all->sinks) {
        largest = larger(largest, all->sinks[head]);
        sum = exponential(all->sinks[head] - largest);
    }
    for (long number = 0; number < all->splits; number++) {
        const float *from = partial_of(all, number, head);
        float weight = exponential(from[0] - largest);
        sum += weight * from[1];
        for (long place = 0; place < dim; place++) totals[place] += weight * from[2 + place];
    }
    for (long place = 0; place < dim; place++)
        write_number(to, head * dim + place, totals[place] / sum, all->is_bfloat);
}

/* A buffer as large as the largest request so far; NULL without memory. */
static float *room_for(long numbers) {
    static float *partial;
    static long room;
    if (numbers > room) {
        free(partial);
        partial = malloc(numbers * sizeof *partial);
        room = partial ? numbers : 0;
    }
    return partial;
}

/* Leaves away what a window hides. */
static void choose_keys(struct attend *all) {
    long size = all->is_bfloat ? 2 : 4;
    if (all->window == 0 || all->num_keys <= all->window) return;
    long hidden = all->num_keys - all->window;
    all->keys = (const char *)all->keys + hidden * all->key_stride * size;
    all->values = (const char *)all->values + hidden * all->value_stride * size;
    all->num_keys = all->window;
}

static int one_token(const struct attend *given, long token) {
    struct attend all = *given; /* which may be called again */
    long size = all.is_bfloat ? 2 : 4;
    all.queries = (const char *)all.queries + token * all.query_stride * size;
    all.to = (char *)all.to + token * all.kv_heads * all.group * all.dim * size;
    if (all.token) all.num_keys = *(const long *)all.token + 1;
    all.num_keys += token;
    choose_keys(&all);
    all.splits = pool_parts(all.num_keys, SPLIT);
    long heads = all.kv_heads * all.group, numbers = heads * all.dim;
    all.splits_of_part = pool_share(all.splits, 1, all.threads);
    long parts = pool_parts(all.splits, all.splits_of_part);
    long scores = parts * heads * SPLIT;
    all.partial = room_for(numbers + all.splits * heads * partial_size(&all) + scores);
    if (!all.partial) return 0;
    for (long place = 0; place < numbers; place++)
        query_of(&all, 0)[place] = all.scale * read_number(all.queries, place, all.is_bfloat);
    pool_run(some_splits, NULL, &all, sizeof all, parts, all.threads);
    for (long head = 0; head < heads; head++) put_together(&all, head, all.to);
    return 1;
}

int waymark_attend(struct attend *all) {
    long token = 0;
    while (token < all->tokens && one_token(all, token)) token++;
    return token == all->tokens;
}
