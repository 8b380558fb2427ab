/* Rotary position embedding, half-split: pairs (i, i + r) of every head rotate by their angles.
 * Products are added up in float32. */
#include "native/calls.h"
#include "native/numbers.h"
#include "native/thread_pool.h"

INLINE void rotate(const struct rotate *all, long token, long head, int is_bfloat,
                   int wide_angles) {
    long size = is_bfloat ? 2 : 4, half = all->half, angles = token * half;
    long start = token * all->token_stride + head * all->head_stride;
    const void *from = (const char *)all->from + start * size;
    void *to = (char *)all->to + (token * all->heads + head) * all->width * size;
    for (long pair = 0; pair < half; pair++) {
        float cosine = read_number(all->cosine, angles + pair, is_bfloat && !wide_angles);
        float sine = read_number(all->sine, angles + pair, is_bfloat && !wide_angles);
        float first = read_number(from, pair, is_bfloat);
        float second = read_number(from, half + pair, is_bfloat);
        write_number(to, pair, first * cosine - second * sine, is_bfloat);
        write_number(to, half + pair, second * cosine + first * sine, is_bfloat);
    }
    memcpy((char *)to + 2 * half * size, (const char *)from + 2 * half * size,
           (all->width - 2 * half) * size);
}

static void one_token(const void *given, long token) {
    const struct rotate *all = given;
    for (long head = 0; head < all->heads; head++) {
        if (all->is_bfloat && all->wide_angles)
            rotate(all, token, head, 1, 1);
        else if (all->is_bfloat)
            rotate(all, token, head, 1, 0);
        else
            rotate(all, token, head, 0, 0);
    }
}

int waymark_rotate(struct rotate *all) {
    pool_each(one_token, all, all->tokens, all->heads * all->width, all->threads);
    return 1;
}
