/* One token attends to all before it, a thread some stretches of keys.
 *
 * Stretches have a fixed length and are put together in their order, so the bits don't depend on
 * the number of threads. Each key and value is read once for all query heads that share it.
 */
#include <float.h>
#include <stdlib.h>

#include "native/calls.h"
#include "native/numbers.h"
#include "native/team.h"

#define STRETCH 256
#define MOST_GROUP 32
#define MOST_DIM 512
TEAM_TAKES(struct attend);

/* Of a stretch and a query head: largest score, sum, then the values' sum [dim]. */
static inline float *partial_of(const struct attend *all, long number, long head) {
    long heads = all->kv_heads * all->group;
    return (float *)all->partial + (number * heads + head) * (all->dim + 2);
}

INLINE floats load_lanes(const void *from, long place, int is_bfloat) {
    return is_bfloat ? load_bfloats((const uint16_t *)from + place)
                     : load_floats((const float *)from + place);
}

INLINE float product(const float *query, const void *key, long dim, int is_bfloat) {
    floats total = {0};
    long place = 0;
    for (; place + LANES <= dim; place += LANES)
        total += load_floats(query + place) * load_lanes(key, place, is_bfloat);
    float found = sum_of(total);
    for (; place < dim; place++) found += query[place] * read_number(key, place, is_bfloat);
    return found;
}

INLINE void add_scaled(float *to, const void *value, float weight, long dim, int is_bfloat) {
    long place = 0;
    for (; place + LANES <= dim; place += LANES)
        store_floats(to + place,
                     load_floats(to + place) + weight * load_lanes(value, place, is_bfloat));
    for (; place < dim; place++) to[place] += weight * read_number(value, place, is_bfloat);
}

INLINE void stretch(const struct attend *all, long which, int is_bfloat) {
    long head = which / all->stretches, number = which % all->stretches, size = is_bfloat ? 2 : 4;
    long dim = all->dim, group = all->group, start = number * STRETCH;
    long end = start + STRETCH < all->num_keys ? start + STRETCH : all->num_keys;
    float query[MOST_DIM], scores[MOST_GROUP][STRETCH];
    const char *keys = (const char *)all->keys + head * dim * size;
    const char *values = (const char *)all->values + head * dim * size;
    for (long each = 0; each < group; each++) {
        for (long place = 0; place < dim; place++)
            query[place] = all->scale * read_number(all->queries,
                                                    (head * group + each) * dim + place, is_bfloat);
        for (long key = start; key < end; key++)
            scores[each][key - start] =
                product(query, keys + key * all->key_stride * size, dim, is_bfloat);
    }
    for (long each = 0; each < group; each++) {
        float *to = partial_of(all, number, head * group + each);
        float largest = -FLT_MAX, sum = 0; /* not -infinity, whose distance from itself is NaN */
        for (long key = 0; key < end - start; key++)
            largest = scores[each][key] > largest || scores[each][key] != scores[each][key]
                          ? scores[each][key]
                          : largest;
        for (long key = 0; key < end - start; key++) {
            scores[each][key] = exponential(scores[each][key] - largest);
            sum += scores[each][key];
        }
        to[0] = largest;
        to[1] = sum;
        memset(to + 2, 0, dim * sizeof *to);
    }
    for (long key = start; key < end; key++)
        for (long each = 0; each < group; each++)
            add_scaled(partial_of(all, number, head * group + each) + 2,
                       values + key * all->value_stride * size, scores[each][key - start], dim,
                       is_bfloat);
}

static void some_stretches(const void *given, long part, void *result) {
    const struct attend *all = given;
    long first = part * all->stretches_of_part, end = first + all->stretches_of_part;
    long total = all->stretches * all->kv_heads;
    (void)result;
    for (long each = first; each < (end < total ? end : total); each++) {
        if (all->is_bfloat)
            stretch(all, each, 1);
        else
            stretch(all, each, 0);
    }
}

/* The stretches of one head, in their order, into `to` [dim]. */
static void put_together(const struct attend *all, long head, void *to) {
    long dim = all->dim;
    float largest = *partial_of(all, 0, head), sum = 0, totals[MOST_DIM] = {0};
    for (long number = 1; number < all->stretches; number++) {
        float other = *partial_of(all, number, head);
        largest = other > largest || other != other ? other : largest;
    }
    for (long number = 0; number < all->stretches; number++) {
        const float *from = partial_of(all, number, head);
        float weight = exponential(from[0] - largest);
        sum += weight * from[1];
        for (long place = 0; place < dim; place++) totals[place] += weight * from[2 + place];
    }
    for (long place = 0; place < dim; place++)
        write_number(to, head * dim + place, totals[place] / sum, all->is_bfloat);
}

/* As many numbers as were ever wanted at once, NULL without memory for them. */
static float *room_for(long numbers) {
    static float *partial;
    static long room;
    if (numbers > room) {
        free(partial);
        partial = malloc(numbers * sizeof *partial);
        room = partial ? numbers : 0;
    }
    return partial;
}

/* Leaves away what a window hides. */
static void choose_keys(struct attend *all) {
    long size = all->is_bfloat ? 2 : 4;
    if (all->token) all->num_keys = *(const long *)all->token + 1;
    if (all->window == 0 || all->num_keys <= all->window) return;
    long hidden = all->num_keys - all->window;
    all->keys = (const char *)all->keys + hidden * all->key_stride * size;
    all->values = (const char *)all->values + hidden * all->value_stride * size;
    all->num_keys = all->window;
}

int waymark_attend(struct attend *given) {
    struct attend all = *given; /* which may be called again */
    choose_keys(&all);
    all.stretches = (all.num_keys + STRETCH - 1) / STRETCH;
    long heads = all.kv_heads * all.group, total = all.stretches * all.kv_heads;
    all.partial = room_for(all.stretches * heads * (all.dim + 2));
    if (!all.partial) return 0;
    all.stretches_of_part = team_share(total, 1, all.threads);
    team_run(some_stretches, NULL, &all, sizeof all, team_parts(total, all.stretches_of_part),
             all.threads);
    for (long head = 0; head < heads; head++) put_together(&all, head, all.to);
    return 1;
}
