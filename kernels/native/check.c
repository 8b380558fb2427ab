/* Runs every kernel once in a child process before the library is loaded: an illegal instruction
 * would end the engine.
 *
 * It doesn't check results; the self-test does, before a model is read.
 */
#include <stdlib.h>

#include "native/calls.h"

#define SIZE 192 /* more than one register of anything, and a rest */
#define ROWS 40
#define MOST_ROWS 8  /* of a step; a matrix is packed for more */
#define FORMATS 256  /* ids of GGUF types: fewer */
#define OUTPUTS 4096 /* so many that threads share them out */

/* As much as the largest kernel needs; untouched pages take no memory. */
static void *room(void) {
    void *some = calloc(OUTPUTS * SIZE, sizeof(float));
    if (!some) exit(1);
    return some;
}

static int products(long rows, int bfloat) {
    struct linear all = {room(), room(),   room(),  room(), room(), rows, OUTPUTS,
                         SIZE,   SIZE - 1, OUTPUTS, bfloat, 2,      0};
    int few = rows <= MOST_ROWS, done = !few || waymark_linear_int4(&all);
    done = done && waymark_linear_int4_many(&all);
    all.inputs = all.given;
    done = done && (!few || waymark_linear_int8(&all)) && waymark_linear_int8_many(&all);
    if (!bfloat || !done) return done;
    done = (!few || waymark_linear_bfloat(&all)) && waymark_linear_bfloat_many(&all);
    all.widened = 1;
    return done && waymark_linear_bfloat_many(&all);
}

long waymark_column_bytes(int format, long inputs);

/* Tiles of every GGUF type that has a kernel, and products of a few and many rows with them. */
static int blocks(int bfloat) {
    struct tile tile = {room(), room(), room(), SIZE, 256, 0, 2};
    struct linear all = {room(), tile.to, NULL, NULL,   room(), 0, SIZE,
                         256,    256,     SIZE, bfloat, 2,      0};
    int done = 1;
    for (int format = 0; format < FORMATS; format++) {
        if (!waymark_column_bytes(format, 256)) continue;
        tile.format = all.format = format;
        done = done && waymark_tile_blocks(&tile);
        for (all.rows = 1; all.rows <= MOST_ROWS; all.rows++)
            done = done && waymark_linear_blocks(&all) && waymark_linear_blocks_many(&all);
        all.rows = ROWS;
        done = done && waymark_linear_blocks_many(&all);
    }
    return done;
}

static int quantising(int bfloat) {
    struct quantise all = {room(), room(), room(), OUTPUTS, SIZE - 1, bfloat, 2};
    return waymark_quantise_int8(&all) && waymark_quantise_int4(&all);
}

static int experts(int bfloat) {
    void *ids = room(), *weights[] = {room(), room()}, *scales[] = {room(), room()};
    void *biases[] = {room(), room()};
    ((int *)ids)[2] = 1;
    struct expert_rows all = {room(),  weights, scales,   biases,  ids,    room(), 3, 3,
                              OUTPUTS, SIZE,    SIZE - 1, OUTPUTS, bfloat, 2,      0};
    int done = waymark_experts_int4(&all);
    all.share = 1;
    done = done && waymark_experts_int4_many(&all);
    all.inputs = all.given;
    done = done && waymark_experts_int8(&all) && waymark_experts_int8_many(&all);
    all.format = 12, all.inputs = all.given = 256;
    done = done && waymark_experts_blocks(&all) && waymark_experts_blocks_many(&all);
    all.inputs = all.given = SIZE - 1;
    if (bfloat) done = done && waymark_experts_bfloat(&all) && waymark_experts_bfloat_many(&all);
    struct route route = {room(), room(), room(),         room(),         room(), ROWS,   SIZE,
                          8,      SIZE,   bfloat ? 4 : 1, bfloat ? 2 : 1, 1,      bfloat, bfloat,
                          bfloat, 2};
    struct weighted_sum sum = {room(), room(), room(),   room(), room(), room(),
                               ROWS,   8,      SIZE - 1, 1,      bfloat, 2};
    return done && waymark_route(&route) && waymark_weighted_sum(&sum);
}

static int rows(int bfloat) {
    struct rms_norm norm = {room(), room(), room(),   ROWS,  2,      SIZE / 2 - 1,
                            1,      SIZE,   SIZE / 2, 1e-6f, bfloat, 2};
    struct gated_rms_norm gated = {room(),       room(), room(), room(), ROWS,   2,
                                   SIZE / 2 - 1, SIZE,   1e-6f,  bfloat, bfloat, 2};
    struct rotate rotate = {room(), room(), room(),   room(), ROWS, 2, SIZE / 2,
                            17,     SIZE,   SIZE / 2, bfloat, 0,    2};
    struct gated_product product = {room(), room(), room(), ROWS,   SIZE - 1, SIZE,
                                    SIZE,   1,      7,      bfloat, 2};
    struct open_gate gate = {room(),       room(), room(),   ROWS,   2, SIZE / 2 - 1,
                             SIZE / 2 - 1, SIZE,   SIZE / 2, bfloat, 2};
    struct add sum = {room(), room(), room(), ROWS, SIZE - 1, SIZE, SIZE, 1, 1, bfloat, 2};
    struct group_norm groups = {room(), room(), room(), room(), ROWS,   2, SIZE / 2 - 1,
                                SIZE,   1e-6f,  1,      1,      bfloat, 2};
    if (!waymark_gated_group_norm(&groups) || !waymark_rotate(&rotate)) return 0;
    rotate.wide_angles = 1;
    return waymark_rms_norm(&norm) && waymark_gated_rms_norm(&gated) && waymark_rotate(&rotate) &&
           waymark_swiglu(&product) && waymark_geglu(&product) && waymark_reglu(&product) &&
           waymark_gelu(&product) && waymark_clamped_swiglu(&product) && waymark_open_gate(&gate) &&
           waymark_add(&sum);
}

static int delta_nets(int bfloat) {
    struct convolve run = {room(), room(), room(), room(), ROWS, SIZE - 1,
                           4,      SIZE,   bfloat, bfloat, 2};
    struct conv_step conv = {room(),   room(), room(), room(), room(), ROWS,
                             SIZE - 1, 4,      SIZE,   bfloat, bfloat};
    struct short_conv gated = {room(), room(),   room(), room(), room(), room(),
                               ROWS,   SIZE / 3, 3,      SIZE,   bfloat, 2};
    struct delta_run rule = {room(), room(), room(),   room(), room(), room(), room(), ROWS, 2,
                             4,      33,     SIZE - 1, 66,     66,     192,    0,      2};
    struct delta_run many = {room(), room(), room(), room(), room(), room(), room(), ROWS, 2,
                             4,      33,     48,     66,     66,     192,    bfloat, 2};
    struct delta_gates gates = {room(), room(), room(), room(), room(), room(), ROWS,
                                99,     17,     SIZE,   SIZE,   2,      bfloat, 2};
    struct time_steps steps = {room(), room(), room(), ROWS, 17, SIZE, 1, 0, 1, bfloat, 2};
    struct mamba2 space = {room(), room(), room(), room(), room(), room(), room(), room(), ROWS,
                           4,      2,      33,     48,     192,    96,     96,     2};
    if (!waymark_time_steps(&steps) || !waymark_mamba2_run(&space)) return 0;
    space.tokens = 1;
    if (!waymark_mamba2_step(&space) || !waymark_short_conv(&gated)) return 0;
    struct mamba1 scan = {room(), room(), room(), room(), room(), room(), room(), room(),
                          ROWS,   80,     19,     SIZE,   SIZE,   SIZE,   bfloat, 2};
    if (!waymark_mamba1_run(&scan)) return 0;
    scan.tokens = 1;
    if (!waymark_mamba1_step(&scan)) return 0;
    return waymark_convolve(&run) && waymark_conv_step(&conv) && waymark_delta_step(&rule) &&
           waymark_delta_run(&many) && waymark_delta_gates(&gates);
}

static int attention(int bfloat) {
    long token = 3;
    struct store row = {room(), room(), &token, 2, SIZE / 2, SIZE};
    struct attend all = {.queries = room(),
                         .keys = room(),
                         .values = room(),
                         .to = room(),
                         .tokens = 2,
                         .num_keys = SIZE,
                         .window = SIZE - 1,
                         .kv_heads = 1,
                         .group = 4,
                         .dim = SIZE - 1,
                         .query_stride = 4 * (SIZE - 1),
                         .key_stride = SIZE - 1,
                         .value_stride = SIZE - 1,
                         .scale = 1,
                         .is_bfloat = bfloat,
                         .threads = 2};
    struct attend_many many = {.queries = room(),
                               .keys = room(),
                               .values = room(),
                               .to = room(),
                               .num_queries = ROWS,
                               .num_keys = ROWS,
                               .kv_heads = 1,
                               .group = 2,
                               .dim = SIZE / 2 - 1,
                               .query_stride = SIZE,
                               .key_stride = SIZE,
                               .value_stride = SIZE,
                               .scale = 1,
                               .causal = 1,
                               .threads = 2};
    struct copy copies = {room(), room(), OUTPUTS * SIZE, bfloat, 2};
    return waymark_copy(&copies) && waymark_store(&row) && waymark_attend(&all) &&
           waymark_attend_many(&many);
}

int main(void) {
#ifdef _WIN32
    /* It may crash by design: no dialog needs to report it. */
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
#endif
    for (int bfloat = 0; bfloat < 2; bfloat++) {
        for (long rows = 1; rows <= MOST_ROWS; rows++)
            if (!products(rows, bfloat)) return 1;
        if (!products(ROWS, bfloat) || !blocks(bfloat) || !quantising(bfloat) || !experts(bfloat) ||
            !rows(bfloat) || !delta_nets(bfloat) || !attention(bfloat))
            return 1;
    }
    return 0;
}
