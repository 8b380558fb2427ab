#include "native/thread_pool.h"

/* Replays recorded calls. */
struct call {
    int (*kernel)(void *);
    void *arguments;
};

/* Makes the calls from `first` to before `end`; returns the index reached, which is `end` on
 * success. */
long waymark_replay(const struct call *calls, long first, long end) {
    pool_keep_rows(1);
    while (first < end && calls[first].kernel(calls[first].arguments)) first++;
    pool_keep_rows(0);
    return first;
}
