/* silu(gate) * up over rows, a thread some rows. */
#include "native/numbers.h"
#include "native/team.h"

#define FEWEST 32768 /* numbers of a part: fewer are done before a thread wakes */

struct product {
    const void *gate, *up;
    void *to;
    long rows, width, stride, rows_of_part;
    int is_bfloat;
};

static inline __attribute__((always_inline)) void one_row(const struct product *all, long row,
                                                          int is_bfloat) {
    long from = row * all->stride, to = row * all->width;
    for (long place = 0; place < all->width; place++) {
        float gate = silu(read_number(all->gate, from + place, is_bfloat));
        float up = read_number(all->up, from + place, is_bfloat);
        write_number(all->to, to + place, gate * up, is_bfloat);
    }
}

static void some_rows(const void *given, long part, void *result) {
    const struct product *all = given;
    long end = (part + 1) * all->rows_of_part;
    (void)result;
    for (long row = part * all->rows_of_part; row < (end < all->rows ? end : all->rows); row++) {
        if (all->is_bfloat)
            one_row(all, row, 1);
        else
            one_row(all, row, 0);
    }
}

/* `gate` and `up` are rows of `width` numbers `stride` apart, `to` [rows, width]; all bfloat16 or
 * all float32. */
void waymark_swiglu(const void *gate, const void *up, void *to, long rows, long width, long stride,
                    int is_bfloat, int threads) {
    struct product all = {.gate = gate,
                          .up = up,
                          .to = to,
                          .rows = rows,
                          .width = width,
                          .stride = stride,
                          .is_bfloat = is_bfloat};
    all.rows_of_part = team_share(rows, 1 + FEWEST / width, threads);
    team_rows(some_rows, &all, team_parts(rows, all.rows_of_part), threads);
}
