/* The gated short convolution, a thread some tokens. */
#include "native/calls.h"
#include "native/numbers.h"
#include "native/thread_pool.h"

/* B x of a token, to its place behind the tail. */
INLINE void multiply(const struct short_conv *all, long token, int is_bfloat) {
    long from = token * all->stride, to = (token + all->taps - 1) * all->channels;
    for (long channel = 0; channel < all->channels; channel++) {
        float before = read_number(all->projected, from + channel, is_bfloat);
        float input = read_number(all->projected, from + 2 * all->channels + channel, is_bfloat);
        write_number(all->rows, to + channel, before * input, is_bfloat);
    }
}

INLINE void convolve(const struct short_conv *all, long token, long taps, int is_bfloat) {
    const float *weight = all->weight, *bias = all->bias;
    long channels = all->channels, first = token * channels;
    for (long channel = 0; channel < channels; channel++) {
        float total = read_number(all->rows, first + channel, is_bfloat) * weight[channel];
        for (long tap = 1; tap < taps; tap++)
            total += read_number(all->rows, first + tap * channels + channel, is_bfloat) *
                     weight[tap * channels + channel];
        if (bias) total += bias[channel];
        float after =
            read_number(all->projected, token * all->stride + channels + channel, is_bfloat);
        write_number(all->to, first + channel, after * total, is_bfloat);
    }
}

ROW_OF_EITHER_TYPE(one_product, short_conv, multiply)

static void one_token(const void *given, long token) {
    const struct short_conv *all = given;
    /* Constant at compile time (LFM2, LFM3): the loop over taps is unrolled, and the one over
     * channels is vectorised. */
    if (all->taps == 3 && all->is_bfloat)
        convolve(all, token, 3, 1);
    else if (all->taps == 3)
        convolve(all, token, 3, 0);
    else if (all->taps == 7 && all->is_bfloat)
        convolve(all, token, 7, 1);
    else
        convolve(all, token, all->taps, all->is_bfloat);
}

int waymark_short_conv(struct short_conv *all) {
    long row = all->channels * (all->is_bfloat ? 2 : 4), bytes = (all->taps - 1) * row;
    memcpy(all->rows, all->tail, bytes);
    pool_each(one_product, all, all->tokens, all->channels, all->threads);
    pool_each(one_token, all, all->tokens, all->channels * all->taps, all->threads);
    memcpy(all->tail, (char *)all->rows + all->tokens * row, bytes);
    return 1;
}
