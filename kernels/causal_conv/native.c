/* Depthwise causal convolution with silu, a thread some tokens. */
#include "native/calls.h"
#include "native/numbers.h"
#include "native/thread_pool.h"

INLINE void convolve(const struct convolve *all, long token, int is_bfloat) {
    float *to = (float *)all->to + token * all->channels;
    const float *bias = all->bias;
    for (long tap = 0; tap < all->taps; tap++) {
        const float *weight = (const float *)all->weight + tap * all->channels;
        const void *from =
            (const char *)all->rows + (token + tap) * all->stride * (is_bfloat ? 2 : 4);
        for (long channel = 0; channel < all->channels; channel++) {
            float product = read_number(from, channel, is_bfloat) * weight[channel];
            to[channel] = tap ? to[channel] + product : product;
        }
    }
    if (bias)
        for (long channel = 0; channel < all->channels; channel++) to[channel] += bias[channel];
    for (long channel = 0; channel < all->channels; channel++) to[channel] = silu(to[channel]);
}

static void one_token(const void *given, long token) {
    const struct convolve *all = given;
    if (all->is_bfloat)
        convolve(all, token, 1);
    else
        convolve(all, token, 0);
}

int waymark_convolve(struct convolve *all) {
    pool_each(one_token, all, all->tokens, all->channels, all->threads);
    return 1;
}

/* ------------------------------------------------------------------ one token */

INLINE void step(const struct conv_step *all, long taps, int is_bfloat) {
    const float *weight = all->weight, *bias = all->bias;
    float *to = all->to;
    long channels = all->channels;
    for (long channel = 0; channel < channels; channel++) {
        float total =
            read_number(all->from, channel, is_bfloat) * weight[(taps - 1) * channels + channel];
        for (long tap = 0; tap < taps - 1; tap++)
            total += read_number(all->tail, tap * channels + channel, is_bfloat) *
                     weight[tap * channels + channel];
        to[channel] = total;
    }
    if (bias)
        for (long channel = 0; channel < channels; channel++) to[channel] += bias[channel];
    for (long channel = 0; channel < channels; channel++) to[channel] = silu(to[channel]);
}

int waymark_conv_step(struct conv_step *all) {
    long bytes = all->channels * (all->is_bfloat ? 2 : 4), taps = all->taps;
    char *tail = all->tail;
    /* Known at compile time: the loop over taps goes, and that over channels becomes vector code.
     */
    if (taps == 4 && all->is_bfloat)
        step(all, 4, 1);
    else if (all->is_bfloat)
        step(all, taps, 1);
    else
        step(all, taps, 0);
    if (taps < 2) return 1;
    memmove(tail, tail + bytes, (taps - 2) * bytes);
    memcpy(tail + (taps - 2) * bytes, all->from, bytes);
    return 1;
}
