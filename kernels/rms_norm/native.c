/* RMS norm of rows, a thread some rows: x / sqrt(mean(x^2) + epsilon) * scale, in float32. */
#include "native/calls.h"
#include "native/numbers.h"
#include "native/thread_pool.h"

INLINE float squared_length(const void *from, long width, int is_bfloat) {
    floats total = {0};
    long place = 0;
    for (; place + LANES <= width; place += LANES) {
        floats part = read_lanes(from, place, is_bfloat);
        total += part * part;
    }
    float found = sum_of(total);
    for (; place < width; place++) {
        float number = read_number(from, place, is_bfloat);
        found += number * number;
    }
    return found;
}

/* `row` of heads; numbers of its token begin at `start`. */
INLINE void norm(const struct rms_norm *all, long row, int is_bfloat) {
    long token = row / all->heads, head = row % all->heads, width = all->width;
    long start = token * all->token_stride + head * all->head_stride;
    const void *from = (const char *)all->from + start * (is_bfloat ? 2 : 4);
    const float *scale = all->scale;
    float mean = squared_length(from, width, is_bfloat) / (float)width;
    float factor = 1.0f / sqrtf(mean + all->epsilon);
    long to = row * (width + all->passed), end = width + all->passed;
    for (long place = 0; place < width; place++)
        write_number(all->to, to + place,
                     read_number(from, place, is_bfloat) * factor * scale[place], is_bfloat);
    for (long place = width; place < end; place++)
        write_number(all->to, to + place, read_number(from, place, is_bfloat), is_bfloat);
}

KERNEL_OF_ROWS(rms_norm, rms_norm, norm, all->tokens * all->heads, all->width)

/* ------------------------------------------------------------------ with a gate */

INLINE void gated_norm(const struct gated_rms_norm *all, long row, int is_bfloat) {
    long token = row / all->heads, head = row % all->heads, width = all->width;
    long gate = token * all->gate_stride + head * width;
    const float *from = (const float *)all->from + row * width, *scale = all->scale;
    float mean = squared_length(from, width, 0) / (float)width;
    float factor = 1.0f / sqrtf(mean + all->epsilon);
    for (long place = 0; place < width; place++) {
        float number = read_number(all->gate, gate + place, is_bfloat);
        float opened = all->sigmoid ? sigmoid(number) : silu(number);
        write_number(all->to, row * width + place, from[place] * factor * scale[place] * opened,
                     is_bfloat);
    }
}

KERNEL_OF_ROWS(gated_rms_norm, gated_rms_norm, gated_norm, all->tokens * all->heads, all->width)

/* ------------------------------------------------------------------ of groups, with a gate */

#define AT_ONCE 64

/* Some numbers of a group times their gates. */
INLINE void open_some(const struct group_norm *all, long from, long gate, long count, float *to,
                      int is_bfloat) {
    const float *given = (const float *)all->from + from;
    for (long place = 0; place < count; place++)
        to[place] =
            given[place] * silu(all->multiplier * read_number(all->gate, gate + place, is_bfloat));
}

INLINE void group_norm(const struct group_norm *all, long row, int is_bfloat) {
    long token = row / all->groups, group = row % all->groups, width = all->width;
    long from = row * width, gate = token * all->gate_stride + group * width;
    const float *scale = all->scale;
    float opened[AT_ONCE], squared = 0, factor = 1;
    if (scale) {
        for (long place = 0; place < width && all->gate_first; place += AT_ONCE) {
            long count = smaller(AT_ONCE, width - place);
            open_some(all, from + place, gate + place, count, opened, is_bfloat);
            squared += squared_length(opened, count, 0);
        }
        if (!all->gate_first) squared = squared_length((const float *)all->from + from, width, 0);
        factor = 1.0f / sqrtf(squared / (float)width + all->epsilon);
    }
    for (long place = 0; place < width; place += AT_ONCE) {
        long count = smaller(AT_ONCE, width - place);
        open_some(all, from + place, gate + place, count, opened, is_bfloat);
        for (long each = 0; each < count && scale; each++)
            opened[each] *= factor * scale[group * width + place + each];
        for (long each = 0; each < count; each++)
            write_number(all->to, from + place + each, opened[each], is_bfloat);
    }
}

KERNEL_OF_ROWS(gated_group_norm, group_norm, group_norm, all->tokens * all->groups, all->width)
