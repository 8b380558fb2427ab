/* Every kernel, and what it takes: one struct each, so that a call can be kept and made again.
 *
 * Python reads this file (library.py), so a member is a plain number or pointer. Unless said
 * otherwise tensors are contiguous and `is_bfloat` says that they are bfloat16, else float32;
 * strides are in numbers. A kernel returns 0 where there was no memory for it, else 1.
 */
#ifndef WAYMARK_CALLS_H
#define WAYMARK_CALLS_H

/* `from` [rows, given], eight rows at most but for many, filled up with zeros to `inputs`, through
 * `weight` [outputs, inputs]: `to` [rows, outputs], whose rows are `to_stride` apart. `bias`
 * [outputs] may be missing. */
struct linear {
    const void *from, *weight, *scales, *bias;
    void *to;
    long rows, outputs, inputs, given, to_stride;
    int is_bfloat, threads;
    int widened;          /* see linear_bfloat_many */
    int format;           /* of linear_blocks: the id of a GGUF type */
    const void *places;   /* of linear_blocks: input i is number `places`[i] of a row, int32 */
    long outputs_of_part; /* its own */
};
/* `weight` is bfloat16 and so is all else; no `scales`, and `given` is `inputs`. */
int waymark_linear_bfloat(struct linear *);
/* The same for many rows, on AMX where there is one. With `widened` on no bfloat16 instructions at
 * all: both sides become float32 first. */
int waymark_linear_bfloat_many(struct linear *);
/* `weight` int8, `scales` [outputs] float32; `given` is `inputs`. */
int waymark_linear_int8(struct linear *);
/* The same for many rows. */
int waymark_linear_int8_many(struct linear *);
/* `weight` [outputs, inputs / 2] of two int4 values a byte, `scales` [outputs, inputs / 32] pairs
 * of a scale and an offset in bfloat16. */
int waymark_linear_int4(struct linear *);
/* The same for many rows; on AMX and AVX-512 with VNNI the weights become 8-bit integers. */
int waymark_linear_int4_many(struct linear *);
/* `weight` are tiles of GGUF blocks (linear/blocks.h), as many rows as for the others. Sums are
 * times the `scales` [outputs] float32 if there are any. */
int waymark_linear_blocks(struct linear *);
int waymark_linear_blocks_many(struct linear *);

/* Blocks `from` [outputs, bytes of `inputs`] of a GGUF file as tiles in `to` (linear/blocks.h).
 * `grid` has the codes of rows that blocks choose: bytes [rows, 8 or 4], for types that have one.
 */
struct tile {
    const void *from, *grid;
    void *to;
    long outputs, inputs;
    int format, threads;
};
int waymark_tile_blocks(struct tile *);

/* `from` [outputs, inputs] as integers in `values` with their `scales`, as the products above read
 * them; what fills up a last group is zeros. */
struct quantise {
    const void *from;
    void *values, *scales;
    long outputs, inputs;
    int is_bfloat, threads;
};
int waymark_quantise_int8(struct quantise *);
int waymark_quantise_int4(struct quantise *);

/* Rows through the matrices of experts: row r of `to` [rows, outputs], `to_stride` apart, is row r
 * / share of `from` [rows / share, given] through that of expert `ids`[r], int32. `weights`,
 * `scales` and `biases` say for each expert where lies what struct linear calls `weight`, `scales`
 * and `bias`; all are of one size, and there may be no `biases`. */
struct expert_rows {
    const void *from, *weights, *scales, *biases, *ids;
    void *to;
    long rows, share, outputs, inputs, given, to_stride;
    int is_bfloat, threads;
    int widened;        /* as of linear_bfloat_many */
    int format;         /* as of linear_blocks */
    const void *places; /* as of linear_blocks */
};
/* A token's, each weight read once. */
int waymark_experts_bfloat(struct expert_rows *);
int waymark_experts_int8(struct expert_rows *);
int waymark_experts_int4(struct expert_rows *);
int waymark_experts_blocks(struct expert_rows *);
/* Those of many tokens: `ids` ascend and `share` is 1. */
int waymark_experts_bfloat_many(struct expert_rows *);
int waymark_experts_int8_many(struct expert_rows *);
int waymark_experts_int4_many(struct expert_rows *);
int waymark_experts_blocks_many(struct expert_rows *);

/* The `k` largest of rows of `experts` numbers `stride` apart: `ids` [rows, k] int32 in ascending
 * order, of equal numbers the first; and float32 `weights` [rows, k], softmax over all experts, or
 * over the k with `normalise`. With `sigmoid` of each number for itself: weights are those, divided
 * by their sum with `normalise`, and the largest are found with `correction` [experts] float32
 * added, if there is any. They are looked for in the `open_groups` of `groups` of equal size, at
 * most as many as `k` may be, with the largest sums of two; weights are times `scale`, and times
 * their expert's of `factors` [experts] float32, if there are any. */
struct route {
    const void *logits, *correction, *factors;
    void *ids, *weights;
    long rows, experts, k, stride, groups, open_groups;
    float scale;
    int normalise, sigmoid, is_bfloat, threads;
};
int waymark_route(struct route *);

/* The sums over k of rows `from` [tokens * k, width] times `weights` [tokens, k] float32, and of
 * `shared` [tokens, width] times the sigmoid of `gate`, whose numbers are `gate_stride` apart, if
 * there are any. Row `places`[i], int64, is that of pair i, row i without. */
struct weighted_sum {
    const void *from, *places, *weights, *shared, *gate;
    void *to;
    long tokens, k, width, gate_stride;
    int is_bfloat, threads;
};
int waymark_weighted_sum(struct weighted_sum *);

/* x / sqrt(mean(x^2) + epsilon) * scale over rows `from` [tokens, heads, width + passed], of which
 * the last `passed` numbers stay as they are; `scale` float32. */
struct rms_norm {
    const void *from, *scale;
    void *to;
    long tokens, heads, width, passed, token_stride, head_stride;
    float epsilon;
    int is_bfloat, threads;
};
int waymark_rms_norm(struct rms_norm *);

/* The same of float32 rows, times silu of `gate`, or its sigmoid; `is_bfloat` is about `gate` and
 * `to`. */
struct gated_rms_norm {
    const void *from, *scale, *gate;
    void *to;
    long tokens, heads, width, gate_stride;
    float epsilon;
    int sigmoid, is_bfloat, threads;
};
int waymark_gated_rms_norm(struct gated_rms_norm *);

/* RMS norm of the groups of float32 `from` [tokens, groups, width] times `scale` [groups, width],
 * and times silu(multiplier * gate), before the norm if `gate_first`; without `scale` there is no
 * norm. Tokens of `gate` are a stride apart; `is_bfloat` is about `gate` and `to`. */
struct group_norm {
    const void *from, *scale, *gate;
    void *to;
    long tokens, groups, width, gate_stride;
    float epsilon, multiplier;
    int gate_first, is_bfloat, threads;
};
int waymark_gated_group_norm(struct group_norm *);

/* Depthwise causal convolution and silu: `rows` [tokens + taps - 1, channels], and float32 `weight`
 * [taps, channels] and `bias` [channels], which may be missing; `to` [tokens, channels] is bfloat16
 * if `to_bfloat`, else float32. */
struct convolve {
    const void *rows, *weight, *bias;
    void *to;
    long tokens, channels, taps, stride;
    int is_bfloat, to_bfloat, threads;
};
int waymark_convolve(struct convolve *);

/* The same of one token after the other: `from` [tokens, channels], which lie `stride` apart, and
 * `tail` [taps - 1, channels] before them, updated in place. */
struct conv_step {
    const void *from;
    void *tail;
    const void *weight, *bias;
    void *to;
    long tokens, channels, taps, stride;
    int is_bfloat, to_bfloat;
};
int waymark_conv_step(struct conv_step *);

/* y = C * (bias + causal convolution of B x), of `tokens` rows of `projected` that hold B, C and x
 * side by side and lie `stride` apart; `to` [tokens, channels], `tail` [taps - 1, channels] before
 * the first, updated in place, and `rows` [tokens + taps - 1, channels], its own, in the same
 * type. `weight` [taps, channels] and `bias` [channels], which may be missing, are float32. */
struct short_conv {
    const void *projected;
    void *tail;
    const void *weight, *bias;
    void *to, *rows;
    long tokens, channels, taps, stride;
    int is_bfloat, threads;
};
int waymark_short_conv(struct short_conv *);

/* The gated delta rule, all float32: `queries`, `keys` [tokens, key_heads, key_dim] and `values`
 * [tokens, value_heads, value_dim] whose tokens are a stride apart, `decay`, `beta` [tokens,
 * value_heads], `to` [tokens, value_heads, value_dim], `state` [value_heads, key_dim, value_dim],
 * updated in place. `by_channel`: `decay` is [tokens, value_heads, key_dim]. */
struct delta_run {
    const void *queries, *keys, *values, *decay, *beta;
    void *state, *to;
    long tokens, key_heads, value_heads, key_dim, value_dim;
    long query_stride, key_stride, value_stride;
    int by_channel, threads;
    void *failed; /* its own */
};
/* One token after the other; `key_dim` is 1024 at most. */
int waymark_delta_step(struct delta_run *);
/* Many in blocks: `key_dim` is 256 at most, `value_dim` as well and a multiple of sixteen. */
int waymark_delta_run(struct delta_run *);

/* The log decay rate * softplus(step + bias) of rows of `decays` numbers, and multiplier *
 * sigmoid(beta) of rows of `heads`; `rate`, `bias` [decays] and both results are float32. */
struct delta_gates {
    const void *steps, *betas, *rate, *bias;
    void *decay, *beta;
    long tokens, decays, heads, step_stride, beta_stride;
    float multiplier;
    int is_bfloat, threads;
};
int waymark_delta_gates(struct delta_gates *);

/* softplus(multiplier * step + bias) of rows of `heads` numbers, within `shortest` and `longest`;
 * `bias` [heads] and `to` [tokens, heads] are float32. */
struct time_steps {
    const void *steps, *bias;
    void *to;
    long tokens, heads, stride;
    float multiplier, shortest, longest;
    int is_bfloat, threads;
};
int waymark_time_steps(struct time_steps *);

/* The state space of Mamba-2, all float32: `inputs` and `to` [tokens, heads, width], `b` and `c`
 * [tokens, groups, dim], whose tokens are a stride apart but those of `to`, `steps` [tokens,
 * heads], `rate` and `skip` [heads], `state` [heads, width, dim], updated in place. `dim` is a
 * multiple of sixteen and `width` 256 at most. */
struct mamba2 {
    const void *inputs, *b, *c, *steps, *rate, *skip;
    void *state, *to;
    long tokens, heads, groups, width, dim;
    long input_stride, b_stride, c_stride;
    int threads;
};
/* For one token, */
int waymark_mamba2_step(struct mamba2 *);
/* or for many, to the same bits. */
int waymark_mamba2_run(struct mamba2 *);

/* The selective scan of Mamba-1: `inputs` [tokens, channels], `b` and `c` [tokens, dim], whose
 * tokens are a stride apart, and which `is_bfloat` is about; float32 `steps` and `to` [tokens,
 * channels], `rate` and `state` [dim, channels], `skip` [channels]. `state` is updated in place.
 * `channels` is a multiple of sixteen and `dim` 64 at most. */
struct mamba1 {
    const void *inputs, *b, *c, *steps, *rate, *skip;
    void *state, *to;
    long tokens, channels, dim;
    long input_stride, b_stride, c_stride;
    int is_bfloat, threads;
};
/* For one token, */
int waymark_mamba1_step(struct mamba1 *);
/* or for many, to the same bits. */
int waymark_mamba1_run(struct mamba1 *);

/* Pairs (i, i + half) of every head rotate by the angles of `cosine` and `sine` [tokens, half], the
 * other numbers of `from` [tokens, heads, width] stay. With `wide_angles` these are float32
 * whatever the type of the heads. */
struct rotate {
    const void *from, *cosine, *sine;
    void *to;
    long tokens, heads, width, half, token_stride, head_stride;
    int is_bfloat, wide_angles, threads;
};
int waymark_rotate(struct rotate *);

/* A token's `queries` [kv_heads * group, dim] over the last `window` (all if 0) of `num_keys` keys
 * and values, all of whose tokens are a stride apart; then those of the next token, which has a key
 * more, for `tokens` of them. With `token`, which counts from 0, the first has as many keys as
 * there are tokens up to that one. `sinks` [kv_heads * group] are scores of one more key of each
 * query head, which has no value; NULL without. */
struct attend {
    const void *queries, *keys, *values;
    void *to;
    const void *token;
    const float *sinks;
    long tokens, num_keys, window, kv_heads, group, dim;
    long query_stride, key_stride, value_stride;
    float scale;
    int is_bfloat, threads;
    void *partial; /* its own, and the rest */
    long splits, splits_of_part;
};
int waymark_attend(struct attend *);

/* Several tokens' `queries` and `to` [num_queries, kv_heads * group, dim] over `num_keys` keys and
 * values, all bfloat16, whose tokens are a stride apart; `to` is contiguous. The queries belong to
 * the last of these tokens, and don't see what is behind them if `causal`. */
struct attend_many {
    const void *queries, *keys, *values;
    void *to;
    const float *sinks; /* as above */
    long num_queries, num_keys, window, kv_heads, group, dim;
    long query_stride, key_stride, value_stride;
    float scale;
    int causal, threads;
    int widened;  /* as of linear_bfloat_many */
    int on_tiles; /* its own, and the rest */
    void *failed;
    long rows_of_part;
};
int waymark_attend_many(struct attend_many *);

/* f(multiplier * gate) * up over rows of `width` numbers, `stride` and `up_stride` apart; `to`
 * [rows, width]. */
struct gated_product {
    const void *gate, *up;
    void *to;
    long rows, width, stride, up_stride;
    float multiplier, limit;
    int is_bfloat, threads;
};
/* f is silu, */
int waymark_swiglu(struct gated_product *);
/* or gelu in its tanh form, */
int waymark_geglu(struct gated_product *);
/* or relu. */
int waymark_reglu(struct gated_product *);
/* gelu of `gate` alone. */
int waymark_gelu(struct gated_product *);
/* gate * sigmoid(multiplier * gate) * (up + 1), the gate at most `limit` and up within it. */
int waymark_clamped_swiglu(struct gated_product *);

/* attended * sigmoid(gate) over [tokens, heads, width], `attended` and `to` contiguous; a head has
 * `width` gates, or one. */
struct open_gate {
    const void *attended, *gate;
    void *to;
    long tokens, heads, width, gates, token_stride, head_stride;
    int is_bfloat, threads;
};
int waymark_open_gate(struct open_gate *);

/* (first + multiplier * second) * scale over rows of `width` numbers, `first_stride` and
 * `second_stride` apart; `to` [rows, width]. */
struct add {
    const void *first, *second;
    void *to;
    long rows, width, first_stride, second_stride;
    float multiplier, scale;
    int is_bfloat, threads;
};
int waymark_add(struct add *);

/* Copies `bytes`, past the caches if `streamed`, for what is not read soon. */
struct copy {
    const void *from;
    void *to;
    long bytes;
    int streamed, threads;
};
int waymark_copy(struct copy *);

/* `rows` of `bytes` each, `stride` bytes apart, to row `token` of `to` and those behind it. */
struct store {
    const void *from;
    void *to;
    const void *token;
    long rows, bytes, stride;
};
int waymark_store(struct store *);

#endif
