/* The threads that share one operation's work: see thread_pool.c. */
#ifndef WAYMARK_TEAM_H
#define WAYMARK_TEAM_H

#define POOL_ARGUMENTS 192 /* bytes that a job's arguments may have */
#define POOL_TAKES(type) _Static_assert(sizeof(type) <= POOL_ARGUMENTS, "too large for a job")
#define POOL_RESULT 4096 /* bytes that the result of one part may have */
#define POOL_PARTS 4096  /* parts of a job that are shared out; with more it is not */

/* Works out one part into `result`, which is the thread's own. */
typedef void (*pool_compute)(const void *arguments, long part, void *result);
/* Puts the result of one part where it belongs. */
typedef void (*pool_keep)(const void *arguments, long part, const void *result);

/* Does all `parts` on up to `threads` threads, the caller's among them, and returns when they are
 * done. With `keep` a part may be worked out twice and is kept once, so `compute` must not change
 * anything but its result; without, `compute` does all of it, once. Which thread does which part
 * changes no bit as long as parts don't depend on each other. For one caller at a time. */
void pool_run(pool_compute compute, pool_keep keep, const void *arguments, long bytes, long parts,
              int threads);

/* Returns when no thread reads anything of a job any more. For whoever frees memory. */
void pool_quiesce(void);

/* As pool_run without `keep`, for prompts: on the threads that torch has there, if they are shared.
 * Two pools that wait in loops for each other's work would take each other's cores. */
void pool_rows(pool_compute compute, const void *arguments, long parts, int threads);

/* Calls a function with an argument on so many threads at once; OpenMP's GOMP_parallel. */
typedef void (*pool_parallel)(void (*)(void *), void *, unsigned threads, unsigned flags);

/* From now on pool_rows runs on the threads of this, which is torch's; NULL for our own. */
void pool_share_with(pool_parallel theirs);

/* The same with three functions of another OpenMP: openmp.c. */
void pool_share_with_intel(void *fork, void *push, void *number);

/* Until it is told again everything runs on our own threads: steps do, and their few rows must not
 * wake torch's in between. */
void pool_keep_rows(int kept);

/* Whether it does. */
int pool_shares_rows(void);

typedef void (*pool_row)(const void *arguments, long row);

/* pool_rows for `rows` rows of `width` numbers each, some rows a part. */
void pool_each(pool_row one_row, const void *arguments, long rows, long width, int threads);

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
