/* One row through a matrix: y = x W^T + b, the weight read once from memory and nothing else.
 *
 * A part is some outputs, and each output is added up by one thread in one order, so the bits are
 * the same for every number of threads. Rows lie one after the other as they are kept.
 */
#include "native/integers.h"
#include "native/numbers.h"
#include "native/team.h"

#define MOST_INPUTS 65536
/* Eight parts a thread, so that the last ones end together, of so many bytes of weights at most: a
 * new place in memory starts slowly. */
#define PARTS_OF_THREAD 8
#define FEWEST_BYTES 65536
#define MOST_BYTES 524288
#define MOST_OUTPUTS (TEAM_RESULT / (long)sizeof(float))
/* Bytes ahead of where a row is read. Rows follow one another in memory, so nothing is in vain. */
#define AHEAD 2048
#define GROUP 32
#define SMALLEST 1e-30f

/* The row that is multiplied. It stays in place for threads that come too late to be heard. */
static float row[MOST_INPUTS] __attribute__((aligned(64)));
static uint16_t bfloats[MOST_INPUTS] __attribute__((aligned(64)));
static int8_t integers[MOST_INPUTS] __attribute__((aligned(64)));
static int32_t offsets[MOST_INPUTS / GROUP * 4] __attribute__((aligned(64)));
static float group_sums[MOST_INPUTS / GROUP * 4] __attribute__((aligned(64)));

struct product {
    const void *weight, *scales, *bias; /* bias may be missing */
    void *to;
    long outputs, inputs, outputs_of_part;
    float scale;     /* of the row's integers */
    int32_t offset;  /* what every sum of products has too much */
    int is_bfloat;   /* bias and results, else float32 */
};

static void put_results(const void *given, long part, const void *result) {
    const struct product *all = given;
    long first = part * all->outputs_of_part, end = first + all->outputs_of_part;
    if (end > all->outputs) end = all->outputs;
    for (long output = first; output < end; output++) {
        float found = ((const float *)result)[output - first];
        if (all->bias) found += read_number(all->bias, output, all->is_bfloat);
        write_number(all->to, output, found, all->is_bfloat);
    }
}

static void run(team_compute compute, struct product *all, long row_bytes, int threads) {
    long bytes = row_bytes * all->outputs / (PARTS_OF_THREAD * threads);
    bytes = bytes < FEWEST_BYTES ? FEWEST_BYTES : bytes > MOST_BYTES ? MOST_BYTES : bytes;
    long outputs = bytes / row_bytes, fewest = (all->outputs + TEAM_PARTS - 1) / TEAM_PARTS;
    if (outputs < fewest) outputs = fewest;
    outputs = (outputs + 3) / 4 * 4;
    if (outputs > MOST_OUTPUTS) outputs = MOST_OUTPUTS;
    all->outputs_of_part = outputs;
    team_run(compute, put_results, all, sizeof *all, team_parts(all->outputs, outputs), threads);
}

/* ------------------------------------------------------------------ bfloat16 */

/* Products of 32 numbers with those of the row from `place` on, added up. */
static inline floats add_bfloat_products(floats total, const uint16_t *from, long place) {
#ifdef __AVX512BF16__
    __m512i weights = _mm512_loadu_si512(from), given = _mm512_loadu_si512(bfloats + place);
    return (floats)_mm512_dpbf16_ps((__m512)total, (__m512bh)weights, (__m512bh)given);
#else
    total += load_bfloats(from) * load_floats(row + place);
    return total + load_bfloats(from + LANES) * load_floats(row + place + LANES);
#endif
}

static inline __attribute__((always_inline)) void bfloat_rows(const uint16_t *weight, long inputs,
                                                              int rows, float *to) {
    for (int each = 0; each < rows; each++, weight += inputs) {
        floats even = {0}, odd = {0};
        long place = 0;
        for (; place + 4 * LANES <= inputs; place += 4 * LANES) {
            const uint16_t *from = weight + place;
            __builtin_prefetch((const char *)from + AHEAD);
            __builtin_prefetch((const char *)from + AHEAD + 64);
            even = add_bfloat_products(even, from, place);
            odd = add_bfloat_products(odd, from + 2 * LANES, place + 2 * LANES);
        }
        float total = sum_of(even + odd);
        for (; place < inputs; place++) total += from_bfloat(weight[place]) * row[place];
        to[each] = total;
    }
}

static void multiply_bfloats(const void *given, long part, void *result) {
    const struct product *all = given;
    long first = part * all->outputs_of_part, end = first + all->outputs_of_part, output = first;
    if (end > all->outputs) end = all->outputs;
    const uint16_t *weight = all->weight;
    float *to = result;
    for (; output + 4 <= end; output += 4)
        bfloat_rows(weight + output * all->inputs, all->inputs, 4, to + output - first);
    for (; output < end; output++)
        bfloat_rows(weight + output * all->inputs, all->inputs, 1, to + output - first);
}

/* `from` [inputs], `weight` [outputs, inputs], `bias` [outputs] or NULL, `to` [outputs], bfloat16.
 */
void waymark_linear_bfloat(const uint16_t *from, const uint16_t *weight, const uint16_t *bias,
                           uint16_t *to, long outputs, long inputs, int threads) {
    memcpy(bfloats, from, inputs * sizeof *from);
    for (long place = 0; place < inputs; place++) row[place] = from_bfloat(from[place]);
    struct product all = {.weight = weight, .bias = bias, .to = to, .outputs = outputs,
                          .inputs = inputs, .is_bfloat = 1};
    run(multiply_bfloats, &all, 2 * inputs, threads);
}

/* ------------------------------------------------------------------ integers of 8 bits */

/* Into `integers`, and the scale of the row: as `int8.quantise_inputs`. */
static float quantise_row(const void *from, long inputs, int is_bfloat) {
    uint32_t largest = 0; /* sizes as bits: in the order of numbers, infinity and NaN at the end */
    if (is_bfloat)
        for (long place = 0; place < inputs; place++) row[place] = read_number(from, place, 1);
    else
        memcpy(row, from, inputs * sizeof *row);
    for (long place = 0; place < inputs; place++) {
        uint32_t bits;
        memcpy(&bits, row + place, sizeof bits);
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    float scale;
    memcpy(&scale, &largest, sizeof scale);
    scale /= 127.0f;
    scale = scale < SMALLEST ? SMALLEST : scale;
    for (long place = 0; place < inputs; place++)
        integers[place] = (int8_t)(int32_t)__builtin_rintf(row[place] / scale);
    return scale;
}

static inline __attribute__((always_inline)) void integer_rows(const int8_t *weight, long inputs,
                                                               int rows, int32_t offset,
                                                               int32_t *to) {
    const bytes flip = (bytes){0} + (int8_t)-128; /* q + 128, in 0 .. 255 */
    for (int each = 0; each < rows; each++, weight += inputs) {
        sums even = {0}, odd = {0};
        long place = 0;
        for (; place + 2 * BYTES <= inputs; place += 2 * BYTES) {
            __builtin_prefetch(weight + place + AHEAD);
            if (BYTES == 64) __builtin_prefetch(weight + place + AHEAD + 64);
            even = add_products(even, load_bytes(weight + place) ^ flip, load_bytes(integers + place));
            odd = add_products(odd, load_bytes(weight + place + BYTES) ^ flip, load_bytes(integers + place + BYTES));
        }
        int32_t total = sum_of_ints(even + odd) - offset;
        for (; place < inputs; place++) total += (int32_t)weight[place] * integers[place];
        to[each] = total;
    }
}

static void multiply_integers(const void *given, long part, void *result) {
    const struct product *all = given;
    long first = part * all->outputs_of_part, end = first + all->outputs_of_part;
    if (end > all->outputs) end = all->outputs;
    const int8_t *weight = all->weight;
    const float *scales = all->scales;
    float *to = result;
    int32_t found[4];
    for (long output = first; output < end;) {
        int rows = output + 4 <= end ? 4 : 1;
        const int8_t *from = weight + output * all->inputs;
        if (rows == 4)
            integer_rows(from, all->inputs, 4, all->offset, found);
        else
            integer_rows(from, all->inputs, 1, all->offset, found);
        for (int each = 0; each < rows; each++, output++)
            to[output - first] = (float)found[each] * scales[output] * all->scale;
    }
}

/* As waymark_linear_bfloat for int8 `weight` with float32 `scales` [outputs]; `from`, `bias` and
 * `to` are bfloat16 or float32. */
void waymark_linear_int8(const void *from, const int8_t *weight, const float *scales,
                         const void *bias, void *to, long outputs, long inputs, int is_bfloat,
                         int threads) {
    float scale = quantise_row(from, inputs, is_bfloat);
    int32_t total = 0;
    for (long place = 0; place < inputs / (2 * BYTES) * (2 * BYTES); place++) total += integers[place];
    struct product all = {.weight = weight, .scales = scales, .bias = bias, .to = to,
                          .outputs = outputs, .inputs = inputs, .scale = scale,
                          .offset = 128 * total, .is_bfloat = is_bfloat};
    run(multiply_integers, &all, inputs, threads);
}

/* ------------------------------------------------------------------ integers of 4 bits */

/* One scale and middle for each sum, from one pair of bfloat16 for each group of four sums. */
static inline sum_words spread(const uint32_t *pairs) {
#if BYTES == 64
    const __m512i places = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    __m128i four = _mm_loadu_si128((const __m128i *)pairs);
    return (sum_words)_mm512_permutexvar_epi32(places, _mm512_castsi128_si512(four));
#elif BYTES == 32
    __m128i two = _mm_loadl_epi64((const __m128i *)pairs);
    const __m256i places = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    return (sum_words)_mm256_permutevar8x32_epi32(_mm256_castsi128_si256(two), places);
#else
    return (sum_words){0} + *pairs;
#endif
}

static inline float sum_of_sums(sum_floats given) {
    float lanes[SUMS];
#if BYTES == 64
    return _mm512_reduce_add_ps((__m512)given);
#endif
    memcpy(lanes, &given, sizeof given);
    for (int width = SUMS / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; lane++) lanes[lane] += lanes[lane + width];
    return lanes[0];
}

/* What a group adds, number by number. */
static float one_group(const uint8_t *weight, const uint32_t *pairs, long group) {
    const int8_t *given = integers + group * GROUP;
    int32_t products = 0, inputs = 0;
    for (int place = 0; place < GROUP / 2; place++) {
        int32_t both = weight[group * (GROUP / 2) + place];
        int32_t even = given[place], odd = given[GROUP / 2 + place];
        products += ((both & 15) - 8) * even + ((both >> 4) - 8) * odd;
        inputs += even + odd;
    }
    uint32_t pair = pairs[group];
    return (float)products * from_bfloat(pair & 0xffff) + (float)inputs * from_bfloat(pair >> 16);
}

/* The middles take the sums of inputs; products of (q - 8) are those of q less 8 of such sums. */
static inline __attribute__((always_inline)) void nibble_rows(const uint8_t *weight,
                                                              const uint32_t *pairs, long groups,
                                                              int rows, float *to) {
    const long at_once = BYTES / (GROUP / 2);
    const bytes low_half = (bytes){0} + 15;
    for (int each = 0; each < rows; each++, weight += groups * (GROUP / 2), pairs += groups) {
        sum_floats products = {0}, middles = {0};
        long group = 0;
        for (; group + at_once <= groups; group += at_once) {
            const uint8_t *from = weight + group * (GROUP / 2);
            const int8_t *given = integers + group * GROUP;
            __builtin_prefetch(from + AHEAD);
            sums total;
            sum_floats of_group;
            memcpy(&total, offsets + group * 4, sizeof total);
            memcpy(&of_group, group_sums + group * 4, sizeof of_group);
            bytes both = load_bytes(from);
            total = add_products(total, both & low_half, load_bytes(given));
            total = add_products(total, (bytes)((sum_words)both >> 4) & low_half,
                                 load_bytes(given + BYTES));
            sum_words pair = spread(pairs + group);
            products += __builtin_convertvector(total, sum_floats) * (sum_floats)(pair << 16);
            middles += of_group * (sum_floats)(pair >> 16 << 16);
        }
        __builtin_prefetch((const char *)pairs + AHEAD);
        __builtin_prefetch((const char *)pairs + AHEAD + 64);
        float found = sum_of_sums(products + middles);
        for (; group < groups; group++) found += one_group(weight, pairs, group);
        to[each] = found;
    }
}

static void multiply_nibbles(const void *given, long part, void *result) {
    const struct product *all = given;
    long first = part * all->outputs_of_part, end = first + all->outputs_of_part;
    if (end > all->outputs) end = all->outputs;
    long groups = all->inputs / GROUP;
    float *to = result;
    for (long output = first; output < end;) {
        const uint8_t *weight = (const uint8_t *)all->weight + output * all->inputs / 2;
        const uint32_t *pairs = (const uint32_t *)all->scales + output * groups;
        int rows = output + 4 <= end ? 4 : 1;
        if (rows == 4)
            nibble_rows(weight, pairs, groups, 4, to + output - first);
        else
            nibble_rows(weight, pairs, groups, 1, to + output - first);
        output += rows;
    }
    for (long output = 0; output < end - first; output++) to[output] *= all->scale;
}

/* Even and odd inputs apart, as the two halves of bytes hold them; for as many groups as are
 * multiplied at once they lie together. Also the sums that `nibble_rows` adds. */
static void sort_groups(long groups) {
    const long at_once = BYTES / (GROUP / 2), half = GROUP / 2;
    int8_t sorted[2 * BYTES];
    for (long group = 0; group < groups; group++) {
        const int8_t *from = integers + group * GROUP;
        for (long each = 0; each < 4; each++) {
            int32_t total = 0;
            for (long place = 0; place < 8; place++) total += from[8 * each + place];
            offsets[group * 4 + each] = -8 * total;
            group_sums[group * 4 + each] = (float)total;
        }
    }
    for (long group = 0; group < groups;) {
        long count = group + at_once <= groups ? at_once : 1, width = count * half;
        int8_t *from = integers + group * GROUP;
        for (long place = 0; place < width; place++) {
            sorted[place] = from[2 * place];
            sorted[width + place] = from[2 * place + 1];
        }
        memcpy(from, sorted, 2 * width);
        group += count;
    }
}

/* As waymark_linear_int8 for `weight` [outputs, inputs / 2], two nibbles a byte, and `pairs`
 * [outputs, inputs / 32] of a scale and a middle in bfloat16; `given` inputs, filled up with zeros
 * to `inputs`, whole groups. */
void waymark_linear_int4(const void *from, const uint8_t *weight, const uint32_t *pairs,
                         const void *bias, void *to, long outputs, long inputs, long given,
                         int is_bfloat, int threads) {
    float scale = quantise_row(from, given, is_bfloat);
    memset(integers + given, 0, inputs - given);
    sort_groups(inputs / GROUP);
    struct product all = {.weight = weight, .scales = pairs, .bias = bias, .to = to,
                          .outputs = outputs, .inputs = inputs, .scale = scale,
                          .is_bfloat = is_bfloat};
    run(multiply_nibbles, &all, inputs / 2 + inputs / 8, threads);
}

/* ------------------------------------------------------------------ for many rows */

struct unpacking {
    const uint8_t *weight;
    const uint32_t *pairs;
    void *to;
    long outputs, inputs, outputs_of_part;
    int is_bfloat;
};

static inline __attribute__((always_inline)) void unpack_group(const uint8_t *from, uint32_t pair,
                                                               void *to, int is_bfloat) {
    float scale = from_bfloat(pair & 0xffff), middle = from_bfloat(pair >> 16);
    for (long place = 0; place < GROUP / 2; place++) {
        float even = (float)(from[place] & 15) - 8, odd = (float)(from[place] >> 4) - 8;
        write_number(to, 2 * place, even * scale + middle, is_bfloat);
        write_number(to, 2 * place + 1, odd * scale + middle, is_bfloat);
    }
}

static void unpack_some(const void *given, long part, void *result) {
    const struct unpacking *all = given;
    long groups = all->inputs / GROUP, first = part * all->outputs_of_part * groups;
    long end = first + all->outputs_of_part * groups, all_groups = all->outputs * groups;
    (void)result;
    for (long group = first; group < (end < all_groups ? end : all_groups); group++) {
        const uint8_t *from = all->weight + group * (GROUP / 2);
        if (all->is_bfloat)
            unpack_group(from, all->pairs[group], (uint16_t *)all->to + group * GROUP, 1);
        else
            unpack_group(from, all->pairs[group], (float *)all->to + group * GROUP, 0);
    }
}

/* What waymark_linear_int4 multiplies, as numbers: `to` [outputs, inputs], bfloat16 or float32. */
void waymark_unpack_int4(const uint8_t *weight, const uint32_t *pairs, void *to, long outputs,
                         long inputs, int is_bfloat, int threads) {
    struct unpacking all = {.weight = weight, .pairs = pairs, .to = to, .outputs = outputs,
                            .inputs = inputs, .is_bfloat = is_bfloat};
    all.outputs_of_part = team_share(outputs, 8, threads);
    team_run(unpack_some, NULL, &all, sizeof all, team_parts(outputs, all.outputs_of_part), threads);
}

struct scaling {
    const int32_t *sums;
    const float *scales, *row_scales;
    const void *bias;
    void *to;
    long rows, outputs, stride, rows_of_part;
    int is_bfloat;
};

static inline __attribute__((always_inline)) void scale_row(const struct scaling *all, long row,
                                                            int is_bfloat) {
    const int32_t *sums = all->sums + row * all->outputs;
    float factor = all->row_scales[row];
    for (long output = 0; output < all->outputs; output++) {
        float found = (float)sums[output] * all->scales[output] * factor;
        if (all->bias) found += read_number(all->bias, output, is_bfloat);
        write_number(all->to, row * all->stride + output, found, is_bfloat);
    }
}

static void scale_some(const void *given, long part, void *result) {
    const struct scaling *all = given;
    long first = part * all->rows_of_part, end = first + all->rows_of_part;
    (void)result;
    for (long row = first; row < (end < all->rows ? end : all->rows); row++) {
        if (all->is_bfloat)
            scale_row(all, row, 1);
        else
            scale_row(all, row, 0);
    }
}

/* Sums of products of integers [rows, outputs] times the scales of their outputs and rows, and the
 * bias, into rows that begin `stride` numbers apart. */
void waymark_scale_sums(const int32_t *sums, const float *scales, const float *row_scales,
                        const void *bias, void *to, long rows, long outputs, long stride,
                        int is_bfloat, int threads) {
    struct scaling all = {.sums = sums, .scales = scales, .row_scales = row_scales, .bias = bias,
                          .to = to, .rows = rows, .outputs = outputs, .stride = stride,
                          .is_bfloat = is_bfloat};
    all.rows_of_part = team_share(rows, 8, threads);
    team_run(scale_some, NULL, &all, sizeof all, team_parts(rows, all.rows_of_part), threads);
}
