/* Pointwise operations; a thread takes some rows. */
#include "native/calls.h"
#include "native/powers.h"
#include "native/thread_pool.h"

/* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, and 1 + tanh(u) = 2 sigmoid(2 u). */
INLINE float gelu(float x) {
    return x * sigmoid(1.5957691216f * (x + 0.044715f * x * x * x));
}

INLINE float relu(float x) {
    return x < 0.0f ? 0.0f : x;
}

INLINE void multiply(const struct gated_product *all, long row, float (*open)(float),
                     int is_bfloat) {
    long from = row * all->stride, other = row * all->up_stride, to = row * all->width;
    for (long place = 0; place < all->width; place++) {
        float gate = all->multiplier * read_number(all->gate, from + place, is_bfloat);
        float up = read_number(all->up, other + place, is_bfloat);
        write_number(all->to, to + place, open(gate) * up, is_bfloat);
    }
}

/* The function is known where it is called, so it becomes part of the loop. */
#define GATED_PRODUCT(name, open)                                                                  \
    INLINE void name##_row(const struct gated_product *all, long row, int is_bfloat) {             \
        multiply(all, row, open, is_bfloat);                                                       \
    }                                                                                              \
    KERNEL_OF_ROWS(name, gated_product, name##_row, all->rows, all->width)

GATED_PRODUCT(swiglu, silu)
GATED_PRODUCT(geglu, gelu)
GATED_PRODUCT(reglu, relu)

/* The same for a register. The sigmoid is computed from e^-|u|, which can't overflow. */
INLINE floats gelu_lanes(floats x) {
    const floats first = (floats){0} + 1.5957691216f * LOG2_E, one = (floats){0} + 1.0f;
    floats u = x * (first + first * 0.044715f * x * x);
    floats small = powers_of_two((floats)((word_lanes)u | INT32_MIN));
    word_lanes below = u < 0.0f;
    floats upper = (floats)((below & (word_lanes)small) | (~below & (word_lanes)one));
    return x * (upper / (one + small));
}

INLINE void gelu_row(const struct gated_product *all, long row, int is_bfloat) {
    long from = row * all->stride, to = row * all->width, place = 0;
    for (; place + 2 * LANES <= all->width; place += 2 * LANES) {
        floats even = gelu_lanes(read_lanes(all->gate, from + place, is_bfloat));
        floats odd = gelu_lanes(read_lanes(all->gate, from + place + LANES, is_bfloat));
        if (is_bfloat) {
            store_bfloats((uint16_t *)all->to + to + place, even, odd);
        } else {
            store_floats((float *)all->to + to + place, even);
            store_floats((float *)all->to + to + place + LANES, odd);
        }
    }
    for (; place < all->width; place++) {
        floats found = gelu_lanes((floats){0} + read_number(all->gate, from + place, is_bfloat));
        write_number(all->to, to + place, found[0], is_bfloat);
    }
}

KERNEL_OF_ROWS(gelu, gated_product, gelu_row, all->rows, all->width)

INLINE void clamped_row(const struct gated_product *all, long row, int is_bfloat) {
    long from = row * all->stride, other = row * all->up_stride, to = row * all->width;
    float limit = all->limit;
    for (long place = 0; place < all->width; place++) {
        float gate = read_number(all->gate, from + place, is_bfloat);
        float up = read_number(all->up, other + place, is_bfloat);
        gate = gate > limit ? limit : gate;
        up = up > limit ? limit : up < -limit ? -limit : up;
        float opened = gate * sigmoid(all->multiplier * gate);
        write_number(all->to, to + place, opened * (up + 1), is_bfloat);
    }
}

KERNEL_OF_ROWS(clamped_swiglu, gated_product, clamped_row, all->rows, all->width)

INLINE void open_head(const struct open_gate *all, long row, int is_bfloat) {
    long token = row / all->heads, head = row % all->heads, to = row * all->width;
    long from = token * all->token_stride + head * all->head_stride;
    float of_head = sigmoid(read_number(all->gate, from, is_bfloat));
    if (all->gates < all->width) {
        for (long place = to; place < to + all->width; place++) {
            float attended = read_number(all->attended, place, is_bfloat);
            write_number(all->to, place, attended * of_head, is_bfloat);
        }
        return;
    }
    for (long place = 0; place < all->width; place++) {
        float gate = sigmoid(read_number(all->gate, from + place, is_bfloat));
        float attended = read_number(all->attended, to + place, is_bfloat);
        write_number(all->to, to + place, attended * gate, is_bfloat);
    }
}

KERNEL_OF_ROWS(open_gate, open_gate, open_head, all->tokens * all->heads, all->width)

INLINE void add_row(const struct add *all, long row, int is_bfloat) {
    long from = row * all->first_stride, other = row * all->second_stride, to = row * all->width;
    for (long place = 0; place < all->width; place++) {
        float first = read_number(all->first, from + place, is_bfloat);
        float second = read_number(all->second, other + place, is_bfloat);
        float sum = first + all->multiplier * second;
        write_number(all->to, to + place, sum * all->scale, is_bfloat);
    }
}

KERNEL_OF_ROWS(add, add, add_row, all->rows, all->width)

int waymark_store(struct store *all) {
    char *to = (char *)all->to + *(const long *)all->token * all->bytes;
    const char *from = all->from;
    for (long row = 0; row < all->rows; row++)
        memcpy(to + row * all->bytes, from + row * all->stride, all->bytes);
    return 1;
}

/* ------------------------------------------------------------------ copies */

#define COPIED_AT_ONCE 65536 /* bytes of a part */

static void copy_part(const void *given, long part, void *result) {
    const struct copy *all = given;
    long start = part * COPIED_AT_ONCE, end = smaller(start + COPIED_AT_ONCE, all->bytes);
    const char *from = all->from;
    char *to = all->to;
    (void)result;
#ifdef __AVX2__
    if (all->streamed && ((uintptr_t)(from + start) | (uintptr_t)(to + start) | end) % 32 == 0) {
        for (; start < end; start += 32)
            _mm256_stream_si256((__m256i *)(to + start),
                                _mm256_load_si256((const __m256i *)(from + start)));
        _mm_sfence();
        return;
    }
#endif
    memcpy(to + start, from + start, end - start);
}

int waymark_copy(struct copy *all) {
    long parts = pool_parts(all->bytes, COPIED_AT_ONCE);
    pool_run(copy_part, NULL, all, sizeof *all, parts, all->threads);
    return 1;
}
