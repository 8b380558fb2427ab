/* The gated delta rule for a few tokens, a thread some heads. The state is read and written once,
 * and stays in a cache from token to token:
 *
 *     S <- e^g S;  delta = beta (v - S^T k);  S <- S + k delta^T;  o = S^T q
 *
 * g is a number, or one for each row of S. Keys have length 1 and queries 1 / sqrt(dk), made so
 * here.
 */
#include "gated_delta/rule.h"
#include "native/calls.h"
#include "native/thread_pool.h"

#define COLUMNS 128 /* of a state, taken at once: 8 registers of sums */
#define MOST_KEYS 1024
POOL_TAKES(struct delta_run);

INLINE void columns(float *state, long stride, long dim, long width, const float *query,
                    const float *key, const float *value, const float *kept, float beta,
                    float *to) {
    float read[COLUMNS] = {0}, delta[COLUMNS], answer[COLUMNS] = {0};
    for (long row = 0; row < dim; row++)
        for (long column = 0; column < width; column++)
            read[column] += key[row] * (kept[row] * state[row * stride + column]);
    for (long column = 0; column < width; column++)
        delta[column] = beta * (value[column] - read[column]);
    for (long row = 0; row < dim; row++)
        for (long column = 0; column < width; column++) {
            float number = kept[row] * state[row * stride + column] + key[row] * delta[column];
            state[row * stride + column] = number;
            answer[column] += query[row] * number;
        }
    memcpy(to, answer, width * sizeof *to);
}

static long blocks_of(const struct delta_run *all) {
    return pool_parts(all->value_dim, COLUMNS);
}

static void one_token(const struct delta_run *all, long token, long head, long start) {
    long key_head = head / (all->value_heads / all->key_heads), dim = all->key_dim;
    long stride = all->value_dim, width = smaller(stride - start, COLUMNS);
    long number = token * all->value_heads + head;
    float query[MOST_KEYS], key[MOST_KEYS], kept[MOST_KEYS];
    of_length((const float *)all->queries + token * all->query_stride + key_head * dim, query, dim,
              1.0f / sqrtf((float)dim));
    of_length((const float *)all->keys + token * all->key_stride + key_head * dim, key, dim, 1.0f);
    float beta = ((const float *)all->beta)[number];
    const float *decay = (const float *)all->decay + number * (all->by_channel ? dim : 1);
    if (all->by_channel)
        for (long row = 0; row < dim; row++) kept[row] = kept_of(decay[row]);
    else
        for (long row = 0; row < dim; row++) kept[row] = kept_of(*decay);
    float *state = (float *)all->state + head * dim * stride + start;
    const float *value = (const float *)all->values + token * all->value_stride;
    float *to = (float *)all->to + number * stride + start;
    value += head * stride + start;
    if (width == COLUMNS)
        columns(state, stride, dim, COLUMNS, query, key, value, kept, beta, to);
    else
        columns(state, stride, dim, width, query, key, value, kept, beta, to);
}

static void one_block(const void *given, long part, void *result) {
    const struct delta_run *all = given;
    unsigned before = drop_smallest();
    (void)result;
    for (long token = 0; token < all->tokens; token++)
        one_token(all, token, part / blocks_of(all), part % blocks_of(all) * COLUMNS);
    keep_smallest(before);
}

int waymark_delta_step(struct delta_run *all) {
    pool_run(one_block, NULL, all, sizeof *all, all->value_heads * blocks_of(all), all->threads);
    return 1;
}

INLINE void gates(const struct delta_gates *all, long token, int is_bfloat) {
    const float *rate = all->rate, *bias = all->bias;
    float *decay = (float *)all->decay + token * all->decays;
    float *beta = (float *)all->beta + token * all->heads;
    for (long place = 0; place < all->decays; place++) {
        float step = read_number(all->steps, token * all->step_stride + place, is_bfloat);
        decay[place] = rate[place] * softplus(step + bias[place]);
    }
    for (long head = 0; head < all->heads; head++) {
        float number = read_number(all->betas, token * all->beta_stride + head, is_bfloat);
        beta[head] = all->multiplier * sigmoid(number);
    }
}

KERNEL_OF_ROWS(delta_gates, delta_gates, gates, all->tokens, all->decays)
