/* The thread pool's interface to the system: threads, a lock, a condition and a clock. */
#ifndef WAYMARK_THREADS_H
#define WAYMARK_THREADS_H

#include <stdint.h>

#ifdef _WIN32

#include <windows.h>

typedef SRWLOCK system_lock;
typedef CONDITION_VARIABLE system_condition;
#define SYSTEM_LOCK SRWLOCK_INIT
#define SYSTEM_CONDITION CONDITION_VARIABLE_INIT

static inline void system_acquire(system_lock *lock) {
    AcquireSRWLockExclusive(lock);
}

static inline void system_release(system_lock *lock) {
    ReleaseSRWLockExclusive(lock);
}

static inline void system_wait(system_condition *condition, system_lock *lock) {
    SleepConditionVariableSRW(condition, lock, INFINITE, 0);
}

static inline void system_wake_all(system_condition *condition) {
    WakeAllConditionVariable(condition);
}

static inline void system_yield(void) {
    SwitchToThread();
}

static inline int64_t now_ns(void) {
    LARGE_INTEGER ticks, a_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&a_second);
    int64_t seconds = ticks.QuadPart / a_second.QuadPart;
    return seconds * 1000000000 +
           ticks.QuadPart % a_second.QuadPart * 1000000000 / a_second.QuadPart;
}

/* What a thread begins with: DWORD WINAPI in the system's words. */
#define SYSTEM_THREAD(name) static DWORD WINAPI name(LPVOID argument)

/* Whether there is one thread more, whose number is its argument. */
static inline int system_start(LPTHREAD_START_ROUTINE begin, int number) {
    HANDLE thread = CreateThread(NULL, 0, begin, (LPVOID)(intptr_t)number, 0, NULL);
    return thread && CloseHandle(thread);
}

/* Nothing forks there. */
static inline int system_at_fork(void (*in_child)(void)) {
    (void)in_child;
    return 1;
}

#else

#include <pthread.h>
#include <sched.h>
#include <time.h>

typedef pthread_mutex_t system_lock;
typedef pthread_cond_t system_condition;
#define SYSTEM_LOCK PTHREAD_MUTEX_INITIALIZER
#define SYSTEM_CONDITION PTHREAD_COND_INITIALIZER

static inline void system_acquire(system_lock *lock) {
    pthread_mutex_lock(lock);
}

static inline void system_release(system_lock *lock) {
    pthread_mutex_unlock(lock);
}

static inline void system_wait(system_condition *condition, system_lock *lock) {
    pthread_cond_wait(condition, lock);
}

static inline void system_wake_all(system_condition *condition) {
    pthread_cond_broadcast(condition);
}

static inline void system_yield(void) {
    sched_yield();
}

static inline int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

#define SYSTEM_THREAD(name) static void *name(void *argument)

/* Whether there is one thread more, whose number is its argument. */
static inline int system_start(void *(*begin)(void *), int number) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, begin, (void *)(intptr_t)number)) return 0;
    pthread_detach(thread);
    return 1;
}

/* Whether `in_child` will be called in every process that is forked. */
static inline int system_at_fork(void (*in_child)(void)) {
    return pthread_atfork(NULL, NULL, in_child) == 0;
}

#endif

#endif
