/* RMS norm of rows, a thread some rows: x / sqrt(mean(x^2) + epsilon) * scale, in float32. */
#include "native/numbers.h"
#include "native/team.h"

#define FEWEST 32768 /* numbers of a part: fewer are done before a thread wakes */

struct norm {
    const void *from, *gate; /* gate may be missing */
    const float *scale;
    void *to;
    long tokens, heads, width;
    long token_stride, head_stride, gate_stride; /* in numbers */
    long rows_of_part;
    float epsilon;
    int is_bfloat, to_bfloat;
};

static inline __attribute__((always_inline)) float squared_length(const void *from, long width,
                                                                  int is_bfloat) {
    floats total = {0};
    long place = 0;
    for (; place + LANES <= width; place += LANES) {
        floats part = is_bfloat ? load_bfloats((const uint16_t *)from + place)
                                : load_floats((const float *)from + place);
        total += part * part;
    }
    float found = sum_of(total);
    for (; place < width; place++) {
        float number = read_number(from, place, is_bfloat);
        found += number * number;
    }
    return found;
}

static inline __attribute__((always_inline)) void
norm_row(const struct norm *all, long token, long head, int is_bfloat, int to_bfloat, int gated) {
    long start = token * all->token_stride + head * all->head_stride, width = all->width;
    const void *from = (const char *)all->from + start * (is_bfloat ? 2 : 4);
    void *to = (char *)all->to + (token * all->heads + head) * width * (to_bfloat ? 2 : 4);
    float mean = squared_length(from, width, is_bfloat) / (float)width;
    float factor = 1.0f / sqrtf(mean + all->epsilon);
    long gate = token * all->gate_stride + head * width;
    for (long place = 0; place < width; place++) {
        float number = read_number(from, place, is_bfloat) * factor * all->scale[place];
        if (gated) number *= silu(read_number(all->gate, gate + place, to_bfloat));
        write_number(to, place, number, to_bfloat);
    }
}

static void norm_part(const void *given, long part, void *result) {
    const struct norm *all = given;
    long rows = all->tokens * all->heads, end = (part + 1) * all->rows_of_part;
    (void)result;
    for (long row = part * all->rows_of_part; row < (end < rows ? end : rows); row++) {
        long token = row / all->heads, head = row % all->heads;
        if (all->gate && all->to_bfloat)
            norm_row(all, token, head, 0, 1, 1);
        else if (all->gate)
            norm_row(all, token, head, 0, 0, 1);
        else if (all->is_bfloat)
            norm_row(all, token, head, 1, 1, 0);
        else
            norm_row(all, token, head, 0, 0, 0);
    }
}

static void run(struct norm *all, int threads) {
    long rows = all->tokens * all->heads;
    all->rows_of_part = team_share(rows, 1 + FEWEST / all->width, threads);
    team_rows(norm_part, all, team_parts(rows, all->rows_of_part), threads);
}

/* `from` [tokens, heads, width] with these strides, `scale` [width]; `to` is contiguous and of the
 * type of `from`, bfloat16 or float32. */
void waymark_rms_norm(const void *from, const float *scale, void *to, long tokens, long heads,
                      long width, long token_stride, long head_stride, float epsilon, int is_bfloat,
                      int threads) {
    struct norm all = {.from = from,
                       .scale = scale,
                       .to = to,
                       .tokens = tokens,
                       .heads = heads,
                       .width = width,
                       .token_stride = token_stride,
                       .head_stride = head_stride,
                       .epsilon = epsilon,
                       .is_bfloat = is_bfloat,
                       .to_bfloat = is_bfloat};
    run(&all, threads);
}

/* `from` [tokens, heads, width] float32, contiguous; times silu of `gate`, rows of heads * width
 * numbers `gate_stride` apart, of the type of `to`. */
void waymark_gated_rms_norm(const float *from, const float *scale, const void *gate, void *to,
                            long tokens, long heads, long width, long gate_stride, float epsilon,
                            int to_bfloat, int threads) {
    struct norm all = {.from = from,
                       .gate = gate,
                       .scale = scale,
                       .to = to,
                       .tokens = tokens,
                       .heads = heads,
                       .width = width,
                       .token_stride = heads * width,
                       .head_stride = width,
                       .gate_stride = gate_stride,
                       .epsilon = epsilon,
                       .to_bfloat = to_bfloat};
    run(&all, threads);
}
