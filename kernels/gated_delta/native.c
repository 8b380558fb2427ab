/* The gated delta rule for one token, a thread some heads. The state is read and written once:
 *
 *     S <- e^g S;  delta = beta (v - S^T k);  S <- S + k delta^T;  o = S^T q
 *
 * Keys have length 1 and queries 1 / sqrt(dk), made so here.
 */
#include "native/numbers.h"
#include "native/team.h"
#ifdef __SSE__
#include <immintrin.h>
#endif

#define COLUMNS 128 /* of a state, taken at once: 8 registers of sums */
#define MOST_KEYS 1024
#define EPSILON 1e-6f    /* under the root of a key's squared length */
#define FORGOTTEN -40.0f /* see reference.py */

struct step {
    const float *queries, *keys, *values, *decay, *beta;
    float *state, *to;
    long key_heads, value_heads, key_dim, value_dim, blocks;
};

/* Writes `from` at `length`, as long as `dim` numbers. */
static void of_length(const float *from, float *to, long dim, float length) {
    floats total = {0};
    long place = 0;
    for (; place + LANES <= dim; place += LANES) {
        floats part = load_floats(from + place);
        total += part * part;
    }
    float squared = sum_of(total);
    for (; place < dim; place++) squared += from[place] * from[place];
    float factor = length / sqrtf(squared + EPSILON);
    for (place = 0; place < dim; place++) to[place] = from[place] * factor;
}

static inline __attribute__((always_inline)) void columns(float *state, long stride, long dim,
                                                          long width, const float *query,
                                                          const float *key, const float *value,
                                                          float kept, float beta, float *to) {
    float read[COLUMNS] = {0}, delta[COLUMNS], answer[COLUMNS] = {0};
    for (long row = 0; row < dim; row++)
        for (long column = 0; column < width; column++)
            read[column] += key[row] * (kept * state[row * stride + column]);
    for (long column = 0; column < width; column++)
        delta[column] = beta * (value[column] - read[column]);
    for (long row = 0; row < dim; row++)
        for (long column = 0; column < width; column++) {
            float number = kept * state[row * stride + column] + key[row] * delta[column];
            state[row * stride + column] = number;
            answer[column] += query[row] * number;
        }
    memcpy(to, answer, width * sizeof *to);
}

/* Numbers below 1e-38 become 0: with them a processor computes ten times slower and more, and a
 * state that is forgotten goes there. Returns what to give to `keep_smallest` afterwards. */
static unsigned drop_smallest(void) {
#ifdef __SSE__
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    return before;
#else
    return 0;
#endif
}

static void keep_smallest(unsigned before) {
#ifdef __SSE__
    _mm_setcsr(before);
#else
    (void)before;
#endif
}

static void one_block(const void *given, long part, void *result) {
    const struct step *all = given;
    unsigned before = drop_smallest();
    long head = part / all->blocks, start = part % all->blocks * COLUMNS;
    long key_head = head / (all->value_heads / all->key_heads), dim = all->key_dim;
    long stride = all->value_dim, width = stride - start < COLUMNS ? stride - start : COLUMNS;
    float query[MOST_KEYS], key[MOST_KEYS];
    (void)result;
    of_length(all->queries + key_head * dim, query, dim, 1.0f / sqrtf((float)dim));
    of_length(all->keys + key_head * dim, key, dim, 1.0f);
    float decay = all->decay[head];
    float kept = exponential(decay < FORGOTTEN ? FORGOTTEN : decay);
    float *state = all->state + head * dim * stride + start, beta = all->beta[head];
    const float *value = all->values + head * stride + start;
    float *to = all->to + head * stride + start;
    if (width == COLUMNS)
        columns(state, stride, dim, COLUMNS, query, key, value, kept, beta, to);
    else
        columns(state, stride, dim, width, query, key, value, kept, beta, to);
    keep_smallest(before);
}

/* `queries`, `keys` [key_heads, key_dim], `values` and `to` [value_heads, value_dim], `decay`,
 * `beta` [value_heads], `state` [value_heads, key_dim, value_dim], moved on in place. */
void waymark_delta_step(const float *queries, const float *keys, const float *values,
                        const float *decay, const float *beta, float *state, float *to,
                        long key_heads, long value_heads, long key_dim, long value_dim,
                        int threads) {
    long blocks = (value_dim + COLUMNS - 1) / COLUMNS;
    struct step all = {.queries = queries,
                       .keys = keys,
                       .values = values,
                       .decay = decay,
                       .beta = beta,
                       .state = state,
                       .to = to,
                       .key_heads = key_heads,
                       .value_heads = value_heads,
                       .key_dim = key_dim,
                       .value_dim = value_dim,
                       .blocks = blocks};
    team_run(one_block, NULL, &all, sizeof all, value_heads * blocks, threads);
}

/* The log decay rate * softplus(step + bias) and sigmoid(beta); `steps` and `betas` are rows of
 * `heads` numbers `stride` apart, the results are contiguous. */
void waymark_delta_gates(const void *steps, const void *betas, const float *rate, const float *bias,
                         float *decay, float *beta, long tokens, long heads, long stride,
                         int is_bfloat) {
    for (long token = 0; token < tokens; token++)
        for (long head = 0; head < heads; head++) {
            float step = read_number(steps, token * stride + head, is_bfloat) + bias[head];
            float soft = step > 20.0f ? step : log1pf(exponential(step));
            decay[token * heads + head] = rate[head] * soft;
            beta[token * heads + head] =
                sigmoid(read_number(betas, token * stride + head, is_bfloat));
        }
}

/* ------------------------------------------------------------------ a whole step */

#define MOST_COLUMNS 65536

/* Elsewhere: causal_conv/native.c, rms_norm/native.c. */
void waymark_conv_step(const void *from, void *tail, const float *weight, float *to, long channels,
                       long taps, int is_bfloat);
void waymark_gated_rms_norm(const float *from, const float *scale, const void *gate, void *to,
                            long tokens, long heads, long width, long gate_stride, float epsilon,
                            int to_bfloat, int threads);

/* What a gated delta net does with one token between its two matrices, by the functions above: the
 * same bits in one call. `mixed` [2 key_heads key_dim + value_heads value_dim], `gate` and `to`
 * [value_heads, value_dim], `betas`, `steps` [value_heads] are what the first matrix gave and the
 * second takes. */
void waymark_delta_net_step(const void *mixed, const void *gate, const void *betas,
                            const void *steps, void *tail, float *state, const float *conv,
                            const float *rate, const float *bias, const float *scale, void *to,
                            long key_heads, long value_heads, long key_dim, long value_dim,
                            long taps, float epsilon, int is_bfloat, int threads) {
    static float columns_of[MOST_COLUMNS], decay[MOST_COLUMNS], beta[MOST_COLUMNS];
    static float read[MOST_COLUMNS];
    long width = key_heads * key_dim, channels = 2 * width + value_heads * value_dim;
    waymark_conv_step(mixed, tail, conv, columns_of, channels, taps, is_bfloat);
    waymark_delta_gates(steps, betas, rate, bias, decay, beta, 1, value_heads, value_heads,
                        is_bfloat);
    waymark_delta_step(columns_of, columns_of + width, columns_of + 2 * width, decay, beta, state,
                       read, key_heads, value_heads, key_dim, value_dim, threads);
    waymark_gated_rms_norm(read, scale, gate, to, 1, value_heads, value_dim, 0, epsilon, is_bfloat,
                           threads);
}
