/* Depthwise causal convolution with silu, a thread some tokens. */
#include "native/calls.h"
#include "native/numbers.h"
#include "native/thread_pool.h"

#define AT_ONCE 256 /* channels, whose sums stay in the nearest cache */

/* Adds the bias to `count` channels from `channel` on, applies silu and stores them. */
INLINE void finish(float *sums, const float *bias, void *to, long channel, long count, int halved) {
    if (bias)
        for (long each = 0; each < count; each++) sums[each] += bias[channel + each];
    for (long each = 0; each < count; each++) sums[each] = silu(sums[each]);
    if (halved)
        for (long each = 0; each < count; each++)
            ((uint16_t *)to)[channel + each] = to_bfloat(sums[each]);
    else
        memcpy((float *)to + channel, sums, count * sizeof *sums);
}

INLINE void convolve(const struct convolve *all, long token, int is_bfloat) {
    long channels = all->channels;
    char *to = (char *)all->to + token * channels * (all->to_bfloat ? 2 : 4);
    float sums[AT_ONCE];
    for (long start = 0; start < channels; start += AT_ONCE) {
        long count = smaller(AT_ONCE, channels - start);
        for (long tap = 0; tap < all->taps; tap++) {
            const float *weight = (const float *)all->weight + tap * channels + start;
            long from = (token + tap) * all->stride + start;
            for (long each = 0; each < count; each++) {
                float product = read_number(all->rows, from + each, is_bfloat) * weight[each];
                sums[each] = tap ? sums[each] + product : product;
            }
        }
        finish(sums, all->bias, to, start, count, all->to_bfloat);
    }
}

KERNEL_OF_ROWS(convolve, convolve, convolve, all->tokens, all->channels)

/* ------------------------------------------------------------------ a few tokens */

/* From `from` to `to`. */
INLINE void step(const struct conv_step *all, const void *from, void *to, long taps,
                 int is_bfloat) {
    const float *weight = all->weight;
    long channels = all->channels;
    float sums[AT_ONCE];
    for (long start = 0; start < channels; start += AT_ONCE) {
        long count = smaller(AT_ONCE, channels - start);
        for (long each = 0; each < count; each++) {
            long channel = start + each;
            float total =
                read_number(from, channel, is_bfloat) * weight[(taps - 1) * channels + channel];
            for (long tap = 0; tap < taps - 1; tap++)
                total += read_number(all->tail, tap * channels + channel, is_bfloat) *
                         weight[tap * channels + channel];
            sums[each] = total;
        }
        finish(sums, all->bias, to, start, count, all->to_bfloat);
    }
}

static void one_step(const struct conv_step *all, long token) {
    long size = all->is_bfloat ? 2 : 4, bytes = all->channels * size, taps = all->taps;
    const char *from = (const char *)all->from + token * all->stride * size;
    char *tail = all->tail, *to = all->to;
    to += token * all->channels * (all->to_bfloat ? 2 : 4);
    /* Constant at compile time: the loop over taps is unrolled, and the one over channels is
     * vectorised. */
    if (taps == 4 && all->is_bfloat)
        step(all, from, to, 4, 1);
    else if (all->is_bfloat)
        step(all, from, to, taps, 1);
    else
        step(all, from, to, taps, 0);
    if (taps < 2) return;
    memmove(tail, tail + bytes, (taps - 2) * bytes);
    memcpy(tail + (taps - 2) * bytes, from, bytes);
}

int waymark_conv_step(struct conv_step *all) {
    for (long token = 0; token < all->tokens; token++) one_step(all, token);
    return 1;
}
