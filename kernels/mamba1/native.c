/* The selective scan of Mamba-1, token after token, a thread some channels:
 *
 *     s <- e^(d A) s + d x B;  y = C s + D x
 *
 * A register is some channels, so nothing is added up across its lanes; their states stay in
 * registers while some tokens go by. A channel depends on no other, and a run has the bits of its
 * tokens one by one. Nearly all of the work are the powers, one a state and token.
 */
#include "native/calls.h"
#include "native/decay.h"
#include "native/powers.h"
#include "native/thread_pool.h"

#define TOKENS 32   /* whose numbers stay in the nearest cache */
#define CHANNELS 64 /* of a part: of every row a few whole cache lines */
#define MOST_DIM 64
#define STATES_HELD (REGISTER == 64 ? 16 : 4) /* registers */
POOL_TAKES(struct mamba1);

/* Some tokens: B and C, and of a register of channels what each token adds and its answer. */
struct some {
    long count, dim;
    float b[TOKENS * MOST_DIM], c[TOKENS * MOST_DIM];
    floats steps[TOKENS], scaled[TOKENS], answers[TOKENS];
};

/* `states` of a register of channels, from `first` on; rows of `rate` and `state` are a `stride`
 * apart. */
INLINE void some_states(struct some *own, const float *rate, float *state, long stride, long first,
                        int states) {
    const floats forgotten = (floats){0} + FORGOTTEN * LOG2_E;
    floats held[STATES_HELD], rates[STATES_HELD];
#pragma GCC unroll 16
    for (int each = 0; each < states; each++) {
        held[each] = load_floats(state + (first + each) * stride);
        rates[each] = load_floats(rate + (first + each) * stride) * LOG2_E;
    }
    for (long token = 0; token < own->count; token++) {
        const float *b = own->b + token * own->dim + first;
        const float *c = own->c + token * own->dim + first;
        floats step = own->steps[token], scaled = own->scaled[token];
        floats answer = own->answers[token];
#pragma GCC unroll 16
        for (int each = 0; each < states; each++) {
            floats given =
                held[each] * fine_powers_of_two(larger_lanes(forgotten, step * rates[each]));
            given += scaled * b[each];
            answer += given * c[each];
            held[each] = given;
        }
        own->answers[token] = answer;
    }
#pragma GCC unroll 16
    for (int each = 0; each < states; each++)
        store_floats(state + (first + each) * stride, held[each]);
}

/* A register of channels from `channel` on, and some tokens from `start` on. */
INLINE void some_channels(const struct mamba1 *all, struct some *own, long start, long channel,
                          int is_bfloat) {
    long channels = all->channels, state = 0;
    const float *steps = (const float *)all->steps + start * channels + channel;
    float *to = (float *)all->to + start * channels + channel;
    floats skip = load_floats((const float *)all->skip + channel);
    for (long token = 0; token < own->count; token++) {
        floats input =
            read_lanes(all->inputs, (start + token) * all->input_stride + channel, is_bfloat);
        own->steps[token] = load_floats(steps + token * channels);
        own->scaled[token] = own->steps[token] * input;
        own->answers[token] = skip * input;
    }
    const float *rate = (const float *)all->rate + channel;
    float *states = (float *)all->state + channel;
    for (; state + STATES_HELD <= own->dim; state += STATES_HELD)
        some_states(own, rate, states, channels, state, STATES_HELD);
    for (; state < own->dim; state++) some_states(own, rate, states, channels, state, 1);
    for (long token = 0; token < own->count; token++)
        store_floats(to + token * channels, own->answers[token]);
}

INLINE void one_part(const struct mamba1 *all, long part, int is_bfloat) {
    long first = part * CHANNELS, end = smaller(first + CHANNELS, all->channels), dim = all->dim;
    struct some own; /* most of it is not written for a few tokens */
    own.dim = dim;
    for (long start = 0; start < all->tokens; start += TOKENS) {
        own.count = smaller(TOKENS, all->tokens - start);
        for (long token = 0; token < own.count; token++)
            for (long state = 0; state < dim; state++) {
                long row = start + token, place = token * dim + state;
                own.b[place] = read_number(all->b, row * all->b_stride + state, is_bfloat);
                own.c[place] = read_number(all->c, row * all->c_stride + state, is_bfloat);
            }
        for (long channel = first; channel < end; channel += LANES)
            some_channels(all, &own, start, channel, is_bfloat);
    }
}

static void one_part_of(const void *given, long part, void *result) {
    const struct mamba1 *all = given;
    unsigned before = drop_smallest();
    (void)result;
    if (all->is_bfloat)
        one_part(all, part, 1);
    else
        one_part(all, part, 0);
    keep_smallest(before);
}

int waymark_mamba1_step(struct mamba1 *all) {
    pool_run(one_part_of, NULL, all, sizeof *all, pool_parts(all->channels, CHANNELS),
             all->threads);
    return 1;
}

int waymark_mamba1_run(struct mamba1 *all) {
    pool_rows(one_part_of, all, pool_parts(all->channels, CHANNELS), all->threads);
    return 1;
}
