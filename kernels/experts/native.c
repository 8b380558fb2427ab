/* Sparse experts: routing, the products of many tokens, and weighted sums. */
#include <stdlib.h>

#include "native/calls.h"
#include "native/numbers.h"
#include "native/thread_pool.h"

/* ------------------------------------------------------------------ routing */

#define MOST_CHOSEN 64 /* as kernels/experts/native.py says */

struct choice {
    float rank;
    int32_t id;
};

/* Inserts a score into the k largest, in descending order; ties keep the first. */
INLINE long put(struct choice *best, long chosen, long k, float rank, long id) {
    if (chosen == k && !(rank > best[chosen - 1].rank)) return chosen;
    long place = chosen < k ? chosen++ : chosen - 1;
    for (; place > 0 && rank > best[place - 1].rank; place--) best[place] = best[place - 1];
    best[place] = (struct choice){rank, (int32_t)id};
    return chosen;
}

INLINE void sort_by_id(struct choice *all, long count) {
    for (long place = 1; place < count; place++) {
        struct choice own = all[place];
        long to = place;
        for (; to > 0 && all[to - 1].id > own.id; to--) all[to] = all[to - 1];
        all[to] = own;
    }
}

INLINE float logit_of(const struct route *all, long row, long id, int is_bfloat) {
    return read_number(all->logits, row * all->stride + id, is_bfloat);
}

/* What experts are chosen by. */
INLINE float rank_of(const struct route *all, long row, long id, int is_bfloat) {
    float logit = logit_of(all, row, id, is_bfloat);
    if (!all->sigmoid) return logit;
    return sigmoid(logit) + (all->correction ? ((const float *)all->correction)[id] : 0);
}

/* The groups considered: those with the largest sums of two scores. */
INLINE void open_groups(const struct route *all, long row, struct choice *open, int is_bfloat) {
    long size = all->experts / all->groups, chosen = 0;
    open[0].id = 0;
    for (long group = 0; all->groups > 1 && group < all->groups; group++) {
        struct choice two[2];
        long found = 0;
        for (long id = group * size; id < group * size + size; id++)
            found = put(two, found, 2, rank_of(all, row, id, is_bfloat), id);
        chosen = put(open, chosen, all->open_groups, two[0].rank + two[1].rank, group);
    }
    sort_by_id(open, all->open_groups);
}

INLINE void choose(const struct route *all, long row, struct choice *best, int is_bfloat) {
    struct choice open[MOST_CHOSEN];
    long size = all->experts / all->groups, chosen = 0;
    open_groups(all, row, open, is_bfloat);
    for (long group = 0; group < all->open_groups; group++)
        for (long id = open[group].id * size; id < open[group].id * size + size; id++)
            chosen = put(best, chosen, all->k, rank_of(all, row, id, is_bfloat), id);
}

INLINE void route_row(const struct route *all, long row, int is_bfloat) {
    struct choice best[MOST_CHOSEN];
    choose(all, row, best, is_bfloat);
    float largest = best[0].rank, total = all->normalise ? 1e-20f : 0;
    for (long id = 0; !all->normalise && !all->sigmoid && id < all->experts; id++)
        total += exponential(logit_of(all, row, id, is_bfloat) - largest);
    sort_by_id(best, all->k);
    const float *factors = all->factors;
    float *weights = (float *)all->weights + row * all->k;
    int32_t *ids = (int32_t *)all->ids + row * all->k;
    for (long place = 0; place < all->k; place++) {
        float logit = logit_of(all, row, best[place].id, is_bfloat);
        ids[place] = best[place].id;
        weights[place] = all->sigmoid ? sigmoid(logit) : exponential(logit - largest);
        if (all->normalise) total += weights[place];
    }
    if (all->sigmoid && !all->normalise) total = 1;
    for (long place = 0; place < all->k; place++)
        weights[place] = weights[place] / total * all->scale * (factors ? factors[ids[place]] : 1);
}

KERNEL_OF_ROWS(route, route, route_row, all->rows, 4 * all->experts)

/* ------------------------------------------------------------------ products */

#define EXPERTS_OF_THREAD 4 /* with fewer the last ones would end apart */

typedef int (*product_of)(struct linear *);

struct by_expert {
    const struct expert_rows *all;
    product_of product;
    const long *starts; /* of each expert's rows, and the end */
    int threads;        /* of one product */
    int *failed;
};

/* One expert with all of its rows. A row's bits depend on nothing else. */
static void rows_of_expert(const void *given, long part, void *result) {
    const struct by_expert *each = given;
    const struct expert_rows *all = each->all;
    const void *const *weights = all->weights, *const *scales = all->scales;
    const void *const *biases = all->biases;
    long row = each->starts[part], size = all->is_bfloat ? 2 : 4;
    int32_t id = ((const int32_t *)all->ids)[row];
    struct linear one = {.from = (const char *)all->from + row * all->given * size,
                         .weight = weights[id],
                         .scales = scales ? scales[id] : 0,
                         .bias = biases ? biases[id] : 0,
                         .to = (char *)all->to + row * all->to_stride * size,
                         .rows = each->starts[part + 1] - row,
                         .outputs = all->outputs,
                         .inputs = all->inputs,
                         .given = all->given,
                         .to_stride = all->to_stride,
                         .is_bfloat = all->is_bfloat,
                         .threads = each->threads,
                         .widened = all->widened,
                         .format = all->format,
                         .places = all->places};
    (void)result;
    if (!each->product(&one)) __atomic_store_n(each->failed, 1, __ATOMIC_RELAXED);
}

/* Threads take whole experts, so they wait for each other once; with few experts they share
 * each one. */
static int expert_by_expert(const struct expert_rows *all, product_of product) {
    const int32_t *ids = all->ids;
    long *starts = malloc((all->rows + 1) * sizeof *starts), experts = 0;
    int failed = 0;
    if (!starts) return 0;
    for (long row = 0; row < all->rows; row++)
        if (row == 0 || ids[row] != ids[row - 1]) starts[experts++] = row;
    starts[experts] = all->rows;
    int shared = experts >= EXPERTS_OF_THREAD * all->threads;
    struct by_expert each = {.all = all,
                             .product = product,
                             .starts = starts,
                             .threads = shared ? 1 : all->threads,
                             .failed = &failed};
    pool_rows(rows_of_expert, &each, experts, shared ? all->threads : 1);
    free(starts);
    return !failed;
}

#define EXPERT_BY_EXPERT(name)                                                                     \
    int waymark_experts_##name##_many(struct expert_rows *all) {                                   \
        return expert_by_expert(all, waymark_linear_##name##_many);                                \
    }

EXPERT_BY_EXPERT(bfloat)
EXPERT_BY_EXPERT(int8)
EXPERT_BY_EXPERT(int4)
EXPERT_BY_EXPERT(blocks)

/* ------------------------------------------------------------------ sums */

#define AT_A_TIME 256 /* numbers of a row, whose sums stay in the cache */

INLINE void sum_row(const struct weighted_sum *all, long token, int is_bfloat) {
    const float *weights = (const float *)all->weights + token * all->k;
    const int64_t *places = all->places;
    float open =
        all->shared ? sigmoid(read_number(all->gate, token * all->gate_stride, is_bfloat)) : 0;
    for (long start = 0; start < all->width; start += AT_A_TIME) {
        float sums[AT_A_TIME];
        long count = smaller(AT_A_TIME, all->width - start);
        for (long choice = 0; choice < all->k; choice++) {
            long pair = token * all->k + choice;
            long from = (places ? places[pair] : pair) * all->width + start;
            for (long place = 0; place < count; place++) {
                float product = read_number(all->from, from + place, is_bfloat) * weights[choice];
                sums[place] = choice ? sums[place] + product : product;
            }
        }
        long to = token * all->width + start;
        for (long place = 0; place < count; place++) {
            float sum = sums[place];
            if (all->shared) sum += read_number(all->shared, to + place, is_bfloat) * open;
            write_number(all->to, to + place, sum, is_bfloat);
        }
    }
}

KERNEL_OF_ROWS(weighted_sum, weighted_sum, sum_row, all->tokens, all->k * all->width)
