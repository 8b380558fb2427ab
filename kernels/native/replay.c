#include "native/thread_pool.h"

/* Calls that were kept, made again one after the other. */
struct call {
    int (*kernel)(void *);
    void *arguments;
};

/* Those from `first` to before `end`; returns where it stopped, which is `end` if all went well. */
long waymark_replay(const struct call *calls, long first, long end) {
    pool_keep_rows(1);
    while (first < end && calls[first].kernel(calls[first].arguments)) first++;
    pool_keep_rows(0);
    return first;
}
