/* Depthwise causal convolution with silu, a thread some tokens. */
#include "native/numbers.h"
#include "native/team.h"

#define FEWEST 32768 /* numbers of a part: fewer are done before a thread wakes */

struct convolution {
    const void *rows; /* [tokens + taps - 1, channels] */
    const float *weight;
    float *to;
    long tokens, channels, taps, stride, tokens_of_part;
    int is_bfloat;
};

static inline __attribute__((always_inline)) void one_token(const struct convolution *all,
                                                            long token, int is_bfloat) {
    float *to = all->to + token * all->channels;
    for (long tap = 0; tap < all->taps; tap++) {
        const float *weight = all->weight + tap * all->channels;
        const void *from =
            (const char *)all->rows + (token + tap) * all->stride * (is_bfloat ? 2 : 4);
        for (long channel = 0; channel < all->channels; channel++) {
            float product = read_number(from, channel, is_bfloat) * weight[channel];
            to[channel] = tap ? to[channel] + product : product;
        }
    }
    for (long channel = 0; channel < all->channels; channel++) to[channel] = silu(to[channel]);
}

static void some_tokens(const void *given, long part, void *result) {
    const struct convolution *all = given;
    long end = (part + 1) * all->tokens_of_part;
    (void)result;
    for (long token = part * all->tokens_of_part; token < (end < all->tokens ? end : all->tokens);
         token++) {
        if (all->is_bfloat)
            one_token(all, token, 1);
        else
            one_token(all, token, 0);
    }
}

/* `rows` [tokens + taps - 1, channels] that begin `stride` numbers apart, `weight` [taps,
 * channels], `to` [tokens, channels]. */
void waymark_convolve(const void *rows, const float *weight, float *to, long tokens, long channels,
                      long taps, long stride, int is_bfloat, int threads) {
    struct convolution all = {.rows = rows,
                              .weight = weight,
                              .to = to,
                              .tokens = tokens,
                              .channels = channels,
                              .taps = taps,
                              .stride = stride,
                              .is_bfloat = is_bfloat};
    all.tokens_of_part = team_share(tokens, 1 + FEWEST / channels, threads);
    team_rows(some_tokens, &all, team_parts(tokens, all.tokens_of_part), threads);
}

static inline __attribute__((always_inline)) void step_channels(const void *from, const void *tail,
                                                                const float *weight, float *to,
                                                                long channels, long taps,
                                                                int is_bfloat) {
    for (long channel = 0; channel < channels; channel++) {
        float total =
            read_number(from, channel, is_bfloat) * weight[(taps - 1) * channels + channel];
        for (long tap = 0; tap < taps - 1; tap++)
            total += read_number(tail, tap * channels + channel, is_bfloat) *
                     weight[tap * channels + channel];
        to[channel] = silu(total);
    }
}

/* One token: `tail` [taps - 1, channels] before it, moved on in place; `from` [channels]. */
void waymark_conv_step(const void *from, void *tail, const float *weight, float *to, long channels,
                       long taps, int is_bfloat) {
    long bytes = channels * (is_bfloat ? 2 : 4);
    /* Known at compile time: the loop over taps goes, and that over channels becomes vector code.
     */
    if (taps == 4 && is_bfloat)
        step_channels(from, tail, weight, to, channels, 4, 1);
    else if (is_bfloat)
        step_channels(from, tail, weight, to, channels, taps, 1);
    else
        step_channels(from, tail, weight, to, channels, taps, 0);
    if (taps < 2) return;
    memmove(tail, (char *)tail + bytes, (taps - 2) * bytes);
    memcpy((char *)tail + (taps - 2) * bytes, from, bytes);
}
