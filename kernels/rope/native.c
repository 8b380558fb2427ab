/* Rotary position embedding, half-split: pairs (i, i + r) of every head turn by their angles. */
#include "native/numbers.h"
#include "native/team.h"

#define FEWEST 32768 /* numbers of a part: fewer are done before a thread wakes */

struct rotation {
    const void *from, *cosine, *sine;
    void *to;
    long tokens, heads, width, half, token_stride, head_stride, tokens_of_part;
    int is_bfloat;
};

static inline __attribute__((always_inline)) void one_head(const struct rotation *all, long token,
                                                           long head, int is_bfloat) {
    long size = is_bfloat ? 2 : 4, half = all->half, angles = token * half;
    long start = token * all->token_stride + head * all->head_stride;
    const void *from = (const char *)all->from + start * size;
    void *to = (char *)all->to + (token * all->heads + head) * all->width * size;
    for (long pair = 0; pair < half; pair++) {
        float cosine = read_number(all->cosine, angles + pair, is_bfloat);
        float sine = read_number(all->sine, angles + pair, is_bfloat);
        float first = read_number(from, pair, is_bfloat);
        float second = read_number(from, half + pair, is_bfloat);
        write_number(to, pair, first * cosine - second * sine, is_bfloat);
        write_number(to, half + pair, second * cosine + first * sine, is_bfloat);
    }
    memcpy((char *)to + 2 * half * size, (const char *)from + 2 * half * size,
           (all->width - 2 * half) * size);
}

static void some_tokens(const void *given, long part, void *result) {
    const struct rotation *all = given;
    long end = (part + 1) * all->tokens_of_part;
    (void)result;
    for (long token = part * all->tokens_of_part; token < (end < all->tokens ? end : all->tokens);
         token++)
        for (long head = 0; head < all->heads; head++) {
            if (all->is_bfloat)
                one_head(all, token, head, 1);
            else
                one_head(all, token, head, 0);
        }
}

/* `from` [tokens, heads, width] with these strides, `cosine` and `sine` [tokens, half]; `to` is
 * contiguous. All are bfloat16 or all float32; products are added up in float32. */
void waymark_rotate(const void *from, const void *cosine, const void *sine, void *to, long tokens,
                    long heads, long width, long half, long token_stride, long head_stride,
                    int is_bfloat, int threads) {
    struct rotation all = {.from = from,
                           .cosine = cosine,
                           .sine = sine,
                           .to = to,
                           .tokens = tokens,
                           .heads = heads,
                           .width = width,
                           .half = half,
                           .token_stride = token_stride,
                           .head_stride = head_stride,
                           .is_bfloat = is_bfloat};
    all.tokens_of_part = team_share(tokens, 1 + FEWEST / (heads * width), threads);
    team_rows(some_tokens, &all, team_parts(tokens, all.tokens_of_part), threads);
}
