/* The state space of Mamba-2, token after token, a thread some heads:
 *
 *     S <- e^(d A) S + d x B^T;  y = S C + D x
 *
 * A few rows of the state stay in registers while some tokens go by, and each of them is one pass.
 * Products of whole chunks (the dual form) have as many operations, so a processor gains nothing
 * from them; and like this a run has the bits of its tokens one by one.
 */
#include "native/calls.h"
#include "native/decay.h"
#include "native/thread_pool.h"

#define TOKENS 32 /* whose B and C stay in the nearest cache, for all rows of a state */
#define MOST_WIDTH 256
/* Of a state, in registers. */
#define ROWS_HELD 2
#define PIECES_HELD (REGISTER == 32 ? 4 : 8)
POOL_TAKES(struct mamba2);

/* Some tokens of a head. */
struct some {
    const float *b, *c;
    long b_stride, c_stride, count, width, dim;
    float kept[TOKENS], scaled[TOKENS * MOST_WIDTH], answers[TOKENS * MOST_WIDTH];
};

/* `rows` rows of the state from `row` on, and of these `pieces` registers from `place` on. */
INLINE void part_of_rows(struct some *all, float *state, long row, long place, int rows,
                         int pieces) {
    floats held[ROWS_HELD][PIECES_HELD];
    state += row * all->dim + place;
#pragma GCC unroll 16
    for (int each = 0; each < rows; each++)
#pragma GCC unroll 16
        for (int piece = 0; piece < pieces; piece++)
            held[each][piece] = load_floats(state + each * all->dim + piece * LANES);
    for (long token = 0; token < all->count; token++) {
        const float *b = all->b + token * all->b_stride + place;
        const float *c = all->c + token * all->c_stride + place;
        floats totals[ROWS_HELD] = {{0}};
        const float *scaled = all->scaled + token * all->width + row;
        float kept = all->kept[token];
#pragma GCC unroll 16
        for (int piece = 0; piece < pieces; piece++) {
            floats of_b = load_floats(b + piece * LANES), of_c = load_floats(c + piece * LANES);
#pragma GCC unroll 16
            for (int each = 0; each < rows; each++) {
                floats given = held[each][piece] * kept;
                given += of_b * scaled[each];
                totals[each] += given * of_c;
                held[each][piece] = given;
            }
        }
#pragma GCC unroll 16
        for (int each = 0; each < rows; each++)
            all->answers[token * all->width + row + each] += sum_of(totals[each]);
    }
#pragma GCC unroll 16
    for (int each = 0; each < rows; each++)
#pragma GCC unroll 16
        for (int piece = 0; piece < pieces; piece++)
            store_floats(state + each * all->dim + piece * LANES, held[each][piece]);
}

INLINE void whole_rows(struct some *all, float *state, long row, int rows) {
    long place = 0;
    for (; place + PIECES_HELD * LANES <= all->dim; place += PIECES_HELD * LANES)
        part_of_rows(all, state, row, place, rows, PIECES_HELD);
    for (; place < all->dim; place += LANES) part_of_rows(all, state, row, place, rows, 1);
}

static void some_tokens(const struct mamba2 *all, long head, long start, struct some *own) {
    long width = all->width, group = head / (all->heads / all->groups), row = 0;
    float rate = ((const float *)all->rate)[head], skip = ((const float *)all->skip)[head];
    float *state = (float *)all->state + head * width * all->dim;
    const float *inputs = (const float *)all->inputs + start * all->input_stride + head * width;
    const float *steps = (const float *)all->steps + start * all->heads + head;
    float *to = (float *)all->to + (start * all->heads + head) * width;
    own->b = (const float *)all->b + start * all->b_stride + group * all->dim;
    own->c = (const float *)all->c + start * all->c_stride + group * all->dim;
    for (long token = 0; token < own->count; token++) {
        float step = steps[token * all->heads];
        own->kept[token] = kept_of(step * rate);
        for (long place = 0; place < width; place++) {
            float input = inputs[token * all->input_stride + place];
            own->scaled[token * width + place] = step * input;
            own->answers[token * width + place] = skip * input;
        }
    }
    for (; row + ROWS_HELD <= width; row += ROWS_HELD) whole_rows(own, state, row, ROWS_HELD);
    for (; row < width; row++) whole_rows(own, state, row, 1);
    for (long token = 0; token < own->count; token++)
        memcpy(to + token * all->heads * width, own->answers + token * width, width * sizeof *to);
}

static void one_head(const void *given, long head, void *result) {
    const struct mamba2 *all = given;
    struct some own; /* most of it is not written for a few tokens */
    unsigned before = drop_smallest();
    (void)result;
    own.b_stride = all->b_stride, own.c_stride = all->c_stride;
    own.width = all->width, own.dim = all->dim;
    for (long start = 0; start < all->tokens; start += TOKENS) {
        own.count = smaller(TOKENS, all->tokens - start);
        some_tokens(all, head, start, &own);
    }
    keep_smallest(before);
}

int waymark_mamba2_step(struct mamba2 *all) {
    pool_run(one_head, NULL, all, sizeof *all, all->heads, all->threads);
    return 1;
}

int waymark_mamba2_run(struct mamba2 *all) {
    pool_rows(one_head, all, all->heads, all->threads);
    return 1;
}

INLINE void steps_of(const struct time_steps *all, long token, int is_bfloat) {
    float *to = (float *)all->to + token * all->heads;
    const float *bias = all->bias;
    for (long head = 0; head < all->heads; head++) {
        float step = read_number(all->steps, token * all->stride + head, is_bfloat);
        float soft = softplus(all->multiplier * step + bias[head]);
        soft = soft < all->shortest ? all->shortest : soft;
        to[head] = soft > all->longest ? all->longest : soft;
    }
}

KERNEL_OF_ROWS(time_steps, time_steps, steps_of, all->tokens, all->heads)
