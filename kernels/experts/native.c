/* Sparse experts: which ones a token goes through, the products of many tokens, and their sums. */
#include <stdlib.h>

#include "native/calls.h"
#include "native/numbers.h"
#include "native/thread_pool.h"

/* ------------------------------------------------------------------ routing */

#define MOST_CHOSEN 64 /* as kernels/experts/native.py says */

struct choice {
    float logit;
    int32_t id;
};

/* The k largest, the largest first, of equal ones the one with the lower id. */
INLINE void choose(const struct route *all, long row, struct choice *best, int is_bfloat) {
    long chosen = 0;
    for (long id = 0; id < all->experts; id++) {
        float logit = read_number(all->logits, row * all->stride + id, is_bfloat);
        if (chosen == all->k && !(logit > best[chosen - 1].logit)) continue;
        long place = chosen < all->k ? chosen++ : chosen - 1;
        for (; place > 0 && logit > best[place - 1].logit; place--) best[place] = best[place - 1];
        best[place] = (struct choice){logit, (int32_t)id};
    }
}

INLINE void route_row(const struct route *all, long row, int is_bfloat) {
    struct choice best[MOST_CHOSEN];
    choose(all, row, best, is_bfloat);
    float largest = best[0].logit, total = 0;
    for (long id = 0; !all->normalise && id < all->experts; id++)
        total += exponential(read_number(all->logits, row * all->stride + id, is_bfloat) - largest);
    for (long place = 1; place < all->k; place++) { /* by their ids */
        struct choice own = best[place];
        long to = place;
        for (; to > 0 && best[to - 1].id > own.id; to--) best[to] = best[to - 1];
        best[to] = own;
    }
    float *weights = (float *)all->weights + row * all->k;
    int32_t *ids = (int32_t *)all->ids + row * all->k;
    for (long place = 0; place < all->k; place++) {
        ids[place] = best[place].id;
        weights[place] = exponential(best[place].logit - largest);
        if (all->normalise) total += weights[place];
    }
    for (long place = 0; place < all->k; place++) weights[place] /= total;
}

static void one_token(const void *given, long row) {
    const struct route *all = given;
    if (all->is_bfloat)
        route_row(all, row, 1);
    else
        route_row(all, row, 0);
}

int waymark_route(struct route *all) {
    pool_each(one_token, all, all->rows, 4 * all->experts, all->threads);
    return 1;
}

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

/* One expert with all of its rows: the bits of a row depend on nothing else, as those of a product
 * of many rows. */
static void rows_of_expert(const void *given, long part, void *result) {
    const struct by_expert *each = given;
    const struct expert_rows *all = each->all;
    const void *const *weights = all->weights, *const *scales = all->scales;
    long row = each->starts[part], size = all->is_bfloat ? 2 : 4;
    int32_t id = ((const int32_t *)all->ids)[row];
    struct linear one = {.from = (const char *)all->from + row * all->given * size,
                         .weight = weights[id],
                         .scales = scales ? scales[id] : 0,
                         .to = (char *)all->to + row * all->outputs * size,
                         .rows = each->starts[part + 1] - row,
                         .outputs = all->outputs,
                         .inputs = all->inputs,
                         .given = all->given,
                         .to_stride = all->outputs,
                         .is_bfloat = all->is_bfloat,
                         .threads = each->threads,
                         .widened = all->widened};
    (void)result;
    if (!each->product(&one)) __atomic_store_n(each->failed, 1, __ATOMIC_RELAXED);
}

/* Threads take experts as they come, so that they wait for each other once; where there are few,
 * they share each one. */
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

int waymark_experts_bfloat_many(struct expert_rows *all) {
    return expert_by_expert(all, waymark_linear_bfloat_many);
}

int waymark_experts_int8_many(struct expert_rows *all) {
    return expert_by_expert(all, waymark_linear_int8_many);
}

int waymark_experts_int4_many(struct expert_rows *all) {
    return expert_by_expert(all, waymark_linear_int4_many);
}

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

static void one_sum(const void *given, long token) {
    const struct weighted_sum *all = given;
    if (all->is_bfloat)
        sum_row(all, token, 1);
    else
        sum_row(all, token, 0);
}

int waymark_weighted_sum(struct weighted_sum *all) {
    pool_each(one_sum, all, all->tokens, all->k * all->width, all->threads);
    return 1;
}
