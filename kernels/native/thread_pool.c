/* A thread pool for work of some microseconds, on machines that other programs use too.
 *
 * Parts are taken one by one, so a thread with less of its core does less. A thread can be
 * preempted in the middle of a part for milliseconds; then the caller repeats that part. The late
 * thread's result is discarded, because its claim has expired.
 *
 * A late thread still reads what its job pointed to. So nothing that repeated jobs read may be
 * freed before `pool_quiesce`.
 */
#define _GNU_SOURCE
#include "thread_pool.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "native/threads.h"

#define MOST_THREADS 255
/* Spinning costs less than being woken: the next operation comes within microseconds. But if
 * another program needs the core, a spinning thread wastes its time slice. */
#define LOOP_NS 200000
#define CROWDED_LOOP_NS 5000
/* A spinning thread that loses its core for this long assumes that it shares the core for as
 * long. */
#define PUT_OFF_NS 1000000
#define CROWDED_NS 100000000
/* A part takes 5 to 40 microseconds; a thread that takes longer was preempted. */
#define PATIENCE_NS 100000

struct job {
    pool_compute compute;
    pool_keep keep;
    char arguments[POOL_ARGUMENTS] __attribute__((aligned(64)));
};

static struct job current;
/* generation << 40 | threads << 32 | end << 16 | first: the unclaimed parts, read and claimed as
 * one word. The caller takes from the front, the others from the back. */
static _Atomic uint64_t ticket;
/* generation << 2 | one of these, for every part. */
enum { PENDING, KEEPING, DONE };
static _Atomic uint64_t states[POOL_PARTS];
static _Atomic int num_inside, num_asleep;
static _Atomic int64_t crowded_until;
static int num_started = 1; /* the caller counts */
static system_lock lock = SYSTEM_LOCK;
static system_condition awake = SYSTEM_CONDITION;

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline uint64_t generation_of(uint64_t value) {
    return value >> 40;
}
static inline int threads_of(uint64_t value) {
    return (value >> 32) & 0xff;
}
static inline long end_of(uint64_t value) {
    return (value >> 16) & 0xffff;
}
static inline long first_of(uint64_t value) {
    return value & 0xffff;
}

/* The next part for thread `index`, and its generation; -1 if there is none. */
static long claim(int index, uint64_t *generation) {
    uint64_t seen = atomic_load(&ticket);
    while (index < threads_of(seen) && first_of(seen) < end_of(seen)) {
        uint64_t left = index == 0 ? seen + 1 : seen - (1 << 16);
        if (atomic_compare_exchange_weak(&ticket, &seen, left)) {
            *generation = generation_of(seen);
            return index == 0 ? first_of(seen) : end_of(seen) - 1;
        }
    }
    return -1;
}

static int is_pending(long part, uint64_t generation) {
    return atomic_load(&states[part]) == (generation << 2 | PENDING);
}

/* Moves a pending part to `state`; returns whether it was pending. */
static int take(long part, uint64_t generation, int state) {
    uint64_t expected = generation << 2 | PENDING;
    return atomic_compare_exchange_strong(&states[part], &expected, generation << 2 | state);
}

static void work(const struct job *job, long part, uint64_t generation) {
    char result[POOL_RESULT] __attribute__((aligned(64)));
    job->compute(job->arguments, part, result);
    if (job->keep) {
        if (!take(part, generation, KEEPING)) { /* too late: somebody did it again */
            atomic_store(&crowded_until, now_ns() + CROWDED_NS);
            return;
        }
        job->keep(job->arguments, part, result);
    }
    atomic_store(&states[part], generation << 2 | DONE);
}

/* Takes parts until none is left. */
static void help(int index) {
    uint64_t generation;
    long part;
    atomic_fetch_add(&num_inside, 1);
    while ((part = claim(index, &generation)) >= 0) {
        struct job job = current;
        /* While the part is pending the job can't have changed, so the copy is whole. A processor
         * may read earlier what comes later, but not across a fence; `pool_run` has the other. */
        atomic_thread_fence(memory_order_acquire);
        if (is_pending(part, generation)) work(&job, part, generation);
    }
    atomic_fetch_sub(&num_inside, 1);
}

static int has_work(int index) {
    uint64_t seen = atomic_load(&ticket);
    return index < threads_of(seen) && first_of(seen) < end_of(seen);
}

static void sleep_until_work(int index) {
    system_acquire(&lock);
    atomic_fetch_add(&num_asleep, 1);
    while (!has_work(index)) system_wait(&awake, &lock);
    atomic_fetch_sub(&num_asleep, 1);
    system_release(&lock);
}

static void loop_until_work(int index) {
    int64_t began = now_ns(), last = began;
    int64_t until = began + (began < atomic_load(&crowded_until) ? CROWDED_LOOP_NS : LOOP_NS);
    while (!has_work(index) && last < until) {
        for (int round = 0; round < 16 && !has_work(index); round++) pause_briefly();
        int64_t now = now_ns();
        if (now - last > PUT_OFF_NS) atomic_store(&crowded_until, now + CROWDED_NS);
        last = now;
    }
}

SYSTEM_THREAD(member) {
    int index = (int)(intptr_t)argument;
    for (;;) {
        loop_until_work(index);
        if (!has_work(index)) sleep_until_work(index);
        help(index);
    }
    return 0;
}

/* A forked process has none of the threads, and nothing finishes their parts. */
static void forget(void) {
    num_started = 1;
    atomic_store(&num_inside, 0);
    atomic_store(&num_asleep, 0);
    lock = (system_lock)SYSTEM_LOCK;
    awake = (system_condition)SYSTEM_CONDITION;
}

/* Starts as many threads as requested, or as the system allows. */
static int start(int threads) {
    static int prepared;
    if (!prepared) prepared = system_at_fork(forget);
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    while (num_started < threads && system_start(member, num_started)) num_started++;
    return threads < num_started ? threads : num_started;
}

/* The caller can do all parts, so a thread that was not woken is not waited for. */
static void publish(long parts, int threads, uint64_t generation) {
    for (long part = 0; part < parts; part++)
        atomic_store_explicit(&states[part], generation << 2 | PENDING, memory_order_relaxed);
    atomic_store(&ticket, generation << 40 | (uint64_t)threads << 32 | (uint64_t)parts << 16);
    /* Wakes only threads that this job needs. */
    if (atomic_load(&num_asleep) > num_started - threads) {
        system_acquire(&lock);
        system_wake_all(&awake);
        system_release(&lock);
    }
}

/* Waits for claimed parts, or repeats them. */
static void finish(long parts, uint64_t generation) {
    uint64_t done = generation << 2 | DONE;
    int64_t until = 0;
    for (long part = 0; part < parts; part++) {
        for (long round = 1; atomic_load(&states[part]) != done; round++) {
            pause_briefly();
            if (round % 64) continue;
            int64_t now = now_ns();
            if (until == 0) until = now + PATIENCE_NS;
            if (now < until) continue;
            if (!current.keep) {
                system_yield();
            } else if (take(part, generation, KEEPING)) {
                char result[POOL_RESULT] __attribute__((aligned(64)));
                current.compute(current.arguments, part, result);
                current.keep(current.arguments, part, result);
                atomic_store(&states[part], done);
            }
        }
    }
}

/* Without telling anybody. */
static void alone(pool_compute compute, pool_keep keep, const void *arguments, long parts) {
    char result[POOL_RESULT] __attribute__((aligned(64)));
    for (long part = 0; part < parts; part++) {
        compute(arguments, part, result);
        if (keep) keep(arguments, part, result);
    }
}

void pool_run(pool_compute compute, pool_keep keep, const void *arguments, long bytes, long parts,
              int threads) {
    static uint64_t generation;
    if (parts == 1 || parts > POOL_PARTS || threads == 1) {
        alone(compute, keep, arguments, parts);
        return;
    }
    threads = start(threads > parts ? (int)parts : threads);
    generation = (generation + 1) & 0xffffff;
    atomic_thread_fence(memory_order_release);
    current.compute = compute;
    current.keep = keep;
    memcpy(current.arguments, arguments, bytes);
    publish(parts, threads, generation);
    help(0);
    finish(parts, generation);
}

/* ------------------------------------------------------------------ prompts */

static pool_parallel parallel;
static int rows_are_kept;

void pool_share_with(pool_parallel theirs) {
    parallel = theirs;
}

void pool_keep_rows(int kept) {
    rows_are_kept = kept;
}

int pool_shares_rows(void) {
    return parallel != NULL;
}

struct parts {
    pool_compute compute;
    const void *arguments;
    long first, end;
    _Atomic long next; /* that nobody took */
};

/* What each of torch's threads does. */
static void take_parts(void *given) {
    struct parts *all = given;
    char result[POOL_RESULT] __attribute__((aligned(64)));
    for (long part; (part = atomic_fetch_add(&all->next, 1)) < all->end;)
        all->compute(all->arguments, part, result);
}

/* The same on our own. */
static void take_one(const void *given, long part, void *result) {
    struct parts *const *all = given;
    (*all)->compute((*all)->arguments, (*all)->first + part, result);
}

void pool_rows(pool_compute compute, const void *arguments, long parts, int threads) {
    struct parts all = {compute, arguments, 0, parts, 0}, *given = &all;
    if (parts == 1 || threads == 1) {
        alone(compute, NULL, arguments, parts);
    } else if (parallel && !rows_are_kept) {
        parallel(take_parts, &all, threads, 0);
    } else {
        for (; all.first < parts; all.first += POOL_PARTS) {
            long left = parts - all.first;
            pool_run(take_one, NULL, &given, sizeof given, left < POOL_PARTS ? left : POOL_PARTS,
                     threads);
        }
    }
}

/* ------------------------------------------------------------------ rows */

#define FEWEST_NUMBERS 32768 /* of a part: fewer are done before a thread wakes */

struct rows {
    pool_row one_row;
    const void *arguments;
    long rows, rows_of_part;
};

static void some_rows(const void *given, long part, void *result) {
    const struct rows *all = given;
    long end = (part + 1) * all->rows_of_part;
    (void)result;
    for (long row = part * all->rows_of_part; row < (end < all->rows ? end : all->rows); row++)
        all->one_row(all->arguments, row);
}

void pool_each(pool_row one_row, const void *arguments, long rows, long width, int threads) {
    long share = pool_share(rows, 1 + FEWEST_NUMBERS / (width > 0 ? width : 1), threads);
    struct rows all = {one_row, arguments, rows, share};
    pool_rows(some_rows, &all, pool_parts(rows, share), threads);
}

void pool_quiesce(void) {
    while (atomic_load(&num_inside) > 0) system_yield();
}
