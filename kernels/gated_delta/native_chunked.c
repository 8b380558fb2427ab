/* The gated delta rule for many tokens, in chunks of C, a thread some key heads. All float32, with
 * G the sums of log decays and Gamma_ij = e^(G_i - G_j):
 *
 *     (I + strictly_lower(beta K K^T Gamma)) D = beta (V - e^G K S)
 *     O = e^G Q S + lower(Q K^T Gamma) D;  S <- e^(G_C) S + (e^(G_C - G) K)^T D
 *
 * With a decay by channel chunks are shorter, because Gamma is then different in each product of a
 * key's numbers: dividing it between both sides would overflow.
 *
 * A run's chunks begin with its first token, so what is computed of them depends on no other run.
 */
#include <stdlib.h>

#include "gated_delta/rule.h"
#include "native/calls.h"
#include "native/thread_pool.h"
#include "native/transpose.h"

#define CHUNK 64
#define CHANNEL_CHUNK 16
#define MOST_DIM 256
/* Rows of D solved one by one; the rows before them are one product. */
#define SOLVED 16

/* A thread's own. Rows of queries follow those of keys. */
struct scratch {
    float rows[2 * CHUNK * MOST_DIM];  /* of unit length, `key_dim` numbers each */
    float packed[CHUNK * MOST_DIM];    /* keys as columns of sixteen */
    float scores[2 * CHUNK * CHUNK];   /* of keys and queries with keys */
    float reads[2 * CHUNK * MOST_DIM]; /* what both read from the state */
    float lower[CHUNK * CHUNK], weights[CHUNK * CHUNK];
    float deltas[CHUNK * MOST_DIM], keys_until_end[MOST_DIM * CHUNK];
    float kept[MOST_DIM]; /* of each row of the state at the end */
    /* By channel: sums of decays, and rows times what is left of the state that they read. */
    float sums[CHANNEL_CHUNK * MOST_DIM], faded[2 * CHANNEL_CHUNK * MOST_DIM];
};

/* A chunk of a key head. */
struct chunk {
    const struct delta_run *all;
    struct scratch *own;
    long key_head, start, count;
};

static struct product rows_by(const float *left, long left_width, const float *right,
                              long right_step, long right_stride, float *to, long to_width,
                              long words, long rows, long width, int more) {
    return (struct product){.left = (const char *)left,
                            .right = (const char *)right,
                            .to = (char *)to,
                            .left_stride = 4 * left_width,
                            .right_step = 4 * right_step,
                            .right_stride = 4 * right_stride,
                            .to_stride = 4 * to_width,
                            .words = words,
                            .rows = (int)rows,
                            .columns = (int)(width / COLUMN),
                            .more = more};
}

/* By a right side whose rows lie as they are, [words, width]. */
static void multiply_rows_by(const float *left, long left_width, const float *right, float *to,
                             long to_width, long words, long rows, long width, int more) {
    multiply_words(OF_FLOAT, rows_by(left, left_width, right, width, COLUMN, to, to_width, words,
                                     rows, width, more));
}

/* Keys and queries at unit length; unless by channel, keys also as columns, and both's scores. */
static void prepare(struct chunk at) {
    const struct delta_run *all = at.all;
    struct scratch *own = at.own;
    long dim = all->key_dim, padded = rounded_up(at.count, COLUMN);
    float *queries = own->rows + at.count * dim, length = 1.0f / sqrtf((float)dim);
    for (long token = 0; token < at.count; token++) {
        long row = at.start + token, head = at.key_head * dim;
        of_length((const float *)all->keys + row * all->key_stride + head, own->rows + token * dim,
                  dim, 1.0f);
        of_length((const float *)all->queries + row * all->query_stride + head,
                  queries + token * dim, dim, length);
    }
    if (all->by_channel) return;
    for (long token = 0; token < at.count; token += COLUMN)
        pack_column((const char *)(own->rows + token * dim), at.count - token, 4 * dim, 4 * dim,
                    STEP, dim, NULL, (char *)(own->packed + token * MOST_DIM));
    multiply_words(OF_FLOAT, rows_by(own->rows, dim, own->packed, COLUMN, COLUMN * MOST_DIM,
                                     own->scores, CHUNK, dim, 2 * at.count, padded, 0));
}

/* Gamma times scores: lower of keys, negative and without the diagonal, and that of queries. */
static void weigh(struct chunk at, const float *sums, const float *betas) {
    struct scratch *own = at.own;
    for (long row = 0; row < at.count; row++) {
        const float *of_key = own->scores + row * CHUNK;
        const float *of_query = own->scores + (at.count + row) * CHUNK;
        float *lower = own->lower + row * CHUNK, *weights = own->weights + row * CHUNK;
        float beta = -betas[row], sum = sums[row];
        for (long column = 0; column < CHUNK; column++) {
            float gamma = kept_of(sum - sums[column]);
            lower[column] = column < row ? beta * gamma * of_key[column] : 0.0f;
            weights[column] = column <= row ? gamma * of_query[column] : 0.0f;
        }
    }
}

/* All that decays of a value head's chunk. Returns the rows that read the state; `since_start` are
 * factors of what they read. */
static const float *fade(struct chunk at, long head, const float *betas, float *since_start) {
    const struct delta_run *all = at.all;
    struct scratch *own = at.own;
    float sums[CHUNK] = {0}, until_end[CHUNK], total = 0;
    for (long token = 0; token < at.count; token++) {
        total += ((const float *)all->decay)[(at.start + token) * all->value_heads + head];
        sums[token] = total;
        since_start[token] = kept_of(total);
    }
    weigh(at, sums, betas);
    for (long token = 0; token < CHUNK; token++) until_end[token] = kept_of(total - sums[token]);
    for (long place = 0; place < all->key_dim; place++) {
        own->kept[place] = since_start[at.count - 1];
        for (long token = 0; token < at.count; token += COLUMN) {
            const float *keys = own->packed + token * MOST_DIM + place * COLUMN;
            float *row = own->keys_until_end + place * CHUNK + token;
            for (long each = 0; each < COLUMN; each++)
                row[each] = keys[each] * until_end[token + each];
        }
    }
    return own->rows;
}

/* Like `weigh`, of one row by channel. */
static void weigh_channels(struct chunk at, long row, float beta) {
    struct scratch *own = at.own;
    long dim = at.all->key_dim;
    const float *keys = own->rows, *queries = own->rows + at.count * dim;
    const float *sums = own->sums + row * dim;
    float *lower = own->lower + row * CHUNK, *weights = own->weights + row * CHUNK;
    for (long column = 0; column < CHANNEL_CHUNK; column++) {
        float weighed[MOST_DIM];
        lower[column] = weights[column] = 0.0f;
        if (column > row) continue;
        for (long place = 0; place < dim; place++)
            weighed[place] =
                kept_of(sums[place] - own->sums[column * dim + place]) * keys[column * dim + place];
        weights[column] = sum_of_products(queries + row * dim, weighed, dim);
        if (column < row) lower[column] = -beta * sum_of_products(keys + row * dim, weighed, dim);
    }
}

/* Like `fade`, by channel. */
static const float *fade_channels(struct chunk at, long head, const float *betas,
                                  float *since_start) {
    const struct delta_run *all = at.all;
    struct scratch *own = at.own;
    long dim = all->key_dim, count = at.count;
    const float *last = own->sums + (count - 1) * dim;
    for (long token = 0; token < count; token++) {
        const float *decay = (const float *)all->decay;
        decay += ((at.start + token) * all->value_heads + head) * dim;
        float *sums = own->sums + token * dim;
        for (long place = 0; place < dim; place++) {
            sums[place] = decay[place] + (token ? sums[place - dim] : 0.0f);
            float kept = kept_of(sums[place]);
            long key = token * dim + place, query = key + count * dim;
            own->faded[key] = own->rows[key] * kept;
            own->faded[query] = own->rows[query] * kept;
        }
        weigh_channels(at, token, betas[token]);
        since_start[token] = 1.0f;
    }
    for (long place = 0; place < dim; place++) {
        own->kept[place] = kept_of(last[place]);
        for (long token = 0; token < count; token++)
            own->keys_until_end[place * CHUNK + token] =
                own->rows[token * dim + place] *
                kept_of(last[place] - own->sums[token * dim + place]);
    }
    return own->faded;
}

/* (I + lower) D = errors, in place; `lower` is there as its negative. */
static void solve(const float *lower, float *errors, long count, long width) {
    for (long first = 0; first < count; first += SOLVED) {
        long end = smaller(first + SOLVED, count);
        if (first)
            multiply_rows_by(lower + first * CHUNK, CHUNK, errors, errors + first * width, width,
                             first, end - first, width, 1);
        for (long row = first + 1; row < end; row++)
            for (long before = first; before < row; before++) {
                float factor = lower[row * CHUNK + before];
                const float *from = errors + before * width;
                float *to = errors + row * width;
                for (long place = 0; place < width; place++) to[place] += factor * from[place];
            }
    }
}

/* Answers of a value head, and its state updated. */
static void one_head(struct chunk at, long head) {
    const struct delta_run *all = at.all;
    struct scratch *own = at.own;
    long dim = all->key_dim, width = all->value_dim, count = at.count;
    float *state = (float *)all->state + head * dim * width;
    long to_width = all->value_heads * width;
    float *to = (float *)all->to + at.start * to_width + head * width;
    float betas[CHUNK], since_start[CHUNK];
    for (long token = 0; token < count; token++)
        betas[token] = ((const float *)all->beta)[(at.start + token) * all->value_heads + head];
    const float *rows = (all->by_channel ? fade_channels : fade)(at, head, betas, since_start);
    multiply_rows_by(rows, dim, state, own->reads, width, dim, 2 * count, width, 0);
    for (long token = 0; token < count; token++) {
        const float *value =
            (const float *)all->values + (at.start + token) * all->value_stride + head * width;
        const float *of_key = own->reads + token * width, *of_query = of_key + count * width;
        float *delta = own->deltas + token * width, *answer = to + token * to_width;
        float beta = betas[token], kept = since_start[token];
        for (long place = 0; place < width; place++) {
            delta[place] = beta * (value[place] - kept * of_key[place]);
            answer[place] = kept * of_query[place];
        }
    }
    solve(own->lower, own->deltas, count, width);
    for (long row = 0; row < count; row += SOLVED)
        multiply_rows_by(own->weights + row * CHUNK, CHUNK, own->deltas, to + row * to_width,
                         to_width, smaller(row + SOLVED, count), smaller(SOLVED, count - row),
                         width, 1);
    for (long row = 0; row < dim; row++)
        for (long place = 0; place < width; place++) state[row * width + place] *= own->kept[row];
    multiply_rows_by(own->keys_until_end, CHUNK, own->deltas, state, width, count, dim, width, 1);
}

static void one_key_head(const void *given, long key_head, void *result) {
    const struct delta_run *all = given;
    long copies = all->value_heads / all->key_heads;
    struct scratch *own = room_of_part(sizeof *own, all->failed);
    (void)result;
    if (!own) return;
    unsigned before = drop_smallest();
    long tokens = all->by_channel ? CHANNEL_CHUNK : CHUNK;
    for (long start = 0; start < all->tokens; start += tokens) {
        struct chunk at = {all, own, key_head, start, smaller(tokens, all->tokens - start)};
        prepare(at);
        for (long copy = 0; copy < copies; copy++) one_head(at, key_head * copies + copy);
    }
    keep_smallest(before);
    free(own);
}

int waymark_delta_run(struct delta_run *given) {
    struct delta_run all = *given; /* which may be called again */
    int failed = 0;
    all.failed = &failed;
    pool_rows(one_key_head, &all, all.key_heads, all.threads);
    return !failed;
}
