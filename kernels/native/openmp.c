/* Torch's threads if its OpenMP is Intel's or LLVM's without GOMP_parallel, as on Windows:
 * three other functions replace it. */
#include <stddef.h>
#include <stdint.h>

#include "native/thread_pool.h"

/* Where a call comes from, as they want to be told. */
static struct place {
    int32_t reserved, flags, more[2];
    const char *source;
} here = {0, 2, {0, 0}, ";unknown;unknown;0;0;;"};

typedef void (*threads_work)(void *);
/* What each thread is given to do, with what was handed to `fork_call`. */
typedef void (*micro_task)(int32_t *thread, int32_t *bound, threads_work work, void *argument);

static void (*fork_call)(struct place *, int32_t arguments, micro_task task, ...);
static void (*push_threads)(struct place *, int32_t thread, int32_t threads);
static int32_t (*own_number)(struct place *);

static void one_thread(int32_t *thread, int32_t *bound, threads_work work, void *argument) {
    (void)thread, (void)bound;
    work(argument);
}

static void parallel(threads_work work, void *argument, unsigned threads, unsigned flags) {
    (void)flags;
    push_threads(&here, own_number(&here), (int32_t)threads);
    fork_call(&here, 2, one_thread, work, argument);
}

/* As pool_share_with: __kmpc_fork_call, __kmpc_push_num_threads and __kmpc_global_thread_num. */
void pool_share_with_intel(void *fork, void *push, void *number) {
    fork_call = (void (*)(struct place *, int32_t, micro_task, ...))fork;
    push_threads = (void (*)(struct place *, int32_t, int32_t))push;
    own_number = (int32_t (*)(struct place *))number;
    pool_share_with(parallel);
}
