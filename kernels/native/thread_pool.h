/* Threads that share the work of one operation: see thread_pool.c. */
#ifndef WAYMARK_THREAD_POOL_H
#define WAYMARK_THREAD_POOL_H

#include <stdlib.h>

#define POOL_ARGUMENTS 192 /* bytes that a job's arguments may have */
#define POOL_TAKES(type) _Static_assert(sizeof(type) <= POOL_ARGUMENTS, "too large for a job")
#define POOL_RESULT 4096 /* bytes that the result of one part may have */
#define POOL_PARTS 4096  /* parts of a job that are shared out; with more it is not */

/* Computes one part into `result`, which belongs to the thread. */
typedef void (*pool_compute)(const void *arguments, long part, void *result);
/* Puts the result of one part where it belongs. */
typedef void (*pool_keep)(const void *arguments, long part, const void *result);

/* Runs all `parts` on up to `threads` threads, including the caller's, and returns when they
 * are done. With `keep` a part may be computed twice and is kept once, so `compute` must not
 * change anything but its result; without, it runs once. Bits don't depend on which thread runs
 * which part, as long as parts are independent. For one caller at a time. */
void pool_run(pool_compute compute, pool_keep keep, const void *arguments, long bytes, long parts,
              int threads);

/* Returns when no thread reads a job's data any more; call before freeing memory. */
void pool_quiesce(void);

/* As pool_run without `keep`, for prompts: on torch's threads, if they are shared. Two spinning
 * pools would take each other's cores. */
void pool_rows(pool_compute compute, const void *arguments, long parts, int threads);

/* Calls a function with an argument on so many threads at once; OpenMP's GOMP_parallel. */
typedef void (*pool_parallel)(void (*)(void *), void *, unsigned threads, unsigned flags);

/* Makes pool_rows use this OpenMP, which is torch's; NULL for our own threads. */
void pool_share_with(pool_parallel theirs);

/* The same with three functions of another OpenMP: openmp.c. */
void pool_share_with_intel(void *fork, void *push, void *number);

/* Whether it does. */
int pool_shares_rows(void);

/* Makes everything run on our own threads until changed again, for steps: their few rows must
 * not wake torch's threads. */
void pool_keep_rows(int kept);

typedef void (*pool_row)(const void *arguments, long row);

/* pool_rows for `rows` rows of `width` numbers each, some rows a part. */
void pool_each(pool_row one_row, const void *arguments, long rows, long width, int threads);

/* Defines `name`, a pool_row that calls `work` with a row and its type, a constant there. */
#define ROW_OF_EITHER_TYPE(name, type, work)                                                       \
    static void name(const void *given, long row) {                                                \
        const struct type *all = given;                                                            \
        if (all->is_bfloat)                                                                        \
            work(all, row, 1);                                                                     \
        else                                                                                       \
            work(all, row, 0);                                                                     \
    }

/* Defines waymark_`name`: `work` computes each of `rows` rows of `width` numbers. */
#define KERNEL_OF_ROWS(name, type, work, rows, width)                                              \
    ROW_OF_EITHER_TYPE(row_of_##name, type, work)                                                  \
    int waymark_##name(struct type *all) {                                                         \
        pool_each(row_of_##name, all, rows, width, all->threads);                                  \
        return 1;                                                                                  \
    }

/* Memory of a part, in whole cache lines; NULL if there is none, and `failed` is set. */
static inline void *room_of_part(long bytes, int *failed) {
    void *found = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!found) __atomic_store_n(failed, 1, __ATOMIC_RELAXED);
    return found;
}

/* How many of `total` equal pieces a part should have: at least `fewest`, and a few parts a thread.
 */
static inline long pool_share(long total, long fewest, int threads) {
    long share = (total + 8L * threads - 1) / (8L * threads);
    return share > fewest ? share : fewest;
}

/* How many parts of so many pieces there are. */
static inline long pool_parts(long total, long share) {
    return (total + share - 1) / share;
}

#endif
